//! What all views share: what is asked for and shown, the search, how names are written, what is typed and said.

use super::action::{Effect, LiveStatus, Tab};
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

/// What lies over the view until a key is pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Overlay {
    /// The keys.
    Help,
    /// What is wrong with the recording.
    Notes,
}

/// What the last line asks for.
#[derive(Debug, Clone)]
pub(crate) enum Prompt {
    /// A search.
    Search {
        /// What is typed.
        input: Input,
        /// What is wrong with it.
        problem: Option<String>,
        /// The search before.
        before: Option<Box<Search>>,
    },
    /// The kind of file to write.
    Export,
}

/// How names are written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum NameDetail {
    /// The last two parts.
    #[default]
    Short,
    /// In full.
    Full,
    /// In full, with the module.
    WithModule,
}

/// A live recording, as far as the screen knows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LiveState {
    /// How it goes.
    pub(crate) status: LiveStatus,
    /// Pictures are held back.
    pub(crate) is_frozen: bool,
    /// How often there is a new picture.
    pub(crate) refresh: Duration,
    /// Why it is over.
    pub(crate) ended: Option<String>,
    /// Of pictures from before time began again, when they say that the recording began, CLOCK_MONOTONIC, ns.
    pub(crate) cleared_start_ns: Option<u64>,
}

impl LiveState {
    /// The times between pictures that can be chosen.
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

/// The shared state. A view changes it and its own state, and nothing else.
#[derive(Debug, Clone)]
pub(crate) struct Context {
    /// What is asked for. The picture may still be of the query before.
    pub query: Query,
    /// The filters before each change, oldest first.
    pub(crate) undo: Vec<FilterOptions>,
    /// The last complete picture.
    pub picture: Option<Arc<Picture>>,
    /// Why there is none yet.
    pub(crate) problem: Option<Failure>,
    /// The open view.
    pub(crate) tab: Tab,
    /// What lies over it.
    pub(crate) overlay: Option<Overlay>,
    /// The first line of that on the screen.
    pub(crate) overlay_line: usize,
    /// What the last line asks for.
    pub(crate) prompt: Option<Prompt>,
    /// The search.
    pub(crate) search: Option<Search>,
    /// How names are written.
    pub(crate) names: NameDetail,
    /// Something to tell, until the next key. Foreign text.
    pub(crate) toast: Option<String>,
    /// Size of the terminal.
    pub(crate) size: Size,
    /// The mouse is ours.
    pub(crate) has_mouse: bool,
    /// What happens is live.
    pub(crate) live: Option<LiveState>,
    /// The function whose callers a view has asked for.
    pub(crate) callers_of: Option<LabelKey>,
    /// The user wants out.
    pub(crate) is_done: bool,
    pub(crate) effects: Vec<Effect>,
}

impl Context {
    /// The state at the start; the first picture is on its way.
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
            names,
            toast: None,
            size,
            has_mouse: true,
            live: None,
            callers_of: None,
            is_done: false,
            effects: Vec::new(),
        }
    }

    /// The parts of the screen; `None` when it is too small.
    pub(crate) fn areas(&self) -> Option<Areas> {
        Areas::of(Rect::new(0, 0, self.size.width, self.size.height))
    }

    /// What is to be done outside.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Changes the query; the picture follows.
    pub(crate) fn ask(&mut self, change: impl FnOnce(&mut Query)) {
        let before = self.query.clone();
        change(&mut self.query);
        if self.query != before {
            self.effects.push(Effect::Ask);
        }
    }

    /// Changes the filters, so that it can be undone.
    pub(crate) fn change_filter(&mut self, change: impl FnOnce(&mut FilterOptions)) {
        let before = self.query.common.filter.clone();
        self.ask(|query| change(&mut query.common.filter));
        if self.query.common.filter != before {
            self.undo.push(before);
        }
    }

    /// Tells something until the next key.
    pub(crate) fn tell(&mut self, text: impl Into<String>) {
        self.toast = Some(text.into());
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

    /// Takes the chosen range of time back.
    pub(crate) fn clear_range(&mut self) {
        if self.query.common.filter.time.is_everything() {
            self.tell("no range is chosen: [ and ] choose one");
        }
        self.change_filter(|options| options.time = TimeRange::default());
    }
}
