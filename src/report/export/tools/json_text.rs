//! Pieces of JSON, written one by one.

use crate::base::safe_text;
use std::io::{self, Write};

/// `text` as a JSON string with quotes. Characters that terminals and editors interpret are escaped, and so is the end
/// of an HTML element, in case the JSON is embedded in a page.
pub(super) fn string(text: &str) -> String {
    // Serializing a string never fails.
    let quoted = serde_json::to_string(text).unwrap_or_else(|_| "\"\"".to_owned());
    safe_text::json(&quoted).replace("</", "<\\/")
}

/// Writes `items` as an array, each by `write`.
///
/// # Errors
///
/// Returns the errors of `out`.
pub(super) fn array<T>(
    out: &mut dyn Write,
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(&mut dyn Write, T) -> io::Result<()>,
) -> io::Result<()> {
    out.write_all(b"[")?;
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            out.write_all(b",")?;
        }
        write(out, item)?;
    }
    out.write_all(b"]")
}

/// Writes integers as an array.
///
/// # Errors
///
/// Returns the errors of `out`.
pub(super) fn numbers(out: &mut dyn Write, items: impl IntoIterator<Item = u32>) -> io::Result<()> {
    let mut text = Vec::new();
    array_of(out, items, |number, text| push_number(text, u64::from(number)), &mut text)
}

/// Writes an array whose items `push` puts into a buffer.
///
/// # Errors
///
/// Returns the errors of `out`.
pub(super) fn array_of<T>(
    out: &mut dyn Write,
    items: impl IntoIterator<Item = T>,
    mut push: impl FnMut(T, &mut Vec<u8>),
    buffer: &mut Vec<u8>,
) -> io::Result<()> {
    buffer.clear();
    buffer.push(b'[');
    for (index, item) in items.into_iter().enumerate() {
        if index > 0 {
            buffer.push(b',');
        }
        push(item, buffer);
        if buffer.len() > FLUSH_BYTES {
            out.write_all(buffer)?;
            buffer.clear();
        }
    }
    buffer.push(b']');
    out.write_all(buffer)
}

/// Size of the buffer before it is written, bytes.
const FLUSH_BYTES: usize = 64 << 10;

/// Appends an integer.
pub(super) fn push_number(text: &mut Vec<u8>, mut number: u64) {
    let mut digits = [0u8; 20];
    let mut at = digits.len();
    loop {
        at -= 1;
        // A digit is less than ten.
        digits[at] = b'0' + (number % 10) as u8;
        number /= 10;
        if number == 0 {
            break;
        }
    }
    text.extend_from_slice(&digits[at..]);
}

/// Appends nanoseconds as exact milliseconds: `1.001001`.
pub(super) fn push_ms(text: &mut Vec<u8>, ns: u64) {
    push_number(text, ns / 1_000_000);
    let part = ns % 1_000_000;
    if part > 0 {
        text.push(b'.');
        let digits = format!("{part:06}");
        text.extend_from_slice(digits.trim_end_matches('0').as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_written_without_rounding() {
        let text = |push: fn(&mut Vec<u8>, u64), number| {
            let mut text = Vec::new();
            push(&mut text, number);
            String::from_utf8(text).unwrap()
        };
        assert_eq!(text(push_number, 0), "0");
        assert_eq!(text(push_number, u64::MAX), u64::MAX.to_string());
        assert_eq!(text(push_ms, 1_001_001), "1.001001");
        assert_eq!(text(push_ms, 2_500_000), "2.5");
        assert_eq!(text(push_ms, 3_000_000), "3");
        assert_eq!(text(push_ms, 7), "0.000007");
    }

    #[test]
    fn strings_cannot_end_anything() {
        let hostile = "a\"\\</script>\n\u{202e}\u{0}";
        let text = string(hostile);
        assert_eq!(serde_json::from_str::<String>(&text).unwrap(), hostile);
        assert!(!text.contains("</") && text.is_ascii(), "{text}");
    }
}
