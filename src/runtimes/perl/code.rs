//! What a frame runs: its name and file, and what tells it from something else at its address later.

use super::layout::{PerlKind, PerlLayout};
use super::text::{BODY, IS_FORMAT, IS_SUB, PerlHead, c_text, glob_names, key_text, stash_name, words};
use crate::runtimes::TargetMemory;

/// Where the kernel side puts what it has found of a new code object: no address of a process.
const PERL_NOTE: u64 = 0xffff_8000_0000_0000;

/// Flags of a sub: it has a name and no symbol, and its name is a lexical one (`my sub`).
const IS_NAMED: u32 = 0x8000;
const IS_LEXICAL: u32 = 0x1_0000;
/// In an op: the function that runs it.
const OP_FUNCTION: u64 = 16;
/// Bytes of a file's name that count.
const CHECKED_TEXT_BYTES: u64 = 64;
const PAGE_BYTES: u64 = 4096;
/// Factor of the check.
const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

/// Something that frames run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PerlCode {
    /// `Package::sub`, `Package::__ANON__`, `(eval)`.
    pub(crate) name: String,
    /// File of its text; empty when not known.
    pub(crate) file: String,
    /// Line of its first statement; 0 when not known.
    pub(crate) first_line: u32,
}

/// Addresses of what names a code object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct PerlNames {
    /// Of the sub, or of the file as a symbol; 0: none.
    name: u64,
    /// Of the package; 0: none.
    package: u64,
    /// C string; 0: none.
    file: u64,
    /// The first op of the sub, the function that runs it, and its line, if it is a statement.
    start: u64,
    start_function: u64,
    start_line: u64,
    flags: u32,
    /// The op tree, and the package as it is kept.
    root: u64,
    stash: u64,
}

impl PerlCode {
    /// Reads the code object that has this word; `None` if it is none, or cannot be read as a whole.
    pub(crate) fn read(memory: &impl TargetMemory, layout: &PerlLayout, code: u64) -> Option<Self> {
        let (kind, address) = PerlKind::of(code).filter(|(_, address)| *address != 0)?;
        let noted = noted(memory);
        let names = noted.or_else(|| find(memory, layout, kind, address))?;
        let file = match (names.file, kind) {
            (0, PerlKind::Sub) => String::new(),
            // Names of such symbols are `_<` and the file.
            (0, _) => key_text(memory, names.name)?.strip_prefix("_<")?.to_owned(),
            (file, _) => {
                let text = c_text(memory, file)?;
                // What was sent may lack the page after the one on which the text begins.
                let is_cut =
                    noted.is_some() && file.wrapping_add(text.len() as u64).is_multiple_of(PAGE_BYTES);
                if is_cut {
                    return None;
                }
                text
            }
        };
        if let Some(name) = kind.name() {
            return Some(PerlCode { name: name.to_owned(), file: unnumbered(file), first_line: 0 });
        }
        let name = key_text(memory, names.name)?;
        let name = match names.flags & IS_LEXICAL != 0 && names.flags & IS_NAMED != 0 {
            true => name,
            false => format!("{}::{name}", key_text(memory, names.package)?),
        };
        let is_statement = layout.statement_functions.contains(&names.start_function);
        let first_line = if is_statement { line_of(names.start_line as u32) } else { 0 };
        Some(PerlCode { name, file, first_line })
    }
}

/// A line as it is shown: 0 for the mark of none.
fn line_of(line: u32) -> u32 {
    if line == u32::MAX { 0 } else { line }
}

/// Texts of `eval` are numbered, each time that one is run: one frame for all of them.
fn unnumbered(file: String) -> String {
    let number = file.strip_prefix("(eval ").and_then(|rest| rest.strip_suffix(')'));
    let is_number = |number: &str| !number.is_empty() && number.bytes().all(|digit| digit.is_ascii_digit());
    if number.is_some_and(is_number) { "(eval)".to_owned() } else { file }
}

/// What the kernel side has found of a code object, in the memory that it has sent.
fn noted(memory: &impl TargetMemory) -> Option<PerlNames> {
    let [name, package, file, start_function, start_line, flags] = words(memory, PERL_NOTE)?;
    let flags = flags as u32;
    Some(PerlNames { name, package, file, start_function, start_line, flags, ..PerlNames::default() })
}

/// What frames of a code object that is no sub are called, whatever file it is in.
pub(crate) fn kind_name(code: u64) -> Option<&'static str> {
    PerlKind::of(code)?.0.name()
}

/// Follows the pointers of a code object to its names.
fn find(memory: &impl TargetMemory, layout: &PerlLayout, kind: PerlKind, address: u64) -> Option<PerlNames> {
    match (kind, layout.is_file_glob) {
        (PerlKind::Sub, _) => find_sub(memory, layout, address),
        (_, true) => Some(PerlNames { name: glob_names(memory, address)?.0, ..PerlNames::default() }),
        (_, false) => Some(PerlNames { file: address, ..PerlNames::default() }),
    }
}

fn find_sub(memory: &impl TargetMemory, layout: &PerlLayout, sub: u64) -> Option<PerlNames> {
    let head = PerlHead::read(memory, sub).filter(|head| [IS_SUB, IS_FORMAT].contains(&head.kind()))?;
    let [stash, start, root, symbol, file, _, _, flags] = words(memory, head.body.checked_add(BODY)?)?;
    let flags = (flags >> 32) as u32;
    let (name, stash) = match flags & IS_NAMED != 0 {
        true => (symbol, stash),
        false => glob_names(memory, symbol)?,
    };
    let package = stash_name(memory, &layout.shape, stash).unwrap_or(0);
    let at = |offset: u64| start.checked_add(offset);
    let start_function = at(OP_FUNCTION).and_then(|place| memory.u64(place)).unwrap_or(0);
    let start_line = at(layout.shape.line.into()).and_then(|place| memory.u32(place)).unwrap_or(0);
    let start_line = start_line.into();
    Some(PerlNames { name, package, file, start, start_function, start_line, flags, root, stash })
}

/// What tells a code object from another one at its address later, as the kernel side computes it; `None` if it is none.
pub(crate) fn check(memory: &impl TargetMemory, layout: &PerlLayout, code: u64) -> Option<u32> {
    let (kind, address) = PerlKind::of(code).filter(|(_, address)| *address != 0)?;
    let names = find(memory, layout, kind, address)?;
    // The beginning of a key is its hash and its length.
    let key = |key: u64| if key == 0 { Some(0) } else { memory.u64(key) };
    let mut mixed = [names.start, names.root, names.name, names.stash, names.package, names.file]
        .into_iter()
        .fold(kind as u64, mix_word);
    mixed = mix_word(mixed, key(names.name)?);
    mixed = mix_word(mixed, key(names.package)?);
    if names.file != 0 {
        mixed = mix_text(mixed, memory, names.file);
    }
    mixed ^= mixed >> 32;
    Some(if mixed as u32 == 0 { 1 } else { mixed as u32 })
}

fn mix_word(mixed: u64, word: u64) -> u64 {
    let mixed = (mixed ^ word).wrapping_mul(FACTOR);
    mixed ^ mixed >> 29
}

/// Mixes the first bytes of a C string into a check: those that are on its first page.
fn mix_text(mut mixed: u64, memory: &impl TargetMemory, address: u64) -> u64 {
    let size = (PAGE_BYTES - address % PAGE_BYTES).min(CHECKED_TEXT_BYTES);
    let mut text = [[0; 8]; CHECKED_TEXT_BYTES as usize / 8];
    let read = memory.range(address, size, CHECKED_TEXT_BYTES as usize).unwrap_or_default();
    for (to, from) in text.as_flattened_mut().iter_mut().zip(read) {
        *to = from;
    }
    for bytes in text {
        let end = bytes.iter().position(|&byte| byte == 0);
        let kept = u64::from_le_bytes(bytes) & end.map_or(u64::MAX, |end| (1 << (8 * end)) - 1);
        mixed = mix_word(mixed, kept);
        if end.is_some() {
            break;
        }
    }
    mixed
}
