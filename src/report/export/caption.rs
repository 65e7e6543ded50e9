//! Title of a flame graph or page, and the line below it: what is shown, how it was recorded, and when.

use crate::base::{safe_text, units};
use crate::profile::Unit;
use crate::report::model::metric::Metric;
use crate::report::options::ExportOptions;
use crate::report::print::info::date_text;
use crate::report::query::selection::Selection;
use crate::report::recording::Recording;

/// Columns of the line below the title, since a command can be long.
const SUBTITLE_COLUMNS: usize = 150;

/// Options of `prof record` that do not affect what is recorded, and whether a value follows.
const SILENT: [(&str, bool); 8] = [
    ("-o", true),
    ("--output", true),
    ("-f", false),
    ("--force", false),
    ("-q", false),
    ("--quiet", false),
    ("-v", false),
    ("--verbose", false),
];

/// Other options of `prof record` that take no value.
const FLAGS: [&str; 6] = ["-a", "-g", "--all", "--children", "--no-children", "--user-only"];

/// `ingest on-CPU, 10.0 s`, and for waits what they are: `ingest off-CPU, number of waits, 10.0 s, without idle waits`.
pub(super) fn title(recording: &Recording, selection: &Selection<'_>, count: bool) -> String {
    let meta = &recording.profile.meta;
    let name = if meta.target_name.is_empty() { &meta.target } else { &meta.target_name };
    let event = match selection.shown.metric() {
        Metric::WALL => "wall clock (waits in blue)".to_owned(),
        _ => selection.shown.title.to_string(),
    };
    let what = if count { format!("number of {}, ", count_name(selection, true)) } else { String::new() };
    let length = recording.profile.known_duration_ns();
    let length = length.map_or(format!("from {}", recording.profile.meta.imported_from), units::duration);
    let idle = if selection.hidden_idle.is_empty() { "" } else { ", without idle waits" };
    format!("{name} {event}, {what}{length}{idle}")
}

/// The unit or noun after a weight.
pub(super) fn count_name(selection: &Selection<'_>, is_count: bool) -> String {
    match selection.shown.unit {
        _ if is_count => format!("{}s", selection.shown.noun),
        Unit::Count => selection.shown.title.to_string(),
        Unit::Nanoseconds => "ns".to_owned(),
        Unit::Bytes => "bytes".to_owned(),
        _ => "samples".to_owned(),
    }
}

/// The command and the date, unless the options replace or omit them.
pub(super) fn subtitle(recording: &Recording, options: &ExportOptions) -> Option<String> {
    if options.subtitle.is_some() {
        return options.subtitle.clone();
    }
    let meta = &recording.profile.meta;
    let command = telling(&meta.command).join(" ");
    let command = safe_text::fit_tail(&command, SUBTITLE_COLUMNS).into_owned();
    let date = date_text(meta.start_unix_ns);
    let parts: Vec<String> = [command, date].into_iter().filter(|part| !part.is_empty()).collect();
    (!options.no_meta && !parts.is_empty()).then(|| parts.join("  "))
}

/// The arguments of a `prof record` command that say what was recorded: without the output file, and without the
/// directory of `prof` itself. The command line of a recorded program is kept as it is.
fn telling(command: &[String]) -> Vec<&str> {
    let mut words = command.iter().map(String::as_str);
    let mut kept: Vec<&str> = Vec::new();
    let program = words.next().map(|program| program.rsplit('/').next().unwrap_or(program));
    kept.extend(program);
    while let Some(word) = words.next() {
        if word == "--" {
            kept.push(word);
            kept.extend(words);
            break;
        }
        // Options with the file name attached.
        let is_joined = word.starts_with("--output=")
            || (word.starts_with("-o") && word.len() > 2 && !word.starts_with("-o="));
        match SILENT.iter().find(|(silent, _)| *silent == word) {
            Some((_, true)) => drop(words.next()),
            Some((_, false)) => {}
            None if is_joined || word.starts_with("-o=") => {}
            // The recorded program and its arguments.
            None if !word.starts_with('-') && !takes_value(kept.last().copied()) && kept.len() > 1 => {
                kept.push(word);
                kept.extend(words);
                break;
            }
            None => kept.push(word),
        }
    }
    kept
}

/// Whether the option before an argument takes it as its value.
fn takes_value(before: Option<&str>) -> bool {
    before.is_some_and(|before| before.starts_with('-') && !FLAGS.contains(&before) && !before.contains('='))
}

#[cfg(test)]
mod tests {
    use super::telling;

    fn line(line: &str) -> String {
        let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
        telling(&words).join(" ")
    }

    #[test]
    fn where_a_recording_was_written_is_left_out() {
        assert_eq!(
            line("/usr/local/bin/prof record -f -o demo.data -- ./demo -o out"),
            "prof record -- ./demo -o out"
        );
        assert_eq!(line("prof record -p 4312 -d 10s"), "prof record -p 4312 -d 10s");
        assert_eq!(line("prof record --output=x.data -q -d 3s ./demo -f 7"), "prof record -d 3s ./demo -f 7");
        assert_eq!(line("prof record -ox.data -a"), "prof record -a");
        assert_eq!(line("prof record --user-only ./demo -o out"), "prof record --user-only ./demo -o out");
        assert_eq!(line(""), "");
    }
}
