//! Key bindings: one table for the key handler, the help and the line of hints.

use super::action::{Action, Tab};
use super::context::{Context, Overlay, Prompt};
use crate::profile::ModuleKind;
use crate::report::ExportShape;
use crate::tui::views::tabs::with_views;
use crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};

/// A key with its modifiers.
pub(crate) type Chord = (KeyCode, KeyModifiers);

/// Condition under which an entry applies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum When {
    /// In every state of the program.
    Always,
    /// While a recording is going on.
    Live,
    /// During a live recording and after its end.
    Watched,
    /// The recording has more than one metric.
    Metrics,
    /// The picture is compared with a base.
    Compared,
    /// The recording has functions that an interpreter ran.
    Interpreted,
    /// The picture is of the heap.
    Heap,
    /// Waits say for which lock they were.
    Locks,
    /// No wait does.
    NoLocks,
}

/// A line of the help: keys that belong together, and what each does.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Heading in the help.
    pub(crate) group: &'static str,
    /// The keys, as the help shows them.
    pub(crate) keys: &'static str,
    /// Text on what the keys do.
    pub(crate) words: &'static str,
    /// The same in one word, for the line of hints; empty for no hint.
    pub(crate) hint: &'static str,
    /// Action of each key.
    pub(crate) bindings: &'static [(Chord, Action)],
    /// Views in which the keys apply.
    pub(crate) tabs: &'static [Tab],
    /// State in which the keys apply.
    pub(crate) when: When,
}

const fn key(c: char) -> Chord {
    (KeyCode::Char(c), KeyModifiers::NONE)
}

pub(crate) const fn ctrl(c: char) -> Chord {
    (KeyCode::Char(c), KeyModifiers::CONTROL)
}

const fn named(code: KeyCode) -> Chord {
    (code, KeyModifiers::NONE)
}

const ALL: &[Tab] = Tab::ALL;
/// Views in which functions can be selected.
const CODE: &[Tab] = &[Tab::Flame, Tab::Top, Tab::Callers];
/// Views in which a stack can be selected.
const COPIED: &[Tab] = &[Tab::Flame, Tab::Top, Tab::Callers, Tab::Time];
/// Views in which a name can be.
const NAMED: &[Tab] = &[Tab::Flame, Tab::Top, Tab::Callers, Tab::Time, Tab::Locks];
const FLAME: &[Tab] = &[Tab::Flame];
const TIME: &[Tab] = &[Tab::Time];
/// Views with a zoom or a range that can be reset.
const WHOLE: &[Tab] = &[Tab::Flame, Tab::Callers, Tab::Time];
/// Views with boxes side by side.
const BOXES: &[Tab] = &[Tab::Flame, Tab::Callers, Tab::Time];
const TABLES: &[Tab] = &[Tab::Top, Tab::Threads, Tab::Locks];
const LOCKS: &[Tab] = &[Tab::Locks];
const SOURCE: &[Tab] = &[Tab::Source];
const SORTED: &[Tab] = &[Tab::Flame, Tab::Top, Tab::Threads, Tab::Locks];

/// The keys that open views.
macro_rules! opening {
    ($($(#[$doc:meta])+ $tab:ident $digit:literal $field:ident: $state:ty,)+) => {
        &[
            (named(KeyCode::Tab), Action::NextTab),
            (named(KeyCode::BackTab), Action::PreviousTab),
            $((key($digit), Action::Open(Tab::$tab)),)+
        ]
    };
}

const fn entry(
    group: &'static str,
    keys: &'static str,
    words: &'static str,
    hint: &'static str,
    tabs: &'static [Tab],
    bindings: &'static [(Chord, Action)],
) -> Entry {
    Entry { group, keys, words, hint, bindings, tabs, when: When::Always }
}

const fn live(
    keys: &'static str,
    words: &'static str,
    hint: &'static str,
    bindings: &'static [(Chord, Action)],
) -> Entry {
    Entry { group: "live", keys, words, hint, bindings, tabs: ALL, when: When::Live }
}

/// All keys, in the order of the help; [`entries`] filters them by view and state.
pub(crate) const TABLE: &[Entry] = &[
    entry(
        "move",
        "arrows hjkl",
        "",
        "",
        BOXES,
        &[
            (named(KeyCode::Up), Action::Up),
            (key('k'), Action::Up),
            (named(KeyCode::Down), Action::Down),
            (key('j'), Action::Down),
            (named(KeyCode::Left), Action::Left),
            (key('h'), Action::Left),
            (named(KeyCode::Right), Action::Right),
            (key('l'), Action::Right),
        ],
    ),
    entry(
        "move",
        "up down jk",
        "",
        "",
        &[Tab::Top, Tab::Threads, Tab::Source, Tab::Locks],
        &[
            (named(KeyCode::Up), Action::Up),
            (key('k'), Action::Up),
            (named(KeyCode::Down), Action::Down),
            (key('j'), Action::Down),
        ],
    ),
    entry(
        "move",
        "PgUp PgDn",
        "",
        "",
        ALL,
        &[
            (named(KeyCode::PageUp), Action::PageUp),
            (named(KeyCode::PageDown), Action::PageDown),
            (ctrl('u'), Action::HalfUp),
            (ctrl('d'), Action::HalfDown),
        ],
    ),
    entry(
        "move",
        "g G",
        "ends",
        "",
        ALL,
        &[
            (key('g'), Action::First),
            (named(KeyCode::Home), Action::First),
            (key('G'), Action::Last),
            (named(KeyCode::End), Action::Last),
        ],
    ),
    Entry { when: When::NoLocks, ..entry("view", "Tab 1-6", "views", "views", ALL, with_views!(opening)) },
    Entry { when: When::Locks, ..entry("view", "Tab 1-7", "views", "views", ALL, with_views!(opening)) },
    entry("view", "a", "source", "source", CODE, &[(key('a'), Action::Annotate)]),
    entry("zoom", "Enter", "in", "zoom", FLAME, &[(named(KeyCode::Enter), Action::Enter)]),
    entry(
        "zoom",
        "Enter",
        "callers",
        "callers",
        &[Tab::Top, Tab::Callers],
        &[(named(KeyCode::Enter), Action::Enter)],
    ),
    entry("zoom", "Enter", "the samples", "samples", TIME, &[(named(KeyCode::Enter), Action::Enter)]),
    entry(
        "zoom",
        "Enter",
        "only this",
        "only this",
        &[Tab::Threads],
        &[(named(KeyCode::Enter), Action::Enter)],
    ),
    entry("zoom", "Enter", "the waits", "waits", LOCKS, &[(named(KeyCode::Enter), Action::Enter)]),
    entry("zoom", "Enter", "instructions", "code", SOURCE, &[(named(KeyCode::Enter), Action::Enter)]),
    entry(
        "zoom",
        "left right hl",
        "caller, callee",
        "",
        SOURCE,
        &[
            (named(KeyCode::Left), Action::Left),
            (key('h'), Action::Left),
            (named(KeyCode::Right), Action::Right),
            (key('l'), Action::Right),
        ],
    ),
    entry("zoom", "e", "edit", "edit", SOURCE, &[(key('e'), Action::OpenEditor)]),
    entry("zoom", "Esc", "back", "back", ALL, &[(named(KeyCode::Esc), Action::Back)]),
    entry("zoom", "0", "all", "", WHOLE, &[(key('0'), Action::Whole)]),
    entry(
        "time",
        "[ ]",
        "range",
        "range",
        TIME,
        &[(key('['), Action::RangeStart), (key(']'), Action::RangeEnd)],
    ),
    entry("time", "b", "range as base of a comparison", "base", TIME, &[(key('b'), Action::SetBase)]),
    entry("time", "H", "heat map", "heat map", TIME, &[(key('H'), Action::HeatMap)]),
    entry("find", "/", "search", "search", ALL, &[(key('/'), Action::Search)]),
    entry(
        "find",
        "n N",
        "next",
        "",
        ALL,
        &[(key('n'), Action::NextMatch), (key('N'), Action::PreviousMatch)],
    ),
    entry(
        "find",
        "*",
        "same name",
        "",
        CODE,
        &[(key('*'), Action::SearchSelected), (key('#'), Action::SearchSelected)],
    ),
    entry(
        "find",
        "& F",
        "keep stacks with matches",
        "",
        ALL,
        &[(key('&'), Action::KeepMatches), (key('F'), Action::KeepMatches)],
    ),
    entry(
        "find",
        "' \"",
        "places, mark one",
        "",
        ALL,
        &[(key('\''), Action::Places), (key('"'), Action::MarkPlace)],
    ),
    entry("filter", "f", "focus", "focus", CODE, &[(key('f'), Action::Focus)]),
    entry("filter", "d", "drop", "", CODE, &[(key('d'), Action::Drop)]),
    entry(
        "filter",
        "c C r",
        "collapse function, module, recursion",
        "",
        CODE,
        &[
            (key('c'), Action::CollapseFunction),
            (key('C'), Action::CollapseModule),
            (key('r'), Action::CollapseRecursion),
        ],
    ),
    entry(
        "filter",
        "u U",
        "undo one, all",
        "undo",
        ALL,
        &[(key('u'), Action::Undo), (key('U'), Action::UndoAll)],
    ),
    entry("show", "t", "trunk", "", FLAME, &[(key('t'), Action::Trunk)]),
    entry("show", "i", "invert", "invert", FLAME, &[(key('i'), Action::Invert)]),
    Entry {
        group: "show",
        keys: "m",
        words: "metric",
        hint: "metric",
        bindings: &[(key('m'), Action::NextMetric)],
        tabs: ALL,
        when: When::Metrics,
    },
    Entry {
        when: When::Heap,
        ..entry("show", "L", "live or allocated", "memory", ALL, &[(key('L'), Action::NextBlocks)])
    },
    entry("show", "L", "lock, waiter, holder", "rows", LOCKS, &[(key('L'), Action::NextRows)]),
    entry("show", "o", "idle", "", ALL, &[(key('o'), Action::Idle)]),
    Entry {
        when: When::Compared,
        ..entry("show", "B", "base or new side", "sides", ALL, &[(key('B'), Action::ShowBase)])
    },
    entry("show", "T", "threads", "threads", ALL, &[(key('T'), Action::SplitThreads)]),
    entry("show", "K", "kernel", "", ALL, &[(key('K'), Action::KernelFrames)]),
    entry("show", "I", "inlined", "", ALL, &[(key('I'), Action::InlinedFrames)]),
    Entry {
        when: When::Interpreted,
        ..entry("show", "R", "interpreter", "", ALL, &[(key('R'), Action::RuntimeFrames)])
    },
    entry("show", "v", "names", "", ALL, &[(key('v'), Action::Names)]),
    entry("show", "s", "sort", "sort", SORTED, &[(key('s'), Action::Sort)]),
    entry("show", "S", "reverse", "", TABLES, &[(key('S'), Action::ReverseSort)]),
    live("Spc", "freeze", "freeze", &[(key(' '), Action::Freeze), (key('z'), Action::Freeze)]),
    Entry { when: When::Watched, ..live("w", "window", "window", &[(key('w'), Action::NextWindow)]) },
    live(
        "+ -",
        "refresh",
        "",
        &[(key('+'), Action::Faster), (key('='), Action::Faster), (key('-'), Action::Slower)],
    ),
    live("Ctrl-R", "clear", "", &[(ctrl('r'), Action::Clear)]),
    Entry { when: When::Watched, ..live("Ctrl-S", "save", "", &[(ctrl('s'), Action::Save)]) },
    entry("copy", "y", "name", "", NAMED, &[(key('y'), Action::CopyName)]),
    entry("copy", "Y", "whole stack", "", COPIED, &[(key('Y'), Action::CopyStack)]),
    entry("save", "x", "export", "export", ALL, &[(key('x'), Action::Export)]),
    entry("other", ":", "actions", "", ALL, &[(key(':'), Action::Actions)]),
    entry("other", "!", "notes", "", ALL, &[(key('!'), Action::Notes)]),
    entry("other", "M", "free the mouse", "", ALL, &[(key('M'), Action::Mouse)]),
    entry(
        "other",
        "?",
        "help",
        "help",
        ALL,
        &[(key('?'), Action::Help), (named(KeyCode::F(1)), Action::Help)],
    ),
    entry("other", "q", "quit", "quit", ALL, &[(key('q'), Action::Quit), (ctrl('c'), Action::Quit)]),
    entry("other", "Ctrl-Z", "suspend", "", ALL, &[(ctrl('z'), Action::Suspend)]),
    entry("other", "Ctrl-L", "redraw", "", ALL, &[(ctrl('l'), Action::Redraw)]),
];

/// The entries that apply in the current view and state.
pub(crate) fn entries(context: &Context) -> impl Iterator<Item = &'static Entry> {
    let tab = context.tab;
    let is_live = context.is_live();
    let has_metrics = context.picture.as_ref().is_some_and(|picture| picture.metrics.len() > 1);
    let has_interpreter = context.picture.as_ref().is_some_and(|picture| {
        let modules = picture.recording.profile.tables.modules();
        modules.iter().any(|module| module.kind == ModuleKind::Runtime)
    });
    let has_locks = context.tabs().contains(&Tab::Locks);
    let is_of_heap = context.picture.as_ref().is_some_and(|picture| picture.heap.is_some());
    TABLE.iter().filter(move |entry| {
        let is_now = match entry.when {
            When::Always => true,
            When::Live => is_live,
            When::Watched => context.live.is_some(),
            When::Metrics => has_metrics,
            When::Compared => context.query.base.is_some(),
            When::Interpreted => has_interpreter,
            When::Heap => is_of_heap,
            When::Locks => has_locks,
            When::NoLocks => !has_locks,
        };
        is_now && entry.tabs.contains(&tab)
    })
}

/// The action of a key in the current view and state.
pub(crate) fn action_of_key(context: &Context, event: &KeyEvent) -> Option<Action> {
    if event.kind == KeyEventKind::Release {
        return None;
    }
    let chord = chord_of(event);
    if chord == ctrl('c') {
        return Some(Action::Quit);
    }
    if chord == ctrl('z') {
        return Some(Action::Suspend);
    }
    match &context.prompt {
        Some(Prompt::Search { .. } | Prompt::List { .. } | Prompt::PlaceName { .. }) => return typed(event),
        Some(Prompt::Export) => {
            let found = ExportShape::offered().find(|(_, letter, _)| chord.0 == KeyCode::Char(*letter));
            return Some(found.map_or(Action::Cancel, |(shape, ..)| Action::ExportAs(shape)));
        }
        None => {}
    }
    if let Some(Overlay::Help | Overlay::Notes) = context.overlay {
        let moves = TABLE.iter().filter(|entry| entry.group == "move").flat_map(|entry| entry.bindings);
        let found = moves.filter(|(known, _)| *known == chord).map(|(_, action)| action.clone()).next();
        return Some(match found {
            _ if chord == key('q') => Action::Quit,
            Some(action) => Action::InOverlay(Box::new(action)),
            None => Action::CloseOverlay,
        });
    }
    let mut found = entries(context).flat_map(|entry| entry.bindings).filter(|(known, _)| *known == chord);
    Some(found.next().map_or_else(|| meaningless(context, chord), |(_, action)| action.clone()))
}

/// A key in words: `f`, `Ctrl-R`, `Enter`.
pub(crate) fn chord_text((code, modifiers): Chord) -> String {
    let key = match code {
        KeyCode::Char(' ') => "Space".to_owned(),
        // With Ctrl, letters are the same in either case.
        KeyCode::Char(c) if modifiers.contains(KeyModifiers::CONTROL) => c.to_uppercase().to_string(),
        KeyCode::Char(c) => c.to_string(),
        KeyCode::F(number) => format!("F{number}"),
        KeyCode::PageUp => "PgUp".to_owned(),
        KeyCode::PageDown => "PgDn".to_owned(),
        KeyCode::BackTab => "Shift-Tab".to_owned(),
        other => format!("{other:?}"),
    };
    if modifiers.contains(KeyModifiers::CONTROL) { format!("Ctrl-{key}") } else { key }
}

/// Drops Shift from the chord: the letter is already in upper case, and not every terminal reports the modifier.
pub(crate) fn chord_of(event: &KeyEvent) -> Chord {
    let held = event.modifiers & (KeyModifiers::CONTROL | KeyModifiers::ALT);
    (event.code, held)
}

fn typed(event: &KeyEvent) -> Option<Action> {
    match event.code {
        KeyCode::Enter => Some(Action::Accept),
        KeyCode::Esc => Some(Action::Cancel),
        KeyCode::Up => Some(Action::PromptUp),
        KeyCode::Down => Some(Action::PromptDown),
        KeyCode::Tab => Some(Action::Complete),
        _ => tui_input::backend::crossterm::to_input_request(&Event::Key(*event)).map(Action::Edit),
    }
}

/// The action of a key that does not apply in this view and state: mostly a message that says why.
fn meaningless(context: &Context, chord: Chord) -> Action {
    let mut found = TABLE.iter().filter(|entry| entry.bindings.iter().any(|(known, _)| *known == chord));
    let Some(entry) = found.next() else {
        return Action::Nothing("unbound key; ? lists the keys".to_owned());
    };
    let what = format!("{} {}", entry.keys, entry.words);
    let what = what.trim_end();
    Action::Nothing(match entry.when {
        // This action says itself what the recording lacks.
        When::Metrics => return Action::NextMetric,
        When::Compared => format!("{what}: only in a comparison (b, or prof tui BASE NEW)"),
        When::Interpreted => format!("{what}: no interpreter ran functions in this recording"),
        When::Heap => format!("{what}: only of memory (prof record -e heap)"),
        When::Live | When::Watched if context.live.is_some() => {
            format!("{what}: the recording has ended")
        }
        When::Live | When::Watched => format!("{what}: only in a live view (prof tui -p PID)"),
        When::Always | When::Locks | When::NoLocks => {
            let views: Vec<String> =
                entry.tabs.iter().map(|tab| format!("{} {}", tab.digit(), tab.name())).collect();
            format!("{what}: only in {}", views.join(", "))
        }
    })
}
