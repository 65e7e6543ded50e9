//! Records other than samples: mappings, names, forks, exits and losses.

use super::bytes::{ByteCursor, until_zero};
use perf_event_open_sys::bindings;

/// The bits of `misc` that tell kernel from user mode.
pub(super) const MISC_MODE: u16 = 7;
pub(super) const MISC_KERNEL: u16 = 1;
/// In mappings: the older record type is for data; or the build ID replaces the inode.
const MISC_DATA: u16 = 1 << 13;
const MISC_BUILD_ID: u16 = 1 << 14;
/// In names: the process called exec.
const MISC_EXEC: u16 = 1 << 13;
const PROTECTION_EXECUTE: u32 = 4;

/// Identity of a file on the machine where it was mapped: device and inode.
pub(super) type FileIdentity = (u32, u32, u64);

/// A mapping of code.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct MmapRecord<'a> {
    pub(super) pid: u32,
    pub(super) start: u64,
    pub(super) length: u64,
    pub(super) file_offset: u64,
    pub(super) path: &'a [u8],
    pub(super) build_id: &'a [u8],
    pub(super) identity: Option<FileIdentity>,
    pub(super) is_kernel: bool,
}

/// Contents of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SideRecord<'a> {
    Mmap(MmapRecord<'a>),
    Comm {
        pid: u32,
        tid: u32,
        name: &'a [u8],
        is_exec: bool,
    },
    Fork {
        pid: u32,
        parent: u32,
        tid: u32,
        parent_tid: u32,
    },
    Exit {
        tid: u32,
    },
    /// Lost records of the event with this id, if known.
    Lost {
        id: Option<u64>,
        count: u64,
    },
}

/// Whether records of this type are sorted along with samples.
pub(super) fn is_wanted(kind: u32) -> bool {
    matches!(
        kind,
        bindings::PERF_RECORD_MMAP
            | bindings::PERF_RECORD_MMAP2
            | bindings::PERF_RECORD_COMM
            | bindings::PERF_RECORD_FORK
            | bindings::PERF_RECORD_EXIT
            | bindings::PERF_RECORD_LOST
            | bindings::PERF_RECORD_LOST_SAMPLES
    )
}

impl<'a> SideRecord<'a> {
    /// Parses a record; `None` for other types, for mappings of data, and for damaged records.
    pub(super) fn parse(kind: u32, misc: u16, body: &'a [u8]) -> Option<Self> {
        let mut cursor = ByteCursor(body);
        match kind {
            bindings::PERF_RECORD_MMAP | bindings::PERF_RECORD_MMAP2 => {
                mmap(kind, misc, cursor).map(SideRecord::Mmap)
            }
            bindings::PERF_RECORD_COMM => Some(SideRecord::Comm {
                pid: cursor.u32()?,
                tid: cursor.u32()?,
                name: until_zero(cursor.0),
                is_exec: misc & MISC_EXEC != 0,
            }),
            bindings::PERF_RECORD_FORK => {
                let (pid, parent, tid, parent_tid) =
                    (cursor.u32()?, cursor.u32()?, cursor.u32()?, cursor.u32()?);
                Some(SideRecord::Fork { pid, parent, tid, parent_tid })
            }
            bindings::PERF_RECORD_EXIT => {
                cursor.u64()?;
                Some(SideRecord::Exit { tid: cursor.u32()? })
            }
            bindings::PERF_RECORD_LOST => {
                let id = cursor.u64()?;
                Some(SideRecord::Lost { id: Some(id), count: cursor.u64()? })
            }
            bindings::PERF_RECORD_LOST_SAMPLES => Some(SideRecord::Lost { id: None, count: cursor.u64()? }),
            _ => None,
        }
    }
}

fn mmap(kind: u32, misc: u16, mut cursor: ByteCursor<'_>) -> Option<MmapRecord<'_>> {
    let pid = cursor.u32()?;
    cursor.u32()?;
    let (start, length, file_offset) = (cursor.u64()?, cursor.u64()?, cursor.u64()?);
    let mut record = MmapRecord {
        pid,
        start,
        length,
        file_offset,
        path: &[],
        build_id: &[],
        identity: None,
        is_kernel: misc & MISC_MODE == MISC_KERNEL,
    };
    let is_code = if kind == bindings::PERF_RECORD_MMAP {
        misc & MISC_DATA == 0
    } else {
        let file = cursor.take(24)?;
        if misc & MISC_BUILD_ID != 0 {
            record.build_id = file.get(4..4 + usize::from(file[0]))?;
        } else {
            let mut file = ByteCursor(file);
            record.identity = Some((file.u32()?, file.u32()?, file.u64()?));
        }
        let protection = cursor.u32()?;
        cursor.u32()?;
        protection & PROTECTION_EXECUTE != 0 || record.is_kernel
    };
    record.path = until_zero(cursor.0);
    is_code.then_some(record)
}
