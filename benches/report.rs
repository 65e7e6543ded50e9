//! From a profile in memory to a report: 1,000,000 samples of 10,000 distinct stacks of 30 frames (a
//! steady program), and 100,000 samples that all have a stack of their own (a compiler).

use criterion::{Criterion, criterion_group, criterion_main};
use prof::profile::{
    Event, EventInfo, Frame, FrameFlags, FrameId, Function, Integrity, Location, Module, ModuleKind, Outcome,
    Profile, Sample, StackId, StringId, Task, Unit,
};
use prof::report::{CommonOptions, NameStyle, Page, Recording, ReportOptions, View, folded, render};
use std::hint::black_box;

const DEPTH: usize = 30;
const FUNCTIONS: u64 = 2_000;
const PERIOD_NS: u64 = 1_001_001;

/// Numbers that look random and never change (Knuth's MMIX generator).
struct Numbers(u64);

impl Numbers {
    fn below(&mut self, limit: u64) -> u64 {
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
        for depth in 0..DEPTH {
            let source = if depth < DEPTH / 2 { &mut outer } else { &mut *numbers };
            path.push(frames[source.below(FUNCTIONS) as usize]);
        }
        stacks.extend(profile.tables.intern_stack_of(path));
    }
    stacks
}

fn recording(samples: usize, distinct_stacks: usize) -> Recording {
    let mut numbers = Numbers(42);
    let mut profile = Profile::default();
    let stacks = stacks(&mut profile, distinct_stacks, &mut numbers);
    let comm: StringId = profile.tables.intern_string("steady");
    let tasks: Vec<_> = (0..8)
        .map(|tid| {
            profile.tables.intern_task(Task { pid: 100, tid: 100 + tid, generation: 0, comm, process: comm })
        })
        .collect();
    let mut event = Event::new(EventInfo {
        name: "on-cpu".to_owned(),
        unit: Unit::Nanoseconds,
        sampling: "cpu-clock every 1001 us".to_owned(),
        period: PERIOD_NS,
    });
    for number in 0..samples {
        event.push(Sample {
            time_ns: number as u64 * PERIOD_NS,
            task: tasks[number % tasks.len()],
            stack: Some(stacks[numbers.below(stacks.len() as u64) as usize]),
            weight: PERIOD_NS,
            cpu: (number % 2) as u16,
            outcome: Outcome::Complete,
        });
    }
    profile.events.push(event);
    Recording { profile, integrity: Integrity::default() }
}

fn views(criterion: &mut Criterion) {
    for (name, recording) in
        [("steady 1M/10k", recording(1_000_000, 10_000)), ("compiler 100k/100k", recording(100_000, 100_000))]
    {
        let mut group = criterion.benchmark_group(name);
        group.sample_size(10);
        for (view_name, view) in [("flat", View::Flat), ("tree", View::Tree), ("bottom-up", View::BottomUp)] {
            let options = ReportOptions { view, ..ReportOptions::default() };
            group.bench_function(view_name, |bencher| {
                bencher.iter(|| render(black_box(&recording), &options, &Page::PLAIN));
            });
        }
        group.bench_function("folded", |bencher| {
            bencher.iter(|| {
                let selection = black_box(&recording).select(&CommonOptions::default());
                selection.map(|selection| folded(&selection, NameStyle::Full, false).len())
            });
        });
        group.finish();
    }
}

criterion_group!(benches, views);
criterion_main!(benches);
