//! The labels of samples: of goroutines, of the lock of an interpreter, of the memory of a page fault, of the lock of a wait, and
//! of system calls.

use super::collect::collector::Collector;
use super::process::identities::LabelsOfSample;
use crate::bpf::{SampleEvent, SampleGoroutine, WaitKind};
use crate::profile::{LOCK_HELD, LabelSetId, MEMORY_LABEL, SYSTEM_CALL_LABEL, counter};
use crate::record::probes::call_totals::call_name;

impl Collector {
    /// The labels of a sample, those of its process among them; `None` if samples of that are left out, which is counted.
    pub(in crate::record) fn all_labels_of(&mut self, sample: &SampleEvent) -> Option<Option<LabelSetId>> {
        // Who only ended a wait may be anyone: the wait counts.
        let is_of_waker = sample.wait.as_ref().is_some_and(|wait| wait.kind == WaitKind::Waker);
        let Collector { identities, processes, files, profile, .. } = self;
        let of_process = match is_of_waker || sample.tgid == 0 {
            true => LabelsOfSample::Has(None),
            false => {
                let sampled = (sample.tgid, sample.time_ns, &sample.comm[..]);
                identities.of(sampled, (processes, files), &mut profile.tables)
            }
        };
        let LabelsOfSample::Has(of_process) = of_process else {
            profile.count(counter::SAMPLES_LEFT_OUT, 1);
            return None;
        };
        let labels = self.labels_of(sample);
        Some(self.profile.tables.join_labels(labels, of_process))
    }

    /// The labels of a sample: those that a runtime gives it, the memory of a page fault, the name of a system call, and the lock of a
    /// wait.
    fn labels_of(&mut self, sample: &SampleEvent) -> Option<LabelSetId> {
        let labels = self.runtime_labels_of(sample);
        let memory = sample.memory.label();
        let labels =
            memory.map(|memory| self.profile.tables.add_label(labels, (MEMORY_LABEL, memory))).or(labels);
        let call = sample.system_call.map(|number| call_name(number.into()));
        let labels =
            call.map(|call| self.profile.tables.add_label(labels, (SYSTEM_CALL_LABEL, &call))).or(labels);
        let Collector { waits: Some(waits), processes, files, profile, blocks, .. } = self else {
            return labels;
        };
        let allocation =
            |address| blocks.as_ref().and_then(|blocks| blocks.allocation_of(sample.tgid, address));
        waits.locks.labels(sample, labels, (processes, &allocation), files, profile)
    }

    /// The labels of the goroutine that a sample's thread worked for, or that its thread held the lock of its interpreter
    /// while it ran.
    fn runtime_labels_of(&mut self, sample: &SampleEvent) -> Option<LabelSetId> {
        let is_of_waker = sample.wait.as_ref().is_some_and(|wait| wait.kind == WaitKind::Waker);
        if sample.goroutine != SampleGoroutine::None && !is_of_waker {
            let process = self.processes.at_mut(sample.tgid, sample.time_ns)?;
            return self.goroutines.labels_of(process, &sample.goroutine, &mut self.profile);
        }
        let is_running = sample.event == 0 && sample.wait.is_none();
        if !is_running || sample.interpreter.holds_lock() != Some(true) {
            return None;
        }
        // Sets keep their ids when the rows begin again.
        let tables = &mut self.profile.tables;
        Some(*self.lock_held.get_or_insert_with(|| tables.intern_labels(&[LOCK_HELD])))
    }

    /// Reads the labels of the goroutine of a sample that may have to wait for others: soon they may be gone.
    pub(crate) fn read_labels_early(&mut self, sample: &SampleEvent) {
        if let SampleGoroutine::Known(goroutine) = &sample.goroutine
            && let Some(process) = self.processes.at_mut(sample.tgid, sample.time_ns)
        {
            self.goroutines.read_labels(process, goroutine);
        }
    }
}
