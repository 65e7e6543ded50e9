//! The profile file from outside: what is written is read, in whatever steps; what is damaged is noticed.

#![allow(clippy::unwrap_used, reason = "all of it is test code; the lint only spares `#[test]` functions")]

use demo_profile::Demo;
use prof::internals::profile::{
    End, EventId, EventInfo, EventKind, Frame, FrameFlags, FrameId, Function, Location, Merged, Meta, Module,
    ModuleId, ModuleKind, Outcome, Profile, ReadError, Reason, Sample, ShortWaits, StackId, StringId, Task,
    TaskId, ThreadTime, Unit, Wait, Waker, WakerKind, WriteError, Writer, read, read_path,
};
use proptest::prelude::*;
use std::io::{self, Read, Write};

#[path = "common/demo_profile.rs"]
mod demo_profile;

fn written(profile: &Profile) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &profile.meta).unwrap();
    writer.flush(&mut profile.clone(), false).unwrap();
    assert_eq!(writer.bytes_written(), writer.into_inner().len() as u64);
    let mut writer = Writer::new(Vec::new(), &profile.meta).unwrap();
    writer.flush(&mut profile.clone(), true).unwrap();
    writer.into_inner()
}

/// A recording of two seconds with its end, in two flushes, as small as it can be.
fn small_file() -> Vec<u8> {
    let mut demo = Demo::new(9);
    let mut writer = Writer::new(Vec::new(), &demo.profile.meta).unwrap();
    for _ in 0..2 {
        for stack in demo_profile::stacks(&mut demo, 3, 4, 5) {
            demo.sample(Some(stack));
            demo.sample(None);
        }
        writer.flush(&mut demo.profile, true).unwrap();
    }
    demo.finish();
    writer.flush(&mut demo.profile, true).unwrap();
    writer.into_inner()
}

fn bytes_per_sample(mut profile: Profile) -> f64 {
    // Flushed once a second, as a recorder does, names at the end.
    let events = std::mem::take(&mut profile.events);
    let symbols = std::mem::take(&mut profile.symbols);
    let end = profile.end.take();
    let mut writer = Writer::new(Vec::new(), &profile.meta).unwrap();
    let samples: Vec<Sample> = events[0].samples().collect();
    profile.add_event(events[0].info().clone());
    let all = std::mem::take(&mut profile.tables);
    for second in samples.chunks(999) {
        let last = second.iter().filter_map(|sample| sample.stack).max();
        copy_stacks(&all, &mut profile, last);
        second.iter().for_each(|&sample| profile.events[0].push(sample));
        writer.flush(&mut profile, true).unwrap();
    }
    all.strings().for_each(|text| {
        profile.tables.intern_string(text);
    });
    (profile.symbols, profile.end) = (symbols, end);
    writer.flush(&mut profile, true).unwrap();
    let bytes = writer.into_inner();
    let (back, integrity) = read(bytes.as_slice()).unwrap();
    assert!(integrity.is_complete, "{integrity:?}");
    assert_eq!(back.events[0].samples().collect::<Vec<_>>(), samples);
    assert!(back.tables == profile.tables && back.symbols == profile.symbols);
    bytes.len() as f64 / samples.len() as f64
}

/// Copies the rows that stacks up to `last` need, as they would have come.
fn copy_stacks(from: &prof::internals::profile::Tables, to: &mut Profile, last: Option<StackId>) {
    let to = &mut to.tables;
    // The synthetic recordings have their module, task and strings before their first stack.
    from.strings().take(3).for_each(|text| {
        to.intern_string(text);
    });
    from.modules().iter().for_each(|module| {
        to.intern_module(module.clone());
    });
    from.tasks().iter().for_each(|&task| {
        to.intern_task(task);
    });
    let stacks = &from.stacks()[..last.map_or(0, |last| last.index() + 1)];
    let frames = stacks.iter().map(|stack| stack.frame.index() + 1).max().unwrap_or(0);
    from.frames()[..frames].iter().for_each(|&frame| {
        to.intern_frame(frame);
    });
    for (id, stack) in stacks.iter().enumerate().skip(to.stacks().len()) {
        assert_eq!(to.intern_stack(stack.parent, stack.frame).index(), id);
    }
}

#[test]
fn a_steady_program_takes_at_most_six_bytes_per_sample() {
    let bytes = bytes_per_sample(demo_profile::steady());
    println!("steady: {bytes:.2} bytes per sample");
    assert!(bytes <= 6.0, "{bytes}");
}

#[test]
fn a_compiler_takes_at_most_150_bytes_per_sample() {
    let profile = demo_profile::compiler();
    let per_sample = |rows: usize| rows as f64 / profile.events[0].len() as f64;
    let (stacks, frames) =
        (per_sample(profile.tables.stacks().len()), per_sample(profile.tables.frames().len()));
    let (functions, strings) = (profile.symbols.functions().len(), profile.tables.strings().len());
    let bytes = bytes_per_sample(profile);
    println!(
        "compiler: {bytes:.2} bytes per sample; {stacks:.1} stacks, {frames:.1} frames per sample; {functions} functions, {strings} strings"
    );
    assert!(stacks > 5.0, "the stacks are not new: {stacks}");
    assert!(bytes <= 150.0, "{bytes}");
}

#[test]
fn every_cut_opens_as_a_prefix_and_says_so() {
    let file = small_file();
    let (whole, integrity) = read(file.as_slice()).unwrap();
    assert!(integrity.is_complete && integrity.problem.is_none(), "{integrity:?}");
    assert_eq!(integrity.bytes_read, file.len() as u64);
    let whole_samples: Vec<Sample> = whole.events[0].samples().collect();
    assert_eq!(whole_samples.len(), 12);
    let mut seen = 0;
    for cut in 0..file.len() {
        match read(&file[..cut]) {
            Err(ReadError::Empty) => assert_eq!(cut, 0),
            Err(ReadError::TruncatedHeader { bytes }) => assert!(bytes == cut as u64 && cut < 32),
            Err(error) => panic!("cut {cut}: {error}"),
            Ok((profile, integrity)) => {
                assert!(!integrity.is_complete && integrity.problem.is_some(), "cut {cut}: {integrity:?}");
                assert_eq!(integrity.bytes_read + integrity.bytes_skipped, cut as u64);
                let samples: Vec<Sample> =
                    profile.events.first().map(|e| e.samples().collect()).unwrap_or_default();
                assert!(whole_samples.starts_with(&samples) && samples.len() >= seen, "cut {cut}");
                assert!(profile.tables.stacks() == &whole.tables.stacks()[..profile.tables.stacks().len()]);
                seen = samples.len();
            }
        }
    }
    assert_eq!(seen, 12);
}

#[test]
fn every_flipped_bit_is_noticed_and_what_came_before_is_kept() {
    let file = small_file();
    let (whole, _) = read(file.as_slice()).unwrap();
    let whole_samples: Vec<Sample> = whole.events[0].samples().collect();
    for bit in 0..file.len() * 8 {
        let mut file = file.clone();
        file[bit / 8] ^= 1 << (bit % 8);
        let Ok((profile, integrity)) = read(file.as_slice()) else {
            assert!(bit < 32 * 8, "bit {bit}: behind the header nothing is an error");
            continue;
        };
        assert!(!integrity.is_complete && integrity.problem.is_some(), "bit {bit}: {integrity:?}");
        assert!(integrity.bytes_read <= bit as u64 / 8);
        assert_eq!(integrity.bytes_read + integrity.bytes_skipped, file.len() as u64);
        let samples: Vec<Sample> = profile.events.first().map(|e| e.samples().collect()).unwrap_or_default();
        assert!(whole_samples.starts_with(&samples), "bit {bit}");
    }
}

#[test]
fn bytes_behind_the_end_make_it_incomplete() {
    let mut file = small_file();
    let length = file.len() as u64;
    file.extend(*b"some text that came behind it");
    let (_, integrity) = read(file.as_slice()).unwrap();
    assert!(!integrity.is_complete);
    assert_eq!((integrity.bytes_read, integrity.bytes_skipped), (length, 29));
    assert!(integrity.problem.as_ref().unwrap().contains(&format!("at byte {length}")), "{integrity:?}");
}

#[test]
fn what_comes_after_the_end_record_is_followed_by_another() {
    let mut demo = Demo::new(5);
    demo.finish();
    let mut writer = Writer::new(Vec::new(), &demo.profile.meta).unwrap();
    writer.flush(&mut demo.profile, false).unwrap();
    let length = writer.bytes_written();
    writer.flush(&mut demo.profile, false).unwrap();
    assert_eq!(writer.bytes_written(), length, "nothing was new");
    demo.sample(None);
    writer.flush(&mut demo.profile, false).unwrap();
    let (profile, integrity) = read(writer.into_inner().as_slice()).unwrap();
    assert!(integrity.is_complete, "{integrity:?}");
    assert_eq!(profile, demo.profile);
}

#[test]
fn a_name_past_the_limit_is_cut_between_characters() {
    let mut profile = Profile::default();
    let long = "é".repeat(1 << 19) + "é";
    profile.tables.intern_string(&format!("a{long}"));
    profile.tables.intern_string("next");
    let (back, _) = read(written(&profile).as_slice()).unwrap();
    assert_eq!(back.tables.string(StringId(1)).len(), (1 << 20) - 1);
    assert_eq!(back.tables.string(StringId(2)), "next");
}

#[test]
fn a_flush_past_the_size_of_one_chunk_round_trips() {
    let mut demo = Demo::new(4);
    let stacks = demo_profile::stacks(&mut demo, 30_000, 12, 30_000);
    assert!(demo.profile.tables.stacks().len() > 70_000);
    for &stack in stacks.iter().cycle().take(140_000) {
        demo.sample(Some(stack));
    }
    demo.finish();
    let (back, integrity) = read(written(&demo.profile).as_slice()).unwrap();
    assert!(integrity.is_complete, "{integrity:?}");
    assert!(back == demo.profile);
}

#[test]
fn a_stack_too_deep_for_the_format_is_refused_in_words() {
    let mut demo = Demo::new(4);
    let frame = demo.frame(1, 1);
    demo.profile.tables.intern_stack_of(std::iter::repeat_n(frame, 4_096));
    assert_eq!(read(written(&demo.profile).as_slice()).unwrap().0, demo.profile);
    demo.profile.tables.intern_stack_of(std::iter::repeat_n(frame, 4_097));
    let mut writer = Writer::new(Vec::new(), &demo.profile.meta).unwrap();
    let error = writer.flush(&mut demo.profile, false).unwrap_err();
    assert_eq!(error.to_string(), "a stack's depth in frames of 4097 exceeds the format's limit of 4096");
}

/// Takes a number of bytes, then fails as a full disk does.
struct FullDisk {
    taken: Vec<u8>,
    room: usize,
}

impl Write for FullDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.room - self.taken.len());
        self.taken.extend(&bytes[..taken]);
        if taken == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(taken) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[test]
fn a_full_disk_leaves_a_readable_file_and_no_second_try() {
    let mut demo = Demo::new(6);
    let mut writer = Writer::new(FullDisk { taken: Vec::new(), room: 1000 }, &demo.profile.meta).unwrap();
    let error = loop {
        let stack = demo_profile::stacks(&mut demo, 1, 8, 50)[0];
        demo.sample(Some(stack));
        if let Err(error) = writer.flush(&mut demo.profile, true) {
            break error;
        }
    };
    assert!(matches!(&error, WriteError::Io(error) if error.kind() == io::ErrorKind::StorageFull), "{error}");
    assert!(matches!(writer.flush(&mut demo.profile, true), Err(WriteError::Broken)));
    let end = End { reason: "no space left".into(), ..End::default() };
    let (whole, closing) = (writer.bytes_written() as usize, writer.closing_chunk(&end).unwrap());
    let taken = writer.into_inner().taken;
    let (profile, integrity) = read(taken.as_slice()).unwrap();
    assert!(!profile.events[0].is_empty());
    assert!(integrity.problem.unwrap().contains("cut in the middle"));
    // Where there is room for it, the file says why it ends.
    let (profile, integrity) = read([&taken[..whole], &closing].concat().as_slice()).unwrap();
    assert_eq!((profile.end, integrity.problem), (Some(end), None));
}

#[test]
fn paths_that_are_no_profile_are_refused_by_kind() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(read_path(folder.path()), Err(ReadError::Directory)));
    assert!(matches!(read_path("/dev/zero".as_ref()), Err(ReadError::NotAFile)));
    let missing = read_path(&folder.path().join("missing")).unwrap_err();
    assert!(matches!(&missing, ReadError::Io(error) if error.kind() == io::ErrorKind::NotFound));
    assert!(missing.hint().unwrap().contains("prof record"));
    let path = folder.path().join("prof.data");
    std::fs::write(&path, b"").unwrap();
    assert!(matches!(read_path(&path), Err(ReadError::Empty)));
    std::fs::write(&path, b"PERFILE2 and more").unwrap();
    let error = read_path(&path).unwrap_err();
    assert_eq!(error.to_string(), "not a prof file: it looks like a perf.data file of Linux perf");
    assert_eq!(error.hint(), Some("`perf report -i FILE` opens it"));
    std::fs::write(&path, small_file()).unwrap();
    assert!(read_path(&path).unwrap().1.is_complete);
}

/// One thing that a recorder might do. The numbers are reduced to ids that exist.
#[derive(Debug, Clone)]
enum Step {
    Module {
        path: String,
        build_id: Vec<u8>,
        kind: u8,
        pid: u32,
    },
    Task {
        pid: u32,
        tid: u32,
        generation: u32,
        comm: String,
    },
    Frame {
        module: u32,
        address: u64,
        flags: u8,
    },
    Stack {
        parent: Option<u32>,
        frame: u32,
    },
    Event {
        name: String,
        unit: u8,
        period: u64,
    },
    Sample {
        event: u32,
        time_us: u64,
        task: u32,
        stack: Option<u32>,
        weight: Option<u32>,
        cpu: u16,
        outcome: u8,
        wait: [u64; 5],
    },
    ThreadTime {
        task: u32,
        from_ns: u64,
        times_ns: [u64; 5],
        has_ended: bool,
        short: Vec<(u8, u64, u64)>,
    },
    Name {
        frame: u32,
        locations: Vec<(String, String, u32, bool)>,
    },
    Counter {
        name: String,
        n: u64,
    },
    Meta {
        target: String,
        pids: Vec<u32>,
        status: Option<i32>,
    },
    End {
        duration_ns: u64,
        status: Option<i32>,
    },
    Flush {
        forget: bool,
    },
}

fn step() -> impl Strategy<Value = Step> {
    let text = "[a-cé\u{0}]{0,3}";
    prop_oneof![
        1 => (text, proptest::collection::vec(any::<u8>(), 0..4), 0_u8..8, 0_u32..3)
            .prop_map(|(path, build_id, kind, pid)| Step::Module { path, build_id, kind, pid }),
        1 => (any::<u32>(), any::<u32>(), 0_u32..3, text)
            .prop_map(|(pid, tid, generation, comm)| Step::Task { pid, tid, generation, comm }),
        4 => (any::<u32>(), any::<u64>(), 0_u8..16)
            .prop_map(|(module, address, flags)| Step::Frame { module, address, flags }),
        6 => (any::<Option<u32>>(), any::<u32>()).prop_map(|(parent, frame)| Step::Stack { parent, frame }),
        1 => (text, 0_u8..5, 0_u64..5).prop_map(|(name, unit, period)| Step::Event { name, unit, period }),
        8 => (any::<u32>(), 0..=u64::MAX / 1000, any::<u32>(), any::<Option<u32>>(), any::<Option<u32>>(), any::<u16>(), 0_u8..16, any::<[u64; 5]>())
            .prop_map(|(event, time_us, task, stack, weight, cpu, outcome, wait)| {
                Step::Sample { event, time_us, task, stack, weight, cpu, outcome, wait }
            }),
        1 => (any::<u32>(), 0..=u64::MAX / 2, any::<[u64; 5]>(), any::<bool>(), proptest::collection::vec(any::<(u8, u64, u64)>(), 0..4))
            .prop_map(|(task, from_ns, times_ns, has_ended, short)| {
                Step::ThreadTime { task, from_ns, times_ns, has_ended, short }
            }),
        3 => (any::<u32>(), proptest::collection::vec((text, text, any::<u32>(), any::<bool>()), 0..4))
            .prop_map(|(frame, locations)| Step::Name { frame, locations }),
        1 => (text, any::<u64>()).prop_map(|(name, n)| Step::Counter { name, n }),
        1 => (text, proptest::collection::vec(any::<u32>(), 0..3), any::<Option<i32>>())
            .prop_map(|(target, pids, status)| Step::Meta { target, pids, status }),
        1 => (any::<u64>(), any::<Option<i32>>()).prop_map(|(duration_ns, status)| Step::End { duration_ns, status }),
        2 => any::<bool>().prop_map(|forget| Step::Flush { forget }),
    ]
}

/// An id below `rows`, when there is one.
fn pick(number: u32, rows: usize) -> Option<u32> {
    (rows > 0).then(|| number % rows as u32)
}

/// Does one step other than a flush; steps that need a row which is not there do nothing.
fn apply(profile: &mut Profile, step: &Step) -> Option<()> {
    let Profile { tables, symbols, .. } = profile;
    match step {
        Step::Module { path, build_id, kind, pid } => {
            let path = tables.intern_string(path);
            let kind = ModuleKind::from_code(*kind);
            tables.intern_module(Module { path, build_id: build_id.clone(), kind, instance: *pid });
        }
        Step::Task { pid, tid, generation, comm } => {
            let (comm, process) = (tables.intern_string(comm), StringId(0));
            tables.intern_task(Task { pid: *pid, tid: *tid, generation: *generation, comm, process });
        }
        Step::Frame { module, address, flags } => {
            let module = ModuleId(pick(*module, tables.modules().len())?);
            tables.intern_frame(Frame { module, address: *address, flags: FrameFlags::from_bits(*flags) });
        }
        Step::Stack { parent, frame } => {
            let parent = parent.and_then(|parent| pick(parent, tables.stacks().len())).map(StackId);
            let frame = FrameId(pick(*frame, tables.frames().len())?);
            tables.intern_stack(parent, frame);
        }
        Step::Event { name, unit, period } => {
            let unit = Unit::from_code(*unit);
            let title = format!("{name} of a test");
            let has_duration = unit.code() % 2 == 1;
            let kind = EventKind { unit, has_duration, ..EventKind::counted(name.clone(), title) };
            profile.add_event(EventInfo { kind, sampling: "some".into(), period: *period });
        }
        Step::Sample { event, time_us, task, stack, weight, cpu, outcome, wait: wait_numbers } => {
            let wait = wait_numbers;
            let event = EventId(pick(*event, profile.events.len())?);
            let task = TaskId(pick(*task, tables.tasks().len())?);
            let stack = stack.and_then(|stack| pick(stack, tables.stacks().len())).map(StackId);
            let event = &mut profile.events[event.index()];
            let weight = weight.map_or(event.info().period, u64::from);
            let outcome = Outcome::from_code(*outcome);
            // The samples of an event all are waits, or none is.
            let wait = event.has_waits().then(|| Wait {
                duration_ns: wait[0],
                reason: Reason::from_code(wait[1] as u8),
                waker: Waker {
                    kind: WakerKind::from_code(wait[2] as u8 % 6),
                    task: (wait[3] % 3 > 0).then_some(task),
                    stack: stack.filter(|_| wait[4] % 3 > 0),
                },
            });
            // Now and then a row that is several observations.
            let merged = (wait_numbers[0] % 5 == 0).then(|| Merged {
                samples: 1 + wait_numbers[1] % 1_000,
                count_thousandths: wait_numbers[2],
                variance_us2: wait_numbers[3],
                span_ns: wait_numbers[4],
            });
            event.push(Sample {
                time_ns: time_us * 1000,
                task,
                stack,
                weight,
                cpu: *cpu,
                outcome,
                wait,
                merged,
            });
        }
        Step::ThreadTime { task, from_ns, times_ns, has_ended, short } => {
            let short_wait = |&(reason, count, time_ns): &(u8, u64, u64)| ShortWaits {
                reason: Reason::from_code(reason),
                count,
                time_ns,
            };
            profile.thread_times.push(ThreadTime {
                task: TaskId(pick(*task, tables.tasks().len())?),
                from_ns: *from_ns,
                to_ns: from_ns + times_ns[0] / 2,
                on_cpu_ns: times_ns[1],
                no_cpu_ns: times_ns[2],
                blocked_ns: times_ns[3],
                switches: times_ns[4],
                has_ended: *has_ended,
                short_waits: short.iter().map(short_wait).collect(),
            });
        }
        Step::Name { frame, locations } => {
            let frame = FrameId(pick(*frame, tables.frames().len())?);
            let mut location = |(name, file, line, is_inlined): &(String, String, u32, bool)| {
                let (name, raw_name) = (tables.intern_string(name), tables.intern_string(file));
                let function = symbols.intern_function(Function { name, raw_name });
                Location { function, file: tables.intern_string(file), line: *line, is_inlined: *is_inlined }
            };
            let locations = locations.iter().map(&mut location).collect();
            symbols.set_locations(frame, locations);
        }
        Step::Counter { name, n } => profile.count(name, *n),
        Step::Meta { target, pids, status } => {
            profile.meta.target = target.clone();
            profile.meta.target_pids = pids.clone();
            profile.meta.user_only = status.is_some();
        }
        Step::End { duration_ns, status } => {
            let end = End { duration_ns: *duration_ns, command_status: *status, ..End::default() };
            profile.end = Some(end);
        }
        Step::Flush { .. } => {}
    }
    Some(())
}

/// All that a profile says, with words for ids.
#[derive(Debug, Default, PartialEq)]
struct Spelled {
    events: Vec<Vec<String>>,
    thread_times: Vec<String>,
}

impl Spelled {
    fn add(&mut self, profile: &Profile) {
        let Profile { tables, symbols, .. } = profile;
        let task = |id: TaskId| {
            let task = tables.task(id);
            format!("{}/{}#{} {:?}", task.pid, task.tid, task.generation, tables.string(task.comm))
        };
        let frame = |id: FrameId| {
            let frame = tables.frame(id);
            let module = tables.module(frame.module);
            let names: Vec<String> = (symbols.locations(id).iter())
                .map(|location| {
                    let function = symbols.function(location.function);
                    let [name, raw_name, file] =
                        [function.name, function.raw_name, location.file].map(|text| tables.string(text));
                    format!("{name:?} {raw_name:?} {file:?}:{} {}", location.line, location.is_inlined)
                })
                .collect();
            let path = tables.string(module.path);
            let Module { build_id, kind, instance, .. } = module;
            format!("{path:?} {build_id:?} {kind:?} {instance} {} {:?} {names:?}", frame.address, frame.flags)
        };
        let stack = |id: Option<StackId>| -> Vec<String> {
            id.map(|id| tables.stack_frames(id).map(frame).collect()).unwrap_or_default()
        };
        self.events.resize(self.events.len().max(profile.events.len()), Vec::new());
        for (spelled, event) in self.events.iter_mut().zip(&profile.events) {
            spelled.extend(event.samples().map(|sample| {
                let wait = sample.wait.map(|wait| {
                    let waker = (wait.waker.kind, wait.waker.task.map(task), stack(wait.waker.stack));
                    format!("{} {:?} {waker:?}", wait.duration_ns, wait.reason)
                });
                let Sample { time_ns, weight, cpu, outcome, merged, .. } = sample;
                let (task, stack) = (task(sample.task), stack(sample.stack));
                format!("{time_ns} {task} {stack:?} {weight} {cpu} {outcome:?} {wait:?} {merged:?}")
            }));
        }
        self.thread_times.extend(
            profile.thread_times.iter().map(|time| {
                format!("{} {:?}", task(time.task), ThreadTime { task: TaskId(0), ..time.clone() })
            }),
        );
    }
}

#[test]
fn a_name_that_comes_after_a_new_beginning_is_that_of_its_frame() {
    let mut profile = Profile::new(Meta::default());
    let mut writer = Writer::new(Vec::new(), &profile.meta).unwrap();
    let frame = |profile: &mut Profile, address| {
        let module = profile.tables.intern_module(Module::default());
        profile.tables.intern_frame(Frame { module, address, flags: FrameFlags::default() })
    };
    let location = |profile: &mut Profile, name: &str| {
        let name = profile.tables.intern_string(name);
        let function = profile.symbols.intern_function(Function { name, raw_name: name });
        Location { function, file: name, line: 7, is_inlined: false }
    };
    for address in [10, 20] {
        frame(&mut profile, address);
    }
    let late = writer.frame_id(FrameId(1));
    writer.flush(&mut profile, true).unwrap();
    profile.reset();
    writer.reset();
    let present = frame(&mut profile, 30);
    assert_eq!((writer.frame_of(late), writer.frame_of(writer.frame_id(present))), (None, Some(present)));
    let locations = vec![location(&mut profile, "present")];
    profile.symbols.set_locations(present, locations);
    let locations = vec![location(&mut profile, "late")];
    // The second is of a frame that the file does not have.
    writer.name_former(&mut profile, &[(late, locations.clone()), (FrameId(9), locations)]).unwrap();
    writer.flush(&mut profile, true).unwrap();
    let (back, integrity) = read(writer.into_inner().as_slice()).unwrap();
    assert_eq!(integrity.bytes_skipped, 0, "{integrity:?}");
    let names: Vec<Option<&str>> = (0..3)
        .map(|id| {
            let location = back.symbols.locations(FrameId(id)).first()?;
            assert_eq!((back.tables.string(location.file), location.line).1, 7);
            Some(back.tables.string(back.symbols.function(location.function).name))
        })
        .collect();
    assert_eq!(names, [None, Some("late"), Some("present")]);
}

/// Its folded stacks are 16 million frames, and no memory has to hold them.
#[test]
fn a_small_deep_file_is_exported_in_little_memory() {
    let mut profile = Profile::new(Meta::default());
    let event = EventInfo { kind: EventKind::ON_CPU, sampling: "a rule".into(), period: 1_001_001 };
    let event = profile.add_event(event);
    let module = profile.tables.intern_module(Module::default());
    let task = profile.tables.intern_task(Task { pid: 7, tid: 7, ..Task::default() });
    for chain in 0..4u64 {
        let mut parent = None;
        for depth in 0..4_000 {
            let address = chain << 32 | depth << 8;
            let frame = profile.tables.intern_frame(Frame { module, address, flags: FrameFlags::default() });
            parent = Some(profile.tables.intern_stack(parent, frame));
            let sample = Sample { task, stack: parent, weight: 1_001_001, ..Sample::default() };
            profile.events[event.index()].push(sample);
        }
    }
    profile.end = Some(End::default());
    let mut writer = Writer::new(Vec::new(), &profile.meta).unwrap();
    writer.flush(&mut profile, false).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("deep");
    let bytes = writer.into_inner();
    assert!(bytes.len() < 100_000, "{} bytes", bytes.len());
    std::fs::write(&file, bytes).unwrap();
    for (format, most_kb) in [("folded", 150_000), ("svg", 300_000)] {
        let mut prof = std::process::Command::new(env!("CARGO_BIN_EXE_prof"));
        prof.args(["export", "--format", format, "-o", "-"]).arg(&file);
        prof.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::inherit());
        let mut child = prof.spawn().unwrap();
        let mut output = child.stdout.take().unwrap();
        let (mut peak_kb, mut bytes) = (0, 0);
        let mut buffer = vec![0; 1 << 20];
        while let Ok(read @ 1..) = output.read(&mut buffer) {
            bytes += read;
            let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
            let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let peak = peak.and_then(|text| text.split_whitespace().next()?.parse().ok());
            peak_kb = peak.unwrap_or(0).max(peak_kb);
        }
        assert!(child.wait().unwrap().success());
        assert!(bytes > 100_000, "{format}: {bytes} bytes");
        assert!((1_000..most_kb).contains(&peak_kb), "{format}: {peak_kb} kB for {bytes} bytes");
    }
}

/// Rows of a report are told apart by the numbers of their texts.
#[test]
fn what_has_one_name_before_and_after_the_rows_began_anew_is_one_function() {
    let mut profile = Profile::new(Meta::default());
    let mut writer = Writer::new(Vec::new(), &profile.meta).unwrap();
    for address in [10, 20] {
        let module = profile.tables.intern_module(Module::default());
        let frame = profile.tables.intern_frame(Frame { module, address, flags: FrameFlags::default() });
        let name = profile.tables.intern_string("work");
        let function = profile.symbols.intern_function(Function { name, raw_name: name });
        let location = Location { function, file: name, line: 7, is_inlined: false };
        profile.symbols.set_locations(frame, vec![location]);
        profile.tables.intern_task(Task { comm: name, process: name, ..Task::default() });
        writer.flush(&mut profile, true).unwrap();
        profile.reset();
        writer.reset();
    }
    let (back, integrity) = read(writer.into_inner().as_slice()).unwrap();
    assert_eq!(integrity.bytes_skipped, 0, "{integrity:?}");
    let location = |id| back.symbols.locations(FrameId(id))[0];
    let texts = |id| {
        let function = back.symbols.function(location(id).function);
        let task = back.tables.tasks()[id as usize];
        [function.name, function.raw_name, location(id).file, task.comm, task.process]
    };
    assert_eq!(texts(0), texts(1));
    assert_eq!(back.tables.string(texts(1)[0]), "work");
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_was_written_in_any_steps_is_read(steps in proptest::collection::vec(step(), 0..120)) {
        let mut profile = Profile::new(Meta { command: vec!["prof".into(), String::new()], ..Meta::default() });
        // The same, never flushed: flushing with `forget` takes samples from the other.
        let mut all = profile.clone();
        let mut writer = Writer::new(Vec::new(), &profile.meta).unwrap();
        for step in &steps {
            apply(&mut profile, step);
            apply(&mut all, step);
            if let Step::Flush { forget } = step {
                writer.flush(&mut profile, *forget).unwrap();
                prop_assert!(!forget || profile.events.iter().all(|event| event.is_empty()));
            }
        }
        writer.flush(&mut profile, false).unwrap();
        let (back, integrity) = read(writer.into_inner().as_slice()).unwrap();
        prop_assert_eq!(integrity.is_complete, all.end.is_some());
        prop_assert_eq!((integrity.bytes_skipped, integrity.unknown_chunks, integrity.unknown_fields), (0, 0, 0));
        prop_assert_eq!(&back, &all);
        let (again, _) = read(written(&back).as_slice()).unwrap();
        prop_assert_eq!(again, all);
    }

    /// A recorder that forgets its rows now and then writes what one that keeps them does.
    #[test]
    fn what_was_written_by_one_that_begins_anew_is_read(
        steps in proptest::collection::vec(step(), 0..120),
        anew in proptest::collection::vec(0usize..120, 0..4),
    ) {
        let mut profile = Profile::new(Meta::default());
        // The same, never flushed.
        let mut all = profile.clone();
        let mut writer = Writer::new(Vec::new(), &profile.meta).unwrap();
        let mut expected = Spelled::default();
        for (index, step) in steps.iter().enumerate() {
            apply(&mut profile, step);
            apply(&mut all, step);
            if anew.contains(&index) {
                writer.flush(&mut profile, true).unwrap();
                expected.add(&all);
                profile.reset();
                all.reset();
                writer.reset();
            } else if let Step::Flush { forget } = step {
                writer.flush(&mut profile, *forget).unwrap();
            }
        }
        writer.flush(&mut profile, true).unwrap();
        expected.add(&all);
        let (back, integrity) = read(writer.into_inner().as_slice()).unwrap();
        prop_assert_eq!((integrity.bytes_skipped, integrity.unknown_chunks, integrity.unknown_fields), (0, 0, 0));
        let mut found = Spelled::default();
        found.add(&back);
        found.events.resize(expected.events.len(), Vec::new());
        prop_assert_eq!(found, expected);
    }

    #[test]
    fn bytes_of_any_kind_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), start in any::<bool>()) {
        let mut file = if start { Writer::new(Vec::new(), &Meta::default()).unwrap().into_inner() } else { Vec::new() };
        file.extend(bytes);
        if let Ok((_, integrity)) = read(file.as_slice()) {
            prop_assert!(!integrity.is_complete);
        }
    }
}

/// Read to its end, the hole would take minutes.
#[test]
fn a_hole_of_a_terabyte_behind_the_profile_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prof.data");
    let mut profile = Profile::new(Meta::default());
    let file = std::fs::File::create(&path).unwrap();
    let mut writer = Writer::new(file, &profile.meta).unwrap();
    writer.flush(&mut profile, false).unwrap();
    let whole = writer.bytes_written();
    writer.into_inner().set_len(1 << 40).unwrap();
    let (_, integrity) = prof::internals::profile::read_path(&path).unwrap();
    assert_eq!((integrity.bytes_read, integrity.bytes_skipped), (whole, (1 << 40) - whole));
    assert!(integrity.problem.is_some());
}
