//! One lookup in a file or in the map of a process: by this process, or by a worker that is given the file and keeps it open for
//! the next lookup.

mod work;

use super::code::find::{self, FoundCodes};
use super::code::weights::CodeShare;
use super::file_names::{FileNames, root_of};
use super::symbolize::{Addresses, Named, read_perf_map};
use crate::base::deadline::Deadline;
use crate::profile::ModuleNotes;
use crate::record::environment::packages;
use crate::record::modules::ModuleFile;
use crate::record::workers::{self, HeldWorker, JobKind, JobUrgency, KeptPart, WorkerEnd, WorkerJob};
use crate::symbols::PerfMapSource;
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

/// Looks up names in a file, `kept` open by the last lookup.
pub(super) fn in_file(
    file: &ModuleFile,
    kept: Option<KeptNames>,
    frames: Addresses,
    folders: &[PathBuf],
    urgency: JobUrgency,
    deadline: &Deadline,
) -> LookupResult {
    let said = |problem: String| format!("{}: {problem}", file.path);
    let looked = match kept {
        Some(KeptNames::Here(names)) => here(file, Some(names), frames, folders, deadline),
        _ if !workers::is_running() => here(file, None, frames, folders, deadline),
        kept => elsewhere(file, kept, frames, folders, urgency, deadline),
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

fn here(
    file: &ModuleFile,
    kept: Option<Box<FileNames>>,
    frames: Addresses,
    folders: &[PathBuf],
    deadline: &Deadline,
) -> Result<(Looked, Option<KeptNames>), String> {
    let opened = kept.map_or_else(|| FileNames::open(file, folders, deadline).map(Box::new), Ok);
    let mut names = opened?;
    let looked = Looked::up(&mut names, file, frames, deadline)?;
    Ok((looked, Some(KeptNames::Here(names))))
}

fn elsewhere(
    file: &ModuleFile,
    kept: Option<KeptNames>,
    frames: Addresses,
    folders: &[PathBuf],
    urgency: JobUrgency,
    deadline: &Deadline,
) -> Result<(Looked, Option<KeptNames>), String> {
    let (mut worker, part) = worker_for(file, kept, deadline).map_err(|end| end.to_string())?;
    let request = NamesRequest::LookUp { file: file.to_send(), folders: folders.to_vec(), frames };
    match ask(&mut worker, file, part, urgency, &request, deadline)? {
        NamesReply::LookedUp(looked) => {
            let memory_bytes = looked.memory_bytes;
            let kept = worker.keep(part).map(|part| KeptNames::Elsewhere { part, memory_bytes });
            Ok((looked, kept))
        }
        reply => Err(reply.failure()),
    }
}

/// The worker that has the file open, or one to open it, and the number that this has there.
fn worker_for(
    file: &ModuleFile,
    kept: Option<KeptNames>,
    deadline: &Deadline,
) -> Result<(HeldWorker, u64), WorkerEnd> {
    if let Some(KeptNames::Elsewhere { part, .. }) = kept {
        match part.take(deadline) {
            Ok(mut worker) => {
                let number = worker.take_over(part);
                return Ok((worker, number));
            }
            Err(WorkerEnd::Forgotten) => {}
            Err(end) => return Err(end),
        }
    }
    let mut worker = workers::take(file.reader_lane(), deadline)?;
    let number = worker.new_part();
    Ok((worker, number))
}

fn ask(
    worker: &mut HeldWorker,
    file: &ModuleFile,
    part: u64,
    urgency: JobUrgency,
    request: &NamesRequest,
    deadline: &Deadline,
) -> Result<NamesReply, String> {
    let descriptors: Vec<BorrowedFd<'_>> = file.file.iter().map(|file| file.as_fd()).collect();
    let body = postcard::to_stdvec(request).map_err(|error| error.to_string())?;
    let job = WorkerJob { kind: JobKind::Names, urgency, part, body: &body, descriptors: &descriptors };
    let answer = worker.work(&job, deadline).map_err(|end| end.to_string())?;
    postcard::from_bytes(&answer).map_err(|_| "its reader was not understood".to_owned())
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
    let Some(opened) = map.open().map_err(|error| refused(error.to_string()))? else {
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
    let answer =
        workers::take(workers::WorkerLane::Slow, deadline).and_then(|mut worker| worker.work(&job, deadline));
    let answer = answer.map_err(|end| refused(end.to_string()))?;
    match postcard::from_bytes(&answer) {
        Ok(NamesReply::LookedUpInMap { named, unread }) => Ok((named, unread)),
        Ok(reply) => Err(refused(reply.failure())),
        Err(_) => Err(refused("its reader was not understood".to_owned())),
    }
}

/// Finds the code of the functions around the addresses `sampled`, as [`find::find`] does.
pub(super) fn find_code(
    file: &ModuleFile,
    kept: Option<KeptNames>,
    folders: &[PathBuf],
    sampled: &[(u64, CodeShare)],
    room: u64,
    deadline: &Deadline,
) -> FoundCodes {
    let opened = match kept {
        Some(KeptNames::Here(names)) => Ok(names),
        _ if !workers::is_running() => FileNames::open(file, folders, deadline).map(Box::new),
        kept => return find_code_elsewhere(file, kept, folders, sampled, room, deadline).unwrap_or_default(),
    };
    let found = opened.map(|mut names| find::find(&mut names, file, sampled, room, deadline));
    found.unwrap_or_default()
}

fn find_code_elsewhere(
    file: &ModuleFile,
    kept: Option<KeptNames>,
    folders: &[PathBuf],
    sampled: &[(u64, CodeShare)],
    room: u64,
    deadline: &Deadline,
) -> Result<FoundCodes, String> {
    let (mut worker, part) = worker_for(file, kept, deadline).map_err(|end| end.to_string())?;
    let (file_sent, folders) = (file.to_send(), folders.to_vec());
    let request = NamesRequest::FindCode { file: file_sent, folders, sampled: sampled.to_vec(), room };
    match ask(&mut worker, file, part, JobUrgency::Ordinary, &request, deadline)? {
        NamesReply::FoundCode(found) if found.functions.iter().all(|code| code.is_sound()) => Ok(found),
        reply => Err(reply.failure()),
    }
}
