//! A line of parts: what goes first when there is too little room.

use super::theme::Theme;
use crate::base::safe_text;
use crate::base::units::{count, percent, percent_text};
use crate::report::Amount;
use crate::tui::compute::picture::Picture;
use ratatui::text::{Line, Span};

/// The room below a view.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Below<'t> {
    /// How things look.
    pub(crate) theme: &'t Theme,
    /// Its width.
    pub(crate) columns: usize,
    /// Most lines.
    pub(crate) lines: usize,
}

/// As many of `parts` as fit, with `gap` between them and a space in front, the most important last to go: each has its
/// rank, 0 the most important. Of what is left, too much may stay.
pub(crate) fn fitting(parts: &[(u8, String)], gap: &str, columns: usize) -> String {
    let mut most = parts.iter().map(|(rank, _)| *rank).max().unwrap_or(0);
    loop {
        let kept: Vec<&str> = (parts.iter().filter(|(rank, text)| *rank <= most && !text.is_empty()))
            .map(|(_, text)| text.as_str())
            .collect();
        let line = format!(" {}", kept.join(gap));
        if safe_text::width(&line) <= columns || most == 0 {
            return line;
        }
        most -= 1;
    }
}

/// The first of `texts` that fits, else the last: the same in fewer and fewer words.
pub(crate) fn first_that_fits<const N: usize>(texts: [String; N], columns: usize) -> String {
    let mut best = String::new();
    for text in texts {
        best = text;
        if safe_text::width(&best) <= columns {
            break;
        }
    }
    best
}

/// A module and a place in a source, `file:line`, in this many columns. The end of the place stays; where there is no room for
/// its file the module goes. Both texts must be safe.
pub(crate) fn place_text(theme: &Theme, module: &str, source: &str, columns: usize) -> String {
    if source.is_empty() {
        return theme.fit(module, columns);
    }
    let file = source.rsplit('/').next().unwrap_or(source);
    let room = columns.saturating_sub(safe_text::width(module) + 3);
    if module.is_empty() || room < safe_text::width(file) {
        return theme.fit_end(source, columns);
    }
    format!("{module}   {}", theme.fit_end(source, room))
}

/// What a function has for itself and with all it calls, in a line with a space in front: on a narrow screen the error
/// goes first, then the times. `own` is nothing where it has no meaning.
pub(crate) fn self_and_total(
    picture: &Picture,
    theme: &Theme,
    own: Option<Amount>,
    total: u64,
    columns: usize,
) -> String {
    let share = |weight: u64| percent_text(percent(weight, picture.total.weight));
    let with_own = |text: &dyn Fn(Amount) -> String| own.map_or(String::new(), text);
    let time = |weight: u64| picture.weight_text(weight);
    let error = |own: Amount| format!("{}{:.1}", theme.glyphs.plus_minus, picture.error_points(own));
    let text = |own: String, total: String| format!(" {own}total {total}");
    first_that_fits(
        [
            text(
                with_own(&|own| format!("self {} {} {}   ", share(own.weight), error(own), time(own.weight))),
                format!("{} {}", share(total), time(total)),
            ),
            text(
                with_own(&|own| format!("self {} {}   ", share(own.weight), time(own.weight))),
                format!("{} {}", share(total), time(total)),
            ),
            text(with_own(&|own| format!("self {}   ", share(own.weight))), share(total)),
        ],
        columns,
    )
}

/// One thread, or several of one name with their number after the sign `times`. The name is foreign text.
pub(crate) fn threads_words(name: &str, tid: Option<u32>, threads: u64, times: &str) -> String {
    let name = safe_text::terminal(name);
    let name = if name.is_empty() { safe_text::UNNAMED } else { &name };
    match (tid, threads) {
        (Some(tid), _) => format!("{name} {tid}"),
        (None, 2..) => format!("{name} {times}{}", count(threads)),
        _ => name.to_owned(),
    }
}

/// `left` and `right` at the two ends of a line.
pub(crate) fn both_ends(left: Vec<Span<'static>>, right: Span<'static>, columns: usize) -> Line<'static> {
    let used: usize = left.iter().chain([&right]).map(Span::width).sum();
    let mut spans = left;
    spans.push(Span::raw(" ".repeat(columns.saturating_sub(used))));
    spans.push(right);
    Line::from(spans)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::widgets::theme::{ColorDepth, Glyphs};

    #[test]
    fn of_a_place_the_file_and_the_line_stay() {
        let theme = Theme { depth: ColorDepth::None, is_light: false, glyphs: Glyphs::UNICODE };
        let ascii = Theme { glyphs: Glyphs::ASCII, ..theme };
        let text = |columns| place_text(&theme, "libc.so.6", "./string/../sysdeps/memcmp.S:81", columns);
        assert_eq!(text(60), "libc.so.6   ./string/../sysdeps/memcmp.S:81");
        assert_eq!(text(30), "libc.so.6   …sdeps/memcmp.S:81");
        assert_eq!(text(20), "…sysdeps/memcmp.S:81");
        assert_eq!(text(8), "…mp.S:81");
        assert_eq!(place_text(&ascii, "", "./string/memcmp.S:81", 14), "../memcmp.S:81");
        assert_eq!(place_text(&theme, "[kernel]", "", 5), "[ker…");
    }
}
