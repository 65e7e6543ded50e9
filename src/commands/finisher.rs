//! Names from debuginfod servers for a recording whose recorder has given up its rights by the time it is complete: a process
//! that is forked before, waits for the end of the recording, and does what `prof symbolize` does.

use super::reading::CommandFiles;
use super::symbolize::{self, SymbolizeOptions};
use crate::base::failure::{self, status};
use crate::base::privilege;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// What came of it, for the user.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct ServerAnswer {
    pub(super) is_failure: bool,
    pub(super) lines: Vec<String>,
}

/// Asks the servers for what the recording `options` names lacks.
pub(super) fn ask_servers(options: &SymbolizeOptions) -> ServerAnswer {
    match symbolize::run(options) {
        Ok(text) => ServerAnswer { is_failure: false, lines: text.lines().map(str::to_owned).collect() },
        // The recording exists, so it is no failure that it could be better.
        Err(error) => ServerAnswer { is_failure: true, lines: failure::explain(&error).1 },
    }
}

/// The process that waits.
#[derive(Debug)]
pub(super) struct Finisher {
    question: File,
    answer: File,
}

impl Finisher {
    /// Forks it. It ends with this process, or once it has answered.
    ///
    /// # Errors
    ///
    /// When no process can be made.
    pub(super) fn start(folders: &[PathBuf]) -> io::Result<Self> {
        let pipe = || rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC);
        let ((asked, question), (answer, answered)) = (pipe()?, pipe()?);
        // SAFETY: the child goes on with a copy of this process, which has no other thread yet.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            0 => {
                drop((question, answer));
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
                    wait_and_ask(File::from(asked), File::from(answered), folders)
                }));
                // SAFETY: ends the process without running what the other one has registered for its own end.
                unsafe { libc::_exit(0) }
            }
            _ => Ok(Finisher { question: File::from(question), answer: File::from(answer) }),
        }
    }

    /// Has it complete the recording at `path`, and waits for that.
    pub(super) fn finish(self, path: &Path) -> ServerAnswer {
        let Finisher { mut question, mut answer } = self;
        let mut text = Vec::new();
        let asked = question.write_all(path.as_os_str().as_bytes());
        // The end of the path.
        drop(question);
        let answered = asked.and_then(|()| answer.read_to_end(&mut text));
        let outcome = answered.and_then(|_| Ok(serde_json::from_slice(&text)?));
        outcome.unwrap_or_else(|error| ServerAnswer {
            is_failure: true,
            lines: vec![
                format!("prof: debuginfod servers were not asked: {error}"),
                format!("  ask them:  prof symbolize --debuginfod {}", path.display()),
            ],
        })
    }
}

fn wait_and_ask(mut asked: File, mut answered: File, folders: &[PathBuf]) -> io::Result<()> {
    // SAFETY: these calls take numbers. Signals that end the recording are not for this process.
    unsafe {
        libc::setsid();
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            libc::signal(signal, libc::SIG_IGN);
        }
    }
    privilege::for_reading(true).map_err(io::Error::other)?;
    let mut path = Vec::new();
    if asked.read_to_end(&mut path)? == 0 {
        return Ok(());
    }
    let file = PathBuf::from(OsString::from_vec(path));
    let files = CommandFiles::of_replaced(&file).and_servers(true);
    let options = SymbolizeOptions { file, folders: folders.to_vec(), debuginfod: true };
    let ask = move || {
        answered.write_all(&serde_json::to_vec(&ask_servers(&options))?)?;
        Ok(status::OK)
    };
    // What debug files hold is read without any rights.
    files.read(ask).map(|_| ()).map_err(io::Error::other)
}
