//! One unwind rule: how to get from a frame to its caller.
//!
//! The twin of `struct prof_rule` in `src/bpf/c/unwind_table.h`. The kernel's walker and [`walk()`](super::walk())
//! give the same meaning to every field.

/// DWARF number of rbp on x86-64.
pub const RBP: u8 = 6;
/// DWARF number of rsp on x86-64.
pub const RSP: u8 = 7;

/// From the place of rbp in libgcc's description of a frame to that of the CFA (`struct _Unwind_Context` of GCC's
/// libgcc/unwind-dw2.c), bytes. `PROF_SAVED_RBP_BYTES` in `prof.h`.
pub(crate) const SAVED_RBP_BYTES: u64 = 0x60;

/// Rule for the CFA (the stack pointer before the call). Numbers as in `enum prof_rule_kind`.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RuleKind {
    /// No unwind information here.
    None = 0,
    /// CFA = reg\[`cfa_reg`\] + `cfa_off`.
    Reg = 1,
    /// CFA = \*(reg\[`cfa_reg`\] + `cfa_off`) + `aux`.
    Deref = 2,
    /// CFA = rsp + `cfa_off` + (8 if (pc & 15) >= `aux`).
    Plt = 3,
    /// All registers come from the ucontext at rsp.
    Signal = 4,
    /// The frame is the root.
    Stop = 5,
    /// CFA = rbp + 16, return address at CFA - 8, caller's rbp at CFA - 16, each of them validated.
    FramePointer = 6,
    /// Only full DWARF evaluation can take this step.
    User = 7,
    /// CFA = \*(reg\[`cfa_reg`\] + 8 * reg\[`aux_reg`\] + `cfa_off`) + `aux`.
    DerefIndex = 8,
    /// Like `FramePointer`, on any stack; rbp = 0 proves the root.
    FramePointerRoot = 9,
    /// libgcc is about to go on in the frame that catches an exception. In its description of that frame, CFA =
    /// \*(rsp + `cfa_off`), and the landing pad is in the next word; the word [`SAVED_RBP_BYTES`] before says where
    /// the rbp is saved.
    Landing = 10,
    /// Go's runtime on the thread's own stack: goes on with the goroutine that it works for. m = \*(g + 8 * `cfa_reg`)
    /// with g = \*(thread pointer + `cfa_off`), or with [`RbpKind::AtCfa`] the word at the module's address `cfa_off` in
    /// place of `cfa_off`; the goroutine is \*(m + `rbp_off`), and where it stopped is said at
    /// `aux` bytes in it: rsp, then rip, and rbp at word `aux_reg`. With [`RaKind::Offset`] these are the caller's
    /// registers; with [`RaKind::AtCfa`] rsp is where its return address lies, and rbp is unchanged.
    Goroutine = 11,
    /// Go's runtime has called C on the thread's own stack, and noted there whose call it is and how deep the goroutine's
    /// stack was: with g = \*(rsp + `aux`) and depth = \*(rsp + `cfa_off`), the return address lies at
    /// \*(g + `rbp_off`) - depth; at depth itself if g is 0. rbp is unchanged.
    GoCall = 12,
    /// The system call that starts a thread has just returned, or is about to be made. In the new thread, which is where
    /// register 0 is zero, this frame is the root; else the return address is at the stack pointer.
    NewThread = 13,
}

/// Rule for the caller's rbp. Numbers as in `enum prof_rbp_kind`.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RbpKind {
    /// The same as in the callee.
    Same = 0,
    /// \*(CFA + `rbp_off`).
    AtCfa = 1,
    /// \*(rbp + `rbp_off`), with the callee's rbp.
    AtRbp = 2,
    /// Overwritten: only a caller that has saved rbp, or needs none, can be left.
    Lost = 3,
}

/// Rule for the return address. Numbers as in `enum prof_ra_kind`.
#[repr(u8)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum RaKind {
    /// \*(CFA - 8).
    AtCfa = 0,
    /// reg\[`aux_reg`\].
    InReg = 1,
    /// \*(CFA + `aux`).
    Offset = 2,
    /// \*(CFA + `rbp_off` + 8): arm64's frame record; also where rbp is unchanged.
    NextToRbp = 3,
    /// \*(CFA - 8), to which the code jumps: it does not follow a call.
    Jump = 4,
    /// \*(CFA - 8), and the stack begins in that frame.
    Last = 5,
}

/// One unwind rule; 16 bytes, laid out as `struct prof_rule`. Registers have their DWARF numbers. What is
/// said of rbp and rsp holds for x29 and sp on arm64.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Rule {
    /// Rule for the CFA.
    pub kind: RuleKind,
    /// Rule for the caller's rbp.
    pub rbp_kind: RbpKind,
    /// Rule for the return address.
    pub ra_kind: RaKind,
    /// Base register of the CFA.
    pub cfa_reg: u8,
    /// Index register of the CFA, or the register with the return address.
    pub aux_reg: u8,
    /// No function that this code calls writes the base register: in a caller's frame, too, it has the value that it has
    /// in the innermost frame of which all registers are known.
    pub is_base_kept: bool,
    /// Second number of the CFA rule, or the return address's offset from the CFA, in bytes.
    pub aux: i16,
    /// First number of the CFA rule, in bytes.
    pub cfa_off: i32,
    /// Offset of the saved rbp, in bytes.
    pub rbp_off: i32,
}

/// Places at which Go's runtime keeps what leads to a goroutine (`src/runtime/runtime2.go`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GoroutineOffsets {
    /// The thread's g, from the thread pointer, bytes; or the module's own address of the word that holds this number.
    pub g: i32,
    /// Whether `g` is such an address: in a shared library, the dynamic linker decides.
    pub is_g_looked_up: bool,
    /// `g.m`, in words of 8 bytes.
    pub m_word: u8,
    /// `m.curg`, bytes.
    pub current: i32,
    /// `g.sched`, bytes: rsp and rip come first in it.
    pub buffer: i16,
    /// The saved rbp in `g.sched`, in words of 8 bytes.
    pub rbp_word: u8,
}

const _: () = {
    use std::mem::offset_of;
    assert!(size_of::<Rule>() == 16);
    assert!(align_of::<Rule>() == 4);
    assert!(offset_of!(Rule, kind) == 0);
    assert!(offset_of!(Rule, rbp_kind) == 1);
    assert!(offset_of!(Rule, ra_kind) == 2);
    assert!(offset_of!(Rule, cfa_reg) == 3);
    assert!(offset_of!(Rule, aux_reg) == 4);
    assert!(offset_of!(Rule, is_base_kept) == 5);
    assert!(offset_of!(Rule, aux) == 6);
    assert!(offset_of!(Rule, cfa_off) == 8);
    assert!(offset_of!(Rule, rbp_off) == 12);
};

impl RuleKind {
    /// All of them, by their numbers.
    pub const ALL: [RuleKind; 14] = [
        RuleKind::None,
        RuleKind::Reg,
        RuleKind::Deref,
        RuleKind::Plt,
        RuleKind::Signal,
        RuleKind::Stop,
        RuleKind::FramePointer,
        RuleKind::User,
        RuleKind::DerefIndex,
        RuleKind::FramePointerRoot,
        RuleKind::Landing,
        RuleKind::Goroutine,
        RuleKind::GoCall,
        RuleKind::NewThread,
    ];
}

impl RbpKind {
    /// All of them, by their numbers.
    pub const ALL: [RbpKind; 4] = [RbpKind::Same, RbpKind::AtCfa, RbpKind::AtRbp, RbpKind::Lost];
}

impl RaKind {
    /// All of them, by their numbers.
    pub const ALL: [RaKind; 6] =
        [RaKind::AtCfa, RaKind::InReg, RaKind::Offset, RaKind::NextToRbp, RaKind::Jump, RaKind::Last];
}

impl Rule {
    /// No unwind information.
    pub const NONE: Self = Self::of_kind(RuleKind::None);
    /// The root of a stack.
    pub const STOP: Self = Self::of_kind(RuleKind::Stop);
    /// A frame that the kernel pushed for a signal handler.
    pub const SIGNAL: Self = Self::of_kind(RuleKind::Signal);
    /// A step that only full DWARF evaluation can take.
    pub const USER: Self = Self::of_kind(RuleKind::User);
    /// Code without unwind entries: follow the frame pointer, with validation.
    pub(crate) const FRAME_POINTER: Self = Self::of_kind(RuleKind::FramePointer);
    /// Around the system call that starts a thread.
    pub(crate) const NEW_THREAD: Self = Self::of_kind(RuleKind::NewThread);
    /// Go code that switches stacks, or Go code without `.debug_frame`.
    pub(crate) const FRAME_POINTER_ROOT: Self = Self::of_kind(RuleKind::FramePointerRoot);

    const fn of_kind(kind: RuleKind) -> Self {
        Self {
            kind,
            rbp_kind: RbpKind::Same,
            ra_kind: RaKind::AtCfa,
            cfa_reg: 0,
            aux_reg: 0,
            is_base_kept: false,
            aux: 0,
            cfa_off: 0,
            rbp_off: 0,
        }
    }

    /// CFA = reg + `offset` bytes.
    pub const fn reg(register: u8, offset: i32) -> Self {
        Self { cfa_reg: register, cfa_off: offset, ..Self::of_kind(RuleKind::Reg) }
    }

    /// CFA = \*(reg + `offset`) + `added` bytes.
    pub const fn deref(register: u8, offset: i32, added: i16) -> Self {
        Self { cfa_reg: register, cfa_off: offset, aux: added, ..Self::of_kind(RuleKind::Deref) }
    }

    /// libgcc's description of the frame to go on in has its CFA at rsp + `offset` bytes.
    pub const fn landing(offset: i32) -> Self {
        Self { cfa_reg: RSP, cfa_off: offset, ..Self::of_kind(RuleKind::Landing) }
    }

    /// The goroutine that Go's runtime works for, where it called a function that goes on to the thread's own stack.
    pub const fn goroutine(at: GoroutineOffsets) -> Self {
        Self {
            ra_kind: RaKind::Offset,
            rbp_kind: if at.is_g_looked_up { RbpKind::AtCfa } else { RbpKind::Same },
            cfa_reg: at.m_word,
            aux_reg: at.rbp_word,
            aux: at.buffer,
            cfa_off: at.g,
            rbp_off: at.current,
            ..Self::of_kind(RuleKind::Goroutine)
        }
    }

    /// Returns the rule of [`Self::goroutine`] for a function that has its return address at the saved stack pointer, and
    /// has changed no rbp.
    pub(crate) const fn goroutine_return(at: GoroutineOffsets) -> Self {
        Self { ra_kind: RaKind::AtCfa, ..Self::goroutine(at) }
    }

    /// Go's runtime has called C: the goroutine is noted at rsp + `g` bytes and the depth of its stack at rsp + `depth`
    /// bytes; the stack's end is said `stack_end` bytes into the goroutine.
    pub const fn go_call(g: i16, depth: i32, stack_end: i32) -> Self {
        Self { aux: g, cfa_off: depth, rbp_off: stack_end, ..Self::of_kind(RuleKind::GoCall) }
    }

    /// CFA = \*(reg + 8 * index + `offset`) + `added` bytes.
    pub const fn deref_index(register: u8, index: u8, offset: i32, added: i16) -> Self {
        Self {
            cfa_reg: register,
            aux_reg: index,
            cfa_off: offset,
            aux: added,
            ..Self::of_kind(RuleKind::DerefIndex)
        }
    }

    /// CFA = rsp + `offset` bytes, and 8 more once the low four bits of the PC reach `threshold`.
    pub const fn plt(offset: i32, threshold: i16) -> Self {
        Self { cfa_reg: RSP, cfa_off: offset, aux: threshold, ..Self::of_kind(RuleKind::Plt) }
    }

    /// Nothing is on the stack yet: CFA = `stack_pointer`, and the return address is in `link`.
    pub(crate) const fn unpushed(stack_pointer: u8, link: u8) -> Self {
        Self { ra_kind: RaKind::InReg, aux_reg: link, ..Self::reg(stack_pointer, 0) }
    }

    /// The same rule with the caller's rbp at CFA + `offset` bytes.
    #[must_use]
    pub const fn with_rbp_at_cfa(self, offset: i32) -> Self {
        Self { rbp_kind: RbpKind::AtCfa, rbp_off: offset, ..self }
    }

    /// The same rule with the caller's rbp at rbp + `offset` bytes.
    #[must_use]
    pub const fn with_rbp_at_rbp(self, offset: i32) -> Self {
        Self { rbp_kind: RbpKind::AtRbp, rbp_off: offset, ..self }
    }

    /// The same rule, where the caller's rbp has been overwritten.
    #[must_use]
    pub(crate) const fn with_rbp_lost(self) -> Self {
        Self { rbp_kind: RbpKind::Lost, rbp_off: 0, ..self }
    }

    /// The same rule, where no function called writes the base register.
    #[must_use]
    pub(crate) const fn with_base_kept(self) -> Self {
        Self { is_base_kept: true, ..self }
    }

    /// The same rule, where the word below the CFA is where a jump goes.
    #[must_use]
    pub(crate) const fn with_jump(self) -> Self {
        Self { ra_kind: RaKind::Jump, ..self }
    }

    /// The same rule, where the caller is the last frame.
    #[must_use]
    pub(crate) const fn with_last_caller(self) -> Self {
        Self { ra_kind: RaKind::Last, ..self }
    }

    /// The same rule with the return address in a register, or `None` where the rule already uses `aux_reg`.
    #[must_use]
    pub fn with_ra_in_register(self, register: u8) -> Option<Self> {
        let is_free = self.kind != RuleKind::DerefIndex;
        is_free.then_some(Self { ra_kind: RaKind::InReg, aux_reg: register, ..self })
    }

    /// The same rule with the return address at CFA + `offset` bytes, or `None` where the rule already
    /// uses `aux` or the offset does not fit it.
    #[must_use]
    pub fn with_ra_at(self, offset: i64) -> Option<Self> {
        if offset == -8 {
            return Some(self);
        }
        let aux = i16::try_from(offset).ok()?;
        (self.kind == RuleKind::Reg).then_some(Self { ra_kind: RaKind::Offset, aux, ..self })
    }

    /// The same rule with the saved frame pointer at CFA + `offset` bytes and the return address in the
    /// word after it.
    #[must_use]
    pub const fn with_frame_record_at_cfa(self, offset: i32) -> Self {
        Self { ra_kind: RaKind::NextToRbp, ..self.with_rbp_at_cfa(offset) }
    }

    /// The same rule, with an unchanged rbp, and the return address in the word after CFA + `offset` bytes.
    #[must_use]
    pub const fn with_ra_next_to_rbp(self, offset: i32) -> Self {
        Self { rbp_kind: RbpKind::Same, ra_kind: RaKind::NextToRbp, rbp_off: offset, ..self }
    }

    /// The rule as the kernel reads it.
    pub fn to_bytes(self) -> [u8; 16] {
        let mut bytes = [0; 16];
        bytes[0] = self.kind as u8;
        bytes[1] = self.rbp_kind as u8;
        bytes[2] = self.ra_kind as u8;
        bytes[3] = self.cfa_reg;
        bytes[4] = self.aux_reg;
        bytes[5] = u8::from(self.is_base_kept);
        bytes[6..8].copy_from_slice(&self.aux.to_ne_bytes());
        bytes[8..12].copy_from_slice(&self.cfa_off.to_ne_bytes());
        bytes[12..16].copy_from_slice(&self.rbp_off.to_ne_bytes());
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_follow_the_kernel_layout() {
        let rule = Rule::deref(10, -8, 16).with_rbp_at_rbp(-16).with_base_kept();
        let bytes = rule.to_bytes();
        assert_eq!(bytes[..6], [2, 2, 0, 10, 0, 1]);
        assert_eq!(bytes[6..8], 16i16.to_ne_bytes());
        assert_eq!(bytes[8..12], (-8i32).to_ne_bytes());
        assert_eq!(bytes[12..], (-16i32).to_ne_bytes());
    }

    #[test]
    fn numbers_agree_with_the_shared_header() {
        let kinds = RuleKind::ALL.iter().map(|kind| *kind as usize);
        let frames = RbpKind::ALL.iter().map(|kind| *kind as usize);
        let returns = RaKind::ALL.iter().map(|kind| *kind as usize);
        assert!(
            kinds.eq(0..14) && frames.eq(0..4) && returns.eq(0..6),
            "a list is not in the order of its numbers"
        );

        let header = include_str!("../bpf/c/unwind_table.h");
        for (name, number) in [
            ("PROF_RULE_NONE", RuleKind::None as u8),
            ("PROF_RULE_REG", RuleKind::Reg as u8),
            ("PROF_RULE_DEREF", RuleKind::Deref as u8),
            ("PROF_RULE_PLT", RuleKind::Plt as u8),
            ("PROF_RULE_SIGNAL", RuleKind::Signal as u8),
            ("PROF_RULE_STOP", RuleKind::Stop as u8),
            ("PROF_RULE_FP", RuleKind::FramePointer as u8),
            ("PROF_RULE_USER", RuleKind::User as u8),
            ("PROF_RULE_DEREF_INDEX", RuleKind::DerefIndex as u8),
            ("PROF_RULE_FP_ROOT", RuleKind::FramePointerRoot as u8),
            ("PROF_RULE_LANDING", RuleKind::Landing as u8),
            ("PROF_RULE_GOROUTINE", RuleKind::Goroutine as u8),
            ("PROF_RULE_GO_CALL", RuleKind::GoCall as u8),
            ("PROF_RULE_NEW_THREAD", RuleKind::NewThread as u8),
            ("PROF_RBP_SAME", RbpKind::Same as u8),
            ("PROF_RBP_AT_CFA", RbpKind::AtCfa as u8),
            ("PROF_RBP_AT_RBP", RbpKind::AtRbp as u8),
            ("PROF_RBP_LOST", RbpKind::Lost as u8),
            ("PROF_RA_AT_CFA", RaKind::AtCfa as u8),
            ("PROF_RA_IN_REG", RaKind::InReg as u8),
            ("PROF_RA_OFFSET", RaKind::Offset as u8),
            ("PROF_RA_NEXT_TO_RBP", RaKind::NextToRbp as u8),
            ("PROF_RA_JUMP", RaKind::Jump as u8),
            ("PROF_RA_LAST", RaKind::Last as u8),
        ] {
            assert!(
                header.contains(&format!("{name} = {number},")),
                "{name} is not {number} in unwind_table.h"
            );
        }
    }

    #[test]
    fn a_second_use_of_a_field_is_refused() {
        assert_eq!(Rule::deref_index(7, 9, 8, 8).with_ra_in_register(5), None);
        assert_eq!(Rule::deref(7, 8, 8).with_ra_at(-16), None);
        assert_eq!(Rule::reg(7, 8).with_ra_at(-100_000), None);
        assert_eq!(Rule::deref(7, 8, 8).with_ra_at(-8), Some(Rule::deref(7, 8, 8)));
    }
}
