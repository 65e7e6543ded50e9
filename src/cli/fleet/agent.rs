//! `prof agent`: what can be typed.

use crate::cli::request::HELP_TEMPLATE;
use crate::commands::agent::{AgentOptions, AgentPart};
use clap::Args;
use std::path::PathBuf;

/// Record this host all the time, and send what was recorded to servers of profiles
///
/// Samples all processes at a low rate, in windows of some seconds, each of which becomes a complete recording in a folder. From there it
/// is sent to Grafana Pyroscope or receivers of OTLP profiles, in series by service, and kept on this host, as the configuration says.
/// SIGHUP reads the configuration again; SIGTERM completes and sends the last window. Needs the rights of prof record -a.
#[derive(Debug, Args)]
#[command(help_template = HELP_TEMPLATE, before_help = "Examples:
  prof agent --config /etc/prof/agent.toml
  prof agent --config agent.toml --check
                                  only say whether the configuration is right")]
pub(in crate::cli) struct AgentArgs {
    /// The configuration
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Only say whether the configuration is right
    #[arg(long)]
    check: bool,
    /// Which part of the agent this process is
    #[arg(long, value_name = "PART", value_parser = ["recorder", "sender"], hide = true)]
    part: Option<String>,
    /// The process that has started it as a part
    #[arg(long, value_name = "PID", default_value_t = 0, hide = true)]
    parent: u32,
}

impl AgentArgs {
    pub(in crate::cli) fn into_options(self) -> AgentOptions {
        let part = match self.part.as_deref() {
            Some("recorder") => AgentPart::Recorder,
            Some(_) => AgentPart::Sender,
            None => AgentPart::Supervisor,
        };
        AgentOptions { config: self.config, checks: self.check, part, parent: self.parent }
    }
}
