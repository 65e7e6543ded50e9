//! Code that a dump describes: where it was and when, its name and lines.

/// A piece of text in the arena.
pub(super) type Text = (u32, u32);

/// Where a line begins, from the start of its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) offset: u32,
    pub(super) line: u32,
    pub(super) file: Text,
}

/// Code that was at one place for some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DumpedCode {
    pub(super) start: u64,
    pub(super) end: u64,
    /// CLOCK_MONOTONIC, ns.
    pub(super) since_ns: u64,
    /// `u64::MAX` while it is there.
    pub(super) until_ns: u64,
    pub(super) name: Text,
    pub(super) lines: (u32, u32),
    /// Where its bytes are in the file; 0 for what was cut.
    pub(super) bytes_at: u64,
    /// 0 if no other code was at any of its addresses before, else a number that no other code has.
    pub(super) reuse: u32,
}

/// What a place in generated code is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JitName<'a> {
    /// The function.
    pub(crate) name: &'a str,
    /// Its source file, if it is known.
    pub(crate) file: Option<&'a str>,
    /// The line; 0 if it is not known.
    pub(crate) line: u32,
    /// 0 for the first code at its addresses, a number of its own for each that has followed.
    pub(crate) reuse: u32,
}
