//! A refusal of the configuration: which line and key, and what is allowed.

use crate::base::failure::{Failure, status};
use std::ops::Range;

/// What is wrong, and where.
#[derive(Debug)]
pub(super) struct ConfigRefusal {
    /// Bytes of the file: of a value, or of a whole table; `None` for what is missing from the file.
    span: Option<Range<usize>>,
    /// Key within the table that `span` is.
    key: Option<&'static str>,
    why: String,
}

impl ConfigRefusal {
    /// A refusal of the whole file.
    pub(super) fn file(why: impl Into<String>) -> Self {
        ConfigRefusal { span: None, key: None, why: why.into() }
    }

    /// A refusal of a key of the first table.
    pub(super) fn key(key: &'static str, why: impl Into<String>) -> Self {
        ConfigRefusal { span: Some(0..0), key: Some(key), why: why.into() }
    }

    /// A refusal of what is at a place.
    pub(super) fn at(span: Range<usize>, why: impl Into<String>) -> Self {
        ConfigRefusal { span: Some(span), key: None, why: why.into() }
    }

    /// A refusal of a key of the table at a place.
    pub(super) fn in_table(span: Range<usize>, key: &'static str, why: impl Into<String>) -> Self {
        ConfigRefusal { span: Some(span), key: Some(key), why: why.into() }
    }

    /// What the parser refused.
    pub(super) fn of(error: &toml::de::Error) -> Self {
        ConfigRefusal { span: error.span(), key: None, why: error.message().trim().replace('\n', ", ") }
    }

    /// The failure that the user sees.
    pub(super) fn failure(&self, path: &str, text: &str) -> Failure {
        let failure = |place: String| {
            Failure::new(status::USAGE, format!("`{path}`{place}: {}", self.why))
                .hint("docs/fleet.md lists the keys and what each allows")
        };
        let Some(span) = &self.span else { return failure(String::new()) };
        let start = span.start.min(text.len());
        let line =
            self.key.and_then(|key| line_of_key(text, start, key)).unwrap_or_else(|| line_at(text, start));
        let key = key_of_line(text, line, self.key);
        let key = if key.is_empty() { key } else { format!(", key `{key}`") };
        failure(format!(" line {}{key}", line + 1))
    }
}

/// Number, from 0, of the line in which a byte is.
fn line_at(text: &str, offset: usize) -> usize {
    text.as_bytes().iter().take(offset).filter(|byte| **byte == b'\n').count()
}

/// The line with a key in the table that begins at a byte: before the next header.
fn line_of_key(text: &str, offset: usize, key: &str) -> Option<usize> {
    let first = line_at(text, offset);
    let is_header = |line: &str| line.trim_start().starts_with('[');
    let rest = text.lines().enumerate().skip(first);
    let table = rest.take_while(|(number, line)| *number == first || !is_header(line));
    table.into_iter().find(|(_, line)| key_in(line) == Some(key)).map(|(number, _)| number)
}

/// The key that a line gives a value.
fn key_in(line: &str) -> Option<&str> {
    let (key, _) = line.split_once('=')?;
    let key = key.trim().trim_matches(['"', '\'']);
    let is_key = !key.is_empty() && !key.starts_with(['#', '[', '{']);
    is_key.then_some(key)
}

/// The whole key of a line: with its table, and the number of that where there are several: `destinations 2.url`.
fn key_of_line(text: &str, line: usize, known: Option<&str>) -> String {
    let mut table = String::new();
    let mut key = None;
    let mut headers: Vec<&str> = Vec::new();
    for (number, text) in text.lines().enumerate().take(line + 1) {
        let trimmed = text.trim();
        if let Some(header) = trimmed.strip_prefix("[[").and_then(|rest| rest.split_once("]]")) {
            let name = header.0.trim();
            headers.push(name);
            let count = headers.iter().filter(|own| **own == name).count();
            table = format!("{name} {count}");
            key = None;
        } else if let Some(header) = trimmed.strip_prefix('[').and_then(|rest| rest.split_once(']')) {
            // A line of a list of several lines looks like one.
            if header.1.trim().is_empty() || header.1.trim().starts_with('#') {
                table = header.0.trim().to_owned();
                key = None;
            }
        } else if let Some(own) = key_in(text) {
            key = Some(own);
        } else if number == line && trimmed.is_empty() {
            key = None;
        }
    }
    let key = known.or(key);
    match (table.as_str(), key) {
        ("", key) => key.unwrap_or_default().to_owned(),
        (table, None) => table.to_owned(),
        (table, Some(key)) => format!("{table}.{key}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn keys_have_the_names_of_their_tables() {
        let text = "a = 1\n[labels]\nx = 'y'\n\n[[rules]]\nregex = 'a'\n[[rules]]\nregex = 'b'\nlist = [\n  'x',\n]\n";
        let key = |line| key_of_line(text, line, None);
        assert_eq!(key(0), "a");
        assert_eq!(key(1), "labels");
        assert_eq!(key(2), "labels.x");
        assert_eq!(key(5), "rules 1.regex");
        assert_eq!(key(7), "rules 2.regex");
        assert_eq!(key(9), "rules 2.list");
        assert_eq!(line_of_key(text, text.find("[[rules]]\nregex = 'b'").unwrap(), "regex"), Some(7));
        assert_eq!(line_of_key(text, 0, "x"), None);
    }

    proptest! {
        #[test]
        fn any_text_has_lines(text in "[\\[\\]=a\\n #\"]{0,80}", at in 0usize..100) {
            let refusal = ConfigRefusal { span: Some(at..at), key: Some("a"), why: "x".to_owned() };
            prop_assert!(refusal.failure("f", &text).to_string().starts_with("`f` line "));
        }
    }
}
