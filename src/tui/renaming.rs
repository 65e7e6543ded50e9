//! Places that were chosen while names were still being read, in the picture that has the names.
//!
//! A place is known by the names on the way to it. Those of functions that had none were addresses; what stands in their
//! place now is a name that was not there before, in the same module.

use super::app::App;
use super::callers_view::Side;
use super::picture::Picture;
use super::spot::{NamedTree, Spot};
use crate::report::{BoxOf, LabelKey, NodeId};

/// Follows what was selected and zoomed into `picture`, if names were missing in the one before.
pub(super) fn follow(app: &mut App, picture: &Picture) {
    let Some(before) = app.picture.clone().filter(|before| before.to_name_percent > 0.0) else { return };
    if before.query.direction == picture.query.direction {
        let (old, new) = (before.named_tree(), picture.named_tree());
        let flame = &mut app.flame;
        for spot in flame.history.iter_mut().chain([&mut flame.zoom, &mut flame.selected]) {
            *spot = renamed(old, new, spot);
        }
    }
    if let (Some(old), Some(new)) = (&before.pivot, &picture.pivot)
        && before.query.pivot == picture.query.pivot
    {
        let trees = |side: Side| (old.named(&before, side), new.named(picture, side));
        let callers = &mut app.callers;
        let (from, to) = trees(callers.side);
        callers.selected = renamed(from, to, &callers.selected);
        for (side, spot) in &mut callers.zooms {
            let (from, to) = trees(*side);
            *spot = renamed(from, to, spot);
        }
    }
    // The function in the middle may be the one that has a name now.
    if picture.pivot.is_none()
        && app.query.pivot == picture.query.pivot
        && let Some(key) = app.query.pivot.as_ref().and_then(|key| name_of(&before, picture, key))
    {
        app.ask(|query| query.pivot = Some(key));
    }
}

/// What a label is called now, by where it was first.
fn name_of(before: &Picture, picture: &Picture, key: &LabelKey) -> Option<LabelKey> {
    if before.query.direction != picture.query.direction {
        return None;
    }
    let is_it = |id: &NodeId| before.labels.get(before.tree.node(*id).label).is(key);
    let id = before.tree.walk(|_| true).into_iter().find(is_it)?;
    let (old, new) = (before.named_tree(), picture.named_tree());
    let spot = renamed(old, new, &old.spot_of(&BoxOf::Node(id)));
    let BoxOf::Node(found) = new.find(&spot) else { return None };
    let is_whole = spot.path.len() == before.tree.path(id).count();
    let key = picture.key(found);
    (is_whole && key.module == spot.path.last()?.label.module).then_some(key)
}

/// The same place by its names in `new`, as far as it is there.
fn renamed(old: NamedTree<'_>, new: NamedTree<'_>, spot: &Spot) -> Spot {
    let mut path = Vec::with_capacity(spot.path.len());
    let (mut from, mut to) = (BoxOf::All, BoxOf::All);
    for step in &spot.path {
        let Some(was) = old.child(&from, step) else { break };
        let Some(is) = counterpart(old, new, (&from, was), &to) else { break };
        // A name can bring inlined functions with it, which are on the way now.
        path = new.spot_of(&BoxOf::Node(is)).path;
        (from, to) = (BoxOf::Node(was), BoxOf::Node(is));
    }
    let is_whole = from == old.find(&Spot { path: spot.path.clone(), rest: Vec::new() });
    if !is_whole || path.is_empty() {
        return spot.clone();
    }
    let rest = (spot.rest.iter())
        .filter_map(|step| counterpart(old, new, (&from, old.child(&from, step)?), &to))
        .map(|id| new.step_of(id))
        .collect();
    Spot { path, rest }
}

/// The node below `to` that is what `was` below `from`: of the same name; else the heaviest of the same module whose name
/// is new there; else the same below functions that are inlined there now.
fn counterpart(
    old: NamedTree<'_>,
    new: NamedTree<'_>,
    (from, was): (&BoxOf, NodeId),
    to: &BoxOf,
) -> Option<NodeId> {
    let step = old.step_of(was);
    if let Some(same) = new.child(to, &step) {
        return Some(same);
    }
    let is_new = |id: &&NodeId| {
        let found = new.step_of(**id);
        found.label.module == step.label.module && old.child(from, &found).is_none()
    };
    // They come heaviest first.
    let is_address = step.label.name.contains("+0x");
    if let Some(named) = new.children(to).iter().find(|id| is_address && is_new(id)) {
        return Some(*named);
    }
    let inlined = new.children(to).iter().filter(|id| new.tree.node(**id).is_inlined);
    inlined.map(|id| BoxOf::Node(*id)).find_map(|below| counterpart(old, new, (from, was), &below))
}

#[cfg(test)]
mod tests {
    use crate::report::Recording;
    use crate::report::fixture::Build;
    use crate::tui::test_screen::TestScreen;
    use std::sync::Arc;

    /// The same program before and after its library has names, which brings an inlined function with it.
    fn recording(has_names: bool) -> Recording {
        let mut build = Build::new();
        let task = build.task(1, 1, "t", "t");
        let call: &[&str] = if has_names { &["/l.so:call⇒hidden"] } else { &["/l.so:+0x10"] };
        let other = if has_names { "/l.so:small" } else { "/l.so:+0x99" };
        let path: Vec<&str> = ["/x:main"].iter().chain(call).chain(&["/x:back", "/x:end"]).copied().collect();
        build.add(task, 90, &path);
        build.add(task, 20, &["/x:main", "/x:beside"]);
        build.add(task, 10, &["/x:main", other]);
        let unnamed = if has_names { Vec::new() } else { vec![build.frame(call[0]), build.frame(other)] };
        build.finish().with_names_to_come(unnamed)
    }

    fn name(screen: &mut TestScreen) {
        screen.recording = Arc::new(recording(true));
        screen.compute();
        for effect in screen.app.take_effects() {
            if effect == crate::tui::action::Effect::Ask {
                screen.compute();
            }
        }
    }

    #[test]
    fn a_zoom_and_a_selection_stay_where_they_are_when_names_come() {
        let mut screen = TestScreen::new(recording(false), 80, 24);
        assert!(screen.app.picture.as_ref().unwrap().to_name_percent > 0.0);
        screen.keys("↓↓↓\n↓↓");
        assert_eq!(screen.selected().last().map(String::as_str), Some("end"));
        assert!(screen.zoom().last().unwrap().contains("+0x10"), "{:?}", screen.zoom());
        name(&mut screen);
        assert_eq!(screen.selected(), ["t", "main", "call", "hidden", "back", "end"]);
        assert_eq!(screen.zoom(), ["t", "main", "call"]);
        // Not only the widest.
        let mut screen = TestScreen::new(recording(false), 80, 24);
        screen.keys("↓↓↓→");
        assert_eq!(screen.selected(), ["t", "main", "beside"]);
        name(&mut screen);
        assert_eq!(screen.selected(), ["t", "main", "beside"]);
    }

    #[test]
    fn the_function_in_the_middle_stays_there_when_it_gets_its_name() {
        let mut screen = TestScreen::new(recording(false), 80, 24);
        screen.keys("↓↓↓3");
        assert!(screen.app.query.pivot.as_ref().unwrap().name.contains("+0x10"));
        screen.keys("↓↓");
        name(&mut screen);
        assert_eq!(screen.app.query.pivot.as_ref().unwrap().name, "call");
        assert!(screen.app.picture.as_ref().unwrap().pivot.is_some());
    }
}
