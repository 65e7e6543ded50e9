//! Why a key did nothing: every key gets an answer.

use super::action::Action;

/// The message when an action changed nothing; `None` for actions that always have an effect.
pub(super) fn words(action: &Action) -> Option<&'static str> {
    Some(match action {
        Action::Up | Action::PageUp | Action::HalfUp | Action::First => "nothing is above this",
        Action::Down | Action::PageDown | Action::HalfDown | Action::Last => "nothing is below this",
        Action::Left | Action::Right => "nothing is next to this",
        Action::Enter => "nothing is selected",
        Action::Back => "nothing to go back to; q quits",
        Action::Whole => "nothing is zoomed",
        Action::NextMatch | Action::PreviousMatch => "this is the only match",
        Action::SearchSelected => "this is already the search; n goes to the next",
        Action::KeepMatches
        | Action::Focus
        | Action::Drop
        | Action::CollapseFunction
        | Action::CollapseModule
        | Action::CollapseRecursion => "this filter is already active; u undoes it",
        Action::RangeStart => "the range begins here already",
        Action::RangeEnd => "the range ends here already",
        Action::OpenEditor => "no source line is known here",
        Action::Open(_) => "this view is open already",
        _ => return None,
    })
}
