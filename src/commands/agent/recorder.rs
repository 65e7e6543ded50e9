//! The recorder of the agent: the whole host, in windows, with the labels of processes.

use super::folders::recorded_folder;
use super::labeller::{AgentLabeller, ServedHostFiles};
use super::pods::pods_file;
use crate::agent::config::{AgentConfig, AgentEvent};
use crate::base::failure::{Failure, io_words, status};
use crate::base::privilege;
use crate::record::{
    self, Children, Keep, Labelling, Output, Parent, PerfCounter, Rate, RecordOptions, Sampler, Target,
    WaitOptions,
};
use std::time::Duration;

/// What the folder may have beyond the limits of what waits, before the recorder itself removes windows: the sender, which counts what
/// it removes, is gone or hangs then.
const SLACK: Duration = Duration::from_secs(300);

/// Records until a signal; returns the exit status.
///
/// # Errors
///
/// As a recording, and when the root of the host cannot be opened.
pub(super) fn run(config: &AgentConfig, command_line: Vec<String>, parent: Parent) -> anyhow::Result<u8> {
    privilege::for_recording();
    let options = options_of(config, parent)?;
    let host = config.host.shown_name(|name| std::env::var(name).ok());
    let root = &config.host.root;
    let no_root = |error: std::io::Error| {
        Failure::new(
            status::FAILED,
            format!("cannot open the root of the host, `{}`: {}", root.display(), io_words(&error)),
        )
        .hint("root in [host] is where it is mounted; without a container it is /")
    };
    let labeller = AgentLabeller::new(
        config.label_settings(host),
        root,
        config.kubelet.is_some().then(|| pods_file(config)),
    )
    .map_err(no_root)?;
    let files = ServedHostFiles::new(root, pods_file(config)).map_err(no_root)?;
    let labelling = Labelling { labeller: Box::new(labeller), files: Box::new(files) };
    record::run(&options, command_line, &|_| {}, Some(labelling))
}

/// Options of the recording.
fn options_of(config: &AgentConfig, parent: Parent) -> Result<RecordOptions, Failure> {
    let events = config.events.iter().map(|event| sampler_of(*event)).collect::<Result<Vec<_>, _>>()?;
    let (most_bytes, most_age) = (config.buffer.most_bytes, config.buffer.most_age);
    let keep = Keep { age: Some(most_age + SLACK), bytes: Some(most_bytes.saturating_add(most_bytes / 4)) };
    Ok(RecordOptions {
        target: Target::System,
        events,
        rate: Rate::Hz(config.frequency_hz),
        children: Children::default(),
        output: Output::Folder { path: recorded_folder(config), keep },
        window: Some(config.window),
        ends_with: Some(parent),
        quiet: true,
        ..RecordOptions::default()
    })
}

fn sampler_of(event: AgentEvent) -> Result<Sampler, Failure> {
    match event {
        AgentEvent::Cpu => Ok(Sampler::Clock),
        AgentEvent::Off => Ok(Sampler::Waits(WaitOptions::default())),
        AgentEvent::Lock => Ok(Sampler::Waits(WaitOptions { futexes_only: true, ..WaitOptions::default() })),
        AgentEvent::Faults => PerfCounter::parse("faults").map(Sampler::Counter).map_err(Failure::usage),
    }
}
