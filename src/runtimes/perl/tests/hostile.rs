//! Memory that lies.

use super::super::code::{PerlCode, check};
use super::super::frames::frames;
use super::super::layout::{PerlKind, PerlLayout};
use super::synthetic::{CALLER, CONSTRUCT, INTERPRETER, NEXT_STATEMENT, SyntheticBlock, SyntheticPerl};

#[test]
fn lists_without_end_are_cut() {
    let mut perl = SyntheticPerl::new(36);
    let at = perl.statement("a.pl", 1);
    let stack = perl.stack(0, &[SyntheticBlock { kind: 2, ..SyntheticBlock::default() }]);
    // Around itself.
    perl.memory.put_word(stack + 16, stack);
    perl.set(stack, at);
    assert!(!frames(&perl.memory, &perl.layout, INTERPRETER).is_complete);
    // More blocks than there is memory.
    perl.memory.put_word(stack + 16, 0);
    for last in [i32::MAX, 1_000_000] {
        perl.memory.put(stack + 32, &last.to_ne_bytes());
        assert!(!frames(&perl.memory, &perl.layout, INTERPRETER).is_complete);
    }
}

#[test]
fn wild_pointers_lead_nowhere() {
    let mut perl = SyntheticPerl::new(36);
    for wild in [1, 0x10, 0xffff_ffff_ffff_fff0, u64::MAX, 0x8000_0000_0000] {
        perl.set(wild, wild);
        let stack = frames(&perl.memory, &perl.layout, INTERPRETER);
        assert!(!stack.is_complete && stack.frames.is_empty());
        for kind in [PerlKind::Sub, PerlKind::Main, PerlKind::Sort] {
            let code = kind.code(wild);
            assert_eq!(PerlCode::read(&perl.memory, &perl.layout, code), None);
            if kind == PerlKind::Sub {
                assert_eq!(check(&perl.memory, &perl.layout, code), None);
            }
        }
    }
    assert_eq!(PerlKind::of(0x00ff_0000_0000_1000), None);
    // Statements that cannot be read are no reason to lose the frame.
    let sub = perl.sub("main", "work", "a.pl", 3);
    let stack = perl.stack(0, &[SyntheticBlock { kind: 9, sub, ..SyntheticBlock::default() }]);
    perl.set(stack, u64::MAX - 3);
    let stack = frames(&perl.memory, &perl.layout, INTERPRETER);
    assert_eq!(stack.frames.first().map(|frame| (frame.code, frame.line)), Some((sub, 0)));
}

#[test]
fn long_texts_are_no_names() {
    let mut perl = SyntheticPerl::new(36);
    let long = "x".repeat(5000);
    let file = perl.text(&long);
    assert_eq!(PerlCode::read(&perl.memory, &perl.layout, PerlKind::Eval.code(file)), None);
    let package = perl.package("main");
    for length in [5000, 0, u32::MAX, i32::MAX as u32] {
        let key = perl.key(long.as_bytes(), false);
        perl.memory.put(key + 4, &length.to_ne_bytes());
        let symbol = perl.symbol(package, key);
        let sub = perl.sub_of(symbol, "a.pl", 0);
        assert_eq!(PerlCode::read(&perl.memory, &perl.layout, PerlKind::Sub.code(sub)), None);
    }
}

/// What functions of a build say, as compilers write it: blocks of 104 bytes.
fn with_functions(perl: &mut SyntheticPerl, block_bytes: u8) {
    // mov rdx, [rdi + 0xe0]; mov rax, [rdi + 8]; mov [rdi + 0xd0], rax; movsxd rax, [rdx + 0x20];
    // imul rax, rax, BYTES; add rax, [rdx + 8]; movsxd rdx, [rax + 8]; ret
    let mut code =
        vec![0x48, 0x8b, 0x97, 0xe0, 0, 0, 0, 0x48, 0x8b, 0x47, 0x08, 0x48, 0x89, 0x87, 0xd0, 0, 0, 0];
    code.extend([0x48, 0x63, 0x42, 0x20, 0x48, 0x6b, 0xc0, block_bytes, 0x48, 0x03, 0x42, 0x08]);
    code.extend([0x48, 0x63, 0x50, 0x08, 0xc3]);
    code.resize(128, 0xcc);
    perl.memory.put(NEXT_STATEMENT, &code);
    // mov rax, [rdi + 0xe0]; mov rcx, [rax + 8]; movsxd rdx, [rax + 0x20]; imul rdx, rdx, BYTES;
    // cmp rsi, [rcx + rdx + 0x48]; cmp dword ptr [rax + 0x2c], 1; mov rax, [rax + 0x10]; ret
    let mut code = vec![0x48, 0x8b, 0x87, 0xe0, 0, 0, 0, 0x48, 0x8b, 0x48, 0x08, 0x48, 0x63, 0x50, 0x20];
    code.extend([0x48, 0x6b, 0xd2, block_bytes, 0x48, 0x3b, 0x74, 0x11, 0x48]);
    code.extend([0x83, 0x78, 0x2c, 0x01, 0x48, 0x8b, 0x40, 0x10, 0xc3]);
    code.resize(512, 0xcc);
    perl.memory.put(CALLER, &code);
    // lea rsi, [rip + 0x10]
    let mut code = vec![0x48, 0x8d, 0x35, 0x10, 0, 0, 0, 0xc3];
    code.resize(0x17, 0xcc);
    code.extend(b"v5.36.0\0");
    code.resize(128, 0xcc);
    perl.memory.put(CONSTRUCT, &code);
}

/// Finds the layout of a build whose functions and tables are there.
fn found(perl: &mut SyntheticPerl) -> Result<PerlLayout, crate::runtimes::RuntimeProblem> {
    let (names, functions, interpreter, key) = (perl.place(32), perl.place(32), perl.place(8), perl.place(8));
    for (index, (op, function)) in
        [("nextstate", NEXT_STATEMENT), ("dbstate", 0x40_2000)].into_iter().enumerate()
    {
        let text = perl.text(op);
        perl.memory.put_word(names + 8 * index as u64, text);
        perl.memory.put_word(functions + 8 * index as u64, function);
    }
    perl.memory.put_word(interpreter, INTERPRETER);
    let symbols = |name: &str| {
        Some(match name {
            "PL_curinterp" => interpreter,
            "PL_op_name" => names,
            "PL_ppaddr" => functions,
            "PL_thr_key" => key,
            "perl_construct" => CONSTRUCT,
            "Perl_caller_cx" => CALLER,
            _ => return None,
        })
    };
    PerlLayout::find(&perl.memory, &symbols, "/usr/bin/perl")
}

#[test]
fn a_layout_is_believed_when_functions_and_stacks_agree_with_the_version() {
    let mut perl = SyntheticPerl::new(36);
    with_functions(&mut perl, 104);
    let (sub, at) = (perl.sub("main", "work", "a.pl", 3), perl.statement("a.pl", 4));
    let main = SyntheticBlock { kind: 2, ..SyntheticBlock::default() };
    let called = SyntheticBlock { kind: 9, sub, old_statement: at, return_op: 1, required: 0 };
    let stack = perl.stack(0, &[main, called]);
    perl.set(stack, at);
    let layout = found(&mut perl).expect("it fits");
    assert_eq!((layout.stack, layout.statement, layout.version.minor), (0xe0, 0xd0, 36));

    // Nothing on the stack yet.
    let empty = perl.stack(0, &[]);
    perl.set(empty, at);
    assert!(found(&mut perl).expect_err("no frame").is_temporary());
    // Something else than a sub.
    let stack = perl.stack(0, &[main, SyntheticBlock { sub: at, ..called }]);
    perl.set(stack, at);
    let problem = found(&mut perl).expect_err("no sub");
    assert!(problem.is_temporary() && problem.to_string().contains("unknown layout"), "{problem}");
    // Blocks of another size.
    with_functions(&mut perl, 112);
    let problem = found(&mut perl).expect_err("another size");
    assert!(!problem.is_temporary() && problem.to_string().contains("112 bytes"), "{problem}");
}
