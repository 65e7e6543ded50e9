//! Profiles that are filled, written and begun again in steps of any kind and order.

use super::written;
use crate::profile::{
    End, EventId, EventInfo, EventKind, Frame, FrameFlags, FrameId, Function, LabelSetId, Location, Merged,
    Meta, Module, ModuleId, ModuleKind, Outcome, Profile, Reason, Sample, ShortWaits, StackId, StringId,
    Task, TaskId, ThreadTime, Unit, Wait, Waker, WakerKind, Writer, read,
};
use proptest::prelude::*;

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
    Labels {
        labels: Vec<(String, String)>,
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
        2 => proptest::collection::vec((text, text), 0..4).prop_map(|labels| Step::Labels { labels }),
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
        Step::Labels { labels } => {
            let labels: Vec<(&str, &str)> =
                labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
            tables.intern_labels(&labels);
        }
        Step::Event { name, unit, period } => {
            let unit = Unit::from_code(*unit);
            let title = format!("{name} of a test");
            let has_duration = unit.code() % 2 == 1;
            let kind = EventKind { unit, has_duration, ..EventKind::counted(name.clone(), title) };
            profile.add_event(EventInfo {
                kind,
                sampling: "some".into(),
                period: *period,
                ..EventInfo::default()
            });
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
            let labels = pick(wait_numbers[2] as u32, tables.label_sets().len()).map(LabelSetId);
            event.push(Sample {
                time_ns: time_us * 1000,
                task,
                stack,
                weight,
                cpu: *cpu,
                outcome,
                wait,
                merged,
                block: None,
                labels: labels.filter(|_| wait_numbers[3] % 2 == 0),
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
                let labels = sample.labels.map(|set| tables.labels(set).collect::<Vec<_>>());
                let Sample { time_ns, weight, cpu, outcome, merged, .. } = sample;
                let (task, stack) = (task(sample.task), stack(sample.stack));
                format!(
                    "{time_ns} {task} {stack:?} {weight} {cpu} {outcome:?} {wait:?} {merged:?} {labels:?}"
                )
            }));
        }
        self.thread_times.extend(
            profile.thread_times.iter().map(|time| {
                format!("{} {:?}", task(time.task), ThreadTime { task: TaskId(0), ..time.clone() })
            }),
        );
    }
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
}
