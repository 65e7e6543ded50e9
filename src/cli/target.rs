//! Whom to record: the options that name what runs already, and the command that is started.

use super::value::{self, Ids};
use crate::base::failure::Failure;
use crate::record::Target;
use clap::Args;
use std::ffi::{OsStr, OsString};

/// Processes and threads that run.
#[derive(Debug, Args)]
pub(super) struct RunningArgs {
    /// Record these processes with all their threads
    #[arg(short, long, value_name = "PID,…", group = "running", help_heading = "Target", value_parser = value::pids,
        allow_negative_numbers = true, long_help = PIDS_HELP)]
    pub(super) pid: Vec<Ids>,
    /// Record just these threads
    #[arg(short, long, value_name = "TID,…", group = "running", help_heading = "Target", value_parser = value::tids,
        allow_negative_numbers = true)]
    pub(super) tid: Vec<Ids>,
    /// Record all processes with a matching name
    #[arg(long, value_name = "REGEX", group = "running", help_heading = "Target", value_parser = value::pattern)]
    pub(super) name: Option<String>,
    /// Record every process of the machine
    #[arg(short, long, alias = "all-cpus", group = "running", help_heading = "Target")]
    pub(super) all: bool,
}

const PIDS_HELP: &str = "Record these processes with all their threads. Commas, blanks and newlines separate ids: \
                         -p \"$(pgrep -x NAME)\"";

impl RunningArgs {
    /// Whether anything is named that runs.
    pub(super) fn is_given(&self) -> bool {
        !self.pid.is_empty() || !self.tid.is_empty() || self.name.is_some() || self.all
    }

    /// Returns what is recorded, and the command whose end ends the recording.
    ///
    /// # Errors
    ///
    /// A usage failure when there is neither a target nor a command; `verb` is what was typed.
    pub(super) fn into_target(
        self,
        command: Vec<OsString>,
        verb: &str,
    ) -> Result<(Target, Option<Vec<OsString>>), Failure> {
        let (pids, tids) = (value::all_ids(self.pid), value::all_ids(self.tid));
        for (option, ids) in [(IdOption::PID, &pids), (IdOption::TID, &tids)] {
            if let (Some(id), Some(_)) = (command.first().and_then(|word| id_of(word)), ids.first()) {
                let more = command.iter().map_while(|word| id_of(word));
                let all: Vec<u32> = ids.iter().copied().chain(more).collect();
                return Err(option.another_id(id, &all));
            }
        }
        if let Some(id) = command.first().and_then(|word| id_of(word)).filter(|id| is_running(*id)) {
            return Err(running_process(id, verb));
        }
        let command = (!command.is_empty()).then_some(command);
        let running = match (self.name, self.all) {
            _ if !pids.is_empty() => Some(Target::Pids(pids)),
            _ if !tids.is_empty() => Some(Target::Tids(tids)),
            (Some(name), _) => Some(Target::Name(name)),
            (None, true) => Some(Target::System),
            (None, false) => None,
        };
        match (running, command) {
            (Some(target), timer) => Ok((target, timer)),
            (None, Some(command)) => Ok((Target::Launch(command), None)),
            (None, None) => Err(no_target(verb)),
        }
    }
}

/// An option that takes ids.
#[derive(Debug, Clone, Copy)]
struct IdOption {
    short: &'static str,
    long: &'static str,
    noun: &'static str,
}

impl IdOption {
    const PID: IdOption = IdOption { short: "-p", long: "--pid", noun: "process" };
    const TID: IdOption = IdOption { short: "-t", long: "--tid", noun: "thread" };

    /// A number where a command belongs: the shell has split what `pgrep` or `pidof` printed.
    fn another_id(self, id: u32, all: &[u32]) -> Failure {
        let list = all.iter().map(u32::to_string).collect::<Vec<_>>().join(",");
        let IdOption { short, noun, .. } = self;
        let failure = Failure::usage(format!("`{id}` looks like another {noun} id, not like a command"))
            .hint(format!("several ids form one argument:  {short} {list}"));
        let failure = match short {
            "-p" => failure.hint("of a name:  -p \"$(pgrep -x NAME)\", or --name '^NAME$'"),
            _ => failure,
        };
        failure.hint(format!("a program with that name:  ./{id}"))
    }

    /// No id, where one belongs.
    fn no_id(self) -> Failure {
        let IdOption { short, noun, .. } = self;
        Failure::usage(format!(
            "{short} got no {noun} id: the command that should print it, such as pgrep, found none"
        ))
        .hint(format!("by name, with an error if there is none:  --name '^NAME$' instead of {short}"))
    }
}

/// Failure for what is wrong with the ids in `arguments`, which the parser has refused for another reason: a profile
/// cannot be shown together with a target, or an option lacks its value.
pub(super) fn explain(arguments: &[OsString], error: &clap::Error) -> Option<Failure> {
    use clap::error::{ContextKind, ContextValue, ErrorKind};
    let about = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    for option in [IdOption::PID, IdOption::TID] {
        let is_about = about(ContextKind::InvalidArg).starts_with(option.long)
            || about(ContextKind::InvalidArg).starts_with(&format!("{} ", option.short));
        let lacks_value =
            error.kind() == ErrorKind::InvalidValue && about(ContextKind::InvalidValue).is_empty();
        if is_about && lacks_value {
            return Some(option.no_id());
        }
        let is_option = |word: &OsStr| word == option.short || word == option.long;
        let ids = (arguments.iter().position(|word| is_option(word)))
            .map(|at| arguments[at + 1..].iter().map_while(|word| id_of(word)).collect::<Vec<_>>());
        if let Some([_, second, ..]) = ids.as_deref() {
            return Some(option.another_id(*second, ids.as_deref().unwrap_or_default()));
        }
    }
    None
}

/// The number that a word is.
fn id_of(word: &OsStr) -> Option<u32> {
    word.to_str().filter(|word| word.bytes().all(|byte| byte.is_ascii_digit()))?.parse().ok()
}

fn is_running(id: u32) -> bool {
    std::path::Path::new(&format!("/proc/{id}")).exists()
}

/// The id of a process where a command belongs.
fn running_process(id: u32, verb: &str) -> Failure {
    Failure::usage(format!("`{id}` is a running process, not a command"))
        .hint(format!("to record it:  prof {verb} -p {id}"))
        .hint(format!("a program with that name:  ./{id}"))
}

/// Neither a target nor a command.
pub(super) fn no_target(verb: &str) -> Failure {
    Failure::usage("nothing to record")
        .hint(format!("a running process:  prof {verb} -p PID"))
        .hint(format!("a command:          prof {verb} CMD ARG"))
        .hint(format!("the whole machine:  prof {verb} -a"))
}

/// Options of `prof record` at the end of `command`, each with its value: typed there, they are the command's. Only such
/// as hardly any other program has.
pub(super) fn stray_options(command: &[OsString]) -> Vec<String> {
    let words: Vec<&str> = command.iter().skip(1).map(|word| word.to_str().unwrap_or("")).collect();
    let mut at = words.len();
    let mut found = Vec::new();
    loop {
        if let [.., option] = &words[..at]
            && is_option(option, None)
        {
            found.push((*option).to_owned());
            at -= 1;
        } else if let [.., option, value] = &words[..at]
            && is_option(option, Some(value))
        {
            found.push(format!("{option} {value}"));
            at -= 2;
        } else {
            break;
        }
    }
    found.reverse();
    found
}

/// Whether `option`, with the `value` after it if it has one there, is an option of `prof record`.
fn is_option(option: &str, value: Option<&str>) -> bool {
    let (option, value) = match option.split_once('=') {
        Some((option, own)) if value.is_none() && option.starts_with("--") => (option, Some(own)),
        _ => (option, value),
    };
    let has_unit = |value: &str| value.ends_with('s') || value.ends_with('m');
    match (option, value) {
        ("--user-only" | "--children" | "--no-children", None) => true,
        ("-o" | "--output", Some(value)) => value.ends_with(".data"),
        ("-d" | "-D", Some(value)) => has_unit(value) && value::duration(value).is_ok(),
        ("--duration" | "--delay" | "--min-block", Some(value)) => value::duration(value).is_ok(),
        ("-F" | "--frequency", Some(value)) => value.len() > 1 && value::rate(value).is_ok(),
        ("-e" | "--event", Some(value)) => value.split(',').all(|event| value::event(event).is_ok()),
        ("--call-graph", Some(value)) => matches!(value, "auto" | "dwarf" | "fp"),
        ("--max-overhead", Some(value)) => value::overhead_ppm(value).is_ok(),
        ("--table-budget", Some(value)) => value::budget_bytes(value).is_ok(),
        _ => false,
    }
}
