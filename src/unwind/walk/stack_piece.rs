//! The stack that a walk is on, and where the next frame may be.

use super::registers::FrameState;
use super::stack::End;

/// Condition on the caller's stack pointer, relative to the callee's.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Growth {
    /// Above the callee's: the call has pushed its return address.
    Grows,
    /// Or equal: that was popped into a register.
    MayStay,
    /// Or on another stack, wherever that is.
    MayJumpDown,
}

/// Facts of the stack that the walk is on, as seen so far.
#[derive(Debug, Clone, Copy)]
pub(super) struct StackPiece {
    /// Lowest address.
    pub(super) low: u64,
    /// Steps so far that led to a stack at lower addresses.
    pub(super) jumps_down: u32,
}

impl StackPiece {
    /// A walk begins at `low`.
    pub(super) fn from(low: u64) -> Self {
        StackPiece { low, jumps_down: 0 }
    }

    /// A caller below the current frame has to be on another stack (split stacks, stacks borrowed for a call): below
    /// everything that was seen of this one.
    ///
    /// # Errors
    ///
    /// When it is not.
    pub(super) fn check_growth(
        &mut self,
        state: &FrameState,
        rsp: u64,
        cfa: u64,
        growth: Growth,
    ) -> Result<(), End> {
        // A leaf may have popped its return address, or kept it in a register.
        let may_stay = growth == Growth::MayStay || !state.is_return_address;
        if cfa > rsp || (cfa == rsp && may_stay) {
            // What lies between may be another stack, still to come.
            if growth == Growth::MayJumpDown && cfa - rsp > STACK_PIECE_BYTES {
                self.low = cfa;
            }
            return Ok(());
        }
        let is_other = cfa.saturating_add(RED_ZONE_BYTES) < self.low && self.jumps_down < MAX_JUMPS_DOWN;
        if growth != Growth::MayJumpDown || !is_other {
            return Err(End::BadUnwindInfo { pc: state.pc });
        }
        *self = StackPiece { low: cfa, jumps_down: self.jumps_down + 1 };
        Ok(())
    }
}

/// Steps of one walk to a stack at lower addresses. `PROF_MAX_JUMPS_DOWN` in `prof.h`.
pub(crate) const MAX_JUMPS_DOWN: u32 = 64;
/// No piece of a stack is smaller. `PROF_STACK_PIECE_BYTES` in `prof.h`.
pub(crate) const STACK_PIECE_BYTES: u64 = 4096;
/// Leaf functions may keep data this far below rsp, bytes (x86-64 psABI). `PROF_RED_ZONE_BYTES` in `prof.h`.
pub(crate) const RED_ZONE_BYTES: u64 = 128;
