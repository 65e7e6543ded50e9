//! The state of the interface. It changes in [`App::update`] and with each new picture, and nowhere else.

use super::action::{Effect, LiveStatus, Tab};
use super::query::Query;
use super::search::Search;
use crate::base::failure::Failure;
use crate::base::safe_text;
use crate::report::{FilterOptions, Label, NameStyle};
use crate::tui::compute::picture::Picture;
use crate::tui::compute::renaming;
use crate::tui::views::callers::CallersState;
use crate::tui::views::flame::FlameState;
use crate::tui::views::threads::ThreadsState;
use crate::tui::views::time::TimeState;
use crate::tui::views::top::TopState;
use crate::tui::views::{callers, threads, time, top};
use crate::tui::widgets::screen::Areas;
use ratatui::layout::{Rect, Size};
use std::sync::Arc;
use std::time::Duration;
use tui_input::Input;

/// What lies over the view until a key is pressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Overlay {
    /// The keys.
    Help,
    /// What is wrong with the recording.
    Notes,
}

/// What the last line asks for.
#[derive(Debug, Clone)]
pub enum Prompt {
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
pub enum Names {
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
pub struct Live {
    /// How it goes.
    pub status: LiveStatus,
    /// Pictures are held back.
    pub is_frozen: bool,
    /// How often there is a new picture.
    pub refresh: Duration,
    /// Why it is over.
    pub ended: Option<String>,
}

impl Live {
    /// The times between pictures that can be chosen.
    pub const REFRESHES: [Duration; 5] = [
        Duration::from_millis(250),
        Duration::from_millis(500),
        Duration::from_secs(1),
        Duration::from_secs(2),
        Duration::from_secs(5),
    ];
}

impl Default for Live {
    fn default() -> Self {
        Live { status: LiveStatus::default(), is_frozen: false, refresh: Duration::from_secs(1), ended: None }
    }
}

/// The whole state.
#[derive(Debug, Clone)]
pub struct App {
    /// What is asked for. The picture may still be of the query before.
    pub query: Query,
    /// The filters before each change, oldest first.
    pub undo: Vec<FilterOptions>,
    /// The last complete picture.
    pub picture: Option<Arc<Picture>>,
    /// Why there is none yet.
    pub problem: Option<Failure>,
    /// The open view.
    pub tab: Tab,
    /// What lies over it.
    pub overlay: Option<Overlay>,
    /// The first line of that on the screen.
    pub overlay_line: usize,
    /// What the last line asks for.
    pub prompt: Option<Prompt>,
    /// The search.
    pub search: Option<Search>,
    /// How names are written.
    pub names: Names,
    /// Something to tell, until the next key. Foreign text.
    pub toast: Option<String>,
    /// Size of the terminal.
    pub size: Size,
    /// The mouse is ours.
    pub has_mouse: bool,
    /// What happens is live.
    pub live: Option<Live>,
    /// State of the flame view.
    pub flame: FlameState,
    /// State of the table of functions.
    pub top: TopState,
    /// State of the view of callers and callees.
    pub callers: CallersState,
    /// State of the view of time.
    pub time: TimeState,
    /// State of the table of threads.
    pub threads: ThreadsState,
    /// The user wants out.
    pub is_done: bool,
    pub(crate) effects: Vec<Effect>,
}

impl App {
    /// The state at the start; the first picture is on its way.
    pub fn new(query: Query, size: Size) -> Self {
        let names = match query.common.names {
            Some(NameStyle::Full | NameStyle::Raw) => Names::Full,
            Some(NameStyle::Short) | None => Names::Short,
        };
        App {
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
            flame: FlameState::default(),
            top: TopState::default(),
            callers: CallersState::default(),
            time: TimeState::default(),
            threads: ThreadsState::default(),
            is_done: false,
            effects: Vec::new(),
        }
    }

    /// The parts of the screen; `None` when it is too small.
    pub fn areas(&self) -> Option<Areas> {
        Areas::of(Rect::new(0, 0, self.size.width, self.size.height))
    }

    /// Shows another picture, with the zoom and the selection where they were, by name.
    pub fn set_picture(&mut self, picture: Arc<Picture>) {
        renaming::follow(self, &picture);
        if self.picture.as_ref().is_some_and(|before| before.query.direction != picture.query.direction) {
            self.flame.turn_round(&picture);
        }
        if let Some(search) = &mut self.search {
            search.find(&picture);
        }
        if let Some(Prompt::Search { before: Some(before), .. }) = &mut self.prompt {
            before.find(&picture);
        }
        top::follow(self, &picture);
        threads::follow(self, &picture);
        time::follow(self, &picture);
        self.picture = Some(picture);
        self.problem = None;
        if self.tab == Tab::Callers && self.query.pivot.is_none() {
            callers::opened(self, Tab::Callers);
        }
        self.measure_search();
    }

    /// A query could not be answered: the picture stays, and so does its query.
    pub fn set_problem(&mut self, failure: &Failure) {
        self.toast = Some(failure.message.clone());
        match &self.picture {
            Some(picture) => self.query = picture.query.clone(),
            None => self.problem = Some(failure.clone()),
        }
    }

    /// What is to be done outside.
    pub fn take_effects(&mut self) -> Vec<Effect> {
        std::mem::take(&mut self.effects)
    }

    /// Changes the query; the picture follows.
    pub fn ask(&mut self, change: impl FnOnce(&mut Query)) {
        let before = self.query.clone();
        change(&mut self.query);
        if self.query != before {
            self.effects.push(Effect::Ask);
        }
    }

    /// Changes the filters, so that it can be undone.
    pub fn change_filter(&mut self, change: impl FnOnce(&mut FilterOptions)) {
        let before = self.query.common.filter.clone();
        self.ask(|query| change(&mut query.common.filter));
        if self.query.common.filter != before {
            self.undo.push(before);
        }
    }

    /// Looks up the share of the search again.
    pub fn measure_search(&mut self) {
        if let (Some(search), Some(picture)) = (&mut self.search, &self.picture) {
            let top = self.flame.zoom.find(picture);
            search.measure(picture, &top);
        }
    }

    /// Tells something until the next key.
    pub fn tell(&mut self, text: impl Into<String>) {
        self.toast = Some(text.into());
    }

    /// Whether a recording is going on.
    pub fn is_live(&self) -> bool {
        self.live.as_ref().is_some_and(|live| live.ended.is_none())
    }

    /// The name of `label` as it is shown now, safe for a terminal.
    pub fn name(&self, label: &Label) -> String {
        let style = match (self.query.common.names, self.names) {
            (Some(NameStyle::Raw), Names::Full | Names::WithModule) => NameStyle::Raw,
            (_, Names::Short) => NameStyle::Short,
            (_, Names::Full | Names::WithModule) => NameStyle::Full,
        };
        let name = safe_text::terminal(&label.text(style)).into_owned();
        if self.names == Names::WithModule && !label.module.is_empty() {
            let module = crate::report::module_stem(&label.module);
            return format!("{name} ({})", safe_text::terminal(module));
        }
        name
    }
}
