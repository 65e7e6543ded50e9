//! The user's editor, which has the terminal until it ends.

use crate::base::opener::sandbox;
use crate::base::safe_text;
use std::env;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether what is typed belongs to the editor. The threads that listen to the terminal look at this flag.
static IS_OPEN: AtomicBool = AtomicBool::new(false);

/// Whether an editor has the terminal.
pub(super) fn is_open() -> bool {
    IS_OPEN.load(Ordering::SeqCst)
}

/// Opens `path` at `line` in `$VISUAL`, `$EDITOR` or `vi`, and waits until the editor ends. The terminal must have been given back.
///
/// # Errors
///
/// In words for the screen: the file is not here, or the editor cannot be started or fails.
pub(crate) fn edit(path: &Path, line: u32) -> Result<(), String> {
    let shown = safe_text::terminal(&path.display().to_string()).into_owned();
    if sandbox::confinement().is_some() {
        // It would have neither the user's files nor the network.
        return Err(format!(
            "prof gave up its rights when it began to record: open {shown}:{line} in another terminal"
        ));
    }
    // A relative path is of the folder in which the compiler ran.
    if !path.is_absolute() || !path.is_file() {
        return Err(format!("no such file here: {shown}"));
    }
    let editor = ["VISUAL", "EDITOR"].into_iter().filter_map(|name| env::var(name).ok());
    let editor = editor.into_iter().find(|words| !words.trim().is_empty()).unwrap_or_else(|| "vi".to_owned());
    // It may be several words, as the shell reads them; the path is none of those.
    let mut command = Command::new("/bin/sh");
    command.arg("-c").arg(format!("exec {editor} \"$@\"")).arg("sh").arg(format!("+{line}")).arg(path);
    // Where the recording came through a pipe, standard input is none of the user's.
    if let Ok(Some(terminal)) = super::guard::device() {
        command.stdin(terminal);
    }
    IS_OPEN.store(true, Ordering::SeqCst);
    let ended = command.status();
    IS_OPEN.store(false, Ordering::SeqCst);
    match ended {
        Ok(status) if status.success() => Ok(()),
        Ok(status) => Err(format!("{}: {status}", safe_text::terminal(&editor))),
        Err(error) => Err(format!("cannot start {}: {error}", safe_text::terminal(&editor))),
    }
}
