//! Functions: name, file and lines from a SharedFunctionInfo.

use super::bytecode::{baseline_offset, from_frame, source_offset};
use super::code::V8Code;
use super::frame::V8FrameWords;
use super::layout::V8Layout;
use super::object::{field, instance_type, of_type, smi};
use super::scope::scope;
use super::script::{place, script_name, script_of};
use super::text::text;
use crate::runtimes::TargetMemory;

/// One function as it is in its script.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct V8Function {
    /// Name, also one it got from where it was assigned; empty for an anonymous function and the code of a script.
    pub(crate) name: String,
    /// Path or URL of its script; empty if that has none, as with `eval`, or the function is built into V8.
    pub(crate) file: String,
    /// Line and column of the start of its parameters, from 1.
    pub(crate) line: Option<u32>,
    pub(crate) column: Option<u32>,
    /// Which function this is: equal to the identity of a frame's words if they mean this function.
    pub(crate) identity: u64,
    shared: u64,
    /// Where its text begins and ends in the source; absent if the function is built into V8.
    range: Option<(u32, u32)>,
}

/// Name and place of a function before its script is looked at.
struct V8Named {
    name: String,
    start: Option<u32>,
    end: u32,
}

impl V8Function {
    /// Reads the function at `shared`, a tagged pointer to a SharedFunctionInfo; `None` if there is none (any more) or
    /// if it changed while it was read.
    pub(crate) fn read(memory: &impl TargetMemory, layout: &V8Layout, shared: u64) -> Option<Self> {
        of_type(memory, layout, shared, layout.types.shared)?;
        let identity = layout.frame.identity(memory, shared)?;
        let named = named(memory, layout, shared)?;
        let owner = field(memory, shared, layout.function.script)?;
        let script = script_of(memory, layout, owner);
        // Functions built into V8 have "undefined" there; anything else is a script that is being moved.
        if script.is_none() && instance_type(memory, layout, owner)? != layout.types.oddball {
            return None;
        }
        let file = script.map_or(Some(String::new()), |script| script_name(memory, layout, script))?;
        let start = script.zip(named.start).and_then(|(script, start)| place(memory, layout, script, start));
        // A collection may have moved the function or put another one in its place meanwhile.
        of_type(memory, layout, shared, layout.types.shared)?;
        if layout.frame.identity(memory, shared)? != identity {
            return None;
        }
        Some(Self {
            name: named.name,
            file,
            line: start.map(|start| start.line),
            column: start.map(|start| start.column),
            identity,
            shared,
            range: script.and(named.start).map(|start| (start, named.end)),
        })
    }

    /// Line that an interpreted frame of this function is at; `None` if V8 has no source positions of it so far.
    pub(crate) fn interpreted_line(
        &self,
        memory: &impl TargetMemory,
        layout: &V8Layout,
        frame: &V8FrameWords,
    ) -> Option<u32> {
        self.line(memory, layout, from_frame(layout, frame.raw_bytecode_offset()?)?)
    }

    /// Line that baseline code of this function is at: `pc` is a return address or an instruction.
    pub(crate) fn baseline_line(
        &self,
        memory: &impl TargetMemory,
        layout: &V8Layout,
        code: &V8Code,
        pc: u64,
    ) -> Option<u32> {
        self.line(memory, layout, baseline_offset(memory, layout, self.shared, code, pc)?)
    }

    /// Line of the bytecode at `bytecode_offset`, from the first bytecode.
    pub(crate) fn line(
        &self,
        memory: &impl TargetMemory,
        layout: &V8Layout,
        bytecode_offset: u32,
    ) -> Option<u32> {
        let offset = source_offset(memory, layout, self.shared, bytecode_offset)?;
        self.line_of_source(memory, layout, offset)
    }

    /// Line of the unit at `offset` of the source; `None` outside the function.
    pub(crate) fn line_of_source(
        &self,
        memory: &impl TargetMemory,
        layout: &V8Layout,
        offset: u32,
    ) -> Option<u32> {
        let (start, end) = self.range?;
        let script = script_of(memory, layout, field(memory, self.shared, layout.function.script)?)?;
        let found = place(memory, layout, script, offset).filter(|_| (start..=end).contains(&offset))?;
        of_type(memory, layout, self.shared, layout.types.shared)?;
        (layout.frame.identity(memory, self.shared)? == self.identity).then_some(found.line)
    }
}

/// Name and place of a function. Compiled functions have a ScopeInfo; others have a name or nothing in its place, and
/// the rest in the data that is kept until they are compiled.
fn named(memory: &impl TargetMemory, layout: &V8Layout, shared: u64) -> Option<V8Named> {
    let word = field(memory, shared, layout.function.name_or_scope)?;
    let kind = instance_type(memory, layout, word);
    if kind == Some(layout.types.scope_info) {
        let scope = scope(memory, layout, word)?;
        return Some(V8Named { name: scope.name, start: Some(scope.start), end: scope.end });
    }
    let name = match kind {
        Some(kind) if kind < layout.strings.end => text(memory, layout, word)?,
        None if smi(word) == Some(0) => String::new(),
        _ => return None,
    };
    let data = field(memory, shared, layout.function.data)?;
    let Some((lowest, highest)) = layout.types.uncompiled else {
        return Some(V8Named { name, start: None, end: 0 });
    };
    if !instance_type(memory, layout, data).is_some_and(|kind| (lowest..=highest).contains(&kind)) {
        return Some(V8Named { name, start: None, end: 0 });
    }
    let number = |offset: u16| memory.u32((data - 1).wrapping_add(offset.into()));
    let start = number(layout.function.uncompiled_start)?;
    let end = number(layout.function.uncompiled_start + 4)?;
    let inferred = || text(memory, layout, field(memory, data, layout.function.inferred_name)?);
    let name = if name.is_empty() { inferred().unwrap_or_default() } else { name };
    (start <= end).then_some(V8Named { name, start: Some(start), end })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::v8::fake::FakeHeap;

    #[test]
    fn function_has_name_file_and_lines() {
        let heap = FakeHeap::with_function();
        let layout = heap.layout();
        let function = V8Function::read(&heap, &layout, heap.shared).unwrap();
        assert_eq!((function.name.as_str(), function.file.as_str()), ("work", "/srv/work.js"));
        assert_eq!((function.line, function.column), (Some(2), Some(1)));
        let frame = layout.frame.frame_words(&heap, heap.fp).unwrap();
        assert_eq!(frame.identity, function.identity);
        assert_eq!(function.interpreted_line(&heap, &layout, &frame), Some(3));
    }

    #[test]
    fn another_function_at_the_address_is_noticed() {
        let mut heap = FakeHeap::with_function();
        let layout = heap.layout();
        let function = V8Function::read(&heap, &layout, heap.shared).unwrap();
        heap.put_u32(heap.shared - 1 + 60, 77);
        assert_eq!(function.line(&heap, &layout, 2), None);
        assert_ne!(V8Function::read(&heap, &layout, heap.shared).unwrap().identity, function.identity);
    }

    #[test]
    fn moved_and_wild_objects_have_no_name() {
        let mut heap = FakeHeap::with_function();
        let layout = heap.layout();
        for wild in [0, 1, 5, heap.shared - 1, heap.script, heap.shared + 8, u64::MAX] {
            assert_eq!(V8Function::read(&heap, &layout, wild), None);
        }
        // A forwarding address in place of the map is what a collection leaves behind.
        heap.put(heap.shared - 1, heap.shared - 1 + 0x1000);
        assert_eq!(V8Function::read(&heap, &layout, heap.shared), None);
    }

    #[test]
    fn script_that_moves_hides_the_function() {
        let mut heap = FakeHeap::with_function();
        let layout = heap.layout();
        heap.put(heap.script - 1, heap.script - 1 + 0x1000);
        assert_eq!(V8Function::read(&heap, &layout, heap.shared), None);
        let undefined = heap.object(131, &[0]);
        heap.put(heap.shared - 1 + 40, undefined);
        let function = V8Function::read(&heap, &layout, heap.shared).unwrap();
        assert_eq!((function.name.as_str(), function.file.as_str(), function.line), ("work", "", None));
    }

    #[test]
    fn function_not_compiled_yet() {
        let mut heap = FakeHeap::with_function();
        heap.uncompile("later");
        let function = V8Function::read(&heap, &heap.layout(), heap.shared).unwrap();
        assert_eq!((function.name.as_str(), function.line), ("later", Some(2)));
        assert_eq!(function.line(&heap, &heap.layout(), 0), None);
    }
}
