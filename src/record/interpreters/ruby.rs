//! Ruby as one of the languages.

use super::function_names::RunFunction;
use super::language::{
    CodeLines, Language, LanguageFile, LoopCode, ReadCode, RuntimeCode, RuntimeModule, SideFrame, SideStack,
    no_room,
};
use super::merge::ListHabits;
use crate::bpf::{REGISTERS, mixed_check, number, prof_ruby, prof_runtime};
use crate::runtimes::ruby::{
    RubyCode, RubyFrame, RubyLayout, RubyLocator, RubyLoop, RubyPlace, loop_ranges, stack,
};
use crate::runtimes::{RuntimeProblem, TargetMemory};
use std::sync::Arc;

/// How its files are recognized.
pub(super) static FILE: LanguageFile = LanguageFile {
    kind: number::PROF_RUNTIME_RUBY,
    exports: &["ruby_version", "ruby_vm_at_exit", "rb_thread_current"],
    loops,
    find,
};

/// An interpreter of a process.
#[derive(Debug)]
struct Ruby {
    layout: RubyLayout,
    descriptor: prof_runtime,
}

fn loops(code: &RuntimeCode<'_>) -> LoopCode {
    let RubyLoop { entries, inner } = loop_ranges(code.functions, &|address, size| code.read(address, size));
    LoopCode { entries, inner }
}

fn find(memory: &dyn TargetMemory, module: &RuntimeModule<'_>) -> Result<Arc<dyn Language>, RuntimeProblem> {
    let layout = RubyLayout::find(&memory, &|name| module.symbol(name), module.path)?;
    // Code is threaded directly: each instruction is the address of what the loop does for it.
    let instruction = layout.instruction.wrapping_sub(module.bias);
    let LoopCode { entries, inner } = loops(module.code);
    if !entries.iter().chain(&inner).any(|range| range.contains(&instruction)) {
        return Err(RuntimeProblem::lasting(format!(
            "ruby {}: the loop of the interpreter was not found in `{}`: only native frames are shown",
            layout.version, module.path
        )));
    }
    let descriptor = descriptor(&layout).ok_or_else(|| no_room("ruby", layout.version))?;
    Ok(Arc::new(Ruby { layout, descriptor }))
}

impl Language for Ruby {
    fn runtime(&self) -> String {
        self.layout.version.runtime()
    }

    fn source(&self) -> String {
        format!("ruby {}: offsets from {}", self.layout.version, self.layout.source)
    }

    fn descriptor(&self) -> prof_runtime {
        self.descriptor
    }

    fn habits(&self) -> ListHabits {
        ListHabits { has_native_functions: true, ..ListHabits::default() }
    }

    fn stack(&self, memory: &dyn TargetMemory, state: u64, _registers: &[u64; REGISTERS]) -> SideStack {
        let layout = &self.layout;
        let context = match layout.locator.context {
            Some(offset) => state.checked_add(offset.into()).and_then(|place| (&memory).u64(place)),
            None => Some(state),
        };
        let stack = context.map(|context| stack(&memory, &layout.offsets, context)).unwrap_or_default();
        let shown = stack.frames.into_iter().filter(|frame| !frame.is_native || layout.names.is_some());
        let frame = |frame: RubyFrame| SideFrame {
            code: frame.code,
            position: frame.position,
            is_entry: frame.is_entry,
            is_brief: false,
        };
        SideStack::of(shown.map(frame).collect::<Vec<_>>().into_iter(), stack.is_complete)
    }

    fn check(&self, memory: &dyn TargetMemory, code: u64) -> Option<u32> {
        let identity = RubyCode::identity(&memory, &self.layout, code)?;
        let name = identity.name.into_iter().flat_map(|(length, text)| [length].into_iter().chain(text));
        Some(mixed_check(identity.words.into_iter().chain(name)))
    }

    fn read(&self, memory: &dyn TargetMemory, code: u64) -> Option<ReadCode> {
        let mut code = RubyCode::read(&memory, &self.layout, code)?;
        let function = RunFunction {
            name: std::mem::take(&mut code.function),
            file: std::mem::take(&mut code.file),
            first_line: code.first_line,
            is_inlined: false,
        };
        Some(ReadCode { function, is_shown: true, lines: Arc::new(code) })
    }
}

impl CodeLines for RubyCode {
    fn line(&self, code: u64, position: u32) -> u32 {
        RubyCode::line(self, code, position).unwrap_or(self.first_line)
    }
}

/// What the kernel side has to know of a layout; `None` if a number is larger than it has room for.
fn descriptor(layout: &RubyLayout) -> Option<prof_runtime> {
    let RubyLocator { place, context } = layout.locator;
    let (locator, locator_off, locator_module) = match place {
        RubyPlace::Fixed { offset } => (number::PROF_LOCATOR_THREAD, offset, 0),
        RubyPlace::Dynamic { module, offset } => {
            (number::PROF_LOCATOR_MODULE, i64::try_from(offset).ok()?, u32::try_from(module).ok()?)
        }
    };
    let ruby = prof_ruby {
        names: layout.names.unwrap_or(0),
        context_off: match context {
            Some(offset) => u16::try_from(offset).ok()?,
            None => number::PROF_NO_OFFSET as u16,
        },
        line_table_off: u16::try_from(layout.offsets.line_table).ok()?,
        frame_bytes: u8::try_from(layout.offsets.frame_size).ok()?,
        has_length_word: u8::from(layout.offsets.has_length_word),
        ..prof_ruby::default()
    };
    Some(prof_runtime {
        kind: number::PROF_RUNTIME_RUBY as u8,
        locator: locator as u8,
        locator_off,
        locator_module,
        ruby,
        ..prof_runtime::default()
    })
}
