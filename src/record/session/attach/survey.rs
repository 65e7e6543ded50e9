//! What has to be known of a target before the programs are loaded, which is also before rights can be given up: how much room
//! its tables take, and which runtimes it has. Its files are read for that, so a child process does it, which has given up its
//! rights already, and answers with these few numbers.

use super::read_target::read_target;
use crate::base::failure::{Failure, status};
use crate::base::opener::{self, sandbox};
use crate::profile::{Meta, Profile, RuntimeFrames};
use crate::record::collect::collector::Collector;
use crate::record::collect::kernel_frames::KernelFrames;
use crate::record::interpreters::ALL_LANGUAGES;
use crate::record::kernel::capacity::{page_capacity, row_capacity};
use crate::record::modules::ModuleFiles;
use crate::record::options::{RecordOptions, Target};
use crate::record::session::cost;
use crate::record::target::search::FoundTarget;
use rustix::event::{PollFd, PollFlags, Timespec};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// Time after which a target that cannot be read is recorded with what is usual.
const PATIENCE: Duration = Duration::from_secs(5);
/// Time for the child to end that has answered, or was killed.
const END_PATIENCE: Duration = Duration::from_millis(200);
/// Most bytes of an answer.
const MAX_ANSWER_BYTES: u64 = 4096;

/// Facts of a target.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct TargetSurvey {
    /// Rows and pages to make room for; powers of two.
    pub(super) rows: u32,
    pub(super) pages: u32,
    /// Interpreters whose frames are to be read: a bit for each `enum prof_runtime_kind`.
    pub(super) interpreters: u32,
    /// The command to be launched is an interpreter itself, as far as its files tell.
    pub(super) is_interpreter: bool,
    /// Whether runtimes with managed code are there, or may come.
    pub(super) has_managed: bool,
    /// The same of Go programs.
    pub(super) has_goroutines: bool,
    /// What is to be said of a target that could not be looked at.
    #[serde(skip)]
    pub(super) notice: Option<String>,
}

impl TargetSurvey {
    /// Looks at the target; `program` is the command to be launched.
    ///
    /// # Errors
    ///
    /// When snapshots of goroutines are asked for and nothing has some.
    pub(super) fn take(
        options: &RecordOptions,
        found: &FoundTarget,
        program: Option<&Path>,
    ) -> anyhow::Result<Self> {
        let survey = match opener::is_running() {
            true => in_child(|| TargetSurvey::of(options, found, program))
                .unwrap_or_else(|error| TargetSurvey::without_reading(options, &error)),
            false => TargetSurvey::of(options, found, program)?,
        };
        let lacks_goroutines = options.goroutines().is_some() && !survey.has_goroutines;
        if lacks_goroutines { Err(no_go_program(found).into()) } else { Ok(survey) }
    }

    /// What a target is assumed to be that could not be looked at: anything. `why` it could not is said.
    fn without_reading(options: &RecordOptions, why: &io::Error) -> Self {
        let files = ModuleFiles::unread();
        let is_wanted = options.runtime != RuntimeFrames::Off;
        TargetSurvey {
            rows: row_capacity(&files, true, options.table_budget_bytes),
            pages: page_capacity(&files),
            interpreters: if is_wanted { ALL_LANGUAGES } else { 0 },
            is_interpreter: is_wanted,
            has_managed: is_wanted,
            has_goroutines: is_wanted,
            notice: Some(format!(
                "the target could not be looked at before it was recorded ({why}): space for unwind tables and \
                 programs for runtimes are those of any target"
            )),
        }
    }

    fn of(options: &RecordOptions, found: &FoundTarget, program: Option<&Path>) -> anyhow::Result<Self> {
        let profile = Profile::new(Meta::default());
        let mut collector = Collector::new(profile, ModuleFiles::unread(), KernelFrames::new(false));
        read_target(&mut collector, options, found, program)?;
        let rows =
            row_capacity(&collector.files, options.target == Target::System, options.table_budget_bytes);
        let pages = page_capacity(&collector.files);
        let Collector { processes, files, interpreters, managed, goroutines, .. } = &mut collector;
        let is_wanted = options.runtime != RuntimeFrames::Off;
        let may_come = matches!(options.target, Target::System | Target::Launch(_));
        interpreters.is_wanted = is_wanted;
        managed.is_wanted = is_wanted;
        goroutines.is_wanted = is_wanted;
        let running = || found.pids.iter().filter_map(|pid| processes.get(*pid));
        let languages = match (is_wanted, may_come) {
            (false, _) => 0,
            (true, true) => ALL_LANGUAGES,
            (true, false) => running().fold(0, |all, process| all | interpreters.runtimes(process, files)),
        };
        let is_interpreter = is_wanted && interpreters.is_any_runtime(files);
        let has_managed =
            is_wanted && (may_come || running().any(|process| managed.has_runtime(process, files)));
        let has_goroutines =
            is_wanted && (may_come || running().any(|process| goroutines.has_program(process, files)));
        let interpreters = languages;
        Ok(TargetSurvey {
            rows,
            pages,
            interpreters,
            is_interpreter,
            has_managed,
            has_goroutines,
            notice: None,
        })
    }
}

/// The failure where snapshots of goroutines are asked for and nothing has some.
fn no_go_program(found: &FoundTarget) -> Failure {
    let what =
        "no target is a Go program whose function table can be read: --goroutines has nothing to record";
    Failure::new(status::FAILED, format!("{}: {what}", found.label)).hint("leave out --goroutines")
}

/// Does the work in a child process without rights, and waits for its answer.
fn in_child(work: impl FnOnce() -> anyhow::Result<TargetSurvey>) -> io::Result<TargetSurvey> {
    let (answer, question) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    // SAFETY: the child goes on with a copy of this process. No other thread has begun anything that it needs: those of a
    // recording are started later.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            drop(answer);
            let answered = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                let survey = sandbox::enter().map_err(anyhow::Error::from).and_then(|()| work());
                let survey = survey.map_err(|error| format!("{error:#}"));
                serde_json::to_vec(&survey).is_ok_and(|text| File::from(question).write_all(&text).is_ok())
            }));
            // SAFETY: ends the process without running what the other one has registered for its own end.
            unsafe { libc::_exit(i32::from(!answered.unwrap_or(false))) }
        }
        pid => {
            drop(question);
            let survey = read_answer(File::from(answer));
            end_child(pid);
            survey
        }
    }
}

/// Ends the child, and adds what it has used to the cost. One that waits in the kernel for a server of files cannot be ended: it is
/// left to itself.
fn end_child(pid: libc::pid_t) {
    // SAFETY: the pid is that of our own child, which no one else waits for.
    unsafe { libc::kill(pid, libc::SIGKILL) };
    let end = Instant::now() + END_PATIENCE;
    loop {
        // SAFETY: as above. All-zero values are valid ones.
        let (ended, usage) = unsafe {
            let mut usage: libc::rusage = std::mem::zeroed();
            (libc::wait4(pid, std::ptr::null_mut(), libc::WNOHANG, &raw mut usage), usage)
        };
        match ended {
            0 if Instant::now() < end => std::thread::sleep(Duration::from_millis(1)),
            0 => return,
            _ => return cost::add_ended(&usage),
        }
    }
}

fn read_answer(mut answer: File) -> io::Result<TargetSurvey> {
    let patience = Timespec::try_from(PATIENCE).map_err(io::Error::other)?;
    if rustix::event::poll(&mut [PollFd::new(&answer, PollFlags::IN)], Some(&patience))? == 0 {
        return Err(io::Error::other(format!("that took more than {} s", PATIENCE.as_secs())));
    }
    let mut text = Vec::new();
    (&mut answer).take(MAX_ANSWER_BYTES).read_to_end(&mut text)?;
    if text.is_empty() {
        return Err(io::Error::other("the process that looked at it ended"));
    }
    let survey: Result<TargetSurvey, String> = serde_json::from_slice(&text)?;
    let survey = survey.map_err(io::Error::other)?;
    // What answers has read foreign files.
    let is_sound = survey.rows.is_power_of_two()
        && survey.pages.is_power_of_two()
        && survey.rows <= 1 << 26
        && survey.pages <= 1 << 20
        && survey.interpreters & !ALL_LANGUAGES == 0;
    if is_sound { Ok(survey) } else { Err(io::Error::other("what was found is not possible")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_answers_and_one_that_ends_without_an_answer_is_an_error() {
        let survey = TargetSurvey {
            rows: 8,
            pages: 4,
            interpreters: ALL_LANGUAGES,
            is_interpreter: true,
            has_managed: true,
            has_goroutines: false,
            notice: None,
        };
        let wanted = survey.clone();
        assert_eq!(in_child(|| Ok(wanted)).expect("an answer"), survey);
        let why = |work: &dyn Fn() -> anyhow::Result<TargetSurvey>| in_child(work).unwrap_err().to_string();
        assert_eq!(why(&|| anyhow::bail!("it is gone")), "it is gone");
        assert_eq!(why(&|| std::process::abort()), "the process that looked at it ended");
        let odd = TargetSurvey { rows: 7, ..survey };
        assert_eq!(why(&|| Ok(odd.clone())), "what was found is not possible", "it is no power of two");
    }

    #[test]
    fn a_target_that_takes_too_long_is_recorded_as_any_and_that_is_said() {
        let begun = std::time::Instant::now();
        let error = in_child(|| {
            loop {
                std::thread::sleep(PATIENCE)
            }
        })
        .unwrap_err();
        assert!(begun.elapsed() >= PATIENCE);
        let survey = TargetSurvey::without_reading(&RecordOptions::default(), &error);
        assert!(survey.notice.is_some_and(|notice| notice.contains("(that took more than 5 s)")));
        assert_eq!((survey.interpreters, survey.has_managed), (ALL_LANGUAGES, true));
    }
}
