//! The walker on stacks whose every word is stated.

use std::collections::BTreeMap;

use crate::unwind::rule::{RBP, RSP};
use crate::unwind::{
    CfiSections, End, FoundBy, FrameState, MappedModule, Memory, MemoryError, ModuleCode, ModuleMap, Page,
    Registers, Row, Rule, Stack, StackCopy, Table, walk,
};

/// Code at process addresses 0x10000 to 0x1ffff, 0x1000 bytes per rule; JIT code at 0x50000, a file
/// without a table at 0x60000.
struct Code {
    table: Table,
    cfi: Option<CfiSections>,
}

const BIAS: u64 = 0x1_0000;
const JIT: u64 = 0x5_0000;
const NOT_LOADED: u64 = 0x6_0000;

impl Code {
    /// Rule `n` holds from 0x10000 + n * 0x1000 on.
    fn new(rules: &[Rule]) -> Self {
        let mut all = vec![Rule::NONE];
        all.extend(rules);
        let rows = (0..16u16)
            .map(|n| Row { pc_low: n << 12, rule: if usize::from(n) < rules.len() { n + 1 } else { 0 } })
            .collect();
        let pages = vec![Page { first: 0, count: 16 }];
        Self { table: Table { first_page: 0, pages, rows, rules: all }, cfi: None }
    }
}

/// The address of an instruction under rule `n`.
const fn pc(n: u64) -> u64 {
    BIAS + n * 0x1000 + 0x10
}

impl ModuleMap for Code {
    fn find(&self, address: u64) -> Option<MappedModule<'_>> {
        let code = match address >> 16 {
            1 => ModuleCode::Table(&self.table),
            5 => ModuleCode::Jit,
            6 => ModuleCode::NotLoaded,
            _ => return None,
        };
        Some(MappedModule { bias: BIAS, code })
    }

    fn cfi(&self, _address: u64) -> Option<&CfiSections> {
        self.cfi.as_ref()
    }
}

struct Words(BTreeMap<u64, u64>);

impl Memory for Words {
    fn read(&self, address: u64) -> Result<u64, MemoryError> {
        self.0.get(&address).copied().ok_or(MemoryError::Unreadable)
    }
}

fn words<const N: usize>(words: [(u64, u64); N]) -> Words {
    Words(words.into())
}

fn at(rip: u64, rsp: u64, rbp: u64) -> FrameState {
    let mut general = [0; 16];
    general[usize::from(RSP)] = rsp;
    general[usize::from(RBP)] = rbp;
    FrameState::interrupted(&Registers { general, rip })
}

fn addresses(stack: &Stack) -> Vec<u64> {
    stack.frames.iter().map(|frame| frame.address).collect()
}

#[test]
fn frames_follow_the_rules_to_the_root() {
    let code = Code::new(&[
        Rule::reg(RSP, 16),
        Rule::reg(RSP, 32).with_rbp_at_cfa(-16),
        Rule::reg(RBP, 16).with_rbp_at_cfa(-16),
        Rule::STOP,
    ]);
    let memory = words([
        (0x8008, pc(1)),  // CFA 0x8010
        (0x8028, pc(2)),  // CFA 0x8030
        (0x8020, 0x8100), // its rbp
        (0x8108, pc(3)),  // CFA 0x8110
        (0x8100, 0x9999),
    ]);
    let stack = walk(&at(pc(0), 0x8000, 0), &code, &memory, 100);
    assert_eq!(addresses(&stack), [pc(0), pc(1), pc(2), pc(3)]);
    assert_eq!(stack.end, End::Complete);
    let found: Vec<_> = stack.frames.iter().map(|frame| (frame.found_by, frame.is_return_address)).collect();
    let by_cfi = (FoundBy::Cfi, true);
    assert_eq!(found, [(FoundBy::Leaf, false), by_cfi, by_cfi, by_cfi]);
}

#[test]
fn a_return_address_belongs_to_the_code_before_it() {
    // A call as its function's last instruction: the next function's rule must not count.
    let code = Code::new(&[Rule::reg(RSP, 8), Rule::STOP, Rule::NONE]);
    let memory = words([(0x8000, BIAS + 0x2000)]);
    let stack = walk(&at(pc(0), 0x8000, 0), &code, &memory, 100);
    assert_eq!(stack.end, End::Complete);
    // But a leaf's address is exact.
    let stack = walk(&at(BIAS + 0x2000, 0x8000, 0), &code, &memory, 100);
    assert_eq!(stack.end, End::NoUnwindInfo { pc: BIAS + 0x2000 });
    // In a system call it follows the instruction.
    let mut state = at(BIAS + 0x2000, 0x8000, 0);
    state.is_return_address = true;
    assert_eq!(walk(&state, &code, &memory, 100).end, End::Complete);
}

#[test]
fn a_linkage_table_counts_what_was_pushed() {
    let code = Code::new(&[Rule::plt(8, 11), Rule::STOP]);
    let memory = words([(0x8000, pc(1)), (0x8008, pc(1) + 1)]);
    let before = walk(&at(BIAS + 0x2a, 0x8000, 0), &code, &memory, 100);
    let after = walk(&at(BIAS + 0x2b, 0x8000, 0), &code, &memory, 100);
    assert_eq!(before.frames[1].address, pc(1));
    assert_eq!(after.frames[1].address, pc(1) + 1);
}

#[test]
fn a_return_address_may_be_in_a_register() {
    let rule = Rule::reg(RSP, 0).with_ra_in_register(5).unwrap();
    let code = Code::new(&[rule, Rule::STOP]);
    let mut state = at(pc(0), 0x8000, 0);
    state.general.set(5, Some(pc(1)));
    let stack = walk(&state, &code, &words([]), 100);
    assert_eq!((addresses(&stack), stack.end), (vec![pc(0), pc(1)], End::Complete));
    // In a caller, that register is lost.
    let stack = walk(&FrameState::caller(pc(0), 0x8000, 0), &code, &words([]), 100);
    assert_eq!(stack.end, End::BadUnwindInfo { pc: pc(0) });
}

/// As OCaml's `caml_c_call`, which pops its return address into memory: the entry finds it below rsp.
#[test]
fn a_leaf_may_have_popped_its_return_address() {
    let code = Code::new(&[Rule::reg(RSP, 0), Rule::reg(RSP, 8), Rule::STOP]);
    let memory = words([(0x7ff8, pc(1)), (0x8000, pc(2))]);
    let stack = walk(&at(pc(0), 0x8000, 0), &code, &memory, 100);
    assert_eq!((addresses(&stack), stack.end), (vec![pc(0), pc(1), pc(2)], End::Complete));
    // A caller cannot have: it would be walked for ever.
    let code = Code::new(&[Rule::reg(RSP, 8), Rule::reg(RSP, 0)]);
    let memory = words([(0x8000, pc(1)), (0x8008, pc(1))]);
    let stack = walk(&at(pc(0), 0x8000, 0), &code, &memory, 100);
    assert_eq!(stack.end, End::BadUnwindInfo { pc: pc(1) });
}

#[test]
fn a_realigned_frame_is_found_through_its_saved_pointer() {
    let code = Code::new(&[Rule::deref(RBP, -8, 0).with_rbp_at_rbp(0), Rule::STOP]);
    let memory = words([(0x80f8, 0x8200), (0x81f8, pc(1)), (0x8100, 0x8300)]);
    let stack = walk(&at(pc(0), 0x8000, 0x8100), &code, &memory, 100);
    assert_eq!((addresses(&stack), stack.end), (vec![pc(0), pc(1)], End::Complete));
}

#[test]
fn an_indexed_frame_is_found_through_both_registers() {
    let code = Code::new(&[Rule::deref_index(RSP, 9, 8, 8), Rule::STOP]);
    let mut state = at(pc(0), 0x8000, 0);
    state.general.set(9, Some(3));
    // *(0x8000 + 8 * 3 + 8) + 8
    let memory = words([(0x8020, 0x8800), (0x8800, pc(1))]);
    let stack = walk(&state, &code, &memory, 100);
    assert_eq!((addresses(&stack), stack.end), (vec![pc(0), pc(1)], End::Complete));
}

#[test]
fn a_signal_frame_restores_everything_even_to_a_lower_stack() {
    // 0: the handler; 1: the restorer; 2: what was interrupted, which needs r11; 3: root.
    let code = Code::new(&[Rule::reg(RSP, 8), Rule::SIGNAL, Rule::reg(11, 16), Rule::STOP]);
    let context = 0x9_0008;
    let mut memory = words([(0x9_0000, pc(1)), (0x7008, pc(3))]);
    for offset in (40..=168).step_by(8) {
        memory.0.insert(context + offset, 0);
    }
    // r8 to r15 lie at 40 to 96: r11 is the fourth.
    memory.0.insert(context + 64, 0x7000);
    memory.0.insert(context + 160, 0x6ff0);
    // Exactly at the start of its rule: the address is not a return address.
    memory.0.insert(context + 168, BIAS + 0x2000);
    let stack = walk(&at(pc(0), 0x9_0000, 0), &code, &memory, 100);
    assert_eq!(addresses(&stack), [pc(0), pc(1), BIAS + 0x2000, pc(3)]);
    assert_eq!(stack.end, End::Complete);
    assert_eq!(stack.frames[2].found_by, FoundBy::Signal);
    assert!(!stack.frames[2].is_return_address);

    // A call through a null pointer is what the handler was called for; it is not the root.
    memory.0.insert(context + 168, 0);
    let stack = walk(&at(pc(0), 0x9_0000, 0), &code, &memory, 100);
    assert_eq!((addresses(&stack), stack.end), (vec![pc(0), pc(1)], End::UnknownMapping { address: 0 }));
}

#[test]
fn frame_pointers_are_followed_only_while_they_look_like_some() {
    let code = Code::new(&[Rule::FRAME_POINTER, Rule::STOP]);
    let memory =
        words([(0x8100, 0x8200), (0x8108, pc(1)), (0x7000, 0), (0x7008, pc(1)), (0x8300, 0), (0x8308, 5)]);
    let good = walk(&at(pc(0), 0x8000, 0x8100), &code, &memory, 100);
    assert_eq!((good.frames[1].found_by, good.end), (FoundBy::FramePointer, End::Complete));
    let bad = End::BadFramePointer { pc: pc(0) };
    for (rbp, why) in [(0x7000, "below rsp"), (0x8101, "not aligned"), (0x8300, "no code"), (0, "null")] {
        assert_eq!(walk(&at(pc(0), 0x8000, rbp), &code, &memory, 100).end, bad, "{why}");
    }
}

#[test]
fn a_caller_on_another_stack_may_lie_anywhere_but_in_what_was_walked() {
    // rbp leads from frame to frame: up to another piece, down to one between the two, and up to the root.
    let by_rbp = Rule::reg(RBP, 16).with_rbp_at_cfa(-16);
    let code = Code::new(&[by_rbp, Rule::STOP]);
    let frame =
        |rbp: u64, caller_rbp: u64, return_address: u64| [(rbp, caller_rbp), (rbp + 8, return_address)];
    let pieces =
        [frame(0x8100, 0x4_0000, pc(0)), frame(0x4_0000, 0x2_0000, pc(0)), frame(0x2_0000, 0, pc(1))];
    let memory = Words(pieces.concat().into_iter().collect());
    let stack = walk(&at(pc(0), 0x8000, 0x8100), &code, &memory, 100);
    assert_eq!((stack.frames.len(), stack.end), (4, End::Complete));
    // Down to what lies below the leaf on the same stack, or has been walked: a wrong rbp.
    for back_to in [0x8080, 0x8010, 0x8000 - 0x90] {
        let pieces = [frame(0x8100, 0x8200, pc(0)), frame(0x8200, back_to, pc(0)), frame(back_to, 0, pc(1))];
        let memory = Words(pieces.concat().into_iter().collect());
        let stack = walk(&at(pc(0), 0x8000, 0x8100), &code, &memory, 100);
        assert_eq!(stack.end, End::BadUnwindInfo { pc: pc(0) }, "{back_to:#x}");
    }
}

#[test]
fn a_walk_round_two_stacks_ends() {
    let by_rbp = Rule::reg(RBP, 16).with_rbp_at_cfa(-16);
    let code = Code::new(&[by_rbp]);
    let memory = words([(0x8100, 0x4_0000), (0x8108, pc(0)), (0x4_0000, 0x8100), (0x4_0008, pc(0))]);
    let stack = walk(&at(pc(0), 0x9000, 0x8100), &code, &memory, 1000);
    assert_eq!(stack.end, End::BadUnwindInfo { pc: pc(0) });
    assert!(stack.frames.len() < 200);
}

#[test]
fn in_go_rbp_may_lead_to_another_stack_and_zero_is_the_root() {
    let code = Code::new(&[Rule::FRAME_POINTER_ROOT, Rule::FRAME_POINTER_ROOT]);
    let memory = words([(0x7000, 0), (0x7008, pc(1))]);
    let stack = walk(&at(pc(0), 0x8000, 0x7000), &code, &memory, 100);
    assert_eq!((addresses(&stack), stack.end), (vec![pc(0), pc(1)], End::Complete));
    // A leaf with rbp = 0 proves nothing: it may have its own use for the register.
    let leaf = walk(&at(pc(0), 0x8000, 0), &code, &memory, 100);
    assert_eq!(leaf.end, End::BadFramePointer { pc: pc(0) });
}

#[test]
fn a_leaf_that_is_about_to_build_its_frame_keeps_its_caller() {
    let code = Code::new(&[Rule::STOP]);
    // One byte before the instruction pointer: nop; then push %rbp; mov %rsp, %rbp.
    let entry = u64::from_le_bytes([0x90, 0x55, 0x48, 0x89, 0xe5, 0x90, 0x90, 0x90]);
    let caller = JIT + 0x100;
    let mut memory = words([
        (JIT - 1, entry),
        (JIT + 7, 0x9090_9090_9090_9090),
        (0x8000, caller),
        (0x8100, 0x8200),
        (0x8108, pc(0)),
    ]);
    let stack = walk(&at(JIT, 0x8000, 0x8100), &code, &memory, 100);
    assert_eq!((addresses(&stack), stack.end), (vec![JIT, caller, pc(0)], End::Complete));
    // Where the code cannot be read, rbp alone leads on.
    memory.0.remove(&(JIT - 1));
    let stack = walk(&at(JIT, 0x8000, 0x8100), &code, &memory, 100);
    assert_eq!((addresses(&stack), stack.end), (vec![JIT, pc(0)], End::Complete));
}

#[test]
fn code_without_a_file_is_followed_by_frame_pointers() {
    let code = Code::new(&[Rule::STOP]);
    let memory = words([(0x8100, 0x8200), (0x8108, JIT + 8), (0x8200, 0), (0x8208, pc(0))]);
    let stack = walk(&at(JIT, 0x8000, 0x8100), &code, &memory, 100);
    assert_eq!((addresses(&stack), stack.end), (vec![JIT, JIT + 8, pc(0)], End::Complete));
    let stack = walk(&at(JIT, 0x8000, 0x8500), &code, &memory, 100);
    assert_eq!(stack.end, End::JitEnd { pc: JIT });
}

#[test]
fn every_end_says_where_and_why() {
    let code = Code::new(&[Rule::reg(RSP, 8), Rule::USER, Rule::deref(RSP, 0, 0)]);
    let end = |rip, memory: &Words| walk(&at(rip, 0x8000, 0), &code, memory, 100).end;
    let call = FrameState { is_return_address: true, ..at(pc(0), 0x8008, 0) };
    assert_eq!(walk(&call, &code, &words([(0x8008, 0)]), 100).end, End::Complete);
    assert_eq!(end(pc(0), &words([(0x8000, 0)])), End::BadUnwindInfo { pc: pc(0) }, "no call aligns so");
    assert_eq!(end(pc(0), &words([(0x8000, 0x4242)])), End::UnknownMapping { address: 0x4242 });
    assert_eq!(end(pc(0), &words([])), End::StackUnreadable { address: 0x8000 });
    assert_eq!(end(pc(9), &words([])), End::NoUnwindInfo { pc: pc(9) });
    assert_eq!(end(NOT_LOADED, &words([])), End::TableNotLoaded { pc: NOT_LOADED });
    assert_eq!(end(0x4242, &words([])), End::UnknownMapping { address: 0x4242 });
    assert_eq!(end(pc(1), &words([])), End::NotExpressible { pc: pc(1) });
    // A CFA that is not above rsp.
    let memory = words([(0x8000, 0x7fc0), (0x7fb8, pc(0))]);
    assert_eq!(end(pc(2), &memory), End::BadUnwindInfo { pc: pc(2) });
}

/// A large frame whose middle its function has not touched has pages that do not exist yet.
#[test]
fn a_walk_leads_over_blocks_that_a_copy_lacks_but_not_into_them() {
    let code = Code::new(&[Rule::reg(RSP, 0x2810), Rule::reg(RSP, 8), Rule::STOP]);
    let mut bytes = vec![0; 0x3000];
    bytes[0x2808..0x2810].copy_from_slice(&pc(1).to_le_bytes());
    bytes[0x2810..0x2818].copy_from_slice(&pc(2).to_le_bytes());
    let mut copy = StackCopy { start: 0x8000, bytes: &bytes, missing_blocks: [0b010, 0, 0, 0] };
    let stack = walk(&at(pc(0), 0x8000, 0), &code, &copy, 100);
    assert_eq!((addresses(&stack), stack.end), (vec![pc(0), pc(1), pc(2)], End::Complete));
    // Nothing may be taken for the zero that is a root.
    copy.missing_blocks[0] = 0b100;
    let stack = walk(&at(pc(0), 0x8000, 0), &code, &copy, 100);
    assert_eq!(stack.end, End::StackUnreadable { address: 0xa808 });
}

#[test]
fn a_copy_that_ends_is_not_an_unreadable_stack() {
    let code = Code::new(&[Rule::reg(RSP, 8), Rule::reg(RSP, 64)]);
    let bytes = pc(1).to_le_bytes();
    let copy = StackCopy { start: 0x8000, bytes: &bytes, missing_blocks: [0; 4] };
    let stack = walk(&at(pc(0), 0x8000, 0), &code, &copy, 100);
    assert_eq!((stack.frames.len(), stack.end), (2, End::CopyTooShort { address: 0x8040 }));
    assert_eq!(copy.read(0x7fff), Err(MemoryError::OutsideCopy));
    assert_eq!(copy.read(0x8001), Err(MemoryError::OutsideCopy));
    assert_eq!(copy.read(u64::MAX), Err(MemoryError::OutsideCopy));
}

#[test]
fn a_walk_without_end_is_given_up() {
    let code = Code::new(&[Rule::reg(RSP, 8)]);
    struct Endless;
    impl Memory for Endless {
        fn read(&self, _: u64) -> Result<u64, MemoryError> {
            Ok(pc(0))
        }
    }
    let stack = walk(&at(pc(0), 0x8000, 0), &code, &Endless, 50);
    assert_eq!((stack.frames.len(), stack.left_out, stack.end), (50, 16_384 - 50, End::TooDeep));
    assert_eq!(walk(&at(pc(0), 0x8000, 0), &code, &Endless, 0).frames, []);
}

#[test]
fn both_ends_of_a_deep_stack_are_kept() {
    let code = Code::new(&[Rule::reg(RSP, 8), Rule::STOP]);
    struct Deep;
    impl Memory for Deep {
        fn read(&self, address: u64) -> Result<u64, MemoryError> {
            Ok(if address < 0x8000 + 8 * 200 { pc(0) } else { pc(1) })
        }
    }
    let stack = walk(&at(pc(0), 0x8000, 0), &code, &Deep, 100);
    assert_eq!((stack.frames.len(), stack.left_out, stack.end), (100, 102, End::Complete));
    assert_eq!(stack.frames[99].address, pc(1));
    let whole = walk(&at(pc(0), 0x8000, 0), &code, &Deep, 202);
    assert_eq!((whole.frames.len(), whole.left_out, whole.end), (202, 0, End::Complete));
}

/// A CIE and FDEs of 0x1000 bytes with the given instructions, from the module's own address 0x1000 on.
fn eh_frame(functions: &[&[u8]]) -> Vec<u8> {
    let mut bytes: Vec<u8> = Vec::new();
    let mut entry = |body: Vec<u8>| {
        let size = body.len().next_multiple_of(4);
        bytes.extend((size as u32).to_le_bytes());
        bytes.extend(&body);
        bytes.resize(bytes.len() + size - body.len(), 0);
        bytes.len()
    };
    // Version 1, "zR", absolute 8-byte pointers; CFA = rsp + 8, return address at CFA - 8.
    let mut next = entry(vec![0, 0, 0, 0, 1, b'z', b'R', 0, 1, 0x78, 16, 1, 0x04, 0x0c, 7, 8, 0x90, 1]);
    for (index, instructions) in functions.iter().enumerate() {
        let mut body = (next as u32 + 4).to_le_bytes().to_vec();
        body.extend((0x1000 * (index as u64 + 1)).to_le_bytes());
        body.extend(0x1000u64.to_le_bytes());
        body.push(0);
        body.extend(*instructions);
        next = entry(body);
    }
    bytes
}

#[test]
fn what_a_rule_cannot_say_is_evaluated_in_full() {
    // 1: CFA = (rsp & -16) + 16, rbx saved at CFA - 16. 2: CFA = rbx + 32, which only the full walk knows.
    let functions: [&[u8]; 2] =
        [&[0x0f, 7, 0x77, 0, 0x09, 0xf0, 0x1a, 0x23, 16, 0x80 | 3, 2], &[0x0c, 3, 32]];
    let mut code = Code::new(&[Rule::STOP, Rule::USER, Rule::reg(3, 32), Rule::STOP]);
    code.cfi = Some(CfiSections::from_bytes(eh_frame(&functions), 0x10_0000, Vec::new()));
    // rsp 0x8008: the CFA is 0x8010.
    let memory = words([(0x8008, pc(2)), (0x8000, 0x8100), (0x8118, pc(3))]);
    let stack = walk(&at(pc(1), 0x8008, 0), &code, &memory, 100);
    assert_eq!((addresses(&stack), stack.end), (vec![pc(1), pc(2), pc(3)], End::Complete));
}

/// Hand-written code calls its own parts without keeping to the calling convention: libcrypto's AES-GCM finds its frame
/// by rax even around a call.
#[test]
fn a_register_that_a_callee_s_entry_does_not_mention_is_the_caller_s() {
    // 1: CFA = rsp + 8. 2: CFA = rax + 8.
    let functions: [&[u8]; 2] = [&[], &[0x0c, 0, 8]];
    let mut code = Code::new(&[Rule::STOP, Rule::reg(7, 8), Rule::reg(0, 8), Rule::STOP]);
    code.cfi = Some(CfiSections::from_bytes(eh_frame(&functions), 0x10_0000, Vec::new()));
    let memory = words([(0x8000, pc(2)), (0x8100, pc(3))]);
    let mut start = at(pc(1), 0x8000, 0);
    start.general.set(0, Some(0x8100));
    let stack = walk(&start, &code, &memory, 100);
    assert_eq!((addresses(&stack), stack.end), (vec![pc(1), pc(2), pc(3)], End::Complete));
}

#[test]
fn an_expression_that_never_ends_is_given_up() {
    // DW_OP_skip to itself.
    let functions: [&[u8]; 1] = [&[0x0f, 3, 0x2f, 0xfd, 0xff]];
    let mut code = Code::new(&[Rule::STOP, Rule::USER]);
    code.cfi = Some(CfiSections::from_bytes(eh_frame(&functions), 0x10_0000, Vec::new()));
    let stack = walk(&at(pc(1), 0x8000, 0), &code, &words([]), 100);
    assert_eq!(stack.end, End::BadUnwindInfo { pc: pc(1) });
}
