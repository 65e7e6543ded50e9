//! Addresses on the stack, relative to the frame, and what registers and slots hold.

/// A frame larger than this is taken for a misread instruction.
const MAX_FRAME_BYTES: i32 = 1 << 30;
/// The base that means the CFA.
pub(super) const CFA: u32 = 0;
/// Marks the bases of stack pointers after calls of functions that may have taken their arguments.
pub(super) const AFTER_CALL: u32 = 1 << 31;
/// Place where a caller leaves the return address, and where rules look for it.
pub(super) const RETURN_ADDRESS: StackPlace = StackPlace { base: CFA, offset: -8 };

/// A stack address: a base, and bytes from there. Base 0 is the CFA; any other is what the stack pointer became at
/// the instruction with that number, marked by [`AFTER_CALL`] if that is a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(super) struct StackPlace {
    pub(super) base: u32,
    pub(super) offset: i32,
}

impl StackPlace {
    pub(super) fn plus(self, bytes: i64) -> Option<Self> {
        let offset = i32::try_from(i64::from(self.offset).checked_add(bytes)?).ok()?;
        (offset.unsigned_abs() < MAX_FRAME_BYTES.unsigned_abs()).then_some(Self { offset, ..self })
    }
}

/// Content of a register or a slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Value {
    Unknown,
    Stack(StackPlace),
    CallersRbp,
    ReturnAddress,
}

impl Value {
    pub(super) fn place(self) -> Option<StackPlace> {
        match self {
            Self::Stack(place) => Some(place),
            Self::Unknown | Self::CallersRbp | Self::ReturnAddress => None,
        }
    }

    pub(super) fn plus(self, bytes: i64) -> Self {
        self.place().and_then(|place| place.plus(bytes)).map_or(Self::Unknown, Self::Stack)
    }
}
