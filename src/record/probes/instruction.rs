//! What a probe at an instruction does: the kernel emulates some instructions, runs a copy of others (single-stepped, which takes
//! many times as long), and must not be given a nop of five bytes.

use serde::{Deserialize, Serialize};

/// How the kernel lets a program go on after a hit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(super) enum SiteClass {
    /// It does itself what the instruction does: `nop`, `push`, jumps and calls.
    Emulated,
    /// A nop of several bytes: which kernels emulate it differs.
    LongNop,
    /// It runs a copy of the instruction in single steps.
    Stepped,
    /// Not known, on other processors than x86-64.
    Unknown,
}

impl SiteClass {
    /// In words.
    pub(super) fn word(self) -> &'static str {
        match self {
            SiteClass::Emulated => "emulated",
            SiteClass::LongNop | SiteClass::Unknown => "a probed instruction",
            SiteClass::Stepped => "single-stepped",
        }
    }
}

/// Where a probe goes, in code that begins at the start of a function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ChosenSite {
    /// Bytes from the start of the function.
    pub(super) offset: u64,
    pub(super) class: SiteClass,
    /// Text of the instruction there.
    pub(super) text: String,
    /// Class and text of the instruction that was asked for, if that is another one.
    pub(super) instead_of: Option<(SiteClass, String)>,
}

/// What a choice has to respect.
#[cfg_attr(not(target_arch = "x86_64"), expect(dead_code, reason = "sites are where they were asked for"))]
#[derive(Debug, Clone, Copy)]
pub(super) struct SiteWish {
    /// Bytes from the start of the function that were asked for; `None`: its beginning, wherever that costs least.
    pub(super) offset: Option<u64>,
    /// The register (DWARF number) that has the weight: nothing may have written it.
    pub(super) register: Option<u32>,
    /// The function is Go's: it begins with a look at its stack, after which it begins again if that was too small.
    pub(super) is_go: bool,
    /// The code is that of the whole function.
    pub(super) is_whole: bool,
}

#[cfg(target_arch = "x86_64")]
pub(super) use x86::choose;

/// On other processors: as it was asked for.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn choose(code: &[u8], wish: &SiteWish) -> Result<ChosenSite, String> {
    let offset = wish.offset.unwrap_or(0);
    if offset % 4 != 0 || offset.saturating_add(4) > code.len() as u64 {
        return Err(format!("+{offset:#x} is no instruction of it: they begin at multiples of 4"));
    }
    Ok(ChosenSite { offset, class: SiteClass::Unknown, text: "an instruction".to_owned(), instead_of: None })
}

#[cfg(target_arch = "x86_64")]
mod x86 {
    use super::{ChosenSite, SiteClass, SiteWish};
    use iced_x86::{
        Code, Decoder, DecoderOptions, FlowControl, Formatter, Instruction, InstructionInfoFactory,
        IntelFormatter, Mnemonic, OpAccess, OpKind, Register,
    };

    /// Instructions of a prologue that a probe is moved over at most.
    const MOST_MOVED: usize = 12;
    /// DWARF numbers of registers, in the order of `Register::RAX` and so on.
    const DWARF: [u32; 16] = [0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15];

    /// The best place for a probe.
    ///
    /// # Errors
    ///
    /// Why there is none, in words.
    pub(in crate::record::probes) fn choose(code: &[u8], wish: &SiteWish) -> Result<ChosenSite, String> {
        let instructions = decoded(code, wish);
        let asked = wish.offset.unwrap_or(0);
        let Some(index) = instructions.iter().position(|instruction| instruction.ip() == asked) else {
            let inside = instructions.iter().find(|one| (one.ip()..one.next_ip()).contains(&asked));
            return Err(match inside {
                Some(one) => format!(
                    "+{asked:#x} is inside an instruction, `{}`, which begins at +{:#x}: a probe there would break it",
                    text(one),
                    one.ip()
                ),
                None => format!("+{asked:#x} is no instruction of it"),
            });
        };
        let first = &instructions[index];
        if first.is_invalid() || matches!(first.mnemonic(), Mnemonic::Int3) {
            return Err(
                "there is no instruction that can be probed, or a breakpoint is there already".to_owned()
            );
        }
        let as_asked =
            || ChosenSite { offset: asked, class: class(first), text: text(first), instead_of: None };
        let is_dangerous = is_optimised(first);
        if wish.offset.is_some() && !is_dangerous {
            return Ok(as_asked());
        }
        if !is_dangerous && class(first) == SiteClass::Emulated {
            return Ok(as_asked());
        }
        let wanted = if is_dangerous { SiteClass::Stepped } else { SiteClass::Emulated };
        match later(&instructions, index, wish, wanted) {
            Some(site) => {
                let (class, text) = (class(site), text(site));
                let instead_of = Some((self::class(first), self::text(first)));
                Ok(ChosenSite { offset: site.ip(), class, text, instead_of })
            }
            None if is_dangerous => Err(format!(
                "its instruction, `{}` of five bytes, is one that kernels from 6.18 on replace by a call when it is probed, of \
                 which forked children die; and the instruction after it may be reached in other ways",
                text(first)
            )),
            None => Ok(as_asked()),
        }
    }

    /// The instructions of a function, as far as its code can be decoded; addresses are offsets from its start.
    fn decoded(code: &[u8], wish: &SiteWish) -> Vec<Instruction> {
        let mut decoder = Decoder::with_ip(64, code, 0, DecoderOptions::NONE);
        let mut instructions = Vec::new();
        while decoder.can_decode() {
            let instruction = decoder.decode();
            let is_past = !wish.is_whole && instruction.ip() > wish.offset.unwrap_or(0).saturating_add(64);
            let is_invalid = instruction.is_invalid();
            instructions.push(instruction);
            if is_past || is_invalid {
                break;
            }
        }
        instructions
    }

    /// The first instruction after `index` that costs no more than `wanted`, through which each call comes once if it comes
    /// through that one, with the same registers as far as they count.
    fn later<'i>(
        instructions: &'i [Instruction],
        index: usize,
        wish: &SiteWish,
        wanted: SiteClass,
    ) -> Option<&'i Instruction> {
        // What jumps where is only known of the whole function.
        if !wish.is_whole || instructions.iter().any(is_indirect_jump) || instructions.last()?.is_invalid() {
            return None;
        }
        // A call begins the function anew, and comes through all of it.
        let jumps = instructions.iter().filter(|one| one.flow_control() != FlowControl::Call);
        let targets: Vec<u64> = jumps.filter_map(near_target).collect();
        let mut info = InstructionInfoFactory::new();
        let begin = instructions[index].ip();
        for (passed, site) in
            instructions[index..].windows(2).map(|pair| (&pair[0], &pair[1])).take(MOST_MOVED)
        {
            let writes = info.info(passed).used_registers().iter().any(|used| {
                let is_written = !matches!(
                    used.access(),
                    OpAccess::Read | OpAccess::CondRead | OpAccess::None | OpAccess::NoMemAccess
                );
                is_written && dwarf(used.register()) == wish.register && wish.register.is_some()
            });
            let goes_on =
                passed.flow_control() == FlowControl::Next || is_stack_check(instructions, passed, wish);
            if writes || !goes_on || targets.contains(&site.ip()) {
                return None;
            }
            // Something may jump back to before it: to what was asked for, from anywhere but a stack check, too.
            let returns = targets.iter().filter(|target| (begin..=site.ip()).contains(target)).count();
            if returns > usize::from(wish.is_go) {
                return None;
            }
            // A function of Go begins again after its look at the stack, if that was too small.
            let begins_again = is_stack_check(instructions, site, wish);
            if class(site) <= wanted && !is_optimised(site) && !begins_again {
                return Some(site);
            }
        }
        None
    }

    /// Whether a jump is the one of Go's look at the stack: `cmp rsp, [r14+0x10]` (or of a register that was made of rsp) and
    /// `jbe`. It leads to code that makes the stack larger and begins the function again.
    fn is_stack_check(instructions: &[Instruction], jump: &Instruction, wish: &SiteWish) -> bool {
        let before = instructions.iter().take_while(|one| one.ip() < jump.ip()).last();
        let is_comparison = before.is_some_and(|before| {
            before.mnemonic() == Mnemonic::Cmp
                && before.memory_base() == Register::R14
                && before.memory_displacement64() == 0x10
        });
        wish.is_go && is_comparison && matches!(jump.mnemonic(), Mnemonic::Jbe | Mnemonic::Jb)
    }

    fn is_indirect_jump(instruction: &Instruction) -> bool {
        instruction.flow_control() == FlowControl::IndirectBranch
    }

    fn near_target(instruction: &Instruction) -> Option<u64> {
        let is_near = matches!(instruction.op0_kind(), OpKind::NearBranch64 | OpKind::NearBranch32);
        is_near.then(|| instruction.near_branch_target())
    }

    /// `branch_setup_xol_ops` and `push_setup_xol_ops` of arch/x86/kernel/uprobes.c.
    fn class(instruction: &Instruction) -> SiteClass {
        let is_near = near_target(instruction).is_some();
        match instruction.mnemonic() {
            Mnemonic::Nop if instruction.len() == 1 => SiteClass::Emulated,
            Mnemonic::Nop => SiteClass::LongNop,
            Mnemonic::Push if matches!(instruction.code(), Code::Push_r64) => SiteClass::Emulated,
            _ if is_near && !matches!(instruction.flow_control(), FlowControl::XbeginXabortXend) => {
                // Loops and jumps by rcx are stepped.
                match instruction.mnemonic() {
                    Mnemonic::Loop
                    | Mnemonic::Loope
                    | Mnemonic::Loopne
                    | Mnemonic::Jrcxz
                    | Mnemonic::Jecxz => SiteClass::Stepped,
                    _ => SiteClass::Emulated,
                }
            }
            _ => SiteClass::Stepped,
        }
    }

    /// Whether newer kernels replace it: `can_optimize` of the same file.
    fn is_optimised(instruction: &Instruction) -> bool {
        instruction.mnemonic() == Mnemonic::Nop && instruction.len() == 5
    }

    fn dwarf(register: Register) -> Option<u32> {
        let full = register.full_register();
        let number = (full as usize).checked_sub(Register::RAX as usize)?;
        DWARF.get(number).copied()
    }

    fn text(instruction: &Instruction) -> String {
        let mut text = String::new();
        IntelFormatter::new().format(instruction, &mut text);
        text
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        const WISH: SiteWish = SiteWish { offset: None, register: None, is_go: false, is_whole: true };

        fn at(code: &[u8], wish: &SiteWish) -> (u64, SiteClass) {
            let site = choose(code, wish).expect("there is a place");
            (site.offset, site.class)
        }

        #[test]
        fn a_probe_goes_where_the_kernel_emulates() {
            // push rbp; mov rbp, rsp; ret
            assert_eq!(at(&[0x55, 0x48, 0x89, 0xe5, 0xc3], &WISH), (0, SiteClass::Emulated));
            // endbr64; push r15; ret
            let cet = [0xf3, 0x0f, 0x1e, 0xfa, 0x41, 0x57, 0xc3];
            assert_eq!(at(&cet, &WISH), (4, SiteClass::Emulated));
            assert_eq!(at(&cet, &SiteWish { offset: Some(0), ..WISH }), (0, SiteClass::Stepped), "as asked");
            assert_eq!(at(&cet, &SiteWish { is_whole: false, ..WISH }).0, 0, "what jumps there is not known");
            // mov rdi, rsi; push rbx; ret
            let moves = [0x48, 0x89, 0xf7, 0x53, 0xc3];
            assert_eq!(at(&moves, &WISH).0, 3);
            assert_eq!(at(&moves, &SiteWish { register: Some(5), ..WISH }).0, 0, "rdi is written before");
            assert_eq!(at(&moves, &SiteWish { register: Some(4), ..WISH }).0, 3);
        }

        #[test]
        fn a_probe_is_not_moved_past_other_ways() {
            // test edi, edi; je +1; push rbx; ret: some calls do not come to the push, all of them come to the jump.
            assert_eq!(at(&[0x85, 0xff, 0x74, 0x01, 0x53, 0xc3], &WISH), (2, SiteClass::Emulated));
            // test edi, edi; jrcxz +1; push rbx; ret: that jump is stepped.
            assert_eq!(at(&[0x85, 0xff, 0xe3, 0x01, 0x53, 0xc3], &WISH).0, 0);
            // mov eax, edi; push rbx; jmp to the push
            assert_eq!(at(&[0x89, 0xf8, 0x53, 0xeb, 0xfd], &WISH).0, 0);
            // mov eax, edi; push rbx; jmp to the start
            assert_eq!(at(&[0x89, 0xf8, 0x53, 0xeb, 0xfb], &WISH).0, 0);
            // cmp rsp, [r14+0x10]; jbe 9; push rbp; nop; ret; jmp to the start
            let go = [0x49, 0x3b, 0x66, 0x10, 0x76, 0x03, 0x55, 0x90, 0xc3, 0xeb, 0xf5];
            assert_eq!(at(&go, &SiteWish { is_go: true, ..WISH }), (6, SiteClass::Emulated));
            assert_eq!(at(&go, &WISH).0, 0);
        }

        #[test]
        fn a_nop_of_five_bytes_is_never_probed() {
            let nop = [0x0f, 0x1f, 0x44, 0x00, 0x00];
            let with = |rest: &[u8]| nop.iter().chain(rest).copied().collect::<Vec<u8>>();
            // nop; mov eax, edi; ret
            let site = choose(&with(&[0x89, 0xf8, 0xc3]), &WISH).expect("the one after it");
            assert_eq!((site.offset, site.class), (5, SiteClass::Stepped));
            assert!(site.instead_of.is_some());
            // nop; mov eax, edi; jmp after the nop
            let refused = choose(&with(&[0x89, 0xf8, 0xeb, 0xfc]), &WISH).unwrap_err();
            assert!(refused.contains("forked children"), "{refused}");
            let asked = choose(&with(&[0x89, 0xf8, 0xc3]), &SiteWish { offset: Some(0), ..WISH });
            assert_eq!(asked.expect("the one after it").offset, 5);
        }

        #[test]
        fn what_is_inside_an_instruction_is_refused() {
            let code = [0x48, 0x89, 0xe5, 0xc3];
            let refused = choose(&code, &SiteWish { offset: Some(1), ..WISH }).unwrap_err();
            assert!(refused.contains("inside an instruction") && refused.contains("mov rbp"), "{refused}");
            assert!(choose(&code, &SiteWish { offset: Some(40), ..WISH }).is_err());
            assert_eq!(at(&code, &SiteWish { offset: Some(3), ..WISH }), (3, SiteClass::Stepped));
        }
    }
}
