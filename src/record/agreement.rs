//! What C and Rust both number: the numbers of `prof.h` that rooms without BPF have in their own words are checked here, as the
//! program is built.

#![allow(clippy::unnecessary_cast, reason = "the generated numbers have the types that their values need")]

use crate::bpf::number::*;
use crate::profile::{Outcome, Reason, WakerKind};
use crate::unwind::{
    MAX_JUMPS_DOWN, MAX_WALKED_FRAMES, NO_ROWS, PAGE_SHIFT, RED_ZONE_BYTES, RaKind, RbpKind, RuleKind,
    SAVED_RBP_BYTES, SLICE_SHIFT, STACK_PIECE_BYTES,
};

/// Does not build unless both numbers of each pair are equal.
macro_rules! equal {
    ($($own:expr, $c:expr;)*) => {
        const _: () = { $(assert!($own as u64 == $c as u64);)* };
    };
}

equal! {
    Outcome::Unset.code(), PROF_OUTCOME_UNSET;
    Outcome::Complete.code(), PROF_OUTCOME_COMPLETE;
    Outcome::NoUserStack.code(), PROF_OUTCOME_NO_USER_STACK;
    Outcome::JitEnd.code(), PROF_OUTCOME_JIT_END;
    Outcome::NoUnwindInfo.code(), PROF_OUTCOME_NO_UNWIND_INFO;
    Outcome::TableNotLoaded.code(), PROF_OUTCOME_TABLE_NOT_LOADED;
    Outcome::UnsupportedRule.code(), PROF_OUTCOME_UNSUPPORTED_RULE;
    Outcome::UnknownMapping.code(), PROF_OUTCOME_UNKNOWN_MAPPING;
    Outcome::StackUnreadable.code(), PROF_OUTCOME_STACK_UNREADABLE;
    Outcome::BadUnwindInfo.code(), PROF_OUTCOME_BAD_UNWIND_INFO;
    Outcome::TooDeep.code(), PROF_OUTCOME_TOO_DEEP;
    Outcome::Compat32.code(), PROF_OUTCOME_COMPAT32;
    Outcome::FileUnreadable.code(), PROF_OUTCOME_FILE_UNREADABLE;
}

equal! {
    Reason::Other.code(), PROF_REASON_OTHER;
    Reason::Lock.code(), PROF_REASON_LOCK;
    Reason::Disk.code(), PROF_REASON_DISK;
    Reason::Network.code(), PROF_REASON_NETWORK;
    Reason::Pipe.code(), PROF_REASON_PIPE;
    Reason::Poll.code(), PROF_REASON_POLL;
    Reason::Sleep.code(), PROF_REASON_SLEEP;
    Reason::Fault.code(), PROF_REASON_FAULT;
    Reason::Child.code(), PROF_REASON_CHILD;
    Reason::NoCpu.code(), PROF_REASON_NO_CPU;
    Reason::Stopped.code(), PROF_REASON_STOPPED;
    WakerKind::None.code(), PROF_WAKER_NONE;
    WakerKind::Thread.code(), PROF_WAKER_THREAD;
    WakerKind::SoftInterrupt.code(), PROF_WAKER_SOFTIRQ;
    WakerKind::Interrupt.code(), PROF_WAKER_INTERRUPT;
}

equal! {
    RuleKind::None, PROF_RULE_NONE;
    RuleKind::Reg, PROF_RULE_REG;
    RuleKind::Deref, PROF_RULE_DEREF;
    RuleKind::Plt, PROF_RULE_PLT;
    RuleKind::Signal, PROF_RULE_SIGNAL;
    RuleKind::Stop, PROF_RULE_STOP;
    RuleKind::FramePointer, PROF_RULE_FP;
    RuleKind::User, PROF_RULE_USER;
    RuleKind::DerefIndex, PROF_RULE_DEREF_INDEX;
    RuleKind::FramePointerRoot, PROF_RULE_FP_ROOT;
    RuleKind::Landing, PROF_RULE_LANDING;
    RuleKind::Goroutine, PROF_RULE_GOROUTINE;
    RuleKind::GoCall, PROF_RULE_GO_CALL;
    RuleKind::NewThread, PROF_RULE_NEW_THREAD;
    RbpKind::Same, PROF_RBP_SAME;
    RbpKind::AtCfa, PROF_RBP_AT_CFA;
    RbpKind::AtRbp, PROF_RBP_AT_RBP;
    RbpKind::Lost, PROF_RBP_LOST;
    RaKind::AtCfa, PROF_RA_AT_CFA;
    RaKind::InReg, PROF_RA_IN_REG;
    RaKind::Offset, PROF_RA_OFFSET;
    RaKind::NextToRbp, PROF_RA_NEXT_TO_RBP;
    RaKind::Jump, PROF_RA_JUMP;
    RaKind::Last, PROF_RA_LAST;
}

equal! {
    NO_ROWS, PROF_NO_ROWS;
    SLICE_SHIFT, PROF_SLICE_SHIFT;
    PAGE_SHIFT, PROF_PAGE_SHIFT;
    SAVED_RBP_BYTES, PROF_SAVED_RBP_BYTES;
    MAX_JUMPS_DOWN, PROF_MAX_JUMPS_DOWN;
    STACK_PIECE_BYTES, PROF_STACK_PIECE_BYTES;
    RED_ZONE_BYTES, PROF_RED_ZONE_BYTES;
    MAX_WALKED_FRAMES, PROF_MAX_WALKED_FRAMES;
}
