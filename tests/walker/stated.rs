//! What the kernel's walker does on stacks whose every word is stated.

use prof::internals::bpf::MAX_USER_FRAMES;
use prof::internals::unwind::rule::{GoroutineOffsets, RBP, RSP, RaKind, RuleKind};
use prof::internals::unwind::{End, Page, Row, Rule, Stack, Table, walk};

use crate::case::{Case, Image, ImageState, Mapping, Piece, REGISTERS, Uprobes};
use crate::differential::compare;
use crate::host::{HostStack, Replay};

const CODE: u64 = 0x5500_0000_0000;
const STACK: u64 = 0x7ffc_0000_0000;
const PAGE: u64 = 4096;
/// `PROF_OUTCOME_COMPLETE`.
const COMPLETE: u32 = 1;
/// `PROF_OUTCOME_BAD_UNWIND_INFO`.
const BAD_UNWIND_INFO: u32 = 9;

/// The address of an instruction under rule `n`.
const fn pc(n: u64) -> u64 {
    CODE + n * 0x1000 + 0x10
}

/// A thread at rule 0 with rsp at `STACK`, whose rule `n` holds from `CODE` + n * 0x1000 on, and one page of stack.
fn case(rules: &[Rule], words: &[(u64, u64)]) -> Case {
    let mut all = vec![Rule::NONE];
    all.extend(rules);
    let rule = |n: u16| if usize::from(n) < rules.len() { n + 1 } else { 0 };
    let rows = (0..16).map(|n| Row { pc_low: n << 12, rule: rule(n) }).collect();
    let table = Table { first_page: 0, pages: vec![Page { first: 0, count: 16 }], rows, rules: all };
    let mut registers = vec![0; REGISTERS];
    registers[usize::from(RSP)] = STACK;
    registers[REGISTERS - 1] = pc(0);
    Case {
        registers,
        images: vec![Image { state: ImageState::Ready, table }],
        mappings: vec![Mapping { start: CODE, end: CODE + 0x4_0000, bias: CODE, image: 0 }],
        memory: vec![Piece { start: STACK, bytes: page(words) }],
        ..Case::default()
    }
}

/// A page of zeros with words at distances from its start.
fn page(words: &[(u64, u64)]) -> Vec<u8> {
    let mut bytes = vec![0; PAGE as usize];
    for &(at, word) in words {
        bytes[at as usize..][..8].copy_from_slice(&word.to_le_bytes());
    }
    bytes
}

/// Walks in both ways, which have to agree.
fn walk_both(case: &Case) -> (HostStack, Stack) {
    let host = Replay::start().walk(case);
    let stack = walk(&case.start(), case, case, MAX_USER_FRAMES);
    if let Err(difference) = compare(&host, &stack) {
        panic!("{difference}\n{case:#?}");
    }
    (host, stack)
}

fn addresses(stack: &HostStack) -> Vec<u64> {
    stack.frames.iter().map(|frame| frame.address).collect()
}

#[test]
fn a_return_address_of_zero_is_no_root_where_the_stack_shrinks() {
    let rules = [Rule::reg(RSP, 8), Rule::deref(RSP, 0, 0)];
    let (stack, end) = walk_both(&case(&rules, &[(0, pc(1)), (8, STACK + 0x100)]));
    assert_eq!((addresses(&stack), end.end), (vec![pc(0), pc(1)], End::Complete));
    let mut shrinking = case(&rules, &[(0x800, pc(1)), (0x808, STACK + 0x100)]);
    shrinking.registers[usize::from(RSP)] = STACK + 0x800;
    let (stack, end) = walk_both(&shrinking);
    assert_eq!((addresses(&stack), end.end), (vec![pc(0), pc(1)], End::BadUnwindInfo { pc: pc(1) }));
}

#[test]
fn a_return_address_of_zero_is_a_root_only_where_a_call_can_have_pushed_it() {
    let rules = [Rule::reg(RSP, 8), Rule::reg(RSP, 8)];
    for at in [0, 8, 16, 24] {
        let mut zero = case(&rules, &[(at, pc(1)), (at + 8, 0)]);
        zero.registers[usize::from(RSP)] = STACK + at;
        let (stack, end) = walk_both(&zero);
        // The stack pointer is aligned to 16 before a call pushes the return address.
        let expected = if at % 16 == 0 { End::Complete } else { End::BadUnwindInfo { pc: pc(1) } };
        assert_eq!((addresses(&stack), end.end), (vec![pc(0), pc(1)], expected), "at {at}");
    }
}

#[test]
fn a_return_address_of_zero_is_a_root_only_where_the_frame_pointer_is_zero() {
    let rules = [Rule::reg(RSP, 8), Rule::reg(RSP, 24).with_rbp_at_cfa(-16)];
    for (saved_rbp, expected) in [(0, End::Complete), (STACK + 0x100, End::BadUnwindInfo { pc: pc(1) })] {
        let (stack, end) = walk_both(&case(&rules, &[(0, pc(1)), (8, 1), (16, saved_rbp), (24, 0)]));
        assert_eq!((addresses(&stack), end.end), (vec![pc(0), pc(1)], expected));
    }
}

/// Most wrong rules are those of the function that was interrupted.
#[test]
fn a_return_address_of_zero_is_no_root_below_the_interrupted_function() {
    let mut zero = case(&[Rule::reg(RSP, 8)], &[(8, 0)]);
    zero.registers[usize::from(RSP)] = STACK + 8;
    let (stack, end) = walk_both(&zero);
    assert_eq!((addresses(&stack), end.end), (vec![pc(0)], End::BadUnwindInfo { pc: pc(0) }));
}

#[test]
fn addresses_outside_a_modules_code_are_not_followed_by_frame_pointers() {
    let words = [(0, pc(20)), (0x100, 0), (0x108, pc(1))];
    let mut outside = case(&[Rule::reg(RSP, 8), Rule::STOP], &words);
    outside.registers[usize::from(RBP)] = STACK + 0x100;
    // Past the table's pages, in a page without rows, under a row that says nothing.
    for (return_address, pages) in [(pc(20), 1), (pc(20), 2), (pc(5), 1)] {
        outside.memory[0].bytes[..8].copy_from_slice(&return_address.to_le_bytes());
        outside.images[0].table.pages.resize(pages, Page::default());
        let (stack, end) = walk_both(&outside);
        assert_eq!(addresses(&stack), [pc(0), return_address]);
        assert_eq!(end.end, End::NoUnwindInfo { pc: return_address });
    }
}

/// In Go's runtime frame pointers lead to lower addresses, where another stack is, but not for ever.
#[test]
fn a_frame_pointer_that_leads_to_itself_ends_the_stack() {
    const FEW: usize = 80;
    let rules = [Rule { kind: RuleKind::FramePointerRoot, ..Rule::NONE }];
    let mut cycle = case(&rules, &[(0x100, STACK + 0x100), (0x108, pc(0))]);
    cycle.registers[usize::from(RBP)] = STACK + 0x100;
    let (stack, end) = walk_both(&cycle);
    assert!(stack.frames.len() < FEW && end.left_out == 0, "{} frames", stack.frames.len());
    assert_eq!(end.end, End::BadFramePointer { pc: pc(0) });
}

#[test]
fn a_stack_is_read_up_to_its_last_word() {
    let rules = [Rule::reg(RSP, 8), Rule::STOP];
    // The frame's return address is the last word before unreadable memory, whatever a read of more would do.
    for at in (PAGE - 2064..PAGE).step_by(8) {
        let mut edge = case(&rules, &[(at, pc(1))]);
        edge.registers[usize::from(RSP)] = STACK + at;
        assert_eq!(addresses(&walk_both(&edge).0), [pc(0), pc(1)], "at {at}");
    }
    for at in PAGE - 7..PAGE + 1 {
        let mut past = case(&rules, &[]);
        past.registers[usize::from(RSP)] = STACK + at;
        assert_eq!(walk_both(&past).1.end, End::StackUnreadable { address: STACK + at });
    }
    // A word over the border of two pages, with nothing behind the second.
    let mut across = case(&rules, &[]);
    across.memory[0].bytes.extend(page(&[]));
    let at = PAGE as usize - 3;
    across.memory[0].bytes[at..][..8].copy_from_slice(&pc(1).to_le_bytes());
    across.registers[usize::from(RSP)] = STACK + at as u64;
    assert_eq!(addresses(&walk_both(&across).0), [pc(0), pc(1)]);
}

#[test]
fn a_page_that_is_missing_ends_the_stack_where_it_is_needed_and_nowhere_else() {
    let rules = [Rule::reg(RSP, 8), Rule::reg(RSP, 3 * 4096), Rule::reg(RSP, 4096), Rule::STOP];
    // Its second page is missing: frames that lie around it are found, one that lies in it is not.
    let mut holed = case(&rules, &[(0, pc(1))]);
    holed.memory.push(Piece { start: STACK + 2 * PAGE, bytes: page(&[(4096 - 16, 0), (4096 - 8, 0)]) });
    holed.memory.push(Piece { start: STACK + 3 * PAGE, bytes: page(&[(0, pc(3))]) });
    assert_eq!(addresses(&walk_both(&holed).0), [pc(0), pc(1), pc(3)]);
    holed.memory[0].bytes[..8].copy_from_slice(&pc(2).to_le_bytes());
    let (stack, end) = walk_both(&holed);
    assert_eq!(addresses(&stack), [pc(0), pc(2)]);
    assert_eq!(end.end, End::StackUnreadable { address: STACK + PAGE });
}

#[test]
fn return_addresses_that_uretprobes_have_replaced_are_put_back() {
    const TRAMPOLINE: u64 = 0x7fff_ffff_e000;
    let rules = [Rule::reg(RSP, 8), Rule::reg(RSP, 16), Rule::reg(RSP, 16), Rule::STOP];
    let words = [(0, TRAMPOLINE), (16, pc(2)), (32, TRAMPOLINE)];
    let mut probed = case(&rules, &words);
    let replaced = vec![(STACK, pc(1)), (STACK + 32, pc(3))];
    probed.uprobes = Some(Uprobes { trampoline: TRAMPOLINE, replaced });
    let stack = Replay::start().walk(&probed);
    assert_eq!((addresses(&stack), stack.outcome), (vec![pc(0), pc(1), pc(2), pc(3)], COMPLETE));
    // The kernel's list does not have the outer one, or has it for another place.
    for replaced in [vec![(STACK, pc(1))], vec![(STACK, pc(1)), (STACK + 24, pc(3))]] {
        probed.uprobes = Some(Uprobes { trampoline: TRAMPOLINE, replaced });
        let stack = Replay::start().walk(&probed);
        assert_eq!((addresses(&stack), stack.outcome), (vec![pc(0), pc(1), pc(2)], BAD_UNWIND_INFO));
    }
    // A list that is longer than the kernel lets it get.
    let replaced = (0..100).map(|at| (STACK + 64 + at * 8, pc(1))).chain([(STACK, pc(3))]).collect();
    probed.uprobes = Some(Uprobes { trampoline: TRAMPOLINE, replaced });
    let stack = Replay::start().walk(&probed);
    assert_eq!((addresses(&stack), stack.outcome), (vec![pc(0)], BAD_UNWIND_INFO));
}

/// One case of each kind of rule.
pub(crate) fn some_cases() -> Vec<Case> {
    let kinds = [
        Rule::reg(RSP, 16).with_rbp_at_cfa(-16),
        Rule::reg(RBP, 16).with_rbp_at_rbp(8),
        Rule::deref(RSP, 8, 8),
        Rule::deref_index(RSP, 1, 8, 8),
        Rule::plt(8, 11),
        Rule::SIGNAL,
        Rule::USER,
        Rule { kind: RuleKind::FramePointer, ..Rule::NONE },
        Rule { kind: RuleKind::FramePointerRoot, ..Rule::NONE },
    ];
    let words: Vec<_> = (0..PAGE / 8).map(|n| (n * 8, [pc(1), STACK + 0x100][(n % 2) as usize])).collect();
    kinds.iter().map(|&rule| case(&[rule, Rule::STOP], &words)).collect()
}

/// A goroutine's stack, far from the thread's own.
const GOROUTINE_STACK: u64 = 0x00c0_0001_0000;
/// The runtime's data: what the thread pointer, its g and m, and the goroutine's g are followed to.
const RUNTIME: u64 = 0x00c0_0000_0000;
const OFFSETS: GoroutineOffsets =
    GoroutineOffsets { g: -8, is_g_looked_up: false, m_word: 6, current: 0xb8, buffer: 0x38, rbp_word: 5 };

/// A thread in `rule`, with a goroutine that stopped at `goroutine`: its rsp, its rip and its rbp.
fn goroutine_case(rule: Rule, goroutine: [u64; 3]) -> Case {
    let rules = [rule, Rule::reg(RSP, 8), Rule::reg(RBP, 16).with_rbp_at_rbp(0), Rule::STOP];
    let mut case = case(&rules, &[]);
    let (system_g, m, g) = (RUNTIME + 0x100, RUNTIME + 0x400, RUNTIME + 0x800);
    let [rsp, rip, rbp] = goroutine;
    let runtime =
        [(0xf8, system_g), (0x130, m), (0x4b8, g), (0x830, m), (0x838, rsp), (0x840, rip), (0x860, rbp)];
    // A function without a frame, called by one with a frame, called by the goroutine's first.
    let stack = [(0x100, pc(2)), (0x180, GOROUTINE_STACK + 0x200), (0x188, pc(3))];
    case.memory = [(RUNTIME, page(&runtime)), (GOROUTINE_STACK, page(&stack)), (STACK, page(&[]))]
        .map(|(start, bytes)| Piece { start, bytes })
        .to_vec();
    case.thread_pointer = Some(RUNTIME + 0x100);
    case
}

#[test]
fn from_the_threads_own_stack_the_goroutine_is_found_where_it_stopped() {
    let stopped = [GOROUTINE_STACK + 0x100, pc(1), GOROUTINE_STACK + 0x180];
    let mut calling = goroutine_case(Rule::goroutine(OFFSETS), stopped);
    let (stack, end) = walk_both(&calling);
    assert_eq!((addresses(&stack), end.end), (vec![pc(0), pc(1), pc(2), pc(3)], End::Complete));
    // Where the function that was called has no frame, its caller's rbp is still in the register.
    let mut returning =
        goroutine_case(Rule { ra_kind: RaKind::AtCfa, ..Rule::goroutine(OFFSETS) }, [stopped[0], 0, 0]);
    returning.registers[usize::from(RBP)] = stopped[2];
    let (stack, end) = walk_both(&returning);
    assert_eq!((addresses(&stack), end.end), (vec![pc(0), pc(2), pc(3)], End::Complete));
    // Nothing is said where the data are not as they have to be.
    for (address, word) in
        [(0xf8, 0), (0x130, 0), (0x4b8, 0), (0x830, RUNTIME + 0x408), (0x838, 0), (0x840, 0)]
    {
        let mut damaged = calling.clone();
        damaged.memory[0].bytes[address..][..8].copy_from_slice(&u64::to_le_bytes(word));
        let (stack, end) = walk_both(&damaged);
        assert_eq!((addresses(&stack), end.end), (vec![pc(0)], End::NoUnwindInfo { pc: pc(0) }));
    }
    // In a shared library a word of its own says where the thread's g is.
    let offsets = GoroutineOffsets { g: 0x3_f000, is_g_looked_up: true, ..OFFSETS };
    let mut shared = goroutine_case(Rule::goroutine(offsets), stopped);
    shared.memory.push(Piece { start: CODE + 0x3_f000, bytes: page(&[(0, 0u64.wrapping_sub(8))]) });
    shared.memory.sort_by_key(|piece| piece.start);
    let (stack, end) = walk_both(&shared);
    assert_eq!((addresses(&stack), end.end), (vec![pc(0), pc(1), pc(2), pc(3)], End::Complete));

    calling.thread_pointer = None;
    let (stack, end) = walk_both(&calling);
    assert_eq!((addresses(&stack), end.end), (vec![pc(0)], End::NoUnwindInfo { pc: pc(0) }));
}

#[test]
fn a_last_caller_is_the_root_whatever_its_own_rule_says() {
    let rules = [Rule { ra_kind: RaKind::Last, ..Rule::reg(RSP, 8) }, Rule::reg(RSP, 8)];
    let (stack, end) = walk_both(&case(&rules, &[(0, pc(1)), (8, pc(1))]));
    assert_eq!((addresses(&stack), end.end), (vec![pc(0), pc(1)], End::Complete));
    let (stack, end) = walk_both(&case(&rules, &[(0, 0)]));
    assert_eq!((addresses(&stack), end.end), (vec![pc(0)], End::BadUnwindInfo { pc: pc(0) }));
}

#[test]
fn a_call_of_c_leads_back_to_the_stack_that_it_was_made_from() {
    let rules = [Rule::go_call(48, 40, 8), Rule::reg(RBP, 16).with_rbp_at_rbp(0), Rule::STOP];
    // Noted on the thread's own stack: the goroutine, and that it called 0x200 bytes below its stack's end.
    let mut from_goroutine = case(&rules, &[(48, RUNTIME), (40, 0x200)]);
    from_goroutine.registers[usize::from(RBP)] = GOROUTINE_STACK + 0x180;
    let stack = [(0x100, pc(1)), (0x180, GOROUTINE_STACK + 0x200), (0x188, pc(2))];
    let runtime = [(8, GOROUTINE_STACK + 0x300)];
    let piece = |start, bytes| Piece { start, bytes };
    from_goroutine.memory.insert(0, piece(GOROUTINE_STACK, page(&stack)));
    from_goroutine.memory.insert(0, piece(RUNTIME, page(&runtime)));
    let (stack, end) = walk_both(&from_goroutine);
    assert_eq!((addresses(&stack), end.end), (vec![pc(0), pc(1), pc(2)], End::Complete));
    from_goroutine.memory.remove(0);
    let (stack, end) = walk_both(&from_goroutine);
    assert_eq!((addresses(&stack), end.end), (vec![pc(0)], End::NoUnwindInfo { pc: pc(0) }));

    // The runtime itself called, on the same stack.
    let words = [(48, 0), (40, STACK + 0x100), (0x100, pc(1)), (0x180, STACK + 0x200), (0x188, pc(2))];
    let mut from_runtime = case(&rules, &words);
    from_runtime.registers[usize::from(RBP)] = STACK + 0x180;
    let (stack, end) = walk_both(&from_runtime);
    assert_eq!((addresses(&stack), end.end), (vec![pc(0), pc(1), pc(2)], End::Complete));
}
