//! The BPF object of a recording: open, configure, load, attach. Dropping it detaches everything.

use super::blocks::{BlockPrograms, configure_blocks};
use super::capacity::max_walked_frames;
use super::perf_event::{self, CpuEvent, SidebandRing};
use super::rings::Rings;
use super::span::SamplingSpan;
use super::stopper::Stopper;
use super::table_space::make_room;
use super::unwind_tables::{KernelTables, TableMaps};
use super::wait_config::WaitConfig;
use crate::base::opener;
use crate::bpf::{
    Counter, Filter, OpenProfSkel, ProfSkel, ProfSkelBuilder, Ring, SAMPLE_RINGS, prof_counters, prof_file,
    prof_file_key, prof_image, prof_process, prof_rescue,
};
use crate::record::environment::namespaces::{self, Translation};
use crate::record::kernel::load::failure::load_failure;
use crate::record::probes::programs::{self, ProbePrograms};
use crate::unwind::KernelPage;
use libbpf_rs::skel::{OpenSkel, SkelBuilder};
use libbpf_rs::{Link, MapCore, MapFlags, MapHandle, MapMut, OpenObject, PerfEventOpts};
use std::io;
use std::mem::{MaybeUninit, offset_of};
use std::os::fd::{AsFd, AsRawFd, IntoRawFd};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Facts that the kernel side has to know before it is loaded.
#[derive(Debug, Clone)]
pub(crate) struct KernelConfig {
    /// Whose samples are kept.
    pub(crate) filter: Filter,
    /// Whether a forked child is a target too.
    pub(crate) follow_children: bool,
    /// Whether code without unwind rows is walked by frame pointers.
    pub(crate) follow_frame_pointers: bool,
    /// Rows to make room for; a power of two.
    pub(crate) row_capacity: u32,
    /// Pages (of 64 KiB of code) to make room for; a power of two.
    pub(crate) page_capacity: u32,
    /// Memory that rows and pages may take in the end, bytes.
    pub(crate) table_budget_bytes: u64,
    /// Whether running threads are sampled.
    pub(crate) on_cpu: bool,
    /// Number of counters that are sampled.
    pub(crate) counters: usize,
    /// Whether blocks of memory are sampled.
    pub(crate) blocks_overhead_ppm: Option<u32>,
    /// Bit n: the counter of number n, from 1, counts page faults.
    pub(crate) fault_counters: u64,
    /// Whether what runtimes know of frames of managed code is sent.
    pub(crate) reads_managed: bool,
    /// Interpreters whose frames are sent: a bit for each `enum prof_runtime_kind`.
    pub(crate) interpreters: u32,
    /// Whether goroutines of samples are sent.
    pub(crate) reads_goroutines: bool,
    /// Kinds of data that have to be translated.
    pub(crate) translation: Translation,
    /// Options of the recording of waits; `None` if they are not recorded.
    pub(crate) waits: Option<WaitConfig>,
    /// Programs of probes; `None` if there are none.
    pub(crate) probes: Option<ProbePrograms>,
    /// Sampling rate, Hz: rings are sized by it.
    pub(crate) hz: u32,
    /// Whether a copy of every stack is sent too.
    pub(crate) copy_every_stack: bool,
    /// CPUs that will be sampled, now or when they come online.
    pub(crate) cpus: Vec<u32>,
}

/// Cap on stack copies per CPU, bytes per second: 2,000 of the usual size; some 2 % of the CPU.
const RESCUE_BYTES_PER_SECOND: u64 = 128 << 20;
/// Time that the reader may be away before a ring is full, seconds, at an assumed 1 KiB for a sample.
const RING_SECONDS: f64 = 1.0;
/// Room for new code objects of interpreters, bytes: some 450. What does not fit is read from the process.
const NEW_CODE_RING_BYTES: u32 = 1 << 20;
/// Room for copies of every stack, bytes: some 170.
const STACK_COPY_RING_BYTES: u32 = 128 << 20;

/// The loaded kernel side.
pub(crate) struct KernelSide<'obj> {
    pub(crate) skeleton: ProfSkel<'obj>,
    /// The unwind tables.
    pub(crate) tables: KernelTables,
    /// Samplers of running threads, and of counters, with their CPUs.
    samplers: Vec<(u32, Link)>,
    /// The programs of blocks.
    pub(crate) block_programs: BlockPrograms,
    /// All other programs.
    pub(crate) links: Vec<Link>,
    /// The times of the recording, as the programs see them.
    pub(super) span: Arc<SamplingSpan>,
    /// Ends sampling.
    pub(crate) stopper: Arc<Stopper>,
    /// Time at which all threads were last looked at because one had been missed.
    pub(super) last_look: Option<Instant>,
    /// Running threads are sampled.
    has_sampler: bool,
    /// Time that loading took, verification included.
    pub(crate) load_time: Duration,
}

impl std::fmt::Debug for KernelSide<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("KernelSide").field("load_time", &self.load_time).finish_non_exhaustive()
    }
}

impl<'obj> KernelSide<'obj> {
    /// Loads the programs, and attaches all but the samplers. Those of waits do nothing until they know when the
    /// recording begins. `tids` are the threads that are recorded where not all of a process are.
    pub(crate) fn attached(
        object: &'obj mut MaybeUninit<OpenObject>,
        config: &KernelConfig,
        tids: &[u32],
    ) -> anyhow::Result<KernelSide<'obj>> {
        let mut kernel = KernelSide::load(object, config)?;
        for &tid in tids {
            kernel.add_thread(tid)?;
        }
        kernel.attach_process_hooks()?;
        // After them: at exec they say first that a launched command is a target.
        if let Some(waits) = &config.waits {
            kernel.attach_waits(waits)?;
        }
        if opener::is_running() {
            kernel.try_attaching();
        }
        Ok(kernel)
    }

    /// Opens, configures and loads the programs. Nothing runs yet.
    fn load(
        object: &'obj mut MaybeUninit<OpenObject>,
        config: &KernelConfig,
    ) -> anyhow::Result<KernelSide<'obj>> {
        let start = Instant::now();
        let mut open = ProfSkelBuilder::default().open(object).map_err(|error| load_failure(&error))?;
        configure(&mut open, config).map_err(|error| load_failure(&error))?;
        let skeleton = open.load().map_err(|error| load_failure(&error))?;
        if config.translation.is_needed() {
            namespaces::agree_with_kernel(&skeleton)?;
        }
        let load_time = start.elapsed();
        let maps = &skeleton.maps;
        let table_maps = TableMaps {
            rows: maps.rows.as_fd(),
            pages: maps.pages.as_fd(),
            rules: maps.rules.as_fd(),
            images: maps.images.as_fd(),
            row_capacity: config.row_capacity,
            page_capacity: config.page_capacity,
            budget_bytes: config.table_budget_bytes,
        };
        let more_tables = MapHandle::try_from(&maps.more_tables)?;
        let tables = KernelTables::new(table_maps, Box::new(move |number| make_room(&more_tables, number)))?;
        let empty = crate::record::process::mappings::empty_entry();
        maps.no_mappings.update(&0u32.to_ne_bytes(), process_bytes(&empty), MapFlags::ANY)?;

        let span = Arc::new(SamplingSpan::new(maps.bss.as_fd())?);
        let has_span =
            config.waits.is_some() || config.probes.is_some() || config.blocks_overhead_ppm.is_some();
        Ok(KernelSide {
            skeleton,
            tables,
            samplers: Vec::new(),
            block_programs: BlockPrograms::default(),
            links: Vec::new(),
            stopper: Arc::new(Stopper::new(has_span.then(|| Arc::clone(&span)))),
            span,
            last_look: None,
            has_sampler: config.on_cpu,
            load_time,
        })
    }

    /// Attaches the programs that follow forks and execs.
    fn attach_process_hooks(&mut self) -> anyhow::Result<()> {
        self.links.push(self.skeleton.progs.on_fork.attach_trace().map_err(|e| load_failure(&e))?);
        self.links.push(self.skeleton.progs.on_exec.attach_trace().map_err(|e| load_failure(&e))?);
        Ok(())
    }

    /// Attaches a sampler to an event that never comes, and detaches it: libbpf finds out how this kernel attaches programs to
    /// events by loading one, while this process still may.
    fn try_attaching(&self) {
        let progs = &self.skeleton.progs;
        let sampler = if self.has_sampler { &progs.on_cpu } else { &progs.on_count };
        let Ok(event) = perf_event::open_dummy() else { return };
        // Without that knowledge libbpf takes the older way.
        if let Ok(link) = sampler.attach_perf_event(event.as_raw_fd()) {
            // The link owns the descriptor.
            let _ = event.into_raw_fd();
            drop(link);
        }
    }

    /// Attaches the sampler to one event per CPU; sampling starts with that.
    pub(crate) fn attach_samplers(&mut self, samplers: Vec<CpuEvent>) -> anyhow::Result<()> {
        let has_sampler = self.has_sampler;
        for sampler in samplers.into_iter().filter(|_| has_sampler) {
            self.stopper.add_samplers([sampler.try_clone()?]);
            self.attach_sampler(sampler)?;
        }
        Ok(())
    }

    fn attach_sampler(&mut self, CpuEvent { cpu, event }: CpuEvent) -> anyhow::Result<()> {
        // libbpf enables the event, and the link that it returns owns the descriptor.
        let link = self.skeleton.progs.on_cpu.attach_perf_event(event.as_raw_fd());
        let link = link.map_err(|error| load_failure(&error))?;
        let _ = event.into_raw_fd();
        self.samplers.push((cpu, link));
        Ok(())
    }

    /// Attaches the sampler of counters to the events of the one with this number, from 1.
    pub(crate) fn attach_counter(&mut self, number: u8, events: Vec<CpuEvent>) -> anyhow::Result<()> {
        for event in events {
            self.stopper.add_samplers([event.try_clone()?]);
            self.attach_counting(number, event)?;
        }
        Ok(())
    }

    fn attach_counting(&mut self, number: u8, CpuEvent { cpu, event }: CpuEvent) -> anyhow::Result<()> {
        let options = PerfEventOpts { cookie: number.into(), ..PerfEventOpts::default() };
        let link = self.skeleton.progs.on_count.attach_perf_event_with_opts(event.as_raw_fd(), options);
        let link = link.map_err(|error| load_failure(&error))?;
        let _ = event.into_raw_fd();
        self.samplers.push((cpu, link));
        Ok(())
    }

    /// Samples a CPU that has come online, by its sampler and its events of counters, by number from 1.
    ///
    /// # Errors
    ///
    /// When the kernel refuses.
    pub(crate) fn add_cpu(
        &mut self,
        sampler: Option<CpuEvent>,
        counters: Vec<(u8, CpuEvent)>,
    ) -> anyhow::Result<()> {
        let events: Vec<&CpuEvent> = sampler.iter().chain(counters.iter().map(|(_, event)| event)).collect();
        let same = events.into_iter().map(CpuEvent::try_clone).collect::<io::Result<Vec<_>>>()?;
        sampler.into_iter().try_for_each(|event| self.attach_sampler(event))?;
        counters.into_iter().try_for_each(|(number, event)| self.attach_counting(number, event))?;
        self.stopper.add_samplers(same);
        Ok(())
    }

    /// Forgets the events of a CPU that is gone, or was.
    pub(crate) fn forget_cpu(&mut self, cpu: u32) {
        self.samplers.retain(|(of, _)| *of != cpu);
        self.stopper.forget_cpu(cpu);
    }

    /// Stops everything. What is in the rings can still be received.
    pub(crate) fn stop(&mut self) {
        self.samplers.clear();
        self.block_programs.stop();
        self.links.clear();
    }

    /// The rings, to be emptied by another thread, with those of the side-band.
    ///
    /// # Errors
    ///
    /// When one cannot be mapped.
    pub(crate) fn rings(&self, sidebands: Vec<SidebandRing>) -> anyhow::Result<Rings> {
        let maps = &self.skeleton.maps;
        let ring = |map: &MapMut<'_>| -> io::Result<Ring> {
            Ring::new(map.as_fd().try_clone_to_owned()?, map.max_entries())
        };
        let samples = [
            &maps.ring0,
            &maps.ring1,
            &maps.ring2,
            &maps.ring3,
            &maps.ring4,
            &maps.ring5,
            &maps.ring6,
            &maps.ring7,
        ];
        Ok(Rings {
            samples: samples
                .into_iter()
                .chain([&maps.counts, &maps.hits])
                .map(ring)
                .collect::<io::Result<_>>()?,
            waits: ring(&maps.waits)?,
            thread_times: ring(&maps.thread_times)?,
            blocks: ring(&maps.blocks)?,
            new_codes: [ring(&maps.new_codes)?, ring(&maps.wait_codes)?],
            rescues: [ring(&maps.rescue_ring)?, ring(&maps.wait_rescue_ring)?],
            stack_copies: ring(&maps.stack_copies)?,
            sidebands,
        })
    }

    /// Tells the kernel side what a process has mapped.
    pub(crate) fn set_process(&self, pid: u32, entry: &prof_process) -> anyhow::Result<()> {
        let bytes = process_bytes(entry);
        Ok(self.skeleton.maps.processes.update(&pid.to_ne_bytes(), bytes, MapFlags::ANY)?)
    }

    /// Tells the kernel side about a file, so that it knows mappings of it by itself.
    pub(crate) fn set_file(&self, key: &prof_file_key, file: &prof_file) -> anyhow::Result<()> {
        // SAFETY: both are made of u32 and u64 fields without padding (their sizes are asserted).
        let (key, file) = unsafe { (bytes_of(key), bytes_of(file)) };
        Ok(self.skeleton.maps.files.update(key, file, MapFlags::ANY)?)
    }

    /// Forgets a file that is about to be closed: its inode may become another's.
    pub(crate) fn forget_file(&self, key: &prof_file_key) {
        // SAFETY: it is made of u32 and u64 fields without padding (its size is asserted).
        let key = unsafe { bytes_of(key) };
        // It may not be there: it has too many segments, or there was no room.
        let _ = self.skeleton.maps.files.delete(key);
    }

    /// Forgets a process that has ended.
    pub(crate) fn forget_process(&self, pid: u32) {
        // It may not be there: never a target, or its end was seen before its beginning.
        let _ = self.skeleton.maps.processes.delete(&pid.to_ne_bytes());
    }

    /// Returns the number of exec calls of a process that the kernel side has seen; `None` for a process that it does not know.
    pub(crate) fn exec_seq(&self, pid: u32) -> anyhow::Result<Option<u32>> {
        let entry = self.skeleton.maps.processes.lookup(&pid.to_ne_bytes(), MapFlags::ANY)?;
        Ok(entry.and_then(|bytes| {
            Some({
                let at = offset_of!(prof_process, exec_seq);
                u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?)
            })
        }))
    }

    /// Adds a thread to those that are recorded.
    fn add_thread(&self, tid: u32) -> anyhow::Result<()> {
        Ok(self.skeleton.maps.threads.update(&tid.to_ne_bytes(), &[1], MapFlags::ANY)?)
    }

    /// Sums of the counters over all CPUs, by [`Counter`].
    pub(crate) fn counters(&self) -> anyhow::Result<CounterValues> {
        let mut sums = CounterValues([0; COUNTERS]);
        let per_cpu = self.skeleton.maps.counters.lookup_percpu(&0u32.to_ne_bytes(), MapFlags::ANY)?;
        for cpu in per_cpu.unwrap_or_default() {
            for (sum, word) in sums.0.iter_mut().zip(cpu.chunks_exact(8)) {
                // What one CPU has counted another may take back: only the sum is a number.
                *sum = sum.wrapping_add(word.try_into().map_or(0, u64::from_ne_bytes));
            }
        }
        Ok(sums)
    }
}

/// Values of the kernel side's counters.
#[derive(Debug, Clone, Copy)]
pub(crate) struct CounterValues([u64; COUNTERS]);

const COUNTERS: usize = size_of::<prof_counters>() / size_of::<u64>();

impl CounterValues {
    /// The values of some counters; all others are 0.
    pub(super) fn of(values: impl Iterator<Item = (Counter, u64)>) -> Self {
        let mut all = CounterValues([0; COUNTERS]);
        values.for_each(|(counter, value)| all.0[counter as usize] = value);
        all
    }

    /// The value of one counter.
    pub(crate) fn get(&self, counter: Counter) -> u64 {
        self.0[counter as usize]
    }

    /// Run time of the samplers, ns: of running threads estimated from the runs that were timed, of waits from those
    /// that were sent.
    pub(crate) fn bpf_ns(&self) -> u64 {
        let timed = self.get(Counter::TimedRuns).max(1);
        (u128::from(self.get(Counter::TimedNs)) * u128::from(self.bpf_runs()) / u128::from(timed)) as u64
            + self.get(Counter::WaitNs)
            + self.get(Counter::ProbeNs)
            + self.switch_ns()
    }

    /// Run time of the programs that see every switch, ns, estimated from the runs that were timed.
    fn switch_ns(&self) -> u64 {
        let timed = self.get(Counter::SwitchTimed).max(1);
        let runs = u128::from(self.get(Counter::Switch));
        (u128::from(self.get(Counter::SwitchNs)) * runs / u128::from(timed)) as u64
    }

    /// Runs of the sampler that took a sample.
    pub(crate) fn bpf_runs(&self) -> u64 {
        [Counter::Sent, Counter::RingFull, Counter::CountsFull].map(|counter| self.get(counter)).iter().sum()
    }
}

fn configure(open: &mut OpenProfSkel<'_>, config: &KernelConfig) -> libbpf_rs::Result<()> {
    let per_ring =
        |ring: usize| config.cpus.iter().filter(|&&cpu| cpu as usize % SAMPLE_RINGS == ring).count();
    let page_bytes = rustix::param::page_size() as u32;
    let ring_bytes = |ring: usize| {
        // CPUs that are plugged in meanwhile find room for one.
        let bytes = per_ring(ring).max(1) as f64 * f64::from(config.hz) * 1024.0 * RING_SECONDS;
        (bytes as u32).clamp(page_bytes, 32 << 20).next_power_of_two()
    };
    crate::record::kernel::wait_config::configure(open, config.waits.as_ref(), config.cpus.len())?;
    programs::configure(open, config.probes.as_ref(), config.cpus.len())?;
    open.progs.on_cpu.set_autoload(config.on_cpu);
    open.progs.on_count.set_autoload(config.counters > 0);
    configure_blocks(open, config.blocks_overhead_ppm, config.waits.is_none())?;
    open.progs.find_namespace.set_autoload(config.translation.is_needed());
    let maps = &mut open.maps;
    maps.rows.set_value_size(config.row_capacity * 4)?;
    maps.pages.set_value_size(config.page_capacity * size_of::<KernelPage>() as u32)?;
    let rings = [
        &mut maps.ring0,
        &mut maps.ring1,
        &mut maps.ring2,
        &mut maps.ring3,
        &mut maps.ring4,
        &mut maps.ring5,
        &mut maps.ring6,
        &mut maps.ring7,
    ];
    let mut smallest = u32::MAX;
    for (index, ring) in rings.into_iter().enumerate() {
        let bytes = ring_bytes(index);
        ring.set_max_entries(bytes)?;
        if per_ring(index) > 0 {
            smallest = smallest.min(bytes);
        }
    }
    if config.counters > 0 {
        let per_cpu = f64::from(config.hz) * 1024.0 * RING_SECONDS * config.counters as f64;
        let bytes = (per_cpu * config.cpus.len() as f64) as u32;
        maps.counts.set_max_entries(bytes.clamp(1 << 20, 64 << 20).next_power_of_two())?;
    }
    if config.interpreters != 0 {
        maps.new_codes.set_max_entries(NEW_CODE_RING_BYTES)?;
        maps.wait_codes.set_max_entries(NEW_CODE_RING_BYTES)?;
    }
    if config.copy_every_stack {
        maps.stack_copies.set_max_entries(STACK_COPY_RING_BYTES)?;
    }
    configure_constants(open, config, smallest);
    Ok(())
}

/// Sets the constants of the programs; `smallest_ring` is the size of the smallest ring for samples that is used, bytes.
fn configure_constants(open: &mut OpenProfSkel<'_>, config: &KernelConfig, smallest_ring: u32) {
    if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
        rodata.filter = config.filter as u32;
        rodata.in_namespace = config.translation.has_own_numbers;
        #[cfg(target_arch = "aarch64")]
        {
            rodata.signature_mask = crate::record::environment::machine::signature_mask();
        }
        rodata.follow_children = config.follow_children;
        rodata.follow_frame_pointers = config.follow_frame_pointers;
        rodata.max_walked_frames = max_walked_frames(config.hz);
        rodata.rows_mask = config.row_capacity - 1;
        rodata.pages_mask = config.page_capacity - 1;
        rodata.ring_wake_bytes = smallest_ring / 2;
        rodata.interpreters = config.interpreters;
        rodata.reads_goroutines = config.reads_goroutines;
        rodata.reads_managed = config.reads_managed;
        rodata.copy_every_stack = config.copy_every_stack;
        rodata.fault_counters = config.fault_counters;
        rodata.rescue_bytes_per_second = RESCUE_BYTES_PER_SECOND.max(size_of::<prof_rescue>() as u64);
    }
}

fn process_bytes(entry: &prof_process) -> &[u8] {
    // SAFETY: prof_process is made of u32 and u64 fields without padding (its size is asserted).
    unsafe { bytes_of(entry) }
}

/// The bytes of a value that BPF programs read.
///
/// # Safety
///
/// `T` has no padding, so that every byte is initialised.
unsafe fn bytes_of<T>(value: &T) -> &[u8] {
    // SAFETY: the value is borrowed for as long as its bytes, and the caller vouches for all of them.
    unsafe { std::slice::from_raw_parts(std::ptr::from_ref(value).cast::<u8>(), size_of::<T>()) }
}

const _: () = assert!(size_of::<prof_image>() == 16);
