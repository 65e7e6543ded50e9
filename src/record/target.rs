//! From what the user named to processes and threads.

use super::options::{RecordOptions, Target};
use super::proc_fs;
use super::{descriptors, namespaces};
use crate::bpf::Filter;
use crate::failure::{Failure, status};

/// Whom to record, found in the system.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// Processes, by id. Empty for the whole machine.
    pub pids: Vec<u32>,
    /// Threads, when only these are recorded.
    pub tids: Vec<u32>,
    /// Threads alive at the start in all of them.
    pub threads: u32,
    /// For people: `ingest (pid 4312)`.
    pub label: String,
    /// For titles: `ingest`.
    pub name: String,
}

impl Target {
    /// The kernel side's filter for this target.
    pub fn filter(&self) -> Filter {
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
pub fn find(options: &RecordOptions) -> anyhow::Result<Found> {
    namespaces::check()?;
    match &options.target {
        Target::Pids(pids) => of_pids(pids.clone()),
        Target::Tids(tids) => of_tids(tids),
        Target::Name(pattern) => of_pids(with_name(pattern)?),
        Target::System => {
            let threads = proc_fs::processes()?
                .into_iter()
                .map(|pid| proc_fs::threads(pid).map_or(0, |threads| threads.len() as u32));
            Ok(Found {
                threads: threads.sum(),
                label: match namespaces::pid_namespace() {
                    0 => "all processes".to_owned(),
                    _ => "all processes of this PID namespace".to_owned(),
                },
                name: "all".to_owned(),
                ..Found::default()
            })
        }
        Target::Launch(command) => {
            let words: Vec<String> = command.iter().map(|word| word.to_string_lossy().into_owned()).collect();
            let program = std::path::Path::new(words.first().map_or("", String::as_str));
            Ok(Found {
                threads: 1,
                label: words.join(" "),
                name: program.file_name().unwrap_or_default().to_string_lossy().into_owned(),
                ..Found::default()
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
        _ => failure.hint("prof sees the processes of its own PID namespace: for others run it on the host, or with --pid=host"),
    }
}

fn of_pids(mut pids: Vec<u32>) -> anyhow::Result<Found> {
    pids.sort_unstable();
    pids.dedup();
    let mut threads = 0;
    for &pid in &pids {
        let of_process = match proc_fs::threads(pid) {
            Ok(threads) => threads,
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
        threads += of_process.len() as u32;
    }
    let name = proc_fs::comm(pids[0]).map_err(|_| no_such_process(&format!("pid {}", pids[0])))?;
    let label = match pids.as_slice() {
        [pid] => format!("{name} (pid {pid})"),
        [first, rest @ ..] => format!("{name} (pid {first} and {} more)", rest.len()),
        [] => String::new(),
    };
    Ok(Found { pids, tids: Vec::new(), threads, label, name })
}

fn of_tids(tids: &[u32]) -> anyhow::Result<Found> {
    let mut found = Found { tids: tids.to_vec(), threads: tids.len() as u32, ..Found::default() };
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
    fn own_process_is_found_with_its_threads() {
        let own = std::process::id();
        let found = find(&options(Target::Pids(vec![own, own]))).expect("it exists");
        assert_eq!(found.pids, [own]);
        assert!(found.threads >= 1);
    }
}
