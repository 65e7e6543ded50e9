//! Beginning again with the rows of a profile: what a recorder that runs for days does now and then.
//!
//! Rows are never taken out of a profile's tables, so that their numbers stay their own. A recording that goes on for
//! days would see ever more of them, and hands over what it has before it begins again.

use super::collector::Collector;
use crate::profile::{FrameId, StackId, Tables};
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

impl Collector {
    /// Forgets all samples, threads, frames and stacks. Modules keep their numbers; of stacks only those stay that are
    /// part of waits which are not over, under new numbers.
    pub(crate) fn forget_rows(&mut self) {
        self.totals.forget_rows(&self.profile);
        let old = self.profile.reset();
        self.tasks.forget_rows();
        self.processes.forget_rows();
        self.dumps.forget_rows();
        if let Some(rows) = &mut self.goroutine_rows {
            rows.forget_rows();
        }

        let mut tables = std::mem::take(&mut self.profile.tables);
        let mut frames: FxHashMap<FrameId, FrameId> = FxHashMap::default();
        let mut renumber = |stack: StackId| {
            let mut path: Vec<FrameId> = (old.stack_frames(stack))
                .map(|frame| {
                    *frames.entry(frame).or_insert_with(|| tables.intern_frame(old.frame(frame).to_owned()))
                })
                .collect();
            path.reverse();
            // A stack has a frame at least.
            tables.intern_stack_of(path).unwrap_or_default()
        };
        if let Some(waits) = &mut self.waits {
            waits.renumber(&mut renumber);
        }
        if let Some(blocks) = &mut self.blocks {
            blocks.renumber(&mut renumber);
        }
        self.kernel.forget_rows(&frames);
        self.profile.tables = tables;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bpf::{InterpreterFrames, SampleEvent};
    use crate::profile::{EventKind, Frame, Meta, Module, Profile};
    use crate::record::collect::kernel_frames::KernelFrames;
    use crate::record::modules::ModuleFiles;

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
        collector.waits.as_mut().expect("they are recorded").renumber(|stack| {
            seen.push(stack);
            stack
        });
        let addresses: Vec<u64> = (collector.profile.tables.stack_frames(seen[0]))
            .map(|frame| collector.profile.tables.frame(frame).address)
            .collect();
        assert_eq!((seen.len(), addresses), (1, vec![9, 8, 7, 6, 5]));
    }
}
