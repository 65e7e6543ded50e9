//! The end of sampling: decided first by the thread that empties the rings when the time is over, or the one that
//! records.

use super::perf_event::{self, CpuEvent};
use super::span::SamplingSpan;
use crate::record::environment::namespaces::monotonic_ns;
use std::sync::{Arc, Mutex, PoisonError};

/// Ends sampling, once.
#[derive(Debug)]
pub(crate) struct Stopper {
    /// The times of the recording, where BPF programs have to know its end.
    span: Option<Arc<SamplingSpan>>,
    state: Mutex<StopperState>,
}

#[derive(Debug, Default)]
struct StopperState {
    /// The sampling events that run.
    samplers: Vec<CpuEvent>,
    /// End of sampling, CLOCK_MONOTONIC, ns.
    stopped_ns: Option<u64>,
}

impl Stopper {
    /// Returns the stopper of a recording that has not begun. With `span` its end is told to the BPF programs.
    pub(crate) fn new(span: Option<Arc<SamplingSpan>>) -> Self {
        Stopper { span, state: Mutex::default() }
    }

    /// Adds sampling events that have been started. Where sampling has ended meanwhile, they end at once.
    pub(super) fn add_samplers(&self, samplers: impl IntoIterator<Item = CpuEvent>) {
        let mut state = self.state();
        state.samplers.extend(samplers);
        if state.stopped_ns.is_some() {
            state.end_samplers();
        }
    }

    /// Forgets the events of a CPU.
    pub(super) fn forget_cpu(&self, cpu: u32) {
        self.state().samplers.retain(|sampler| sampler.cpu != cpu);
    }

    /// Ends sampling if no one has yet. Returns when that was, CLOCK_MONOTONIC, ns.
    pub(crate) fn stop(&self) -> u64 {
        let mut state = self.state();
        if let Some(stopped_ns) = state.stopped_ns {
            return stopped_ns;
        }
        state.end_samplers();
        let stopped_ns = self.span.as_ref().map_or_else(monotonic_ns, |span| span.stop());
        state.stopped_ns = Some(stopped_ns);
        stopped_ns
    }

    fn state(&self) -> std::sync::MutexGuard<'_, StopperState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StopperState {
    fn end_samplers(&mut self) {
        for sampler in self.samplers.drain(..) {
            // It can only fail for an event that is gone.
            let _ = perf_event::disable(&sampler.event);
        }
    }
}
