//! A line of parts that are dropped by rank when there is too little room.

use super::theme::Theme;
use crate::base::safe_text;
use crate::base::units::{count, percent, percent_text};
use crate::report::{Amount, LabelKind};
use crate::tui::compute::picture::Picture;
use ratatui::text::{Line, Span};

/// The area below a view.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Below<'t> {
    /// Colours and characters.
    pub(crate) theme: &'t Theme,
    /// Width, columns.
    pub(crate) columns: usize,
    /// Height, lines.
    pub(crate) lines: usize,
}

/// Joins as many of `parts` as fit with `gap` and puts a space in front. Each part has a rank; the highest ranks are
/// dropped first, but rank 0 never is, so the line can still be too long.
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

/// The first of `texts` that fits, or else the last. They are in order of decreasing length.
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

/// A module and a source line, `file:line`, in this many columns. The source line is cut at its start; the module is
/// dropped if there is no room for the file name next to it. Both texts must be safe.
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

/// Least room for the word for a kind next to a place, columns.
const KIND_COLUMNS: usize = 24;

/// The word for the colour of a box, in that colour; in a comparison, whose colours are those of the change, without.
pub(crate) fn kind_word(
    picture: &Picture,
    theme: &Theme,
    kind: LabelKind,
    is_waiting: bool,
) -> Span<'static> {
    match picture.change {
        Some(_) => Span::raw(kind.word()),
        None => Span::styled(kind.word(), theme.kind(kind, is_waiting, "")),
    }
}

/// Adds the word for a kind to a line with room for it and for a place; returns the room that is left.
pub(crate) fn push_kind(line: &mut Vec<Span<'static>>, word: Span<'static>, room: usize) -> usize {
    if room <= KIND_COLUMNS {
        return room;
    }
    let left = room.saturating_sub(3 + word.width());
    line.extend([Span::raw("   "), word]);
    left
}

/// Self and total of a function, in a line with a space in front: on a narrow screen the error is dropped first, then
/// the times. `own` is `None` where self has no meaning.
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

/// A thread with its id, or several threads with their number after the sign `times`. The name is foreign text.
pub(crate) fn threads_words(name: &str, tid: Option<u32>, threads: u64, times: &str) -> String {
    let name = safe_text::terminal(name);
    let name = if name.is_empty() { safe_text::UNNAMED } else { &name };
    match (tid, threads) {
        (Some(tid), _) => format!("{name} {tid}"),
        (None, 2..) => format!("{name} {times}{}", count(threads)),
        _ => name.to_owned(),
    }
}

/// A line with `left` and `right` at its two ends.
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

    #[test]
    fn of_a_place_the_file_and_the_line_stay() {
        let theme = Theme::plain(false);
        let ascii = Theme::plain(true);
        let text = |columns| place_text(&theme, "libc.so.6", "./string/../sysdeps/memcmp.S:81", columns);
        assert_eq!(text(60), "libc.so.6   ./string/../sysdeps/memcmp.S:81");
        assert_eq!(text(30), "libc.so.6   …sdeps/memcmp.S:81");
        assert_eq!(text(20), "…sysdeps/memcmp.S:81");
        assert_eq!(text(8), "…mp.S:81");
        assert_eq!(place_text(&ascii, "", "./string/memcmp.S:81", 14), "../memcmp.S:81");
        assert_eq!(place_text(&theme, "[kernel]", "", 5), "[ker…");
    }
}
