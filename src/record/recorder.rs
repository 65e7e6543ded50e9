//! A recording to a file, from the target to the exit status.

use super::beginning::{begin_heap, console, expect, release, say_heap, say_misplaced, spawn};
use super::environment::{allocator, descriptors};
use super::failures::{before_start, cause_of, write_error};
use super::file_sink::FileSink;
use super::kernel::load::failure::read_loader_messages;
use super::names::naming::Naming;
use super::options::{Output, RecordOptions, Target};
use super::output;
use super::output::announce::announce;
use super::output::console::Console;
use super::output::end_block::{self, Summary};
use super::output::window_folder::WindowFolder;
use super::output::{Destination, Placed, ProfileFile, Unplaced};
use super::services::{self, Labelling};
use super::session::signal_relay::SignalRelay;
use super::session::stop::lack_of_opener;
use super::session::stop_reason::StopReason;
use super::session::until_end::RecordingLoop;
use super::session::{Session, Start, cost, cpu_use};
use super::target::launch::Child;
use super::target::search::{self, FoundTarget};
use super::windows::Windows;
use super::workers;
use crate::base::failure::{Failure, status as exit};
use crate::base::opener::sandbox;
use crate::base::{opener, privilege, units};
use crate::profile::{End, WriteError, Writer, counter};
use crate::record::process::parent::Parent;
use std::mem::MaybeUninit;
use std::path::Path;
use std::time::Instant;

/// Most heaps of the recorder: one for each thread that works all the time.
const HEAPS: u8 = 8;

/// Is given the place of the file of a recording once that is complete.
type OnSaved<'a> = &'a dyn Fn(&Path);

/// Records, and returns the exit status: that of a launched command, or `prof`'s own. `saved` is given the place of the file
/// once that is complete; `labelling` says which labels processes have.
///
/// # Errors
///
/// A [`Failure`] with exit status and advice; nothing half-written is left.
pub(crate) fn run(
    options: &RecordOptions,
    command_line: Vec<String>,
    saved: OnSaved<'_>,
    labelling: Option<Labelling>,
) -> anyhow::Result<u8> {
    // The thread that empties the rings waits for none of the lowest priority.
    allocator::keep_little(HEAPS);
    descriptors::raise_limit();
    let launches = matches!(options.target, Target::Launch(_));
    let recorded = record(options, command_line, saved, labelling);
    if let Output::Folder { path, .. } = &options.output {
        WindowFolder::remove_unused(path);
    }
    recorded.map_err(|error| if launches { before_start(error) } else { error })
}

fn record(
    options: &RecordOptions,
    command_line: Vec<String>,
    saved: OnSaved<'_>,
    labelling: Option<Labelling>,
) -> anyhow::Result<u8> {
    let found = search::find(options)?;
    let pid = found.pids.first().copied().unwrap_or_else(std::process::id);
    let expand = |path: &Path| output::expand(path, pid, &found.name, &output::local_time());
    let destination = Destination::check(&options.output, expand)?;
    let mut signals = SignalRelay::install()?;
    let mut console = console(options, &destination);
    read_loader_messages(options.verbose);

    let (labeller, host_files) = labelling.map(|labelling| (labelling.labeller, labelling.files)).unzip();
    let cache = services::start_opener(&options.output, options, &found.pids, host_files)?;
    let mut child = spawn(options)?;
    opener::name_command(child.as_ref().map(|child| child.pid))?;
    privilege::keep_attaching()?;
    let launched = matches!(options.target, Target::Launch(_)).then_some(()).and(child.as_ref());
    let launched_pid = launched.map(|child| child.pid);
    let mut objects = [const { MaybeUninit::uninit() }; 2];
    let is_watched = options.window.is_some();
    let begun = Start { options, found: &found, launched, cache, command: command_line, is_watched };
    let mut session = Session::attach(&mut objects, begun)?;
    labeller.into_iter().for_each(|labeller| session.collector.identities.set_labeller(labeller));
    say_heap(&mut console, expect(&mut session, launched_pid)?);

    let windows = Windows::of(options, (pid, found.name.clone()), &mut session.collector.profile);
    let (file, unplaced) = destination.create()?;
    let mut writer = Writer::new(file, &session.collector.profile.meta)
        .map_err(|error| write_error(destination.path(), error))?;
    let has_launched = launched_pid.is_some();
    let said = ((&mut console, &found), unplaced);
    let (placed, is_delay_over) = match begin(options, &mut signals, &mut session, &mut child, said) {
        Ok(begun) => begun,
        Err(error) => {
            let child = child.filter(|child| has_launched && child.is_released());
            return without_recording(child, signals, console, error);
        }
    };
    say_misplaced(&mut console, &placed);
    let mut recording = FileRecording {
        session,
        options,
        saved,
        child,
        signals,
        console,
        placed,
        has_launched,
        is_delay_over,
        parent: options.ends_with,
        naming: Naming::new(&options.debug_folders).in_windows(options.window),
        has_written_samples: false,
        windows,
    };
    let result = recording.until_its_end(&mut writer);
    recording.finish(writer, result)
}

/// Begins to sample, and lets the command run, once the file has its name. Returns where the file is, and whether the delay was over.
fn begin(
    options: &RecordOptions,
    signals: &mut SignalRelay,
    session: &mut Session<'_>,
    child: &mut Option<Child>,
    ((console, found), unplaced): ((&mut Console, &FoundTarget), Unplaced),
) -> anyhow::Result<(Placed, bool)> {
    let has_launched = matches!(options.target, Target::Launch(_));
    let is_delay_over = start(options, signals, session, child, has_launched)?;
    let placed = unplaced.place()?;
    announce(console, session, options, found, child.as_ref());
    let placed = release(child.as_mut(), placed)?;
    let launched = child.as_ref().filter(|_| has_launched && is_delay_over);
    let command = launched.map(|child| child.pid);
    let placed = begin_heap(console, session, command, placed)?;
    if let Output::Folder { path, .. } = &options.output {
        WindowFolder::keep(path);
    }
    Ok((placed, is_delay_over))
}

/// The recording could not begin: a command that runs by now goes on to its end. Its status counts unless that says that all is well.
fn without_recording(
    child: Option<Child>,
    mut signals: SignalRelay,
    mut console: Console,
    error: anyhow::Error,
) -> anyhow::Result<u8> {
    let Some(mut child) = child else { return Err(error) };
    console.error(&error);
    let of_command = signals.wait_for(&mut child);
    let failure = || error.downcast_ref::<Failure>().map_or(exit::FAILED, |failure| failure.status);
    Ok(if of_command == exit::OK { failure() } else { of_command })
}

/// Begins to sample, after the delay that was asked for.
fn start(
    options: &RecordOptions,
    signals: &mut SignalRelay,
    session: &mut Session<'_>,
    child: &mut Option<Child>,
    has_launched: bool,
) -> anyhow::Result<bool> {
    let mut is_delay_over = true;
    if let Some(delay) = options.delay {
        let mut watch = RecordingLoop { session, child, has_launched, duration: options.duration };
        is_delay_over = watch.pass(delay, |launched| signals.is_asked_to_end(launched))?;
    }
    session.begin(options.duration)?;
    privilege::keep_recording()?;
    Ok(is_delay_over)
}

/// A recording that takes samples.
struct FileRecording<'a, 'obj> {
    session: Session<'obj>,
    options: &'a RecordOptions,
    saved: OnSaved<'a>,
    /// The launched command, or the command that times the recording.
    child: Option<Child>,
    signals: SignalRelay,
    console: Console,
    placed: Placed,
    has_launched: bool,
    /// Sampling began when it was meant to; else the recording ends with the delay.
    is_delay_over: bool,
    parent: Option<Parent>,
    naming: Naming,
    /// The file holds samples or waits.
    has_written_samples: bool,
    /// Of a recording in windows; the file is that of the last one.
    windows: Option<Windows>,
}

impl FileRecording<'_, '_> {
    /// Takes samples until there is a reason to stop.
    fn until_its_end(&mut self, writer: &mut Writer<ProfileFile>) -> anyhow::Result<StopReason> {
        let mut watch = RecordingLoop {
            session: &mut self.session,
            child: &mut self.child,
            has_launched: self.has_launched,
            duration: self.options.duration,
        };
        let mut sink = FileSink {
            signals: &mut self.signals,
            console: &mut self.console,
            placed: &mut self.placed,
            naming: &mut self.naming,
            writer,
            has_written_samples: &mut self.has_written_samples,
            last_flush: Instant::now(),
            windows: self.windows.as_mut(),
            parent: self.parent,
            is_verbose: self.options.verbose,
        };
        // A file is wanted to the end.
        Ok(watch.until_end(&mut sink)?.unwrap_or(StopReason::Stopped))
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
            self.console.info("stopping... (interrupt again: save without names)");
        }
        let text = reason.text();
        let completed = self
            .session
            .stop(if self.is_delay_over { &text } else { End::IN_DELAY })
            .and_then(|()| {
                // What was recorded is in the file before anything else is done.
                writer.flush(&mut self.session.collector.profile, true)?;
                Ok(self.name_frames(&mut writer)?)
            })
            .and_then(|()| {
                self.complete_end()?;
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
        self.say_end(bytes);
        self.hand_over();
        match self.misplaced().or(self.failure_of(reason)) {
            Some(failure) => self.end_with(failure.into()),
            None => self.status_of(reason),
        }
    }

    /// Says what came of the recording, whose file has so many bytes.
    fn say_end(&mut self, bytes: u64) {
        let refused: Vec<String> =
            lack_of_opener().into_iter().chain(self.naming.refused().iter().cloned()).collect();
        self.console.finish(&Summary {
            profile: &self.session.collector.profile,
            totals: &self.session.collector.totals,
            cut_short: self.naming.cut_short(),
            refused: &refused,
            unread_modules: self.naming.unread_files(),
            path: self.placed.path.as_deref(),
            kept_old: self.placed.kept_old.as_deref(),
            bytes,
        });
        if let Some(windows) = &self.windows {
            self.console.info(&windows.summary());
        }
        if let Some(failure) = self.unrecorded() {
            self.console.error(&failure.into());
        }
        if self.options.verbose {
            self.say_details();
        }
    }

    /// Leaves the file, which is complete, to others.
    fn hand_over(&mut self) {
        self.placed.close();
        if let (Some(path), None) = (&self.placed.path, &self.placed.misplaced) {
            (self.saved)(path);
        }
    }

    /// Adds to the end record what is known last: the books, how the command ended, the cost.
    fn complete_end(&mut self) -> anyhow::Result<()> {
        let launched = self.child.as_ref().filter(|_| self.has_launched);
        let ended = launched.and_then(|child| Some((child.pid, child.cpu_time?)));
        // What it did during the delay was not to be recorded; what it did before the last window is in others.
        if self.is_delay_over
            && self.windows.as_ref().is_none_or(|windows| windows.complete + windows.lost == 0)
        {
            self.session.close_books(self.has_launched, ended)?;
        }
        let launched = self.child.as_mut().filter(|_| self.has_launched);
        let (command_status, command_signal) =
            launched.map_or((None, None), |child| (child.poll(), child.killed_by()));
        let refused = self.naming.refused();
        let collector = &mut self.session.collector;
        let (profile, dumps) = (&mut collector.profile, &collector.dumps);
        profile.count(counter::PERF_MAPS_REFUSED, refused.len() as u64);
        if let Some(end) = &mut profile.end {
            (end.command_status, end.command_signal) = (command_status, command_signal);
            end.notices.extend(refused.iter().cloned());
            end.notices.extend(dumps.problems.iter().chain(&dumps.unread).cloned());
            end.notices.extend(lack_of_opener().filter(|lack| !end.notices.contains(lack)));
            // Of a window, only what it used itself.
            let (cpu_ns, max_rss_bytes) = cost::own();
            end.cpu_ns = if self.windows.is_some() { end.cpu_ns } else { cpu_ns };
            end.max_rss_bytes = max_rss_bytes;
        }
        Ok(())
    }

    /// A failure if the recording ends for a reason that no one wants.
    fn failure_of(&self, reason: StopReason) -> Option<Failure> {
        let is_wanted = !matches!(reason, StopReason::OpenerEnded | StopReason::WorkersEnded);
        let windows = self.windows.as_ref().filter(|_| !is_wanted)?;
        let failure = Failure::new(
            exit::FAILED,
            format!("{} (was it killed?): there are no more windows", reason.text()),
        );
        Some(match windows.lost {
            0 => failure.hint("the windows so far are complete; start the recording again to go on"),
            _ => failure.hint("start the recording again to go on"),
        })
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
                match self.signals.wait_for(child) {
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
        let bar = self.console.progress_bar();
        let named = self.naming.finish(&mut self.session.collector, writer, is_asked, |done, total| {
            bar.set_length(total as u64);
            bar.set_position(done as u64);
        });
        bar.finish_and_clear();
        named?;
        let (bytes, with_sources) = (writer.bytes_written(), self.options.embed_source);
        self.naming.save_code(&mut self.session.collector, bytes, with_sources, is_asked);
        Ok(())
    }

    fn say_details(&mut self) {
        let (rows, took) = self.session.written_rows();
        self.console
            .info(&format!("  {rows} rows of unwind tables written in {:.1} ms", took.as_secs_f64() * 1e3));
        let code = &self.session.collector.profile.code;
        self.console.info(&format!(
            "  code of {} kept, {} bytes, found in {:.1} ms",
            units::counted(code.len() as u64, "function"),
            units::count(code.iter().map(|code| code.bytes.len() as u64).sum()),
            self.naming.code_took().as_secs_f64() * 1e3
        ));
        if let Some(confinement) = sandbox::confinement() {
            self.console.info(&format!("  {}", confinement.describe()));
        }
        let died = workers::usage().died;
        if died > 0 {
            let workers = units::counted(died, "process");
            self.console.info(&format!("  {workers} died of files that were read in them"));
        }
        if let Some(line) = self.session.collector.files.describe_cache() {
            self.console.info(&format!("  {line}"));
        }
        let mut lines = end_block::outcome_lines(&self.session.collector.totals);
        lines.extend(self.naming.problems().iter().map(|problem| format!("names of {problem}")));
        lines.extend(self.session.collector.files.failures.iter().cloned());
        lines.extend(self.session.collector.dumps.describe());
        for (name, value) in &self.session.collector.profile.counters {
            lines.push(format!("  {name} {value}"));
        }
        for line in lines {
            self.console.info(&crate::base::safe_text::message(&line));
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
            self.console.info("the command is still running; waiting for it to end");
        }
        let status = self.signals.wait_for(child);
        Ok(if status == exit::OK { own_status } else { status })
    }

    /// Why a target that ran has no sample.
    fn unrecorded(&self) -> Option<Failure> {
        let profile = &self.session.collector.profile;
        let (target, lost) = (&profile.meta.target, self.session.lost_programs.first());
        let used_ns = profile.counter(counter::UNRECORDED_NS);
        if used_ns > 0 {
            return Some(cpu_use::failure((target, used_ns), lost, |name| profile.counter(name)));
        }
        let is_silent = end_block::is_silent(profile, &self.session.collector.totals);
        is_silent.then(|| cpu_use::silence(target, profile.counter(counter::THREADS_UNACCOUNTED)))
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
                reason: format!("{}: {}", End::WRITING_FAILED, cause_of(&error)),
                writing_failed: true,
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
