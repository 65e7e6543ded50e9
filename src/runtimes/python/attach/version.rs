//! Version of the interpreter in a process, by the surest source that it has.

use super::debug_offsets;
use super::disassembly;
use crate::runtimes::memory::TargetMemory;
use crate::runtimes::python::layout::PythonVersion;

/// Version, and the name of the source that gave it; `None` if nothing does.
///
/// `symbols` gives process addresses of symbols, `runtime` is that of `_PyRuntime`, `path` the module's file.
pub(crate) fn find(
    memory: &impl TargetMemory,
    symbols: &dyn Fn(&str) -> Option<u64>,
    runtime: u64,
    path: &str,
) -> Option<(PythonVersion, &'static str)> {
    if let Some((word, is_free_threaded)) = debug_offsets::version(memory, runtime) {
        return Some((of_word(word, is_free_threaded)?, "_PyRuntime"));
    }
    if let Some(word) = symbols("Py_Version").and_then(|address| memory.u32(address)) {
        return Some((of_word(word, false)?, "Py_Version"));
    }
    if let Some(version) = symbols("Py_GetVersion").and_then(|address| of_function(memory, address)) {
        return Some((version, "Py_GetVersion"));
    }
    Some((of_path(path)?, "file name"))
}

/// Version of a word such as 0x030b02f0 for 3.11.2.
fn of_word(word: u32, is_free_threaded: bool) -> Option<PythonVersion> {
    let [major, minor, micro, _] = word.to_be_bytes();
    (major == 3).then_some(PythonVersion { minor, micro: Some(micro), is_free_threaded })
}

/// Version in the text that a function takes as an argument to compose its own: `3.8.18` or `3.9.0rc1+`.
fn of_function(memory: &impl TargetMemory, address: u64) -> Option<PythonVersion> {
    let numbers = disassembly::accesses(memory, address).numbers;
    let mut versions = numbers.into_iter().filter_map(|place| of_text(&memory.bytes::<16>(place)?));
    let version = versions.next()?;
    versions.all(|other| other == version).then_some(version)
}

fn of_text(bytes: &[u8]) -> Option<PythonVersion> {
    let end = bytes.iter().position(|&byte| byte == 0)?;
    let text = std::str::from_utf8(bytes.get(..end)?).ok()?;
    let (minor, micro) = text.strip_prefix("3.")?.split_once('.')?;
    let suffix = micro.trim_start_matches(|character: char| character.is_ascii_digit());
    let digits = micro.strip_suffix(suffix)?;
    let is_suffix = suffix.chars().all(|character| character.is_ascii_alphanumeric() || character == '+');
    let (minor, micro) = (minor.parse().ok()?, digits.parse().ok()?);
    is_suffix.then_some(PythonVersion { minor, micro: Some(micro), is_free_threaded: false })
}

/// Version in a file name such as `libpython3.9.so.1.0` or `python3.8`.
fn of_path(path: &str) -> Option<PythonVersion> {
    let (_, rest) = path.rsplit('/').next()?.split_once("python3.")?;
    let end = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
    let minor = rest.get(..end)?.parse().ok()?;
    Some(PythonVersion { minor, micro: None, is_free_threaded: rest.get(end..)?.starts_with('t') })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minor_and_micro(text: &[u8]) -> Option<(u8, Option<u8>)> {
        of_text(text).map(|version| (version.minor, version.micro))
    }

    #[test]
    fn versions_are_read_from_text() {
        assert_eq!(minor_and_micro(b"3.8.18\0 (%.80s)"), Some((8, Some(18))));
        assert_eq!(minor_and_micro(b"3.10.0rc2+\0....."), Some((10, Some(0))));
        assert_eq!(minor_and_micro(b"%.80s (%.80s) %.8"), None);
        assert_eq!(minor_and_micro(b"3.8.18 and more.."), None);
        assert_eq!(minor_and_micro(b"3.8\0"), None);
        assert_eq!(minor_and_micro(b"3.999.1\0"), None);
    }

    #[test]
    fn versions_are_read_from_paths() {
        let minor = |path| of_path(path).map(|version| (version.minor, version.is_free_threaded));
        assert_eq!(minor("/usr/lib/libpython3.9.so.1.0"), Some((9, false)));
        assert_eq!(minor("/usr/bin/python3.13t"), Some((13, true)));
        assert_eq!(minor("/opt/python3.9/bin/python"), None);
    }
}
