//! One lookup in a file or in the map of a process: by this process, or by a worker that is given the file and keeps it open for
//! the next lookup.

mod work;

use super::code::find::{self, FoundCodes};
use super::code::weights::CodeShare;
use super::file_names::{FileNames, root_of};
use super::symbolize::{Addresses, Named, read_perf_map};
use crate::base::deadline::Deadline;
use crate::base::failure::io_words;
use crate::profile::ModuleNotes;
use crate::record::environment::packages;
use crate::record::modules::ModuleFile;
use crate::record::workers::{
    self, HeldWorker, JobKind, JobUrgency, KeptPart, WorkerEnd, WorkerJob, WorkerLane,
};
use crate::symbols::{DumpPiece, DumpPosition, NamingLimits, PerfMapSource};
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
pub(crate) use work::NameWork;
use work::{Looked, NamesReply, NamesRequest};

/// A file that is open for the next lookup.
#[derive(Debug)]
pub(crate) enum KeptNames {
    /// In this process.
    Here(Box<FileNames>),
    /// In a worker.
    Elsewhere { part: KeptPart, memory_bytes: u64 },
}

impl KeptNames {
    /// Memory in use, bytes.
    pub(super) fn memory_bytes(&self) -> u64 {
        match self {
            KeptNames::Here(names) => names.memory_bytes(),
            KeptNames::Elsewhere { memory_bytes, .. } => *memory_bytes,
        }
    }
}

/// Result of a lookup.
#[derive(Debug, Default)]
pub(super) struct LookupResult {
    pub(super) named: Named,
    /// The opened file, to keep for the next lookup.
    pub(super) kept: Option<KeptNames>,
    /// Messages about what could not be read.
    pub(super) problems: Vec<String>,
    /// Message about existing names that were not read.
    pub(super) refused: Option<String>,
    /// Sources of the names.
    pub(super) notes: Option<Box<ModuleNotes>>,
}

/// A file to look into, and how.
#[derive(Debug)]
pub(super) struct FileToRead<'a> {
    pub(super) file: &'a ModuleFile,
    /// It is open since an earlier lookup.
    pub(super) kept: Option<KeptNames>,
    /// Folders in which debug files are looked for, too.
    pub(super) folders: &'a [PathBuf],
    pub(super) urgency: JobUrgency,
    pub(super) deadline: &'a Deadline,
}

/// Who reads a file.
enum FileReader {
    /// This process, which has it open or opens it.
    Here(Option<Box<FileNames>>),
    /// A worker, which has it open or opens it.
    Elsewhere(Option<KeptNames>),
}

impl FileToRead<'_> {
    /// Looks up names.
    pub(super) fn look_up(mut self, frames: Addresses) -> LookupResult {
        let file = self.file;
        let said = |problem: String| format!("{}: {problem}", file.path);
        let looked = match self.reader() {
            FileReader::Here(names) => self.look_up_here(names, frames),
            FileReader::Elsewhere(kept) => self.look_up_elsewhere(kept, frames),
        };
        match looked {
            Ok((Looked { named, problems, notes, .. }, kept)) => {
                let problems = problems.into_iter().map(said).collect();
                let notes = Some(Box::new(with_package(notes, file)));
                LookupResult { named, kept, problems, refused: None, notes }
            }
            Err(problem) => {
                let notes = ModuleNotes { problems: vec![problem.clone()], ..ModuleNotes::default() };
                LookupResult {
                    problems: vec![said(problem)],
                    notes: Some(Box::new(notes)),
                    ..LookupResult::default()
                }
            }
        }
    }

    /// Finds the code of the functions around the addresses `sampled`, as [`find::find`] does.
    pub(super) fn find_code(mut self, sampled: &[(u64, CodeShare)], room: u64) -> FoundCodes {
        let found = match self.reader() {
            FileReader::Here(names) => self
                .open_here(names)
                .map(|mut names| find::find(&mut names, self.file, sampled, room, self.deadline)),
            FileReader::Elsewhere(kept) => self.find_code_elsewhere(kept, sampled, room),
        };
        found.unwrap_or_default()
    }

    fn reader(&mut self) -> FileReader {
        match self.kept.take() {
            Some(KeptNames::Here(names)) => FileReader::Here(Some(names)),
            _ if !workers::is_running() => FileReader::Here(None),
            kept => FileReader::Elsewhere(kept),
        }
    }

    fn open_here(&self, kept: Option<Box<FileNames>>) -> Result<Box<FileNames>, String> {
        let open = || FileNames::open(self.file, self.folders, self.deadline).map(Box::new);
        kept.map_or_else(open, Ok)
    }

    fn look_up_here(
        &self,
        kept: Option<Box<FileNames>>,
        frames: Addresses,
    ) -> Result<(Looked, Option<KeptNames>), String> {
        let mut names = self.open_here(kept)?;
        let looked = Looked::up(&mut names, self.file, frames, self.deadline)?;
        Ok((looked, Some(KeptNames::Here(names))))
    }

    fn look_up_elsewhere(
        &self,
        kept: Option<KeptNames>,
        frames: Addresses,
    ) -> Result<(Looked, Option<KeptNames>), String> {
        let (mut worker, part) = self.worker(kept).map_err(|end| end.to_string())?;
        let (file, folders) = (self.file.to_send(), self.folders.to_vec());
        match self.ask(&mut worker, part, &NamesRequest::LookUp { file, folders, frames })? {
            NamesReply::LookedUp(looked) => {
                let memory_bytes = looked.memory_bytes;
                let kept = worker.keep(part).map(|part| KeptNames::Elsewhere { part, memory_bytes });
                Ok((looked, kept))
            }
            reply => Err(reply.failure()),
        }
    }

    fn find_code_elsewhere(
        &self,
        kept: Option<KeptNames>,
        sampled: &[(u64, CodeShare)],
        room: u64,
    ) -> Result<FoundCodes, String> {
        let (mut worker, part) = self.worker(kept).map_err(|end| end.to_string())?;
        let (file, folders) = (self.file.to_send(), self.folders.to_vec());
        let request = NamesRequest::FindCode { file, folders, sampled: sampled.to_vec(), room };
        match self.ask(&mut worker, part, &request)? {
            NamesReply::FoundCode(found) if found.functions.iter().all(|code| code.is_sound()) => Ok(found),
            reply => Err(reply.failure()),
        }
    }

    /// The worker that has the file open, or one to open it, and the number that this has there.
    fn worker(&self, kept: Option<KeptNames>) -> Result<(HeldWorker, u64), WorkerEnd> {
        if let Some(KeptNames::Elsewhere { part, .. }) = kept {
            match part.take(self.deadline) {
                Ok(mut worker) => {
                    let number = worker.take_over(part);
                    return Ok((worker, number));
                }
                Err(WorkerEnd::Forgotten) => {}
                Err(end) => return Err(end),
            }
        }
        let mut worker = workers::take(self.file.reader_lane(), self.deadline)?;
        let number = worker.new_part();
        Ok((worker, number))
    }

    fn ask(&self, worker: &mut HeldWorker, part: u64, request: &NamesRequest) -> Result<NamesReply, String> {
        let descriptors: Vec<BorrowedFd<'_>> = self.file.file.iter().map(|file| file.as_fd()).collect();
        let body = postcard::to_stdvec(request).map_err(|error| error.to_string())?;
        let job = WorkerJob {
            kind: JobKind::Names,
            urgency: self.urgency,
            part,
            body: &body,
            descriptors: &descriptors,
        };
        let answer = worker.work(&job, self.deadline).map_err(|end| end.to_string())?;
        postcard::from_bytes(&answer).map_err(|_| "its reader was not understood".to_owned())
    }
}

/// Notes the package of this machine that a module is from where debug information is missing that it may have.
fn with_package(notes: ModuleNotes, file: &ModuleFile) -> ModuleNotes {
    let lacks = !notes.has_debug_info || !notes.shared_missing.is_empty();
    if file.file.is_none() || !lacks || !packages::is_own_root(&root_of(file)) {
        return notes;
    }
    ModuleNotes {
        package: packages::owner_of(Path::new(&file.path)),
        distribution: packages::distribution().to_owned(),
        ..notes
    }
}

/// Looks up names of generated code in the map of a process.
pub(super) fn in_map(map: &PerfMapSource, frames: Addresses, deadline: &Deadline) -> LookupResult {
    match read_map(map, frames, deadline) {
        Ok((named, unread)) => {
            LookupResult { named, problems: unread.into_iter().collect(), ..LookupResult::default() }
        }
        Err(refused) => LookupResult { refused: Some(refused), ..LookupResult::default() },
    }
}

fn read_map(
    map: &PerfMapSource,
    frames: Addresses,
    deadline: &Deadline,
) -> Result<(Named, Option<String>), String> {
    if !workers::is_running() {
        return read_perf_map(map, &frames, deadline);
    }
    let refused = |why: String| format!("`{}` was not read for names: {why}", map.path());
    let Some(opened) = map.open().map_err(|error| refused(io_words(&error)))? else {
        return Ok((Vec::new(), None));
    };
    let request = NamesRequest::LookUpInMap { path: map.path(), frames };
    let body = postcard::to_stdvec(&request).map_err(|error| refused(error.to_string()))?;
    let descriptors = [opened.as_fd()];
    let job = WorkerJob {
        kind: JobKind::Names,
        urgency: JobUrgency::Ordinary,
        part: 0,
        body: &body,
        descriptors: &descriptors,
    };
    // It is on a file system of the target's choice.
    let answer = workers::take(WorkerLane::Slow, deadline).and_then(|mut worker| worker.work(&job, deadline));
    let answer = answer.map_err(|end| refused(end.to_string()))?;
    match postcard::from_bytes(&answer) {
        Ok(NamesReply::LookedUpInMap { named, unread }) => Ok((named, unread)),
        Ok(reply) => Err(refused(reply.failure())),
        Err(_) => Err(refused("its reader was not understood".to_owned())),
    }
}

/// Reads up to `most` records of a dump from `begin` on.
///
/// # Errors
///
/// Why there are none, in words.
pub(super) fn read_dump(
    file: &ModuleFile,
    begin: &DumpPosition,
    most: usize,
    deadline: &Deadline,
) -> Result<DumpPiece, String> {
    let opened = file.file.as_ref().ok_or("it is not open")?;
    if !workers::is_running() {
        return Ok(DumpPiece::read(opened, begin, most, &NamingLimits::default()));
    }
    // Nothing was written since: that takes no worker. One on a server may not even tell its size.
    if file.reader_lane() == WorkerLane::Local
        && opened.metadata().is_ok_and(|facts| begin.is_behind(facts.len()))
    {
        return Ok(DumpPiece::nothing_at(begin));
    }
    let request = NamesRequest::ReadDump { path: file.path.clone(), begin: begin.clone(), most };
    let to_read = FileToRead { file, kept: None, folders: &[], urgency: JobUrgency::Ordinary, deadline };
    let mut worker = workers::take(file.reader_lane(), deadline).map_err(|end| end.to_string())?;
    match to_read.ask(&mut worker, 0, &request)? {
        NamesReply::ReadDump(piece) => Ok(piece),
        reply => Err(reply.failure()),
    }
}
