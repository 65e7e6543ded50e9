//! `prof record`: the recorder, with debug files from servers afterwards.

use super::finisher::{Finisher, ask_servers};
use super::symbolize::{self, SymbolizeOptions};
use crate::base::failure::{Failure, status};
use crate::base::{privilege, safe_text};
use crate::debuginfod::settings::Settings;
use crate::record::{self, RecordOptions, Target};
use std::cell::Cell;
use std::io::{self, Write};
use std::path::Path;

/// Records, and adds what debuginfod servers have where they are to be asked; returns the exit status. `command_line` is what was
/// typed.
///
/// # Errors
///
/// Fails when a folder for debug files does not exist or the servers' settings are wrong, and as the recorder does.
pub(crate) fn run(options: &RecordOptions, command_line: Vec<String>) -> anyhow::Result<u8> {
    // Checked before recording, because afterwards it would be too late to report.
    let servers = if options.debuginfod { Settings::of_environment().map(|_| ()) } else { Ok(()) };
    let launches = matches!(options.target, Target::Launch(_));
    symbolize::check_folders(&options.debug_folders).and(servers).map_err(|failure| {
        let status = if launches { status::NOT_STARTED } else { failure.status };
        Failure { status, ..failure }
    })?;
    let finisher =
        (options.debuginfod && privilege::has_any()).then(|| Finisher::start(&options.debug_folders));
    let finisher = Cell::new(finisher.transpose()?);
    let saved = |path: &Path| add_from_servers(options, path, finisher.take());
    record::run(options, command_line, &saved, None)
}

/// Adds what debuginfod servers have to a complete recording, and prints the result.
fn add_from_servers(options: &RecordOptions, path: &Path, finisher: Option<Finisher>) {
    if !options.debuginfod {
        return;
    }
    let (file, folders) = (path.to_owned(), options.debug_folders.clone());
    let outcome = match finisher {
        Some(finisher) => finisher.finish(path),
        None => ask_servers(&SymbolizeOptions { file, folders, debuginfod: true }),
    };
    let mut stderr = io::stderr().lock();
    for line in outcome.lines.iter().filter(|_| outcome.is_failure || !options.quiet) {
        // If standard error is closed, the line is lost.
        let _ = writeln!(stderr, "{}", safe_text::for_locale(line, true));
    }
}
