//! The only way from a foreign string (function, process, thread, file name) to an output.
//!
//! Such a string is data that a stranger chose. Each function here makes it safe for one kind of
//! output. What is common to all: control characters (C0, DEL, C1), characters that reorder or hide
//! text (bidirectional overrides, line and paragraph separators) and non-characters are shown as
//! `\x1b` or `\u{202e}` instead of being passed on. Strings are cut at [`SHOWN_CHARS`] characters.

use std::borrow::Cow;
use unicode_width::{UnicodeWidthChar, UnicodeWidthStr};

/// Most characters of one foreign string that are shown anywhere.
pub(crate) const SHOWN_CHARS: usize = 512;

/// Text in place of a name that has no characters.
pub(crate) const UNNAMED: &str = "[unnamed]";

/// Whether `c` could drive a terminal, reorder text around it, or make XML ill-formed.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
        || u32::from(c) & 0xfffe == 0xfffe
}

fn push_escaped(out: &mut String, c: char) {
    use std::fmt::Write;
    let code = u32::from(c);
    let written = if code <= 0xff { write!(out, "\\x{code:02x}") } else { write!(out, "\\u{{{code:x}}}") };
    debug_assert!(written.is_ok(), "a String takes any text");
}

/// `text` for a terminal: one line, nothing that a terminal interprets, at most [`SHOWN_CHARS`] characters.
pub(crate) fn terminal(text: &str) -> Cow<'_, str> {
    escape(text, SHOWN_CHARS)
}

/// The words of a command line as a shell takes them: what has blanks or other signs is quoted, what has line breaks or
/// control characters is written as `$'a\nb'`.
pub(crate) fn shell_line<'w>(words: impl IntoIterator<Item = &'w str>) -> String {
    words.into_iter().map(shell_word).collect::<Vec<_>>().join(" ")
}

fn shell_word(word: &str) -> String {
    let is_plain = |c: char| c.is_alphanumeric() || "_@%+=:,./-".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        return word.to_owned();
    }
    if !word.chars().any(is_unsafe) {
        return format!("'{}'", word.replace('\'', r"'\''"));
    }
    let escaped = word.chars().map(|c| match c {
        '\n' => r"\n".to_owned(),
        '\t' => r"\t".to_owned(),
        '\\' | '\'' => format!("\\{c}"),
        c if is_unsafe(c) && c.is_ascii() => format!("\\x{:02x}", u32::from(c)),
        c if is_unsafe(c) => format!("\\U{:08x}", u32::from(c)),
        c => c.to_string(),
    });
    format!("$'{}'", escaped.collect::<String>())
}

/// Whether the locale is one of UTF-8, by the variables of the environment.
pub(crate) fn is_utf8_locale(variable: impl Fn(&str) -> Option<String>) -> bool {
    let value = |name| variable(name).filter(|value| !value.is_empty());
    let locale = value("LC_ALL").or_else(|| value("LC_CTYPE")).or_else(|| value("LANG")).unwrap_or_default();
    let locale = locale.to_ascii_lowercase();
    locale.contains("utf-8") || locale.contains("utf8")
}

/// Whether the locale has only ASCII: it is not one of UTF-8. Where the environment says nothing of it, that is so on a terminal.
pub(crate) fn is_ascii_locale(is_terminal: bool) -> bool {
    let variable = |name: &str| std::env::var(name).ok();
    let is_set = || {
        ["LC_ALL", "LC_CTYPE", "LANG"].iter().any(|name| variable(name).is_some_and(|set| !set.is_empty()))
    };
    !is_utf8_locale(variable) && (is_terminal || is_set())
}

/// Text of `prof` as the locale has it. Where columns follow a name, that has to be in ASCII already when they are placed.
pub(crate) fn for_locale(text: &str, is_terminal: bool) -> Cow<'_, str> {
    match text.is_ascii() || !is_ascii_locale(is_terminal) {
        true => Cow::Borrowed(text),
        false => Cow::Owned(in_ascii(text)),
    }
}

/// `text` without any character that is not ASCII. The mark of a cut stays one column wide, and so does the heading of a column
/// of errors; letters of names are written by their numbers, so that names that differ still do.
pub(crate) fn in_ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut rest = text.chars();
    while let Some(c) = rest.next() {
        match c {
            '…' => out.push('~'),
            '×' => out.push('x'),
            '±' => {
                // A heading has two spaces on both sides, or ends the line. It takes one of those before it.
                let after = rest.as_str();
                let is_last = after.is_empty() || after.starts_with("  ") || after.starts_with('\n');
                if is_last && out.ends_with("  ") {
                    out.pop();
                }
                out.push_str("+-");
            }
            c if c.is_ascii() => out.push(c),
            c => push_escaped(&mut out, c),
        }
    }
    out
}

/// A message of `prof` that may quote foreign names, for a terminal: one line, not cut.
pub(crate) fn message(text: &str) -> Cow<'_, str> {
    escape(text, usize::MAX)
}

/// Shows unsafe characters as escapes and cuts after `most_chars` characters.
fn escape(text: &str, most_chars: usize) -> Cow<'_, str> {
    // Bytes bound characters, so most names are known to be short without counting.
    let is_long = text.len() > most_chars && text.chars().nth(most_chars).is_some();
    if !is_long && !text.chars().any(is_unsafe) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len().min(4 * SHOWN_CHARS));
    for c in text.chars().take(most_chars) {
        if is_unsafe(c) { push_escaped(&mut out, c) } else { out.push(c) }
    }
    if is_long {
        out.push('…');
    }
    Cow::Owned(out)
}

/// Bytes that should be text: valid UTF-8 is kept, every other byte becomes `\xff`.
pub(crate) fn from_bytes(bytes: &[u8]) -> String {
    let mut out = String::with_capacity(bytes.len());
    for chunk in bytes.utf8_chunks() {
        out.push_str(chunk.valid());
        for byte in chunk.invalid() {
            push_escaped(&mut out, char::from(*byte));
        }
    }
    out
}

/// `text` as one frame of a folded line.
///
/// Readers split lines at `;` and take the number after the last space as the weight, some take a
/// second number before it as a baseline, and skip lines that start with `#`.
pub(crate) fn folded(text: &str) -> String {
    let mut out = terminal(text).trim().replace(';', ":");
    if out.is_empty() {
        return UNNAMED.to_owned();
    }
    if let Some(rest) = out.strip_prefix('#') {
        out = format!("\\x23{rest}");
    }
    if let Some(space) = out.rfind(' ')
        && out[space + 1..].bytes().all(|byte| byte.is_ascii_digit() || byte == b'.')
    {
        out.replace_range(space..=space, "_");
    }
    out
}

/// `text` for XML 1.0 (SVG): only characters that XML allows. Markup is left for the XML writer to escape.
pub(crate) fn xml(text: &str) -> Cow<'_, str> {
    terminal(text)
}

/// A finished JSON document in which the characters that JSON allows raw but terminals and editors
/// interpret are written as `\u` escapes. They can only occur inside strings, so this keeps the meaning.
///
/// The layout characters newline and space between tokens stay.
pub(crate) fn json(document: &str) -> Cow<'_, str> {
    let is_bad = |c: char| is_unsafe(c) && c != '\n';
    if !document.chars().any(is_bad) {
        return Cow::Borrowed(document);
    }
    use std::fmt::Write;
    let mut out = String::with_capacity(document.len() + 64);
    for c in document.chars() {
        if !is_bad(c) {
            out.push(c);
            continue;
        }
        for unit in c.encode_utf16(&mut [0; 2]) {
            let written = write!(out, "\\u{unit:04x}");
            debug_assert!(written.is_ok(), "a String takes any text");
        }
    }
    Cow::Owned(out)
}

/// `text` as one cell of a tab-separated table. A leading character that makes spreadsheets run a
/// formula is disarmed with an apostrophe.
pub(crate) fn tsv(text: &str) -> Cow<'_, str> {
    let text = terminal(text);
    if text.starts_with(['=', '+', '-', '@']) { Cow::Owned(format!("'{text}")) } else { text }
}

/// Columns that `text` takes on a terminal.
pub(crate) fn width(text: &str) -> usize {
    text.width()
}

/// `text` in at most `columns` columns; when cut, it ends in `…`.
pub(crate) fn fit_tail(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let Some(room) = columns.checked_sub(1) else { return Cow::Borrowed("") };
    Cow::Owned(format!("{}…", head(text, room)))
}

/// `text` in at most `columns` columns; when cut, `…` replaces the middle: the end of a qualified
/// name says more than its middle.
pub(crate) fn fit_middle(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let Some(room) = columns.checked_sub(1) else { return Cow::Borrowed("") };
    let end_room = room / 2;
    let reversed: String = text.chars().rev().collect();
    let end: String = head(&reversed, end_room).chars().rev().collect();
    Cow::Owned(format!("{}…{end}", head(text, room - end_room)))
}

/// `text` in at most `columns` columns; when cut, it begins with `…`: of a place in a file the end says more.
pub(crate) fn fit_end(text: &str, columns: usize) -> Cow<'_, str> {
    if width(text) <= columns {
        return Cow::Borrowed(text);
    }
    let Some(room) = columns.checked_sub(1) else { return Cow::Borrowed("") };
    let reversed: String = text.chars().rev().collect();
    let end: String = head(&reversed, room).chars().rev().collect();
    Cow::Owned(format!("…{end}"))
}

/// `text` in lines of at most `columns` columns, broken at spaces; a word that is wider has a line for itself.
pub(crate) fn wrapped(text: &str, columns: usize) -> Vec<String> {
    let mut lines = vec![String::new()];
    for word in text.split(' ') {
        let Some(line) = lines.last_mut() else { break };
        if !line.is_empty() && width(line) + 1 + width(word) > columns {
            lines.push(word.to_owned());
            continue;
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines
}

/// A note in lines, as by [`wrapped`]. A command at its end (`…: prof annotate NAME`) is never broken, since it is there to be
/// copied: it has a line of its own where it does not fit, even if that is too wide.
pub(crate) fn wrapped_note(note: &str, columns: usize) -> Vec<String> {
    // `prof was killed` is no command.
    let is_command = |at: &usize| {
        let verb = note[at + ": prof ".len()..].split(' ').next();
        verb.is_some_and(|verb| ["report", "annotate", "info", "record", "symbolize"].contains(&verb))
    };
    let Some(at) = note.rfind(": prof ").filter(is_command) else { return wrapped(note, columns) };
    let (text, command) = (&note[..=at], &note[at + 2..]);
    let mut lines = wrapped(text, columns);
    match lines.last_mut().filter(|last| width(last) + 1 + width(command) <= columns) {
        Some(last) => {
            last.push(' ');
            last.push_str(command);
        }
        None => lines.push(command.to_owned()),
    }
    lines
}

/// The lines of `text` in at most `columns` columns, as by [`wrapped`]. What does not fit a line goes on below its byte
/// `indent`; what stands before that is the line's name.
pub(crate) fn hanging(text: &str, indent: usize, columns: usize) -> String {
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let parts = line.split_at_checked(indent).filter(|_| width(line) > columns);
        let Some((name, rest)) = parts else {
            out.push_str(line);
            out.push('\n');
            continue;
        };
        for (index, part) in wrapped(rest.trim_start(), columns.saturating_sub(indent)).iter().enumerate() {
            let start = if index == 0 { name } else { "" };
            out.push_str(&format!("{start:indent$}{}\n", part.trim_start()));
        }
    }
    out
}

/// The longest start of `text` that fits `columns`.
fn head(text: &str, columns: usize) -> &str {
    let mut used = 0;
    for (at, c) in text.char_indices() {
        used += c.width().unwrap_or(0);
        if used > columns {
            return &text[..at];
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_go_on_below_themselves() {
        let text = "cost      much of a CPU  and memory\nfile      small\n          12 rows of a table\n";
        let expected = "cost      much of a\n          CPU  and\n          memory\nfile      small\n          \
                        12 rows of\n          a table\n";
        assert_eq!(hanging(text, 10, 21), expected);
        assert_eq!(hanging(text, 10, 80), text);
    }

    /// Regression: the quoted name in `prof annotate 'a long name'` was broken into two lines, and pasted it named nothing.
    #[test]
    fn a_command_is_never_broken() {
        let note = "most is in functions inlined into it: prof annotate 'f<int, long>(int, long)'";
        let command = "prof annotate 'f<int, long>(int, long)'";
        assert_eq!(wrapped_note(note, 40), ["most is in functions inlined into it:", command]);
        assert_eq!(wrapped_note(note, 20).last().map(String::as_str), Some(command));
        assert_eq!(wrapped_note(note, 90), [note]);
        for without in ["a note without one", "it has no end: prof was killed, or the file was cut"] {
            assert_eq!(wrapped_note(without, 10), wrapped(without, 10));
        }
    }

    use proptest::prelude::*;

    #[test]
    fn what_a_terminal_obeys_becomes_visible() {
        assert_eq!(terminal("a\x1b[31m\n\u{9b}\u{7f}"), "a\\x1b[31m\\x0a\\x9b\\x7f");
        assert_eq!(terminal("x\u{202e}y\u{2066}"), "x\\u{202e}y\\u{2066}");
        assert_eq!(terminal("\u{fffe}\u{1ffff}"), "\\u{fffe}\\u{1ffff}");
        assert!(matches!(terminal("std::vector<int>::push_back"), Cow::Borrowed(_)));
        assert_eq!(terminal("größe 関数"), "größe 関数");
    }

    #[test]
    fn a_command_line_can_be_typed_again() {
        assert_eq!(shell_line(["ls", "-l", "/tmp"]), "ls -l /tmp");
        assert_eq!(shell_line(["sh", "-c", "a; b 'c'", ""]), r"sh -c 'a; b '\''c'\''' ''");
        let script = shell_line(["ruby", "-e", "x = 'a\\b'\nputs x\t\x1b\u{202e}"]);
        assert_eq!(script, r"ruby -e $'x = \'a\\b\'\nputs x\t\x1b\U0000202e'");
        assert_eq!(terminal(&script), script, "nothing in it has to be escaped again");
    }

    #[test]
    fn a_locale_without_utf8_gets_ascii() {
        assert_eq!(in_ascii("  SELF%     ±  a…b"), "  SELF%    +-  a~b");
        assert_eq!(in_ascii("WAIT   ±\nof 9 kept, ± 3 ms"), "WAIT  +-\nof 9 kept, +- 3 ms");
        assert_eq!(in_ascii("  ± is the error, ±0.6"), "  +- is the error, +-0.6");
        assert_eq!(in_ascii("größe 関数"), "gr\\xf6\\xdfe \\u{95a2}\\u{6570}");
        assert_ne!(in_ascii("関"), in_ascii("数"));
    }

    #[test]
    fn a_megabyte_is_cut() {
        let long = "x".repeat(1 << 20);
        assert_eq!(terminal(&long).chars().count(), SHOWN_CHARS + 1);
        let exact = "é".repeat(SHOWN_CHARS);
        assert_eq!(terminal(&exact), exact);
    }

    #[test]
    fn bytes_that_are_no_text_keep_their_values() {
        assert_eq!(from_bytes(b"a\xff\xc3\xa9\x80"), "a\\xffé\\x80");
    }

    #[test]
    fn folded_frames_cannot_break_the_line() {
        assert_eq!(folded("[u8; 8]"), "[u8: 8]");
        assert_eq!(folded("f(int) 12"), "f(int)_12");
        assert_eq!(folded("a\nb 3\n"), "a\\x0ab 3\\x0a");
        assert_eq!(folded("# comment"), "\\x23 comment");
        assert_eq!(folded("  "), UNNAMED);
    }

    #[test]
    fn cells_cannot_be_formulas() {
        assert_eq!(tsv("=cmd|' /C calc'!A0"), "'=cmd|' /C calc'!A0");
        assert_eq!(tsv("a\tb"), "a\\x09b");
    }

    /// Detail 15 of the promises: all works over ssh and in scripts.
    #[test]
    fn json_keeps_its_meaning() {
        let name = "a\u{9b}\u{202e}\u{1fffe}\x1b\"";
        let document = serde_json::to_string_pretty(&[name]).unwrap();
        let safe = json(&document);
        assert!(!safe.chars().any(|c| is_unsafe(c) && c != '\n'));
        assert_eq!(serde_json::from_str::<Vec<String>>(&safe).unwrap(), [name]);
    }

    #[test]
    fn wide_characters_take_two_columns() {
        assert_eq!(fit_tail("関数名前", 5), "関数…");
        assert_eq!(fit_middle("abcdefghij", 5), "ab…ij");
        assert_eq!(fit_middle("abc", 3), "abc");
        assert_eq!(fit_tail("abc", 0), "");
    }

    proptest! {
        #[test]
        fn no_output_passes_an_unsafe_character(text in any::<String>()) {
            for safe in [terminal(&text), xml(&text), tsv(&text), folded(&text).into()] {
                prop_assert!(!safe.chars().any(is_unsafe));
            }
            prop_assert!(!folded(&text).contains(';'));
        }

        #[test]
        fn fitted_text_fits(text in "\\PC{0,40}", columns in 0usize..30) {
            prop_assert!(width(&fit_tail(&text, columns)) <= columns);
            prop_assert!(width(&fit_middle(&text, columns)) <= columns);
        }
    }
}
