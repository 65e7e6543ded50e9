//! Both walkers on the same case, whatever it is: they have to take the same steps.

use proptest::collection::{btree_map, vec};
use proptest::option;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, TestRunner};

use prof::internals::bpf::{FRAME_ADDRESS, MAX_USER_FRAMES};
use prof::internals::unwind::rule::{GoroutineOffsets, RaKind, RbpKind, RuleKind};
use prof::internals::unwind::{Architecture, End, FoundBy, Page, Row, Rule, Stack, Table, walk};

use crate::case::{AARCH64_REGISTERS, Case, Image, ImageState, Mapping, Piece, REGISTERS};
use crate::host::{HostFrame, HostStack, Replay};

/// Steps and end of the kernel's walk, said in user space's words; fails where they are not those of `stack`.
pub(crate) fn compare(host: &HostStack, stack: &Stack) -> Result<(), String> {
    let mut frames: Vec<_> = stack
        .frames
        .iter()
        .map(|frame| HostFrame {
            address: frame.address & FRAME_ADDRESS,
            is_return: frame.is_return_address,
            is_by_frame_pointer: frame.found_by == FoundBy::FramePointer,
        })
        .collect();
    // The kernel keeps an address outside all mappings as a frame; user space names it in the end.
    if let (End::UnknownMapping { address }, true) = (stack.end, host.frames.len() > 1) {
        let is_return = host.frames.last().is_some_and(|frame| frame.is_return);
        let address = address & FRAME_ADDRESS;
        frames.push(HostFrame { address, is_return, is_by_frame_pointer: false });
    }
    if frames != host.frames {
        return Err(format!("frames differ: kernel {:x?}, user space {frames:x?} {:x?}", host, stack.end));
    }
    let is_same = match stack.end {
        End::Complete => host.outcome == 1,
        End::TableNotLoaded { .. } => host.outcome == 5,
        End::NotExpressible { .. } => host.outcome == 6,
        End::UnknownMapping { .. } => host.outcome == 7,
        // Where a frame pointer leads nowhere the kernel says what led to it.
        End::StackUnreadable { .. } => [8, 3, 4].contains(&host.outcome),
        // The kernel reads the saved frame pointer before it looks at the return address.
        End::BadUnwindInfo { .. } => [9, 6, 8].contains(&host.outcome),
        End::TooDeep => host.outcome == 10,
        End::JitEnd { .. } => [3, 4, 13].contains(&host.outcome),
        End::NoUnwindInfo { .. } | End::BadFramePointer { .. } => host.outcome == 4,
        End::CopyTooShort { .. } => false,
    };
    if is_same {
        Ok(())
    } else {
        Err(format!("ends differ: kernel {}, user space {:x?}", host.outcome, stack.end))
    }
}

/// Where the parts of a generated case lie: modules 16 MiB apart, a stack of a few pages.
const MODULES: u64 = 0x5500_0000_0000;
const MODULE_STEP: u64 = 0x100_0000;
const MODULE_COUNT: u64 = 4;
const MODULE_BYTES: u64 = 0x3_0000;
const STACK: u64 = 0x7ffc_0000_0000;
const PAGE: u64 = 4096;
const STACK_PAGES: u64 = 6;

/// A mixer of bits (splitmix64): thousands of words from one number.
fn mix(seed: u64, index: u64) -> u64 {
    let mut z = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// A word as it might lie on a stack: mostly code addresses in every other word and stack addresses between them,
/// so that walks get somewhere.
fn word(random: u64, is_code: bool) -> u64 {
    let value = random >> 8;
    match random & 0xff {
        0..235 if is_code => MODULES + value % MODULE_COUNT * MODULE_STEP + (value >> 8) % MODULE_BYTES,
        0..240 => STACK + value % (STACK_PAGES * PAGE / 16) * 16,
        240..242 => STACK + value % (STACK_PAGES * PAGE),
        242..243 => 0,
        243..246 => value % 0x1_0000,
        246..250 => MODULES - 2 + value % 4,
        _ => mix(random, 0),
    }
}

fn registers(architecture: Architecture) -> impl Strategy<Value = Vec<u64>> {
    let count = match architecture {
        Architecture::X86_64 => REGISTERS,
        Architecture::Aarch64 => AARCH64_REGISTERS,
    };
    (any::<u64>(), 0..STACK_PAGES * PAGE / 16 / 2).prop_map(move |(seed, sp)| {
        let mut registers: Vec<u64> =
            (0..count as u64).map(|index| word(mix(seed, index), index % 2 == 1)).collect();
        if let Some(link) = architecture.link_register() {
            registers[usize::from(link)] = word(mix(seed, 98), true);
        }
        // Nearly always on the stack, and in code.
        if seed & 15 != 0 {
            registers[usize::from(architecture.stack_pointer())] = STACK + sp * 16;
            registers[count - 1] = word(mix(seed, 99) & !0xff, true);
        }
        registers
    })
}

fn offset() -> impl Strategy<Value = i32> {
    prop_oneof![
        100 => (1..16i32).prop_map(|n| n * 16),
        2 => (-8..1i32).prop_map(|n| n * 8),
        1 => -100..5000i32,
        1 => any::<i32>(),
    ]
}

fn base_register(architecture: Architecture) -> impl Strategy<Value = u8> {
    prop_oneof![
        40 => Just(architecture.stack_pointer()),
        3 => Just(architecture.frame_pointer()),
        1 => 0..architecture.register_count(),
    ]
}

/// For an index or a return address: never the stack or frame pointer, which the kernel's walker knows in every
/// frame but does not look for there.
fn other_register(architecture: Architecture) -> impl Strategy<Value = u8> {
    let link = architecture.link_register();
    prop_oneof![
        2 => (0..6u8).prop_map(move |number| link.unwrap_or(number)),
        1 => 0..6u8,
        1 => 8..16u8,
    ]
}

fn rule(architecture: Architecture) -> impl Strategy<Value = Rule> {
    let small = prop_oneof![4 => (-4..5i16).prop_map(|n| n * 8), 1 => any::<i16>()];
    let cfa = prop_oneof![
        50 => (base_register(architecture), offset()).prop_map(|(register, offset)| Rule::reg(register, offset)),
        2 => (base_register(architecture), offset(), small.clone())
            .prop_map(|(register, offset, added)| Rule::deref(register, offset, added)),
        1 => (base_register(architecture), other_register(architecture), offset(), small.clone())
            .prop_map(|(register, index, offset, added)| Rule::deref_index(register, index, offset, added)),
        1 => (offset(), 0..17i16).prop_map(|(offset, threshold)| Rule::plt(offset, threshold)),
        1 => Just(Rule::SIGNAL),
        1 => Just(Rule::STOP),
        1 => Just(Rule::USER),
        1 => Just(Rule::NONE),
        2 => Just(Rule { kind: RuleKind::FramePointer, ..Rule::NONE }),
        1 => Just(Rule { kind: RuleKind::FramePointerRoot, ..Rule::NONE }),
        1 => offset().prop_map(Rule::landing),
        1 => any::<bool>().prop_map(|is_call| match is_call {
            true => Rule::goroutine(GOROUTINE),
            false => Rule { ra_kind: RaKind::AtCfa, ..Rule::goroutine(GOROUTINE) },
        }),
        1 => ((-2..8i16).prop_map(|n| n * 8), (-2..8i32).prop_map(|n| n * 8), offset())
            .prop_map(|(g, depth, end)| Rule::go_call(g, depth, end)),
        1 => (offset(), any::<u8>(), offset(), any::<i16>(), any::<u8>()).prop_map(
            |(g, m_word, current, buffer, rbp_word)| {
                let is_g_looked_up = buffer & 1 != 0;
                Rule::goroutine(GoroutineOffsets { g, is_g_looked_up, m_word, current, buffer, rbp_word })
            }
        ),
        1 => Just(Rule { kind: RuleKind::NewThread, ..Rule::NONE }),
    ];
    let ra_register = other_register(architecture);
    (cfa, 0..10u8, offset(), 0..40u8, small, ra_register).prop_map(
        move |(rule, rbp, rbp_offset, ra, ra_offset, ra_register)| {
            // What prologues on arm64 make, and only they.
            if architecture == Architecture::Aarch64 && ra % 3 != 0 {
                let record = -16 - i32::from(ra_offset & 0x70);
                return match rbp {
                    0 => rule.with_ra_next_to_rbp(record),
                    _ => rule.with_frame_record_at_cfa(record),
                };
            }
            let rule = match rbp {
                0..2 => rule.with_rbp_at_cfa(rbp_offset.wrapping_neg()),
                2 => rule.with_rbp_at_rbp(rbp_offset),
                3 => Rule { rbp_kind: RbpKind::Lost, rbp_off: 0, ..rule },
                4 => Rule { is_base_kept: true, ..rule },
                _ => rule,
            };
            match ra {
                0..34 => rule,
                35 => Rule { ra_kind: RaKind::Jump, ..rule },
                34 => Rule { ra_kind: RaKind::Last, ..rule },
                36 => rule.with_ra_in_register(ra_register).unwrap_or(rule),
                _ => rule.with_ra_at(i64::from(ra_offset) & !7).unwrap_or(rule),
            }
        },
    )
}

/// Where the words of [`plant_goroutine`] are looked for.
const GOROUTINE: GoroutineOffsets =
    GoroutineOffsets { g: 16, is_g_looked_up: false, m_word: 2, current: 0x30, buffer: 0x20, rbp_word: 4 };

/// The thread's m runs a goroutine, whose registers are what the memory says anyway.
fn plant_goroutine(case: &mut Case) {
    let (g, m) = (STACK + 0x40, STACK + 0x100);
    let Some(first) = case.memory.first_mut().filter(|piece| piece.start == STACK) else { return };
    for (address, word) in [(STACK + 16, g), (g + 16, m), (m + 0x30, g)] {
        first.bytes[(address - STACK) as usize..][..8].copy_from_slice(&word.to_le_bytes());
    }
}

/// A table as the compiler makes them: each page with rows has one for its first address.
fn table(architecture: Architecture) -> impl Strategy<Value = Table> {
    let page = option::weighted(0.95, btree_map(any::<u16>(), any::<u16>(), 0..40));
    (vec(rule(architecture), 4..24), prop_oneof![9 => vec(page.clone(), 3), 1 => vec(page, 1..3)], 0..5u64)
        .prop_map(|(mut rules, pages, first_page)| {
            rules.insert(0, Rule::NONE);
            let mut table = Table { first_page, rules, ..Table::default() };
            let count = table.rules.len() as u16;
            for page in pages {
                let first = table.rows.len() as u32;
                if let Some(mut page) = page {
                    page.entry(0).or_insert(1000);
                    table.rows.extend(page.into_iter().map(|(pc_low, rule)| Row {
                        pc_low,
                        rule: if rule < 999 { 0 } else { 1 + rule % (count - 1) },
                    }));
                }
                table.pages.push(Page { first, count: table.rows.len() as u32 - first });
            }
            table
        })
}

fn image(architecture: Architecture) -> impl Strategy<Value = Image> {
    let state = prop_oneof![
        80 => Just(ImageState::Ready),
        1 => Just(ImageState::NotLoaded),
        1 => Just(ImageState::FramePointers),
        1 => Just(ImageState::NoTable),
        1 => Just(ImageState::Generated),
        1 => Just(ImageState::Unreadable),
    ];
    (state, table(architecture)).prop_map(|(state, table)| {
        let table = if state == ImageState::Ready { table } else { Table::default() };
        Image { state, table }
    })
}

fn case(architecture: Architecture) -> impl Strategy<Value = Case> {
    let images = vec(image(architecture), MODULE_COUNT as usize);
    let stack = (any::<u64>(), vec(prop::bool::weighted(0.93), STACK_PAGES as usize));
    (registers(architecture), prop::bool::weighted(0.2), prop::bool::weighted(0.1), images, stack).prop_map(
        move |(registers, is_return, has_few_registers, images, (seed, is_present))| {
            let mapping = |(image, content): (u32, &Image)| {
                let start = MODULES + u64::from(image) * MODULE_STEP;
                let bias = start.wrapping_sub(content.table.first_page << 16);
                Mapping { start, end: start + MODULE_BYTES, bias, image }
            };
            let mappings = (0..).zip(&images).map(mapping).collect();
            let words = |page: u64| {
                (0..PAGE / 8).map(move |index| word(mix(seed, page * PAGE + index), index % 2 == 1))
            };
            let memory = (0..STACK_PAGES)
                .zip(is_present)
                .filter(|&(_, is_present)| is_present)
                .map(|(page, _)| Piece {
                    start: STACK + page * PAGE,
                    bytes: words(page).flat_map(u64::to_le_bytes).collect(),
                })
                .collect();
            let mut case = Case {
                registers,
                is_return,
                has_few_registers,
                images,
                mappings,
                memory,
                // No rule of arm64 asks for it.
                thread_pointer: (architecture == Architecture::X86_64 && seed & 7 != 0).then_some(STACK),
                ..Case::default()
            };
            plant_goroutine(&mut case);
            case
        },
    )
}

#[test]
fn the_walkers_of_kernel_and_user_space_take_the_same_steps() {
    check(Architecture::X86_64);
}

#[test]
fn the_walkers_of_kernel_and_user_space_take_the_same_steps_on_arm64() {
    check(Architecture::Aarch64);
}

/// `PROF_FUZZ_FACTOR`: how many times as many cases.
fn factor() -> u32 {
    std::env::var("PROF_FUZZ_FACTOR").map_or(1, |factor| factor.parse().unwrap())
}

fn check(architecture: Architecture) {
    let replay = std::cell::RefCell::new(Replay::start_for(architecture));
    let frames = std::cell::Cell::new(0);
    let config = Config { cases: 4000 * factor(), failure_persistence: None, ..Config::default() };
    let count = config.cases;
    let result = TestRunner::new(config).run(&case(architecture), |case| {
        let host = replay.borrow_mut().walk(&case);
        let stack = walk(&case.start(), &case, &case, MAX_USER_FRAMES);
        frames.set(frames.get() + stack.frames.len());
        compare(&host, &stack).map_err(TestCaseError::fail)
    });
    if let Err(error) = result {
        panic!("{error}");
    }
    // Cases whose walks all end at once would show nothing.
    assert!(frames.get() * 2 > 3 * count as usize, "{} frames in {count} cases", frames.get());
}

/// The same cases every time.
pub(crate) fn some_cases(count: usize) -> Vec<Case> {
    let mut runner = TestRunner::deterministic();
    (0..count).map(|_| case(Architecture::X86_64).new_tree(&mut runner).unwrap().current()).collect()
}
