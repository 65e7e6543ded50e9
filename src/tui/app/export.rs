//! Exports from the screen: `x` writes what is shown, with the same filters as everywhere; `y` and `Y` copy names.

use super::action::{Effect, Tab};
use super::state::App;
use crate::base::safe_text;
use crate::base::units::counted;
use crate::report::{CommonOptions, ExportJob, ExportShape, ThreadSplit};
use crate::tui::compute::picture::Picture;
use crate::tui::compute::seen::Seen;
use std::path::PathBuf;
use std::sync::Arc;

/// Prefix of the names of written files.
const STEM: &str = "prof";

impl App {
    /// Writes what is shown to a new file.
    pub(crate) fn export(&mut self, shape: ExportShape) {
        let Some(picture) = self.context.picture.clone() else {
            return self.context.tell("there is no picture yet");
        };
        let (job, what) = job(self, &picture, shape);
        let seen = Seen(Arc::clone(&picture.recording));
        self.context.effects.push(Effect::Export(Box::new(job), seen, what));
        self.context.tell("writing…");
    }

    /// Copies the selected name, or the `whole` stack.
    pub(crate) fn copy(&mut self, picture: &Picture, whole: bool) {
        let names = self.view(self.context.tab).copied(&self.context, picture);
        let names: Vec<String> = names.iter().map(|name| safe_text::terminal(name).into_owned()).collect();
        let Some(first) = names.first() else {
            return self.context.tell(match self.context.tab {
                Tab::Time => "Enter lists the samples: there y copies a name, Y a stack",
                _ => "select a function first",
            });
        };
        let (text, what) = if whole {
            (names.join("\n"), counted(names.len() as u64, "frame"))
        } else {
            (first.clone(), "the name".to_owned())
        };
        self.context.effects.push(Effect::Copy(text));
        self.context.tell(format!("copied {what}, if the terminal allows it (OSC 52)"));
    }
}

/// Export job that writes what the screen shows in this format, and a description of its contents.
pub(crate) fn job(app: &App, picture: &Picture, shape: ExportShape) -> (ExportJob, String) {
    let mut common: CommonOptions = picture.query.options(picture.duration_ns);
    let (view, what) = app.view(app.context.tab).exported(picture, &mut common);
    let mut words = what;
    let filter = &picture.query.common.filter;
    let filters = filter.stacks.len() + filter.threads.len();
    if filters > 0 {
        words.push_str(&format!(", {}", counted(filters as u64, "filter")));
    }
    words.push_str(match picture.query.threads() {
        ThreadSplit::Each => ", each thread",
        ThreadSplit::None => ", threads merged",
        ThreadSplit::Class | ThreadSplit::Name => "",
    });
    let range = common.filter.time;
    if !range.is_everything() {
        let seconds = |ns: u64| format!("{:.3}", ns as f64 / 1e9);
        let from = seconds(range.from_ns.unwrap_or(0));
        let to = seconds(range.to_ns.unwrap_or(picture.duration_ns).min(picture.duration_ns));
        words.push_str(&format!(", {from}-{to} s"));
    }
    (ExportJob { common, shape, view, sort: picture.query.sort, stem: PathBuf::from(STEM) }, words)
}
