//! Additions to inferno's SVG: a document title, roles, colours for dark mode, and a script that keeps the controls on
//! the screen and searches without a dialog. inferno's own script is unchanged; ours comes after it.

use crate::base::units;

/// Appended to the style sheet.
const STYLE: &str = include_str!("dress.css");

/// Appended after the frames.
const SCRIPT: &str = include_str!("dress.js");

/// The SVG with all additions. `title` is the document title, safe to show; weights are ns with `has_durations`.
pub(super) fn dressed(svg: &str, title: &str, has_durations: bool) -> String {
    let svg = without_document_type(svg);
    let svg = if has_durations { with_durations(&svg) } else { svg };
    let Some(root) = svg.find("<svg") else { return svg };
    let Some(open) = svg[root..].find('>').map(|length| root + length) else { return svg };
    let (Some(style), Some(end)) = (svg.find("</style>"), svg.rfind("</svg>")) else { return svg };
    let title = quick_escape(title);
    let mut out = String::with_capacity(svg.len() + STYLE.len() + SCRIPT.len() + 512);
    out.push_str(&svg[..open]);
    out.push_str(" role=\"graphics-document document\" aria-labelledby=\"document-title\" lang=\"en\">");
    out.push_str(&format!("<title id=\"document-title\">{title}</title>"));
    out.push_str(&svg[open + 1..style]);
    out.push_str(STYLE);
    out.push_str(&svg[style..end]);
    out.push_str("<script type=\"text/ecmascript\"><![CDATA[\n");
    out.push_str(SCRIPT);
    out.push_str("]]></script>");
    out.push_str(&svg[end..]);
    out
}

/// Escapes `text` for XML text.
fn quick_escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;")
}

fn without_document_type(svg: &str) -> String {
    const START: &str = "<!DOCTYPE";
    let Some(start) = svg.find(START) else { return svg.to_owned() };
    let Some(length) = svg[start..].find('>') else { return svg.to_owned() };
    format!("{}{}", &svg[..start], svg[start + length + 1..].trim_start())
}

/// Turns the weight in every tooltip, `NAME (1,234,567,890 ns, 12.3%)`, into a duration. Names are escaped and come
/// first, so the last parenthesis of a tooltip is always inferno's own.
fn with_durations(svg: &str) -> String {
    const OPEN: &str = "<title>";
    const CLOSE: &str = "</title>";
    let mut out = String::with_capacity(svg.len());
    let mut rest = svg;
    while let Some(start) = rest.find(OPEN) {
        let (before, tip) = rest.split_at(start + OPEN.len());
        out.push_str(before);
        let Some(end) = tip.find(CLOSE) else {
            rest = tip;
            break;
        };
        out.push_str(&duration_tip(&tip[..end]).unwrap_or_else(|| tip[..end].to_owned()));
        rest = &tip[end..];
    }
    out.push_str(rest);
    out
}

fn duration_tip(tip: &str) -> Option<String> {
    let (name, facts) = tip.rsplit_once('(')?;
    let (number, share) = facts.split_once(" ns, ")?;
    let ns: u64 = number.replace(',', "").parse().ok()?;
    Some(format!("{name}({}, {share}", precise_duration(ns)))
}

/// Seconds with milliseconds; shorter durations in their own unit.
fn precise_duration(ns: u64) -> String {
    if ns < 1_000_000_000 {
        return units::duration(ns);
    }
    let ms = ns / 1_000_000 + u64::from(ns % 1_000_000 >= 500_000);
    format!("{}.{:03} s", units::count(ms / 1000), ms % 1000)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tool_tips_show_durations_and_keep_names() {
        let svg = "<title>f(int) (1 ns, x) (1,234,567,890 ns, 12.3%)</title><title>all (5 ns, 100%)</title>";
        assert_eq!(
            with_durations(svg),
            "<title>f(int) (1 ns, x) (1.235 s, 12.3%)</title><title>all (5 ns, 100%)</title>"
        );
    }

    #[test]
    fn durations_round_into_seconds() {
        assert_eq!(precise_duration(1_999_999_999), "2.000 s");
        assert_eq!(precise_duration(12_345_678), "12.3 ms");
        assert_eq!(precise_duration(3_600_000_000_000), "3,600.000 s");
    }
}
