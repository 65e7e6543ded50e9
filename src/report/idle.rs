//! Idle waits: those of a thread that has nothing to do, as opposed to those in the middle of some work.
//!
//! The rule, which `docs/off-cpu.md` explains with examples. A wait is idle if
//!
//! 1. the call that blocks is one with which programs wait for work ([`Blocking::may_be_idle`]): never a certain
//!    lock, a disk, the other end of a connection, memory or a CPU; and
//! 2. it is in the thread's own top loop. That is so if
//!    - nothing of the program's own code is on the stack, only its language's runtime, or
//!    - an event loop that is known by name makes the call itself, or
//!    - the stack turns away from the thread's work in a single step: a call under which less than a fifth of the
//!      thread's work is done, made by a function under which four fifths are. Where a thread has several such
//!      steps, only the outermost counts: what is below it is part of some work. A thread that did not work is
//!      judged as others that wait with the same stack, else by the work of threads of its name and main
//!      function, and is idle if those did not work either.
//!
//!    One that sleeps, is parked, or waits for a child can do so anywhere. There, the thread must also never leave
//!    the loop's function, as far as its samples show; and a sleep must be that function's own.
//!
//! Work is the running time and the waits that cannot be idle, apart from those inside of the blocking call. How long a
//! wait lasts plays no part.

use super::amount::Amount;
use super::blocking::{BlockingCalls, FunctionKey};
use super::group::{Activity, Group};
use crate::profile::{Profile, Reason, StackId, StringId, TaskId};
use crate::units::percent;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A function under which this share of the work is done, in percent, can be a thread's loop.
const LOOP_PERCENT: f64 = 80.0;
/// A call under which less than this share of the work is done, in percent, is no work.
const REST_PERCENT: f64 = 20.0;
/// With fewer samples than this of its work, a thread is not judged by them.
const FEWEST_SAMPLES: u64 = 10;
/// Waits that make up less than this share, in percent, of a thread's waits that could be idle, by time and by number,
/// do not decide where its loop is.
const RARE_PERCENT: f64 = 5.0;
/// A function outside of which more than this share of a thread's samples were taken, in percent, was left.
const LEFT_PERCENT: f64 = 1.0;
/// A thread that is parked with more frames of the program's own than this is in the middle of something.
const MOST_OWN_FRAMES_OF_PARK: u32 = 6;

/// Which waits of a profile are idle.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IdleWaits {
    idle: FxHashSet<(TaskId, StackId, Reason)>,
    all: Amount,
    all_but_idle: Amount,
}

impl IdleWaits {
    /// Decides on all waits of `profile`, whose running and waiting time is counted in `groups`.
    pub(super) fn of(profile: &Profile, groups: &[Group]) -> Self {
        let idle = Judge::new(profile, groups).idle();
        let mut waits = IdleWaits { idle, ..IdleWaits::default() };
        for group in groups.iter().filter(|group| group.activity != Activity::Running) {
            waits.all.add(group.amount);
            if !waits.contains(group) {
                waits.all_but_idle.add(group.amount);
            }
        }
        waits
    }

    /// Whether the waits of `group` are idle.
    pub fn contains(&self, group: &Group) -> bool {
        match group.activity {
            Activity::Waiting(reason) => self.is_idle(group.task, group.stack, reason),
            _ => false,
        }
    }

    /// Whether a wait of this thread, with this stack, for this reason is idle.
    pub fn is_idle(&self, task: TaskId, stack: Option<StackId>, reason: Reason) -> bool {
        stack.is_some_and(|stack| self.idle.contains(&(task, stack, reason)))
    }

    /// All waits, short ones among them.
    pub fn all(&self) -> Amount {
        self.all
    }

    /// All waits that are not idle, short ones among them.
    pub fn all_but_idle(&self) -> Amount {
        self.all_but_idle
    }
}

/// Where time was spent in work, and how much.
#[derive(Debug, Default)]
struct Work {
    /// Time under each user stack, by the stack's id.
    under: FxHashMap<StackId, u64>,
    total: u64,
    samples: u64,
}

impl Work {
    fn add(&mut self, profile: &Profile, stack: StackId, amount: Amount) {
        self.total = self.total.saturating_add(amount.weight);
        self.samples += amount.samples;
        let mut at = Some(stack);
        while let Some(id) = at {
            let under = self.under.entry(id).or_default();
            *under = under.saturating_add(amount.weight);
            at = profile.tables.stack(id).parent;
        }
    }

    fn is_enough(&self) -> bool {
        self.samples >= FEWEST_SAMPLES && self.total > 0
    }

    /// Frames above the step at which `stack` turns away from the work in a single step; `None` when there is work
    /// all along, or when it leaves little by little.
    fn turning(&self, profile: &Profile, stack: StackId) -> Option<usize> {
        let mut at = Some(stack);
        while let Some(id) = at {
            let share = percent(self.under.get(&id).copied().unwrap_or(0), self.total);
            if share >= REST_PERCENT {
                // The first frame from the leaf under which there is work: it must be that of nearly all.
                let is_loop = share >= LOOP_PERCENT && id != stack;
                return is_loop.then(|| profile.tables.stack_frames(id).count());
            }
            at = profile.tables.stack(id).parent;
        }
        // No frame is shared with the work: the thread's root calls both.
        Some(0)
    }
}

/// A wait that is idle if it is in the thread's top loop.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    task: TaskId,
    stack: StackId,
    reason: Reason,
    user: StackId,
    /// Where the program's own code makes the call.
    call_site: Option<StackId>,
    amount: Amount,
    /// It is in the top loop whatever the thread's work is.
    is_known: bool,
    /// Frames above the step at which it turns away from the work.
    turning: Option<usize>,
}

/// What threads that do the same have in common.
type Role = (StringId, StringId, FunctionKey);

#[derive(Debug, Default)]
struct Thread {
    /// Names of the thread and its process, and its main function: threads that have them in common do the same.
    role: Role,
    /// The outermost functions that were seen of it, and in how many samples.
    entries: FxHashMap<FunctionKey, u64>,
    work: Work,
    candidates: Vec<Candidate>,
    /// Samples of any kind with each user stack.
    samples: FxHashMap<StackId, u64>,
}

impl Thread {
    /// Whether nearly all samples were taken under the outer `frames` of `stack`.
    fn stays_under(&self, profile: &Profile, stack: StackId, frames: usize) -> bool {
        let Some(root) = prefix(profile, stack, frames) else { return true };
        let mut all = 0u64;
        let mut outside = 0u64;
        for (stack, samples) in &self.samples {
            all += samples;
            // A stack has a larger id than what it is called from.
            let mut at = Some(*stack);
            while let Some(id) = at.filter(|id| *id > root) {
                at = profile.tables.stack(id).parent;
            }
            outside += if at == Some(root) { 0 } else { *samples };
        }
        percent(outside, all) <= LEFT_PERCENT
    }
}

/// The outer `frames` of `stack`; `None` for no frames.
fn prefix(profile: &Profile, stack: StackId, frames: usize) -> Option<StackId> {
    let inner = profile.tables.stack_frames(stack).count().saturating_sub(frames);
    let mut at = Some(stack);
    for _ in 0..inner {
        at = profile.tables.stack(at?).parent;
    }
    at
}

struct Judge<'p> {
    profile: &'p Profile,
    calls: BlockingCalls<'p>,
    threads: BTreeMap<(u32, u32), Thread>,
    idle: FxHashSet<(TaskId, StackId, Reason)>,
}

impl<'p> Judge<'p> {
    fn new(profile: &'p Profile, groups: &[Group]) -> Self {
        let calls = BlockingCalls::new(profile);
        let mut judge = Judge { profile, calls, threads: BTreeMap::new(), idle: FxHashSet::default() };
        let mut work: Vec<(&Group, StackId)> = Vec::new();
        for group in groups {
            let Some(stack) = group.stack else { continue };
            let blocking = judge.calls.of(stack);
            if let Some(user) = blocking.user {
                let entry = blocking.entry.map(|entry| judge.calls.function(entry));
                let thread = judge.thread(group.task);
                if let Some(entry) = entry {
                    *thread.entries.entry(entry).or_default() += group.amount.samples;
                }
                *thread.samples.entry(user).or_default() += group.amount.samples;
            }
            let Activity::Waiting(reason) = group.activity else {
                work.extend(blocking.user.map(|user| (group, user)));
                continue;
            };
            if blocking.may_be_idle(reason) {
                let is_park = reason == Reason::Lock;
                let Some(user) = blocking.user else {
                    if blocking.is_kernel_loop {
                        judge.idle.insert((group.task, stack, reason));
                    }
                    continue;
                };
                if is_park && blocking.own_frames > MOST_OWN_FRAMES_OF_PARK && !blocking.in_loop {
                    work.push((group, user));
                    continue;
                }
                let is_known = blocking.own_frames == 0 || blocking.in_loop;
                let candidate = Candidate {
                    task: group.task,
                    stack,
                    reason,
                    user,
                    call_site: blocking.call_site,
                    amount: group.amount,
                    is_known,
                    turning: None,
                };
                judge.thread(group.task).candidates.push(candidate);
            } else if !matches!(reason, Reason::NoCpu | Reason::Stopped) {
                // Waiting for a CPU, or in a debugger, says nothing of what the thread wanted.
                work.extend(blocking.user.map(|user| (group, user)));
            }
        }
        for thread in judge.threads.values_mut() {
            // Of two that are equal the order of samples must not decide.
            let most = (thread.entries.iter())
                .max_by_key(|(entry, samples)| (**samples, Reverse(entry.order_key(profile))));
            thread.role.2 = most.map_or(thread.role.2, |(entry, _)| *entry);
        }
        let calls: FxHashSet<((u32, u32), StackId)> = (judge.threads.iter())
            .flat_map(|(key, thread)| {
                let candidates = thread.candidates.iter();
                candidates.map(|candidate| (*key, candidate.call_site.unwrap_or(candidate.user)))
            })
            .collect();
        for (group, user) in work {
            let key = judge.thread_key(group.task);
            let call_site = group.stack.and_then(|stack| judge.calls.of(stack).call_site);
            // What the thread does inside of the call that blocks belongs to the wait.
            if !calls.contains(&(key, call_site.unwrap_or(user))) {
                // Threads without candidates need no judgement, but do what others do.
                judge.thread(group.task).work.add(profile, user, group.amount);
            }
        }
        judge
    }

    fn thread_key(&self, task: TaskId) -> (u32, u32) {
        let task = self.profile.tables.task(task);
        (task.tid, task.generation)
    }

    fn thread(&mut self, task: TaskId) -> &mut Thread {
        let key = self.thread_key(task);
        let row = self.profile.tables.task(task);
        let thread = self.threads.entry(key).or_default();
        (thread.role.0, thread.role.1) = (row.comm, row.process);
        thread
    }

    fn idle(mut self) -> FxHashSet<(TaskId, StackId, Reason)> {
        // For each user stack the time that threads with work spent idle with it, and not idle.
        let mut judged: FxHashMap<StackId, [u64; 2]> = FxHashMap::default();
        let mut threads = std::mem::take(&mut self.threads);
        for thread in threads.values_mut().filter(|thread| thread.work.is_enough()) {
            for candidate in &mut thread.candidates {
                candidate.turning = thread.work.turning(self.profile, candidate.user);
            }
            let outermost = outermost_turning(&thread.candidates);
            for candidate in &thread.candidates {
                let is_top = |turning| Some(turning) <= outermost && self.is_loop(thread, candidate, turning);
                let is_idle = candidate.is_known || candidate.turning.is_some_and(is_top);
                let time = &mut judged.entry(candidate.user).or_default()[usize::from(!is_idle)];
                *time = time.saturating_add(candidate.amount.weight);
                self.note(candidate, is_idle);
            }
        }
        let works = work_of_roles(&threads);
        for thread in threads.values().filter(|thread| !thread.work.is_enough()) {
            let role_work = works.get(&thread.role).filter(|work| work.is_enough());
            for candidate in &thread.candidates {
                let is_idle = candidate.is_known
                    || match judged.get(&candidate.user) {
                        Some([idle, busy]) => idle >= busy,
                        None => {
                            role_work.is_none_or(|work| work.turning(self.profile, candidate.user).is_some())
                        }
                    };
                self.note(candidate, is_idle);
            }
        }
        self.idle
    }

    /// Whether the function that makes the call below the outer `turning` frames can be the thread's loop, by what
    /// the call waits for.
    fn is_loop(&mut self, thread: &Thread, candidate: &Candidate, turning: usize) -> bool {
        let is_anywhere = matches!(candidate.reason, Reason::Sleep | Reason::Lock | Reason::Child);
        let is_own_call =
            candidate.reason != Reason::Sleep || self.calls.own_frames_below(candidate.user, turning) <= 1;
        !is_anywhere || (is_own_call && thread.stays_under(self.profile, candidate.user, turning))
    }

    fn note(&mut self, candidate: &Candidate, is_idle: bool) {
        if is_idle {
            self.idle.insert((candidate.task, candidate.stack, candidate.reason));
        }
    }
}

/// The outermost step at which waits that are not rare turn away from the work.
fn outermost_turning(candidates: &[Candidate]) -> Option<usize> {
    let mut at: BTreeMap<usize, Amount> = BTreeMap::new();
    let mut all = Amount::default();
    for candidate in candidates {
        let Some(turning) = candidate.turning else { continue };
        at.entry(turning).or_default().add(candidate.amount);
        all.add(candidate.amount);
    }
    let is_rare = |amount: &Amount| {
        percent(amount.weight, all.weight) < RARE_PERCENT
            && percent(amount.count_thousandths, all.count_thousandths) < RARE_PERCENT
    };
    at.iter().find(|(_, amount)| !is_rare(amount)).map(|(turning, _)| *turning)
}

/// The work of all threads of one role, for roles of which a thread has to be judged by it.
fn work_of_roles(threads: &BTreeMap<(u32, u32), Thread>) -> FxHashMap<Role, Work> {
    let needs = |thread: &&Thread| !thread.work.is_enough() && !thread.candidates.is_empty();
    let roles: FxHashSet<Role> = threads.values().filter(needs).map(|thread| thread.role).collect();
    let mut works: FxHashMap<Role, Work> = FxHashMap::default();
    for thread in threads.values().filter(|thread| roles.contains(&thread.role)) {
        let sum = works.entry(thread.role).or_default();
        sum.total = sum.total.saturating_add(thread.work.total);
        sum.samples += thread.work.samples;
        for (stack, time) in &thread.work.under {
            let under = sum.under.entry(*stack).or_default();
            *under = under.saturating_add(*time);
        }
    }
    works
}
