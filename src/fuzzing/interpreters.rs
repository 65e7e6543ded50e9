//! Interpreters and Go: their readers get memory in which every pointer leads somewhere, and a version that they know.

use super::memory::DenseMemory;
use crate::runtimes::go::{
    GoHeapLayout, GoLabelForm, GoLayout, GoSnapshotOptions, GoWaitLayout, GoroutineSnapshot, real_calls,
};
use crate::runtimes::perl::{self, PerlCode, PerlLayout, PerlLocator, PerlVersion};
use crate::runtimes::php::{
    self, PhpCode, PhpFrameOffsets, PhpFunctionOffsets, PhpKept, PhpLayout, PhpOffsets, PhpVersion,
};
use crate::runtimes::python::{self, PythonCode, PythonGil, PythonLayout, PythonLocator, PythonVersion};
use crate::runtimes::ruby::{self, RubyCode, RubyLayout, RubyLocator, RubyPlace, RubyVersion};

/// Frames of a stack that are named.
const MOST_NAMED: usize = 16;
/// Longest name of anything, bytes: what is read is cut or refused beyond a few thousand.
const LONGEST_NAME: usize = 64 << 10;

/// The bytes that choose, and the memory, which is never empty.
fn parts(data: &[u8]) -> Option<([u64; 4], DenseMemory<'_>)> {
    let (head, memory) = data.split_first_chunk::<8>()?;
    let halves = head.as_chunks::<2>().0;
    let number = |index: usize| halves.get(index).map_or(0, |half| u64::from(u16::from_le_bytes(*half)));
    let memory = Some(memory).filter(|memory| !memory.is_empty())?;
    Some(([number(0), number(1), number(2), number(3)], DenseMemory(memory)))
}

fn check_name(name: &str) {
    assert!(name.len() <= LONGEST_NAME, "a name of {} bytes", name.len());
}

/// Reads code objects, stacks and threads of CPython 3.8 to 3.12, and looks for the layout.
pub(super) fn python(data: &[u8]) {
    let Some(([version, types, address, position], memory)) = parts(data) else { return };
    let minor = 8 + (version % 5) as u8;
    let Some(offsets) = python::known_offsets(minor) else { return };
    // A layout that is found has been checked; one that is not has a reason.
    let _ = PythonLayout::find(&memory, &|name| memory.symbol(name), "python3");
    let mut layout = PythonLayout {
        version: PythonVersion { minor, micro: None, is_free_threaded: version & 8 != 0 },
        source: String::new(),
        locator: PythonLocator::Fixed { offset: -8 },
        state_frame: offsets.state_frame,
        c_frame: offsets.c_frame,
        previous_c_frame: offsets.previous_c_frame,
        frame: offsets.frame,
        code: offsets.code,
        object: offsets.object,
        lists: offsets.lists,
        gil: PythonGil::Absent,
    };
    layout.object.code_type = types;
    layout.object.text_type = types >> 4;
    layout.object.bytes_type = types & 0xff;
    layout.lists.interpreters = address + 0x2000;
    let stack = python::stack(&memory, &layout.frame, layout.state_frame, layout.c_frame, address + 0x1000);
    let codes = stack.frames.iter().map(|frame| frame.code).take(MOST_NAMED);
    for address in codes.chain([address + 0x1000]) {
        PythonCode::identity(&memory, &layout, address);
        if let Some(code) = PythonCode::read(&memory, &layout, address) {
            check_name(&code.function);
            check_name(&code.file);
            for position in [position, 0, u64::MAX] {
                code.position(position);
                code.line(position as u32);
                code.position_after(address, position as u32);
            }
        }
    }
    python::threads(&memory, &layout.lists);
}

/// Reads code objects and stacks of Ruby 2.7 to 4.0, and looks for the layout.
pub(super) fn ruby(data: &[u8]) {
    let Some(([number, names, address, position], memory)) = parts(data) else { return };
    let (major, minor) = [(2, 7), (3, 0), (3, 1), (3, 2), (3, 3), (4, 0)][(number % 6) as usize];
    let version = RubyVersion { major, minor, teeny: 0 };
    let Some(offsets) = ruby::known_offsets(version) else { return };
    // As above.
    let _ = RubyLayout::find(&memory, &|name| memory.symbol(name), "libruby.so");
    let layout = RubyLayout {
        version,
        source: String::new(),
        locator: RubyLocator { place: RubyPlace::Fixed { offset: 16 }, context: None },
        offsets,
        names: Some(names + 0x1000),
        instruction: address,
    };
    let stack = ruby::stack(&memory, &layout.offsets, address + 0x1000);
    let codes = stack.frames.iter().map(|frame| frame.code).take(MOST_NAMED);
    for address in codes.chain([address + 0x1000, position + 0x1000]) {
        RubyCode::identity(&memory, &layout, address);
        if let Some(code) = RubyCode::read(&memory, &layout, address) {
            check_name(&code.function);
            code.line(address, position as u32);
            code.first_instruction(&memory);
        }
    }
}

/// Reads functions and stacks of PHP, and looks for the layout in the instructions of functions.
pub(super) fn php(data: &[u8]) {
    let Some(([number, code, globals, position], memory)) = parts(data) else { return };
    // As above.
    let _ = PhpLayout::find(&memory, &|name| memory.symbol(name), "php8.2");
    let is_old = number & 1 == 0;
    let layout = PhpLayout {
        version: PhpVersion { major: if is_old { 7 } else { 8 }, minor: 4, micro: None },
        source: String::new(),
        globals: globals + 0x1000,
        offsets: PhpOffsets {
            current_frame: 488,
            thrown_at: 592,
            frame: PhpFrameOffsets { instruction: 0, function: 24, marks: 40, previous: 48 },
            function: PhpFunctionOffsets {
                name: 8,
                class: 16,
                file: 144,
                instructions: (!is_old).then_some(72),
            },
            class_name: 8,
            line: 24,
            text_length: 16,
        },
        kept: PhpKept::Immutable,
    };
    let registers = php::PhpLoopPlace { frame: globals, instruction: position };
    let stack = php::stack(&memory, &layout, Some(registers));
    let codes = stack.frames.iter().map(|frame| frame.code).take(MOST_NAMED);
    for code in codes.chain([code + 0x1000]) {
        php::check(&memory, &layout, code);
        if let Some(code) = PhpCode::read(&memory, &layout, code) {
            check_name(&code.function);
            code.line(position as u32);
        }
    }
}

/// Reads subs and stacks of perl 5.28 to 5.42, and looks for the layout in the instructions of functions.
pub(super) fn perl(data: &[u8]) {
    let Some(([number, code, state, kind], memory)) = parts(data) else { return };
    // As above.
    let _ = PerlLayout::find(&memory, &|name| memory.symbol(name), "perl");
    let minor = 28 + 2 * (number % 8) as u8;
    let Some(shape) = perl::shape(minor) else { return };
    let layout = PerlLayout {
        version: PerlVersion { minor, micro: 0 },
        source: String::new(),
        locator: PerlLocator::Key { slot: 0x310 },
        stack: 0xe0,
        statement: 0xd0,
        shape,
        statement_functions: [0x1000, 0x2000],
        is_file_glob: number & 16 != 0,
    };
    let stack = perl::frames(&memory, &layout, state + 0x1000);
    let codes = stack.frames.iter().map(|frame| frame.code).take(MOST_NAMED);
    for code in codes.chain([(kind % 16) << 48 | (code + 0x1000)]) {
        perl::check(&memory, &layout, code);
        perl::kind_name(code);
        if let Some(code) = PerlCode::read(&memory, &layout, code) {
            check_name(&code.name);
        }
    }
}

/// Reads labels of goroutines in each form, and looks for the layout of a Go program, to take a snapshot by it and to read its heap.
pub(super) fn go(data: &[u8]) {
    const MOST_LABELS: usize = 32;
    let Some(([labels, ..], memory)) = parts(data) else { return };
    for form in [GoLabelForm::Pairs, GoLabelForm::Map, GoLabelForm::None] {
        let layout = crate::runtimes::go::GoLabelLayout { form, constants: 0x1000..0x4000 };
        let found = crate::runtimes::go::first_labels(&memory, &layout, labels + 0x1000, MOST_LABELS);
        assert!(found.len() <= MOST_LABELS);
        found.iter().for_each(|(key, value)| [key, value].into_iter().for_each(|text| check_name(text)));
    }
    let function = |name: &str| memory.symbol(name).map(|start| start..start + 256);
    if let Ok(layout) = GoLayout::find(&memory, &function) {
        let options = GoSnapshotOptions {
            most_goroutines: 64,
            most_frames: 64,
            most_stack_windows: 64,
            ..GoSnapshotOptions::default()
        };
        let around = |address: u64| Some(address & !0xff..(address | 0xff) + 1);
        let snapshot = GoroutineSnapshot::take(&memory, &layout, &options, &around);
        assert!(snapshot.is_none_or(|snapshot| snapshot.goroutines.len() <= 64));
    }
    if let Some(mut layout) = GoWaitLayout::find(&memory, &function) {
        let sides = [layout.waits(&memory, &function, 64), layout.releases(&memory, &function, 64)];
        for place in sides.into_iter().flatten().flatten() {
            assert!(place.count >= 0.0 && place.stack.len() <= 1024);
        }
    }
    if let Some(layout) = GoHeapLayout::find(&memory, &function) {
        let places = layout.read(&memory, 64).unwrap_or_default();
        assert!(places.len() <= 64);
        for place in places {
            let around = |address: u64| Some(address & !0xff..(address | 0xff).saturating_add(1));
            assert!(real_calls(&place.stack, &memory, around).len() <= place.stack.len());
        }
    }
}
