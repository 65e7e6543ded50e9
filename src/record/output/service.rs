//! The file of a recording on the side of the opener: created, named and checked by the same steps that a recorder with these
//! rights takes itself, and only where the user asked for it.

use super::failure::write_failure;
use super::placed::{Placed, Unplaced};
use super::steps::{FilePlace, OutputStep, SentFailure, path};
use super::window_folder::{WINDOW_NAME, WindowFolder};
use super::{DEFAULT_NAME, Destination, ProfileFile, expand};
use crate::base::failure::{Failure, status};
use crate::base::privilege;
use crate::record::options::Output;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::{Mutex, PoisonError};

/// The opener's side: one recording at a time.
#[derive(Debug)]
pub(in crate::record) struct OutputService {
    /// What the user asked for: no other file is made.
    output: Output,
    state: Mutex<OutputState>,
    /// The folder of windows, if it is one.
    windows: Option<Mutex<WindowFolder>>,
}

#[derive(Debug, Default)]
enum OutputState {
    #[default]
    Nothing,
    Unplaced(Unplaced),
    Placed(Placed),
}

impl OutputService {
    /// The service for what the user asked for.
    pub(in crate::record) fn new(output: Output) -> Self {
        let windows = match &output {
            Output::Folder { path, keep } => Some(Mutex::new(WindowFolder::new(path.clone(), *keep))),
            _ => None,
        };
        OutputService { output, state: Mutex::default(), windows }
    }

    /// The recorder has ended. If it was killed before it had a sample, the file of before gets its name back.
    pub(in crate::record) fn end(&self) {
        let state = std::mem::take(&mut *self.state.lock().unwrap_or_else(PoisonError::into_inner));
        match state {
            OutputState::Placed(placed) if placed.has_before() => placed.undo(),
            // A file without a name goes with it.
            state => drop(state),
        }
        if let Output::Folder { path, .. } = &self.output {
            WindowFolder::remove_unused(path);
        }
    }

    /// Takes a step.
    ///
    /// # Errors
    ///
    /// When it is none. Failures of a step are part of the answer.
    pub(in crate::record) fn serve(&self, body: &[u8]) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
        let step: OutputStep = serde_json::from_slice(body)?;
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let (answer, file) = match self.step(step, &mut state) {
            Ok((place, file)) => (Ok(place), file),
            Err(Failure { status, message, hints }) => (Err(SentFailure { status, message, hints }), None),
        };
        Ok((serde_json::to_vec(&answer)?, file))
    }

    fn step(
        &self,
        step: OutputStep,
        state: &mut OutputState,
    ) -> Result<(FilePlace, Option<OwnedFd>), Failure> {
        let is_out_of_order =
            || Failure::new(status::FAILED, "cannot write the recording: steps out of order");
        match step {
            OutputStep::Check(path) => {
                let destination = self.destination(path)?;
                return Ok((FilePlace { notices: destination.notices, ..FilePlace::default() }, None));
            }
            OutputStep::Create(path) => {
                let destination = self.destination(path)?;
                let (file, unplaced) = destination.create()?;
                *state = OutputState::Unplaced(unplaced);
                let ProfileFile::File(file) = file else { return Err(is_out_of_order()) };
                let asked = destination.path().unwrap_or(Path::new(""));
                return Ok((
                    FilePlace::default(),
                    Some(file.share().map_err(|error| write_failure(asked, &error))?.into()),
                ));
            }
            OutputStep::Place => {
                let OutputState::Unplaced(unplaced) = std::mem::take(state) else {
                    return Err(is_out_of_order());
                };
                *state = OutputState::Placed(unplaced.place()?);
            }
            OutputStep::Prune => {
                let windows = self.windows.as_ref().ok_or_else(is_out_of_order)?;
                let mut windows = windows.lock().unwrap_or_else(PoisonError::into_inner);
                let pruned = privilege::as_user(|| windows.prune());
                return Ok((FilePlace { pruned, ..FilePlace::default() }, None));
            }
            OutputStep::Settle | OutputStep::Undo | OutputStep::Confirm | OutputStep::Close => {}
        }
        let OutputState::Placed(placed) = state else { return Err(is_out_of_order()) };
        if let Output::Folder { path, .. } = &self.output
            && !matches!(step, OutputStep::Place | OutputStep::Undo)
        {
            WindowFolder::keep(path);
        }
        match step {
            OutputStep::Settle => placed.settle(),
            OutputStep::Undo => placed.undo(),
            OutputStep::Confirm => placed.confirm()?,
            OutputStep::Close => placed.close(),
            OutputStep::Check(_) | OutputStep::Create(_) | OutputStep::Place | OutputStep::Prune => {}
        }
        Ok((placed.place(), None))
    }

    /// The destination at a path, if that is the one that the user asked for.
    fn destination(&self, asked: Vec<u8>) -> Result<Destination, Failure> {
        let asked = path(asked);
        if is_expansion(&self.output, &asked) {
            return Destination::check(&self.output, |_| asked.clone());
        }
        let message = format!("cannot write `{}`: it is not the file that was asked for", asked.display());
        Err(Failure::new(status::FAILED, message))
    }
}

/// Whether a path is what [`expand`] may make of the one that the user asked for.
fn is_expansion(output: &Output, asked: &Path) -> bool {
    match output {
        Output::Stdout => false,
        Output::Default => asked == Path::new(DEFAULT_NAME),
        Output::Folder { path, .. } => {
            is_expansion(&Output::File { path: path.join(WINDOW_NAME), force: false }, asked)
        }
        Output::File { path, .. } => {
            let same = expand(path, 0, "", "");
            let pattern = path.as_os_str().as_bytes();
            let begins = pattern.split(|byte| *byte == b'%').next().unwrap_or_default();
            let has_pattern = begins.len() < pattern.len();
            let asked_bytes = asked.as_os_str().as_bytes();
            let goes_up =
                asked_bytes.strip_prefix(begins).is_none_or(|rest| rest.windows(2).any(|two| two == b".."));
            asked == same || (has_pattern && !goes_up)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::steps::bytes;
    use super::*;
    use crate::record::options::Keep;
    use std::fs::File;
    use std::path::PathBuf;

    fn file(path: &str) -> Output {
        Output::File { path: PathBuf::from(path), force: false }
    }

    #[test]
    fn only_the_file_that_was_asked_for_is_made() {
        let is = |output: &Output, path: &str| is_expansion(output, Path::new(path));
        assert!(is(&Output::Default, "prof.data") && !is(&Output::Default, "/etc/cron.d/x"));
        assert!(is(&file("a/b.data"), "a/b.data") && !is(&file("a/b.data"), "a/c.data"));
        let pattern = file("a/prof-%c-%t.data");
        assert!(is(&pattern, "a/prof-nginx-20261121.data"));
        for other in ["a/x", "/etc/passwd", "a/prof-/../../etc/x"] {
            assert!(!is(&pattern, other), "{other}");
        }
        assert!(is(&file("100%%"), "100%"));
        assert!(!is(&Output::Stdout, "prof.data"));
        let windows = Output::Folder { path: PathBuf::from("w"), keep: Keep::default() };
        assert!(is(&windows, "w/prof-20261129-140000.data"));
        assert!(!is(&windows, "w/../x") && !is(&windows, "x/prof-20261129-140000.data"));
    }

    #[test]
    fn the_steps_of_a_recording_lead_to_its_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let target = folder.path().join("a.data");
        std::fs::write(&target, "before").expect("it can be written");
        let service = OutputService::new(Output::File { path: target.clone(), force: true });
        let take = |step: OutputStep| {
            let (answer, file) = service.serve(&serde_json::to_vec(&step).unwrap()).unwrap();
            (serde_json::from_slice::<Result<FilePlace, SentFailure>>(&answer).unwrap(), file)
        };
        assert!(take(OutputStep::Place).0.is_err(), "there is no file yet");
        assert!(take(OutputStep::Create(b"/etc/other".to_vec())).0.is_err());
        let (_, made) = take(OutputStep::Create(bytes(&target)));
        let mut made = File::from(made.expect("a file"));
        std::io::Write::write_all(&mut made, b"after").expect("it can be written");
        let (placed, _) = take(OutputStep::Place);
        assert_eq!(placed.unwrap().path, Some(bytes(&target)));
        assert!(take(OutputStep::Settle).0.is_ok());
        assert_eq!(std::fs::read(&target).expect("it is there"), b"after");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 1, "nothing else is left");
    }
}
