//! State shared by all views: the query and its picture, the search, how names are written, the prompt and messages.

use super::action::{Effect, LiveStatus, Tab};
use super::diff_base::{DiffBase, range_words};
use super::query::Query;
use super::search::Search;
use crate::base::failure::Failure;
use crate::base::safe_text;
use crate::report::{FilterOptions, Label, LabelKey, NameStyle, TimeRange};
use crate::tui::compute::picture::Picture;
use crate::tui::widgets::areas::Areas;
use ratatui::layout::{Rect, Size};
use std::sync::Arc;
use std::time::Duration;
use tui_input::Input;

/// An overlay over the view, shown until a key closes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overlay {
    /// The key bindings.
    Help,
    /// Notes on what is wrong with the recording.
    Notes,
}

/// Content of a list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ListOf {
    /// The actions that apply.
    Actions,
    /// Marked places, and searches.
    Places,
}

/// The name of a marked place.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PlaceName {
    /// Name as it was typed. Foreign text.
    pub(crate) name: String,
    /// The open view.
    pub(crate) tab: Tab,
}

/// A prompt in the last line.
#[derive(Debug, Clone)]
pub(crate) enum Prompt {
    /// A search.
    Search {
        /// Text typed so far.
        input: Input,
        /// Why the text is not a valid pattern.
        problem: Option<String>,
        /// The search before this one, which an empty text brings back.
        before: Option<Box<Search>>,
    },
    /// Asks for the format of the file to write.
    Export,
    /// A list that is chosen from by typing.
    List {
        /// Content of the list.
        list: ListOf,
        /// Text typed so far.
        input: Input,
        /// The selected row of those that have the text.
        cursor: usize,
    },
    /// The name of a place to mark.
    PlaceName {
        /// Text typed so far.
        input: Input,
    },
}

/// Style of names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum NameDetail {
    /// The last two parts of a name.
    #[default]
    Short,
    /// In full.
    Full,
    /// In full, with the module.
    WithModule,
}

/// The answer to keys that need a picture.
pub(crate) const NO_PICTURE: &str = "there is no picture yet";
/// Time for which the answer to a key stays over new live pictures, of which it says nothing, ns.
const ANSWER_NS: u64 = 4_000_000_000;

/// State of a live recording as the screen shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LiveState {
    /// Progress of the recording.
    pub(crate) status: LiveStatus,
    /// Whether newer pictures are held back.
    pub(crate) is_frozen: bool,
    /// Interval between pictures.
    pub(crate) refresh: Duration,
    /// Why the recording ended; `None` while it goes on.
    pub(crate) ended: Option<String>,
    /// Start of the recording (CLOCK_MONOTONIC, ns) in pictures from before it was cleared, to tell them
    /// apart.
    pub(crate) cleared_start_ns: Option<u64>,
}

impl LiveState {
    /// Refresh intervals to choose from.
    pub(crate) const REFRESHES: [Duration; 5] = [
        Duration::from_millis(250),
        Duration::from_millis(500),
        Duration::from_secs(1),
        Duration::from_secs(2),
        Duration::from_secs(5),
    ];
}

impl Default for LiveState {
    fn default() -> Self {
        LiveState {
            status: LiveStatus::default(),
            is_frozen: false,
            refresh: Duration::from_secs(1),
            ended: None,
            cleared_start_ns: None,
        }
    }
}

/// The shared state. A view changes only this and its own state.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    /// The current query. The picture may still be that of the previous query.
    pub query: Query,
    /// Filters before each change, oldest first.
    pub(crate) undo: Vec<FilterOptions>,
    /// The last complete picture.
    pub picture: Option<Arc<Picture>>,
    /// Why there is no picture yet.
    pub(crate) problem: Option<Failure>,
    /// The open view.
    pub(crate) tab: Tab,
    /// The overlay over the view.
    pub(crate) overlay: Option<Overlay>,
    /// First line of the overlay on the screen.
    pub(crate) overlay_line: usize,
    /// The prompt in the last line.
    pub(crate) prompt: Option<Prompt>,
    /// The search.
    pub(crate) search: Option<Search>,
    /// Texts that were searched, the latest last.
    pub(crate) searches: Vec<String>,
    /// The names of the marked places, the latest last: [`super::state::App::places`] has what was seen there.
    pub(crate) places: Vec<PlaceName>,
    /// Style of names.
    pub(crate) names: NameDetail,
    /// A message shown until the next key. Foreign text.
    pub(crate) toast: Option<String>,
    /// End of the picture over which the toast was the answer to a key, in time of the recording, ns.
    toast_at_ns: Option<u64>,
    /// Message that the recorder sent by itself, shown where there is no toast, until the next key. Foreign text.
    pub(crate) notice: Option<String>,
    /// Size of the terminal.
    pub(crate) size: Size,
    /// The screen is drawn in ASCII.
    pub(crate) is_ascii: bool,
    /// The mouse is ours.
    pub(crate) has_mouse: bool,
    /// Set when the recording is live.
    pub(crate) live: Option<LiveState>,
    /// A function that a view has asked to show the callers of.
    pub(crate) callers_of: Option<LabelKey>,
    /// A view that another one has asked to open.
    pub(crate) opens: Option<Tab>,
    /// Set once the user quits.
    pub(crate) is_done: bool,
    pub(crate) effects: Vec<Effect>,
}

impl Context {
    /// Initial state, before the first picture.
    pub(crate) fn new(query: Query, size: Size) -> Self {
        let names = match query.common.names {
            Some(NameStyle::Full | NameStyle::Raw) => NameDetail::Full,
            Some(NameStyle::Short) | None => NameDetail::Short,
        };
        Context {
            query,
            undo: Vec::new(),
            picture: None,
            problem: None,
            tab: Tab::default(),
            overlay: None,
            overlay_line: 0,
            prompt: None,
            search: None,
            searches: Vec::new(),
            places: Vec::new(),
            names,
            toast: None,
            toast_at_ns: None,
            notice: None,
            size,
            is_ascii: false,
            has_mouse: true,
            live: None,
            callers_of: None,
            opens: None,
            is_done: false,
            effects: Vec::new(),
        }
    }

    /// The areas of the screen; `None` when it is too small.
    pub(crate) fn areas(&self) -> Option<Areas> {
        Areas::of(Rect::new(0, 0, self.size.width, self.size.height))
    }

    /// Takes the side effects to carry out.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Changes the query; a changed query requests a picture.
    pub(crate) fn ask(&mut self, change: impl FnOnce(&mut Query)) {
        let before = self.query.clone();
        change(&mut self.query);
        if self.query != before {
            self.effects.push(Effect::Ask);
        }
    }

    /// Changes the filters and remembers the previous ones for undo.
    pub(crate) fn change_filter(&mut self, change: impl FnOnce(&mut FilterOptions)) {
        let before = self.query.common.filter.clone();
        self.ask(|query| change(&mut query.common.filter));
        if self.query.common.filter != before {
            self.undo.push(before);
        }
    }

    /// Shows a message until the next key.
    pub(crate) fn show_message(&mut self, text: impl Into<String>) {
        self.toast = Some(text.into());
        self.toast_at_ns = None;
    }

    /// Remembers over which live picture the message was shown as the answer to a key.
    pub(super) fn date_message(&mut self) {
        let picture = self.picture.as_ref().filter(|_| self.live.is_some());
        self.toast_at_ns = picture.map(|picture| picture.recording.profile.duration_ns());
    }

    /// Takes away the answer to a key of which `picture`, a new one, makes old news.
    pub(super) fn outdate_message(&mut self, picture: &Picture) {
        let now_ns = picture.recording.profile.duration_ns();
        let is_old = self.toast_at_ns.is_some_and(|at_ns| now_ns >= at_ns.saturating_add(ANSWER_NS));
        if is_old || self.toast.as_deref() == Some(NO_PICTURE) {
            self.toast = None;
        }
    }

    /// Takes away what the last key was answered, or a notice of the recorder that was on the screen.
    pub(crate) fn take_message_away(&mut self) {
        if self.toast.take().is_none() {
            self.notice = None;
        }
    }

    /// The views that there are: that of locks only where waits say for which they were.
    pub(crate) fn tabs(&self) -> Vec<Tab> {
        let has_locks = self.picture.as_ref().is_some_and(|picture| picture.has_locks);
        let is_there = |tab: &Tab| *tab != Tab::Locks || has_locks || self.tab == Tab::Locks;
        Tab::ALL.iter().copied().filter(is_there).collect()
    }

    /// Whether a recording is going on.
    pub(crate) fn is_live(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.ended.is_none())
    }

    /// The name of `label` as it is shown now, safe for a terminal.
    pub(crate) fn name(&self, label: &Label) -> String {
        let style = match (self.query.common.names, self.names) {
            (Some(NameStyle::Raw), NameDetail::Full | NameDetail::WithModule) => NameStyle::Raw,
            (_, NameDetail::Short) => NameStyle::Short,
            (_, NameDetail::Full | NameDetail::WithModule) => NameStyle::Full,
        };
        let name = safe_text::terminal(&label.text(style)).into_owned();
        if self.names == NameDetail::WithModule && !label.module.is_empty() {
            let module = crate::report::module_stem(&label.module);
            return format!("{name} ({})", safe_text::terminal(module));
        }
        name
    }

    /// Makes the chosen range of time the base of a comparison; without one, ends the comparison with a range.
    pub(super) fn set_base(&mut self) {
        let range = self.query.common.filter.time;
        match &self.query.base {
            Some(DiffBase::Recording(_, file)) => {
                self.show_message(format!(
                    "the base is {}: B shows that side",
                    crate::report::module_file(file)
                ));
            }
            Some(DiffBase::Range(_)) if range.is_everything() => self.take_base_off(),
            None if range.is_everything() => {
                self.show_message("choose a range of time first: [ and ] in 4 Time");
            }
            Some(DiffBase::Range(_)) | None => {
                self.change_filter(|options| options.time = TimeRange::default());
                self.ask(|query| query.base = Some(DiffBase::Range(range)));
                let words = range_words(range);
                self.show_message(format!(
                    "{words} is the base, and all of the recording the new side; [ ] choose a part of it"
                ));
            }
        }
    }

    /// Ends the comparison.
    pub(super) fn take_base_off(&mut self) {
        self.ask(|query| (query.base, query.shows_base) = (None, false));
    }

    /// Shows the base, or the new side again.
    pub(super) fn turn_sides(&mut self) {
        self.ask(|query| query.shows_base = !query.shows_base);
        self.show_message(match self.query.shows_base {
            true => "as wide as in the base, with what is gone; B shows the new side",
            false => "as wide as on the new side",
        });
    }

    /// Clears the selected time range.
    pub(crate) fn clear_range(&mut self) {
        if self.query.common.filter.time.is_everything() {
            self.show_message("no range is chosen: [ and ] choose one");
        }
        self.change_filter(|options| options.time = TimeRange::default());
    }
}
