//! Probes while they are there: attached before the recording begins, watched for what their hits cost, and taken off if that is
//! more than may be.

use super::plan::{PlaceToAttach, PlannedPlace, ProbePlan};
use super::{call_totals, price};
use crate::base::failure::{Failure, status, without_error_numbers};
use crate::base::units;
use crate::bpf::{ProfSkel, prof_probe, prof_probe_counts};
use crate::profile::EventKind;
use crate::record::environment::rights;
use libbpf_rs::{Link, MapCore, MapFlags, RawTracepointOpts, UprobeOpts, libbpf_sys};
use std::mem::size_of;
use std::os::fd::{AsFd, AsRawFd};

/// CPU time that hits may cost before the share counts, ns: a burst at the start is no rate.
const GRACE_NS: u64 = 100_000_000;
/// Time between two looks at what hits have cost, ns.
const LOOK_INTERVAL_NS: u64 = 100_000_000;
/// Process of a probe that is in all of them.
const EVERY_PROCESS: i32 = -1;

/// What happened at a place so far, on all CPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct PlaceCounts {
    hits: u64,
    other: u64,
    kept: u64,
    busy: u64,
    full: u64,
    odd: u64,
    begun: u64,
    own_ns: u64,
}

/// The probes of a recording that runs.
#[derive(Debug)]
pub(crate) struct AttachedProbes {
    plan: ProbePlan,
    /// Links of each place.
    links: Vec<Vec<Link>>,
    /// Probes that were taken off, and when, ns from the start.
    taken_off: Vec<(usize, u64)>,
    next_look_ns: u64,
    /// What the user should know of what was attached.
    pub(crate) notices: Vec<String>,
}

impl AttachedProbes {
    /// Attaches all probes. The programs count nothing before the recording begins.
    ///
    /// # Errors
    ///
    /// A [`Failure`] that says which one the kernel refuses. `first_event` is the number that samples of the first probe have.
    pub(crate) fn attach(
        skeleton: &ProfSkel<'_>,
        mut plan: ProbePlan,
        first_event: u32,
    ) -> Result<Self, Failure> {
        let (mut links, mut notices) = (Vec::new(), Vec::new());
        for number in 0..plan.places.len() {
            let place = &plan.places[number];
            let name = plan.events[place.probe].0.name.clone();
            let tell = |place: &PlannedPlace| {
                let probe = place.weight.for_kernel(first_event + place.probe as u32, place.hit_ns);
                skeleton.maps.probes.update(&(number as u32).to_ne_bytes(), bytes_of(&probe), MapFlags::ANY)
            };
            let is_of_calls = matches!(place.what, PlaceToAttach::SystemCalls);
            let before_ns = if is_of_calls { price::system_call_ns() } else { 0 };
            let attached = tell(place).and_then(|()| attach_place(skeleton, place, number as u64 + 1));
            links.push(attached.map_err(|error| refusal(&name, place, &error))?);
            if is_of_calls {
                let hit_ns = price::system_call_ns().saturating_sub(before_ns);
                notices.push(format!(
                    "{name}: each system call of every process takes {} longer ({} before), and of the recorded ones more; \
                     stacks are {}",
                    units::duration(hit_ns),
                    units::duration(before_ns),
                    plan.share()
                ));
                plan.places[number].hit_ns = hit_ns;
                let place = &plan.places[number];
                tell(place).map_err(|error| refusal(&name, place, &error))?;
            }
        }
        let (taken_off, next_look_ns) = (Vec::new(), LOOK_INTERVAL_NS);
        Ok(AttachedProbes { plan, links, taken_off, next_look_ns, notices })
    }

    /// Takes probes off whose hits have cost more than may be, `elapsed_ns` after the start on so many CPUs.
    pub(crate) fn watch(&mut self, skeleton: &ProfSkel<'_>, elapsed_ns: u64, cpus: u32) {
        if elapsed_ns < self.next_look_ns || self.plan.programs.overhead_ppm == 0 {
            return;
        }
        self.next_look_ns = elapsed_ns + LOOK_INTERVAL_NS;
        let counts = self.counts(skeleton);
        let mut costs = vec![0u64; self.plan.events.len()];
        for (place, counted) in self.plan.places.iter().zip(&counts) {
            costs[place.probe] += counted.cost_ns(place.hit_ns);
        }
        let share = u128::from(elapsed_ns) * u128::from(cpus) * u128::from(self.plan.programs.overhead_ppm);
        let allowed = GRACE_NS + (share / 1_000_000) as u64;
        if costs.iter().sum::<u64>() <= allowed {
            return;
        }
        let is_there = |probe: &usize| !self.taken_off.iter().any(|(off, _)| off == probe);
        let Some(probe) = (0..costs.len()).filter(is_there).max_by_key(|probe| costs[*probe]) else { return };
        if costs[probe] == 0 {
            return;
        }
        for (place, links) in self.plan.places.iter().zip(&mut self.links) {
            if place.probe == probe {
                links.clear();
            }
        }
        self.taken_off.push((probe, elapsed_ns));
    }

    /// Takes all probes off.
    pub(crate) fn stop(&mut self) {
        self.links.iter_mut().for_each(Vec::clear);
    }

    /// Hits that were lost: they did not fit into their ring, or there was no memory for their stacks.
    pub(crate) fn lost(&self, skeleton: &ProfSkel<'_>) -> u64 {
        self.counts(skeleton).iter().map(|counted| counted.full + counted.busy).sum()
    }

    /// Hits of tracepoints, of any thread, that came while another one was taken on the same CPU: the kernel runs no program then.
    fn missed(&self, skeleton: &ProfSkel<'_>) -> u64 {
        if self.plan.programs.tracepoints == 0 {
            return 0;
        }
        let mut info = libbpf_sys::bpf_prog_info::default();
        let mut bytes = size_of::<libbpf_sys::bpf_prog_info>() as u32;
        let program = skeleton.progs.on_tracepoint.as_fd().as_raw_fd();
        // SAFETY: the structure is one of integers, and the call writes at most as many bytes as it is told that it has.
        let failed =
            unsafe { libbpf_sys::bpf_obj_get_info_by_fd(program, (&raw mut info).cast(), &raw mut bytes) };
        if failed == 0 { info.recursion_misses } else { 0 }
    }

    /// Says what came of each probe.
    pub(crate) fn summary(&self, skeleton: &ProfSkel<'_>) -> Vec<String> {
        let counts = self.counts(skeleton);
        let of_probe = |probe: usize| {
            let mut sum = PlaceCounts::default();
            let mut cost_ns = 0u64;
            for (place, counted) in
                self.plan.places.iter().zip(&counts).filter(|(place, _)| place.probe == probe)
            {
                sum.add(counted);
                cost_ns += counted.cost_ns(place.hit_ns);
            }
            let off = self.taken_off.iter().find(|(off, _)| *off == probe).map(|(_, ns)| *ns);
            said_of(&self.plan.events[probe].0, &sum, cost_ns, off)
        };
        let missed = match self.missed(skeleton) {
            0 => None,
            missed => Some(format!(
                "{} of tracepoints, of recorded threads or others, came while another was taken on the same CPU, and were missed",
                units::counted(missed, "hit")
            )),
        };
        let calls = self.plan.programs.system_calls.and_then(|_| call_totals::said(skeleton));
        (0..self.plan.events.len()).map(of_probe).chain(calls).chain(missed).collect()
    }

    fn counts(&self, skeleton: &ProfSkel<'_>) -> Vec<PlaceCounts> {
        let of_place = |number: u32| {
            let per_cpu = skeleton.maps.probe_counts.lookup_percpu(&number.to_ne_bytes(), MapFlags::ANY);
            let mut sum = PlaceCounts::default();
            for cpu in per_cpu.ok().flatten().unwrap_or_default() {
                sum.add(&PlaceCounts::decode(&cpu));
            }
            sum
        };
        (0..self.plan.places.len() as u32).map(of_place).collect()
    }
}

impl PlaceCounts {
    fn decode(bytes: &[u8]) -> Self {
        let word = |at: usize| {
            let word = bytes.get(at..).and_then(|rest| rest.first_chunk());
            word.copied().map_or(0, u64::from_ne_bytes)
        };
        PlaceCounts {
            hits: word(std::mem::offset_of!(prof_probe_counts, hits)),
            other: word(std::mem::offset_of!(prof_probe_counts, other)),
            kept: word(std::mem::offset_of!(prof_probe_counts, kept)),
            busy: word(std::mem::offset_of!(prof_probe_counts, busy)),
            full: word(std::mem::offset_of!(prof_probe_counts, full)),
            odd: word(std::mem::offset_of!(prof_probe_counts, odd)),
            begun: word(std::mem::offset_of!(prof_probe_counts, begun)),
            own_ns: word(std::mem::offset_of!(prof_probe_counts, own_ns)),
        }
    }

    /// What its hits have cost before any stack was taken, where one costs `hit_ns` by itself.
    fn cost_ns(&self, hit_ns: u64) -> u64 {
        (self.hits + self.other).saturating_mul(hit_ns).saturating_add(self.own_ns)
    }

    fn add(&mut self, other: &Self) {
        self.hits += other.hits;
        self.other += other.other;
        self.kept += other.kept;
        self.busy += other.busy;
        self.full += other.full;
        self.odd += other.odd;
        self.begun += other.begun;
        self.own_ns += other.own_ns;
    }
}

/// What came of a probe, in one line.
fn said_of(kind: &EventKind, counted: &PlaceCounts, cost_ns: u64, off_ns: Option<u64>) -> String {
    let (name, noun) = (&kind.name, &kind.noun);
    let mut said = format!("{name}: {}", units::counted(counted.hits, noun));
    let thinned = counted.hits.saturating_sub(counted.kept + counted.busy + counted.full);
    if thinned > 0 {
        said += &format!(
            ", stacks of {} to keep to --max-overhead (sampled at random, and weighted up)",
            units::count(counted.kept)
        );
    }
    if counted.other > 0 {
        said += &format!(", and {} of threads that are not recorded", units::count(counted.other));
    }
    if cost_ns > 0 {
        said += &format!("; they cost {} before any stack was taken", units::duration(cost_ns));
    }
    let lost = counted.busy + counted.full;
    if lost > 0 {
        said += &format!("; {} lost: no memory for their stacks at that moment", units::counted(lost, noun));
    }
    if *kind == EventKind::SYSTEM_CALLS {
        let under_way = counted.begun.saturating_sub(counted.hits);
        if under_way > 0 {
            said += &format!("; {} had not ended: not counted", units::counted(under_way, noun));
        }
        if counted.odd > 0 {
            said += &format!(
                "; {} without a beginning (before the recording, of new threads, or refused by a filter): not counted",
                units::counted(counted.odd, "end")
            );
        }
    } else if counted.odd > 0 {
        said += &format!("; {} no amounts (negative, or above 2^40) and count as 0", plural(counted.odd));
    }
    if let Some(off_ns) = off_ns {
        said += &format!(
            "; taken off after {}, since {noun}s cost more than --max-overhead allows: nothing was counted from then on",
            units::duration(off_ns)
        );
    }
    said
}

fn plural(weights: u64) -> String {
    match weights {
        1 => "1 weight is".to_owned(),
        weights => format!("{} weights are", units::count(weights)),
    }
}

/// Attaches the program of one place.
fn attach_place(skeleton: &ProfSkel<'_>, place: &PlannedPlace, cookie: u64) -> libbpf_rs::Result<Vec<Link>> {
    match &place.what {
        PlaceToAttach::SystemCalls => {
            let (on_call_begin, on_call_end) = (&skeleton.progs.on_call_begin, &skeleton.progs.on_call_end);
            // The end first: a beginning without one stays.
            Ok(vec![
                on_call_end.attach_raw_tracepoint("sys_exit")?,
                on_call_begin.attach_raw_tracepoint("sys_enter")?,
            ])
        }
        PlaceToAttach::Tracepoint(name) => {
            let program = &skeleton.progs.on_tracepoint;
            let options = RawTracepointOpts { cookie, ..RawTracepointOpts::default() };
            // Older kernels know no cookies here, and have one tracepoint.
            let link = match program.attach_raw_tracepoint_with_opts(name, options) {
                Err(_) => program.attach_raw_tracepoint(name)?,
                Ok(link) => link,
            };
            Ok(vec![link])
        }
        PlaceToAttach::Instruction { file, offset, semaphore_offset, pids, .. } => {
            let path = format!("/proc/self/fd/{}", file.as_raw_fd());
            let everyone = [EVERY_PROCESS];
            let own: Vec<i32> = pids.iter().flatten().map(|pid| *pid as i32).collect();
            let pids: &[i32] = if pids.is_some() { &own } else { &everyone };
            let attach = |pid: &i32| {
                let options = UprobeOpts {
                    cookie,
                    ref_ctr_offset: *semaphore_offset as usize,
                    ..UprobeOpts::default()
                };
                skeleton.progs.on_instruction.attach_uprobe_with_opts(*pid, &path, *offset as usize, options)
            };
            pids.iter().map(attach).collect()
        }
    }
}

/// Why the kernel refuses a probe.
fn refusal(name: &str, place: &PlannedPlace, error: &libbpf_rs::Error) -> Failure {
    let what = format!("cannot probe {name}");
    let text = format!("{error:#}");
    if text.contains("Operation not permitted") || text.contains("Permission denied") {
        return rights::not_permitted(&what);
    }
    let failure = Failure::new(status::FAILED, format!("{what}: {}", without_error_numbers(&text)));
    match &place.what {
        PlaceToAttach::SystemCalls => failure.hint("the kernel needs raw tracepoints of system calls (CONFIG_HAVE_SYSCALL_TRACEPOINTS)"),
        PlaceToAttach::Tracepoint(_) => failure.hint("a tracepoint may have fewer arguments than another one in the same recording: record it alone"),
        PlaceToAttach::Instruction { path, offset, .. } => failure.hint(format!(
            "the kernel refuses some instructions (byte {offset:#x} of `{path}`), and needs uprobes (CONFIG_UPROBE_EVENTS)"
        )),
    }
}

fn bytes_of(probe: &prof_probe) -> &[u8] {
    // SAFETY: prof_probe is made of integers without padding (its size is asserted), and is borrowed for as long as its bytes.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(probe).cast::<u8>(), size_of::<prof_probe>()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_came_of_a_probe_is_said_in_one_line() {
        let kind = EventKind { noun: "hit".into(), ..EventKind::counted("uprobe:a:f", "hits of f") };
        let counted = PlaceCounts { hits: 1000, kept: 1000, ..PlaceCounts::default() };
        assert_eq!(
            said_of(&kind, &counted, 450_000, None),
            "uprobe:a:f: 1,000 hits; they cost 450 us before any stack was taken"
        );
        let thinned = PlaceCounts { kept: 10, busy: 1, odd: 2, ..counted };
        let said = said_of(&kind, &thinned, 0, Some(1_200_000_000));
        assert!(
            said.contains("stacks of 10 ") && said.contains("1 hit lost") && said.contains("2 weights are"),
            "{said}"
        );
        assert!(said.contains("taken off after 1.20 s"), "{said}");
        let calls = PlaceCounts { odd: 1, begun: 1002, ..counted };
        assert_eq!(
            said_of(&EventKind::SYSTEM_CALLS, &calls, 0, None),
            "syscalls: 1,000 calls; 2 calls had not ended: not counted; 1 end without a beginning (before the recording, of new \
             threads, or refused by a filter): not counted"
        );
    }
}
