//! Making one table: by this process, or by a worker that is given the file. A worker reads the unwind sections first, so that
//! a table that is kept in the cache is not compiled again.

use super::compiled::{NoTable, Wanted};
use super::file::{ModuleFile, SentFile};
use crate::base::deadline::Deadline;
use crate::base::memory_budget::{MemoryBudget, Reservation};
use crate::record::process::proc_fs;
use crate::record::workers::{HeldWorker, JobKind, WorkerEnd, WorkerJob};
use crate::symbols::find_debug_file;
use crate::unwind::table::bytes;
use crate::unwind::{CfiSections, ElfImage, FirstTable, Limits, TableError, compile_first, compile_sections};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

/// Time to look for a separate debug file, all candidates together.
const MAX_SEARCH_TIME: Duration = Duration::from_secs(2);
/// Time to wait for memory that other work holds.
const MAX_WAIT: Duration = Duration::from_secs(10);

/// The file that a table is made of.
#[derive(Debug)]
pub(super) struct TableSource {
    pub(super) elf: Arc<ElfImage>,
    /// File of the headers; `None` for the vDSO.
    pub(super) file: Option<Arc<File>>,
    pub(super) path: String,
    pub(super) seen_in: u32,
    /// Whether its separate debug file may be looked for: its folders may be a program's.
    pub(super) may_search: bool,
    pub(super) limits: Limits,
}

/// The unwind sections of a file, with the memory that they and their table may take.
#[derive(Debug)]
pub(super) struct ReadSections {
    pub(super) sections: CfiSections,
    _room: Reservation,
}

impl TableSource {
    /// The unwind sections, with the entries of the separate debug file where there are hardly any; `None` where that may
    /// not be looked for.
    pub(super) fn read(&self) -> Result<Option<ReadSections>, TableError> {
        let wait = Deadline::after(MAX_WAIT, &Arc::default());
        let mut room = MemoryBudget::shared().reserve(CfiSections::memory_bytes(&self.elf), &wait)?;
        let (elf, limits) = (&self.elf, &self.limits);
        let mut sections = CfiSections::load(elf)?;
        if !sections.lacks_entries(elf) {
            return Ok(Some(ReadSections { sections, _room: room }));
        }
        if !self.may_search {
            return Ok(None);
        }
        let search = Deadline::after(MAX_SEARCH_TIME, &Arc::default());
        let debug_file = || {
            find_debug_file(
                &proc_fs::root_of(self.seen_in),
                Path::new(&self.path),
                self.file.as_ref()?,
                &search,
            )
        };
        if let Some(file) = debug_file()
            && let Ok(debug_image) = ElfImage::open(&file, &limits.elf)
            && room.grow(CfiSections::memory_bytes(&debug_image)).is_ok()
        {
            // Without them the module is no worse off than with no debug file at all.
            let _ = sections.add_debug_frame(&debug_image);
        }
        Ok(Some(ReadSections { sections, _room: room }))
    }

    pub(super) fn compile(&self, read: &ReadSections, wanted: Wanted) -> Result<FirstTable, TableError> {
        match wanted {
            Wanted::First => compile_first(&self.elf, &read.sections, &self.limits),
            Wanted::Whole => {
                let table = compile_sections(&self.elf, &read.sections, &self.limits)?;
                Ok(FirstTable { table, is_whole: true })
            }
        }
    }
}

/// What a worker is asked for.
#[derive(Debug, Serialize, Deserialize)]
enum TableRequest {
    /// To read the sections of the file that comes with it.
    Read { file: SentFile, may_search: bool },
    /// To compile the table of the sections that were read last.
    Compile { wanted: Wanted },
}

#[derive(Debug, Serialize, Deserialize)]
enum TableReply {
    /// A hash of all that the table is made from.
    Read {
        content: [u8; 32],
    },
    /// It has hardly any entries of its own, and its separate debug file may have them.
    NeedsDebugFile,
    /// A table as bytes.
    Compiled {
        is_whole: bool,
        bytes: Vec<u8>,
    },
    None(NoTable),
}

/// The worker's side.
#[derive(Debug, Default)]
pub(crate) struct TableWork {
    read: Option<(TableSource, ReadSections)>,
}

impl TableWork {
    /// Does a job.
    pub(crate) fn work(&mut self, request: &[u8], descriptors: Vec<OwnedFd>) -> Vec<u8> {
        let reply = match postcard::from_bytes(request) {
            Ok(TableRequest::Read { file, may_search }) => self.read(file, descriptors, may_search),
            Ok(TableRequest::Compile { wanted }) => self.compile(wanted),
            Err(_) => TableReply::None(NoTable::unread("its reader was not understood")),
        };
        postcard::to_stdvec(&reply).unwrap_or_default()
    }

    fn read(&mut self, file: SentFile, descriptors: Vec<OwnedFd>, may_search: bool) -> TableReply {
        // Its memory is free before more is asked for.
        self.read = None;
        let ModuleFile { elf, file, path, seen_in, .. } = file.received(descriptors);
        let Some(elf) = elf else { return TableReply::None(NoTable::unread("it is no ELF file any more")) };
        let source = TableSource { elf, file, path, seen_in, may_search, limits: Limits::default() };
        match source.read() {
            Ok(Some(read)) => {
                let content = super::cache::content_hash(&source.elf, &read.sections);
                self.read = Some((source, read));
                TableReply::Read { content }
            }
            Ok(None) => TableReply::NeedsDebugFile,
            Err(error) => TableReply::None(error.into()),
        }
    }

    fn compile(&mut self, wanted: Wanted) -> TableReply {
        let Some((source, read)) = self.read.take() else {
            return TableReply::None(NoTable::unread("nothing was read of it"));
        };
        match source.compile(&read, wanted) {
            Ok(FirstTable { table, is_whole }) => {
                TableReply::Compiled { is_whole, bytes: bytes::to_bytes(&table) }
            }
            Err(error) => TableReply::None(error.into()),
        }
    }
}

/// A file whose sections a worker has read.
#[derive(Debug)]
pub(super) struct ReadElsewhere {
    worker: HeldWorker,
    /// A hash of all that the table is made from.
    pub(super) content: [u8; 32],
}

impl ReadElsewhere {
    /// Has a worker read a file; `None` where its separate debug file may be needed and may not be looked for.
    pub(super) fn read(
        mut worker: HeldWorker,
        source: &TableSource,
        sent: SentFile,
        deadline: &Deadline,
    ) -> Result<Option<Self>, NoTable> {
        let request = TableRequest::Read { file: sent, may_search: source.may_search };
        let descriptors = Vec::from_iter(source.file.as_ref().map(|file| file.as_fd()));
        let body = postcard::to_stdvec(&request).unwrap_or_default();
        let job = WorkerJob {
            kind: JobKind::Table,
            is_background: false,
            part: 0,
            body: &body,
            descriptors: &descriptors,
        };
        let answer = worker.work(&job, deadline)?;
        match postcard::from_bytes(&answer) {
            Ok(TableReply::Read { content }) => Ok(Some(ReadElsewhere { worker, content })),
            Ok(TableReply::NeedsDebugFile) => Ok(None),
            Ok(TableReply::None(why)) => Err(why),
            Ok(TableReply::Compiled { .. }) | Err(_) => Err(NoTable::unread("its reader was not understood")),
        }
    }

    /// Has the worker compile the table.
    pub(super) fn compile(
        mut self,
        wanted: Wanted,
        limits: &Limits,
        deadline: &Deadline,
    ) -> Result<FirstTable, NoTable> {
        let body = postcard::to_stdvec(&TableRequest::Compile { wanted }).unwrap_or_default();
        let job =
            WorkerJob { kind: JobKind::Table, is_background: false, part: 0, body: &body, descriptors: &[] };
        let answer = self.worker.work(&job, deadline)?;
        match postcard::from_bytes(&answer) {
            Ok(TableReply::Compiled { is_whole, bytes }) => match bytes::from_bytes(&bytes, limits) {
                Some(table) => Ok(FirstTable { table, is_whole }),
                None => Err(NoTable::unread("its reader made no table")),
            },
            Ok(TableReply::None(why)) => Err(why),
            _ => Err(NoTable::unread("its reader was not understood")),
        }
    }
}

impl From<WorkerEnd> for NoTable {
    fn from(end: WorkerEnd) -> Self {
        NoTable::unread(end.to_string())
    }
}
