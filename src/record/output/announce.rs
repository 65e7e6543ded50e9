//! What is said when a recording begins.

use super::console::Console;
use crate::base::{safe_text, units};
use crate::profile::{Event, EventKind};
use crate::record::options::{RecordOptions, Target};
use crate::record::session::Session;
use crate::record::target::launch::Child;
use crate::record::target::search::FoundTarget;

/// Most columns for what is recorded: a command may be a whole script.
const MOST_LABEL_COLUMNS: usize = 60;
/// Most columns for the name of a program.
const MOST_PROGRAM_COLUMNS: usize = 30;

/// Says that the recording has begun, and what is to be known of it.
pub(crate) fn announce(
    console: &mut Console,
    session: &mut Session<'_>,
    options: &RecordOptions,
    found: &FoundTarget,
    child: Option<&Child>,
) {
    let profile = &session.collector.profile;
    let events: Vec<String> = (profile.events.iter().map(Event::kind))
        .map(|kind| match kind.is(&EventKind::ON_CPU) {
            true => format!("{} {} Hz", kind.title, units::count(profile.meta.effective_hz.into())),
            false => kind.title.clone().into_owned(),
        })
        .collect();
    let events = events.join(" and ");
    let threads = match options.target {
        Target::Launch(_) => String::new(),
        _ => format!(", {}", units::counted(u64::from(found.threads), "thread")),
    };
    let label = safe_text::terminal(&found.label);
    let label = safe_text::fit_tail(&label, MOST_LABEL_COLUMNS);
    // A command that only ends the recording is not what is recorded.
    let launched = child.filter(|_| matches!(options.target, Target::Launch(_)));
    let user = launched.and_then(|child| child.user.as_deref());
    let user = user.map_or(String::new(), |user| format!(" as {}", safe_text::message(user)));
    console.info(&format!("recording {label}{user}{threads}, {events}; {}", how_it_stops(options)));
    for notice in std::mem::take(&mut session.notices) {
        console.info(&safe_text::message(&format!("note: {notice}")));
    }
    for option in &options.stray_options {
        console.info(&safe_text::message(&format!(
            "note: `{option}` stands after the command and is passed to it; put options of prof before the command"
        )));
    }
    if options.verbose && session.substitute.is_none() {
        console.info(&format!("BPF programs loaded in {:.1} ms", session.load_time().as_secs_f64() * 1e3));
        session.most_verified().into_iter().for_each(|most| console.info(&format!("{most}")));
    }
}

/// Text on what ends the recording besides Ctrl-C, or on Ctrl-C where there is nothing else.
fn how_it_stops(options: &RecordOptions) -> String {
    let duration = options.duration.map(|duration| {
        format!("after {}", units::duration(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX)))
    });
    let command = match (&options.target, &options.timer) {
        (Target::Launch(_), _) => Some("with the command".to_owned()),
        (_, Some(command)) => {
            let program = command.first().map_or(String::new(), |word| word.to_string_lossy().into_owned());
            Some(format!(
                "with `{}`",
                safe_text::fit_middle(&safe_text::terminal(&program), MOST_PROGRAM_COLUMNS)
            ))
        }
        _ => None,
    };
    match (command, duration) {
        (Some(command), Some(duration)) => format!("stops {command}, or {duration}"),
        (Some(how), None) | (None, Some(how)) => format!("stops {how}"),
        (None, None) => "Ctrl-C stops".to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    fn stops(target: Target, timer: &[&str], duration: Option<Duration>) -> String {
        let timer = (!timer.is_empty()).then(|| timer.iter().map(Into::into).collect());
        how_it_stops(&RecordOptions { target, timer, duration, ..RecordOptions::default() })
    }

    #[test]
    fn what_ends_a_recording_is_said_as_it_is() {
        let command = || Target::Launch(vec!["sleep".into(), "1".into()]);
        let (pid, short) = (|| Target::Pids(vec![7]), Some(Duration::from_millis(300)));
        assert_eq!(stops(command(), &[], None), "stops with the command");
        assert_eq!(stops(command(), &[], short), "stops with the command, or after 300 ms");
        assert_eq!(stops(pid(), &[], None), "Ctrl-C stops");
        assert_eq!(stops(pid(), &[], Some(Duration::from_millis(1500))), "stops after 1.50 s");
        assert_eq!(stops(pid(), &["sleep", "1"], None), "stops with `sleep`");
        assert_eq!(stops(Target::System, &["./a\x1b", "1"], short), "stops with `./a\\x1b`, or after 300 ms");
    }
}
