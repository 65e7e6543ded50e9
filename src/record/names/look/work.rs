//! Lookups in a worker: what it is asked for, what it answers, and the files that it keeps open.

use crate::base::deadline::Deadline;
use crate::profile::ModuleNotes;
use crate::record::modules::{ModuleFile, SentFile};
use crate::record::names::code::find::{self, FoundCodes};
use crate::record::names::code::weights::CodeShare;
use crate::record::names::file_names::FileNames;
use crate::record::names::symbolize::{Addresses, Named, name_by_map};
use crate::record::workers::{Ask, JobKind};
use crate::symbols::{DumpPiece, DumpPosition, NamingLimits};
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::time::Duration;

/// Time limit for one job; who asked has a shorter one.
const LONGEST_WORK: Duration = Duration::from_secs(60);

/// What a worker is asked for. The file comes with it, whether it is open there or not.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum NamesRequest {
    /// Names of frames in a file.
    LookUp { file: SentFile, folders: Vec<PathBuf>, frames: Addresses },
    /// Names of frames in the map of a process.
    LookUpInMap { path: String, frames: Addresses },
    /// Records of the dump at a path.
    ReadDump { path: String, begin: DumpPosition, most: usize },
    /// The code of the most sampled functions of a file, `room` bytes of it.
    FindCode { file: SentFile, folders: Vec<PathBuf>, sampled: Vec<(u64, CodeShare)>, room: u64 },
}

#[derive(Debug, Serialize, Deserialize)]
pub(super) enum NamesReply {
    LookedUp(Looked),
    LookedUpInMap {
        named: Named,
        unread: Option<String>,
    },
    ReadDump(DumpPiece),
    FoundCode(FoundCodes),
    /// Why there is none of it.
    Failed(String),
}

impl NamesReply {
    /// Why it is not the reply that was wanted.
    pub(super) fn failure(self) -> String {
        match self {
            NamesReply::Failed(why) => why,
            _ => "its reader answered something else".to_owned(),
        }
    }
}

/// What was found in a file.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(super) struct Looked {
    pub(super) named: Named,
    /// What could not be read.
    pub(super) problems: Vec<String>,
    pub(super) notes: ModuleNotes,
    /// Memory that the file takes while it is open, bytes.
    pub(super) memory_bytes: u64,
}

impl Looked {
    /// Looks up frames.
    ///
    /// # Errors
    ///
    /// The file was rewritten.
    pub(super) fn up(
        names: &mut FileNames,
        file: &ModuleFile,
        mut frames: Addresses,
        deadline: &Deadline,
    ) -> Result<Self, String> {
        let named = names.name(file, &mut frames, deadline)?;
        let (problems, notes) = (names.problems(), names.notes());
        Ok(Looked { named, problems, notes, memory_bytes: names.memory_bytes() })
    }
}

/// The worker's side.
#[derive(Debug, Default)]
pub(crate) struct NameWork {
    /// Open files by the numbers that who asked gave them.
    kept: FxHashMap<u64, (ModuleFile, Box<FileNames>)>,
}

impl NameWork {
    /// Does a job.
    pub(crate) fn work(&mut self, job: Ask) -> Vec<u8> {
        if job.kind == JobKind::Forget {
            self.kept.remove(&job.part);
            return Vec::new();
        }
        let deadline = Deadline::after(LONGEST_WORK, &job.stop);
        let reply = match postcard::from_bytes(&job.body) {
            Ok(request) => self.reply(job.part, request, job.descriptors, &deadline),
            Err(error) => Err(error.to_string()),
        };
        postcard::to_stdvec(&reply.unwrap_or_else(NamesReply::Failed)).unwrap_or_default()
    }

    fn reply(
        &mut self,
        part: u64,
        request: NamesRequest,
        descriptors: Vec<OwnedFd>,
        deadline: &Deadline,
    ) -> Result<NamesReply, String> {
        match request {
            NamesRequest::LookUp { file, folders, frames } => {
                // What fails is opened again the next time.
                let (file, mut names) = self.take(part, file, descriptors, &folders, deadline)?;
                let looked = Looked::up(&mut names, &file, frames, deadline)?;
                self.kept.insert(part, (file, names));
                Ok(NamesReply::LookedUp(looked))
            }
            NamesRequest::FindCode { file, folders, sampled, room } => {
                let (file, mut names) = self.take(part, file, descriptors, &folders, deadline)?;
                Ok(NamesReply::FoundCode(find::find(&mut names, &file, &sampled, room, deadline)))
            }
            NamesRequest::ReadDump { begin, most, .. } => {
                let dump = descriptors.into_iter().next().ok_or("the dump did not come")?;
                let limits = NamingLimits::default();
                Ok(NamesReply::ReadDump(DumpPiece::read(&File::from(dump), &begin, most, &limits)))
            }
            NamesRequest::LookUpInMap { path, frames } => {
                let map = descriptors.into_iter().next().ok_or("the map did not come")?;
                let (named, unread) = name_by_map(File::from(map), &path, &frames, deadline);
                Ok(NamesReply::LookedUpInMap { named, unread })
            }
        }
    }

    /// The file, if it is open, or opened.
    fn take(
        &mut self,
        part: u64,
        file: SentFile,
        descriptors: Vec<OwnedFd>,
        folders: &[PathBuf],
        deadline: &Deadline,
    ) -> Result<(ModuleFile, Box<FileNames>), String> {
        if let Some(open) = self.kept.remove(&part) {
            return Ok(open);
        }
        let file = file.received(descriptors);
        let names = FileNames::open(&file, folders, deadline)?;
        Ok((file, Box::new(names)))
    }
}
