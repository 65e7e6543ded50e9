//! What was last seen at addresses of code objects and functions, and for how many frames no one has looked.

use rustc_hash::FxHashMap;

/// What the last frames with an object at an address had.
#[derive(Debug, Clone, Default)]
struct LastSeen {
    check: u32,
    /// Frames since the kernel side has last looked at the object.
    unchecked: u64,
}

/// What was last seen at addresses.
#[derive(Debug, Clone, Default)]
pub(in crate::record) struct SeenCodes {
    last: FxHashMap<u64, LastSeen>,
    uncertain: u64,
}

impl SeenCodes {
    /// Notes that a frame had the object at `address` with this check, and whether the kernel side has looked at it with
    /// the sample. Frames since the last look at the address are uncertain if it is another object.
    pub(in crate::record) fn note(&mut self, address: u64, check: u32, is_looked_at: bool) {
        let last = self.last.entry(address).or_default();
        if last.check != check {
            self.uncertain += last.unchecked;
            *last = LastSeen { check, unchecked: 0 };
        }
        last.unchecked = if is_looked_at { 0 } else { last.unchecked + 1 };
    }

    /// Takes the number of frames that may have the name of an object that was there before.
    pub(in crate::record) fn take_uncertain(&mut self) -> u64 {
        std::mem::take(&mut self.uncertain)
    }

    /// Forgets all addresses where they are as many as this.
    pub(in crate::record) fn limit_to(&mut self, most: usize) {
        if self.last.len() >= most {
            self.last.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn frames_since_the_last_look_are_uncertain_where_another_object_is_there() {
        let mut seen = SeenCodes::default();
        seen.note(0x100, 7, true);
        (0..3).for_each(|_| seen.note(0x100, 7, false));
        seen.note(0x100, 7, true);
        seen.note(0x100, 8, true);
        assert_eq!(seen.take_uncertain(), 0, "it was the same when it was looked at");
        (0..3).for_each(|_| seen.note(0x100, 8, false));
        seen.note(0x100, 9, true);
        assert_eq!((seen.take_uncertain(), seen.take_uncertain()), (3, 0));
    }
}
