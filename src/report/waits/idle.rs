//! Idle waits: those of a thread that has nothing to do, as opposed to those in the middle of some work.
//!
//! The rule, which `docs/off-cpu.md` explains with examples. A wait is idle if
//!
//! 1. the call that blocks is one with which programs wait for work ([`may_be_idle`](super::blocking::Blocking::may_be_idle)): never a certain
//!    lock, a disk, the other end of a connection, an answer, a child, memory or a CPU; and
//! 2. it is in the thread's own top loop. That is so if
//!    - nothing of the program's own code is on the stack, only its language's runtime, or
//!    - an event loop that is known by name makes the call itself, or
//!    - the stack turns away from the thread's work in a single step: a call under which less than a fifth of the
//!      thread's work is done, made by a function under which four fifths are. Where a thread has several such
//!      steps, only the outermost counts: what is below it is part of some work.
//!
//!    Threads of one program that wait with the very same user stack are judged together, by the sum of their work: a
//!    few samples more or less of one of them must not make its waits something else than those of its like. Where
//!    they all hardly worked, that of threads of their names and main functions counts; where those did not work
//!    either, the waits are idle.
//!
//!    One that sleeps or is parked can do so anywhere. There, the thread must also never leave
//!    the loop's function, as far as its samples show; and a sleep must be that function's own.
//!
//! Sleeps of the first thread of a command that was started for the recording are never idle: they are what it does. Nor
//! are those deep inside of the program (three of its functions and more) of threads whose work tells nothing.
//!
//! Work is the running time and the waits that cannot be idle, apart from those inside of the blocking call. How long a
//! wait lasts plays no part.

use super::blocking::{Blocking, BlockingCalls, CallSite, FunctionKey};
use super::idle_work::{IdleWork, SharedWork};
use super::tally::{Tally, TallySums};
use crate::base::units::percent;
use crate::profile::{Profile, Reason, StackId, StringId, TaskId};
use crate::report::model::activity::Activity;
use crate::report::model::amount::Amount;
use crate::report::model::group::Group;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Waits that make up less than this share, in percent, of a thread's waits that could be idle, by time and by number,
/// do not decide where its loop is.
const RARE_PERCENT: f64 = 5.0;
/// A function outside of which more than this share of a thread's samples were taken, in percent, was left.
const LEFT_PERCENT: f64 = 1.0;
/// A thread that is parked with more frames of the program's own than this is in the middle of something.
const MOST_OWN_FRAMES_OF_PARK: u32 = 6;

/// A thread that hardly works and sleeps with more frames of the program's own than this does so in the middle of something.
const MOST_OWN_FRAMES_OF_SLEEP: u32 = 2;

/// Which waits of a profile are idle.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct IdleWaits {
    idle: FxHashSet<(TaskId, StackId, Reason)>,
    all: Amount,
    all_but_idle: Amount,
}

impl IdleWaits {
    /// Decides on all waits of `profile`, whose running and waiting time is counted in `groups`.
    pub(crate) fn of(profile: &Profile, groups: &[Group]) -> Self {
        let idle = Classifier::new(profile, groups).idle();
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
    pub(crate) fn contains(&self, group: &Group) -> bool {
        match group.activity {
            Activity::Waiting(reason) => self.is_idle(group.task, group.stack, reason),
            _ => false,
        }
    }

    /// Whether a wait of this thread, with this stack, for this reason is idle.
    pub(crate) fn is_idle(&self, task: TaskId, stack: Option<StackId>, reason: Reason) -> bool {
        stack.is_some_and(|stack| self.idle.contains(&(task, stack, reason)))
    }

    /// All waits, short ones among them.
    pub(crate) fn all(&self) -> Amount {
        self.all
    }

    /// All waits that are not idle, short ones among them.
    pub(crate) fn all_but_idle(&self) -> Amount {
        self.all_but_idle
    }
}

/// A wait that is idle if it is in the thread's top loop.
#[derive(Debug, Clone, Copy)]
struct Candidate {
    task: TaskId,
    stack: StackId,
    reason: Reason,
    /// Reason that the rules judge the wait by.
    judged_as: Reason,
    user: StackId,
    /// Frames of the program's own code.
    own_frames: u32,
    /// Place of the wait: all waits of a place get one verdict.
    place: BlockPlace,
    amount: Amount,
    /// Whether the wait is in the top loop whatever the thread's work is.
    is_known: bool,
}

/// Place where threads of one program wait: the name of their process, and their user stack, or where an interpreter runs the
/// program the site of the call. Those that wait in one place are judged together, so that the same wait is not idle in
/// one thread and something else in the next.
type BlockPlace = (StringId, CallSite);

/// Role of threads that do the same: names of the thread and its process, and its main function.
type Role = (StringId, StringId, FunctionKey);

#[derive(Debug, Default)]
struct Thread {
    role: Role,
    /// The outermost functions that were seen of it, and in how many samples.
    entries: FxHashMap<FunctionKey, u64>,
    work: IdleWork,
    candidates: Vec<Candidate>,
    /// Samples of any kind.
    samples: Tally,
    /// Waits of the thread that turn away from the work, by how many frames are above that step.
    divergences: BTreeMap<usize, Amount>,
}

/// The stack of the outer `frames` of `stack`; `None` for no frames.
fn prefix(profile: &Profile, stack: StackId, frames: usize) -> Option<StackId> {
    let inner = profile.tables.stack_frames(stack).count().saturating_sub(frames);
    let mut at = Some(stack);
    for _ in 0..inner {
        at = profile.tables.stack(at?).parent;
    }
    at
}

/// The running or waiting time of one thread that is work, unless it is inside of a call that blocks.
struct MaybeWork {
    thread: usize,
    user: StackId,
    call_site: CallSite,
    amount: Amount,
}

struct Classifier<'p> {
    profile: &'p Profile,
    calls: BlockingCalls<'p>,
    threads: Vec<Thread>,
    numbers: FxHashMap<(u32, u32), usize>,
    /// The threads that wait in each place.
    places: BTreeMap<BlockPlace, BTreeSet<usize>>,
    idle: FxHashSet<(TaskId, StackId, Reason)>,
}

impl<'p> Classifier<'p> {
    fn new(profile: &'p Profile, groups: &[Group]) -> Self {
        let mut classifier = Classifier {
            profile,
            calls: BlockingCalls::new(profile),
            threads: Vec::new(),
            numbers: FxHashMap::default(),
            places: BTreeMap::new(),
            idle: FxHashSet::default(),
        };
        // Where the program's own code makes calls that block, in threads of each process name.
        let mut call_sites: FxHashSet<BlockPlace> = FxHashSet::default();
        let mut maybe_work: Vec<MaybeWork> = Vec::new();
        for group in groups {
            classifier.take(group, &mut call_sites, &mut maybe_work);
        }
        for thread in &mut classifier.threads {
            // Of two that are equal the order of samples must not decide.
            let most = (thread.entries.iter())
                .max_by_key(|(entry, samples)| (**samples, Reverse(entry.order_key(profile))));
            thread.role.2 = most.map_or(thread.role.2, |(entry, _)| *entry);
        }
        for work in maybe_work {
            let thread = &mut classifier.threads[work.thread];
            // What the thread does inside of the call that blocks belongs to the wait.
            if !call_sites.contains(&(thread.role.1, work.call_site)) {
                // Threads without candidates need no judgement, but do what others do.
                thread.work.add(work.user, work.amount);
            }
        }
        let mut sums = TallySums::new(profile);
        for thread in &mut classifier.threads {
            sums.sum_up(&mut thread.samples);
            sums.sum_up(&mut thread.work.time);
        }
        classifier
    }

    /// Takes in what a thread did at one stack: a wait that may be idle, or what may be work.
    fn take(
        &mut self,
        group: &Group,
        call_sites: &mut FxHashSet<BlockPlace>,
        maybe_work: &mut Vec<MaybeWork>,
    ) {
        let Some(stack) = group.stack else { return };
        let blocking = self.calls.of(stack);
        let Some(user) = blocking.user else {
            if let Activity::Waiting(reason) = group.activity
                && blocking.may_be_idle(reason)
                && blocking.is_kernel_loop
            {
                self.idle.insert((group.task, stack, reason));
            }
            return;
        };
        let number = self.thread(group.task);
        let entry = blocking.entry.map(|entry| self.calls.function(entry));
        let thread = &mut self.threads[number];
        if let Some(entry) = entry {
            *thread.entries.entry(entry).or_default() += group.amount.samples;
        }
        thread.samples.add(user, group.amount.samples);
        let call_site = blocking.call_site.unwrap_or(CallSite::at(user));
        if let Activity::Waiting(reason) = group.activity
            && is_candidate(self.profile, group.task, &blocking, reason)
        {
            let process = self.profile.tables.task(group.task).process;
            call_sites.insert((process, call_site));
            let place = (process, if call_site.builtin.is_some() { call_site } else { CallSite::at(user) });
            thread.candidates.push(Candidate {
                task: group.task,
                stack,
                reason,
                judged_as: blocking.judged_as(reason),
                user,
                own_frames: blocking.own_frames,
                place,
                amount: group.amount,
                is_known: blocking.own_frames == 0 || blocking.in_loop,
            });
            self.places.entry(place).or_default().insert(number);
        } else if !matches!(group.activity, Activity::Waiting(Reason::NoCpu | Reason::Stopped)) {
            // Waiting for a CPU, or in a debugger, says nothing of what the thread wanted.
            maybe_work.push(MaybeWork { thread: number, user, call_site, amount: group.amount });
        }
    }

    /// The number of a thread, which is new when it was not seen before.
    fn thread(&mut self, task: TaskId) -> usize {
        let row = self.profile.tables.task(task);
        let number = *self.numbers.entry((row.tid, row.generation)).or_insert(self.threads.len());
        if number == self.threads.len() {
            self.threads.push(Thread::default());
        }
        let thread = &mut self.threads[number];
        (thread.role.0, thread.role.1) = (row.comm, row.process);
        number
    }

    fn idle(mut self) -> FxHashSet<(TaskId, StackId, Reason)> {
        let places = std::mem::take(&mut self.places);
        let mut divergences: FxHashMap<BlockPlace, Option<usize>> = FxHashMap::default();
        for (place, there) in &places {
            let work = SharedWork::of(there.iter().map(|number| &self.threads[*number].work));
            if work.is_enough() {
                divergences.insert(*place, work.divergence_depth(self.profile, place.1));
            }
        }
        for thread in &mut self.threads {
            for candidate in &thread.candidates {
                if let Some(Some(divergence_depth)) = divergences.get(&candidate.place) {
                    thread.divergences.entry(*divergence_depth).or_default().add(candidate.amount);
                }
            }
        }
        let roles = self.roles();
        let mut verdicts: FxHashMap<(BlockPlace, Reason), bool> = FxHashMap::default();
        let threads = std::mem::take(&mut self.threads);
        let nowhere = BTreeSet::new();
        for candidate in threads.iter().flat_map(|thread| &thread.candidates) {
            let key = (candidate.place, candidate.judged_as);
            let is_idle = candidate.is_known
                || *verdicts.entry(key).or_insert_with(|| {
                    let there = places.get(&candidate.place).unwrap_or(&nowhere);
                    match divergences.get(&candidate.place) {
                        Some(divergence_depth) => divergence_depth.is_some_and(|divergence_depth| {
                            Some(divergence_depth) <= outermost_divergence(&threads, there)
                                && self.is_loop(&threads, there, candidate, divergence_depth)
                        }),
                        None => self.is_idle_by_role(&threads, &roles, there, candidate),
                    }
                });
            if is_idle {
                self.idle.insert((candidate.task, candidate.stack, candidate.reason));
            }
        }
        self.idle
    }

    /// The threads of each role.
    fn roles(&self) -> FxHashMap<Role, Vec<usize>> {
        let mut roles: FxHashMap<Role, Vec<usize>> = FxHashMap::default();
        for (number, thread) in self.threads.iter().enumerate() {
            roles.entry(thread.role).or_default().push(number);
        }
        roles
    }

    /// Whether the function that makes the call below the outer `divergence_depth` frames can be the loop of the threads
    /// that wait `there`, by what the call waits for.
    fn is_loop(
        &mut self,
        threads: &[Thread],
        there: &BTreeSet<usize>,
        candidate: &Candidate,
        divergence_depth: usize,
    ) -> bool {
        let user = candidate.user;
        let is_anywhere = matches!(candidate.judged_as, Reason::Sleep | Reason::Condvar | Reason::Futex);
        let is_own_call =
            candidate.judged_as != Reason::Sleep || self.calls.own_frames_below(user, divergence_depth) <= 1;
        !is_anywhere || (is_own_call && stay_under(self.profile, threads, there, user, divergence_depth))
    }

    /// Whether a wait of threads that hardly worked is idle, by the work of all threads that have their roles.
    fn is_idle_by_role(
        &self,
        threads: &[Thread],
        roles: &FxHashMap<Role, Vec<usize>>,
        there: &BTreeSet<usize>,
        candidate: &Candidate,
    ) -> bool {
        let theirs: BTreeSet<usize> = (there.iter())
            .flat_map(|number| roles.get(&threads[*number].role).into_iter().flatten().copied())
            .collect();
        let work = SharedWork::of(theirs.iter().map(|number| &threads[*number].work));
        // Where nothing else is known, a sleep deep inside of the program is part of what it does.
        let is_deep = candidate.judged_as == Reason::Sleep && candidate.own_frames > MOST_OWN_FRAMES_OF_SLEEP;
        if !work.is_enough() {
            return !is_deep;
        }
        work.divergence_depth(self.profile, candidate.place.1).is_some()
    }
}

/// Whether a wait of a thread for `reason`, in a call that blocks, is idle where it is in the thread's top loop.
fn is_candidate(profile: &Profile, task: TaskId, blocking: &Blocking, reason: Reason) -> bool {
    let judged_as = blocking.judged_as(reason);
    let is_parked = matches!(judged_as, Reason::Condvar | Reason::Futex);
    blocking.may_be_idle(reason)
        && !is_commands_own_sleep(profile, task, judged_as)
        && (!is_parked || blocking.own_frames <= MOST_OWN_FRAMES_OF_PARK || blocking.in_loop)
}

/// Whether a wait is a sleep of the first thread of a command that was started for the recording: that is what the command
/// does, however little else.
fn is_commands_own_sleep(profile: &Profile, task: TaskId, judged_as: Reason) -> bool {
    let (meta, task) = (&profile.meta, profile.tables.task(task));
    judged_as == Reason::Sleep
        && meta.is_command
        && task.tid == task.pid
        && meta.target_pids.contains(&task.pid)
}

/// Whether nearly all samples of the threads `there` were taken under the outer `frames` of `stack`.
fn stay_under(
    profile: &Profile,
    threads: &[Thread],
    there: &BTreeSet<usize>,
    stack: StackId,
    frames: usize,
) -> bool {
    let Some(root) = prefix(profile, stack, frames) else { return true };
    let samples = || there.iter().map(|number| &threads[*number].samples);
    let all = samples().map(|samples| samples.total).fold(0, u64::saturating_add);
    let inside = samples().map(|samples| samples.under(root)).fold(0, u64::saturating_add);
    percent(all.saturating_sub(inside), all) <= LEFT_PERCENT
}

/// The outermost step at which waits of the threads `there` that are not rare turn away from their work.
fn outermost_divergence(threads: &[Thread], there: &BTreeSet<usize>) -> Option<usize> {
    let mut at: BTreeMap<usize, Amount> = BTreeMap::new();
    let mut all = Amount::default();
    for (divergence_depth, amount) in there.iter().flat_map(|number| &threads[*number].divergences) {
        at.entry(*divergence_depth).or_default().add(*amount);
        all.add(*amount);
    }
    let is_rare = |amount: &Amount| {
        percent(amount.weight, all.weight) < RARE_PERCENT
            && percent(amount.count_thousandths, all.count_thousandths) < RARE_PERCENT
    };
    at.iter().find(|(_, amount)| !is_rare(amount)).map(|(divergence_depth, _)| *divergence_depth)
}
