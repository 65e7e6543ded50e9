//! Synthetic profiles for tests and benches: the same numbers each time, shaped like real recordings.

#![allow(dead_code, reason = "each test and bench uses a part")]

use prof::internals::profile::{
    AddressSettings, End, Event, EventId, EventInfo, EventKind, FoundBy, Frame, FrameFlags, FrameId,
    FrameSpace, Function, Location, Meta, Module, ModuleId, ModuleKind, Outcome, Profile, Reason, Sample,
    ShortWaits, StackId, Task, TaskId, ThreadTime, Wait, Waker, WakerKind,
};

/// A small random number generator (xorshift64*), so that no dependency's update changes a profile.
pub(crate) struct Random(u64);

impl Random {
    /// The generator of a series; `seed` must not be 0.
    pub(crate) fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The next number below `limit`.
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        (self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 11) % limit
    }

    /// A number below `limit`, small ones far more often than large ones.
    pub(crate) fn skewed_below(&mut self, limit: u64) -> u64 {
        let shift = self.below(64 - u64::from(limit.leading_zeros()));
        self.below((limit >> shift).max(1))
    }
}

/// Sampling period of the synthetic recordings, ns: 999 Hz.
pub(crate) const PERIOD_NS: u64 = 1_001_001;

/// A profile under construction: a program of synthetic functions.
pub(crate) struct Demo {
    /// The profile so far.
    pub(crate) profile: Profile,
    /// Where its numbers come from.
    pub(crate) random: Random,
    /// The event of its samples.
    pub(crate) event: EventId,
    /// The thread of its samples.
    pub(crate) task: TaskId,
    module: ModuleId,
    function_bytes: u64,
    time_ns: u64,
}

impl Demo {
    /// A recording of one thread that has just started.
    pub(crate) fn new(seed: u64) -> Self {
        let mut profile = Profile::new(Meta {
            prof_version: "0.1.0".into(),
            command: ["prof", "record", "-p", "4312"].map(String::from).to_vec(),
            hostname: "example".into(),
            kernel: "6.1.0-18-amd64".into(),
            arch: "x86_64".into(),
            cpus: 8,
            start_unix_ns: 1_700_000_000_000_000_000,
            start_mono_ns: 86_400_000_000_000,
            target: "ingest (pid 4312)".into(),
            target_name: "ingest".into(),
            target_pids: vec![4312],
            threads_at_start: 1,
            requested_hz: 999,
            effective_hz: 999,
            clock: "cpu-clock".into(),
            user_only: false,
            recorder_pid: 4400,
            kernel_addresses: Some(AddressSettings {
                kptr_restrict: 0,
                perf_event_paranoid: -1,
                has_syslog: true,
            }),
            pid_namespace: 4_026_532_211,
            is_command: false,
            notices: Vec::new(),
            ..Meta::default()
        });
        let path = profile.tables.intern_string("/usr/bin/ingest");
        let build_id = (0..20).collect();
        let module =
            profile.tables.intern_module(Module { path, build_id, kind: ModuleKind::Elf, instance: 0 });
        let comm = profile.tables.intern_string("ingest");
        let task =
            profile.tables.intern_task(Task { pid: 4312, tid: 4312, generation: 0, comm, process: comm });
        let event = profile.add_event(EventInfo {
            kind: EventKind::ON_CPU,
            sampling: "cpu-clock every 1001 us".into(),
            period: PERIOD_NS,
            ..EventInfo::default()
        });
        let random = Random::new(seed);
        Demo { profile, random, event, task, module, function_bytes: 400, time_ns: 0 }
    }

    /// The frame of a call inside function number `function`, at one of its `places`.
    pub(crate) fn frame(&mut self, function: u64, places: u64) -> FrameId {
        let place = self.random.skewed_below(places) * 16 + 5;
        let address = 0x40_1000 + function * self.function_bytes + place % self.function_bytes;
        let flags = FrameFlags {
            is_return_address: true,
            space: FrameSpace::User,
            found_by: FoundBy::Cfi,
            ..FrameFlags::default()
        };
        self.profile.tables.intern_frame(Frame { module: self.module, address, flags })
    }

    /// Adds a sample of `stack` one jittered period after the one before.
    pub(crate) fn sample(&mut self, stack: Option<StackId>) {
        let jitter_ns = self.random.below(60_000);
        self.time_ns += PERIOD_NS - 30_000 + jitter_ns;
        let sample = Sample {
            time_ns: self.time_ns / 1000 * 1000,
            task: self.task,
            stack,
            weight: PERIOD_NS,
            cpu: 3,
            outcome: Outcome::Complete,
            wait: None,
            merged: None,
            block: None,
            labels: None,
        };
        self.profile.events[self.event.index()].push(sample);
    }

    /// Names each frame, with an inline chain at about one in three, and ends the recording.
    pub(crate) fn finish(&mut self) {
        let frames: Vec<(u32, Frame)> = (0..).zip(self.profile.tables.frames().iter().copied()).collect();
        for (id, frame) in frames {
            let number = (frame.address - 0x40_1000) / self.function_bytes;
            let place = (frame.address - 0x40_1000) % self.function_bytes;
            let inlined = if place.is_multiple_of(3) { 1 + place % 2 } else { 0 };
            // What a function inlines is mostly one of the small functions that all use.
            let numbers =
                (0..inlined).map(|depth| 1_000_000 + (number * 7 + place + depth) % 300).chain([number]);
            let numbers: Vec<u64> = numbers.collect();
            let last = numbers.len() - 1;
            let locations = numbers.iter().enumerate().map(|(depth, &number)| {
                let function = self.function(number);
                let file = format!("/build/src/lib/{}/{}.cpp", FOLDERS[number as usize % 7], number / 20);
                let file = self.profile.tables.intern_string(&file);
                let line = 10 + (number % 20 * 40 + place / 8) as u32;
                Location { function, file, line, is_inlined: depth < last }
            });
            let locations = locations.collect();
            self.profile.symbols.set_locations(FrameId(id), locations);
        }
        self.profile.count("rescued", 17);
        self.profile.end = Some(End {
            duration_ns: self.time_ns,
            reason: "interrupt".into(),
            cpu_ns: 48_000_000,
            bpf_ns: 31_000_000,
            bpf_runs: 9990,
            max_rss_bytes: 27 << 20,
            threads: 1,
            command_status: None,
            recording_cpu_ns: Some(8_000_000),
            command_signal: None,
            notices: Vec::new(),
            writing_failed: false,
        });
    }

    fn function(&mut self, number: u64) -> prof::internals::profile::FunctionId {
        let class = FOLDERS[(number / 3 % 7) as usize];
        let name =
            format!("ingest::{class}::Visitor<{}>::visit_{number}(ingest::Node const*, bool)", number % 13);
        let raw_name = format!(
            "_ZN6ingest{}{class}7VisitorILi{}EE8visit_{number}EPKNS_4NodeEb",
            class.len(),
            number % 13
        );
        let name = self.profile.tables.intern_string(&name);
        let raw_name = self.profile.tables.intern_string(&raw_name);
        self.profile.symbols.intern_function(Function { name, raw_name })
    }
}

const FOLDERS: [&str; 7] = ["parser", "lexer", "sema", "types", "codegen", "support", "io"];

/// Stacks of a program: `count` of them, about `depth` deep, each sharing a prefix with one before.
pub(crate) fn stacks(demo: &mut Demo, count: usize, depth: u64, functions: u64) -> Vec<StackId> {
    let mut stacks = Vec::new();
    let mut frames: Vec<FrameId> = Vec::new();
    while stacks.len() < count {
        extend_stack(demo, &mut frames, depth, functions);
        stacks.extend(demo.profile.tables.intern_stack_of(frames.iter().copied()));
    }
    stacks
}

/// Changes the stack `frames` as a running program would from one sample to the next: it returns
/// from some of the calls and makes others.
pub(crate) fn extend_stack(demo: &mut Demo, frames: &mut Vec<FrameId>, depth: u64, functions: u64) {
    let returns = 1 + demo.random.skewed_below(depth);
    frames.truncate(frames.len().saturating_sub(returns as usize));
    let goal = (depth * 3 / 4 + demo.random.below(depth / 2 + 1)) as usize;
    while frames.len() < goal.max(1) {
        let caller = frames.last().map_or(0, |frame| u64::from(frame.0));
        // A function calls a few others, some far more often than the rest.
        let callee = (caller * 31 + demo.random.skewed_below(12) * 97) % functions;
        frames.push(demo.frame(callee, 8));
    }
}

/// A program in a steady state: 10 s at 999 Hz in one thread, about 200 distinct stacks.
pub(crate) fn steady() -> Profile {
    let mut demo = Demo::new(1);
    let stacks = stacks(&mut demo, 200, 24, 150);
    for _ in 0..9990 {
        let stack = stacks[demo.random.below(200) as usize];
        demo.sample(Some(stack));
    }
    demo.finish();
    demo.profile
}

/// A compiler: 10 s at 999 Hz in one thread, nearly every stack new, 35 frames deep.
pub(crate) fn compiler() -> Profile {
    let mut demo = Demo::new(2);
    let mut frames = Vec::new();
    for _ in 0..9990 {
        // Any depth of return is as likely as another: a harder case than most programs.
        let returns = demo.random.below(30) as usize;
        frames.truncate(frames.len().saturating_sub(returns));
        extend_stack(&mut demo, &mut frames, 35, 4000);
        let stack = demo.profile.tables.intern_stack_of(frames.iter().copied());
        demo.sample(stack);
    }
    demo.finish();
    demo.profile
}

/// A long recording: `samples` samples of 10,000 distinct stacks, 30 frames deep, in 8 threads.
pub(crate) fn long(samples: usize) -> Profile {
    let mut demo = Demo::new(3);
    let stacks = stacks(&mut demo, 10_000, 30, 3000);
    let comm = demo.profile.tables.intern_string("worker");
    let process = demo.profile.tables.intern_string("ingest");
    for tid in 4313..4320 {
        demo.profile.tables.intern_task(Task { pid: 4312, tid, generation: 0, comm, process });
    }
    for _ in 0..samples {
        demo.task = TaskId(demo.random.below(8) as u32);
        let stack = stacks[demo.random.skewed_below(10_000) as usize];
        demo.sample(Some(stack));
    }
    demo.finish();
    demo.profile
}

/// The demonstration in short, two seconds of it: so many workers with numbered names that all do the same, and the thread that has
/// started them, which has a twentieth of the samples.
pub(crate) fn indexers(workers: u32) -> Profile {
    let mut demo = Demo::new(6);
    let stacks = stacks(&mut demo, 100, 12, 150);
    let process = demo.profile.tables.intern_string("ingest");
    let main = demo.task;
    let worker = |number: u32| {
        let comm = demo.profile.tables.intern_string(&format!("indexer-{number}"));
        demo.profile.tables.intern_task(Task { pid: 4312, tid: 4313 + number, generation: 0, comm, process })
    };
    let tasks: Vec<TaskId> = (0..workers).map(worker).collect();
    for number in 0..2_000 {
        let worker = demo.random.below(u64::from(workers)) as usize;
        demo.task = if number % 20 == 0 { main } else { tasks[worker] };
        let stack = stacks[demo.random.below(100) as usize];
        demo.sample(Some(stack));
    }
    demo.finish();
    demo.profile
}

/// `profile` with so many waits of a thread `worker` for a pipe, a disk, a CPU and the network, one after the other, with
/// where its time went, and with 500 page faults of ten each.
pub(crate) fn with_waits(mut profile: Profile, waits: u64) -> Profile {
    let mut random = Random::new(5);
    let stacks = profile.tables.stacks().len() as u64;
    let [comm, process] = ["worker", "ingest"].map(|name| profile.tables.intern_string(name));
    let worker = profile.tables.intern_task(Task { pid: 4312, tid: 4313, generation: 0, comm, process });
    let end_ns = profile.end.as_ref().map_or(0, |end| end.duration_ns);
    let gap_ns = end_ns / waits;
    let mut event = Event::new(EventInfo {
        kind: EventKind::OFF_CPU,
        sampling: "every wait of 1us and more".into(),
        min_duration_ns: 1_000,
        ..EventInfo::default()
    });
    let mut blocked_ns = 0;
    let mut no_cpu_ns = 0;
    for number in 0..waits {
        let reason = [Reason::Pipe, Reason::Disk, Reason::NoCpu, Reason::Network][number as usize % 4];
        let duration_ns = 1_000 + random.below(gap_ns * 3 / 4);
        *(if reason == Reason::NoCpu { &mut no_cpu_ns } else { &mut blocked_ns }) += duration_ns;
        let waker = Waker { kind: WakerKind::Thread, task: Some(TaskId(0)), stack: None };
        event.push(Sample {
            time_ns: number * gap_ns / 1000 * 1000,
            task: worker,
            stack: Some(StackId(random.below(stacks) as u32)),
            weight: duration_ns,
            cpu: 1,
            outcome: Outcome::Complete,
            wait: Some(Wait { duration_ns, reason, waker }),
            merged: None,
            block: None,
            labels: None,
        });
    }
    profile.events.push(event);
    profile.thread_times.push(ThreadTime {
        task: worker,
        from_ns: 0,
        to_ns: end_ns,
        on_cpu_ns: end_ns - blocked_ns - no_cpu_ns,
        no_cpu_ns,
        blocked_ns,
        switches: waits + 7,
        has_ended: false,
        short_waits: vec![ShortWaits { reason: Reason::Lock, count: 7, time_ns: 4_321 }],
    });
    add_page_faults(&mut profile, worker, &mut random);
    profile
}

/// Adds 500 samples of page faults of a thread.
fn add_page_faults(profile: &mut Profile, task: TaskId, random: &mut Random) {
    let stacks = profile.tables.stacks().len() as u64;
    let kind = EventKind::counted("page-faults", "page faults");
    let mut event =
        Event::new(EventInfo { kind, sampling: "every 10th".into(), period: 10, ..EventInfo::default() });
    for number in 0..500 {
        event.push(Sample {
            time_ns: number * 1_000_000,
            task,
            stack: Some(StackId(random.below(stacks) as u32)),
            weight: 10,
            ..Sample::default()
        });
    }
    profile.events.push(event);
}
