//! Small profiles for tests, written as text.
//!
//! A frame is `MODULE:FUNCTION`, with functions inlined into it after `⇒`: `ingest:parse⇒from_str`.
//! A function whose name begins with `@` has none in the symbol table; one with `^` is in the source of Rust's library. Modules in brackets are the kernel's, and `MODULE:+0x1234` is a frame without a name.

use crate::profile::{
    End, Event, EventInfo, EventKind, FoundBy, Frame, FrameFlags, FrameId, FrameSpace, Function, HeapBlock,
    Integrity, LabelSetId, Location, Meta, Module, ModuleKind, Outcome, Profile, Reason, Sample, ShortWaits,
    StackId, StringId, Task, TaskId, ThreadTime, Wait, Waker,
};
use crate::report::analysis::Analysis;
use std::iter;

/// Sampling period of the fixtures, ns: 1,000 Hz.
pub(crate) const PERIOD_NS: u64 = 1_000_000;

/// A profile under construction, with one event of samples and one of waits, which it keeps if it has some.
pub(crate) struct Build {
    profile: Profile,
    event: Event,
    waits: Event,
    /// Events that count something.
    counters: Vec<Event>,
    now_ns: u64,
    labels: Option<LabelSetId>,
    /// How the frames that are added from now on were found.
    pub(crate) found_by: FoundBy,
}

impl Build {
    pub(crate) fn new() -> Self {
        let info = EventInfo {
            kind: EventKind::ON_CPU,
            sampling: "cpu-clock every 1000 us".into(),
            period: PERIOD_NS,
            ..EventInfo::default()
        };
        let waits = EventInfo {
            kind: EventKind::OFF_CPU,
            sampling: "every wait of 1 us and more".into(),
            min_duration_ns: 1_000,
            ..EventInfo::default()
        };
        Build {
            profile: Profile::default(),
            event: Event::new(info),
            waits: Event::new(waits),
            counters: Vec::new(),
            now_ns: 0,
            labels: None,
            found_by: FoundBy::Cfi,
        }
    }

    /// Adds a wait of `length_ns` that is weighted as itself, with a complete stack.
    pub(crate) fn wait(
        &mut self,
        task: TaskId,
        reason: Reason,
        start_ns: u64,
        length_ns: u64,
        root_first: &[&str],
    ) {
        self.thinned_wait(task, reason, [start_ns, length_ns, length_ns], root_first, Waker::default());
    }

    /// Adds a wait of a start, a length and a weight, all ns.
    pub(crate) fn thinned_wait(
        &mut self,
        task: TaskId,
        reason: Reason,
        [time_ns, duration_ns, weight]: [u64; 3],
        root_first: &[&str],
        waker: Waker,
    ) {
        let stack = self.stack(root_first);
        let is_user = root_first.iter().any(|frame| !frame.starts_with("[kernel]"));
        let outcome = if is_user { Outcome::Complete } else { Outcome::NoUserStack };
        let wait = Some(Wait { duration_ns, reason, waker });
        self.waits.push(Sample {
            time_ns,
            task,
            stack,
            weight,
            cpu: 0,
            outcome,
            wait,
            merged: None,
            block: None,
            labels: self.labels,
        });
    }

    /// Says where the time of a thread went that lived through all of the ten seconds.
    pub(crate) fn thread_time(&mut self, task: TaskId, on_cpu_ns: u64, no_cpu_ns: u64, blocked_ns: u64) {
        self.profile.thread_times.push(ThreadTime {
            task,
            to_ns: 10_000_000_000,
            on_cpu_ns,
            no_cpu_ns,
            blocked_ns,
            switches: 1_000,
            ..ThreadTime::default()
        });
    }

    /// Adds short waits to the thread whose time was given last.
    pub(crate) fn short_waits(&mut self, reason: Reason, count: u64, time_ns: u64) {
        let time = self.profile.thread_times.last_mut().expect("a thread's time comes first");
        time.short_waits.push(ShortWaits { reason, count, time_ns });
    }

    pub(crate) fn task(&mut self, pid: u32, tid: u32, comm: &str, process: &str) -> TaskId {
        self.next_task(pid, tid, 0, comm, process)
    }

    /// A thread that has the number of one before it.
    pub(crate) fn next_task(
        &mut self,
        pid: u32,
        tid: u32,
        generation: u32,
        comm: &str,
        process: &str,
    ) -> TaskId {
        let comm = self.profile.tables.intern_string(comm);
        let process = self.profile.tables.intern_string(process);
        self.profile.tables.intern_task(Task { pid, tid, generation, comm, process })
    }

    fn module(&mut self, path: &str) -> crate::profile::ModuleId {
        let kind = match path {
            "[kernel]" => ModuleKind::Kernel,
            "[jit]" => ModuleKind::Jit,
            "[unknown]" => ModuleKind::Unknown,
            _ if path.starts_with("python ") || path.starts_with("ruby ") => ModuleKind::Runtime,
            _ => ModuleKind::Elf,
        };
        let path = self.profile.tables.intern_string(path);
        self.profile.tables.intern_module(Module { path, kind, ..Module::default() })
    }

    /// The frame of a description. Equal descriptions give equal frames.
    pub(crate) fn frame(&mut self, text: &str) -> FrameId {
        let (path, functions) = text.split_once(':').expect("MODULE:FUNCTION");
        let module = self.module(path);
        let space = if path == "[kernel]" { FrameSpace::Kernel } else { FrameSpace::User };
        let is_interpreter =
            ["_PyEval_EvalFrameDefault", "rb_vm_exec"].iter().any(|name| functions.starts_with(name));
        let flags = FrameFlags { space, found_by: self.found_by, is_interpreter, ..FrameFlags::default() };
        if let Some(address) = functions.strip_prefix("+0x") {
            let address = u64::from_str_radix(address, 16).expect("hexadecimal");
            return self.profile.tables.intern_frame(Frame { module, address, flags });
        }
        // Any number that depends only on the text will do as its address.
        let address = text.bytes().fold(7u64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
        let frame = self.profile.tables.intern_frame(Frame { module, address, flags });
        self.set_functions(frame, path, functions);
        frame
    }

    /// Gives a frame that had no name, `MODULE:+0x1234`, its functions: `parse⇒from_str`.
    pub(crate) fn name(&mut self, text: &str, functions: &str) {
        let frame = self.frame(text);
        let (path, _) = text.split_once(':').expect("MODULE:+0xADDRESS");
        self.set_functions(frame, path, functions);
    }

    fn set_functions(&mut self, frame: FrameId, path: &str, functions: &str) {
        let functions: Vec<&str> = functions.split('⇒').collect();
        let mut locations = Vec::new();
        for (depth, name) in functions.iter().enumerate().rev() {
            locations.push(self.location(name, path, depth > 0));
        }
        self.profile.symbols.set_locations(frame, locations);
    }

    fn location(&mut self, name: &str, path: &str, is_inlined: bool) -> Location {
        let tables = &mut self.profile.tables;
        let std_name = name.strip_prefix('^');
        let name = std_name.unwrap_or(name);
        let (name, raw_name) = match name.strip_prefix('@') {
            Some(start) => (start, StringId(0)),
            None => (name, tables.intern_string(&format!("_Z{name}"))),
        };
        let file = if std_name.is_some() {
            tables.intern_string(
                "/rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/library/std/src/sync/poison/mutex.rs",
            )
        } else if path.starts_with('[') {
            StringId(0)
        } else {
            tables.intern_string(&format!("/src/{}.c", crate::report::naming::name::module_stem(path)))
        };
        let name_id = tables.intern_string(name);
        let function = self.profile.symbols.intern_function(Function { name: name_id, raw_name });
        Location { function, file, line: 10 + name.len() as u32, is_inlined }
    }

    pub(crate) fn stack(&mut self, root_first: &[&str]) -> Option<StackId> {
        let frames: Vec<FrameId> = root_first.iter().map(|text| self.frame(text)).collect();
        self.profile.tables.intern_stack_of(frames)
    }

    /// The samples that are added from now on are taken after this moment.
    pub(crate) fn go_to(&mut self, now_ns: u64) {
        self.now_ns = now_ns;
    }

    /// The samples added from here on have these labels.
    pub(crate) fn label(&mut self, labels: &[(&str, &str)]) {
        self.labels = (!labels.is_empty()).then(|| self.profile.tables.intern_labels(labels));
    }

    /// Adds `samples` complete samples of a stack, root first.
    pub(crate) fn add(&mut self, task: TaskId, samples: u64, root_first: &[&str]) {
        self.add_ended(task, samples, root_first, Outcome::Complete);
    }

    pub(crate) fn add_ended(&mut self, task: TaskId, samples: u64, root_first: &[&str], outcome: Outcome) {
        let stack = self.stack(root_first);
        for _ in 0..samples {
            self.now_ns += PERIOD_NS;
            let cpu = (self.now_ns / PERIOD_NS % 2) as u16;
            self.event.push(Sample {
                time_ns: self.now_ns,
                task,
                stack,
                weight: PERIOD_NS,
                cpu,
                outcome,
                wait: None,
                merged: None,
                block: None,
                labels: self.labels,
            });
        }
    }

    /// Adds a counter with this many samples of a stack, root first, each of a weight.
    pub(crate) fn counter(
        &mut self,
        kind: EventKind,
        task: TaskId,
        [samples, weight]: [u64; 2],
        root_first: &[&str],
    ) {
        self.counter_at(kind, task, (0..samples, weight), root_first);
    }

    /// The same with the times of the samples, ns; adds to the counter if there is one of this kind.
    pub(crate) fn counter_at(
        &mut self,
        kind: EventKind,
        task: TaskId,
        (times_ns, weight): (impl IntoIterator<Item = u64>, u64),
        root_first: &[&str],
    ) {
        let stack = self.stack(root_first);
        let at = self.counters.iter().position(|event| event.kind().is(&kind)).unwrap_or_else(|| {
            let (sampling, period) = (format!("every {weight}"), weight);
            self.counters.push(Event::new(EventInfo { kind, sampling, period, ..EventInfo::default() }));
            self.counters.len() - 1
        });
        for time_ns in times_ns {
            let outcome = Outcome::Complete;
            self.counters[at].push(Sample { time_ns, task, stack, weight, outcome, ..Sample::default() });
        }
    }

    /// Adds a block of the heap with its size, the bytes that it stands for, and its lifetime, ns, if it was freed.
    pub(crate) fn block(
        &mut self,
        task: TaskId,
        time_ns: u64,
        [size, weight]: [u64; 2],
        lifetime_ns: Option<u64>,
        root_first: &[&str],
    ) {
        self.counter_at(EventKind::HEAP, task, (iter::empty(), 512 << 10), root_first);
        let (stack, block) = (self.stack(root_first), Some(HeapBlock { size, lifetime_ns }));
        let sample = Sample { time_ns, task, stack, weight, block, labels: self.labels, ..Sample::default() };
        let event = self.counters.iter_mut().find(|event| event.kind().is(&EventKind::HEAP));
        event.expect("it was just added").push(Sample { outcome: Outcome::Complete, ..sample });
    }

    pub(crate) fn meta(&mut self) -> &mut Meta {
        &mut self.profile.meta
    }

    pub(crate) fn count(&mut self, name: &str, n: u64) {
        self.profile.count(name, n);
    }

    /// A whole recording that ended after ten seconds.
    pub(crate) fn finish(mut self) -> Analysis {
        self.profile.end = Some(End {
            duration_ns: 10_000_000_000,
            reason: "duration reached".into(),
            cpu_ns: 40_000_000,
            bpf_ns: 10_000_000,
            bpf_runs: 10_000,
            max_rss_bytes: 31_000_000,
            threads: 3,
            command_status: None,
            recording_cpu_ns: Some(20_000_000),
            command_signal: None,
            notices: Vec::new(),
            writing_failed: false,
        });
        self.cut_off(Integrity { is_complete: true, bytes_read: 12_345, ..Integrity::default() })
    }

    /// A recording whose recorder was killed.
    pub(crate) fn cut_off(mut self, integrity: Integrity) -> Analysis {
        if !self.event.is_empty() || self.waits.is_empty() {
            self.profile.events.push(self.event);
        }
        if !self.waits.is_empty() {
            self.profile.events.push(self.waits);
        }
        self.profile.events.append(&mut self.counters);
        Analysis::new(self.profile, integrity)
    }
}

/// A recording with everything that views have to show: threads, inlining, kernel and library frames,
/// recursion, a frame without a name and a stack that ends early.
pub(crate) fn ingest() -> Analysis {
    let mut build = Build::new();
    *build.meta() = Meta {
        prof_version: "0.1.0".into(),
        command: ["prof", "record", "-p", "4312", "-d", "10s"].map(String::from).to_vec(),
        hostname: "builder".into(),
        kernel: "6.18.0".into(),
        arch: "x86_64".into(),
        cpus: 2,
        start_unix_ns: 1_795_262_400_000_000_000,
        target: "ingest (pid 4312)".into(),
        target_name: "ingest".into(),
        target_pids: vec![4312],
        threads_at_start: 3,
        requested_hz: 999,
        effective_hz: 999,
        clock: "cpu-clock".into(),
        clock_is_timer: true,
        ..Meta::default()
    };
    const INGEST: &str = "/usr/bin/ingest";
    let path = |functions: &[&str]| -> Vec<String> {
        let module = |text: &&str| {
            if text.starts_with(['/', '[']) { (*text).to_owned() } else { format!("{INGEST}:{text}") }
        };
        functions.iter().map(module).collect()
    };
    let main = build.task(4312, 4312, "ingest", "ingest");
    let workers = [4313, 4314].map(|tid| build.task(4312, tid, "worker", "ingest"));
    let mut add = |task, samples, functions: &[&str], outcome| {
        let path = path(functions);
        let path: Vec<&str> = path.iter().map(String::as_str).collect();
        build.add_ended(task, samples, &path, outcome);
    };
    let zstd = "/usr/lib/libzstd.so.1.5.4";
    for task in workers {
        add(
            task,
            1_500,
            &[
                "_start",
                "run",
                "handle_batch",
                "compress",
                &format!("{zstd}:ZSTD_compressBlock_opt"),
                &format!("{zstd}:ZSTD_insertBt1"),
            ],
            Outcome::Complete,
        );
        add(
            task,
            700,
            &["_start", "run", "handle_batch", "parse_record⇒from_slice⇒SliceRead::parse_str"],
            Outcome::Complete,
        );
        add(task, 200, &["_start", "run", "walk", "walk", "walk"], Outcome::Complete);
        add(
            task,
            300,
            &["_start", "run", "send", "[kernel]:entry_SYSCALL_64", "[kernel]:tcp_write_xmit"],
            Outcome::Complete,
        );
    }
    add(
        main,
        90,
        &["_start", "main", "reload", "std::map<int, std::string>::find(int const&)"],
        Outcome::Complete,
    );
    add(main, 60, &["/opt/libfoo.so:+0x1234", "/opt/libfoo.so:+0x2000"], Outcome::NoUnwindInfo);
    build.count(crate::profile::counter::LOST_RING_FULL, 12);
    build.finish()
}
