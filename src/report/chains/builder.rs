//! One wait, taken apart: each moment of it is what the thread did then that ended it, and if that waited, too, what the thread
//! did that ended its wait.

use super::timelines::{ThreadIdentity, TimedWait, Timelines};
use crate::profile::{
    Frame, FrameFlags, FrameId, Function, Location, Module, ModuleKind, Profile, Reason, StackId, TaskId,
    Wait, WakerKind,
};
use rustc_hash::FxHashMap;
use std::ops::Range;

/// Most threads in one chain. Stacks of more could not be looked at.
const MOST_LINKS: usize = 12;
/// Most frames of a stack, with those of all its threads.
const MOST_FRAMES: usize = 1_000;

/// A part of the time of a wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Piece {
    /// When, ns since the start of the recording.
    pub(super) time: Range<u64>,
    /// Stacks of the threads of the chain, one after the other; `None` when nothing is known of any.
    pub(super) stack: Option<StackId>,
    /// The wait of the last of them; `None` if it ran.
    pub(super) wait: Option<Wait>,
}

/// Makes pieces of waits.
#[derive(Debug)]
pub(super) struct ChainBuilder<'a> {
    profile: &'a mut Profile,
    timelines: &'a Timelines,
    /// Frames that say who comes next.
    threads: FxHashMap<TaskId, FrameId>,
    not_sampled: Option<FrameId>,
    /// Stacks after others.
    joined: FxHashMap<(Option<StackId>, StackId), Option<StackId>>,
    /// Pieces of the wait that is taken apart, in the order of time.
    pieces: Vec<Piece>,
    /// Waits that go on beyond the longest chain.
    pub(super) cut: u64,
}

impl<'a> ChainBuilder<'a> {
    /// Starts with the threads of `timelines`, which are those of `profile`.
    pub(super) fn new(profile: &'a mut Profile, timelines: &'a Timelines) -> Self {
        ChainBuilder {
            profile,
            timelines,
            threads: FxHashMap::default(),
            not_sampled: None,
            joined: FxHashMap::default(),
            pieces: Vec::new(),
            cut: 0,
        }
    }

    /// The pieces of a part of a wait: they follow each other.
    pub(super) fn pieces(&mut self, wait: &TimedWait, time: &Range<u64>) -> Vec<Piece> {
        self.follow(None, wait, time, 0);
        std::mem::take(&mut self.pieces)
    }

    /// Adds the part `time` of a wait, which the threads of `before` waited for.
    fn follow(&mut self, before: Option<StackId>, wait: &TimedWait, time: &Range<u64>, links: usize) {
        let Some((waker, thread)) = self.waker(&wait.wait) else {
            let stack = self.join(before, wait.stack);
            return self.add(time, stack, Some(wait.wait));
        };
        if links + 1 >= MOST_LINKS {
            self.cut += 1;
            let stack = self.join(before, wait.stack);
            return self.add(time, stack, Some(wait.wait));
        }
        let own = wait.stack.and_then(|stack| self.profile.tables.user_part(stack));
        let stack = self.join(before, own);
        let marker = self.marker(waker);
        let stack = Some(self.profile.tables.intern_stack(stack, marker));
        let timelines = self.timelines;
        let mut from_ns = time.start;
        for part in timelines.waits(thread, time) {
            let overlap = part.from_ns.max(from_ns)..part.to_ns.min(time.end);
            if overlap.is_empty() {
                continue;
            }
            self.run(stack, &wait.wait, thread, from_ns..overlap.start);
            self.follow(stack, part, &overlap, links + 1);
            from_ns = overlap.end;
        }
        self.run(stack, &wait.wait, thread, from_ns..time.end);
    }

    /// Adds time in which a thread did not wait, as far as is known, before it ended the wait of those of `before`.
    fn run(&mut self, before: Option<StackId>, wait: &Wait, thread: ThreadIdentity, time: Range<u64>) {
        if time.is_empty() {
            return;
        }
        let timelines = self.timelines;
        let samples = timelines.samples(thread, &time);
        if samples.is_empty() {
            // It ran less than the time between two samples: what it did last is known.
            let stack = match wait.waker.stack.and_then(|stack| self.profile.tables.user_part(stack)) {
                Some(stack) => self.join(before, Some(stack)),
                None => {
                    let frame = self.not_sampled();
                    Some(self.profile.tables.intern_stack(before, frame))
                }
            };
            return self.add(&time, stack, None);
        }
        let (length, parts) = (u128::from(time.end - time.start), samples.len() as u128);
        // No more than the length.
        let at = |part: usize| time.start + (length * part as u128 / parts) as u64;
        for (number, (_, stack)) in samples.iter().enumerate() {
            let stack = match stack {
                Some(_) => self.join(before, *stack),
                None => before,
            };
            self.add(&(at(number)..at(number + 1)), stack, None);
        }
    }

    fn add(&mut self, time: &Range<u64>, stack: Option<StackId>, wait: Option<Wait>) {
        match self.pieces.last_mut() {
            Some(last) if last.stack == stack && last.wait == wait && last.time.end == time.start => {
                last.time.end = time.end;
            }
            _ => self.pieces.push(Piece { time: time.clone(), stack, wait }),
        }
    }

    /// The thread that ended a wait, if that was one. One that waited for a CPU was woken before.
    fn waker(&self, wait: &Wait) -> Option<(TaskId, ThreadIdentity)> {
        if wait.reason == Reason::NoCpu || wait.waker.kind != WakerKind::Thread {
            return None;
        }
        let task = wait.waker.task?;
        Some((task, ThreadIdentity::of(self.profile, task)?))
    }

    /// The frames of `stack` after those of `before`.
    fn join(&mut self, before: Option<StackId>, stack: Option<StackId>) -> Option<StackId> {
        let (Some(before), Some(stack)) = (before, stack) else { return before.or(stack) };
        if let Some(known) = self.joined.get(&(Some(before), stack)) {
            return *known;
        }
        let tables = &mut self.profile.tables;
        let mut frames: Vec<FrameId> = tables.stack_frames(stack).collect();
        let so_far = tables.stack_frames(before).take(MOST_FRAMES).count();
        // The innermost frames say what was done.
        frames.truncate(MOST_FRAMES.saturating_sub(so_far).max(1));
        let innermost = |parent, frame| tables.intern_stack(Some(parent), frame);
        let joined = Some(frames.into_iter().rev().fold(before, innermost));
        self.joined.insert((Some(before), stack), joined);
        joined
    }

    /// The frame that says who ended a wait.
    fn marker(&mut self, waker: TaskId) -> FrameId {
        if let Some(frame) = self.threads.get(&waker) {
            return *frame;
        }
        let tables = &self.profile.tables;
        let name = format!("[woken by {}]", tables.string(tables.task(waker).comm));
        let frame = self.frame(&name);
        self.threads.insert(waker, frame);
        frame
    }

    /// The frame of a thread of which no sample was taken.
    fn not_sampled(&mut self) -> FrameId {
        if let Some(frame) = self.not_sampled {
            return frame;
        }
        let frame = self.frame("[not sampled]");
        self.not_sampled = Some(frame);
        frame
    }

    /// A frame that is no code, of this name.
    fn frame(&mut self, name: &str) -> FrameId {
        let Profile { tables, symbols, .. } = &mut *self.profile;
        let path = tables.intern_string("[thread]");
        let module = tables.intern_module(Module { path, kind: ModuleKind::Thread, ..Module::default() });
        let name = tables.intern_string(name);
        let address = u64::from(name.0);
        let frame = tables.intern_frame(Frame { module, address, flags: FrameFlags::default() });
        let function = symbols.intern_function(Function { name, raw_name: name });
        symbols.set_locations(frame, vec![Location { function, ..Location::default() }]);
        frame
    }
}
