//! Beginning again with the rows of a profile: what a recorder that runs for days does now and then.
//!
//! Rows are never taken out of a profile's tables, so that their numbers stay their own. A recording that goes on for
//! days would see ever more of them, and hands over what it has before it begins again.

use super::collector::Collector;
use super::totals::CollectedTotals;
use crate::profile::{Frame, FrameId, LabelSetId, Module, ModuleId, ModuleKind, StackId, Tables};
use rustc_hash::FxHashMap;

/// Numbers of rows past which a recorder begins tables again.
#[derive(Debug, Clone, Copy)]
pub(crate) struct MostRows {
    /// Number of stacks, some 20 bytes each.
    pub(crate) stacks: usize,
    /// Number of frames, some 40 bytes each, and as many again in each process that has the frame.
    pub(crate) frames: usize,
    /// Number of threads.
    pub(crate) tasks: usize,
}

impl MostRows {
    /// Whether `tables` have grown so far that it is time to begin again.
    pub(crate) fn are_in(self, tables: &Tables) -> bool {
        tables.stacks().len() > self.stacks
            || tables.frames().len() > self.frames
            || tables.tasks().len() > self.tasks
    }
}

/// Rows that stay when the tables of a profile begin again: those of what is not over.
struct KeptRows {
    old: Tables,
    /// The new number of each frame that stays.
    frames: FxHashMap<FrameId, FrameId>,
    /// The same of modules, and of sets of labels; `None` where all of them stay and keep their numbers.
    modules: Option<FxHashMap<ModuleId, ModuleId>>,
    labels: Option<FxHashMap<LabelSetId, LabelSetId>>,
}

impl KeptRows {
    fn module(&mut self, id: ModuleId, tables: &mut Tables) -> ModuleId {
        let (Some(modules), old) = (&mut self.modules, &self.old) else { return id };
        *modules.entry(id).or_insert_with(|| {
            let module = old.module(id).clone();
            let path = tables.intern_string(old.string(module.path));
            tables.intern_module(Module { path, ..module })
        })
    }

    fn frame(&mut self, id: FrameId, tables: &mut Tables) -> FrameId {
        if let Some(known) = self.frames.get(&id) {
            return *known;
        }
        let frame = *self.old.frame(id);
        let module = self.module(frame.module, tables);
        let new = tables.intern_frame(Frame { module, ..frame });
        self.frames.insert(id, new);
        new
    }

    fn stack(&mut self, stack: StackId, tables: &mut Tables) -> StackId {
        let mut path: Vec<FrameId> = self.old.stack_frames(stack).collect();
        path.reverse();
        let path: Vec<FrameId> = path.into_iter().map(|frame| self.frame(frame, tables)).collect();
        // A stack has a frame at least.
        tables.intern_stack_of(path).unwrap_or_default()
    }

    fn label_set(&mut self, id: LabelSetId, tables: &mut Tables) -> LabelSetId {
        let (Some(labels), old) = (&mut self.labels, &self.old) else { return id };
        *labels.entry(id).or_insert_with(|| tables.intern_labels(&old.labels(id).collect::<Vec<_>>()))
    }
}

impl Collector {
    /// Forgets all samples, threads, frames and stacks. Modules keep their numbers; of stacks only those stay that are
    /// part of waits which are not over, under new numbers.
    pub(crate) fn forget_rows(&mut self) {
        self.totals.forget_rows(&self.profile);
        let old = self.profile.reset();
        self.begin_tables(KeptRows { old, frames: FxHashMap::default(), modules: None, labels: None });
    }

    /// Begins a profile of its own with what comes from `start_ns` on (CLOCK_MONOTONIC), `start_unix_ns` by the wall clock: all rows,
    /// sums and counters begin again. Of stacks those of waits and blocks that are not over stay, under new numbers.
    pub(crate) fn begin_window(&mut self, start_ns: u64, start_unix_ns: u64) {
        self.totals = CollectedTotals::default();
        let old = self.profile.clear();
        self.profile.counters.clear();
        self.profile.end = None;
        self.lock_held = None;
        self.forget_closed_files();
        if let Some(waits) = &mut self.waits {
            waits.locks.forget_labels();
        }
        let (modules, labels) = (Some(FxHashMap::default()), Some(FxHashMap::default()));
        let modules = self.begin_tables(KeptRows { old, frames: FxHashMap::default(), modules, labels });
        self.files.renumber_rows(&modules);
        self.processes.begin_window();
        // Of those that are there still: numbers of the others count from 0 again.
        self.identities.begin_window(&self.processes);
        if self.interpreters.names.are_many() {
            let of_runtimes =
                |frame: &&Frame| self.profile.tables.module(frame.module).kind == ModuleKind::Runtime;
            self.interpreters.names.forget_all_but(self.profile.tables.frames().iter().filter(of_runtimes));
            self.processes.forget_functions();
        }
        (self.profile.meta.start_mono_ns, self.profile.meta.start_unix_ns) = (start_ns, start_unix_ns);
        self.set_start(start_ns);
    }

    /// Forgets what is known of files that are closed: a machine that runs for weeks sees ever more of them.
    fn forget_closed_files(&mut self) {
        self.files.failures.clear();
        let files = &self.files;
        self.calls.forget_closed(files);
        self.dumps.forget_closed(files);
        self.interpreters.forget_closed(files);
        self.goroutines.forget_closed(files);
        self.managed.forget_closed(files);
    }

    /// Gives rows of what is not over their new numbers, and has everything else that knows numbers of rows forget them. Returns the new
    /// numbers of modules, where they have any.
    fn begin_tables(&mut self, mut kept: KeptRows) -> FxHashMap<ModuleId, ModuleId> {
        self.tasks.forget_rows();
        self.processes.forget_rows();
        self.dumps.forget_rows();
        if let Some(rows) = &mut self.goroutine_rows {
            rows.forget_rows();
        }

        let tables = &mut self.profile.tables;
        let mut renumber = |stack: &mut Option<StackId>, labels: &mut Option<LabelSetId>| {
            *stack = stack.map(|stack| kept.stack(stack, tables));
            *labels = labels.map(|set| kept.label_set(set, tables));
        };
        if let Some(waits) = &mut self.waits {
            waits.renumber(&mut renumber);
        }
        if let Some(blocks) = &mut self.blocks {
            blocks.renumber(&mut renumber);
        }
        self.kernel.forget_rows(&kept.frames);
        kept.modules.unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::{InterpreterFrames, SampleEvent, ThreadTimeEvent};
    use crate::profile::{EventKind, Meta, Profile};
    use crate::record::collect::kernel_frames::KernelFrames;
    use crate::record::modules::ModuleFiles;
    use crate::record::process::identities::{
        LabelsOfSample, LabelsProcesses, ProcessLabels, SampledProgram,
    };
    use std::sync::Arc;

    /// Labels each process that it is asked for otherwise than the one before.
    struct Numbers(u32);

    impl LabelsProcesses for Numbers {
        fn labels_of(&mut self, _program: &SampledProgram<'_>) -> ProcessLabels {
            self.0 += 1;
            ProcessLabels::Labels(Arc::new(vec![("number".to_owned(), self.0.to_string())]))
        }

        fn may_leave_out(&self) -> bool {
            false
        }

        fn counts(&self) -> Vec<(&'static str, u64)> {
            Vec::new()
        }
    }

    /// Leaves all processes out.
    struct NoOne;

    impl LabelsProcesses for NoOne {
        fn labels_of(&mut self, _program: &SampledProgram<'_>) -> ProcessLabels {
            ProcessLabels::LeftOut
        }

        fn may_leave_out(&self) -> bool {
            true
        }

        fn counts(&self) -> Vec<(&'static str, u64)> {
            Vec::new()
        }
    }

    #[test]
    fn the_times_of_threads_are_left_out_with_their_process() {
        let labellers: [Box<dyn LabelsProcesses>; 2] = [Box::new(Numbers(0)), Box::new(NoOne)];
        let times = labellers.map(|labeller| {
            let mut collector = Collector::new(
                Profile::new(Meta::default()),
                ModuleFiles::new(false),
                KernelFrames::new(false),
            );
            collector.identities.set_labeller(labeller);
            collector.add_thread_time(&ThreadTimeEvent {
                tgid: 1 << 30,
                tid: 1 << 30,
                ..ThreadTimeEvent::default()
            });
            collector.profile.thread_times.len()
        });
        assert_eq!(times, [1, 0]);
    }

    #[test]
    fn the_next_holder_of_a_process_number_is_asked_for_its_own_labels() {
        const PID: u32 = 1 << 30;
        let mut collector =
            Collector::new(Profile::new(Meta::default()), ModuleFiles::new(false), KernelFrames::new(false));
        collector.identities.set_labeller(Box::new(Numbers(0)));
        let label = |collector: &mut Collector| {
            let Collector { processes, files, identities, profile, .. } = collector;
            processes.get_or_read(PID, files);
            match identities.of((PID, 50, b"a"), (processes, files), &mut profile.tables) {
                LabelsOfSample::Has(Some(set)) => {
                    profile.tables.labels(set).map(|(_, value)| value.to_owned()).collect()
                }
                other => format!("{other:?}"),
            }
        };
        assert_eq!(label(&mut collector), "1");
        collector.begin_window(1_000, 1_000);
        assert_eq!(label(&mut collector), "1", "it goes on");
        collector.processes.exit(PID, 1_500);
        collector.processes.forget_before(2_000);
        collector.begin_window(2_000, 2_000);
        assert_eq!(label(&mut collector), "2", "the labels are those of a process that is gone");
    }

    #[test]
    fn samples_of_threads_that_hold_their_interpreters_lock_say_so_before_and_after() {
        let mut collector =
            Collector::new(Profile::new(Meta::default()), ModuleFiles::new(false), KernelFrames::new(false));
        collector.add_samples("a rule".to_owned(), 1_000);
        collector.add_counter(EventKind::counted("faults", "faults"), "each".to_owned(), Some(1));
        let sample = |event, holds| SampleEvent {
            event,
            interpreter: InterpreterFrames::of_lock(holds),
            ..SampleEvent::default()
        };
        let mut found = Vec::new();
        for _ in 0..2 {
            for holds in [None, Some(false), Some(true)] {
                collector.add(sample(0, holds), None);
                collector.add(sample(1, holds), None);
            }
            let profile = &collector.profile;
            for sample in profile.events.iter().flat_map(|event| event.samples()) {
                let words = |set| profile.tables.labels(set).map(|(key, value)| format!("{key}={value}"));
                found.push(sample.labels.map(|set| words(set).collect::<String>()));
            }
            collector.forget_rows();
        }
        let held = Some("gil=held".to_owned());
        let once = [None, None, held, None, None, None];
        assert_eq!(found, [once.clone(), once].concat());
    }

    #[test]
    fn modules_keep_their_numbers_and_stacks_of_open_waits_their_frames() {
        let mut collector =
            Collector::new(Profile::new(Meta::default()), ModuleFiles::new(false), KernelFrames::new(false));
        collector.add_waits(EventKind::OFF_CPU, "every wait".to_owned(), 0);
        let tables = &mut collector.profile.tables;
        tables.intern_string("a name that nothing needs any more");
        let modules: Vec<_> = ["/bin/a", "/bin/b"]
            .map(|path| {
                let path = tables.intern_string(path);
                tables.intern_module(Module { path, ..Module::default() })
            })
            .into();
        let frames: Vec<FrameId> = (0..10)
            .map(|address| tables.intern_frame(Frame { module: modules[1], address, ..Frame::default() }))
            .collect();
        tables.intern_stack_of(frames[..5].iter().copied());
        let waiting = tables.intern_stack_of(frames[5..].iter().copied()).expect("it has frames");
        collector.waits.as_mut().expect("they are recorded").remember_early(7, 100, waiting);
        collector.forget_rows();

        let tables = &collector.profile.tables;
        assert_eq!(tables.string(tables.module(modules[1]).path), "/bin/b");
        assert_eq!((tables.frames().len(), tables.stacks().len(), tables.strings().len()), (5, 5, 3));
        let mut seen = Vec::new();
        collector.waits.as_mut().expect("they are recorded").renumber(|stack, _| seen.extend(*stack));
        let addresses: Vec<u64> = (collector.profile.tables.stack_frames(seen[0]))
            .map(|frame| collector.profile.tables.frame(frame).address)
            .collect();
        assert_eq!((seen.len(), addresses), (1, vec![9, 8, 7, 6, 5]));
    }

    #[test]
    fn a_window_begins_with_the_rows_of_open_waits_and_nothing_else() {
        let mut collector =
            Collector::new(Profile::new(Meta::default()), ModuleFiles::new(false), KernelFrames::new(false));
        collector.add_waits(EventKind::OFF_CPU, "every wait".to_owned(), 0);
        let tables = &mut collector.profile.tables;
        let [unused, used] = ["/bin/unused", "/bin/used"].map(|path| {
            let path = tables.intern_string(path);
            tables.intern_module(Module { path, ..Module::default() })
        });
        let frames = [unused, used]
            .map(|module| tables.intern_frame(Frame { module, address: 1, ..Frame::default() }));
        let stacks = frames.map(|frame| tables.intern_stack_of([frame]));
        tables.intern_labels(&[("tenant", "gone")]);
        collector.profile.count("lost_bad_record", 3);
        collector.waits.as_mut().expect("they are recorded").remember_early(
            7,
            100,
            stacks[1].expect("it has a frame"),
        );
        collector.begin_window(5_000, 1_000_000);

        let profile = &collector.profile;
        let paths: Vec<&str> =
            profile.tables.modules().iter().map(|module| profile.tables.string(module.path)).collect();
        assert_eq!(paths, ["/bin/used"]);
        assert_eq!((profile.tables.frames().len(), profile.tables.label_sets().len()), (1, 0));
        assert!(profile.counters.is_empty() && profile.events.len() == 1);
        assert_eq!((collector.start_ns, profile.meta.start_unix_ns), (5_000, 1_000_000));
    }
}
