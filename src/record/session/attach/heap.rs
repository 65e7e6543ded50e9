//! The heap in a session: when the target is patched, and given back.

use crate::base::failure::Failure;
use crate::profile::counter;
use crate::record::collect::collector::Collector;
use crate::record::heap::{HeapSampling, RefusedProcesses, cannot, of_pids};
use crate::record::modules::Wanted;
use crate::record::options::{RecordOptions, Target};
use crate::record::process::{mappings, proc_fs};
use crate::record::session::Session;
use crate::record::session::sampling::Sampling;
use std::collections::BTreeMap;
use std::time::Duration;

/// Attempts to read the files of a process, and the time between them.
const ATTEMPTS: usize = 10;
const PAUSE: Duration = Duration::from_millis(200);

/// How the heap is recorded; `None` if it is not.
///
/// # Errors
///
/// When it cannot be recorded of this target, or by this user.
pub(super) fn of_options(options: &RecordOptions) -> Result<Option<HeapSampling>, Failure> {
    let Some(overhead_ppm) = options.heap() else { return Ok(None) };
    let whole = match options.target {
        Target::System => "the whole machine",
        Target::Tids(_) => "single threads",
        Target::Pids(_) | Target::Name(_) | Target::Launch(_) => {
            return HeapSampling::new(overhead_ppm, options.delay.is_none()).map(Some);
        }
    };
    Err(Failure::usage(format!("-e heap changes the memory of processes, and is not for {whole}"))
        .hint("name a process or a command:  prof record -e heap -p PID"))
}

impl Session<'_> {
    /// Finds the allocators of the target, if its heap is to be recorded, or has the command stop at its entry point, where they
    /// can be found. Returns what will be done, in words.
    ///
    /// # Errors
    ///
    /// When a process has none, or the command cannot be stopped.
    pub(crate) fn expect_heap(&mut self, command: Option<u32>) -> anyhow::Result<Vec<String>> {
        let of_go_waits = self.plan_go_waits();
        let of_heap = match (command, &self.heap) {
            (Some(pid), Some(heap)) => heap.hold(pid).map(|()| Vec::new()).map_err(Into::into),
            (Some(_), None) => Ok(Vec::new()),
            (None, _) => self.plan_heap(true),
        };
        Ok(of_go_waits.into_iter().chain(of_heap?).collect())
    }

    /// What will be done to the Go programs of the target, if waits for locks are wanted, in words.
    fn plan_go_waits(&mut self) -> Vec<String> {
        let collector = &mut self.collector;
        let mut planned: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        for &pid in &self.roots {
            let (Some(process), goroutines) = (collector.processes.get(pid), &mut collector.goroutines)
            else {
                continue;
            };
            if let Some(what) = collector.go_waits.plan(process, goroutines, &collector.files) {
                planned.entry(what).or_default().push(pid);
            }
        }
        planned
            .into_iter()
            .map(|(what, pids)| format!("lock: {what} in {} while it records", of_pids(&pids)))
            .collect()
    }

    /// Finds the allocators of the target, if its heap is to be recorded. Returns what will be done to it, in words.
    ///
    /// # Errors
    ///
    /// When a process has none.
    fn plan_heap(&mut self, has_begun: bool) -> anyhow::Result<Vec<String>> {
        let Some(heap) = &mut self.heap else { return Ok(Vec::new()) };
        let mut roots: Vec<u32> = self.roots.iter().copied().collect();
        roots.sort_unstable();
        let mut planned: BTreeMap<String, Vec<u32>> = BTreeMap::new();
        let mut refused = RefusedProcesses::default();
        for pid in roots {
            match planned_of(heap, (pid, has_begun), &mut self.collector) {
                Ok(words) => words.into_iter().for_each(|what| planned.entry(what).or_default().push(pid)),
                Err(failure) => refused.add(pid, failure),
            }
        }
        self.notices.extend(refused.unless_all(planned.is_empty())?);
        let words =
            |(what, pids): (String, Vec<u32>)| format!("heap: {what} in {} while it records", of_pids(&pids));
        Ok(planned.into_iter().map(words).collect())
    }

    /// Patches what is planned, and begins to sample blocks.
    ///
    /// # Errors
    ///
    /// Why a process is left as it is.
    pub(in crate::record::session) fn begin_heap(&mut self) -> anyhow::Result<()> {
        let Some(heap) = &mut self.heap else { return Ok(()) };
        if let Some(blocks) = &mut self.collector.blocks {
            heap.libraries().for_each(|path| blocks.add_library(path));
        }
        let has_others = !self.collector.go_heap.is_empty();
        let probes = heap.begin(&mut self.notices, has_others)?;
        if probes.is_empty() {
            return Ok(());
        }
        // The sampler's code is to be known before its first sample.
        self.take()?;
        self.place_tables(Duration::from_millis(500), Wanted::Whole);
        let Sampling::Bpf(bpf) = &mut self.kernel else { return Ok(()) };
        probes.into_iter().try_for_each(|probe| {
            let place = probe.place.map(|(number, place)| (number as u32, place.for_kernel()));
            let place = place.as_ref().map(|(number, place)| (*number, place));
            let kernel = &mut bpf.kernel;
            kernel.block_programs.attach(&kernel.skeleton, probe.is_end, probe.event, place)
        })
    }

    /// Patches a command that was let run and stands at its entry point. Returns what was done to it, in words.
    ///
    /// # Errors
    ///
    /// Why it is left as it is; it runs in any case.
    pub(crate) fn begin_heap_of_command(&mut self, command: Option<u32>) -> anyhow::Result<Vec<String>> {
        let (Some(pid), Some(heap)) = (command, &self.heap) else { return Ok(Vec::new()) };
        let is_held = heap.await_entry(pid)?;
        let begun = self.take().and_then(|()| self.plan_heap(!is_held)).and_then(|words| {
            self.begin_heap()?;
            Ok(words)
        });
        if is_held {
            HeapSampling::go_on(pid);
        }
        begun
    }

    /// Has more or fewer blocks sampled, as the budget wants it.
    pub(in crate::record::session) fn look_at_heap(&mut self, elapsed_ns: u64) {
        if let (Some(heap), Some(blocks)) = (&mut self.heap, &self.collector.blocks) {
            heap.look(elapsed_ns, blocks.samples(), blocks.live(), &self.collector.processes);
        }
    }

    /// Has the target be as it was, and counts what is known of the heap by then. Sampling has ended.
    pub(in crate::record::session) fn end_heap(&mut self) -> Vec<String> {
        let Some(heap) = &mut self.heap else { return Vec::new() };
        let end = heap.end(&self.collector.processes);
        let not_followed = end.not_followed.saturating_add(self.collector.go_heap.not_followed);
        let profile = &mut self.collector.profile;
        profile.count(counter::BLOCKS_NOT_FOLLOWED, not_followed);
        profile.count(counter::RSS_GROWTH_BYTES, end.growth_bytes);
        end.notices.into_iter().chain(self.collector.go_heap.lacks()).collect()
    }
}

/// What is done to sample the heap of a process, and whether it `has_begun`, in words.
fn planned_of(
    heap: &mut HeapSampling,
    (pid, has_begun): (u32, bool),
    collector: &mut Collector,
) -> Result<Vec<String>, Failure> {
    let (processes, files) = (&collector.processes, &collector.files);
    let goroutines = &mut collector.goroutines;
    let process = processes.get(pid);
    let mut words = Vec::new();
    if process.is_some_and(|process| goroutines.has_program(process, files)) {
        words.push(collector.go_heap.add((pid, has_begun), goroutines, (processes, files))?);
    }
    // Its own code is not changed; that of a program that has a library in Go is.
    if !process.is_some_and(|process| goroutines.is_program(process, files)) {
        words.push(planned_of_allocator(heap, pid, collector)?);
    }
    Ok(words)
}

/// The same of its allocator. Its files may take a moment to be read on a busy machine.
fn planned_of_allocator(
    heap: &mut HeapSampling,
    pid: u32,
    collector: &mut Collector,
) -> Result<String, Failure> {
    for _ in 0..ATTEMPTS {
        if let Some(planned) = heap.plan(pid, &collector.processes, &collector.files)? {
            return Ok(planned);
        }
        match proc_fs::code_mappings(pid) {
            Ok(mappings) if mappings.is_empty() => {
                return Err(cannot(pid, "it has no memory of its own: it is the kernel's, or has ended"));
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Err(cannot(pid, "it has ended"));
            }
            _ => std::thread::sleep(PAUSE),
        }
        if let Some(process) = collector.processes.get_mut(pid) {
            mappings::read_mappings(pid, process, 0, &mut collector.files);
        }
    }
    Err(cannot(pid, "its files could not be read in time")
        .hint("the machine is busy, a file server does not answer, or this user may not open them"))
}
