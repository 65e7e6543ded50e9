//! PHP as one of the languages.

use super::function_names::RunFunction;
use super::language::{
    CodeLines, Language, LanguageFile, LoopCode, ReadCode, RuntimeCode, RuntimeModule, SideFrame, SideStack,
    no_room,
};
use super::merge::ListHabits;
use crate::bpf::{REGISTERS, number, prof_php, prof_runtime};
use crate::runtimes::php::{PhpCode, PhpFrame, PhpKept, PhpLayout, PhpLoopPlace, check, loop_ranges, stack};
use crate::runtimes::{RuntimeProblem, TargetMemory};
use std::ops::Range;
use std::sync::Arc;

/// The function of its interpreter loop.
const LOOP: &str = "execute_ex";

/// Registers of the loop, by DWARF number: r14 and r15 of x86-64.
const LOOP_FRAME: usize = 14;
const LOOP_INSTRUCTION: usize = 15;

/// How its files are recognized.
pub(super) static FILE: LanguageFile = LanguageFile {
    kind: number::PROF_RUNTIME_PHP,
    exports: &[LOOP, "zend_get_executed_lineno"],
    loops,
    find,
};

/// An interpreter of a process.
#[derive(Debug)]
struct Php {
    layout: PhpLayout,
    descriptor: prof_runtime,
}

fn loops(code: &RuntimeCode<'_>) -> LoopCode {
    let read_code = |address, size| code.read(address, size);
    let own = code.exported_function(LOOP);
    let entries = own.map(|own| loop_ranges(own, &read_code, &|address| code.function_at(address)));
    LoopCode { entries: entries.unwrap_or_default(), inner: Vec::new() }
}

fn find(memory: &dyn TargetMemory, module: &RuntimeModule<'_>) -> Result<Arc<dyn Language>, RuntimeProblem> {
    let layout = PhpLayout::find(&memory, &|name| module.symbol(name), module.path)?;
    let own = module.code.exported_function(LOOP).unwrap_or(0..0);
    let own = own.start.wrapping_add(module.bias)..own.end.wrapping_add(module.bias);
    let descriptor = descriptor(&layout, own).ok_or_else(|| no_room("php", layout.version))?;
    Ok(Arc::new(Php { layout, descriptor }))
}

impl Language for Php {
    fn runtime(&self) -> String {
        self.layout.version.runtime()
    }

    fn source(&self) -> String {
        format!("php {}: offsets from {}", self.layout.version, self.layout.source)
    }

    fn descriptor(&self) -> prof_runtime {
        self.descriptor
    }

    fn habits(&self) -> ListHabits {
        ListHabits { links_early: true, has_native_functions: true, ..ListHabits::default() }
    }

    fn is_stack_start(&self, position: u32) -> bool {
        PhpCode::is_fiber(position)
    }

    fn stack(&self, memory: &dyn TargetMemory, _state: u64, registers: &[u64; REGISTERS]) -> SideStack {
        let prof_php { loop_start, loop_bytes, .. } = self.descriptor.php;
        let is_in_loop = registers[REGISTERS - 1].wrapping_sub(loop_start) < loop_bytes.into();
        let of_loop = PhpLoopPlace { frame: registers[LOOP_FRAME], instruction: registers[LOOP_INSTRUCTION] };
        let stack = stack(&memory, &self.layout, is_in_loop.then_some(of_loop));
        let frame = |frame: PhpFrame| SideFrame {
            code: frame.code | u64::from(frame.tag) << number::PROF_PHP_TAG_SHIFT,
            position: frame.position,
            is_entry: frame.is_entry,
            is_brief: frame.is_brief,
        };
        SideStack::of(stack.frames.into_iter().map(frame), stack.is_complete)
    }

    fn check(&self, memory: &dyn TargetMemory, code: u64) -> Option<u32> {
        check(&memory, &self.layout, code)
    }

    fn read(&self, memory: &dyn TargetMemory, code: u64) -> Option<ReadCode> {
        let mut code = PhpCode::read(&memory, &self.layout, code)?;
        let function = RunFunction {
            name: std::mem::take(&mut code.function),
            file: std::mem::take(&mut code.file),
            first_line: code.first_line,
            is_inlined: false,
        };
        Some(ReadCode { function, is_shown: true, lines: Arc::new(code) })
    }
}

impl CodeLines for PhpCode {
    fn line(&self, _code: u64, position: u32) -> u32 {
        PhpCode::line(self, position).unwrap_or(0)
    }
}

/// What the kernel side has to know of a layout, and of the loop in the process; `None` if a number is larger than it has
/// room for.
fn descriptor(layout: &PhpLayout, own: Range<u64>) -> Option<prof_runtime> {
    let offsets = &layout.offsets;
    let (frame, function) = (&offsets.frame, &offsets.function);
    let small = |offset: u32, below: u64| {
        (u64::from(offset) + 8 <= below).then(|| u8::try_from(offset).ok()).flatten()
    };
    let in_frame = |offset| small(offset, number::PROF_RUNTIME_FRAME_BYTES);
    let in_head = |offset| small(offset, number::PROF_PHP_HEAD_BYTES);
    let php = prof_php {
        globals: layout.globals,
        loop_start: own.start,
        loop_bytes: u32::try_from(own.end.saturating_sub(own.start)).ok()?,
        thrown_at_off: u16::try_from(offsets.thrown_at).ok()?,
        instruction_off: in_frame(frame.instruction)?,
        function_off: in_frame(frame.function)?,
        marks_off: in_frame(frame.marks)?,
        previous_off: in_frame(frame.previous)?,
        frame_bytes: in_frame(frame.size())?,
        name_off: in_head(function.name)?,
        class_off: in_head(function.class)?,
        file_off: small(function.file, number::PROF_RUNTIME_CODE_BYTES - 8)?,
        instructions_off: match function.instructions {
            Some(offset) => small(offset, number::PROF_RUNTIME_CODE_BYTES)?,
            None => 0,
        },
        class_name_off: small(offsets.class_name, number::PROF_CODE_LINK_BYTES)?,
        line_off: in_head(offsets.line)?,
        text_length_off: in_head(offsets.text_length)?,
        kept: match layout.kept {
            PhpKept::None => number::PROF_PHP_NONE_KEPT,
            PhpKept::Immutable => number::PROF_PHP_IMMUTABLE_KEPT,
            PhpKept::All => number::PROF_PHP_ALL_KEPT,
        } as u8,
        ..prof_php::default()
    };
    Some(prof_runtime {
        kind: number::PROF_RUNTIME_PHP as u8,
        locator: number::PROF_LOCATOR_PROCESS as u8,
        locator_off: layout.globals.checked_add(offsets.current_frame.into())?.cast_signed(),
        php,
        ..prof_runtime::default()
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::php::tests::synthetic::{FUNCTIONS, GLOBALS, SyntheticPhp};

    #[test]
    fn the_kernel_side_gets_where_the_first_frame_is_and_what_is_in_it() {
        let layout = SyntheticPhp::new().find().expect("it fits");
        let known = descriptor(&layout, 0x40_0000..0x40_8000).expect("there is room");
        assert_eq!(u64::from(known.kind), number::PROF_RUNTIME_PHP);
        assert_eq!(u64::from(known.locator), number::PROF_LOCATOR_PROCESS);
        assert_eq!(known.locator_off.cast_unsigned(), GLOBALS + 0x1e8);
        let php = known.php;
        assert_eq!((php.loop_start, php.loop_bytes), (0x40_0000, 0x8000));
        assert_eq!((php.function_off, php.marks_off, php.previous_off, php.frame_bytes), (24, 40, 48, 56));
        assert_eq!((php.name_off, php.class_off, php.file_off, php.instructions_off), (8, 16, 0x98, 0x58));
        assert_eq!((php.thrown_at_off, u64::from(php.kept)), (0x370, number::PROF_PHP_IMMUTABLE_KEPT));
    }

    #[test]
    fn offsets_without_room_are_refused() {
        let mut layout = SyntheticPhp::new().find().expect("it fits");
        layout.offsets.function.file = 0xf8;
        assert!(descriptor(&layout, 0..0).is_none());
        layout.offsets.function.file = 0x98;
        layout.offsets.frame.previous = 0x80;
        assert!(descriptor(&layout, 0..0).is_none());
    }

    #[test]
    fn a_function_is_read_with_its_lines_and_a_fiber_begins_a_stack() {
        let mut php = SyntheticPhp::new();
        let layout = php.find().expect("it fits");
        let code = php.put_code(0, 2, "Job", "run", "/srv/app.php", 3);
        assert_eq!(code, FUNCTIONS);
        let descriptor = descriptor(&layout, 0..0).expect("there is room");
        let language = Php { layout, descriptor };
        let read = language.read(php.memory(), code).expect("it is a function");
        assert_eq!((read.function.name.as_str(), read.function.file.as_str()), ("Job::run", "/srv/app.php"));
        assert_eq!((read.lines.line(code, 7), read.lines.line(code, 0)), (7, 0));
        assert!(language.check(php.memory(), code).is_some());
        let side = language.stack(php.memory(), GLOBALS, &[0; REGISTERS]);
        assert_eq!(side, SideStack { is_cut: false, ..SideStack::default() }, "nothing runs");
        assert!(language.is_stack_start(number::PROF_PHP_FIBER as u32) && !language.is_stack_start(7));
        assert_eq!((language.runtime().as_str(), language.habits().links_early), ("php 8.2", true));
    }
}
