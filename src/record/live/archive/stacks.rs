//! The recorder's stacks under ids of the archive. A program whose stacks never repeat, through a recursion that takes
//! another path each time, would fill memory with them and make drawing ever slower: of its new stacks only the ends
//! are kept, with a frame that shows the gap.

use crate::profile::{Frame, FrameId, FrameSpace, Outcome, Profile, Stack, StackId};

/// Number of user-code frames kept of a new stack, at the root and at the leaf, when stacks do not repeat.
const KEPT: [(usize, usize); 4] = [(16, 8), (8, 4), (4, 2), (2, 1)];
/// Number of stacks kept whole before it is checked whether they repeat.
const MANY_WHOLE: u32 = 4_096;
/// Number of stacks kept with each step of [`KEPT`].
const MANY_CUT: u32 = 1_024;
/// Number of samples in one window.
const WINDOW: u32 = 2_048;
/// Number of samples in a window with new stacks above which stacks count as not repeating: a wait is up to three rows
/// with one stack.
const MANY_FRESH: u32 = WINDOW / 8;

/// A stack of the recorder.
#[derive(Debug, Clone, Copy)]
struct StackRow {
    stack: Stack,
    /// The stack's id in the archive, and whether it lacks frames, once a sample had it.
    here: Option<(StackId, bool)>,
}

/// The recorder's stacks since it last started over with its rows.
#[derive(Debug, Default)]
pub(crate) struct ArchiveStacks {
    rows: Vec<StackRow>,
    /// Current step of [`KEPT`], plus one; 0 while stacks are kept whole.
    step: usize,
    /// Number of new stacks since the last step.
    fresh: u32,
    /// Number of samples in this window, and of those with a new stack.
    seen: u32,
    seen_fresh: u32,
    /// Number of stacks that lack frames.
    pub(crate) cut: u64,
}

impl ArchiveStacks {
    /// Adds stacks of the recorder.
    pub(crate) fn extend(&mut self, stacks: &[Stack]) {
        self.rows.extend(stacks.iter().map(|stack| StackRow { stack: *stack, here: None }));
    }

    /// Forgets the recorder's stacks, because it starts over with its rows; how new stacks are shortened stays the
    /// same.
    pub(crate) fn reset(&mut self) {
        self.rows = Vec::new();
    }

    /// Starts over with whole stacks: how often they repeat is unknown again.
    pub(crate) fn clear(&mut self) {
        (self.step, self.fresh, self.seen, self.seen_fresh, self.cut) = (0, 0, 0, 0, 0);
    }

    /// Whether new stacks are kept whole.
    pub(super) fn are_whole(&self) -> bool {
        self.step == 0
    }

    /// The archive's id of the recorder's stack `id`, and its outcome, which changes if the stack is shortened;
    /// `frames` has the archive's ids of its frames.
    pub(crate) fn of(
        &mut self,
        id: StackId,
        outcome: Outcome,
        frames: &[FrameId],
        profile: &mut Profile,
    ) -> (StackId, Outcome) {
        let (here, is_cut) = match self.rows[id.index()].here {
            Some(here) => here,
            None => self.add(id, frames, profile),
        };
        self.seen += 1;
        if self.seen == WINDOW {
            let many = if self.are_whole() { MANY_WHOLE } else { MANY_CUT };
            if self.seen_fresh >= MANY_FRESH && self.fresh >= many && self.step < KEPT.len() {
                (self.step, self.fresh) = (self.step + 1, 0);
            }
            (self.seen, self.seen_fresh) = (0, 0);
        }
        (here, if is_cut && outcome == Outcome::Complete { Outcome::MiddleLeftOut } else { outcome })
    }

    fn add(&mut self, id: StackId, frames: &[FrameId], profile: &mut Profile) -> (StackId, bool) {
        let mut path = Vec::new();
        let mut next = Some(id);
        while let Some(id) = next {
            let stack = self.rows[id.index()].stack;
            path.push(frames[stack.frame.index()]);
            next = stack.parent;
        }
        path.reverse();
        let is_kernel = |frame: &FrameId| {
            let Frame { flags, .. } = profile.tables.frame(*frame);
            flags.space == FrameSpace::Kernel
        };
        let of_user = path.iter().position(is_kernel).unwrap_or(path.len());
        let mut is_cut = false;
        if let Some((root, leaf)) = self.step.checked_sub(1).map(|step| KEPT[step])
            && of_user > root + leaf + 1
        {
            // The number of frames left out would make stacks differ that are otherwise the same.
            path.splice(root..of_user - leaf, [profile.frame_left_out(0)]);
            is_cut = true;
            self.cut += 1;
        }
        let before = profile.tables.stacks().len();
        // A stack has at least one frame.
        let here = profile.tables.intern_stack_of(path).unwrap_or_default();
        let is_fresh = u32::from(profile.tables.stacks().len() > before);
        self.fresh += is_fresh;
        self.seen_fresh += is_fresh;
        self.rows[id.index()].here = Some((here, is_cut));
        (here, is_cut)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{FrameFlags, Meta, Module};

    /// A profile with frames 1 to 9 of a program, and one of the kernel, 10.
    fn profile() -> (Profile, Vec<FrameId>) {
        let mut profile = Profile::new(Meta::default());
        let module = profile.tables.intern_module(Module::default());
        let frame = |address| {
            let space = if address == 10 { FrameSpace::Kernel } else { FrameSpace::User };
            Frame { module, address, flags: FrameFlags { space, ..FrameFlags::default() } }
        };
        let frames = (0..=10).map(|address| profile.tables.intern_frame(frame(address))).collect();
        (profile, frames)
    }

    /// Adds the stack of these frames, root first; returns its id in the recorder.
    fn push(stacks: &mut ArchiveStacks, path: &[u32]) -> StackId {
        let mut parent = None;
        for frame in path {
            let id = StackId(stacks.rows.len() as u32);
            stacks.extend(&[Stack { parent, frame: FrameId(*frame) }]);
            parent = Some(id);
        }
        parent.expect("a stack has a frame")
    }

    #[test]
    fn stacks_that_repeat_stay_whole_and_such_that_never_do_lose_their_middle() {
        let (mut profile, frames) = profile();
        let mut stacks = ArchiveStacks::default();
        let path = |number: u32| -> Vec<u32> {
            (0..40).map(|depth| 1 + (number >> (depth % 20) & 1)).chain([10]).collect()
        };
        let few: Vec<StackId> = (0..4_000).map(|number| push(&mut stacks, &path(number))).collect();
        for turn in 0..20 {
            for id in &few {
                let (_, outcome) = stacks.of(*id, Outcome::Complete, &frames, &mut profile);
                assert_eq!(outcome, Outcome::Complete, "in turn {turn}");
            }
        }
        assert!(stacks.are_whole());
        let mut rows = profile.tables.stacks().len();
        for number in 4_000..60_000 {
            let id = push(&mut stacks, &path(number));
            let (here, outcome) = stacks.of(id, Outcome::Complete, &frames, &mut profile);
            let kept: Vec<FrameId> = profile.tables.stack_frames(here).collect();
            assert_eq!(kept[0], frames[10], "what the kernel did is always there");
            assert_eq!(outcome == Outcome::MiddleLeftOut, kept.len() < 41);
            if number == 40_000 {
                rows = profile.tables.stacks().len();
            }
        }
        assert!(!stacks.are_whole() && stacks.cut > 30_000);
        let more = profile.tables.stacks().len() - rows;
        assert!(more < 30 * MANY_CUT as usize, "{more} rows for the last 20,000 stacks");
        let id = push(&mut stacks, &[1, 2, 1, 10]);
        assert_eq!(stacks.of(id, Outcome::Complete, &frames, &mut profile).1, Outcome::Complete, "short");
    }
}
