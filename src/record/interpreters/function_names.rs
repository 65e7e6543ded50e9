//! The functions that interpreters ran, by numbers. Equal functions of several processes have one number, so that
//! processes share frames. A frame's address in the profile is the number of the function and the line.

use crate::profile::Frame;
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

/// Bits of an address that are the line.
const LINE_BITS: u32 = 24;
/// Most functions that are kept apart: further ones have no name.
const MOST_FUNCTIONS: usize = 1 << 20;
/// So many are forgotten between two windows: few of them are still run.
const MANY_FUNCTIONS: usize = 1 << 17;

/// A function of a program.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(in crate::record) struct RunFunction {
    pub(in crate::record) name: String,
    /// Source file as the runtime knows it.
    pub(in crate::record) file: String,
    /// Line at which it begins; 0 when not known.
    pub(in crate::record) first_line: u32,
    /// Whether it was compiled into its caller.
    pub(in crate::record) is_inlined: bool,
}

/// A function, by its number; 0 is one that could not be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(in crate::record) struct FunctionNumber(u32);

impl FunctionNumber {
    /// The number of functions that could not be read.
    pub(in crate::record) const UNREAD: FunctionNumber = FunctionNumber(0);

    /// The address of frames of the function at `line`.
    pub(in crate::record) fn address(self, line: u32) -> u64 {
        u64::from(self.0) << LINE_BITS | u64::from(line.min((1 << LINE_BITS) - 1))
    }

    /// The function and line of a frame.
    fn of(frame: &Frame) -> (FunctionNumber, u32) {
        let number = u32::try_from(frame.address >> LINE_BITS).unwrap_or(0);
        (FunctionNumber(number), (frame.address & ((1 << LINE_BITS) - 1)) as u32)
    }
}

/// All functions that were met.
#[derive(Debug, Default)]
pub(in crate::record) struct FunctionNames {
    functions: FxHashMap<FunctionNumber, Arc<RunFunction>>,
    numbers: FxHashMap<Arc<RunFunction>, FunctionNumber>,
    /// The last number that was given: none is given twice.
    last: u32,
}

impl FunctionNames {
    /// The number of a function.
    pub(in crate::record) fn number(&mut self, function: RunFunction) -> FunctionNumber {
        if let Some(&number) = self.numbers.get(&function) {
            return number;
        }
        let last = self.last.checked_add(1).filter(|_| self.functions.len() < MOST_FUNCTIONS);
        let Some(last) = last else { return FunctionNumber::UNREAD };
        self.last = last;
        let (function, number) = (Arc::new(function), FunctionNumber(last));
        self.functions.insert(number, Arc::clone(&function));
        self.numbers.insert(function, number);
        number
    }

    /// Whether there are so many that it is time for [`FunctionNames::forget_all_but`].
    pub(in crate::record) fn are_many(&self) -> bool {
        self.functions.len() >= MANY_FUNCTIONS
    }

    /// Forgets all functions but those of some frames of runtimes, which keep their numbers. Who knows a number asks for it again.
    pub(in crate::record) fn forget_all_but<'f>(&mut self, frames: impl Iterator<Item = &'f Frame>) {
        let kept: FxHashSet<FunctionNumber> = frames.map(|frame| FunctionNumber::of(frame).0).collect();
        self.functions.retain(|number, _| kept.contains(number));
        self.functions.shrink_to_fit();
        self.numbers.retain(|_, number| kept.contains(number));
        self.numbers.shrink_to_fit();
    }

    /// The function and line of a frame; `None` for one that could not be read.
    pub(in crate::record) fn of_frame(&self, frame: &Frame) -> Option<(&RunFunction, u32)> {
        let (number, line) = FunctionNumber::of(frame);
        self.functions.get(&number).map(|function| (&**function, line))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(name: &str, first_line: u32) -> RunFunction {
        RunFunction { name: name.to_owned(), file: "/srv/app.py".to_owned(), first_line, is_inlined: false }
    }

    #[test]
    fn equal_functions_share_a_number_and_others_do_not() {
        let mut names = FunctionNames::default();
        let first = names.number(function("run", 3));
        assert_eq!(names.number(function("run", 3)), first);
        assert_ne!(names.number(function("run", 4)), first);
        assert_ne!(first, FunctionNumber::UNREAD);
    }

    #[test]
    fn functions_that_are_forgotten_come_again_under_other_numbers() {
        let mut names = FunctionNames::default();
        let [kept, gone] = ["kept", "gone"].map(|name| names.number(function(name, 3)));
        let frame = |number: FunctionNumber| Frame { address: number.address(17), ..Frame::default() };
        names.forget_all_but([frame(kept)].iter());
        assert_eq!(names.of_frame(&frame(kept)), Some((&function("kept", 3), 17)));
        assert_eq!(names.of_frame(&frame(gone)), None);
        assert_eq!(names.number(function("kept", 3)), kept);
        let again = names.number(function("gone", 3));
        assert!(again != gone && again != kept && !names.are_many());
    }

    #[test]
    fn an_address_is_a_function_and_a_line() {
        let mut names = FunctionNames::default();
        let number = names.number(function("run", 3));
        let frame = |address| Frame { address, ..Frame::default() };
        assert_eq!(names.of_frame(&frame(number.address(17))), Some((&function("run", 3), 17)));
        assert_eq!(names.of_frame(&frame(number.address(u32::MAX))).map(|(_, line)| line), Some(0xff_ffff));
        assert_eq!(names.of_frame(&frame(FunctionNumber::UNREAD.address(17))), None);
        assert_eq!(names.of_frame(&frame(u64::MAX)), None);
    }
}
