//! The heap of Go programs: the runtime samples it by itself, and prof reads what it has counted, once a second. Nothing of the
//! program is changed, and what it has allocated before the recording is known.
//!
//! The runtime counts by place: which block was freed is not known, only how many. They are taken to be freed in the order in which
//! they were allocated.

use crate::base::failure::{Failure, io_words, status};
use crate::base::pace::thread_cpu_time;
use crate::base::units;
use crate::record::goroutines::Goroutines;
use crate::record::interpreters::process_memory::ProcessMemory;
use crate::record::modules::ModuleFiles;
use crate::record::process::table::Processes;
use crate::runtimes::go::{GoFunctions, GoHeapLayout, GoHeapPlace, GoTableLack, real_calls};
use rustc_hash::FxHashMap;
use std::collections::{BTreeMap, VecDeque};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Time between two looks: at first, since a program may be brief, and in the end; and how many times as long as a look takes it
/// is at least.
const FIRST_INTERVAL: Duration = Duration::from_millis(20);
const INTERVAL: Duration = Duration::from_secs(1);
const REST: u32 = 200;
/// Most places of a program that are read.
const MOST_PLACES: usize = 1 << 17;
/// Number of the first block of a program: no address of a block in C is one of these.
const FIRST_BLOCK: u64 = 1 << 63;
/// Most sampled blocks that are followed at a time.
const MOST_LIVE: usize = 1 << 18;

/// Go programs whose heap is recorded.
#[derive(Debug)]
pub(crate) struct GoHeap {
    programs: BTreeMap<u32, GoProgramHeap>,
    interval: Duration,
    /// Times of the last look and of the next one, CLOCK_MONOTONIC, ns.
    last_ns: Option<u64>,
    next_ns: u64,
    /// Blocks that are followed.
    live: usize,
    /// Sampled blocks for which there was no room.
    pub(crate) not_followed: u64,
}

#[derive(Debug)]
struct GoProgramHeap {
    memory: ProcessMemory,
    layout: Option<GoHeapLayout>,
    /// Nothing that it has allocated is from before the recording, or that was counted.
    is_counted: bool,
    places: FxHashMap<u64, FollowedPlace>,
    /// Number of the next block.
    next_block: u64,
    /// Looks at which its places could not be read, and why at the last of them.
    failed: u64,
    lack: Option<GoTableLack>,
    /// The last look has failed: what was allocated since is missing.
    is_behind: bool,
}

/// What was counted at a place so far.
#[derive(Debug)]
struct FollowedPlace {
    stack: Arc<[u64]>,
    allocated: u64,
    freed: u64,
    /// Numbers of the blocks that are live, the oldest first.
    live: VecDeque<u64>,
}

/// What a place of a program has allocated and freed since the last look.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GoHeapStep {
    pub(crate) pid: u32,
    /// Size of a block, bytes, and the mean number of bytes between sampled ones.
    pub(crate) size: u64,
    pub(crate) mean: u64,
    /// Return addresses, leaf first.
    pub(crate) stack: Arc<[u64]>,
    /// Time after which they were allocated, CLOCK_MONOTONIC, ns; or they were there before the recording.
    pub(crate) since_ns: u64,
    pub(crate) is_from_before: bool,
    /// Numbers of blocks, which take the place of addresses.
    pub(crate) allocated: Vec<u64>,
    pub(crate) freed: Vec<u64>,
}

impl Default for GoHeap {
    fn default() -> Self {
        GoHeap {
            programs: BTreeMap::new(),
            interval: FIRST_INTERVAL,
            last_ns: None,
            next_ns: 0,
            live: 0,
            not_followed: 0,
        }
    }
}

impl GoHeap {
    /// Adds the program of a process, which has begun or is only about to. Returns what will be done, in words.
    ///
    /// # Errors
    ///
    /// Why its heap cannot be read.
    pub(crate) fn add(
        &mut self,
        (pid, has_begun): (u32, bool),
        goroutines: &mut Goroutines,
        (processes, files): (&Processes, &ModuleFiles),
    ) -> Result<String, Failure> {
        let failed = |why: &str| {
            Failure::new(status::FAILED, format!("cannot read the heap of pid {pid}, a Go program: {why}"))
                .hint("page faults say who first used memory, of any program:  prof record -e page-faults …")
        };
        let memory = ProcessMemory::open(pid).map_err(|error| failed(&io_words(&error)))?;
        let process = processes.get(pid);
        let rate = process.and_then(|process| {
            goroutines
                .with_program(process, files, |by_name, _| GoHeapLayout::rate_of(&memory, by_name))
                .flatten()
        });
        let mean = match rate {
            None => return Err(failed("its runtime is not known: it takes Go 1.19 or later, on x86-64")),
            Some(0) => {
                return Err(failed(
                    "it samples nothing, since nothing in it uses runtime.MemProfile (net/http/pprof and runtime/pprof do)",
                ));
            }
            Some(rate) => rate,
        };
        let program = GoProgramHeap {
            memory,
            layout: None,
            is_counted: !has_begun,
            places: FxHashMap::default(),
            next_block: FIRST_BLOCK,
            failed: 0,
            lack: None,
            is_behind: false,
        };
        self.programs.insert(pid, program);
        Ok(format!("reads what the Go runtime samples, one of {} bytes", units::count(mean)))
    }

    /// Whether any program is read.
    pub(crate) fn is_empty(&self) -> bool {
        self.programs.is_empty()
    }

    /// What was allocated and freed since the last look, unless that was a moment ago; `is_last`: in any case.
    pub(crate) fn look(
        &mut self,
        (now_ns, is_last): (u64, bool),
        goroutines: &mut Goroutines,
        (processes, files): (&Processes, &ModuleFiles),
    ) -> Vec<GoHeapStep> {
        if self.programs.is_empty() || now_ns < self.next_ns && !is_last {
            return Vec::new();
        }
        let begun = thread_cpu_time();
        let since_ns = self.last_ns.unwrap_or(now_ns);
        self.last_ns = Some(now_ns);
        let mut steps = Vec::new();
        for (pid, program) in &mut self.programs {
            let Some(process) = processes.get(*pid) else { continue };
            let room = (&mut self.live, &mut self.not_followed);
            goroutines.with_program(process, files, |by_name, around| {
                program.look((*pid, since_ns), (by_name, around), room, &mut steps);
            });
        }
        let has_begun = self.programs.values().all(|program| program.layout.is_some());
        self.interval = if has_begun { INTERVAL.min(self.interval * 5 / 4) } else { FIRST_INTERVAL };
        let rest = self.interval.max(thread_cpu_time().saturating_sub(begun).saturating_mul(REST));
        self.next_ns = now_ns.saturating_add(u64::try_from(rest.as_nanos()).unwrap_or(u64::MAX));
        steps
    }

    /// Says of which programs something is missing.
    pub(crate) fn lacks(&self) -> Vec<String> {
        self.programs.iter().filter_map(|(pid, program)| program.lack(*pid)).collect()
    }
}

impl GoProgramHeap {
    fn look(
        &mut self,
        (pid, since_ns): (u32, u64),
        (by_name, around): (GoFunctions<'_>, &dyn Fn(u64) -> Option<Range<u64>>),
        (live, not_followed): (&mut usize, &mut u64),
        steps: &mut Vec<GoHeapStep>,
    ) {
        if self.layout.is_none() {
            self.layout = GoHeapLayout::find(&self.memory, by_name);
        }
        let Some(layout) = self.layout else {
            // Nothing is there: what comes is new.
            self.is_counted = true;
            return;
        };
        let read = layout.read(&self.memory, MOST_PLACES);
        let read = read.and_then(|places| Ok((places, layout.rate(&self.memory).ok_or(GoTableLack::Gone)?)));
        let (places, mean) = match read {
            Ok(read) => read,
            // What it had then was live to its end, and nothing of it will be freed.
            Err(GoTableLack::Gone) => {
                *live = live.saturating_sub(self.forget_live());
                return;
            }
            Err(lack) => {
                (self.lack, self.is_behind) = (Some(lack), true);
                self.failed += 1;
                return;
            }
        };
        self.is_behind = false;
        for place in places {
            let known = self.places.entry(place.address).or_insert_with(|| FollowedPlace {
                stack: real_calls(&place.stack, &self.memory, around).into(),
                allocated: 0,
                freed: 0,
                live: VecDeque::new(),
            });
            if !self.is_counted {
                known.leave_out_what_is_gone(&place);
            }
            let room = MOST_LIVE.saturating_sub(*live);
            let (step, left_out) = known.step(&place, &mut self.next_block, room);
            *live = (*live + step.allocated.len()).saturating_sub(step.freed.len());
            *not_followed = not_followed.saturating_add(left_out);
            if !step.allocated.is_empty() || !step.freed.is_empty() {
                let is_from_before = !self.is_counted;
                steps.push(GoHeapStep { pid, mean, since_ns, is_from_before, ..step });
            }
        }
        self.is_counted = true;
    }
}

impl GoProgramHeap {
    /// Follows no block any more. Returns how many it has followed.
    fn forget_live(&mut self) -> usize {
        self.places.values_mut().map(|place| std::mem::take(&mut place.live).len()).sum()
    }

    /// Says what of it is missing.
    fn lack(&self, pid: u32) -> Option<String> {
        let why = match self.lack {
            Some(GoTableLack::TooMany) => {
                format!(
                    "more than {} places allocate, or their stacks are too long",
                    units::count(MOST_PLACES as u64)
                )
            }
            _ => "its list of places could not be read".to_owned(),
        };
        if self.failed > 0 && !self.places.is_empty() {
            let looks = units::counted(self.failed, "look");
            let missing = match self.is_behind {
                true => "what it allocated and freed after the last good one is missing",
                false => "the next one made up for it",
            };
            return Some(format!("heap: {looks} at pid {pid}, a Go program, failed: {why}; {missing}"));
        }
        let rate = self.layout.and_then(|layout| layout.rate(&self.memory));
        let why = match rate {
            _ if !self.places.is_empty() => return None,
            _ if self.failed > 0 => &why,
            Some(0) => "it samples nothing: nothing in it uses runtime.MemProfile",
            _ => "it had sampled nothing by its end",
        };
        Some(format!("heap: nothing of pid {pid}, a Go program, is in this recording: {why}"))
    }
}

impl FollowedPlace {
    /// Of what was there before anyone looked, only what is left counts.
    fn leave_out_what_is_gone(&mut self, now: &GoHeapPlace) {
        let gone = now.allocated.min(now.freed);
        (self.allocated, self.freed) = (gone, gone);
    }

    /// What has happened since it was counted last, and the number of blocks for which there is no room.
    fn step(&mut self, now: &GoHeapPlace, next_block: &mut u64, room: usize) -> (GoHeapStep, u64) {
        let allocated = now.allocated.saturating_sub(self.allocated);
        let freed = now.freed.saturating_sub(self.freed);
        (self.allocated, self.freed) = (now.allocated.max(self.allocated), now.freed.max(self.freed));
        let followed = allocated.min(room as u64);
        let numbers: Vec<u64> = (*next_block..*next_block + followed).collect();
        *next_block += followed;
        self.live.extend(&numbers);
        let freed = (0..freed).map_while(|_| self.live.pop_front()).collect();
        let step = GoHeapStep {
            pid: 0,
            size: now.size,
            mean: 0,
            stack: Arc::clone(&self.stack),
            since_ns: 0,
            is_from_before: false,
            allocated: numbers,
            freed,
        };
        (step, allocated - followed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(allocated: u64, freed: u64) -> GoHeapPlace {
        GoHeapPlace { address: 1, size: 64, stack: Vec::new(), allocated, freed }
    }

    fn followed() -> FollowedPlace {
        FollowedPlace { stack: Arc::new([]), allocated: 0, freed: 0, live: VecDeque::new() }
    }

    #[test]
    fn blocks_are_freed_in_the_order_of_their_allocation() {
        let (mut known, mut next) = (followed(), 7);
        let (step, _) = known.step(&place(3, 1), &mut next, 100);
        assert_eq!((step.allocated, step.freed, next), (vec![7, 8, 9], vec![7], 10));
        let (step, _) = known.step(&place(4, 3), &mut next, 100);
        assert_eq!((step.allocated, step.freed), (vec![10], vec![8, 9]));
        let (step, _) = known.step(&place(4, 3), &mut next, 100);
        assert_eq!((step.allocated.len(), step.freed.len()), (0, 0));
    }

    #[test]
    fn of_what_was_there_before_only_what_is_left_counts() {
        let (mut known, mut next) = (followed(), 0);
        known.leave_out_what_is_gone(&place(1000, 998));
        let (step, _) = known.step(&place(1000, 998), &mut next, 100);
        assert_eq!((step.allocated, step.freed), (vec![0, 1], vec![]));
    }

    #[test]
    fn looks_that_fail_are_told_and_a_program_that_has_ended_gives_its_room_back() {
        let mut program = GoProgramHeap {
            memory: ProcessMemory::open(std::process::id()).expect("own memory can be read"),
            layout: None,
            is_counted: true,
            places: FxHashMap::default(),
            next_block: 0,
            failed: 0,
            lack: None,
            is_behind: false,
        };
        let nothing = "heap: nothing of pid 7, a Go program, is in this recording:";
        assert_eq!(program.lack(7), Some(format!("{nothing} it had sampled nothing by its end")));
        (program.failed, program.lack) = (2, Some(GoTableLack::TooMany));
        let many = "more than 131,072 places allocate, or their stacks are too long";
        assert_eq!(program.lack(7), Some(format!("{nothing} {many}")));
        let (mut known, mut next) = (followed(), 0);
        known.step(&place(5, 1), &mut next, 100);
        program.places.insert(1, known);
        program.is_behind = true;
        let behind = "what it allocated and freed after the last good one is missing";
        let said = format!("heap: 2 looks at pid 7, a Go program, failed: {many}; {behind}");
        assert_eq!(program.lack(7), Some(said));
        assert_eq!((program.forget_live(), program.forget_live()), (4, 0));
        program.failed = 0;
        assert_eq!(program.lack(7), None);
    }

    #[test]
    fn blocks_for_which_there_is_no_room_are_counted() {
        let (mut known, mut next) = (followed(), 0);
        let (step, left_out) = known.step(&place(5, 4), &mut next, 2);
        assert_eq!((step.allocated, step.freed, left_out), (vec![0, 1], vec![0, 1], 3));
    }
}
