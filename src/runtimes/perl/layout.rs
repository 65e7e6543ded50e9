//! What has to be known of one Perl interpreter to read its stacks: plain numbers, all checked at attach.

use std::fmt;

/// Most steps taken along any list of the interpreter; a longer list, or a cycle, ends there.
pub(super) const MOST_STEPS: usize = 8192;

/// Version of perl: 5.36.0 has the minor number 36.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct PerlVersion {
    /// Second number.
    pub(crate) minor: u8,
    /// Third number.
    pub(crate) micro: u8,
}

impl PerlVersion {
    /// The language and its version without the last number, which changes nothing for readers: `perl 5.36`.
    pub(crate) fn runtime(self) -> String {
        format!("perl 5.{}", self.minor)
    }
}

impl fmt::Display for PerlVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "5.{}.{}", self.minor, self.micro)
    }
}

/// Where the interpreter of a thread is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PerlLocator {
    /// Builds with threads: the word at the thread pointer plus `slot`, the value of a pthread key in glibc's block of the
    /// first 32 keys.
    Key { slot: u32 },
    /// Builds without: the process has one interpreter, and these are the addresses of two of its variables: the pointers
    /// to the stack that it is on, and to the statement that it is at.
    Process { stack: u64, statement: u64 },
}

/// Everything that is needed to follow the stacks of an interpreter, and to name their frames. Offsets are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PerlLayout {
    pub(crate) version: PerlVersion,
    /// Sentence of where the offsets come from.
    pub(crate) source: String,
    pub(crate) locator: PerlLocator,
    /// In the interpreter of a thread: pointer to the stack that it is on. Only with `PerlLocator::Key`.
    pub(crate) stack: u16,
    /// There: pointer to the statement that it is at.
    pub(crate) statement: u16,
    pub(crate) shape: PerlShape,
    /// Addresses of the two functions that run a statement's op: an op that has one of these is a statement.
    pub(crate) statement_functions: [u64; 2],
    /// File names of statements are symbols (globs), and no text: builds without threads.
    pub(crate) is_file_glob: bool,
}

/// Layout of structures, which is the same in all builds of a version.
///
/// A stack is an array of blocks; a sub that is being called is one, and so are loops and more that are no frames. Calls
/// from C code for magic, destructors, comparisons of a sort and so on begin a stack of their own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct PerlShape {
    /// In a stack: address of the first block, of the stack around it, and the number of the last block, a signed number of
    /// 32 bits.
    pub(crate) blocks: u8,
    pub(crate) outer: u8,
    pub(crate) last: u8,
    /// What the stack is for, a number of 32 bits.
    pub(crate) stack_type: u8,
    /// Bytes of a block.
    pub(crate) block_bytes: u8,
    /// In a block: the statement that it was entered from, the op to go on with, the sub, and the name of the file that is
    /// being required.
    pub(crate) old_statement: u8,
    pub(crate) return_op: u8,
    pub(crate) sub: u8,
    pub(crate) required: u8,
    /// In a statement: its line, a number of 32 bits, and its file.
    pub(crate) line: u8,
    pub(crate) file: u8,
    /// Types of blocks: the first is a sub's; a format's and an eval's follow.
    pub(crate) sub_type: u8,
    pub(crate) block_type: u8,
    /// `NO_TYPE` where the version has none.
    pub(crate) defer_type: u8,
    /// Flag of an eval that is a `try`, which `caller` leaves out; 0 where the version has none.
    pub(crate) try_flag: u8,
    /// The name of a package follows the body of its hash, and not the hash's array.
    pub(crate) is_stash_wide: bool,
}

/// No block has this type.
pub(crate) const NO_TYPE: u8 = 0xff;
/// What the stack of the comparisons of a sort is for.
pub(super) const FOR_SORT: u32 = 3;
/// Bits of a block's type; the others are flags.
pub(super) const TYPE_MASK: u8 = 0x0f;
/// Flag of a block whose code is run again and again by C code.
pub(super) const IS_MULTICALL: u8 = 0x10;
/// Flags of a sub: code within a regular expression, and such that belongs to the sub around it.
pub(super) const IS_IN_REGEX: u8 = 0x40;
pub(super) const IS_REGEX_OF_SUB: u8 = 0x80;

/// What a frame runs. The kernel side puts the number above the 48 bits of the address of its code object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PerlKind {
    /// A sub: its code object is the sub. That of all others is the file name of the statement.
    Sub = 0,
    /// The program, outside of all subs.
    Main = 1,
    /// `eval` of a text or a block.
    Eval = 2,
    /// A file that is loaded: `require`, `use`, `do FILE`.
    Require = 3,
    /// The block that compares for `sort`.
    Sort = 4,
    /// Code in a regular expression.
    Regex = 5,
    /// `defer`, `finally`.
    Defer = 6,
    /// A format.
    Format = 7,
}

/// Bits of the address in the word of a code object.
pub(crate) const ADDRESS_BITS: u32 = 48;

impl PerlKind {
    /// The kind and the address in the word of a code object.
    pub(crate) fn of(code: u64) -> Option<(PerlKind, u64)> {
        use PerlKind::*;
        let kinds = [Sub, Main, Eval, Require, Sort, Regex, Defer, Format];
        let kind = usize::try_from(code >> ADDRESS_BITS).ok().and_then(|number| kinds.get(number))?;
        Some((*kind, code & ((1 << ADDRESS_BITS) - 1)))
    }

    /// The word of a code object at `address`.
    pub(super) fn code(self, address: u64) -> u64 {
        let address = if address >> ADDRESS_BITS == 0 { address } else { 0 };
        (self as u64) << ADDRESS_BITS | address
    }

    /// What its frames are called; `None` for a sub, which has a name.
    pub(super) fn name(self) -> Option<&'static str> {
        Some(match self {
            PerlKind::Sub => return None,
            PerlKind::Main => "(main)",
            PerlKind::Eval => "(eval)",
            PerlKind::Require => "(require)",
            PerlKind::Sort => "(sort block)",
            PerlKind::Regex => "(regex block)",
            PerlKind::Defer => "(defer block)",
            PerlKind::Format => "(format)",
        })
    }
}
