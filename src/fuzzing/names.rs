//! Names of strangers on their way to terminals and files.

use crate::base::safe_text;
use crate::symbols::demangle;

/// Longest name that a demangler may make, bytes.
const MOST_DEMANGLED: usize = 1 << 16;

/// Shows any bytes, and what they demangle to, in each kind of output. No output has a control character in it.
pub(super) fn names(data: &[u8]) {
    let raw = String::from_utf8_lossy(data);
    let demangled = demangle(&raw);
    assert!(demangled.len() <= raw.len().max(MOST_DEMANGLED), "a name of bounded length");
    for name in [&*raw, &*demangled, &safe_text::from_bytes(data)] {
        for shown in [safe_text::terminal(name), safe_text::tsv(name), safe_text::folded(name).into()] {
            assert!(!shown.contains(char::is_control), "a control character in {shown:?} of {name:?}");
        }
        assert!(!safe_text::folded(name).contains(';'), "one element of a folded stack");
        assert!(
            !safe_text::xml(name).contains(|letter: char| letter < ' ' && letter != '\n' && letter != '\t')
        );
        assert!(safe_text::in_ascii(name).is_ascii());
        let shown = safe_text::terminal(name);
        for columns in [1, 7, 40] {
            for cut in [
                safe_text::fit_end(&shown, columns),
                safe_text::fit_tail(&shown, columns),
                safe_text::fit_middle(&shown, columns),
            ] {
                assert!(safe_text::width(&cut) <= columns, "{cut:?} is wider than {columns}");
            }
        }
    }
}
