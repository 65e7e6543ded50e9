//! `prof record`: the recorder, with debug files from servers afterwards.

use super::symbolize::{self, SymbolizeOptions};
use crate::base::failure::{self, Failure, status};
use crate::base::safe_text;
use crate::debuginfod::settings::Settings;
use crate::record::{self, RecordOptions, Target};
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
    record::run(options, command_line, &|path| add_from_servers(options, path))
}

/// Adds what debuginfod servers have to a complete recording, and prints the result.
fn add_from_servers(options: &RecordOptions, path: &Path) {
    if !options.debuginfod {
        return;
    }
    let asked =
        SymbolizeOptions { file: path.to_owned(), folders: options.debug_folders.clone(), debuginfod: true };
    let (is_error, lines) = match symbolize::run(&asked) {
        Ok(text) => (false, text.lines().map(str::to_owned).collect()),
        // The recording exists, so it is no failure that it could be better.
        Err(error) => (true, failure::explain(&error).1),
    };
    let mut stderr = io::stderr().lock();
    for line in lines.iter().filter(|_| is_error || !options.quiet) {
        // If standard error is closed, the line is lost.
        let _ = writeln!(stderr, "{}", safe_text::for_locale(line, true));
    }
}
