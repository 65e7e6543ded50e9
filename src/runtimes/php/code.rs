//! Functions: what a frame runs, read once and kept.

use super::layout::{
    CODE_ADDRESS, EVALUATED_CODE, FIBER_POSITION, INTERNAL_FUNCTION, IS_INCLUDED, PhpLayout, USER_FUNCTION,
    field,
};
use super::text::{read_name, read_text};
use crate::runtimes::memory::TargetMemory;

/// Largest line that is believed.
const MOST_LINE: u32 = (1 << 24) - 1;
/// Name of code outside all functions.
const MAIN: &str = "<main>";
/// Name of the place where a fiber begins.
const FIBER: &str = "{fiber}";
/// Name of code that the program made of a string.
const EVALUATED: &str = "eval";

/// Kind of what a frame runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum PhpFrameKind {
    /// A function of PHP itself or of an extension.
    Internal,
    /// A function of the program, or code outside all functions.
    User,
    /// The place where a fiber begins.
    Fiber,
}

/// Function, file and first line of what a frame runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PhpCode {
    /// `Class::method`, `function`, `{closure}`, `<main>`, `include NAME` or `eval`.
    pub(crate) function: String,
    /// Empty for internal functions.
    pub(crate) file: String,
    /// 0 for internal functions.
    pub(crate) first_line: u32,
    pub(crate) kind: PhpFrameKind,
}

impl PhpCode {
    /// Reads the function of a code word; `None` if it is none, or any part of it cannot be read or is not possible.
    pub(crate) fn read(memory: &impl TargetMemory, layout: &PhpLayout, code: u64) -> Option<Self> {
        let (address, offsets) = (code & CODE_ADDRESS, &layout.offsets);
        let pointer = |offset| memory.u64(field(address, offset)?);
        let name = match pointer(offsets.function.name)? {
            0 => None,
            name => Some(read_name(memory, offsets, name)?),
        };
        let class = match pointer(offsets.function.class)? {
            0 => None,
            class => {
                let name = memory.u64(field(class, offsets.class_name)?)?;
                Some(read_name(memory, offsets, name)?)
            }
        };
        let qualified = |name: String| match &class {
            Some(class) => format!("{class}::{name}"),
            None => name,
        };
        match memory.u8(address)? {
            INTERNAL_FUNCTION => Some(Self {
                kind: if name.is_some() { PhpFrameKind::Internal } else { PhpFrameKind::Fiber },
                function: name.map_or_else(|| FIBER.to_owned(), qualified),
                file: String::new(),
                first_line: 0,
            }),
            kind @ (USER_FUNCTION | EVALUATED_CODE) => {
                let file = read_text(memory, offsets, pointer(offsets.function.file)?)?;
                let first_line = memory.u32(field(address, offsets.function.file.checked_add(8)?)?)?;
                let function = match name {
                    // Code that the program made of a string may define functions, too.
                    Some(name) => qualified(name),
                    None if kind == EVALUATED_CODE => EVALUATED.to_owned(),
                    None if code & IS_INCLUDED != 0 => format!("include {}", last_part(&file)),
                    None => MAIN.to_owned(),
                };
                let first_line = if first_line > MOST_LINE { 0 } else { first_line };
                Some(Self { function, file, first_line, kind: PhpFrameKind::User })
            }
            _ => None,
        }
    }

    /// Line of a frame with this position; `None` where it has none.
    pub(crate) fn line(&self, position: u32) -> Option<u32> {
        (self.kind == PhpFrameKind::User && (1..=MOST_LINE).contains(&position)).then_some(position)
    }

    /// Whether a frame with this position is the place where a fiber begins.
    pub(crate) fn is_fiber(position: u32) -> bool {
        position == FIBER_POSITION
    }
}

/// The last part of a path.
fn last_part(path: &str) -> &str {
    path.rsplit('/').find(|part| !part.is_empty()).unwrap_or(path)
}
