//! Code objects: which one an instruction belongs to and which compiler made it.

use super::layout::{V8CodeOffsets, V8Layout};
use super::object::{field, instance_type, is_object, of_type};
use crate::runtimes::TargetMemory;

/// Distance from an instruction back to the start of its code, at most.
const MOST_CODE: u64 = 1 << 20;
/// Bytes read at once while looking back.
const WINDOW: u64 = 4096;
/// Instructions of every code object begin at a multiple of this.
const ALIGNMENT: u64 = 32;
/// Words whose type is looked up in one search while the type word of code is not known yet.
const MOST_GUESSES: u32 = 256;

/// How a frame of JavaScript runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum V8CodeKind {
    /// Bytecodes, one after the other.
    Interpreted,
    /// Machine code translated bytecode by bytecode (Sparkplug).
    Baseline,
    /// Machine code of the middle compiler (Maglev).
    Maglev,
    /// Machine code of the optimising compiler (Turbofan).
    Turbofan,
}

impl V8CodeKind {
    /// Kind of a frame whose instruction lies in the program itself, from the symbol there; `None` for a built-in
    /// function, which is no code of the user.
    pub(crate) fn of_builtin(symbol: &str) -> Option<Self> {
        let name = symbol.strip_prefix("Builtins_")?;
        let interpreter =
            name.starts_with("Interpreter") || name.ends_with("Handler") || name.contains("Handler_");
        interpreter.then_some(Self::Interpreted)
    }
}

/// One code object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct V8Code {
    pub(crate) kind: V8CodeKind,
    /// Address of the first instruction.
    pub(crate) start: u64,
    /// Size of the instructions in bytes.
    pub(crate) size: u64,
    pub(super) object: u64,
}

/// Finds code objects by their instructions.
#[derive(Debug, Default)]
pub(crate) struct V8Codes {
    /// Map of all instruction streams, once the first has been found; it never moves.
    stream_map: Option<u64>,
}

impl V8Codes {
    /// Code object of the instruction at `pc`, or of the call before it if `pc` is a return address. Copies of the
    /// interpreter's entry count as interpreted.
    pub(crate) fn at(&mut self, memory: &impl TargetMemory, layout: &V8Layout, pc: u64) -> Option<V8Code> {
        let offsets = layout.code.as_ref()?;
        let lowest = pc.saturating_sub(MOST_CODE);
        let mut guesses = MOST_GUESSES;
        let mut end = pc.checked_add(1)?;
        while end > lowest {
            let begin = (end - 1) & !(WINDOW - 1);
            let window = memory.range(begin, end - begin, WINDOW as usize)?;
            let words = window.as_chunks::<8>().0.iter().map(|&word| u64::from_ne_bytes(word));
            for (word, at) in words.zip((begin..).step_by(8)).collect::<Vec<_>>().into_iter().rev() {
                let start = at.wrapping_add(offsets.header.into());
                if start % ALIGNMENT != 0
                    || start > pc
                    || !self.is_stream_map(memory, layout, word, &mut guesses)
                {
                    continue;
                }
                if let Some(code) = code_at(memory, layout, offsets, at + 1) {
                    self.stream_map = Some(word);
                    return (pc - code.start <= code.size).then_some(code);
                }
            }
            end = begin;
        }
        None
    }

    fn is_stream_map(
        &self,
        memory: &impl TargetMemory,
        layout: &V8Layout,
        word: u64,
        guesses: &mut u32,
    ) -> bool {
        if let Some(map) = self.stream_map {
            return map == word;
        }
        if !is_object(word) || word >> 48 != 0 || *guesses == 0 {
            return false;
        }
        *guesses -= 1;
        let is_map = instance_type(memory, layout, word) == Some(layout.types.map);
        let described = || memory.u16(word - 1 + u64::from(layout.instance_type));
        is_map && layout.types.instruction_stream.is_some() && described() == layout.types.instruction_stream
    }
}

impl V8Code {
    /// Whether the code object is still there as it was.
    pub(crate) fn is_unchanged(&self, memory: &impl TargetMemory, layout: &V8Layout) -> bool {
        let found = layout.code.as_ref().and_then(|offsets| {
            let stream = self.start.checked_sub(u64::from(offsets.header))? + 1;
            code_at(memory, layout, offsets, stream)
        });
        found.as_ref() == Some(self)
    }
}

/// Code object of the instruction stream at `stream`; each must name the other.
fn code_at(
    memory: &impl TargetMemory,
    layout: &V8Layout,
    offsets: &V8CodeOffsets,
    stream: u64,
) -> Option<V8Code> {
    let object = of_type(memory, layout, field(memory, stream, 8)?, layout.types.code)?;
    let start = field(memory, object, offsets.start)?;
    if start != stream - 1 + u64::from(offsets.header) {
        return None;
    }
    let word = |offset: u16| memory.u32((object - 1).wrapping_add(offset.into()));
    let kind = kind(offsets, word(offsets.flags)?)?;
    Some(V8Code { kind, start, size: word(offsets.size)?.into(), object })
}

/// Kind of code from its flags; `None` for what runs no JavaScript.
fn kind(offsets: &V8CodeOffsets, flags: u32) -> Option<V8CodeKind> {
    const BUILTIN: u32 = 2;
    let kind = flags & offsets.kind_mask;
    Some(match kind.checked_sub(offsets.baseline) {
        Some(0) => V8CodeKind::Baseline,
        Some(1) => V8CodeKind::Maglev,
        Some(2) => V8CodeKind::Turbofan,
        Some(_) => return None,
        None if kind == BUILTIN || kind + 1 == offsets.baseline => V8CodeKind::Interpreted,
        None => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::v8::fake::FakeHeap;

    #[test]
    fn code_is_found_from_its_instructions() {
        let mut heap = FakeHeap::with_function();
        let start = heap.code(12 | 0x100, 0x3000);
        let layout = heap.layout();
        let mut codes = V8Codes::default();
        let code = codes.at(&heap, &layout, start + 0x2010).unwrap();
        assert_eq!((code.kind, code.start, code.size), (V8CodeKind::Turbofan, start, 0x3000));
        assert_eq!(codes.at(&heap, &layout, start + 0x3000).map(|code| code.start), Some(start));
        assert_eq!(codes.at(&heap, &layout, start + 0x3008), None);
        assert_eq!(codes.at(&heap, &layout, 0), None);
        assert_eq!(codes.at(&heap, &layout, u64::MAX), None);
    }

    #[test]
    fn code_that_denies_its_instructions_is_not_believed() {
        let mut heap = FakeHeap::with_function();
        let start = heap.code(12, 0x100);
        let layout = heap.layout();
        let object = V8Codes::default().at(&heap, &layout, start).unwrap().object;
        heap.put(object - 1 + 40, start + 64);
        assert_eq!(V8Codes::default().at(&heap, &layout, start), None);
    }

    #[test]
    fn symbols_of_the_interpreter() {
        let kind = V8CodeKind::of_builtin;
        assert_eq!(kind("Builtins_InterpreterEntryTrampoline"), Some(V8CodeKind::Interpreted));
        assert_eq!(kind("Builtins_CallProperty1Handler"), Some(V8CodeKind::Interpreted));
        assert_eq!(kind("Builtins_ArrayMap"), None);
        assert_eq!(kind("main"), None);
    }
}
