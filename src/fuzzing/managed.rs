//! Runtimes that compile: the readers get a sound process, made up, with damage.

use super::input::choice;
use super::memory::DamagedMemory;
use crate::runtimes::java::fake::{
    CALL_STUB_RETURN, FakeJvm, HEAP, INTERPRETER, MAP, META, NATIVE, STACK, TABLES, VARIABLES,
};
use crate::runtimes::java::{self, JavaLayout, JavaNames, JavaPosition, JavaRegisters};
use crate::runtimes::v8::fake::{FakeHeap, smi};
use crate::runtimes::v8::{V8Codes, V8Function, V8Inlined, V8Layout};
use std::sync::LazyLock;

/// Frames that a walk has at most.
const MOST_FRAMES: usize = 4096;

/// A JVM with a compiled method, another one inlined in it, called from an interpreted one.
struct Machine {
    jvm: FakeJvm,
    /// Code of the compiled method.
    code: u64,
}

static JVM: LazyLock<Machine> = LazyLock::new(|| {
    let mut jvm = FakeJvm::new();
    let methods = ["Inner", "my/Outer", "my/Main"]
        .map(|class| jvm.method(class, "run", &[0xb8, 0, 0, 0xb8, 0, 0, 0xb1, 0, 0, 0], &[0x22, 0x29, 0]));
    let prologue = [0x55, 0x48, 0x83, 0xec, 0x10, 0x90, 0x90, 0x48, 0x83, 0xc4, 0x10, 0x5d, 0xc3];
    let code = jvm.nmethod(0x1000, &[&prologue[..], &[0x90; 0x40]].concat(), 4, methods[1], 9);
    jvm.scopes(code, &[(-1, 0), (7, 1), (0x40, 5)], &[0, 5, 1, 5, 0, 0, 2, 1], &methods[..2]);
    let (top, fp) = (STACK + 0x400, STACK + 0x500);
    jvm.word(top, INTERPRETER + 0x180);
    let bytecode = jvm.bytecodes(methods[2]) + 4;
    for (below, word) in [(8, fp + 32), (24, methods[2]), (64, bytecode)] {
        jvm.word(fp - below, word);
    }
    jvm.word(fp, fp + 0x80);
    jvm.word(fp + 8, CALL_STUB_RETURN);
    jvm.word(fp + 0x88, NATIVE);
    Machine { jvm, code }
});

/// Finds a JVM's layout in damaged memory, walks its stack and names the frames.
pub(super) fn java(data: &[u8]) {
    let (place, data) = choice(data);
    let memory =
        DamagedMemory::new(&JVM.jvm, &[TABLES, TABLES + 0x8000, VARIABLES, HEAP, MAP, META, STACK], data);
    let symbols = |name: &str| JVM.jvm.symbol_address(name);
    let Ok(layout) = JavaLayout::find(&memory, symbols) else { return };
    let mut names = JavaNames::default();
    for (pc, sp, fp) in [
        (JVM.code + u64::from(place % 0x50), STACK + 0x400 - 0x18, STACK + 0x500),
        (INTERPRETER + 0x100 + u64::from(place), STACK + 0x4c0, STACK + 0x500),
    ] {
        for position in [JavaPosition::Running(None), JavaPosition::Returning] {
            let walk = java::walk(&memory, &layout, JavaRegisters { pc, sp, fp }, position);
            assert!(walk.frames.len() <= MOST_FRAMES, "a walk ends");
            for frame in walk.frames.iter().take(16) {
                // What cannot be read has no name.
                let _ = names.functions(&memory, &layout, frame);
            }
        }
    }
}

/// A heap of V8 with a function on its stack, and optimised code of it.
struct Heap {
    heap: FakeHeap,
    layout: V8Layout,
    symbols: Vec<(String, u64)>,
    code: u64,
}

static HEAP_OF_V8: LazyLock<Heap> = LazyLock::new(|| {
    let mut heap = FakeHeap::with_function();
    let inlined = heap.fixed_array(&[heap.shared]);
    let positions = heap.byte_array(&[2, 4, 6, 8, 10, 12]);
    let literals = heap.fixed_array(&[heap.shared, inlined]);
    let data = heap.fixed_array(&[
        smi(0),
        smi(1),
        smi(0),
        literals,
        smi(0),
        smi(0),
        heap.shared,
        heap.shared,
        positions,
    ]);
    let code = heap.code_with(12 | 0x100, 0x400, data, positions);
    Heap { layout: heap.layout(), symbols: heap.symbols(), heap, code }
});

/// Reads functions, lines and code in a damaged heap, by the layout of the sound one or the one that is found in the damage.
pub(super) fn v8(data: &[u8]) {
    const FIRST: u64 = 0x10_0000;
    let (place, data) = choice(data);
    let known = &*HEAP_OF_V8;
    let objects = known.heap.shared & !0xfff;
    let memory = DamagedMemory::new(&known.heap, &[FIRST, objects, known.code & !0xfff], data);
    let found = V8Layout::find(&memory, known.symbols.iter().map(FakeHeap::symbol));
    for layout in [Some(&known.layout), found.as_ref().ok()].into_iter().flatten() {
        let words = layout.frame.frame_words(&memory, known.heap.fp);
        let pc = known.code + u64::from(place);
        let code = V8Codes::default().at(&memory, layout, pc);
        for shared in [Some(known.heap.shared), words.map(|words| words.shared)].into_iter().flatten() {
            let Some(function) = V8Function::read(&memory, layout, shared) else { continue };
            words.and_then(|words| function.interpreted_line(&memory, layout, &words));
            function.line(&memory, layout, u32::from(place));
            if let Some(code) = &code {
                function.baseline_line(&memory, layout, code, pc);
                code.is_of(&memory, layout, shared);
            }
        }
        if let Some(code) = &code {
            assert!(pc >= code.start && pc - code.start <= code.size, "code around its instruction");
            V8Inlined::at(&memory, layout, code, pc);
            code.owner(&memory, layout);
            code.is_unchanged(&memory, layout);
        }
    }
}
