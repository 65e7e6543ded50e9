//! What Go programs have counted of waits, read a few times a second, and the rates by which they sample them.

use super::rates::{self, MOST_RELEASES, MOST_WAIT_TICKS, SIGNATURE};
use crate::base::failure::io_words;
use crate::base::opener;
use crate::base::pace::thread_cpu_time;
use crate::base::units;
use crate::profile::EventId;
use crate::record::goroutines::registry::Goroutines;
use crate::record::interpreters::process_memory::ProcessMemory;
use crate::record::modules::ModuleFiles;
use crate::record::process::mappings::Process;
use crate::record::process::table::Processes;
use crate::runtimes::go::{GoFunctions, GoTableLack, GoWaitLayout, GoWaitPlace, GoWaitRates, real_calls};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// Time between two looks: what a program counts in the last one before its end is missing. And how many times as long as a look
/// takes it is at least.
const INTERVAL: Duration = Duration::from_millis(200);
const REST: u32 = 200;
/// Most places of a list that are read.
const MOST_PLACES: usize = 1 << 16;
/// What one sample takes of a program's time, ns: the runtime walks the stack, and looks for the place. In Go 1.19; later
/// versions follow frame pointers, and need 0.2 us (`benches/go_waits.go`).
const SAMPLE_NS: f64 = 1000.0;
/// Time that has to pass before the length of a tick is known.
const LEAST_TIMED_NS: u64 = 10_000_000;

/// The events of both sides.
#[derive(Debug, Clone, Copy)]
pub(crate) struct GoWaitEvents {
    pub(super) waits: EventId,
    pub(super) holders: EventId,
}

/// Waits of the goroutines of Go programs, by what their runtimes count.
#[derive(Debug, Default)]
pub(crate) struct GoWaits {
    /// Share of a CPU that samples may take, ppm, 0: no limit; `None`: they are not recorded.
    overhead_ppm: Option<u32>,
    programs: BTreeMap<u32, GoProgramWaits>,
    /// Processes that were looked at, with the time of the program that they ran then, ns.
    tried: FxHashSet<(u32, u64)>,
    /// The processor's ticks and CLOCK_MONOTONIC, ns, at the first look.
    clock: Option<(u64, u64)>,
    last_ns: u64,
    next_ns: u64,
    lacks: Vec<String>,
}

#[derive(Debug)]
struct GoProgramWaits {
    memory: ProcessMemory,
    layout: GoWaitLayout,
    /// When the program began, ns.
    exec_ns: u64,
    /// Those that it has, and whether prof has set them.
    rates: GoWaitRates,
    is_set: bool,
    /// What was counted is from the recording: it was read before.
    is_counted: bool,
    waits: CountedPlaces,
    releases: CountedPlaces,
    /// Looks at which its lists could not be read.
    failed: u64,
}

/// Places by address.
type CountedPlaces = FxHashMap<u64, CountedPlace>;

/// What was counted at a place so far.
#[derive(Debug)]
struct CountedPlace {
    stack: Arc<[u64]>,
    count: f64,
    ticks: u64,
}

/// Side of waits that is counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitSide {
    /// Where goroutines wait.
    Waiter,
    /// Where locks are let go for which others wait.
    Holder,
}

/// What a program has counted at a place since the last look.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct GoWaitStep {
    pub(super) pid: u32,
    pub(super) side: WaitSide,
    /// Return addresses, leaf first.
    pub(super) stack: Arc<[u64]>,
    /// Time after which it was, CLOCK_MONOTONIC, ns, and how long after at most.
    pub(super) since_ns: u64,
    pub(super) span_ns: u64,
    /// Number and time of the waits, by estimate, and the variance of the time, ns squared.
    pub(super) count: f64,
    pub(super) time_ns: f64,
    pub(super) variance_ns2: f64,
}

/// Functions of the runtime by name, and what is around an address.
type OfProgram<'f> = (GoFunctions<'f>, &'f dyn Fn(u64) -> Option<Range<u64>>);

impl GoWaits {
    /// They are recorded, and may take this share of a CPU, ppm; 0: no limit.
    pub(crate) fn want(&mut self, overhead_ppm: u32) {
        self.overhead_ppm = Some(overhead_ppm);
    }

    /// What will be done to a process if it is a Go program whose waits can be sampled, in words.
    pub(crate) fn plan(
        &self,
        process: &Process,
        goroutines: &mut Goroutines,
        files: &ModuleFiles,
    ) -> Option<String> {
        self.overhead_ppm?;
        goroutines.has_program(process, files).then(|| "has the Go runtime sample waits for locks".to_owned())
    }

    /// What was counted since the last look, unless that was a moment ago; `is_last`: in any case. Programs among the processes `roots` that
    /// are new are begun with.
    pub(super) fn look(
        &mut self,
        (now_ns, is_last): (u64, bool),
        roots: &FxHashSet<u32>,
        goroutines: &mut Goroutines,
        (processes, files): (&Processes, &ModuleFiles),
    ) -> Vec<GoWaitStep> {
        if self.overhead_ppm.is_none() || now_ns < self.next_ns && !is_last {
            return Vec::new();
        }
        let begun = thread_cpu_time();
        let now_ticks = ticks();
        let (first_ticks, first_ns) = *self.clock.get_or_insert((now_ticks, now_ns));
        let timed_ns = now_ns.saturating_sub(first_ns);
        let ns_per_tick = timed_ns as f64 / now_ticks.saturating_sub(first_ticks).max(1) as f64;
        let mut steps = Vec::new();
        if timed_ns >= LEAST_TIMED_NS {
            let span = (self.last_ns, now_ns.saturating_sub(self.last_ns));
            self.count(span, ns_per_tick, goroutines, (processes, files), &mut steps);
            self.last_ns = now_ns;
        } else {
            self.last_ns = first_ns;
        }
        if !is_last {
            for pid in roots {
                self.begin_with(*pid, goroutines, (processes, files));
            }
        }
        let rest = INTERVAL.max(thread_cpu_time().saturating_sub(begun).saturating_mul(REST));
        self.next_ns = now_ns.saturating_add(u64::try_from(rest.as_nanos()).unwrap_or(u64::MAX));
        steps
    }

    /// Adds what all programs have counted.
    fn count(
        &mut self,
        span: (u64, u64),
        ns_per_tick: f64,
        goroutines: &mut Goroutines,
        (processes, files): (&Processes, &ModuleFiles),
        steps: &mut Vec<GoWaitStep>,
    ) {
        let overhead_ppm = self.overhead_ppm.unwrap_or(0);
        let lacks = &mut self.lacks;
        self.programs.retain(|pid, program| {
            let process = processes.get(*pid).filter(|process| process.exec_ns == program.exec_ns);
            let Some(process) = process else { return false };
            let counted = goroutines.with_program(process, files, |by_name, around| {
                program.count((*pid, span, ns_per_tick), (by_name, around), steps)
            });
            match counted {
                Some(Ok(samples)) => {
                    program.keep_to_budget(*pid, samples, span.1, overhead_ppm);
                    lacks.extend(program.lost_rates(*pid));
                    true
                }
                // It has ended.
                Some(Err(GoTableLack::Gone)) | None => false,
                Some(Err(lack)) => {
                    program.failed += 1;
                    if program.failed == 1 {
                        lacks.push(format!(
                            "waits of goroutines of pid {pid} could not be read all the time: {}",
                            words(lack)
                        ));
                    }
                    true
                }
            }
        });
    }

    /// Begins with the program of a process, if it is one and was not looked at before.
    fn begin_with(
        &mut self,
        pid: u32,
        goroutines: &mut Goroutines,
        (processes, files): (&Processes, &ModuleFiles),
    ) {
        let Some(process) = processes.get(pid) else { return };
        let is_known = self.programs.contains_key(&pid) || self.tried.contains(&(pid, process.exec_ns));
        if is_known || process.has_ended || !goroutines.has_program(process, files) {
            return;
        }
        self.tried.insert((pid, process.exec_ns));
        let begun = ProcessMemory::open(pid).map_err(|error| io_words(&error)).and_then(|memory| {
            let program = goroutines.with_program(process, files, |by_name, around| {
                GoProgramWaits::begin(pid, (memory, process.exec_ns), (by_name, around))
            });
            program.unwrap_or_else(|| Err("its functions are not known".to_owned()))
        });
        match begun {
            Ok(program) => {
                self.lacks.extend(program.lack(pid));
                self.programs.insert(pid, program);
            }
            Err(why) => self
                .lacks
                .push(format!("waits for locks of goroutines of pid {pid} are not in this recording: {why}")),
        }
    }

    /// Has all programs be as they were. Returns what is to be said of them.
    pub(crate) fn end(&mut self) -> Vec<String> {
        let mut notices = std::mem::take(&mut self.lacks);
        for (pid, program) in std::mem::take(&mut self.programs) {
            if !program.is_set {
                continue;
            }
            if let Err(error) = rates::end(pid) {
                notices.push(format!(
                    "the Go runtime of pid {pid} goes on sampling waits ({}): runtime.SetBlockProfileRate(0) and \
                     SetMutexProfileFraction(0) end it",
                    io_words(&error)
                ));
            }
        }
        notices
    }
}

fn words(lack: GoTableLack) -> String {
    match lack {
        GoTableLack::TooMany => format!("there are more than {} places", units::count(MOST_PLACES as u64)),
        GoTableLack::Gone | GoTableLack::Unreadable => "they changed meanwhile".to_owned(),
    }
}

impl GoProgramWaits {
    /// Has a program sample waits, unless it does that already by rates of its own.
    fn begin(pid: u32, (memory, exec_ns): (ProcessMemory, u64), of: OfProgram<'_>) -> Result<Self, String> {
        let layout = GoWaitLayout::find(&memory, of.0)
            .ok_or("its runtime is not known: it takes Go 1.19 or later, on x86-64")?;
        let rates = layout.rates(&memory).ok_or("it has ended")?;
        let mut program = GoProgramWaits {
            memory,
            layout,
            exec_ns,
            rates,
            is_set: false,
            is_counted: false,
            waits: FxHashMap::default(),
            releases: FxHashMap::default(),
            failed: 0,
        };
        if rates::are_free(rates) {
            if !opener::is_running() {
                return Err("to have its runtime sample them takes root".to_owned());
            }
            let wanted = GoWaitRates { wait_ticks: SIGNATURE, releases: 1 };
            rates::set(pid, layout.rates, wanted).map_err(|error| io_words(&error))?;
            (program.rates, program.is_set) = (wanted, true);
        }
        // What is there already is from before.
        let _ = program.count((pid, (0, 0), 0.0), of, &mut Vec::new());
        Ok(program)
    }

    /// What is missing of one that has rates of its own.
    fn lack(&self, pid: u32) -> Option<String> {
        let missing = match (self.rates.wait_ticks, self.rates.releases) {
            _ if self.is_set => return None,
            (0, _) => "who waited is not sampled",
            (_, 0) => "who held locks is not sampled",
            _ => return None,
        };
        Some(format!("pid {pid} has set rates of its own by which its Go runtime samples waits: {missing}"))
    }

    /// Says, once, that someone else has changed the rates: the program, or another prof that has ended.
    fn lost_rates(&mut self, pid: u32) -> Option<String> {
        let now = self.layout.rates(&self.memory).filter(|now| self.is_set && *now != self.rates)?;
        (self.rates, self.is_set) = (now, false);
        Some(format!(
            "the rates by which the Go runtime of pid {pid} samples waits were changed while it was recorded, by itself or by \
             another prof: waits since then are as these have it, or missing"
        ))
    }

    /// Adds to `steps` what was counted in a span of time, start and length. Returns the most samples that this can have been, of both
    /// sides.
    fn count(
        &mut self,
        (pid, (since_ns, span_ns), ns_per_tick): (u32, (u64, u64), f64),
        (by_name, around): OfProgram<'_>,
        steps: &mut Vec<GoWaitStep>,
    ) -> Result<(f64, f64), GoTableLack> {
        let rates = self.layout.rates(&self.memory).ok_or(GoTableLack::Gone)?;
        let waits = self.layout.waits(&self.memory, by_name, MOST_PLACES)?;
        let releases = self.layout.releases(&self.memory, by_name, MOST_PLACES)?;
        let stack_of = |place: &GoWaitPlace| real_calls(&place.stack, &self.memory, around);
        let (wait_ticks, one_of) = (rates.wait_ticks.max(1) as f64, rates.releases.max(1) as f64);
        let mut samples = (0.0, 0.0);
        let sides =
            [(WaitSide::Waiter, waits, &mut self.waits), (WaitSide::Holder, releases, &mut self.releases)];
        for (side, places, counted) in sides {
            for place in places {
                let known = counted.entry(place.address).or_insert_with(|| CountedPlace {
                    stack: stack_of(&place).into(),
                    count: 0.0,
                    ticks: 0,
                });
                let (count, ticks) = known.step(&place);
                if !self.is_counted || count <= 0.0 || ticks == 0 {
                    continue;
                }
                let mean_ticks = ticks as f64 / count;
                let variance_ticks2 = match side {
                    // Longer ones are all sampled.
                    WaitSide::Waiter => ticks as f64 * (wait_ticks - mean_ticks).max(0.0),
                    WaitSide::Holder => count * (one_of - 1.0) * mean_ticks * mean_ticks,
                };
                match side {
                    WaitSide::Waiter => samples.0 += count.min(ticks as f64 / wait_ticks),
                    WaitSide::Holder => samples.1 += count / one_of,
                }
                steps.push(GoWaitStep {
                    pid,
                    side,
                    stack: Arc::clone(&known.stack),
                    since_ns,
                    span_ns,
                    count,
                    time_ns: ticks as f64 * ns_per_tick,
                    variance_ns2: variance_ticks2 * ns_per_tick * ns_per_tick,
                });
            }
        }
        self.is_counted = true;
        Ok(samples)
    }

    /// Has fewer waits sampled where samples took more than they may, and more where they took far less.
    fn keep_to_budget(&mut self, pid: u32, samples: (f64, f64), span_ns: u64, overhead_ppm: u32) {
        if !self.is_set || overhead_ppm == 0 || span_ns == 0 {
            return;
        }
        let wanted = adjusted(self.rates, samples, span_ns, overhead_ppm);
        if wanted == self.rates {
            return;
        }
        match rates::set(pid, self.layout.rates, wanted) {
            Ok(()) => self.rates = wanted,
            // The program has set its own.
            Err(_) => self.is_set = false,
        }
    }
}

/// Rates by which samples of both sides take a share of a CPU, ppm, each at most half of it.
fn adjusted(rates: GoWaitRates, samples: (f64, f64), span_ns: u64, overhead_ppm: u32) -> GoWaitRates {
    let most = f64::from(overhead_ppm) / 1e6 * span_ns as f64 / SAMPLE_NS / 2.0;
    let factor = |samples: f64| match samples / most {
        share if share > 1.0 => share.ceil(),
        share if share < 0.25 => 0.5,
        _ => 1.0,
    };
    let waits = (rates.wait_ticks / SIGNATURE) as f64 * factor(samples.0);
    GoWaitRates {
        wait_ticks: SIGNATURE * (waits as u64).clamp(1, MOST_WAIT_TICKS / SIGNATURE),
        releases: ((rates.releases as f64 * factor(samples.1)) as u64).clamp(1, MOST_RELEASES),
    }
}

impl CountedPlace {
    /// What was counted since the last time: number and ticks.
    fn step(&mut self, now: &GoWaitPlace) -> (f64, u64) {
        let step = (now.count - self.count, now.ticks.saturating_sub(self.ticks));
        (self.count, self.ticks) = (now.count, now.ticks);
        step
    }
}

/// The processor's counter of ticks, by which Go measures waits.
fn ticks() -> u64 {
    #[cfg(target_arch = "x86_64")]
    // SAFETY: the instruction reads a counter.
    return unsafe { std::arch::x86_64::_rdtsc() };
    #[cfg(not(target_arch = "x86_64"))]
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_follow_what_samples_may_take() {
        let rates = |waits: u64, releases| GoWaitRates { wait_ticks: waits * SIGNATURE, releases };
        // 2 % of a CPU are 20,000 samples a second, of which each side may take half.
        let after = |rates, samples| adjusted(rates, samples, 1_000_000_000, 20_000);
        assert_eq!(after(rates(1, 1), (0.0, 0.0)), rates(1, 1), "as many as there are");
        assert_eq!(after(rates(1, 1), (8000.0, 10_000.0)), rates(1, 1), "within the budget");
        assert_eq!(after(rates(1, 1), (100_000.0, 24_000.0)), rates(10, 3));
        assert_eq!(after(rates(10, 4), (2000.0, 20.0)), rates(5, 2));
        assert_eq!(after(rates(1 << 20, MOST_RELEASES), (1e9, 1e9)), rates(1 << 20, MOST_RELEASES));
    }

    #[test]
    fn a_place_counts_what_is_new() {
        let mut known = CountedPlace { stack: Arc::new([]), count: 2.0, ticks: 100 };
        let place = |count, ticks| GoWaitPlace { address: 1, stack: Vec::new(), count, ticks };
        assert_eq!(known.step(&place(3.5, 180)), (1.5, 80));
        assert_eq!(known.step(&place(3.5, 180)), (0.0, 0));
        // A torn reading.
        assert_eq!(known.step(&place(4.0, 170)).1, 0);
    }
}
