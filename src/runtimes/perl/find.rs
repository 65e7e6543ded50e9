//! Finding the layout of an interpreter in a process, and checking it: what does not fit is a problem with a reason,
//! never a guess.

use super::frames::frames;
use super::instructions::{PerlAccesses, PerlElement, PerlPlace, accesses};
use super::layout::{PerlKind, PerlLayout, PerlLocator, PerlShape, PerlVersion};
use super::ops::OpTables;
use super::shapes;
use super::text::{IS_FORMAT, IS_SUB, PerlHead};
use crate::runtimes::{RuntimeProblem, TargetMemory};

/// Cure where nothing can be done but to live without.
const NATIVE_ONLY: &str = "only native frames are shown";
/// Offset from the thread pointer of glibc's first block of key values, on x86-64, and the number of keys in it.
const FIRST_KEY: u32 = 0x310;
const KEYS: u32 = 32;
/// Bytes of functions that are read.
const STATEMENT_BYTES: usize = 112;
const CALLER_BYTES: usize = 512;
const CONSTRUCT_BYTES: usize = 4096;
/// Attempts to read a stack that changes.
const ATTEMPTS: usize = 16;

/// Where things are, by the instructions of functions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PerlFound {
    stack: Anchor,
    statement: Anchor,
}

/// A variable of the interpreter: of each, or of the only one of the process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Anchor {
    Offset(u16),
    Address(u64),
}

impl PerlLayout {
    /// Finds the layout of the interpreter in a process.
    ///
    /// `symbols` gives process addresses of symbols of the interpreter's module; `path` is the module's file.
    ///
    /// # Errors
    /// A sentence of what is not known or does not fit. It is temporary if the interpreter is still starting.
    pub(crate) fn find(
        memory: &impl TargetMemory,
        symbols: &dyn Fn(&str) -> Option<u64>,
        path: &str,
    ) -> Result<Self, RuntimeProblem> {
        let symbol = |name| {
            symbols(name).ok_or_else(|| {
                RuntimeProblem::lasting(format!("perl: no symbol `{name}` in `{path}`: {NATIVE_ONLY}"))
            })
        };
        let interpreter = symbol("PL_curinterp")?;
        let tables = OpTables {
            names: symbol("PL_op_name")?,
            functions: symbol("PL_ppaddr")?,
            word: &|address| memory.u64(address),
            bytes: &|address| memory.bytes(address),
        };
        let (version, shape) = known_version(memory, symbol("perl_construct")?, path)?;
        let starting = || {
            RuntimeProblem::temporary(format!(
                "perl {version}: frames are shown once the interpreter has started"
            ))
        };
        // Before the dynamic linker has prepared the module there are none.
        let [Some(nextstate), Some(dbstate)] = tables.functions(["nextstate", "dbstate"]) else {
            return Err(starting());
        };
        let statement_functions = [nextstate, dbstate];
        let found = found(memory, version, nextstate, symbol("Perl_caller_cx")?, &shape)?;
        let (locator, state) = locate(memory, symbols, version, found)?.ok_or_else(starting)?;
        let state =
            state.or_else(|| memory.u64(interpreter)).filter(|&state| state != 0).ok_or_else(starting)?;
        let offset = |anchor| if let Anchor::Offset(offset) = anchor { offset } else { 0 };
        let layout = PerlLayout {
            version,
            source:
                "the instructions of its functions, confirmed by the table of its version and by its stacks"
                    .to_owned(),
            locator,
            stack: offset(found.stack),
            statement: offset(found.statement),
            shape,
            statement_functions,
            is_file_glob: matches!(locator, PerlLocator::Process { .. }),
        };
        confirm(memory, &layout, state)?;
        Ok(layout)
    }
}

/// The version of an interpreter, and what the table has of it.
fn known_version(
    memory: &impl TargetMemory,
    construct: u64,
    path: &str,
) -> Result<(PerlVersion, PerlShape), RuntimeProblem> {
    let Some(version) = version(memory, construct, path) else {
        return Err(RuntimeProblem::lasting(format!("perl: version of `{path}` not found: {NATIVE_ONLY}")));
    };
    let Some(shape) = shapes::shape(version.minor) else {
        return Err(RuntimeProblem::lasting(format!(
            "perl {version}: this version's layout is not known here (known: 5.28 to 5.42, releases only): {NATIVE_ONLY}"
        )));
    };
    Ok((version, shape))
}

fn misfit(version: PerlVersion, what: &str) -> RuntimeProblem {
    RuntimeProblem::lasting(format!(
        "perl {version}: unknown layout: {what} (a changed or unreleased build?): {NATIVE_ONLY}"
    ))
}

/// Version in the text that the constructor of interpreters puts in a variable: `v5.36.0`; or in the file's name.
fn version(memory: &impl TargetMemory, construct: u64, path: &str) -> Option<PerlVersion> {
    let constants = accesses(memory, construct, CONSTRUCT_BYTES).constants;
    let found = constants.into_iter().find_map(|place| of_text(&memory.bytes::<16>(place)?));
    found.or_else(|| of_path(path))
}

fn of_text(bytes: &[u8]) -> Option<PerlVersion> {
    let end = bytes.iter().position(|&byte| byte == 0)?;
    let text = std::str::from_utf8(bytes.get(..end)?).ok()?;
    let (minor, micro) = text.strip_prefix("v5.")?.split_once('.')?;
    Some(PerlVersion { minor: minor.parse().ok()?, micro: micro.parse().ok()? })
}

/// Version in a file name such as `libperl.so.5.36.0` or `perl5.30.3`.
fn of_path(path: &str) -> Option<PerlVersion> {
    let name = path.rsplit('/').next()?;
    let (_, rest) = name.split_once("perl.so.5.").or_else(|| name.split_once("perl5."))?;
    let (minor, micro) = rest.split_once('.')?;
    Some(PerlVersion { minor: minor.parse().ok()?, micro: micro.parse().ok()? })
}

/// Reads where things are in two functions, and compares what both say with the table.
fn found(
    memory: &impl TargetMemory,
    version: PerlVersion,
    next_statement: u64,
    caller: u64,
    shape: &PerlShape,
) -> Result<PerlFound, RuntimeProblem> {
    let of_statement = accesses(memory, next_statement, STATEMENT_BYTES);
    if of_statement.reads.is_empty() {
        return Err(RuntimeProblem::temporary(format!(
            "perl {version}: its functions cannot be read: {NATIVE_ONLY}"
        )));
    }
    let (stack, block) = stack_of(&of_statement, shape)
        .ok_or_else(|| misfit(version, "`Perl_pp_nextstate` uses stacks in another way"))?;
    if block != i64::from(shape.block_bytes) {
        return Err(misfit(version, &format!("blocks of {block} bytes and not {}", shape.block_bytes)));
    }
    let statement = statement_of(&of_statement, &stack)
        .ok_or_else(|| misfit(version, "`Perl_pp_nextstate` notes statements in another way"))?;
    let of_caller = accesses(memory, caller, CALLER_BYTES);
    if !agrees(&of_caller, &stack, shape) {
        return Err(misfit(version, "`Perl_caller_cx` reads stacks in another way"));
    }
    let (stack, statement) = anchor(&stack)
        .zip(anchor(&statement))
        .ok_or_else(|| misfit(version, "its variables are at unlikely places"))?;
    Ok(PerlFound { stack, statement })
}

/// Where the pointer to the current stack is, and the size of a block, by the function that begins statements: it takes the
/// last block of the stack.
fn stack_of(accesses: &PerlAccesses, shape: &PerlShape) -> Option<(PerlPlace, i64)> {
    accesses.elements.iter().find_map(|PerlElement { array, index, size, .. }| {
        let (last, stack) = index.offsets.split_last()?;
        let (blocks, of_array) = array.offsets.split_last()?;
        let is_stack = stack == of_array && !stack.is_empty() && index.root == array.root;
        let is_known = *last == i64::from(shape.last) && *blocks == i64::from(shape.blocks);
        (is_stack && is_known).then(|| (PerlPlace { root: array.root, offsets: stack.to_vec() }, *size))
    })
}

/// Where the pointer to the current statement is: the function copies the one to the current op there.
fn statement_of(accesses: &PerlAccesses, stack: &PerlPlace) -> Option<PerlPlace> {
    let mut found = (accesses.copies.iter()).filter(|(to, from)| {
        to.offsets.len() == 1 && from.offsets.len() == 1 && to.root.is_some() == stack.root.is_some()
    });
    let (to, _) = found.next()?;
    found.all(|(other, _)| other == to).then(|| to.clone())
}

/// Whether the function that finds callers reads the same.
fn agrees(accesses: &PerlAccesses, stack: &PerlPlace, shape: &PerlShape) -> bool {
    let reads = |field: u8| {
        accesses.reads.iter().any(|place| {
            place.root == stack.root
                && place.offsets.split_last().is_some_and(|(last, before)| {
                    *last == i64::from(field) && before == stack.offsets.as_slice()
                })
        })
    };
    let is_sub = |element: &PerlElement| {
        element.size == i64::from(shape.block_bytes) && element.offset == i64::from(shape.sub)
    };
    // Blocks are compared with the types of subs, formats and evals, and no others.
    let first = i64::from(shape.sub_type);
    let are_types_known = accesses.types.iter().all(|kind| (first..=first + 2).contains(kind));
    let has_witness = !accesses.types.is_empty() || accesses.elements.iter().any(is_sub);
    reads(shape.blocks) && reads(shape.outer) && reads(shape.stack_type) && are_types_known && has_witness
}

fn anchor(place: &PerlPlace) -> Option<Anchor> {
    match (place.root, place.offsets.as_slice()) {
        (None, &[offset]) => u16::try_from(offset).ok().map(Anchor::Offset),
        (Some(address), &[0]) => Some(Anchor::Address(address)),
        _ => None,
    }
}

/// How the interpreter of a thread is found, and its state where that is known by that; `None` while it is starting.
fn locate(
    memory: &impl TargetMemory,
    symbols: &dyn Fn(&str) -> Option<u64>,
    version: PerlVersion,
    found: PerlFound,
) -> Result<Option<(PerlLocator, Option<u64>)>, RuntimeProblem> {
    match (found.stack, found.statement) {
        (Anchor::Address(stack), Anchor::Address(statement)) => {
            if symbols("PL_curstackinfo").is_some_and(|symbol| symbol != stack) {
                return Err(misfit(version, "`PL_curstackinfo` is elsewhere"));
            }
            let state = memory.u64(stack).filter(|&state| state != 0);
            Ok(state.map(|state| (PerlLocator::Process { stack, statement }, Some(state))))
        }
        (Anchor::Offset(_), Anchor::Offset(_)) => {
            let key = symbols("PL_thr_key").and_then(|place| memory.u32(place)).ok_or_else(|| {
                RuntimeProblem::lasting(format!("perl {version}: no symbol `PL_thr_key`: {NATIVE_ONLY}"))
            })?;
            if key >= KEYS {
                return Err(RuntimeProblem::lasting(format!(
                    "perl {version}: the program has more than {KEYS} pthread keys before the interpreter's: {NATIVE_ONLY}"
                )));
            }
            // Each value follows the number of the key's generation.
            Ok(Some((PerlLocator::Key { slot: FIRST_KEY + 16 * key + 8 }, None)))
        }
        _ => Err(misfit(version, "its variables are at unlikely places")),
    }
}

/// Checks that the stack of an interpreter reads as one: to its root, and with frames that are at statements and in subs.
fn confirm(memory: &impl TargetMemory, layout: &PerlLayout, state: u64) -> Result<(), RuntimeProblem> {
    let mut verdict = PerlVerdict::Unsure;
    for _ in 0..ATTEMPTS {
        verdict = judge(memory, layout, state);
        if verdict == PerlVerdict::Fits {
            return Ok(());
        }
    }
    let version = layout.version;
    Err(match verdict {
        PerlVerdict::Fits => return Ok(()),
        PerlVerdict::Unsure => RuntimeProblem::temporary(format!(
            "perl {version}: its stack could not be read to its root yet: {NATIVE_ONLY} until it can be"
        )),
        PerlVerdict::Differs => RuntimeProblem::temporary(format!(
            "perl {version}: unknown layout: what its stack leads to are no subs and no statements (a changed build, or \
             stacks that change too fast): {NATIVE_ONLY} unless a later attempt succeeds"
        )),
    })
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PerlVerdict {
    Fits,
    /// There is nothing on the stack yet, or it was being changed.
    Unsure,
    Differs,
}

fn judge(memory: &impl TargetMemory, layout: &PerlLayout, state: u64) -> PerlVerdict {
    let stack = frames(memory, layout, state);
    if !stack.is_complete || stack.frames.is_empty() {
        return PerlVerdict::Unsure;
    }
    let is_sub = |code: u64| {
        let Some((PerlKind::Sub, sub)) = PerlKind::of(code) else { return true };
        PerlHead::read(memory, sub).is_some_and(|head| [IS_SUB, IS_FORMAT].contains(&head.kind()))
    };
    // While files are compiled, the statement is one of the compiler's, which no function runs.
    let is_statement = |statement: u64| {
        let function = statement.checked_add(16).and_then(|place| memory.u64(place));
        function.is_some_and(|function| function == 0 || layout.statement_functions.contains(&function))
    };
    let is_real = |statement: u64| {
        let function = statement.checked_add(16).and_then(|place| memory.u64(place));
        function.is_some_and(|function| layout.statement_functions.contains(&function))
    };
    let fits = stack.frames.iter().all(|frame| is_sub(frame.code))
        && stack.statements.iter().all(|&statement| is_statement(statement));
    match (fits, stack.statements.iter().any(|&statement| is_real(statement))) {
        (true, true) => PerlVerdict::Fits,
        (true, false) => PerlVerdict::Unsure,
        (false, _) => PerlVerdict::Differs,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read_from_text_and_paths() {
        let version = |minor, micro| Some(PerlVersion { minor, micro });
        assert_eq!(of_text(b"v5.36.0\0rest...."), version(36, 0));
        assert_eq!(of_text(b"v5.36\0.........."), None);
        assert_eq!(of_text(b"v5.999.0\0......."), None);
        assert_eq!(of_path("/usr/lib/x86_64-linux-gnu/libperl.so.5.36.0"), version(36, 0));
        assert_eq!(of_path("/opt/perl5.30.3"), version(30, 3));
        assert_eq!(of_path("/opt/perl5.30/bin/perl"), None);
    }
}
