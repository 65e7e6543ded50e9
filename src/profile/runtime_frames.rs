//! What of the interpreters of languages is in stacks.

/// What stacks show where an interpreter runs functions. Numbers are stored: append only.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RuntimeFrames {
    /// Functions of the language and native functions that they call, without the machinery of the interpreter.
    #[default]
    Folded,
    /// These and all of the interpreter's own frames.
    Full,
    /// Native frames only.
    Off,
}

impl RuntimeFrames {
    /// The number in files.
    pub(crate) fn code(self) -> u32 {
        self as u32
    }

    /// What a number in a file means; one of a later version is the default.
    pub(crate) fn from_code(code: u32) -> Self {
        [Self::Folded, Self::Full, Self::Off]
            .into_iter()
            .find(|frames| frames.code() == code)
            .unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_of_a_file_means_what_it_was_written_as() {
        for frames in [RuntimeFrames::Folded, RuntimeFrames::Full, RuntimeFrames::Off] {
            assert_eq!(RuntimeFrames::from_code(frames.code()), frames);
        }
        assert_eq!(RuntimeFrames::from_code(99), RuntimeFrames::Folded);
    }
}
