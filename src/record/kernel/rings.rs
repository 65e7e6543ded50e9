//! The rings of the BPF programs, and those of the side-band.

use super::drain::{Batch, RingSource, Wakes};
use super::perf_event::SidebandRing;
use super::sideband;
use crate::bpf::{NewCodeEvent, RescueEvent, Ring, SampleEvent, StackCopyEvent, ThreadTimeEvent, WaitEvent};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// All rings of a recording by BPF programs.
#[derive(Debug)]
pub(crate) struct Rings {
    pub(crate) samples: Vec<Ring>,
    pub(crate) waits: Ring,
    pub(crate) thread_times: Ring,
    /// Sampled blocks of memory.
    pub(crate) blocks: Ring,
    /// Code objects of interpreters: of running threads, and of waits.
    pub(crate) new_codes: [Ring; 2],
    /// Rings of stack copies: of running threads, and of waits.
    pub(crate) rescues: [Ring; 2],
    pub(crate) stack_copies: Ring,
    pub(crate) sidebands: Vec<SidebandRing>,
}

impl RingSource for Rings {
    fn watch(&self, add: &mut dyn FnMut(BorrowedFd<'_>, Wakes) -> io::Result<()>) -> io::Result<()> {
        let others = [&self.waits, &self.thread_times, &self.blocks, &self.stack_copies];
        for ring in self.samples.iter().chain(&self.rescues).chain(&self.new_codes).chain(others) {
            add(ring.as_fd(), Wakes::PastMark)?;
        }
        self.sidebands.iter().try_for_each(|sideband| add(sideband.as_fd(), Wakes::Sideband))
    }

    fn take_sideband(&mut self, batch: &mut Batch) {
        for ring in &mut self.sidebands {
            ring.drain(|kind, misc, bytes| batch.sideband.extend(sideband::decode(kind, misc, bytes)));
        }
    }

    fn exchange(&mut self, cpu: u32, new: Option<SidebandRing>, batch: &mut Batch) {
        let (gone, others) =
            std::mem::take(&mut self.sidebands).into_iter().partition(|ring| ring.cpu() == cpu);
        self.sidebands = gone;
        self.take_sideband(batch);
        self.sidebands = others;
        self.sidebands.extend(new);
    }

    fn take_all(&mut self, batch: &mut Batch) -> io::Result<f64> {
        let mut fullness = 0.0f64;
        for ring in &mut self.samples {
            fullness = fullness.max(empty(ring, batch, |batch, bytes| {
                batch.take(bytes.len(), SampleEvent::decode(bytes), |batch| &mut batch.samples);
            })?);
        }
        fullness = fullness.max(empty(&mut self.waits, batch, |batch, bytes| {
            batch.take(bytes.len(), WaitEvent::decode(bytes), |batch| &mut batch.samples);
        })?);
        fullness = fullness.max(empty(&mut self.thread_times, batch, |batch, bytes| {
            batch.take(bytes.len(), ThreadTimeEvent::decode(bytes), |batch| &mut batch.thread_times);
        })?);
        fullness = fullness.max(empty(&mut self.blocks, batch, |batch, bytes| {
            batch.take(bytes.len(), SampleEvent::decode_block(bytes), |batch| &mut batch.samples);
        })?);
        // These are sent before their samples.
        for ring in &mut self.new_codes {
            fullness = fullness.max(empty(ring, batch, |batch, bytes| {
                batch.take(bytes.len(), NewCodeEvent::decode(bytes), |batch| &mut batch.new_codes);
            })?);
        }
        // A stack copy is sent before its sample: once the samples are taken, all their copies are there.
        for ring in &mut self.rescues {
            fullness = fullness.max(empty(ring, batch, |batch, bytes| {
                batch.take(bytes.len(), RescueEvent::decode(bytes), |batch| &mut batch.rescues);
            })?);
        }
        empty(&mut self.stack_copies, batch, |batch, bytes| {
            batch.take(bytes.len(), StackCopyEvent::decode(bytes), |batch| &mut batch.copies);
        })?;
        Ok(fullness)
    }
}

/// Empties a ring into `batch`. Returns how full it was, 0 to 1.
fn empty(ring: &mut Ring, batch: &mut Batch, take: impl Fn(&mut Batch, &[u8])) -> io::Result<f64> {
    let freed = ring.consume(|bytes| take(batch, bytes))?;
    Ok(freed as f64 / ring.capacity() as f64)
}
