//! Code that a dump describes: its address range and time, its name and lines.

/// A piece of text in the arena: offset and length.
pub(super) type Text = (u32, u32);

/// The start of a source line, as an offset from the start of its code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) offset: u32,
    pub(super) line: u32,
    pub(super) file: Text,
}

/// Code that was at one address range for some time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct DumpedCode {
    pub(super) start: u64,
    pub(super) end: u64,
    /// CLOCK_MONOTONIC, ns.
    pub(super) since_ns: u64,
    /// CLOCK_MONOTONIC, ns; `u64::MAX` while the code is there.
    pub(super) until_ns: u64,
    pub(super) name: Text,
    /// The name as people read it.
    pub(super) readable: Text,
    pub(super) lines: (u32, u32),
    /// Offset of the code bytes in the file; 0 if they were cut off.
    pub(super) bytes_at: u64,
    /// 0 if no other code was at any of its addresses before, else a number unique to this code.
    pub(super) reuse: u32,
}

/// Name of a place in generated code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct JitName<'a> {
    /// The function.
    pub(crate) name: &'a str,
    /// Its name as people read it.
    pub(crate) readable: &'a str,
    /// Source file, if known.
    pub(crate) file: Option<&'a str>,
    /// The line; 0 if unknown.
    pub(crate) line: u32,
    /// 0 for the first code at its addresses, a unique number for any that followed.
    pub(crate) reuse: u32,
}
