//! Saves a live recording to a file that `prof report` reads.

use super::handle::Live;
use super::message::{LiveRequest, Message};
use crate::base::failure::{Failure, status};
use crate::base::privilege;
use crate::profile::{Profile, Writer};
use crate::record::failures::write_error;
use crate::record::live::events::Saved;
use crate::record::names::complete::{DebugSources, add_code};
use crate::record::options::Output;
use crate::record::output::local_time;
use crate::record::output::{self, Destination};
use std::sync::mpsc::channel;
use std::time::Duration;

/// Time limit for reading the code for `prof annotate`: the user waits for the file.
const CODE_PATIENCE: Duration = Duration::from_secs(2);

impl Live {
    /// Saves `seen`, the profile of a snapshot, by the rules of `prof record` for its output: a report of the file has
    /// the same numbers as the snapshot. Waits until all names are there, so call it on a thread other than that of the
    /// screen.
    ///
    /// # Errors
    ///
    /// Fails as `prof record` does when the file exists or cannot be written; no partial file is left.
    pub fn save(&self, seen: Profile, output: &Output) -> anyhow::Result<Saved> {
        let (sender, receiver) = channel();
        let gone = || Failure::new(status::FAILED, "cannot save: the recording is gone");
        self.sender.send(Message::Ask(LiveRequest::Complete(Box::new(seen), sender))).map_err(|_| gone())?;
        let mut profile = receiver.recv().map_err(|_| gone())?;
        // With the user's own rights: paths of other mount namespaces lead to other files here, and these are refused
        // because their build differs.
        privilege::as_user(|| add_code(&mut profile, &mut DebugSources::default(), CODE_PATIENCE));
        save(*profile, output)
    }
}

/// Writes `profile` as `output` says.
pub(super) fn save(mut profile: Profile, output: &Output) -> anyhow::Result<Saved> {
    if *output == Output::Stdout {
        return Err(Failure::usage("cannot save to standard output: it shows the screen").into());
    }
    let pid = profile.meta.target_pids.first().copied().unwrap_or_else(std::process::id);
    let (name, time) = (profile.meta.target_name.clone(), local_time());
    let destination = Destination::check(output, |path| output::expand(path, pid, &name, &time))?;
    let (file, unplaced) = destination.create()?;
    let written = Writer::new(file, &profile.meta).and_then(|mut writer| {
        writer.flush(&mut profile, false)?;
        Ok(writer.bytes_written())
    });
    let bytes = written.map_err(|error| write_error(destination.path(), error))?;
    let mut placed = unplaced.place()?;
    placed.settle();
    placed.close();
    Ok(Saved {
        path: placed.path.unwrap_or_default(),
        misplaced: placed.misplaced,
        kept_old: placed.kept_old,
        bytes,
        duration: Duration::from_nanos(profile.duration_ns()),
        samples: profile.events.iter().map(crate::profile::Event::observations).sum(),
    })
}
