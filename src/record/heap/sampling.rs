//! The heap in one recording: which processes are patched, and that they are as they were at its end.

use super::finder::{self, FoundAllocator};
use super::functions::AllocatorFunction;
use super::sampling_mean::{self, SamplingMean};
use super::service::{self, Probe};
use crate::base::failure::{Failure, io_words, status};
use crate::base::{opener, units};
use crate::record::environment::namespaces::monotonic_ns;
use crate::record::modules::ModuleFiles;
use crate::record::process::proc_fs;
use crate::record::process::table::Processes;
use std::collections::BTreeMap;
use std::os::fd::OwnedFd;

/// Sampling of the heap.
#[derive(Debug)]
pub(crate) struct HeapSampling {
    mean: SamplingMean,
    /// What is to be patched of each process.
    planned: BTreeMap<u32, Vec<FoundAllocator>>,
    /// Processes that were.
    patched: BTreeMap<u32, PatchedProcess>,
}

/// A process that was patched.
#[derive(Debug, Clone, Copy)]
struct PatchedProcess {
    /// When, CLOCK_MONOTONIC, ns.
    since_ns: u64,
    /// Memory without files that it had then, bytes.
    memory_bytes: Option<u64>,
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
    /// Nothing is planned so far. Samples may take this share of a CPU, ppm; 0: no limit.
    ///
    /// # Errors
    ///
    /// When there is no process that could put a sampler into others.
    pub(crate) fn new(overhead_ppm: u32) -> Result<Self, Failure> {
        if !opener::is_running() {
            return Err(Failure::new(
                status::NOT_PERMITTED,
                "-e heap needs root: it changes the memory of its target",
            )
            .hint("page faults need less, and say who first used memory:  prof record -e page-faults …"));
        }
        let mean = SamplingMean::new(overhead_ppm);
        Ok(HeapSampling { mean, planned: BTreeMap::new(), patched: BTreeMap::new() })
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
        if self.patched.is_empty() {
            return;
        }
        let Some(mean) = self.mean.look(elapsed_ns, samples, live) else { return };
        for (pid, patched) in &self.patched {
            // The sampler of one that has called exec is gone.
            if processes.get(*pid).is_some_and(|process| process.exec_ns <= patched.since_ns) {
                // One that has ended meanwhile needs none; of another that stays as it is, samples have the mean with them.
                let _ = service::set_mean(*pid, mean);
            }
        }
    }

    /// Finds the allocators of a process. Returns what will be patched of it, in words: `8 functions of libc.so.6`; `None` where its
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
            let what = format!("cannot sample the heap of pid {pid}: no function `malloc` was found in it");
            return Err(Failure::new(status::FAILED, what)
                .hint("programs in Java and JavaScript have allocators of their own:  prof record -e page-faults …")
                .hint(
                    "a program without symbol tables hides the functions of an allocator that is part of it",
                ));
        }
        let of_file = |found: &FoundAllocator| {
            let name = found.path.rsplit('/').next().unwrap_or_default();
            format!("{} of {name}", units::counted(found.functions.len() as u64, "function"))
        };
        let files: Vec<String> = found.iter().map(of_file).collect();
        self.planned.insert(pid, found);
        Ok(Some(files.join(", ")))
    }

    /// Patches what is planned. Returns the events of the probes of each sampler: of blocks that are allocated, and freed.
    /// `notices` gets what is to be said of it.
    ///
    /// # Errors
    ///
    /// Why a process is left as it is.
    pub(crate) fn patch(&mut self, notices: &mut Vec<String>) -> Result<Vec<[OwnedFd; 2]>, Failure> {
        let mut probes = Vec::new();
        let (mut pids, mut functions_patched, mut longest_us) = (Vec::new(), 0, 0);
        for (pid, found) in std::mem::take(&mut self.planned) {
            let functions: Vec<AllocatorFunction> =
                found.into_iter().flat_map(|found| found.functions).collect();
            let failed = |error: std::io::Error| {
                let what = format!("cannot sample the heap of pid {pid}: {}", io_words(&error));
                Failure::new(status::FAILED, what)
                    .hint("page faults say who first used memory, and change nothing:  prof record -e page-faults …")
            };
            let memory_bytes = proc_fs::anonymous_bytes(pid);
            let reply = service::patch(pid, functions, self.mean.bytes).map_err(failed)?;
            self.patched.insert(pid, PatchedProcess { since_ns: monotonic_ns(), memory_bytes });
            pids.push(pid);
            functions_patched += reply.count as u64;
            longest_us = longest_us.max(reply.stopped_us);
            if !reply.skipped.is_empty() {
                let skipped = reply.skipped.join("; ");
                notices
                    .push(format!("heap: what these functions of pid {pid} allocate is not seen: {skipped}"));
            }
            for sampler in 0..reply.samplers {
                let probe = |probe| service::probe(pid, sampler, probe).map_err(failed);
                probes.push([probe(Probe::Allocated)?, probe(Probe::Freed)?]);
            }
        }
        let stopped = units::duration(longest_us.saturating_mul(1000));
        let stopped = match pids[..] {
            [] => return Ok(probes),
            [_] => format!("it was stopped for {stopped} at most"),
            _ => format!("each was stopped for {stopped} at most"),
        };
        let functions = units::counted(functions_patched, "function");
        notices.push(format!("heap: {functions} of {} patched; {stopped}", of_pids(&pids)));
        Ok(probes)
    }

    /// Has all processes be as they were.
    pub(crate) fn end(&mut self, processes: &Processes) -> HeapEnd {
        let mut end = HeapEnd::default();
        for (pid, patched) in std::mem::take(&mut self.patched) {
            let memory_bytes = proc_fs::anonymous_bytes(pid).zip(patched.memory_bytes);
            end.growth_bytes += memory_bytes.map_or(0, |(now, before)| now.saturating_sub(before));
            if processes.get(pid).is_some_and(|process| process.exec_ns > patched.since_ns) {
                end.notices.push(format!(
                    "heap: pid {pid} has called exec since it was patched: what its new program allocates is not in this recording"
                ));
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

    /// Has a command that has not begun stop at its entry point, where it can be patched.
    ///
    /// # Errors
    ///
    /// Why it cannot.
    pub(crate) fn hold(pid: u32) -> Result<(), Failure> {
        service::hold(pid).map_err(|error| no_command(&error))
    }

    /// Waits until it has stopped there.
    ///
    /// # Errors
    ///
    /// Why it has not.
    pub(crate) fn await_entry(pid: u32) -> Result<(), Failure> {
        service::await_entry(pid).map_err(|error| no_command(&error))
    }

    /// Has it go on.
    pub(crate) fn go_on(pid: u32) {
        // It may have been killed.
        let _ = service::go_on(pid);
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
