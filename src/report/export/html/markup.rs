//! Parts of a page that work without scripts: facts, notes and the largest rows of the table, as HTML.

use super::data::PageData;
use super::tree::Occurrences;
use crate::base::units::{self, percent};
use std::fmt::Write;

/// Number of rows in the table without scripts.
const STATIC_ROWS: usize = 100;

/// Escapes `text`, which must be safe to show, for HTML text or an attribute in double quotes.
pub(super) fn text(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            c => out.push(c),
        }
    }
    out
}

/// Escapes a finished JSON document for a `script` element: nothing in it can end the element, begin a comment, or end
/// a line of script. The escaped characters occur only inside strings, so the document stays equivalent.
pub(super) fn inert_json(document: &str) -> String {
    let mut out = String::with_capacity(document.len() + document.len() / 32);
    for c in document.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => {
                let written = write!(out, "\\u{:04x}", u32::from(c));
                debug_assert!(written.is_ok(), "a String takes any text");
            }
            c => out.push(c),
        }
    }
    out
}

/// Header lines and notes of the first event.
pub(super) fn facts(data: &PageData) -> String {
    let Some(event) = data.events.first() else { return String::new() };
    let mut out = String::new();
    for line in &event.header {
        out.push_str(&format!("<p>{}</p>\n", text(line)));
    }
    for note in &event.notes {
        out.push_str(&format!("<p class=\"note\">{}</p>\n", text(note)));
    }
    out
}

/// The largest rows of the first event's table.
pub(super) fn table(data: &PageData) -> String {
    let Some(event) = data.events.first() else { return String::new() };
    let rows = &event.rows;
    let mut out = String::new();
    for row in 0..rows.label.len().min(STATIC_ROWS) {
        let (name, module) = data.labels.text(rows.label[row]);
        let count = match rows.n[row] {
            Occurrences::Whole(count) => count,
            Occurrences::Part(count) => count.round() as u64,
        };
        let cells = [
            units::percent_text(percent(rows.own[row], event.total)),
            format!("{:.1}", rows.error[row]),
            event.weight_text(rows.own[row]),
            units::percent_text(percent(rows.total[row], event.total)),
            event.weight_text(rows.total[row]),
            units::count(count),
        ];
        let numbers: String = cells.iter().map(|cell| format!("<td class=\"n\">{cell}</td>")).collect();
        let place = &rows.places[rows.place[row] as usize];
        let names = [name, module, place].map(|cell| format!("<td>{}</td>", text(cell))).concat();
        out.push_str(&format!("<tr>{numbers}{names}</tr>\n"));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_inside_a_script_element_does_not_end_it() {
        let document = serde_json::json!({ "name": "</script><!--<script>\u{2028}&lt;" }).to_string();
        let inert = inert_json(&document);
        assert!(!inert.contains(['<', '>', '&', '\u{2028}']), "{inert}");
        let back: serde_json::Value = serde_json::from_str(&inert).unwrap();
        assert_eq!(back["name"], "</script><!--<script>\u{2028}&lt;");
    }

    #[test]
    fn text_has_no_markup() {
        assert_eq!(text("a<b>&\"'"), "a&lt;b&gt;&amp;&quot;&#39;");
    }
}
