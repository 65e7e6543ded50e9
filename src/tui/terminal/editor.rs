//! The user's editor, which has the terminal until it ends.

use crate::base::opener::{self, Service, sandbox};
use crate::base::safe_text;
use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether what is typed belongs to the editor. The threads that listen to the terminal look at this flag.
static IS_OPEN: AtomicBool = AtomicBool::new(false);

/// Whether an editor has the terminal.
pub(super) fn is_open() -> bool {
    IS_OPEN.load(Ordering::SeqCst)
}

/// What is asked for a process without rights: the line, and the path.
fn request_of(path: &Path, line: u32) -> Vec<u8> {
    [&line.to_be_bytes()[..], path.as_os_str().as_bytes()].concat()
}

/// Opens a source file in the editor for a process without rights, as [`edit`]; returns why it could not, or nothing.
///
/// # Errors
///
/// When what is asked for is no source file.
pub(crate) fn edit_for(request: &[u8]) -> io::Result<Vec<u8>> {
    let (line, path) = request.split_first_chunk::<4>().ok_or(io::ErrorKind::InvalidInput)?;
    let path = Path::new(OsStr::from_bytes(path));
    if !opener::is_source(path) {
        return Err(io::ErrorKind::PermissionDenied.into());
    }
    Ok(edit(path, u32::from_be_bytes(*line)).err().unwrap_or_default().into_bytes())
}

/// Opens `path` at `line` in `$VISUAL`, `$EDITOR` or `vi`, and waits until the editor ends. The terminal must have been given back.
///
/// # Errors
///
/// In words for the screen: the file is not here, or the editor cannot be started or fails.
pub(crate) fn edit(path: &Path, line: u32) -> Result<(), String> {
    let shown = safe_text::terminal(&path.display().to_string()).into_owned();
    if sandbox::confinement().is_some() {
        // Here it would have neither the user's files nor the network.
        IS_OPEN.store(true, Ordering::SeqCst);
        let ended = opener::ask_service(Service::Editor, request_of(path, line), None);
        IS_OPEN.store(false, Ordering::SeqCst);
        return match ended {
            Ok((why, _)) if why.is_empty() => Ok(()),
            Ok((why, _)) => Err(safe_text::from_bytes(&why)),
            Err(_) => Err(format!(
                "prof gave up its rights when it began to record: open {shown}:{line} in another terminal"
            )),
        };
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
