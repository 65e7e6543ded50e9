//! What the colours and marks of the open view mean, for the help.

use super::theme::{Glyphs, Theme};
use crate::diff::Tone;
use crate::profile::Reason;
use crate::report::LabelKind;
use crate::tui::app::context::Context;
use ratatui::style::Style;

/// The kinds of boxes, each with a colour of its own.
const KINDS: [LabelKind; 10] = [
    LabelKind::Program,
    LabelKind::Library,
    LabelKind::Kernel,
    LabelKind::Jit,
    LabelKind::Interpreted,
    LabelKind::Wait(Reason::Lock),
    LabelKind::Wait(Reason::Disk),
    LabelKind::Wait(Reason::NoCpu),
    LabelKind::Wait(Reason::Sleep),
    LabelKind::Task,
];

/// The kinds of boxes that are paler where nothing but waits is below them.
const PALER: [LabelKind; 5] =
    [LabelKind::Program, LabelKind::Library, LabelKind::Kernel, LabelKind::Jit, LabelKind::Interpreted];

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

/// Entries of the help that explain a view.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ViewHelp {
    /// Whether boxes are drawn, in the colours of their kinds.
    pub(crate) has_boxes: bool,
    /// Marks in the view.
    pub(crate) marks: &'static [Mark],
    /// Effects of the mouse in this view that other views lack.
    pub(crate) mouse: &'static [&'static str],
}

/// A mark that a view draws.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Mark {
    /// Text is cut.
    Cut,
    /// Text is cut, or boxes are too narrow to draw.
    CutOrNarrow,
    /// Text is cut, or lines are left out.
    CutOrLeftOut,
    /// A blank below a box.
    OwnTime,
    /// Code of the kernel.
    Kernel,
    /// An inlined function.
    Inlined,
    /// Change of a box, in comparisons.
    Change,
    /// Number of threads.
    Threads,
    /// Statistical error.
    Error,
    /// Number of boxes of a function.
    Places,
}

impl Mark {
    /// The mark and its meaning.
    fn words(self, glyphs: &Glyphs) -> String {
        let cut = glyphs.ellipsis;
        match self {
            Mark::Cut => format!("{cut} = cut"),
            Mark::CutOrNarrow => format!("{cut} = cut, or calls too narrow to draw"),
            Mark::CutOrLeftOut => format!("{cut} = cut, or lines left out"),
            Mark::OwnTime => "blank below a box = its own time".to_owned(),
            Mark::Kernel => "[k] = kernel".to_owned(),
            Mark::Inlined => "[i] = inlined".to_owned(),
            Mark::Change => "+N% = change of the box".to_owned(),
            Mark::Threads => format!("{}N = N threads", glyphs.times),
            Mark::Error => format!("{}N = 95% error, in points", glyphs.plus_minus),
            Mark::Places => "in N places = N boxes in Flame".to_owned(),
        }
    }
}

/// The colours of the open view: in a comparison those of the changes, else those of the kinds of boxes.
pub(super) fn colours(view: ViewHelp, context: &Context, theme: &Theme) -> Vec<ColourRow> {
    let (has_boxes, is_compared) = (view.has_boxes, context.query.base.is_some());
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
pub(super) fn marks(view: ViewHelp, context: &Context, theme: &Theme) -> Vec<String> {
    let is_compared = context.query.base.is_some();
    let marks = view.marks.iter().filter(|mark| is_compared || **mark != Mark::Change);
    marks.map(|mark| mark.words(&theme.glyphs)).collect()
}
