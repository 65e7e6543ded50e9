//! What leaves the screen: what `x` writes is what is shown, by the same filters as everywhere; `y` and `Y` copy names.

use super::action::{Effect, Seen, Tab};
use super::query::keep_threads;
use super::state::App;
use crate::base::safe_text;
use crate::base::units::{counted, honest_percent_text, percent};
use crate::report::{
    BoxOf, CommonOptions, Direction, ExportJob, ExportShape, LabelKind, PathStep, StackFilter, View, short,
};
use crate::tui::compute::picture::{Picture, samples_options};
use crate::tui::views::time;
use crate::tui::views::time::Panel;
use std::path::PathBuf;
use std::sync::Arc;

/// How the names of written files begin.
const STEM: &str = "prof";

impl App {
    /// Writes what is shown to a new file.
    pub(crate) fn export(&mut self, shape: ExportShape) {
        let Some(picture) = self.picture.clone() else { return self.tell("there is no picture yet") };
        let (job, what) = job(self, &picture, shape);
        let seen = Seen(Arc::clone(&picture.recording));
        self.effects.push(Effect::Export(Box::new(job), seen, what));
        self.tell("writing…");
    }

    /// Copies the selected name, or the `whole` stack.
    pub(crate) fn copy(&mut self, picture: &Picture, whole: bool) {
        let names: Vec<String> = match self.tab {
            Tab::Time => time::selected_names(self, picture),
            _ => {
                let selected = self.selected();
                selected.iter().rev().map(|id| picture.labels.get(*id).name.clone()).collect()
            }
        };
        let names: Vec<String> = names.iter().map(|name| safe_text::terminal(name).into_owned()).collect();
        let Some(first) = names.first() else {
            return self.tell(match self.tab {
                Tab::Time => "Enter lists the samples: there y copies a name, Y a stack",
                _ => "select a function first",
            });
        };
        let (text, what) = if whole {
            (names.join("\n"), counted(names.len() as u64, "frame"))
        } else {
            (first.clone(), "the name".to_owned())
        };
        self.effects.push(Effect::Copy(text));
        self.tell(format!("copied {what}, if the terminal allows it (OSC 52)"));
    }
}

/// The file of this shape that holds what the screen shows, and what that is, in words.
pub(crate) fn job(app: &App, picture: &Picture, shape: ExportShape) -> (ExportJob, String) {
    let each_thread = picture.query.each_thread;
    let mut common = CommonOptions { each_thread, ..picture.query.options(picture.duration_ns) };
    let (view, what) = match app.tab {
        Tab::Flame => flame(app, picture, &mut common),
        Tab::Top => (View::Flat, "all functions".to_owned()),
        Tab::Callers => callers(picture, &mut common),
        Tab::Time => time(app, picture, &mut common),
        Tab::Threads => (View::Threads, "all threads".to_owned()),
    };
    let mut words = what;
    let filter = &picture.query.common.filter;
    let filters = filter.stacks.len() + filter.threads.len();
    if filters > 0 {
        words.push_str(&format!(", {}", counted(filters as u64, "filter")));
    }
    if each_thread {
        words.push_str(", each thread for itself");
    }
    let range = common.filter.time;
    if !range.is_everything() {
        let seconds = |ns: u64| format!("{:.3}", ns as f64 / 1e9);
        let from = seconds(range.from_ns.unwrap_or(0));
        let to = seconds(range.to_ns.unwrap_or(picture.duration_ns).min(picture.duration_ns));
        words.push_str(&format!(", {from}-{to} s"));
    }
    (ExportJob { common, shape, view, sort: picture.query.sort, stem: PathBuf::from(STEM) }, words)
}

/// The boxes below the zoom.
fn flame(app: &App, picture: &Picture, common: &mut CommonOptions) -> (View, String) {
    let direction = picture.query.direction;
    let view = if direction == Direction::BottomUp { View::BottomUp } else { View::Tree };
    // As much of the zoom as there is in this picture.
    let top = app.flame.zoom.find(picture);
    let ids = match &top {
        BoxOf::All => return (view, "all stacks".to_owned()),
        BoxOf::Node(id) => vec![*id],
        BoxOf::Rest(ids) => ids.clone(),
    };
    // Threads stand in front of the stacks, or behind them where they are turned round: they are no part of a stack.
    let mut threads: Vec<&str> = Vec::new();
    let mut paths: Vec<Vec<PathStep>> = Vec::new();
    for id in &ids {
        let mut path: Vec<PathStep> = Vec::new();
        for node in picture.tree.path(*id) {
            let label = picture.labels.get(node.label);
            if label.kind == LabelKind::Task {
                threads.push(&label.name);
            } else {
                path.push(PathStep { label: label.key(), is_inlined: node.is_inlined });
            }
        }
        path.reverse();
        paths.push(path);
    }
    if !threads.is_empty() {
        keep_threads(&mut common.filter, &threads, picture.query.each_thread);
    }
    if paths.iter().all(|path| !path.is_empty()) {
        common.filter.stacks.push(match direction {
            Direction::TopDown => StackFilter::Under(paths),
            Direction::BottomUp => StackFilter::EndingIn(paths),
        });
    }
    let name = match ids[..] {
        [id] => short(&picture.labels.get(picture.tree.node(id).label).name),
        _ => counted(ids.len() as u64, "call"),
    };
    let share = honest_percent_text(percent(top.total(&picture.tree), picture.total.weight));
    (view, format!("the zoom on {}, {share}", safe_text::terminal(&name)))
}

/// The function in the middle, with its callers and callees.
fn callers(picture: &Picture, common: &mut CommonOptions) -> (View, String) {
    let Some(pivot) = &picture.pivot else { return (View::Flat, "all functions".to_owned()) };
    let label = picture.labels.get(pivot.sandwich.label);
    common.filter.stacks.push(StackFilter::Focus(label.key()));
    let name = safe_text::terminal(&short(&label.name)).into_owned();
    (View::Peek(format!("^{}$", regex::escape(&label.name))), format!("callers and callees of {name}"))
}

/// The samples that are listed, or everything in the chosen time.
fn time(app: &App, picture: &Picture, common: &mut CommonOptions) -> (View, String) {
    match &picture.query.behind {
        Some(asked) if app.time.panel != Panel::Map => {
            *common = samples_options(asked, common);
            let threads = asked
                .row
                .as_ref()
                .map_or("all threads".to_owned(), |row| safe_text::terminal(&row.thread).into_owned());
            (View::Flat, format!("the samples of {threads}"))
        }
        _ => (View::Flat, "all functions".to_owned()),
    }
}
