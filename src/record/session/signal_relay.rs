//! Signals that end programs: what they mean for a recording, and their way on to the command that is recorded.

use super::stop_reason::StopReason;
use super::until_end::GoesOn;
use crate::record::signals::Signals;
use crate::record::target::launch::Child;
use std::io;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};

/// The signals of a recording, each of which reaches a launched command once.
#[derive(Debug)]
pub(in crate::record) struct SignalRelay {
    signals: Signals,
    /// Number of times that each of [`Signals::end_signals`] was passed on.
    passed_on: [usize; 2],
    /// Time of a Ctrl-C that leaves the end to the command.
    interrupted: Option<Instant>,
    /// Whether the notice that the command goes on was printed.
    is_announced: bool,
}

/// A command that Ctrl-C ends has ended by then.
const COMMAND_PATIENCE: Duration = Duration::from_millis(500);

impl SignalRelay {
    /// Counts signals from now on, as [`Signals::install`] says.
    ///
    /// # Errors
    ///
    /// When the kernel takes no handler.
    pub(in crate::record) fn install() -> io::Result<Self> {
        Ok(SignalRelay {
            signals: Signals::install()?,
            passed_on: [0; 2],
            interrupted: None,
            is_announced: false,
        })
    }

    /// Signals of all kinds so far.
    pub(in crate::record) fn count(&self) -> usize {
        self.signals.count()
    }

    /// Whether a signal ends the recording. Those that end programs are passed on to a command that is recorded: its end
    /// ends the recording, or a second Ctrl-C.
    pub(in crate::record) fn is_asked_to_end(&mut self, launched: Option<&Child>) -> GoesOn {
        if let Some(signal) = self.signals.end_signal() {
            match launched {
                Some(child) => self.pass_on(child),
                None => return ControlFlow::Break(Some(StopReason::Signal(signal))),
            }
        }
        let interrupts_to_stop = if launched.is_some() { 2 } else { 1 };
        match self.signals.interrupts() >= interrupts_to_stop {
            true => ControlFlow::Break(Some(StopReason::Interrupted)),
            false => ControlFlow::Continue(()),
        }
    }

    /// Whether to say, once, that a first Ctrl-C is left to the command, which goes on.
    pub(in crate::record) fn is_left_to_command(&mut self, launched: Option<&Child>) -> bool {
        if self.is_announced || launched.is_none() || self.signals.interrupts() == 0 {
            return false;
        }
        let since = *self.interrupted.get_or_insert_with(Instant::now);
        self.is_announced = since.elapsed() >= COMMAND_PATIENCE;
        self.is_announced
    }

    /// Waits for the command's end, passing signals on; returns its exit status.
    pub(in crate::record) fn wait_for(&mut self, child: &mut Child) -> u8 {
        loop {
            if let Some(status) = child.poll() {
                return status.clamp(0, 255) as u8;
            }
            self.pass_on(child);
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    /// Passes on to the command what has come since the last look.
    fn pass_on(&mut self, child: &Child) {
        for ((signal, count), passed_on) in self.signals.end_signals().into_iter().zip(&mut self.passed_on) {
            while *passed_on < count {
                child.signal(signal);
                *passed_on += 1;
            }
        }
    }
}
