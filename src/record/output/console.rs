//! What a recording writes to standard error: lines, and one status line that is updated.

use super::end_block::{Summary, end_block};
use crate::base::{safe_text, units};
use crate::profile::{EventKind, Profile, Unit};
use crate::record::collect::totals::CollectedTotals;
use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

/// Interval between updates of the status line.
const STATUS_INTERVAL: Duration = Duration::from_millis(250);

/// Messages on standard error while a recording runs.
#[derive(Debug)]
pub(crate) struct Console {
    is_quiet: bool,
    /// Whether the status line is on the screen.
    has_status_line: bool,
    is_terminal: bool,
    last_status: Option<Instant>,
    width: usize,
}

impl Console {
    /// With `shares_terminal` (a command writes there too) there is no status line.
    pub(crate) fn new(is_quiet: bool, shares_terminal: bool) -> Self {
        let is_terminal = io::stderr().is_terminal();
        Console {
            is_quiet,
            has_status_line: false,
            is_terminal: is_terminal && !shares_terminal,
            last_status: None,
            width: 0,
        }
    }

    /// Prints a line, unless the user asked for quiet. A closed standard error is no reason to stop.
    pub(crate) fn info(&mut self, line: &str) {
        if self.is_quiet {
            return;
        }
        self.end_status();
        let line = safe_text::for_locale(line, io::stderr().is_terminal());
        let _ = writeln!(io::stderr().lock(), "{line}");
    }

    /// Prints an error that does not end the recording, even in quiet mode.
    pub(crate) fn error(&mut self, error: &anyhow::Error) {
        self.end_status();
        for line in crate::base::failure::explain(error).1 {
            let _ = writeln!(io::stderr().lock(), "{line}");
        }
    }

    /// Whether it is time for [`Console::status`], and someone looks.
    pub(crate) fn wants_status(&self) -> bool {
        let is_due = self.last_status.is_none_or(|last| last.elapsed() >= STATUS_INTERVAL);
        !self.is_quiet && self.is_terminal && is_due
    }

    /// Updates the status line, on a terminal.
    pub(crate) fn status(&mut self, elapsed: Duration, taken: &str, lost: u64, bytes: u64) {
        if !self.wants_status() {
            return;
        }
        self.last_status = Some(Instant::now());
        let seconds = elapsed.as_secs();
        let line = format!(
            "{:02}:{:02}  {taken}  lost {}  {}",
            seconds / 60,
            seconds % 60,
            units::count(lost),
            units::bytes(bytes)
        );
        let width = line.len();
        let _ = write!(io::stderr().lock(), "\r{line:<pad$}", pad = self.width);
        let _ = io::stderr().flush();
        self.width = width;
        self.has_status_line = true;
    }

    fn end_status(&mut self) {
        if self.has_status_line {
            let _ = writeln!(io::stderr().lock());
            self.has_status_line = false;
            self.width = 0;
        }
    }

    /// A bar for the modules whose names are being read; hidden where no one looks.
    pub(crate) fn progress_bar(&self) -> indicatif::ProgressBar {
        let is_hidden = self.is_quiet || !io::stderr().is_terminal();
        let target = if is_hidden {
            indicatif::ProgressDrawTarget::hidden()
        } else {
            indicatif::ProgressDrawTarget::stderr()
        };
        let bar = indicatif::ProgressBar::with_draw_target(Some(0), target);
        if let Ok(style) = indicatif::ProgressStyle::with_template("symbols {pos}/{len} modules [{bar:20}]") {
            bar.set_style(style.progress_chars("## "));
        }
        bar
    }

    /// Prints the end block.
    pub(crate) fn finish(&mut self, summary: &Summary<'_>) {
        for line in end_block(summary) {
            self.info(&line);
        }
    }
}

/// Text on what was taken so far of each event that is recorded.
pub(crate) fn taken(profile: &Profile, totals: &CollectedTotals) -> String {
    let shown =
        profile.events.iter().enumerate().filter(|(_, event)| !event.kind().is(&EventKind::HEAP_SO_FAR));
    let taken = shown.map(|(number, event)| {
        let kind = event.kind();
        let samples = units::counted(totals.of_event(number).samples, &kind.noun);
        if kind.unit == Unit::Nanoseconds { samples } else { format!("{samples} of {}", kind.title) }
    });
    taken.collect::<Vec<_>>().join("  ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{EventInfo, Meta};

    #[test]
    fn the_status_line_counts_what_is_recorded() {
        let taken_of = |events: &[(EventKind, u64)]| {
            let (mut profile, mut totals) = (Profile::new(Meta::default()), CollectedTotals::default());
            for (kind, samples) in events {
                let event = profile.add_event(EventInfo { kind: kind.clone(), ..EventInfo::default() });
                (0..*samples).for_each(|_| totals.add(event, 7));
            }
            taken(&profile, &totals)
        };
        let faults = || EventKind::counted("page-faults", "page faults");
        assert_eq!(taken_of(&[(EventKind::ON_CPU, 1200)]), "1,200 samples");
        assert_eq!(taken_of(&[(EventKind::OFF_CPU, 1)]), "1 wait");
        assert_eq!(taken_of(&[(EventKind::ON_CPU, 1200), (EventKind::OFF_CPU, 1)]), "1,200 samples  1 wait");
        assert_eq!(taken_of(&[(faults(), 2)]), "2 samples of page faults");
    }
}
