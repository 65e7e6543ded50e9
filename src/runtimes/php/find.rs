//! Finding the layout of PHP in a process, and checking it: what does not fit is a problem with a reason, never a guess.

use super::code::PhpCode;
use super::frames::stack;
use super::instructions::reads;
use super::layout::{PhpKept, PhpLayout, PhpOffsets, PhpVersion};
use super::offsets;
use crate::runtimes::memory::TargetMemory;
use crate::runtimes::problem::RuntimeProblem;

/// Cure where nothing can be done but to live without.
const NATIVE_ONLY: &str = "only native frames are shown";
/// How often the stack of a process that runs is read before it counts as one that does not fit.
const MOST_ATTEMPTS: usize = 16;
/// The first version that marks functions which all requests share.
const FIRST_WITH_IMMUTABLE: PhpVersion = PhpVersion { major: 7, minor: 4, micro: None };
/// What the text of the version begins with.
const ENGINE: &str = "Zend Engine v";
/// Bytes of that text that are read.
const VERSION_BYTES: usize = 24;

/// What stacks say of the offsets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PhpVerdict {
    Confirmed,
    /// Nothing runs.
    Silent,
    Refuted,
}

impl PhpLayout {
    /// Finds the layout of PHP in a process.
    ///
    /// `symbols` gives process addresses of symbols of the module, exported ones or of its symbol table; `path` is the
    /// module's file.
    ///
    /// # Errors
    /// A sentence of what is not known or does not fit. It is temporary if PHP is still starting.
    pub(crate) fn find(
        memory: &impl TargetMemory,
        symbols: &dyn Fn(&str) -> Option<u64>,
        path: &str,
    ) -> Result<Self, RuntimeProblem> {
        let Some(globals) = symbols("executor_globals") else {
            let why = if symbols("executor_globals_offset").is_some() {
                format!(
                    "php: `{path}` is a thread-safe build (ZTS), whose stacks are not read: {NATIVE_ONLY}"
                )
            } else {
                format!(
                    "php: no symbol `executor_globals` in `{path}`, which is stripped of it: {NATIVE_ONLY}"
                )
            };
            return Err(RuntimeProblem::lasting(why));
        };
        let version = version(memory, symbols, path)?;
        let offsets = offsets::offsets(memory, symbols, globals).map_err(|what| {
            RuntimeProblem::lasting(format!(
                "php {version}: unknown layout: {what} (a changed or unreleased build?): {NATIVE_ONLY}"
            ))
        })?;
        let verdict = verdict(memory, globals, &offsets, version)?;
        let stacks = if verdict == PhpVerdict::Confirmed { ", confirmed by its stack" } else { "" };
        let source = format!("the instructions of its functions{stacks}");
        Ok(Self { version, source, globals, offsets, kept: kept(memory, symbols, version) })
    }
}

/// Which functions stay: PHP on the command line serves no requests.
fn kept(memory: &impl TargetMemory, symbols: &dyn Fn(&str) -> Option<u64>, version: PhpVersion) -> PhpKept {
    let interface = || memory.bytes::<4>(memory.u64(symbols("sapi_module")?)?);
    match interface() {
        Some([b'c', b'l', b'i', 0]) => PhpKept::All,
        _ if version < FIRST_WITH_IMMUTABLE => PhpKept::None,
        _ => PhpKept::Immutable,
    }
}

/// The version, by the name that the engine gives itself. Its own numbers are those of PHP, but for the first.
fn version(
    memory: &impl TargetMemory,
    symbols: &dyn Fn(&str) -> Option<u64>,
    path: &str,
) -> Result<PhpVersion, RuntimeProblem> {
    let unknown = || RuntimeProblem::lasting(format!("php: version of `{path}` not found: {NATIVE_ONLY}"));
    let function = symbols("get_zend_version").ok_or_else(unknown)?;
    let place = reads(memory, function, 0).words.first().copied().ok_or_else(unknown)?;
    let text = memory.u64(place).filter(|&text| text != 0);
    let text = text.and_then(|text| memory.range(text, VERSION_BYTES as u64, VERSION_BYTES));
    let Some(text) = text else {
        return Err(RuntimeProblem::temporary(
            "php: the interpreter has not begun yet: its functions are shown once it has",
        ));
    };
    let version = parse_version(&String::from_utf8_lossy(&text)).ok_or_else(unknown)?;
    if version < (PhpVersion { major: 7, minor: 3, micro: None }) {
        return Err(RuntimeProblem::lasting(format!(
            "php {version}: this version's layout is not known here (known: 7.3 to 8.5): {NATIVE_ONLY}"
        )));
    }
    Ok(version)
}

/// `Zend Engine v4.2.36, Copyright …` is PHP 8.2.36, and 3.4.0 is PHP 7.4.
fn parse_version(text: &str) -> Option<PhpVersion> {
    let mut numbers = text.strip_prefix(ENGINE)?.split(',').next()?.split('.');
    let major: u8 = numbers.next()?.parse().ok()?;
    let minor = numbers.next()?.parse().ok()?;
    let digits = |text: &str| text.split(|letter: char| !letter.is_ascii_digit()).next()?.parse().ok();
    let micro: Option<u16> = numbers.next().and_then(digits);
    // Up to version 3 the engine counted its own releases.
    let micro = micro.filter(|_| major >= 4);
    (3..=32).contains(&major).then_some(PhpVersion { major: major + 4, minor, micro })
}

/// Compares the offsets with the stack. Nothing need run: the functions have said it all.
fn verdict(
    memory: &impl TargetMemory,
    globals: u64,
    offsets: &PhpOffsets,
    version: PhpVersion,
) -> Result<PhpVerdict, RuntimeProblem> {
    let layout =
        PhpLayout { version, source: String::new(), globals, offsets: *offsets, kept: PhpKept::None };
    let read = || {
        let stack = stack(memory, &layout, None);
        let is_known = |code| super::check(memory, &layout, code).is_none() || fits(memory, &layout, code);
        match stack.frames.first() {
            _ if !stack.is_complete => PhpVerdict::Refuted,
            None => PhpVerdict::Silent,
            Some(_) if stack.frames.iter().all(|frame| is_known(frame.code)) => PhpVerdict::Confirmed,
            Some(_) => PhpVerdict::Refuted,
        }
    };
    // It changes while it is read.
    let verdict = (0..MOST_ATTEMPTS).map(|_| read()).find(|&verdict| verdict != PhpVerdict::Refuted);
    verdict.ok_or_else(|| {
        RuntimeProblem::temporary(format!(
            "php {version}: unknown layout: its stack could not be read to the root (a changed build, or a stack that \
             changes too fast): {NATIVE_ONLY} unless a later attempt succeeds"
        ))
    })
}

/// Whether there is a function at a code word.
fn fits(memory: &impl TargetMemory, layout: &PhpLayout, code: u64) -> bool {
    PhpCode::read(memory, layout, code).is_some_and(|code| !code.function.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_engines_version_is_that_of_php() {
        let version = |text| parse_version(text).map(|version| version.to_string());
        assert_eq!(version("Zend Engine v4.2.36, Copyrig").as_deref(), Some("8.2.36"));
        assert_eq!(version("Zend Engine v3.4.0, Copyrigh").as_deref(), Some("7.4"));
        assert_eq!(version("Zend Engine v4.5.0-dev, Copy").as_deref(), Some("8.5.0"));
        for damaged in
            ["", "Zend Engine v", "Zend Engine v4", "Zend Engine v4.", "Zend Engine v300.1.1", "PHP 8.2"]
        {
            assert_eq!(parse_version(damaged), None, "{damaged}");
        }
    }
}
