//! Making one table: by this process, or by a worker that is given the file.

use super::compiled::{NoTable, Wanted};
use super::file::{ModuleFile, SentFile};
use crate::base::deadline::Deadline;
use crate::base::memory_budget::{MemoryBudget, Reservation};
use crate::record::process::proc_fs;
use crate::record::workers::{self, JobKind, JobUrgency, WorkerEnd, WorkerJob, WorkerLane};
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

/// A table that was made.
#[derive(Debug)]
pub(super) struct MadeTable {
    pub(super) table: FirstTable,
    /// Whether it is made of the file alone, and will be the same as long as that is.
    pub(super) is_of_file: bool,
}

impl TableSource {
    /// Makes the table; `None` where the file has hardly any entries, and its separate debug file may not be looked for.
    pub(super) fn make(&self, wanted: Wanted) -> Result<Option<MadeTable>, TableError> {
        // Held until the table is there.
        let wait = Deadline::after(MAX_WAIT, &Arc::default());
        let mut room = MemoryBudget::shared().reserve(CfiSections::memory_bytes(&self.elf), &wait)?;
        let mut sections = CfiSections::load(&self.elf)?;
        let is_of_file = !sections.lacks_entries(&self.elf);
        match (is_of_file, self.may_search) {
            (true, _) => {}
            (false, true) => self.add_debug_file(&mut sections, &mut room),
            (false, false) => return Ok(None),
        }
        let table = match wanted {
            Wanted::First => compile_first(&self.elf, &sections, &self.limits)?,
            Wanted::Whole => {
                let table = compile_sections(&self.elf, &sections, &self.limits)?;
                FirstTable { table, is_whole: true }
            }
        };
        Ok(Some(MadeTable { table, is_of_file }))
    }

    /// Adds the entries of the separate debug file, if there is one.
    fn add_debug_file(&self, sections: &mut CfiSections, room: &mut Reservation) {
        let search = Deadline::after(MAX_SEARCH_TIME, &Arc::default());
        let root = proc_fs::root_of(self.seen_in);
        let found =
            self.file.as_ref().and_then(|file| find_debug_file(&root, Path::new(&self.path), file, &search));
        if let Some(file) = found
            && let Ok(debug_image) = ElfImage::open(&file, &self.limits.elf)
            && room.grow(CfiSections::memory_bytes(&debug_image)).is_ok()
        {
            // Without them the module is no worse off than with no debug file at all.
            let _ = sections.add_debug_frame(&debug_image);
        }
    }

    /// Has a worker make the table of the file, sent as `sent`, as [`TableSource::make`] does.
    pub(super) fn make_elsewhere(
        &self,
        sent: SentFile,
        wanted: Wanted,
        (lane, urgency): (WorkerLane, JobUrgency),
        deadline: &Deadline,
    ) -> Result<Option<MadeTable>, NoTable> {
        let request = TableRequest { file: sent, may_search: self.may_search, wanted };
        let descriptors = Vec::from_iter(self.file.as_ref().map(|file| file.as_fd()));
        let body = postcard::to_stdvec(&request).unwrap_or_default();
        let job =
            WorkerJob { kind: JobKind::Table, urgency, part: 0, body: &body, descriptors: &descriptors };
        let answer = workers::take(lane, deadline).and_then(|mut worker| worker.work(&job, deadline))?;
        match postcard::from_bytes(&answer) {
            Ok(TableReply::Made { is_whole, is_of_file, bytes }) => {
                let table = bytes::from_bytes(&bytes, &self.limits);
                let table = table.ok_or_else(|| NoTable::unread("its reader made no table"))?;
                Ok(Some(MadeTable { table: FirstTable { table, is_whole }, is_of_file }))
            }
            Ok(TableReply::NeedsDebugFile) => Ok(None),
            Ok(TableReply::None(why)) => Err(why),
            Err(_) => Err(NoTable::unread("its reader was not understood")),
        }
    }
}

/// What a worker is asked for: the table of the file that comes with it.
#[derive(Debug, Serialize, Deserialize)]
struct TableRequest {
    file: SentFile,
    may_search: bool,
    wanted: Wanted,
}

#[derive(Debug, Serialize, Deserialize)]
enum TableReply {
    /// A table as bytes.
    Made {
        is_whole: bool,
        is_of_file: bool,
        bytes: Vec<u8>,
    },
    /// It has hardly any entries of its own, and its separate debug file may have them.
    NeedsDebugFile,
    None(NoTable),
}

/// Makes a table in a worker.
pub(crate) fn work(request: &[u8], descriptors: Vec<OwnedFd>) -> Vec<u8> {
    let reply = match postcard::from_bytes(request) {
        Ok(request) => reply(request, descriptors),
        Err(_) => TableReply::None(NoTable::unread("its reader was not understood")),
    };
    postcard::to_stdvec(&reply).unwrap_or_default()
}

fn reply(TableRequest { file, may_search, wanted }: TableRequest, descriptors: Vec<OwnedFd>) -> TableReply {
    let ModuleFile { elf, file, path, seen_in, .. } = file.received(descriptors);
    let Some(elf) = elf else { return TableReply::None(NoTable::unread("it is no ELF file any more")) };
    let source = TableSource { elf, file, path, seen_in, may_search, limits: Limits::default() };
    match source.make(wanted) {
        Ok(Some(MadeTable { table, is_of_file })) => {
            let FirstTable { table, is_whole } = table;
            TableReply::Made { is_whole, is_of_file, bytes: bytes::to_bytes(&table) }
        }
        Ok(None) => TableReply::NeedsDebugFile,
        Err(error) => TableReply::None(error.into()),
    }
}

impl From<WorkerEnd> for NoTable {
    fn from(end: WorkerEnd) -> Self {
        NoTable::unread(end.to_string())
    }
}
