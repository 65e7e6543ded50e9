//! The heap in one recording: which processes are patched, and that they are as they were at its end.

use super::finder::{self, FoundAllocator};
use super::functions::{AllocatorFunction, FunctionKind};
use super::sampling_mean::{self, SamplingMean};
use super::service::{self, Probe};
use crate::base::failure::{Failure, io_words, status};
use crate::base::{opener, units};
use crate::bpf::MAX_BLOCK_PLACES;
use crate::record::environment::namespaces::monotonic_ns;
use crate::record::modules::ModuleFiles;
use crate::record::probes::allocator_probes::AllocatorProbe;
use crate::record::process::proc_fs;
use crate::record::process::table::Processes;
use std::collections::{BTreeMap, BTreeSet};
use std::os::fd::OwnedFd;

/// Time between two looks at how much memory processes have, ns.
const MEMORY_INTERVAL_NS: u64 = 1_000_000_000;

/// Sampling of the heap.
#[derive(Debug)]
pub(crate) struct HeapSampling {
    mean: SamplingMean,
    /// The allocators of each process that is to be sampled.
    planned: BTreeMap<u32, Vec<FoundAllocator>>,
    /// Processes that are.
    sampled: BTreeMap<u32, SampledProcess>,
    /// Number of places so far at which programs say themselves which blocks they sample.
    places: usize,
    /// A command is sampled from its entry point on.
    begins_at_entry: bool,
    /// When the memory of processes is looked at again, ns from the start.
    next_memory_ns: u64,
}

/// A process whose blocks are sampled.
#[derive(Debug, Clone, Copy)]
struct SampledProcess {
    /// Since when, CLOCK_MONOTONIC, ns.
    since_ns: u64,
    /// Memory without files that it had then, bytes.
    memory_bytes: Option<u64>,
    /// And when it was last looked at.
    last_bytes: Option<u64>,
    /// It has a sampler of prof's; else it samples blocks itself.
    is_patched: bool,
}

/// A probe that says which block is sampled, or freed.
#[derive(Debug)]
pub(crate) struct BlockProbe {
    pub(crate) event: OwnedFd,
    pub(crate) is_end: bool,
    /// Of a program that samples blocks itself: the number of the place, and the place.
    pub(crate) place: Option<(usize, AllocatorProbe)>,
}

/// What is known at the end.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct HeapEnd {
    /// Sampled blocks that could not be followed.
    pub(crate) not_followed: u64,
    /// Growth of the processes' memory without files, bytes, as far as they still were there.
    pub(crate) growth_bytes: u64,
    /// Processes that are not as they were, in words.
    pub(crate) notices: Vec<String>,
}

impl HeapSampling {
    /// Nothing is planned so far. Samples may take this share of a CPU, ppm; 0: no limit. A command is sampled from its entry point on
    /// where it `begins_at_entry`, else later.
    ///
    /// # Errors
    ///
    /// When there is no process that could put a sampler into others.
    pub(crate) fn new(overhead_ppm: u32, begins_at_entry: bool) -> Result<Self, Failure> {
        if !opener::is_running() {
            return Err(Failure::new(
                status::NOT_PERMITTED,
                "-e heap needs root: it changes the memory of its target",
            )
            .hint("page faults need less, and say who first used memory:  prof record -e page-faults …"));
        }
        let mean = SamplingMean::new(overhead_ppm);
        let (planned, sampled) = (BTreeMap::new(), BTreeMap::new());
        Ok(HeapSampling { mean, planned, sampled, places: 0, begins_at_entry, next_memory_ns: 0 })
    }

    /// By which rule blocks are sampled, for people.
    pub(crate) fn rule(overhead_ppm: u32) -> String {
        let first = units::bytes(sampling_mean::FIRST);
        let share = match overhead_ppm {
            0 => "a CPU".to_owned(),
            ppm => format!("{}% of a CPU", f64::from(ppm) / 1e4),
        };
        format!("a block per {first} at first, within {share}")
    }

    /// Has more or fewer blocks sampled, as the budget wants it: `samples` were, and `live` blocks are live, `elapsed_ns` after the start.
    pub(crate) fn look(&mut self, elapsed_ns: u64, samples: u64, live: usize, processes: &Processes) {
        if self.sampled.is_empty() {
            return;
        }
        if elapsed_ns >= self.next_memory_ns {
            self.next_memory_ns = elapsed_ns + MEMORY_INTERVAL_NS;
            self.note_memory(processes);
        }
        let Some(mean) = self.mean.look(elapsed_ns, samples, live) else { return };
        for (pid, sampled) in self.sampled.iter().filter(|(_, process)| process.is_patched) {
            // The sampler of one that has called exec is gone.
            if processes.get(*pid).is_some_and(|process| process.exec_ns <= sampled.since_ns) {
                // One that has ended meanwhile needs none; of another that stays as it is, samples have the mean with them.
                let _ = service::set_mean(*pid, mean);
            }
        }
    }

    /// Notes how much memory the processes have now: when the recording ends, they may be gone.
    fn note_memory(&mut self, processes: &Processes) {
        for (pid, sampled) in &mut self.sampled {
            if processes.get(*pid).is_some_and(|process| process.exec_ns <= sampled.since_ns) {
                sampled.last_bytes = proc_fs::anonymous_bytes(*pid).or(sampled.last_bytes);
            }
        }
    }

    /// Finds the allocators of a process. Returns what will be done, in words: `patches 8 functions of libc.so.6`; `None` where its
    /// files could not be read in time.
    ///
    /// # Errors
    ///
    /// When it has none.
    pub(crate) fn plan(
        &mut self,
        pid: u32,
        processes: &Processes,
        files: &ModuleFiles,
    ) -> Result<Option<String>, Failure> {
        let process = processes.get(pid);
        let Some(found) = process.and_then(|process| finder::find(process, files)) else { return Ok(None) };
        if found.is_empty() {
            return Err(Failure::new(
                status::FAILED,
                cannot_words(pid, "no function `malloc` was found in it"),
            )
            .hint(
                "programs in Java and JavaScript have allocators of their own:  prof record -e page-faults …",
            )
            .hint("a program without symbol tables hides the functions of an allocator that is part of it"));
        }
        let samples_itself = found.iter().any(|found| found.samples_itself);
        let of_file = |found: &FoundAllocator| {
            let name = found.path.rsplit('/').next().unwrap_or_default();
            match samples_itself {
                true => name.to_owned(),
                false => format!("{} of {name}", units::counted(found.functions.len() as u64, "function")),
            }
        };
        let files: Vec<String> = found.iter().map(of_file).collect();
        let what = if samples_itself { "listens to the otel_memory probes of" } else { "patches" };
        self.planned.insert(pid, found);
        Ok(Some(format!("{what} {}", files.join(", "))))
    }

    /// Paths of the libraries of what is planned that sample blocks themselves. Foreign text.
    pub(crate) fn libraries(&self) -> impl Iterator<Item = &str> {
        let samples_itself = |found: &&FoundAllocator| found.samples_itself && found.path.contains(".so");
        self.planned.values().flatten().filter(samples_itself).map(|found| &*found.path)
    }

    /// Patches what is planned. Returns the probes of blocks, ends first: a block whose end is missed looks as if it were live.
    /// `notices` gets what is to be said of it.
    ///
    /// # Errors
    ///
    /// Why no process is sampled, unless `others_are_sampled` in other ways.
    pub(crate) fn begin(
        &mut self,
        notices: &mut Vec<String>,
        others_are_sampled: bool,
    ) -> Result<Vec<BlockProbe>, Failure> {
        let mut probes = Vec::new();
        let mut patches = Patches::default();
        let mut refused = RefusedProcesses::default();
        for (pid, found) in std::mem::take(&mut self.planned) {
            let memory_bytes = proc_fs::anonymous_bytes(pid);
            let is_patched = !found.iter().any(|found| found.samples_itself);
            let begun = match is_patched {
                true => patches.add(pid, found, self.mean.bytes, notices).map(|()| Vec::new()),
                false => {
                    notices.push(format!("heap: pid {pid} samples blocks itself, by a rule of its own"));
                    self.listen(pid, &found)
                }
            };
            match begun {
                Ok(found) => probes.extend(found),
                Err(error) => {
                    refused.add(pid, cannot(pid, &io_words(&error)));
                    continue;
                }
            }
            let (since_ns, last_bytes) = (monotonic_ns(), memory_bytes);
            self.sampled.insert(pid, SampledProcess { since_ns, memory_bytes, last_bytes, is_patched });
        }
        // A probe is in every process that has the sampler's file, as children of fork have: one listener for each file.
        for (pid, error) in patches.listen(&mut probes) {
            refused.add(pid, cannot(pid, &io_words(&error)));
        }
        notices.extend(patches.said());
        notices.extend(refused.unless_all(probes.is_empty() && !others_are_sampled)?);
        probes.sort_by_key(|probe| !probe.is_end);
        Ok(probes)
    }

    /// The probes of a process that samples blocks itself.
    fn listen(&mut self, pid: u32, found: &[FoundAllocator]) -> std::io::Result<Vec<BlockProbe>> {
        let mut probes = Vec::new();
        for found in found {
            for (index, place) in service::places(pid, found.code_at)?.into_iter().enumerate() {
                if self.places >= MAX_BLOCK_PLACES {
                    let what = format!("its probes are at more than {MAX_BLOCK_PLACES} places");
                    return Err(std::io::Error::other(what));
                }
                let event = service::place_event(pid, found.code_at, index)?;
                let (is_end, place) = (place.is_end, Some((self.places, place)));
                probes.push(BlockProbe { event, is_end, place });
                self.places += 1;
            }
        }
        Ok(probes)
    }

    /// Has all processes be as they were.
    pub(crate) fn end(&mut self, processes: &Processes) -> HeapEnd {
        let mut end = HeapEnd::default();
        for (pid, sampled) in std::mem::take(&mut self.sampled) {
            // It may have ended.
            let last_bytes = proc_fs::anonymous_bytes(pid).or(sampled.last_bytes);
            let memory_bytes = last_bytes.zip(sampled.memory_bytes);
            end.growth_bytes += memory_bytes.map_or(0, |(now, before)| now.saturating_sub(before));
            if processes.get(pid).is_some_and(|process| process.exec_ns > sampled.since_ns) {
                end.notices.push(format!(
                    "heap: pid {pid} has called exec: what its new program allocates is not in this recording"
                ));
            }
            if !sampled.is_patched {
                continue;
            }
            match service::restore(pid) {
                Ok(not_followed) => end.not_followed += not_followed,
                Err(error) => end.notices.push(format!(
                    "heap: pid {pid} could not be given back its functions ({}): they still jump to the sampler, which does nothing now",
                    io_words(&error)
                )),
            }
        }
        end
    }

    /// Has a command that has not begun stop at its entry point, where it can be patched, unless it is sampled later.
    ///
    /// # Errors
    ///
    /// Why it cannot.
    pub(crate) fn hold(&self, pid: u32) -> Result<(), Failure> {
        if !self.begins_at_entry {
            return Ok(());
        }
        service::hold(pid).map_err(|error| no_command(&error))
    }

    /// Waits until it has stopped there. Returns whether it has: it has begun where it is sampled later.
    ///
    /// # Errors
    ///
    /// Why it has not.
    pub(crate) fn await_entry(&self, pid: u32) -> Result<bool, Failure> {
        if self.begins_at_entry {
            service::await_entry(pid).map_err(|error| no_command(&error))?;
        }
        Ok(self.begins_at_entry)
    }

    /// Has it go on.
    pub(crate) fn go_on(pid: u32) {
        // It may have been killed.
        let _ = service::go_on(pid);
    }
}

/// Processes that are not sampled, and why.
#[derive(Debug, Default)]
pub(crate) struct RefusedProcesses {
    first: Option<Failure>,
    words: Vec<String>,
}

impl RefusedProcesses {
    pub(crate) fn add(&mut self, pid: u32, failure: Failure) {
        let why = failure.message.strip_prefix(&cannot_words(pid, "")).unwrap_or(&failure.message);
        self.words.push(format!("heap: pid {pid} is not sampled: {why}"));
        self.first.get_or_insert(failure);
    }

    /// What is to be said of them where others are sampled.
    ///
    /// # Errors
    ///
    /// The first reason, where none is.
    pub(crate) fn unless_all(self, is_none_sampled: bool) -> Result<Vec<String>, Failure> {
        match self.first.filter(|_| is_none_sampled) {
            Some(failure) => Err(failure),
            None => Ok(self.words),
        }
    }
}

fn cannot_words(pid: u32, why: &str) -> String {
    format!("cannot sample the heap of pid {pid}: {why}")
}

/// Failure to sample the heap of a process, with another way.
pub(crate) fn cannot(pid: u32, why: &str) -> Failure {
    Failure::new(status::FAILED, cannot_words(pid, why))
        .hint("page faults say who first used memory, and change nothing:  prof record -e page-faults …")
}

/// What was patched.
#[derive(Debug, Default)]
struct Patches {
    pids: Vec<u32>,
    functions: u64,
    longest_us: u64,
    /// Process and number of each sampler that is a file of its own.
    samplers: Vec<(u32, usize)>,
    /// Their files, by device and inode.
    files: BTreeSet<(u64, u64)>,
}

impl Patches {
    /// Patches a process.
    fn add(
        &mut self,
        pid: u32,
        found: Vec<FoundAllocator>,
        mean: u64,
        notices: &mut Vec<String>,
    ) -> std::io::Result<()> {
        let functions: Vec<AllocatorFunction> = found.into_iter().flat_map(|found| found.functions).collect();
        let reply = service::patch(pid, functions, mean)?;
        self.pids.push(pid);
        self.functions += reply.count as u64;
        self.longest_us = self.longest_us.max(reply.stopped_us);
        let frees = |skipped: &&String| {
            let name = skipped.split([':', ',']).next().unwrap_or_default();
            FunctionKind::of_name(name) == Some(FunctionKind::Free)
        };
        let (freeing, allocating): (Vec<&String>, Vec<&String>) = reply.skipped.iter().partition(frees);
        let list = |skipped: Vec<&String>| skipped.into_iter().cloned().collect::<Vec<_>>().join("; ");
        if !allocating.is_empty() {
            let skipped = list(allocating);
            notices.push(format!("heap: what these functions of pid {pid} allocate is not seen: {skipped}"));
        }
        if !freeing.is_empty() {
            let skipped = list(freeing);
            notices.push(format!("heap: what these functions of pid {pid} free counts as live: {skipped}"));
        }
        for (sampler, file) in reply.samplers.into_iter().enumerate() {
            if self.files.insert(file) {
                self.samplers.push((pid, sampler));
            }
        }
        Ok(())
    }

    /// Adds the probes of all samplers. Returns the processes of those that cannot be listened to, and why.
    fn listen(&self, probes: &mut Vec<BlockProbe>) -> Vec<(u32, std::io::Error)> {
        let mut failed = Vec::new();
        for &(pid, sampler) in &self.samplers {
            for (probe, is_end) in [(Probe::Freed, true), (Probe::Allocated, false)] {
                match service::probe(pid, sampler, probe) {
                    Ok(event) => probes.push(BlockProbe { event, is_end, place: None }),
                    Err(error) => failed.push((pid, error)),
                }
            }
        }
        failed
    }

    /// What was done, in words.
    fn said(&self) -> Option<String> {
        let stopped = units::duration(self.longest_us.saturating_mul(1000));
        let stopped = match self.pids[..] {
            [] => return None,
            [_] => format!("it was stopped for {stopped} at most"),
            _ => format!("each was stopped for {stopped} at most"),
        };
        let functions = units::counted(self.functions, "function");
        Some(format!("heap: {functions} of {} patched; {stopped}", of_pids(&self.pids)))
    }
}

/// Processes in words: `pid 7`, `pids 7, 8`, `10 processes (pids 7, 8, 9, …)`.
pub(crate) fn of_pids(pids: &[u32]) -> String {
    let list = |pids: &[u32]| pids.iter().map(u32::to_string).collect::<Vec<_>>().join(", ");
    match pids {
        [pid] => format!("pid {pid}"),
        [_, _] | [_, _, _] => format!("pids {}", list(pids)),
        _ => {
            let processes = units::counted(pids.len() as u64, "process");
            format!("{processes} (pids {}, …)", list(&pids[..3]))
        }
    }
}

fn no_command(error: &std::io::Error) -> Failure {
    let what = format!("cannot sample the heap of the command: {}", io_words(error));
    Failure::new(status::FAILED, what)
        .hint("start it yourself, and record it by its pid:  prof record -e heap -p PID")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_processes_are_counted() {
        assert_eq!(of_pids(&[7]), "pid 7");
        assert_eq!(of_pids(&[7, 8]), "pids 7, 8");
        assert_eq!(of_pids(&[7, 8, 9, 10]), "4 processes (pids 7, 8, 9, …)");
    }
}
