//! What each action does, in the words by which it is found in a list.

use crate::tui::app::action::{Action, Tab};

/// Every action that has a key, except opening a view.
const WORDS: &[(Action, &str)] = &[
    (Action::NextTab, "open the next view"),
    (Action::PreviousTab, "open the previous view"),
    (Action::Up, "move up"),
    (Action::Down, "move down"),
    (Action::Left, "move left"),
    (Action::Right, "move right"),
    (Action::PageUp, "move up by a screen"),
    (Action::PageDown, "move down by a screen"),
    (Action::HalfUp, "move up by half a screen"),
    (Action::HalfDown, "move down by half a screen"),
    (Action::First, "go to the first row"),
    (Action::Last, "go to the last row"),
    (Action::Enter, "open the selection"),
    (Action::Back, "go one step back"),
    (Action::Whole, "show all: end the zoom or the range"),
    (Action::Search, "search"),
    (Action::NextMatch, "go to the next match"),
    (Action::PreviousMatch, "go to the previous match"),
    (Action::SearchSelected, "search the selected name"),
    (Action::KeepMatches, "keep only stacks with a match"),
    (Action::Focus, "focus: keep only stacks with the selected function"),
    (Action::Drop, "drop stacks with the selected function"),
    (Action::CollapseFunction, "collapse the selected function"),
    (Action::CollapseModule, "collapse the selected function's module"),
    (Action::CollapseRecursion, "collapse the recursion of the selected function"),
    (Action::Annotate, "annotate: the source of the selected function"),
    (Action::OpenEditor, "open the editor at the selected line"),
    (Action::Undo, "undo the last filter"),
    (Action::UndoAll, "undo all filters"),
    (Action::Trunk, "show or shorten the trunk"),
    (Action::Invert, "invert the stacks"),
    (Action::NextMetric, "show the next metric"),
    (Action::NextBlocks, "memory: live at the end, at the peak, all allocated, not freed"),
    (Action::NextRows, "locks: by lock, by who waited, by who let go"),
    (Action::SplitThreads, "threads: classes, each, merged"),
    (Action::Idle, "show or hide idle waits"),
    (Action::SetBase, "compare with the chosen range of time, or no longer"),
    (Action::ShowBase, "show the base of the comparison, or the new side"),
    (Action::KernelFrames, "show or hide kernel frames"),
    (Action::InlinedFrames, "show or hide inlined functions"),
    (Action::RuntimeFrames, "interpreters: their functions, all of their frames, native frames only"),
    (Action::Names, "names: short, full, with module"),
    (Action::Sort, "sort by the next column"),
    (Action::ReverseSort, "reverse the order"),
    (Action::CopyName, "copy the selected name"),
    (Action::CopyStack, "copy the selected stack"),
    (Action::Export, "export what is shown to a file"),
    (Action::Notes, "show the notes on the recording"),
    (Action::Help, "help: the keys, what colours and marks mean"),
    (Action::Mouse, "give the mouse to the terminal, or take it back"),
    (Action::Freeze, "freeze the picture, or go on"),
    (Action::NextWindow, "window: all, last minute, last ten seconds"),
    (Action::Faster, "refresh more often"),
    (Action::Slower, "refresh less often"),
    (Action::Clear, "clear what was recorded so far"),
    (Action::Save, "save what is shown to a file"),
    (Action::RangeStart, "begin the time range here"),
    (Action::RangeEnd, "end the time range here"),
    (Action::HeatMap, "show the heat map or the bars"),
    (Action::Actions, "list all actions"),
    (Action::Places, "list marked places and searches"),
    (Action::MarkPlace, "mark this place"),
    (Action::Quit, "quit"),
    (Action::Suspend, "suspend the program"),
    (Action::Redraw, "redraw the screen"),
];

/// Words that are on no line of keys and by which people look for an action: of other tools, and of what the help explains.
const OTHER_WORDS: &[(Action, &str)] = &[
    (Action::Annotate, "code lines assembly"),
    (Action::Open(Tab::Source), "annotate code lines assembly"),
    (Action::Help, "legend colors mouse manual"),
    (Action::Search, "find regular expression"),
    (Action::KeepMatches, "grep match"),
    (Action::Focus, "only"),
    (Action::Drop, "ignore remove without"),
    (Action::CollapseFunction, "hide merge"),
    (Action::Whole, "reset unzoom"),
    (Action::Back, "unzoom"),
    (Action::Trunk, "folded frames"),
    (Action::Invert, "bottom-up callers icicle"),
    (Action::NextMetric, "on-CPU off-CPU wall waits"),
    (Action::NextBlocks, "heap leaks malloc"),
    (Action::NextRows, "mutex contention holder waiter"),
    (Action::Open(Tab::Locks), "mutex contention futex"),
    (Action::SplitThreads, "pools split"),
    (Action::SetBase, "diff"),
    (Action::ShowBase, "diff"),
    (Action::Freeze, "pause stop continue"),
    (Action::Export, "svg flame graph"),
    (Action::Save, "prof.data"),
    (Action::Notes, "warnings problems cost lost"),
    (Action::Mouse, "select text"),
    (Action::Quit, "exit leave"),
];

/// More words by which an action is found.
pub(super) fn other_words(action: &Action) -> &'static str {
    OTHER_WORDS.iter().find(|(known, _)| known == action).map_or("", |(_, words)| words)
}

/// The words of an action; `None` for an action without a key.
pub(super) fn words(action: &Action) -> Option<String> {
    if let Action::Open(tab) = action {
        return Some(format!("open the view {}", tab.name()));
    }
    let (_, words) = WORDS.iter().find(|(known, _)| known == action)?;
    Some((*words).to_owned())
}
