//! What the colours and marks of the open view mean, for the help.

use super::theme::Theme;
use crate::diff::Tone;
use crate::profile::Reason;
use crate::report::LabelKind;
use crate::tui::app::action::Tab;
use crate::tui::app::context::Context;
use ratatui::style::Style;

/// The kinds of boxes, each with a colour of its own.
const KINDS: [LabelKind; 9] = [
    LabelKind::Program,
    LabelKind::Library,
    LabelKind::Kernel,
    LabelKind::Jit,
    LabelKind::Wait(Reason::Lock),
    LabelKind::Wait(Reason::Disk),
    LabelKind::Wait(Reason::NoCpu),
    LabelKind::Wait(Reason::Sleep),
    LabelKind::Task,
];

/// The kinds of boxes that are paler where nothing but waits is below them.
const PALER: [LabelKind; 4] = [LabelKind::Program, LabelKind::Library, LabelKind::Kernel, LabelKind::Jit];

/// The colours of boxes in a comparison.
const TONES: [(Tone, &str); 8] = [
    (Tone::MuchMore, "twice or more"),
    (Tone::More, "a quarter more"),
    (Tone::LittleMore, "a little more"),
    (Tone::Noise, "noise or small"),
    (Tone::LittleLess, "a little less"),
    (Tone::Less, "a fifth less"),
    (Tone::MuchLess, "half or less"),
    (Tone::New, "new"),
];

/// The colours of text about a change.
const CHANGES: [(Tone, &str); 4] =
    [(Tone::More, "more"), (Tone::Less, "less"), (Tone::New, "new"), (Tone::Noise, "noise or small")];

/// Words about colours, each in the one that it is about, and their heading.
pub(super) type ColourRow = (&'static str, Vec<(&'static str, Style)>);

/// Whether the view draws boxes in the colours of their kinds.
fn has_boxes(context: &Context) -> bool {
    matches!(context.tab, Tab::Flame | Tab::Callers)
}

/// The colours of the open view: in a comparison those of the changes, else those of the kinds of boxes.
pub(super) fn colours(context: &Context, theme: &Theme) -> Vec<ColourRow> {
    let (has_boxes, is_compared) = (has_boxes(context), context.query.base.is_some());
    let mut colours: Vec<(&'static str, Style)> = match (has_boxes, is_compared) {
        (true, true) => TONES.map(|(tone, word)| (word, theme.tone(tone))).to_vec(),
        (true, false) => KINDS.map(|kind| (kind.word(), theme.kind(kind, false, ""))).to_vec(),
        (false, true) => CHANGES.map(|(tone, word)| (word, theme.changed(tone))).to_vec(),
        (false, false) => Vec::new(),
    };
    colours.push(("match", theme.matched(Style::new())));
    let mut rows = vec![("colours", colours)];
    let has_waits = context.picture.as_ref().is_some_and(|picture| picture.event.has_waits);
    if has_boxes && has_waits && !is_compared {
        let mut paler = PALER.map(|kind| (kind.word(), theme.kind(kind, true, ""))).to_vec();
        paler.push(("lead to nothing but waits", Style::new()));
        rows.push(("paler", paler));
    }
    rows
}

/// The marks of the open view, each with its meaning.
pub(super) fn marks(context: &Context, theme: &Theme) -> Vec<String> {
    let glyphs = theme.glyphs;
    let cut = format!("{} = cut", glyphs.ellipsis);
    let threads = format!("{}N = N threads", glyphs.times);
    let numbers = [
        format!("{}N = 95% error, in points", glyphs.plus_minus),
        "in N places = N boxes in Flame".to_owned(),
    ];
    let mut marks: Vec<String> = Vec::new();
    if has_boxes(context) {
        let of_boxes = ["blank below a box = its own time", "[k] = kernel", "[i] = inlined"];
        marks.extend(of_boxes.map(str::to_owned));
        marks.push(format!("{cut}, or calls too narrow to draw"));
        marks.extend(context.query.base.as_ref().map(|_| "+N% = change of the box".to_owned()));
    }
    match context.tab {
        Tab::Flame => {
            marks.push(threads);
            marks.extend(numbers);
        }
        Tab::Callers => marks.extend(numbers),
        Tab::Top => {
            marks.push(cut);
            marks.extend(numbers);
        }
        Tab::Time => marks.extend([cut, threads, "[k] = kernel".to_owned(), "[i] = inlined".to_owned()]),
        Tab::Threads => marks.extend([cut, threads]),
        Tab::Source => marks.push(format!("{cut}, or lines left out")),
    }
    marks
}
