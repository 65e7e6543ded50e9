use super::*;
use crate::profile::{Frame, FrameId, Function, Location, Module, Sample, demo_profile};

/// A recording with waits, and the time of a thread.
fn demo() -> Profile {
    demo_profile::with_waits(demo_profile::steady(), 500)
}

fn weights(profile: &Profile) -> Vec<u64> {
    profile.events.iter().map(|event| event.samples().map(|sample| sample.weight).sum()).collect()
}

fn joined(profiles: impl IntoIterator<Item = Profile>) -> Profile {
    let mut joined = Joined::default();
    for profile in profiles {
        assert!(joined.add(profile), "there is room");
    }
    joined.into_profile()
}

/// The demo, as recorded so long after itself.
fn later(seconds: u64) -> Profile {
    let mut profile = demo();
    profile.meta.start_unix_ns += seconds * 1_000_000_000;
    profile.meta.start_mono_ns += seconds * 1_000_000_000;
    profile
}

#[test]
fn two_of_one_kind_have_its_rows_once_and_its_weights_twice() {
    let demo = demo();
    let both = joined([later(0), later(60)]);
    let doubled: Vec<u64> = weights(&demo).iter().map(|weight| weight * 2).collect();
    assert_eq!(weights(&both), doubled);
    let used: FxHashSet<_> = both.tables.frames().iter().collect();
    assert_eq!(used.len(), both.tables.frames().len());
    assert!(both.tables.frames().len() <= demo.tables.frames().len());
    for (name, value) in &demo.counters {
        assert_eq!(both.counter(name), value * 2, "{name}");
    }
    let time = |profile: &Profile| profile.thread_times.iter().map(|time| time.on_cpu_ns).sum::<u64>();
    assert_eq!(time(&both), 2 * time(&demo));
    assert_eq!(both.thread_times.len(), demo.thread_times.len(), "a thread has one time");
    let end = both.end.expect("both have ended");
    assert_eq!(end.duration_ns, 60_000_000_000 + demo.end.expect("it has ended").duration_ns);
}

#[test]
fn names_stay_with_their_stacks() {
    let named = |profile: &Profile| {
        let mut all: Vec<String> = Vec::new();
        for sample in profile.events.iter().flat_map(|event| event.samples()) {
            let frames = sample.stack.into_iter().flat_map(|stack| profile.tables.stack_frames(stack));
            let names = frames.map(|frame| {
                let location = profile.symbols.locations(frame).first().copied().unwrap_or_default();
                profile.tables.string(profile.symbols.function(location.function).name).to_owned()
            });
            all.push(names.collect::<Vec<_>>().join(";"));
        }
        all.sort();
        all.dedup();
        all
    };
    assert_eq!(named(&joined([later(5), later(65)])), named(&demo()));
}

#[test]
fn a_clock_that_was_set_back_moves_nothing_before_what_was_recorded() {
    let demo_ns = demo().duration_ns();
    let mut back = later(0);
    back.meta.start_unix_ns -= 3_600_000_000_000;
    back.meta.recorder_pid += 1;
    let both = joined([later(0), back]);
    assert_eq!(both.duration_ns(), 2 * demo_ns);
    // Windows of one recorder have a clock that no one sets.
    let mut same = later(120);
    same.meta.start_unix_ns -= 3_600_000_000_000;
    assert_eq!(joined([later(0), same]).duration_ns(), 120_000_000_000 + demo_ns);
}

#[test]
fn other_code_at_the_same_address_keeps_its_name() {
    let of_name = |name: &str| {
        let mut profile = demo();
        let path = profile.tables.intern_string("java 17");
        let module = profile.tables.intern_module(Module { path, ..Module::default() });
        let frame = profile.tables.intern_frame(Frame { module, address: 7, ..Frame::default() });
        let name = profile.tables.intern_string(name);
        let function = profile.symbols.intern_function(Function { name, raw_name: name });
        profile.symbols.set_locations(frame, vec![Location { function, ..Location::default() }]);
        let stack = profile.tables.intern_stack_of([frame]);
        let sample = profile.events[0].samples().next().expect("it has some");
        profile.events[0].push(Sample { stack, ..sample });
        profile
    };
    let both = joined([of_name("App.first"), of_name("App.second"), of_name("App.first")]);
    let names: Vec<String> = (0..both.tables.frames().len() as u32)
        .map(FrameId)
        .filter(|frame| both.tables.frame(*frame).address == 7)
        .map(|frame| {
            let location = both.symbols.locations(frame).first().copied().unwrap_or_default();
            both.tables.string(both.symbols.function(location.function).name).to_owned()
        })
        .collect();
    assert_eq!(names, ["App.first", "App.second"]);
}

#[test]
fn a_part_has_the_parts_of_waits_and_of_threads() {
    let whole = demo();
    let duration_ns = whole.duration_ns();
    let half_ns = duration_ns / 2;
    let part = |from_ns, to_ns| {
        let mut profile = demo();
        cut(&mut profile, from_ns, to_ns);
        profile
    };
    let (first, second) = (part(0, half_ns), part(half_ns, u64::MAX));
    for (sums, all) in std::iter::zip(weights(&first), weights(&second)).zip(weights(&whole)) {
        let both = sums.0 + sums.1;
        assert!(both.abs_diff(all) <= 16, "{both} of {all}");
    }
    assert_eq!(first.duration_ns() + second.duration_ns(), duration_ns);
    assert!(
        second
            .events
            .iter()
            .flat_map(|event| event.samples())
            .all(|sample| sample.time_ns <= duration_ns - half_ns)
    );
    let lived =
        |profile: &Profile| profile.thread_times.iter().map(|time| time.to_ns - time.from_ns).sum::<u64>();
    assert_eq!(lived(&first) + lived(&second), lived(&whole));
}

/// The cost of a recorder that used so many ms of a CPU, a tenth of that in BPF programs.
fn with_cost(mut profile: Profile, ms: u64) -> Profile {
    let end = profile.end.as_mut().expect("it has ended");
    (end.cpu_ns, end.recording_cpu_ns) = (ms * 1_000_000, Some(ms * 1_000_000));
    (end.bpf_ns, end.bpf_runs) = (ms * 100_000, ms);
    profile
}

#[test]
fn a_part_has_its_part_of_the_cost() {
    let mut part = with_cost(demo(), 800);
    let before = part.end.as_ref().and_then(End::while_recording).expect("it is known");
    let quarter_ns = part.duration_ns() / 4;
    cut(&mut part, quarter_ns, 2 * quarter_ns);
    let end = part.end.expect("it has ended");
    assert!(end.cpu_ns.abs_diff(200_000_000) < 1000 && end.bpf_runs.abs_diff(200) <= 1, "{end:?}");
    let after = end.while_recording().expect("it is known");
    assert!((after.cpu_percent - before.cpu_percent).abs() < 0.01, "{before:?} {after:?}");
    assert!((after.bpf_percent - before.bpf_percent).abs() < 0.01, "{before:?} {after:?}");
}

#[test]
fn the_cost_is_that_of_those_with_an_end_over_their_own_length() {
    let of_all = |windows: Vec<Profile>| {
        let mut joined = Joined::default();
        windows.into_iter().for_each(|window| assert!(joined.add(window)));
        (joined.known_cost().expect("some have ended"), joined.into_profile().end)
    };
    let killed = |seconds| Profile { end: None, ..later(seconds) };
    let duration_ns = demo().duration_ns();
    let windows = || vec![with_cost(later(0), 100), with_cost(later(60), 300)];
    // Nothing was recorded in most of the minute between the two.
    let (cost, end) = of_all(windows());
    assert_eq!((cost.cpu_ns, cost.duration_ns), (400_000_000, 2 * duration_ns));
    assert_eq!(end.expect("the last has ended").duration_ns, 60_000_000_000 + duration_ns);
    let (cost, end) = of_all(windows().into_iter().chain([killed(120)]).collect());
    assert_eq!((cost.cpu_ns, cost.duration_ns, end), (400_000_000, 2 * duration_ns, None));
    let [first, last] = windows().try_into().expect("two");
    let (cost, end) = of_all(vec![first, killed(30), last]);
    assert_eq!((cost.cpu_ns, cost.duration_ns), (400_000_000, 2 * duration_ns));
    assert_eq!(end.expect("the last has ended").cpu_ns, 400_000_000);
}
