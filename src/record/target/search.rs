//! From what the user named to processes and threads.

use super::children::Family;
use crate::base::failure::{Failure, status};
use crate::bpf::Filter;
use crate::record::environment::{descriptors, namespaces};
use crate::record::options::{Children, RecordOptions, Target};
use crate::record::process::proc_fs;

/// Whom to record, found in the system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct FoundTarget {
    /// Processes, by id. Empty for the whole machine.
    pub(crate) pids: Vec<u32>,
    /// Threads, when only these are recorded.
    pub(crate) tids: Vec<u32>,
    /// Threads alive at the start in all of them.
    pub(crate) threads: u32,
    /// Label for people: `ingest (pid 4312)`.
    pub(crate) label: String,
    /// Name for titles: `ingest`.
    pub(crate) name: String,
    /// Findings that the user should know.
    pub(crate) notices: Vec<String>,
}

impl Target {
    /// The kernel side's filter for this target.
    pub(crate) fn filter(&self) -> Filter {
        match self {
            Target::System => Filter::None,
            Target::Tids(_) => Filter::Thread,
            Target::Pids(_) | Target::Name(_) | Target::Launch(_) => Filter::Process,
        }
    }
}

/// Finds the processes of a target; a command to launch is found later, as its child process.
///
/// # Errors
///
/// A [`Failure`] when a process or thread does not exist, or no process has the name.
pub(crate) fn find(options: &RecordOptions) -> anyhow::Result<FoundTarget> {
    namespaces::check()?;
    match &options.target {
        Target::Pids(pids) => of_pids(pids.clone(), options.children),
        Target::Tids(tids) => of_tids(tids),
        Target::Name(pattern) => of_pids(with_name(pattern)?, options.children),
        Target::System => {
            let threads = proc_fs::processes()?
                .into_iter()
                .map(|pid| proc_fs::threads(pid).map_or(0, |threads| threads.len() as u32));
            Ok(FoundTarget {
                threads: threads.sum(),
                label: match namespaces::pid_namespace() {
                    0 => "all processes".to_owned(),
                    _ => "all processes of this PID namespace".to_owned(),
                },
                name: "all".to_owned(),
                ..FoundTarget::default()
            })
        }
        Target::Launch(command) => {
            let words: Vec<String> = command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            let program = std::path::Path::new(words.first().map_or("", String::as_str));
            Ok(FoundTarget {
                threads: 1,
                label: crate::base::safe_text::shell_line(words.iter().map(String::as_str)),
                name: program.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                ..FoundTarget::default()
            })
        }
    }
}

fn no_such_process(what: &str) -> Failure {
    let failure = Failure::new(status::FAILED, format!("cannot record {what}: no such process"))
        .hint("list processes: ps -e; or record by name: prof record --name REGEX");
    where_others_are(failure)
}

/// Says of something that is not there where it may be.
fn where_others_are(failure: Failure) -> Failure {
    match namespaces::pid_namespace() {
        0 => failure,
        _ => failure.hint("prof sees the processes of its own PID namespace: to see others, run it on the host, or with --pid=host"),
    }
}

fn of_pids(mut pids: Vec<u32>, children: Children) -> anyhow::Result<FoundTarget> {
    pids.sort_unstable();
    pids.dedup();
    let named = pids.clone();
    for &pid in &pids {
        match proc_fs::threads(pid) {
            Ok(_) => {}
            Err(error) if descriptors::is_lack(&error) => {
                return Err(descriptors::lack(&format!("cannot record pid {pid}")).into());
            }
            Err(_) => return Err(no_such_process(&format!("pid {pid}")).into()),
        };
        if proc_fs::process_of_thread(pid)? != Some(pid) {
            return Err(Failure::new(status::FAILED, format!("cannot record pid {pid}: it is a thread"))
                .hint(format!("record the thread: prof record -t {pid}"))
                .into());
        }
    }
    let mut notices = leave_out_zombies(&mut pids)?;
    if children == Children::All {
        pids.extend(Family::now().descendants(&pids));
        pids.sort_unstable();
    }
    notices.extend(stopped(&pids));
    let threads =
        pids.iter().map(|pid| proc_fs::threads(*pid).map_or(0, |threads| threads.len() as u32)).sum();
    let first = named.iter().copied().find(|pid| pids.contains(pid)).unwrap_or(pids[0]);
    let name = proc_fs::comm(first).map_err(|_| no_such_process(&format!("pid {first}")))?;
    let label = match pids.len() - 1 {
        0 => format!("{name} (pid {first})"),
        more => format!("{name} (pid {first} and {} more)", crate::base::units::count(more as u64)),
    };
    Ok(FoundTarget { pids, tids: Vec::new(), threads, label, name, notices })
}

/// Takes processes that have ended out of `pids`: they are there until their parents ask for their exit status, and never
/// run again. Returns what is to be said of them.
///
/// # Errors
///
/// A [`Failure`] when no other is left.
fn leave_out_zombies(pids: &mut Vec<u32>) -> Result<Vec<String>, Failure> {
    let (living, ended): (Vec<u32>, Vec<u32>) =
        pids.iter().partition(|pid| proc_fs::live_thread(**pid).is_some());
    let Some(&first) = ended.first() else { return Ok(Vec::new()) };
    let parent = proc_fs::parent(first).filter(|parent| *parent > 0).map_or(String::new(), |parent| {
        format!(": a zombie, which its parent {} has not waited for", name_of(parent))
    });
    if living.is_empty() {
        return Err(Failure::new(
            status::FAILED,
            format!("cannot record {}: it has ended{parent}", name_of(first)),
        )
        .hint("a process that has ended never runs again; record its parent, or a new one from its start"));
    }
    *pids = living;
    let verb = if ended.len() == 1 { "has ended" } else { "have ended" };
    Ok(vec![format!("{} {verb}{parent}: left out", first_of(&ended))])
}

/// Returns what is to be said of those of `pids` that do nothing at all, since a signal or a debugger has stopped them.
fn stopped(pids: &[u32]) -> Option<String> {
    let stopped: Vec<u32> = pids.iter().copied().filter(|pid| proc_fs::is_stopped(*pid)).collect();
    let (verb, does, it) =
        if stopped.len() == 1 { ("is", "does", "it is") } else { ("are", "do", "they are") };
    let first = stopped.first()?;
    Some(format!(
        "{} {verb} stopped, by a signal or a debugger, and {does} nothing until {it} continued: kill -CONT {first}",
        first_of(&stopped)
    ))
}

/// Returns the name and number of a process.
fn name_of(pid: u32) -> String {
    proc_fs::comm(pid).map_or_else(|_| format!("pid {pid}"), |name| format!("{name} (pid {pid})"))
}

/// Returns the name of the first of some processes, and how many more there are.
fn first_of(pids: &[u32]) -> String {
    let first = pids.first().copied().map_or_else(String::new, name_of);
    match pids.len() {
        0 | 1 => first,
        all => format!("{first} and {} more", crate::base::units::count(all as u64 - 1)),
    }
}

/// Returns the number of processes, other than this one, that have this very name.
pub(crate) fn count_named(name: &str) -> usize {
    with_name(&format!("^{}$", regex::escape(name))).map_or(0, |pids| pids.len())
}

fn of_tids(tids: &[u32]) -> anyhow::Result<FoundTarget> {
    let mut found = FoundTarget { tids: tids.to_vec(), threads: tids.len() as u32, ..FoundTarget::default() };
    for &tid in tids {
        let Ok(Some(pid)) = proc_fs::process_of_thread(tid) else {
            let failure = Failure::new(status::FAILED, format!("cannot record tid {tid}: no such thread"))
                .hint("list threads: ps -eL");
            return Err(where_others_are(failure).into());
        };
        found.pids.push(pid);
    }
    found.pids.sort_unstable();
    found.pids.dedup();
    found.name = proc_fs::comm(tids[0]).unwrap_or_default();
    found.label = match tids {
        [tid] => format!("{} (tid {tid})", found.name),
        _ => format!("{} (tid {} and {} more)", found.name, tids[0], tids.len() - 1),
    };
    Ok(found)
}

/// Processes, other than this one, whose name or executable matches.
fn with_name(pattern: &str) -> anyhow::Result<Vec<u32>> {
    let regex = regex::Regex::new(pattern).map_err(|error| {
        Failure::usage(format!("--name `{pattern}` is not a regular expression: {error}"))
    })?;
    let own = std::process::id();
    let matches = |pid: &u32| {
        *pid != own
            && (proc_fs::comm(*pid).is_ok_and(|comm| regex.is_match(&comm))
                || proc_fs::executable_name(*pid).is_some_and(|name| regex.is_match(&name)))
    };
    let pids: Vec<u32> = proc_fs::processes()?.into_iter().filter(matches).collect();
    if pids.is_empty() {
        let failure = Failure::new(
            status::FAILED,
            format!("cannot record --name `{pattern}`: no process has such a name"),
        )
        .hint("list names: ps -eo pid,comm");
        return Err(where_others_are(failure).into());
    }
    Ok(pids)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(target: Target) -> RecordOptions {
        RecordOptions { target, ..RecordOptions::default() }
    }

    #[test]
    fn a_missing_process_is_named_with_a_way_out() {
        let error = find(&options(Target::Pids(vec![u32::MAX / 2]))).expect_err("no such pid");
        assert_eq!(error.to_string(), "cannot record pid 2147483647: no such process");
    }

    #[test]
    fn a_process_that_is_stopped_is_said_to_be() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep runs");
        let pid = child.id();
        let said = || find(&options(Target::Pids(vec![pid]))).expect("it exists").notices;
        assert_eq!(said(), [""; 0]);
        let signal = |signal| {
            let process = rustix::process::Pid::from_child(&child);
            rustix::process::kill_process(process, signal).expect("it is there");
        };
        signal(rustix::process::Signal::STOP);
        while !proc_fs::is_stopped(pid) {
            std::thread::yield_now();
        }
        let how = "is stopped, by a signal or a debugger, and does nothing until it is continued";
        assert_eq!(said(), [format!("sleep (pid {pid}) {how}: kill -CONT {pid}")]);
        signal(rustix::process::Signal::KILL);
        child.wait().expect("it ends");
    }

    #[test]
    fn own_process_is_found_with_its_threads() {
        let own = std::process::id();
        let found = find(&options(Target::Pids(vec![own, own]))).expect("it exists");
        assert_eq!(found.pids, [own]);
        assert!(found.threads >= 1);
    }
}
