//! `prof agent`: a host recorded all the time, and sent. Three processes: the recorder, as `prof record -a --rotate` is one; the sender,
//! which reads complete windows and has no rights; and the one that the user started, which starts these two and does nothing else.
//! Between the first two is a folder of complete files: whatever becomes of either, nothing that was recorded is lost with it.

mod check;
mod counters;
mod folders;
mod labeller;
mod log;
mod pause;
mod pods;
mod recorder;
mod sender;
mod stats;
mod supervisor;
mod tally;
mod windows;

use crate::agent::config::AgentConfig;
use crate::record::Parent;
use std::path::PathBuf;

/// What a process of the agent does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AgentPart {
    /// Starts the others, and starts them again.
    Supervisor,
    /// Records into the folder.
    Recorder,
    /// Sends what is in the folder.
    Sender,
}

/// Options of the agent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AgentOptions {
    /// The file of its configuration.
    pub(crate) config: PathBuf,
    /// Only say whether that is right.
    pub(crate) checks: bool,
    /// What this process does.
    pub(crate) part: AgentPart,
    /// The process that has started it as a part, with which it ends; 0 if it is none.
    pub(crate) parent: u32,
}

/// Runs the agent, or a part of it; returns the exit status.
///
/// # Errors
///
/// When the configuration is wrong, and when the part cannot begin.
pub(crate) fn run(options: &AgentOptions, command_line: Vec<String>) -> anyhow::Result<u8> {
    let config = AgentConfig::read(&options.config)?;
    if options.checks {
        return Ok(check::say_checked(&options.config, &config)?);
    }
    // What `ps` and `top` show; they were started by a name that says nothing.
    let name = match options.part {
        AgentPart::Supervisor => None,
        AgentPart::Recorder => Some(c"prof-recorder"),
        AgentPart::Sender => Some(c"prof-sender"),
    };
    // The name changes nothing else.
    let _ = name.map(rustix::thread::set_name);
    let parent = Parent::of(options.parent);
    match options.part {
        AgentPart::Supervisor => supervisor::run(&options.config, config),
        AgentPart::Recorder => recorder::run(&config, command_line, parent),
        AgentPart::Sender => sender::run(&config, parent),
    }
}
