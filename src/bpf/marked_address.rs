//! The address of a user frame as the kernel side sends it, with what is known of it in its upper bits.

use super::layout::{FRAME_ADDRESS, FRAME_BY_FP, FRAME_RETURN};

/// The address of a user frame with its marks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct MarkedAddress(pub(crate) u64);

impl MarkedAddress {
    /// Upper bits of `address` are cut off: marks take their place.
    pub(crate) fn new(address: u64, is_return: bool, is_by_frame_pointer: bool) -> Self {
        let mark = |is_set: bool, mark: u64| if is_set { mark } else { 0 };
        let marks = mark(is_return, FRAME_RETURN) | mark(is_by_frame_pointer, FRAME_BY_FP);
        MarkedAddress(address & FRAME_ADDRESS | marks)
    }

    /// Without the marks.
    pub(crate) fn address(self) -> u64 {
        self.0 & FRAME_ADDRESS
    }

    /// Whether the call is before the address.
    pub(crate) fn is_return(self) -> bool {
        self.0 & FRAME_RETURN != 0
    }

    /// Whether it was found by the chain of frame pointers.
    pub(crate) fn is_by_frame_pointer(self) -> bool {
        self.0 & FRAME_BY_FP != 0
    }

    /// The address by which function, mapping and rule are found: in the call, not after it.
    pub(crate) fn lookup(self) -> u64 {
        self.address().saturating_sub(u64::from(self.is_return()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_and_address_do_not_mix() {
        for (is_return, is_by_fp) in [(false, false), (false, true), (true, false), (true, true)] {
            let marked = MarkedAddress::new(0xff00_7fff_0000_1000, is_return, is_by_fp);
            assert_eq!(marked.address(), 0x7fff_0000_1000);
            assert_eq!((marked.is_return(), marked.is_by_frame_pointer()), (is_return, is_by_fp));
            assert_eq!(marked.lookup(), 0x7fff_0000_1000 - u64::from(is_return));
        }
        assert_eq!(MarkedAddress::new(0, true, false).lookup(), 0, "nothing is before the first");
    }
}
