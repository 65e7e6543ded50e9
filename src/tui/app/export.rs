//! Exports from the screen: `x` writes what is shown, with the same filters as everywhere; `y` and `Y` copy names.

use super::action::Effect;
use super::query::Query;
use super::state::App;
use crate::base::safe_text;
use crate::base::units::counted;
use crate::report::{
    CommonOptions, ExportFormat, ExportJob, ExportShape, ReportView, Seen, ThreadSplit, TimeRange,
};
use crate::tui::compute::change::Change;
use crate::tui::compute::export::{ExportOf, ScreenExport, SidesExport};
use crate::tui::compute::picture::Picture;
use crate::tui::compute::sides::ChangeSides;
use std::path::PathBuf;
use std::sync::Arc;

/// Prefix of the names of written files.
pub(crate) const EXPORT_STEM: &str = "prof";

impl App {
    /// Writes what is shown to a new file.
    pub(crate) fn export(&mut self, shape: ExportShape) {
        let Some(picture) = self.context.picture.clone() else {
            return self.context.show_message("there is no picture yet");
        };
        let (job, what) = job(self, &picture, shape);
        self.context.effects.push(Effect::Export(Box::new(job), what));
        self.context.show_message("writing…");
    }

    /// Copies the selected name, or the `whole` stack.
    pub(crate) fn copy(&mut self, picture: &Picture, whole: bool) {
        let names = self.view(self.context.tab).copied(&self.context, picture);
        let names: Vec<String> = names.iter().map(|name| safe_text::terminal(name).into_owned()).collect();
        let Some(first) = names.first() else {
            let hint = self.view(self.context.tab).copy_hint();
            return self.context.show_message(hint);
        };
        let (text, what) = if whole {
            (names.join("\n"), counted(names.len() as u64, "frame"))
        } else {
            (first.clone(), "the name".to_owned())
        };
        self.context.effects.push(Effect::Copy(text));
        self.context.show_message(format!("copied {what}, if the terminal allows it (OSC 52)"));
    }
}

/// The file in this format of what the screen shows, and a description of its contents. In a comparison it is of both sides
/// where the format can hold them.
fn job(app: &App, picture: &Picture, shape: ExportShape) -> (ScreenExport, String) {
    let query = &picture.query;
    let sides = picture.change.as_ref().map(Change::sides);
    let mut common: CommonOptions =
        sides.map_or_else(|| query.options(picture.duration_ns), |sides| sides.shown().1.clone());
    let (view, what) = app.view(app.context.tab).exported(picture, &mut common, shape);
    let mut words = format!("{}{what}", shape_words(shape));
    let filter = &query.common.filter;
    let filters = filter.stacks.len() + filter.threads.len();
    if filters > 0 {
        words.push_str(&format!(", {}", counted(filters as u64, "filter")));
    }
    words.push_str(thread_words(query.threads()));
    let both = sides.filter(|_| SidesExport::is_of_both(shape));
    if !both.is_some_and(ChangeSides::is_of_ranges) {
        words.push_str(&time_words(common.filter.time, picture.duration_ns));
    }
    let of = match both {
        Some(sides) => {
            words.push_str(&format!(", base {} and new {}", sides.words(0), sides.words(1)));
            ExportOf::Sides(Box::new(of_both(sides, common, shape, &view, query)))
        }
        None => {
            // A format may hold more than one metric, unless one was asked for.
            common.metric = query.common.metric;
            words.push_str(sides.map_or("", |_| match query.shows_base {
                true => ", the base alone: B shows the new side",
                false => ", the new side alone: B shows the base",
            }));
            let job = ExportJob { common, shape, view, sort: query.sort };
            ExportOf::Recording(Box::new(job), Seen(Arc::clone(&picture.recording)))
        }
    };
    (ScreenExport { of, stem: PathBuf::from(EXPORT_STEM) }, words)
}

/// The file of both sides, with what a view shows of the side that is shown.
fn of_both(
    sides: &ChangeSides,
    common: CommonOptions,
    shape: ExportShape,
    view: &ReportView,
    query: &Query,
) -> SidesExport {
    let is_text = shape == ExportShape::Text;
    // Threads are in front of stacks, and of no paths in text.
    let common = CommonOptions { threads: common.threads.filter(|_| !is_text), ..common };
    let threads = (is_text && *view == ReportView::Threads).then(|| query.threads());
    SidesExport { sides: sides.narrowed(common), shape, sort: query.sort, threads }
}

/// Kind of a file in words, where its contents do not tell the kind.
fn shape_words(shape: ExportShape) -> &'static str {
    match shape {
        ExportShape::Format(format) if format == ExportFormat::SVG => "flame graph of ",
        ExportShape::Format(format) if format == ExportFormat::HTML => "page of ",
        ExportShape::Format(_) | ExportShape::Text => "",
    }
}

fn thread_words(split: ThreadSplit) -> &'static str {
    match split {
        ThreadSplit::Each => ", each thread",
        ThreadSplit::None => ", threads merged",
        ThreadSplit::Class | ThreadSplit::Name => "",
    }
}

fn time_words(range: TimeRange, duration_ns: u64) -> String {
    if range.is_everything() {
        return String::new();
    }
    let seconds = |ns: u64| format!("{:.3}", ns as f64 / 1e9);
    let from = seconds(range.from_ns.unwrap_or(0));
    let to = seconds(range.to_ns.unwrap_or(duration_ns).min(duration_ns));
    format!(", {from}-{to} s")
}
