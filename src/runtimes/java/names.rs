//! Names of Java frames: methods with file and line, inlined ones included, each with how its code was made.

use super::blob::{JavaBlob, JavaBlobKind};
use super::frames::JavaFrame;
use super::layout::JavaLayout;
use super::method::JavaMethod;
use super::scopes::JavaScope;
use crate::runtimes::memory::TargetMemory;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Methods kept at most; all are forgotten when there are more.
const MOST_METHODS: usize = 65_536;

/// How the code of a function was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum JavaMark {
    Interpreted,
    /// Compiled by C1, the first compiler.
    C1,
    /// Compiled by C2 or a compiler in its place.
    Compiled,
    /// Inlined into the function after it.
    Inlined,
    /// Native method, seen from its wrapper.
    NativeWrapper,
    /// Code of the JVM without a method: stubs, adapters, the interpreter before a frame is built.
    Stub,
}

/// Function of a Java frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JavaFunction {
    /// Class and method with dots, as in `java.util.TimSort.mergeLo`, or the name of a stub.
    pub(crate) name: String,
    /// Parameters and result; empty for a stub.
    pub(crate) signature: String,
    pub(crate) file: Option<String>,
    pub(crate) line: Option<u32>,
    /// Line that the method begins in.
    pub(crate) first_line: Option<u32>,
    pub(crate) bci: Option<u16>,
    pub(crate) mark: JavaMark,
}

/// Names of one process, kept from call to call and checked at every use.
#[derive(Debug, Default)]
pub(crate) struct JavaNames {
    methods: FxHashMap<u64, Arc<JavaMethod>>,
}

impl JavaNames {
    /// Functions of `frame`, innermost first. `None` if the code or the method is no longer what the walk saw:
    /// the blob must still have the same compilation number, the method the bytecode that it was at.
    pub(crate) fn functions(
        &mut self,
        memory: &impl TargetMemory,
        layout: &JavaLayout,
        frame: &JavaFrame,
    ) -> Option<Vec<JavaFunction>> {
        match frame.kind {
            JavaBlobKind::Interpreter if frame.method == 0 => Some(vec![stub("Interpreter")]),
            JavaBlobKind::Interpreter => {
                let method = self.method(memory, layout, frame.method)?;
                let scope = JavaScope { method: frame.method, bci: method.bci(frame.bytecode) };
                // Frames of native methods have the place where bytecodes would be.
                let is_same = scope.bci.is_some() || frame.bytecode == 0 || method.bytecodes.is_empty();
                is_same.then(|| vec![function(&method, scope, JavaMark::Interpreted)])
            }
            JavaBlobKind::Compiled | JavaBlobKind::NativeWrapper => {
                let blob = layout.blob(memory, frame.pc)?;
                let same = blob.start == frame.blob && blob.compile_id == frame.compile_id;
                if same && blob.kind == frame.kind {
                    self.compiled(memory, layout, &blob, frame.pc)
                } else {
                    None
                }
            }
            _ => {
                let blob = layout.blob(memory, frame.pc)?;
                let is_method = matches!(blob.kind, JavaBlobKind::Compiled | JavaBlobKind::NativeWrapper);
                if is_method && blob.start == frame.blob && frame.compile_id == 0 {
                    // The walker did not know the kinds of code that there are by now.
                    return self.compiled(memory, layout, &blob, frame.pc);
                }
                (blob.start == frame.blob && blob.kind == frame.kind).then(|| vec![stub(&blob.name)])
            }
        }
    }

    /// Functions at `pc` in an nmethod.
    fn compiled(
        &mut self,
        memory: &impl TargetMemory,
        layout: &JavaLayout,
        blob: &JavaBlob,
        pc: u64,
    ) -> Option<Vec<JavaFunction>> {
        let own = match (blob.kind, blob.level) {
            (JavaBlobKind::NativeWrapper, _) => JavaMark::NativeWrapper,
            (_, 1..=3) => JavaMark::C1,
            _ => JavaMark::Compiled,
        };
        let mut scopes = layout.scopes.scopes(memory, blob, pc, layout.methods.coding);
        if scopes.last().is_none_or(|last| last.method != blob.method) {
            scopes = vec![JavaScope { method: blob.method, bci: None }];
        }
        let outermost = scopes.len() - 1;
        let mut functions = Vec::with_capacity(scopes.len());
        for (index, scope) in scopes.into_iter().enumerate() {
            let method = self.method(memory, layout, scope.method)?;
            let mark = if index == outermost { own } else { JavaMark::Inlined };
            functions.push(function(&method, scope, mark));
        }
        Some(functions)
    }

    fn method(
        &mut self,
        memory: &impl TargetMemory,
        layout: &JavaLayout,
        address: u64,
    ) -> Option<Arc<JavaMethod>> {
        let current = layout.methods.current(memory, address)?;
        if let Some(known) = self.methods.get(&address)
            && known.const_method == current
        {
            return Some(Arc::clone(known));
        }
        let method = Arc::new(layout.methods.method(memory, address)?);
        if self.methods.len() >= MOST_METHODS {
            self.methods.clear();
        }
        self.methods.insert(address, Arc::clone(&method));
        Some(method)
    }
}

fn stub(name: &str) -> JavaFunction {
    JavaFunction {
        name: name.to_string(),
        signature: String::new(),
        file: None,
        line: None,
        first_line: None,
        bci: None,
        mark: JavaMark::Stub,
    }
}

fn function(method: &JavaMethod, scope: JavaScope, mark: JavaMark) -> JavaFunction {
    JavaFunction {
        name: format!("{}.{}", method.class, method.name),
        signature: method.signature.clone(),
        file: method.file.clone(),
        line: method.line(scope.bci),
        first_line: method.first_line(),
        bci: scope.bci,
        mark,
    }
}

#[cfg(test)]
mod tests {
    use super::super::fake::{
        CALL_STUB_RETURN, FakeJvm, HEAP, INTERPRETER, MAP, META, NATIVE, STACK, VARIABLES,
    };
    use super::super::frames::{JavaEnd, JavaLive, JavaPosition, JavaRegisters, JavaWalk, walk};
    use super::*;
    use crate::runtimes::RuntimeProblem;

    const RUNNING: JavaPosition = JavaPosition::Running(None);
    const CODE: [u8; 12] = [0x55, 0x48, 0x83, 0xec, 0x10, 0x90, 0x90, 0x48, 0x83, 0xc4, 0x10, 0x5d];

    /// Compiled `inner` inlined in `outer`, called by interpreted `main`, called by the call stub.
    fn jvm() -> (FakeJvm, u64, [u64; 3]) {
        let mut jvm = FakeJvm::new();
        let lines = [0x22, 0x29, 0];
        let methods = ["Inner", "my/Outer", "my/Main"]
            .map(|class| jvm.method(class, "run", &[0xb8, 0, 0, 0xb8, 0, 0, 0xb1, 0, 0, 0], &lines));
        let code = [&CODE[..], &[0xc3], &[0x90; 0x40]].concat();
        let start = jvm.nmethod(0x1000, &code, 4, methods[1], 9);
        // scope 1: inner, sender 5, method 1, bci 4; scope 5: outer, no sender, method 2, bci 0
        jvm.scopes(
            start,
            &[(-1, 0), (7, 1), (0x40, 5)],
            &[0, 5, 1, 5, 0, 0, 2, 1],
            &[methods[0], methods[1]],
        );
        (jvm, start, methods)
    }

    /// Stack from the return address of the compiled frame up, with the interpreted frame and the call stub's.
    fn stack(jvm: &mut FakeJvm, top: u64, method: u64) -> u64 {
        let fp = top + 0x100;
        let bcp = jvm.bytecodes(method) + 4;
        jvm.word(top, INTERPRETER + 0x180);
        for (below, word) in [(8, fp + 32), (24, method), (64, bcp)] {
            jvm.word(fp - below, word);
        }
        jvm.word(fp, fp + 0x80);
        jvm.word(fp + 8, CALL_STUB_RETURN);
        jvm.word(fp + 0x80, 0x1234);
        jvm.word(fp + 0x88, NATIVE);
        fp
    }

    fn letter(mark: JavaMark) -> char {
        match mark {
            JavaMark::Interpreted => '0',
            JavaMark::C1 => '1',
            JavaMark::Compiled => 'j',
            JavaMark::Inlined => 'i',
            JavaMark::NativeWrapper => 'n',
            JavaMark::Stub => '-',
        }
    }

    fn names_of(jvm: &FakeJvm, walk: &JavaWalk) -> Vec<String> {
        let (layout, mut names) = (layout_of(jvm).unwrap(), JavaNames::default());
        let functions = walk.frames.iter().map(|frame| names.functions(jvm, &layout, frame));
        let text = |function: JavaFunction| {
            let line = function.line.map_or_else(String::new, |line| format!(":{line}"));
            format!("{}{line} {}", function.name, letter(function.mark))
        };
        functions.flat_map(|functions| functions.unwrap_or_default()).map(text).collect()
    }

    fn layout_of(jvm: &FakeJvm) -> Result<JavaLayout, RuntimeProblem> {
        JavaLayout::find(jvm, |name| jvm.symbol_address(name))
    }

    #[test]
    fn stacks_are_walked_and_named_from_every_instruction() {
        let (mut jvm, start, methods) = jvm();
        let top = STACK + 0x1000;
        let fp = stack(&mut jvm, top, methods[2]);
        // The caller's rbp lies below the return address from the push on.
        jvm.word(top - 8, fp);
        let layout = layout_of(&jvm).unwrap();
        let states = [(0, 0, fp), (1, 8, 1), (5, 24, 1), (7, 24, 1), (11, 8, 1), (12, 0, fp)];
        for (offset, depth, rbp) in states {
            let registers = JavaRegisters { pc: start + offset, sp: top - depth, fp: rbp };
            let walk = walk(&jvm, &layout, registers, RUNNING);
            assert_eq!(walk.end, JavaEnd::Native, "at {offset}");
            assert_eq!(
                walk.registers,
                JavaRegisters { pc: NATIVE, sp: fp + 0x90, fp: 0x1234 },
                "at {offset}"
            );
            let names = names_of(&jvm, &walk);
            let main = ["my.Main.run:2 0", "StubRoutines (1) -"];
            let inner = ["Inner.run:2 i", "my.Outer.run j"];
            let expected = if offset <= 7 {
                [&inner[..], &main[..]].concat()
            } else {
                [&inner[1..], &main[..]].concat()
            };
            assert_eq!(names, expected, "at {offset}");
        }
    }

    #[test]
    fn frames_before_jdk_9_have_no_mirror() {
        let mut jvm = FakeJvm::before_9();
        let method = jvm.method("my/Main", "run", &[0xb8, 0, 0, 0xb8, 0, 0, 0xb1], &[0x1a, 0x19, 0]);
        let top = STACK + 0x1000;
        let fp = stack(&mut jvm, top, method);
        let bcp = jvm.bytecodes(method) + 3;
        jvm.word(fp - 64, 0);
        jvm.word(fp - 56, bcp);
        let layout = layout_of(&jvm).unwrap();
        let registers = JavaRegisters { pc: INTERPRETER + 0x180, sp: top + 8, fp };
        let walk = walk(&jvm, &layout, registers, JavaPosition::Returning);
        assert_eq!(names_of(&jvm, &walk)[0], "my.Main.run:2 0");
    }

    #[test]
    fn entries_take_the_return_address_from_rax() {
        let (mut jvm, _, methods) = jvm();
        let top = STACK + 0x1000;
        let fp = stack(&mut jvm, top, methods[2]);
        let layout = layout_of(&jvm).unwrap();
        // After `pop rax` the word at sp is a local variable.
        let registers = JavaRegisters { pc: INTERPRETER + 17, sp: top - 16, fp };
        let live = Some(JavaLive { rax: INTERPRETER + 0x180, r13: top });
        let known = walk(&jvm, &layout, registers, JavaPosition::Running(live));
        assert_eq!((known.end, known.frames[1].method), (JavaEnd::Native, methods[2]));
        let unknown = walk(&jvm, &layout, registers, RUNNING);
        assert_eq!((unknown.end, unknown.frames.len()), (JavaEnd::Unclear, 1));
    }

    #[test]
    fn deoptimised_frames_have_their_original_pc() {
        let (mut jvm, start, methods) = jvm();
        let top = STACK + 0x1000;
        let fp = stack(&mut jvm, top, methods[2]);
        jvm.word(top - 8, fp);
        jvm.int(start - 0x80 + 72, 0x80 + 0x30);
        jvm.int(start - 0x80 + 76, 8);
        jvm.word(top - 24 + 8, start + 7);
        let layout = layout_of(&jvm).unwrap();
        let registers = JavaRegisters { pc: start + 0x30, sp: top - 24, fp: 1 };
        let walk = walk(&jvm, &layout, registers, JavaPosition::Returning);
        assert!(walk.frames[0].is_deoptimized);
        assert_eq!((walk.frames[0].pc, walk.end), (start + 7, JavaEnd::Native));
        assert_eq!(names_of(&jvm, &walk)[0], "Inner.run:2 i");
    }

    #[test]
    fn changed_code_and_methods_are_not_named() {
        let (mut jvm, start, methods) = jvm();
        let top = STACK + 0x1000;
        let fp = stack(&mut jvm, top, methods[2]);
        jvm.word(top - 8, fp);
        let layout = layout_of(&jvm).unwrap();
        let registers = JavaRegisters { pc: start + 5, sp: top - 24, fp: 1 };
        let walk = walk(&jvm, &layout, registers, RUNNING);
        let named = |jvm: &FakeJvm, frame: usize| {
            JavaNames::default().functions(jvm, &layout, &walk.frames[frame]).is_some()
        };
        assert!(named(&jvm, 0) && named(&jvm, 1));
        let mut other = jvm.clone();
        other.int(start - 0x80 + 40, 10);
        assert!(!named(&other, 0), "another compilation");
        let mut other = jvm.clone();
        let const_method = other.u64(methods[2] + 16).unwrap();
        other.word(methods[2] + 16, const_method + 8);
        assert!(!named(&other, 1), "another ConstMethod");
        let mut other = jvm.clone();
        other.half(const_method + 20, 900);
        assert!(!named(&other, 1), "a name outside the pool");
        let mut other = jvm.clone();
        let pool = other.u64(const_method + 8).unwrap();
        other.word(pool + 40 + 8, 0x60_0000 + 0xfff8);
        assert!(!named(&other, 1), "a name that is cut off");
    }

    #[test]
    fn damaged_stacks_end() {
        let (mut jvm, start, methods) = jvm();
        let top = STACK + 0x1000;
        let fp = stack(&mut jvm, top, methods[2]);
        jvm.word(top - 8, fp);
        let layout = layout_of(&jvm).unwrap();
        let registers = JavaRegisters { pc: start + 5, sp: top - 24, fp: 1 };
        let end = |jvm: &FakeJvm| walk(jvm, &layout, registers, RUNNING).end;
        let mut other = jvm.clone();
        other.word(fp + 8, INTERPRETER + 0x180);
        other.word(fp, fp);
        assert_ne!(end(&other), JavaEnd::Native, "a frame that calls itself");
        let mut other = jvm.clone();
        other.word(fp - 8, fp - 0x200);
        assert_eq!(end(&other), JavaEnd::Unclear, "a caller below its callee");
        let mut other = jvm.clone();
        other.word(top - 8, u64::MAX - 3);
        assert_eq!(end(&other), JavaEnd::Unclear, "a wild rbp");
        let mut other = jvm.clone();
        other.unmap(STACK);
        assert_eq!(end(&other), JavaEnd::Unreadable);
        let wild = JavaRegisters { pc: start + 5, sp: u64::MAX - 7, fp: u64::MAX };
        assert_eq!(walk(&jvm, &layout, wild, RUNNING).end, JavaEnd::Unreadable);
    }

    #[test]
    fn any_damage_ends() {
        let (mut whole, start, methods) = jvm();
        let top = STACK + 0x1000;
        let fp = stack(&mut whole, top, methods[2]);
        whole.word(top - 8, fp);
        let registers = JavaRegisters { pc: start + 5, sp: top - 24, fp };
        let mut random = 1_u64;
        let mut next = |most: u64| {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (random >> 33) % most
        };
        for _ in 0..400 {
            let mut jvm = whole.clone();
            let layout = layout_of(&jvm).unwrap();
            for _ in 0..24 {
                let place =
                    [HEAP + 0x1000, META, STACK + 0xf00, MAP, VARIABLES][next(5) as usize] + next(0x500);
                jvm.fill(place, &[next(256) as u8]);
            }
            for layout in layout_of(&jvm).into_iter().chain([layout]) {
                for live in [None, Some(JavaLive { rax: next(1 << 23), r13: STACK + next(0x2000) })] {
                    let pc = if live.is_some() { HEAP + next(0x2200) } else { registers.pc };
                    let walk =
                        walk(&jvm, &layout, JavaRegisters { pc, ..registers }, JavaPosition::Running(live));
                    for frame in &walk.frames {
                        let _ = JavaNames::default().functions(&jvm, &layout, frame);
                    }
                }
            }
        }
    }

    #[test]
    fn deep_stacks_are_cut() {
        let (mut jvm, start, _) = jvm();
        let size = 4 * 8;
        // Every frame returns into the middle of the same code.
        for frame in 0..0x1_0000 / size {
            jvm.word(STACK + frame * size + 24, start + 7);
        }
        let layout = layout_of(&jvm).unwrap();
        let registers = JavaRegisters { pc: start + 7, sp: STACK, fp: 1 };
        let walk = walk(&jvm, &layout, registers, JavaPosition::Returning);
        assert!(walk.frames.len() <= 4096);
        assert_eq!(walk.end, JavaEnd::Unreadable);
    }

    #[test]
    fn scopes_that_go_in_circles_give_the_method_alone() {
        let (mut jvm, start, methods) = jvm();
        // scope 1 is its own sender
        jvm.scopes(start, &[(-1, 0), (7, 1)], &[0, 1, 1, 5], &[methods[0]]);
        let layout = layout_of(&jvm).unwrap();
        let registers = JavaRegisters { pc: start + 7, sp: STACK, fp: 1 };
        let walk = walk(&jvm, &layout, registers, JavaPosition::Returning);
        assert_eq!(names_of(&jvm, &walk)[0], "my.Outer.run j");
    }
}
