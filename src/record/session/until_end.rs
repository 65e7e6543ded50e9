//! The loop of every recording, into a file or watched: it waits for what comes, hands it over, and ends for a reason.

use super::Session;
use super::stop_reason::StopReason;
use crate::record::target::launch::Child;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// A reason to end is looked for this often, if nothing comes.
pub(in crate::record) const PATIENCE: Duration = Duration::from_millis(100);

/// Whether a recording goes on. It ends for a reason, or without one when no one is left who wants to know.
pub(in crate::record) type GoesOn = ControlFlow<Option<StopReason>>;

/// Who can end a recording, and where it goes.
pub(in crate::record) trait Sink {
    /// Looks whether someone wants it to end. A signal may be that of the launched command.
    fn is_asked_to_end(&mut self, launched: Option<&Child>) -> GoesOn;

    /// Takes what came meanwhile.
    ///
    /// # Errors
    ///
    /// When it cannot be kept: the recording ends.
    fn take(&mut self, session: &mut Session<'_>) -> anyhow::Result<GoesOn>;

    /// It looks whether someone wants the recording to end this often, if nothing comes.
    fn patience(&self) -> Duration {
        PATIENCE
    }
}

/// A recording that goes on, and what ends it.
pub(in crate::record) struct RecordingLoop<'r, 'obj> {
    pub(in crate::record) session: &'r mut Session<'obj>,
    /// The launched command, or the command that times the recording.
    pub(in crate::record) child: &'r mut Option<Child>,
    /// The command is what is recorded.
    pub(in crate::record) has_launched: bool,
    /// Longest duration of the recording.
    pub(in crate::record) duration: Option<Duration>,
}

impl RecordingLoop<'_, '_> {
    /// Lets time pass before sampling begins; the command, if there is one, already runs. Returns whether all of it has passed
    /// with nothing that ends the recording.
    ///
    /// # Errors
    ///
    /// When the command cannot be started, or the rings cannot be read.
    pub(in crate::record) fn pass(
        &mut self,
        delay: Duration,
        mut is_asked_to_end: impl FnMut(Option<&Child>) -> GoesOn,
    ) -> anyhow::Result<bool> {
        if let Some(child) = self.child {
            child.release()?;
        }
        let end = Instant::now() + delay;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            let has_ended = self.child_has_ended() || (!self.has_launched && self.session.target_has_ended());
            if has_ended || is_asked_to_end(self.launched()).is_break() {
                return Ok(false);
            }
            self.session.wait(left.min(PATIENCE), &[])?;
        }
        Ok(true)
    }

    /// Records until there is a reason to end; `None` when no one wants to know.
    ///
    /// # Errors
    ///
    /// When the rings cannot be read, or the sink fails.
    pub(in crate::record) fn until_end(
        &mut self,
        sink: &mut impl Sink,
    ) -> anyhow::Result<Option<StopReason>> {
        loop {
            let asked = sink.is_asked_to_end(self.launched());
            match asked {
                ControlFlow::Break(None) => return Ok(None),
                // The same signal has ended the command: that is why the recording ends.
                _ if self.child_has_ended() => return Ok(Some(StopReason::CommandEnded)),
                ControlFlow::Break(reason) => return Ok(reason),
                ControlFlow::Continue(()) => {}
            }
            if let Some(reason) = self.end_by_itself() {
                return Ok(Some(reason));
            }
            let others: Vec<_> = self.child.iter().filter_map(Child::ended_fd).collect();
            let left = self.duration.map(|duration| duration.saturating_sub(self.session.elapsed()));
            self.session.wait(left.unwrap_or(Duration::MAX).min(sink.patience()), &others)?;
            if let ControlFlow::Break(reason) = sink.take(self.session)? {
                return Ok(reason);
            }
        }
    }

    /// The launched command.
    fn launched(&self) -> Option<&Child> {
        self.child.as_ref().filter(|_| self.has_launched)
    }

    fn child_has_ended(&mut self) -> bool {
        self.child.as_mut().is_some_and(|child| child.poll().is_some())
    }

    fn end_by_itself(&mut self) -> Option<StopReason> {
        if self.duration.is_some_and(|duration| self.session.elapsed() >= duration) {
            return Some(StopReason::DurationReached);
        }
        if self.has_launched || !self.session.target_has_ended() {
            return None;
        }
        let has_begun = self.session.collector.totals.observations() > 0;
        let is_early = self.session.elapsed() < PATIENCE && !has_begun;
        Some(if is_early { StopReason::TargetGone } else { StopReason::TargetEnded })
    }
}
