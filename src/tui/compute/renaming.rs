//! What was chosen while names were still being read, under the names that have come since.
//!
//! A place is known by the names on the way to it, and a function without one by its address. What stays the same is its
//! frame: its module and its address, whatever number the frame has in a recording.

use super::picture::Picture;
use crate::profile::{FrameId, Module, ModuleId, Profile};
use crate::report::{Direction, FilterOptions, LabelKey, Labels, PathStep, Recording, StackFilter, Step};
use crate::tui::app::query::Query;
use crate::tui::app::state::App;
use crate::tui::app::tree_path::TreePath;
use crate::tui::views::callers::Side;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;

/// Gives all that was chosen the names that came with `picture`.
pub(crate) fn follow(app: &mut App, picture: &Picture) {
    let Some(before) = app.picture.clone() else { return };
    let Some(mut names) = Names::since(&before.recording, picture) else { return };
    let flame = &mut app.flame;
    for spot in flame.history.iter_mut().chain([&mut flame.zoom, &mut flame.selected]) {
        names.rename_spot(spot, before.query.direction);
    }
    let callers = &mut app.callers;
    names.rename_around_pivot(callers.side, &mut callers.selected);
    for (side, spot) in &mut callers.zooms {
        names.rename_around_pivot(*side, spot);
    }
    callers.history.iter_mut().for_each(|key| names.rename_in_place(key));
    app.top.rename(|key| names.rename(key));
    app.undo.iter_mut().for_each(|filter| names.rename_filter(filter));
    app.ask(|query| names.rename_query(query));
    // Two addresses may be one function: Esc leads to another one.
    app.callers.history.dedup();
    if app.callers.history.last() == app.query.pivot.as_ref() {
        app.callers.history.pop();
    }
}

/// What `picture` was asked for, under the names that have come since the one before; `None` when that is the same.
pub(super) fn renamed_query(before: &Picture, picture: &Picture) -> Option<Query> {
    let mut query = picture.query.clone();
    Names::since(&before.recording, picture)?.rename_query(&mut query);
    (query != picture.query).then_some(query)
}

/// What functions are called that were called by their addresses in an older state of a recording.
struct Names<'p> {
    before: &'p Profile,
    picture: &'p Picture,
    /// Looked for once somebody asks for an address: mostly nothing that was chosen is one.
    frames: Option<Frames>,
}

/// Frames that had no name then, some of which have one now.
struct Frames {
    /// In the order of their addresses; none when none of them has a name.
    unnamed: Vec<Unnamed>,
    /// What they were called.
    old_labels: Labels,
    /// What they are called.
    labels: Labels,
}

/// A frame that had no name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Unnamed {
    /// Where it is looked up in its module.
    address: u64,
    /// Its number then.
    before: FrameId,
    /// Its number now.
    now: FrameId,
}

impl<'p> Names<'p> {
    /// `None` when `before` is the recording of `picture`.
    fn since(before: &'p Recording, picture: &'p Picture) -> Option<Self> {
        let is_other = !std::ptr::eq(before, &*picture.recording);
        is_other.then_some(Names { before: &before.profile, picture, frames: None })
    }

    /// What stands now where `key` stood, root first: the function that was at this address and those inlined in it.
    fn steps(&mut self, key: &LabelKey) -> Option<Vec<PathStep>> {
        let (_, address) = key.name.rsplit_once("+0x")?;
        let address = u64::from_str_radix(address, 16).ok()?;
        let (before, now) = (self.before, &self.picture.recording.profile);
        let picture = self.picture;
        let Frames { unnamed, old_labels, labels } =
            self.frames.get_or_insert_with(|| Frames::new(before, picture));
        let start = unnamed.partition_point(|frame| frame.address < address);
        let here = unnamed[start..].iter().take_while(|frame| frame.address == address);
        let mut meant: Option<(u64, Reverse<FrameId>)> = None;
        for frame in here {
            old_labels.resolve(before, frame.before);
            let is_meant = (old_labels.steps(frame.before).last())
                .is_some_and(|step| old_labels.get(step.label).is(key));
            if is_meant {
                // Files that replaced each other have one path: most likely the one that runs is meant.
                let samples = picture.quality.samples_of_frame.get(frame.now.index()).copied().unwrap_or(0);
                meant = meant.max(Some((samples, Reverse(frame.now))));
            }
        }
        let (_, Reverse(frame)) = meant?;
        if now.symbols.locations(frame).is_empty() {
            return None;
        }
        labels.resolve(now, frame);
        let step =
            |step: &Step| PathStep { label: labels.get(step.label).key(), is_inlined: step.is_inlined };
        Some(labels.steps(frame).iter().map(step).collect())
    }

    /// What a function without a name is called now: the one whose code it is.
    fn rename(&mut self, key: &LabelKey) -> Option<LabelKey> {
        self.steps(key)?.into_iter().next().map(|step| step.label)
    }

    fn rename_in_place(&mut self, key: &mut LabelKey) {
        if let Some(renamed) = self.rename(key) {
            *key = renamed;
        }
    }

    fn rename_query(&mut self, query: &mut Query) {
        query.pivot.iter_mut().for_each(|key| self.rename_in_place(key));
        self.rename_filter(&mut query.common.filter);
    }

    fn rename_filter(&mut self, filter: &mut FilterOptions) {
        for stack in &mut filter.stacks {
            match stack {
                StackFilter::Focus(key)
                | StackFilter::Drop(key)
                | StackFilter::CollapseFunction(key)
                | StackFilter::CollapseRecursion(key) => self.rename_in_place(key),
                StackFilter::Under(paths) => {
                    paths.iter_mut().for_each(|path| self.rename_path(path, Direction::TopDown, false));
                }
                StackFilter::EndingIn(paths) => {
                    paths.iter_mut().for_each(|path| self.rename_path(path, Direction::BottomUp, false));
                }
                StackFilter::Matching(_) | StackFilter::CollapseModule(_) => {}
            }
        }
    }

    /// A name brings inlined functions with it, which are on the way now, but for those behind the end of it; with
    /// `goes_on` it goes on behind them.
    fn rename_path(&mut self, path: &mut Vec<PathStep>, direction: Direction, goes_on: bool) {
        let end = path.len();
        let mut renamed = Vec::with_capacity(end);
        for (place, step) in path.drain(..).enumerate() {
            let Some(mut steps) = self.steps(&step.label) else {
                renamed.push(step);
                continue;
            };
            match direction {
                Direction::BottomUp => steps.reverse(),
                Direction::TopDown if place + 1 == end && !goes_on => steps.truncate(1),
                Direction::TopDown => {}
            }
            renamed.extend(steps);
        }
        *path = renamed;
    }

    fn rename_spot(&mut self, spot: &mut TreePath, direction: Direction) {
        self.rename_path(&mut spot.path, direction, !spot.rest.is_empty());
        let mut known: FxHashSet<PathStep> = FxHashSet::default();
        let mut rest = Vec::with_capacity(spot.rest.len());
        for step in spot.rest.drain(..) {
            let steps = self.steps(&step.label);
            let first = steps.and_then(|mut steps| match direction {
                Direction::TopDown => steps.into_iter().next(),
                Direction::BottomUp => steps.pop(),
            });
            let step = first.unwrap_or(step);
            if known.insert(step.clone()) {
                rest.push(step);
            }
        }
        spot.rest = rest;
    }

    /// The same on a side of the function in the middle, with which the way begins. That is never inlined, and what is
    /// inlined in it is on the side of what it calls.
    fn rename_around_pivot(&mut self, side: Side, spot: &mut TreePath) {
        let middle = spot.path.first().and_then(|step| self.rename(&step.label));
        if let (Side::Callers, Some(label)) = (side, &middle) {
            // By the name that it has now it is found only once.
            spot.path[0] = PathStep { label: label.clone(), is_inlined: false };
        }
        let direction = match side {
            Side::Callers => Direction::BottomUp,
            Side::Callees => Direction::TopDown,
        };
        self.rename_spot(spot, direction);
        if middle.is_some() {
            spot.path[0].is_inlined = false;
        }
    }
}

impl Frames {
    fn new(before: &Profile, picture: &Picture) -> Self {
        let now = &picture.recording.profile;
        let mut unnamed = unnamed(before, now);
        if unnamed.iter().all(|frame| now.symbols.locations(frame.now).is_empty()) {
            unnamed.clear();
        }
        let labels = |profile| Labels::new(profile, picture.labels.grouping(), picture.query.common.inline);
        Frames { unnamed, old_labels: labels(before), labels: labels(now) }
    }
}

/// The frames without a name in `before` that `now` has, too.
fn unnamed(before: &Profile, now: &Profile) -> Vec<Unnamed> {
    let is_unnamed = |id: &FrameId| before.symbols.locations(*id).is_empty();
    let all = |profile: &Profile| (0..profile.tables.frames().len() as u32).map(FrameId);
    let mut ids = all(before).filter(is_unnamed).peekable();
    if ids.peek().is_none() {
        return Vec::new();
    }
    let content = |profile: &'_ Profile, module: &Module| -> (String, Module) {
        (profile.tables.string(module.path).to_owned(), Module { path: Default::default(), ..module.clone() })
    };
    let modules: FxHashMap<(String, Module), ModuleId> = (now.tables.modules().iter().zip(0..))
        .map(|(module, number)| (content(now, module), ModuleId(number)))
        .collect();
    let module_now: Vec<Option<ModuleId>> = (before.tables.modules().iter())
        .map(|module| modules.get(&content(before, module)).copied())
        .collect();
    let mut known: FxHashMap<(ModuleId, u64), FrameId> = FxHashMap::default();
    for id in ids {
        let frame = before.tables.frame(id);
        if let Some(module) = module_now.get(frame.module.index()).copied().flatten() {
            known.entry((module, frame.lookup_address())).or_insert(id);
        }
    }
    let mut frames: Vec<Unnamed> = all(now)
        .filter_map(|id| {
            let frame = now.tables.frame(id);
            let address = frame.lookup_address();
            let before = *known.get(&(frame.module, address))?;
            Some(Unnamed { address, before, now: id })
        })
        .collect();
    frames.sort_unstable();
    frames
}
