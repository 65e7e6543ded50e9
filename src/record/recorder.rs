//! A recording to a file, from the target to the exit status.

use super::collect::table_reset::MostRows;
use super::environment::descriptors;
use super::names::naming::Naming;
use super::options::{RecordOptions, Target};
use super::output;
use super::output::announce::announce;
use super::output::console::{Console, Summary};
use super::output::{Destination, Placed, ProfileFile, console};
use super::session::signals::Signals;
use super::session::stop_reason::StopReason;
use super::session::{Session, Start, cost};
use super::target::launch::Child;
use super::target::{cpu_use, launch, search};
use crate::base::failure::{Failure, status as exit};
use crate::base::privilege;
use crate::profile::{End, WriteError, Writer, counter};
use std::io::IsTerminal;
use std::mem::MaybeUninit;
use std::path::Path;
use std::time::{Duration, Instant};

/// A reason to end is looked for this often, if nothing comes.
pub(super) const PATIENCE: Duration = Duration::from_millis(100);
/// The recorder forgets what is in the file when it has become so much.
const MOST_ROWS: MostRows = MostRows { stacks: 1 << 18, frames: 1 << 16, tasks: 1 << 14 };
/// What was taken reaches the file this often: the most that a killed recorder loses.
const FLUSH_INTERVAL: Duration = Duration::from_millis(900);

/// Records, and returns the exit status: that of a launched command, or `prof`'s own.
///
/// # Errors
///
/// A [`Failure`] with exit status and advice; nothing half-written is left behind.
pub fn run(options: &RecordOptions, command_line: Vec<String>) -> anyhow::Result<u8> {
    let launches = matches!(options.target, Target::Launch(_));
    record(options, command_line).map_err(|error| if launches { before_start(error) } else { error })
}

/// The failure of a recording whose command has not started: every failure of our own is 125 then, as with env(1) and
/// timeout(1).
pub(super) fn before_start(error: anyhow::Error) -> anyhow::Error {
    let own = error.downcast_ref::<Failure>().map(|failure| (failure.status, failure.clone()));
    match own {
        Some((exit::FAILED | exit::NOT_PERMITTED, mut failure)) => {
            failure.status = exit::NOT_STARTED;
            failure.into()
        }
        None => Failure::new(exit::NOT_STARTED, format!("{error:#}")).into(),
        _ => error,
    }
}

fn record(options: &RecordOptions, command_line: Vec<String>) -> anyhow::Result<u8> {
    descriptors::raise_limit();
    let found = search::find(options)?;
    let pid = found.pids.first().copied().unwrap_or_else(std::process::id);
    let time = local_time();
    let destination =
        Destination::check(&options.output, |path| output::expand(path, pid, &found.name, &time))?;
    let signals = Signals::install()?;
    let mut console =
        Console::new(options.quiet, matches!(options.target, Target::Launch(_)) || options.timer.is_some());
    for notice in &destination.notices {
        console.say(&format!("note: {}", crate::base::safe_text::message(notice)));
    }
    if !options.verbose {
        libbpf_rs::set_print(None);
    }

    let mut child = match (&options.target, &options.timer) {
        (Target::Launch(command), _) | (_, Some(command)) => Some(Child::spawn_stopped(command)?),
        _ => None,
    };
    privilege::keep_attaching()?;
    start_pool();
    let launched = matches!(options.target, Target::Launch(_)).then_some(()).and(child.as_ref());
    let preload = launched.map(|child| launch::files_to_preload(&child.program)).unwrap_or_default();
    let launched_pid = launched.map(|child| child.pid);
    let mut objects = [const { MaybeUninit::uninit() }; 2];
    let mut session = Session::attach(
        &mut objects,
        Start { options, found: &found, preload, command: command_line, is_watched: false },
    )?;
    if let Some(pid) = launched_pid {
        session.add_launched(pid)?;
    }

    let (file, unplaced) = destination.create()?;
    let mut writer = Writer::new(file, &session.collector.profile.meta)
        .map_err(|error| write_error(destination.path(), error))?;
    let has_launched = launched_pid.is_some();
    let started = start(options, &signals, &mut session, &mut child, has_launched)
        .and_then(|()| Ok(unplaced.place()?))
        .and_then(|placed| {
            announce(&mut console, &mut session, options, &found);
            match child.as_mut().map_or(Ok(()), Child::release) {
                Ok(()) => Ok(placed),
                Err(error) => {
                    placed.undo();
                    Err(error)
                }
            }
        });
    let placed = match started {
        Ok(placed) => placed,
        Err(error) => {
            return match child.filter(|child| has_launched && child.is_released()) {
                Some(mut child) => {
                    console.error(&error);
                    Ok(wait_for_command(&mut child, &signals, &mut SignalsSent::default()))
                }
                None => Err(error),
            };
        }
    };
    if let (Some(why), Some(path)) = (&placed.misplaced, &placed.path) {
        let note = format!("note: {why}: this recording goes to `{}`", path.display());
        console.say(&crate::base::safe_text::message(&note));
    }
    let mut recording = Recording {
        session,
        options,
        child,
        signals,
        signals_sent: SignalsSent::default(),
        console,
        placed,
        has_launched,
        naming: Naming::new(),
        has_written_samples: false,
    };
    let result = recording.until_its_end(&mut writer);
    recording.finish(writer, result)
}

/// Begins to sample, after the delay that was asked for.
fn start(
    options: &RecordOptions,
    signals: &Signals,
    session: &mut Session<'_>,
    child: &mut Option<Child>,
    has_launched: bool,
) -> anyhow::Result<()> {
    if let Some(delay) = options.delay {
        if let Some(child) = child {
            child.release()?;
        }
        let end = Instant::now() + delay;
        while let Some(left) = end.checked_duration_since(Instant::now()) {
            let has_ended = child.as_mut().is_some_and(|child| child.poll().is_some())
                || (!has_launched && session.target_has_ended());
            if has_ended || signals.interrupts() > 0 || signals.end_signal().is_some() {
                break;
            }
            session.wait(left.min(PATIENCE), &[])?;
        }
    }
    session.begin(options.duration)?;
    session.prefer_reader();
    Ok(privilege::keep_recording()?)
}

/// How often each signal was passed on to a command.
type SignalsSent = [usize; 2];

/// Passes on to the command what has come since the last look.
fn forward(child: &Child, signals: &Signals, sent: &mut SignalsSent) {
    for ((signal, count), sent) in signals.end_signals().into_iter().zip(sent) {
        while *sent < count {
            child.signal(signal);
            *sent += 1;
        }
    }
}

/// Waits for the command's end, passing signals on; returns its exit status.
fn wait_for_command(child: &mut Child, signals: &Signals, sent: &mut SignalsSent) -> u8 {
    loop {
        if let Some(status) = child.poll() {
            return status.clamp(0, 255) as u8;
        }
        forward(child, signals, sent);
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Starts the threads that compile tables and look up names, with only the rights that a recording needs to its end.
pub(super) fn start_pool() {
    let pool = rayon::ThreadPoolBuilder::new().start_handler(|_| privilege::keep_watching_or_end());
    // In tests there may be one already.
    let _ = pool.build_global();
}

/// The innermost reason of a failure, in words.
fn cause_of(error: &anyhow::Error) -> String {
    error.downcast_ref::<Failure>().map_or_else(|| format!("{error:#}"), |failure| failure.message.clone())
}

pub(super) fn write_error(path: Option<&Path>, error: WriteError) -> anyhow::Error {
    match error {
        WriteError::Io(error) if path.is_some() => {
            crate::record::output::failure::write_failure(path.unwrap_or(Path::new("")), &error).into()
        }
        WriteError::Io(error) => {
            anyhow::Error::new(error).context("cannot write the profile to standard output")
        }
        other => anyhow::Error::new(other).context("cannot write the profile"),
    }
}

/// The date and time where the user is: `20261121-133700`.
pub(super) fn local_time() -> String {
    // SAFETY: both calls only fill the structures that are given to them; all-zero ones are valid.
    let now = unsafe {
        let mut now: libc::tm = std::mem::zeroed();
        let seconds = libc::time(std::ptr::null_mut());
        libc::localtime_r(&raw const seconds, &raw mut now);
        now
    };
    let (year, month) = (now.tm_year + 1900, now.tm_mon + 1);
    let (day, hour, minute, second) = (now.tm_mday, now.tm_hour, now.tm_min, now.tm_sec);
    format!("{year:04}{month:02}{day:02}-{hour:02}{minute:02}{second:02}")
}

/// A recording that takes samples.
struct Recording<'a, 'obj> {
    session: Session<'obj>,
    options: &'a RecordOptions,
    /// The launched command, or the command that times the recording.
    child: Option<Child>,
    signals: Signals,
    signals_sent: SignalsSent,
    console: Console,
    placed: Placed,
    has_launched: bool,
    naming: Naming,
    /// The file holds samples or waits.
    has_written_samples: bool,
}

impl Recording<'_, '_> {
    /// Takes samples until there is a reason to stop.
    fn until_its_end(&mut self, writer: &mut Writer<ProfileFile>) -> anyhow::Result<StopReason> {
        let mut last_flush = Instant::now();
        loop {
            if let Some(reason) = self.stop_reason() {
                return Ok(reason);
            }
            let others: Vec<_> = self.child.iter().filter_map(Child::ended_fd).collect();
            self.session.wait(PATIENCE, &others)?;
            for notice in std::mem::take(&mut self.session.notices) {
                self.console.say(&format!("note: {notice}"));
            }
            if last_flush.elapsed() >= FLUSH_INTERVAL {
                last_flush = Instant::now();
                let collector = &mut self.session.collector;
                let has_many_rows = collector.has_many_rows(MOST_ROWS);
                if has_many_rows {
                    collector.name_dumped_rows();
                }
                self.naming.look(collector, writer)?;
                writer.flush(&mut collector.profile, true)?;
                if has_many_rows {
                    collector.forget_rows();
                    writer.reset();
                    self.naming.reset();
                }
                let totals = &self.session.collector.totals;
                self.has_written_samples = totals.samples + totals.waits > 0;
                // It works: what had this name before has gone its way, or would be lost if this process were killed.
                self.placed.settle();
            }
            let taken = console::taken(&self.session.collector.profile, &self.session.collector.totals);
            let lost = self.session.lost() + self.session.lost_waits();
            self.console.status(self.session.elapsed(), &taken, lost, writer.bytes_written());
        }
    }

    fn stop_reason(&mut self) -> Option<StopReason> {
        if let Some(child) = &mut self.child
            && child.poll().is_some()
        {
            return Some(StopReason::CommandEnded);
        }
        if let Some(signal) = self.signals.end_signal() {
            match &self.child {
                // The signal is the command's; its end ends the recording.
                Some(child) if self.has_launched => forward(child, &self.signals, &mut self.signals_sent),
                _ => return Some(StopReason::Signal(signal)),
            }
        }
        let interrupts_to_stop = if self.has_launched { 2 } else { 1 };
        if self.signals.interrupts() >= interrupts_to_stop {
            return Some(StopReason::Interrupted);
        }
        if self.options.duration.is_some_and(|duration| self.session.elapsed() >= duration) {
            return Some(StopReason::DurationReached);
        }
        if !self.has_launched && self.session.target_has_ended() {
            let has_begun = self.session.collector.totals.samples + self.session.collector.totals.waits > 0;
            return Some(if self.session.elapsed() < PATIENCE && !has_begun {
                StopReason::TargetGone
            } else {
                StopReason::TargetEnded
            });
        }
        None
    }

    /// Stops, names, completes the file and says what came of it.
    fn finish(
        mut self,
        mut writer: Writer<ProfileFile>,
        result: anyhow::Result<StopReason>,
    ) -> anyhow::Result<u8> {
        let reason = match result {
            Ok(reason) => reason,
            Err(error) => return self.give_up(writer, error),
        };
        if reason == StopReason::Interrupted {
            self.console.say("stopping... (interrupt again: save without names)");
        }
        let completed = self
            .session
            .stop(&reason.text())
            .and_then(|()| {
                // What was recorded is in the file before anything else is done.
                writer.flush(&mut self.session.collector.profile, true)?;
                Ok(self.name_frames(&mut writer)?)
            })
            .and_then(|()| {
                let launched = self.child.as_ref().filter(|_| self.has_launched);
                let ended = launched.and_then(|child| Some((child.pid, child.cpu_time?)));
                self.session.close_books(self.has_launched, ended)?;
                let launched = self.child.as_mut().filter(|_| self.has_launched);
                let (command_status, command_signal) =
                    launched.map_or((None, None), |child| (child.poll(), child.killed_by()));
                let refused = self.naming.refused();
                let profile = &mut self.session.collector.profile;
                profile.count(counter::PERF_MAPS_REFUSED, refused.len() as u64);
                if let Some(end) = &mut self.session.collector.profile.end {
                    (end.command_status, end.command_signal) = (command_status, command_signal);
                    end.notices.extend(refused.iter().cloned());
                    (end.cpu_ns, end.max_rss_bytes) = cost::own();
                }
                Ok(writer.flush(&mut self.session.collector.profile, true)?)
            });
        if let Err(error) = completed {
            return self.give_up(writer, error);
        }
        let bytes = writer.bytes_written();
        drop(writer);
        let is_there = self.placed.confirm();
        self.placed.settle();
        if let Err(lost) = is_there {
            return self.end_with(lost.into());
        }
        self.console.finish(&Summary {
            profile: &self.session.collector.profile,
            totals: &self.session.collector.totals,
            cut_short: self.naming.cut_short(),
            refused: self.naming.refused(),
            unread_modules: self.naming.unread_files(),
            path: self.placed.path.as_deref(),
            kept_old: self.placed.kept_old.as_deref(),
            bytes,
        });
        if let Some(failure) = self.unrecorded() {
            self.console.error(&failure.into());
        }
        if self.options.verbose {
            self.say_details();
        }
        match self.misplaced() {
            Some(failure) => self.end_with(failure.into()),
            None => self.status_of(reason),
        }
    }

    /// A failure if the file is not where it was meant to be, with its place.
    fn misplaced(&self) -> Option<Failure> {
        let (why, path) = (self.placed.misplaced.as_ref()?, self.placed.path.as_ref()?);
        let path = path.display();
        Some(
            Failure::new(exit::FAILED, why.clone())
                .hint(format!("this recording is `{path}`:  prof report {path}")),
        )
    }

    /// Ends with a failure, after a launched command that goes on; that has its own status unless it succeeds.
    fn end_with(&mut self, error: anyhow::Error) -> anyhow::Result<u8> {
        match self.child.as_mut() {
            Some(child) if self.has_launched => {
                self.console.error(&error);
                match wait_for_command(child, &self.signals, &mut self.signals_sent) {
                    0 => Ok(exit::FAILED),
                    status => Ok(status),
                }
            }
            Some(child) => {
                // The timer has no further use, unless it ended by itself.
                child.signal(libc::SIGTERM);
                child.wait();
                Err(error)
            }
            None => Err(error),
        }
    }

    fn name_frames(&mut self, writer: &mut Writer<ProfileFile>) -> Result<(), WriteError> {
        let asked_before = self.signals.count();
        let is_asked = || self.signals.count() > asked_before;
        let bar = self.progress_bar();
        let named = self.naming.finish(&mut self.session.collector, writer, is_asked, |done, total| {
            bar.set_length(total as u64);
            bar.set_position(done as u64);
        });
        bar.finish_and_clear();
        named
    }

    fn progress_bar(&self) -> indicatif::ProgressBar {
        let is_hidden = self.options.quiet || !std::io::stderr().is_terminal();
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

    fn say_details(&mut self) {
        let (rows, took) = self.session.written_rows();
        self.console
            .say(&format!("  {rows} rows of unwind tables written in {:.1} ms", took.as_secs_f64() * 1e3));
        if let Some(line) = self.session.collector.files.describe_cache() {
            self.console.say(&format!("  {line}"));
        }
        let mut lines = console::outcome_lines(&self.session.collector.totals);
        lines.extend(self.naming.problems().iter().map(|problem| format!("names of {problem}")));
        lines.extend(self.session.collector.files.failures.iter().cloned());
        lines.extend(self.session.collector.dumps.describe());
        for (name, value) in &self.session.collector.profile.counters {
            lines.push(format!("  {name} {value}"));
        }
        for line in lines {
            self.console.say(&crate::base::safe_text::message(&line));
        }
    }

    /// The exit status: that of a launched command, once it has ended.
    fn status_of(&mut self, reason: StopReason) -> anyhow::Result<u8> {
        let own_status = match (reason, self.unrecorded()) {
            (StopReason::Signal(signal), _) => (128 + signal) as u8,
            (_, Some(failure)) => failure.status,
            _ => exit::OK,
        };
        let Some(child) = self.child.as_mut() else { return Ok(own_status) };
        if !self.has_launched {
            // The timer has no further use, unless it ended by itself.
            child.signal(libc::SIGTERM);
            child.wait();
            return Ok(own_status);
        }
        if child.poll().is_none() {
            self.console.say("the command goes on; waiting for its end");
        }
        let status = wait_for_command(child, &self.signals, &mut self.signals_sent);
        Ok(if status == exit::OK { own_status } else { status })
    }

    /// Why a target that ran has no sample.
    fn unrecorded(&self) -> Option<Failure> {
        let profile = &self.session.collector.profile;
        let used_ns = profile.counter(counter::UNRECORDED_NS);
        if used_ns > 0 {
            return Some(cpu_use::failure(&profile.meta.target, used_ns, |name| profile.counter(name)));
        }
        let is_silent = console::is_silent(profile, &self.session.collector.totals);
        is_silent
            .then(|| cpu_use::silence(&profile.meta.target, profile.counter(counter::THREADS_UNACCOUNTED)))
    }

    /// The recording cannot go on. What the file holds in whole chunks is kept if there are samples in it. A launched
    /// command goes on, and its status is returned.
    fn give_up(&mut self, writer: Writer<ProfileFile>, error: anyhow::Error) -> anyhow::Result<u8> {
        self.session.halt();
        let mut error = match error.downcast::<WriteError>() {
            Ok(error) => write_error(self.placed.path.as_deref(), error),
            Err(error) => error,
        };
        if self.has_written_samples {
            let end = End {
                reason: format!("writing the file failed: {}", cause_of(&error)),
                duration_ns: self.session.elapsed().as_nanos() as u64,
                threads: self.session.collector.totals.threads.len() as u32,
                ..End::default()
            };
            let (whole, closing) = (writer.bytes_written(), writer.closing_chunk(&end).unwrap_or_default());
            writer.into_inner().cut_to(whole, &closing);
            let is_there = self.placed.confirm();
            self.placed.settle();
            if let (Some(path), Some(failure)) = (&self.placed.path, error.downcast_ref::<Failure>()) {
                let kept = match is_there {
                    Ok(()) => format!("what was recorded before is readable: prof report {}", path.display()),
                    Err(lost) => lost.message,
                };
                error = failure.clone().hint(kept).into();
            }
        } else {
            self.placed.undo();
        }
        self.end_with(error)
    }
}
