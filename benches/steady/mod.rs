//! A steady program as a recording, for benches: samples of stacks of 30 frames that share their outer half.

use prof::internals::profile::{
    Event, EventInfo, EventKind, Frame, FrameFlags, FrameId, Function, Integrity, Location, Module,
    ModuleKind, Outcome, Profile, Reason, Sample, StackId, StringId, Task, TaskId, Wait, Waker, WakerKind,
};
use prof::internals::report::Analysis;

const DEPTH: usize = 30;
/// Outermost frames that are one of three each.
const TRUNK: usize = 5;
const FUNCTIONS: u64 = 2_000;
const PERIOD_NS: u64 = 1_001_001;

/// Numbers that look random and never change (Knuth's MMIX generator).
pub(crate) struct Numbers(pub(crate) u64);

impl Numbers {
    pub(crate) fn below(&mut self, limit: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % limit
    }
}

fn frames(profile: &mut Profile) -> Vec<FrameId> {
    let path = profile.tables.intern_string("/usr/bin/steady");
    let module = profile.tables.intern_module(Module { path, kind: ModuleKind::Elf, ..Module::default() });
    let file = profile.tables.intern_string("/src/steady/main.rs");
    (0..FUNCTIONS)
        .map(|number| {
            let name =
                profile.tables.intern_string(&format!("steady::module_{}::function_{number}", number % 40));
            let raw_name = profile.tables.intern_string(&format!("_ZN6steady{number}E"));
            let function = profile.symbols.intern_function(Function { name, raw_name });
            let flags = FrameFlags::default();
            let frame = profile.tables.intern_frame(Frame { module, address: number << 6, flags });
            let owner = Location { function, file, line: number as u32 + 1, is_inlined: false };
            profile.symbols.set_locations(frame, vec![owner]);
            frame
        })
        .collect()
}

/// Stacks that share their outer half with others, as real ones do.
fn stacks(profile: &mut Profile, count: usize, numbers: &mut Numbers) -> Vec<StackId> {
    let frames = frames(profile);
    let mut stacks = Vec::with_capacity(count);
    while stacks.len() < count {
        let mut path: Vec<FrameId> = Vec::with_capacity(DEPTH);
        let mut outer = Numbers(numbers.below(count as u64 / 20 + 1));
        // The outermost frames of a program are few.
        let mut trunk = 0;
        for depth in 0..DEPTH {
            let source = if depth < DEPTH / 2 { &mut outer } else { &mut *numbers };
            let number = source.below(FUNCTIONS);
            trunk = 3 * trunk + number % 3;
            path.push(frames[if depth < TRUNK { (trunk % FUNCTIONS) as usize } else { number as usize }]);
        }
        stacks.extend(profile.tables.intern_stack_of(path));
    }
    stacks
}

/// `samples` samples of `distinct_stacks` stacks, of eight threads.
pub(crate) fn recording(samples: usize, distinct_stacks: usize) -> Analysis {
    recording_of_threads(samples, distinct_stacks, 8)
}

/// The same of so many threads.
pub(crate) fn recording_of_threads(samples: usize, distinct_stacks: usize, threads: u32) -> Analysis {
    let mut numbers = Numbers(42);
    let mut profile = Profile::default();
    let stacks = stacks(&mut profile, distinct_stacks, &mut numbers);
    let comm: StringId = profile.tables.intern_string("steady");
    let tasks: Vec<_> = (0..threads)
        .map(|tid| {
            profile.tables.intern_task(Task { pid: 100, tid: 100 + tid, generation: 0, comm, process: comm })
        })
        .collect();
    let mut event = Event::new(EventInfo {
        kind: EventKind::ON_CPU,
        sampling: "cpu-clock every 1001 us".to_owned(),
        period: PERIOD_NS,
        ..EventInfo::default()
    });
    for number in 0..samples {
        event.push(Sample {
            time_ns: number as u64 * PERIOD_NS,
            task: tasks[number % tasks.len()],
            stack: Some(stacks[numbers.below(stacks.len() as u64) as usize]),
            weight: PERIOD_NS,
            cpu: (number % 2) as u16,
            outcome: Outcome::Complete,
            wait: None,
            merged: None,
            block: None,
            labels: None,
        });
    }
    profile.events.push(event);
    Analysis::new(profile, Integrity::default())
}

/// `profile` and so many waits of its threads, of all reasons and lengths.
#[allow(dead_code, reason = "not every bench has waits")]
pub(crate) fn with_waits(mut profile: Profile, waits: usize, distinct_stacks: usize) -> Profile {
    let mut numbers = Numbers(7);
    let sampled = profile.events[0].samples().filter_map(|sample| sample.stack);
    let stacks = sampled.map(|stack| u64::from(stack.0) + 1).max().unwrap_or(1);
    let mut event = Event::new(EventInfo {
        kind: EventKind::OFF_CPU,
        sampling: "every wait of 1 us and more".to_owned(),
        min_duration_ns: 1_000,
        ..EventInfo::default()
    });
    let stacks: Vec<StackId> = (0..distinct_stacks).map(|_| StackId(numbers.below(stacks) as u32)).collect();
    // From the first sample to the last.
    let length_ns = profile.events[0].last_time_ns().unwrap_or(0);
    for number in 0..waits {
        let duration_ns = 1_000 + numbers.below(1_000_000);
        let stack = stacks[numbers.below(stacks.len() as u64) as usize];
        // A stack waits for one thing, as in a program.
        let reason = Reason::ALL[stack.index() % Reason::ALL.len()];
        let waker = Waker { kind: WakerKind::Thread, task: Some(TaskId(number as u32 % 8)), stack: None };
        event.push(Sample {
            time_ns: number as u64 * (length_ns / waits as u64),
            task: TaskId(numbers.below(8) as u32),
            stack: Some(stack),
            weight: duration_ns * (1 + numbers.below(2)),
            cpu: (number % 2) as u16,
            outcome: Outcome::Complete,
            wait: Some(Wait { duration_ns, reason, waker }),
            merged: None,
            block: None,
            labels: None,
        });
    }
    profile.events.push(event);
    profile
}
