//! Side-band records as events. Layouts: `enum perf_event_type` in include/uapi/linux/perf_event.h.

use perf_event_open_sys::bindings;

/// An executable mapping of a process.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct CodeMapping {
    /// First process address.
    pub(crate) start: u64,
    /// First process address after it.
    pub(crate) end: u64,
    /// Offset of `start` in the file, bytes.
    pub(crate) file_offset: u64,
    /// Device of the file, major and minor number; 0 for memory without a file.
    pub(crate) device: (u32, u32),
    /// Inode of the file; 0 for memory without a file.
    pub(crate) inode: u64,
    /// Path as the process sees it, or a name such as `[vdso]`; empty for anonymous memory.
    pub(crate) path: String,
}

/// Event of a process that the kernel reports besides the samples.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Sideband {
    /// A process mapped code.
    Mapped {
        /// Process id.
        pid: u32,
        /// The mapping.
        mapping: CodeMapping,
    },
    /// A thread has a new name.
    Named {
        /// Process id.
        pid: u32,
        /// Thread id.
        tid: u32,
        /// The name.
        comm: String,
        /// The name changed since the thread called exec.
        is_exec: bool,
    },
    /// A process or thread was born.
    Forked {
        /// Process id of the child; equal to `parent_pid` for a thread.
        pid: u32,
        /// Thread id of the child.
        tid: u32,
        /// Process id of the parent.
        parent_pid: u32,
    },
    /// A thread of a process ended.
    Exited {
        /// Process id.
        pid: u32,
    },
    /// The kernel dropped this many records.
    Lost(u64),
}

/// Set in `misc` of a COMM record when it comes from exec (PERF_RECORD_MISC_COMM_EXEC).
const MISC_COMM_EXEC: u16 = 1 << 13;
/// Bytes that `sample_id_all` appends with TID and TIME: pid, tid, time.
const SAMPLE_ID_BYTES: usize = 16;
const PROT_EXEC: u32 = 4;

/// Decodes one record: its type, misc bits and the bytes after the header. Returns the time
/// (CLOCK_MONOTONIC, ns) with the event; `None` for records that mean nothing here.
pub(crate) fn decode(kind: u32, misc: u16, bytes: &[u8]) -> Option<(u64, Sideband)> {
    let (body, id) = bytes.split_at_checked(bytes.len().checked_sub(SAMPLE_ID_BYTES)?)?;
    let time_ns = u64_at(id, 8)?;
    // Of whom: what the record begins with, if it is of a process.
    if kind != bindings::PERF_RECORD_LOST && is_outside(u32_at(body, 0)?) {
        return None;
    }
    let event = match kind {
        bindings::PERF_RECORD_MMAP2 => {
            if u32_at(body, 56)? & PROT_EXEC == 0 {
                return None;
            }
            let start = u64_at(body, 8)?;
            let path = text(body.get(64..)?);
            Sideband::Mapped {
                pid: u32_at(body, 0)?,
                mapping: CodeMapping {
                    start,
                    end: start.checked_add(u64_at(body, 16)?)?,
                    file_offset: u64_at(body, 24)?,
                    device: (u32_at(body, 32)?, u32_at(body, 36)?),
                    inode: u64_at(body, 40)?,
                    // The kernel's name for anonymous memory in this record.
                    path: if path == "//anon" { String::new() } else { path },
                },
            }
        }
        bindings::PERF_RECORD_COMM => Sideband::Named {
            pid: u32_at(body, 0)?,
            tid: u32_at(body, 4)?,
            comm: text(body.get(8..)?),
            is_exec: misc & MISC_COMM_EXEC != 0,
        },
        bindings::PERF_RECORD_FORK => {
            Sideband::Forked { pid: u32_at(body, 0)?, parent_pid: u32_at(body, 4)?, tid: u32_at(body, 8)? }
        }
        bindings::PERF_RECORD_EXIT => Sideband::Exited { pid: u32_at(body, 0)? },
        bindings::PERF_RECORD_LOST => Sideband::Lost(u64_at(body, 8)?),
        _ => return None,
    };
    Some((time_ns, event))
}

/// Whether a record is of a process that the PID namespace of this one does not have. The kernel gives the others the
/// numbers they have in the namespace of who opened the event (`perf_event_pid_type`, kernel/events/core.c).
fn is_outside(pid: u32) -> bool {
    pid == 0 || pid == u32::MAX
}

fn u32_at(bytes: &[u8], offset: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(offset..offset + 4)?.try_into().ok()?))
}

fn u64_at(bytes: &[u8], offset: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(offset..offset + 8)?.try_into().ok()?))
}

/// A NUL-terminated string.
fn text(bytes: &[u8]) -> String {
    let end = bytes.iter().position(|&byte| byte == 0).unwrap_or(bytes.len());
    String::from_utf8_lossy(&bytes[..end]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with_id(mut body: Vec<u8>, time_ns: u64) -> Vec<u8> {
        body.extend_from_slice(&[0; 8]);
        body.extend_from_slice(&time_ns.to_ne_bytes());
        body
    }

    fn mmap2(prot: u32, name: &[u8]) -> Vec<u8> {
        let mut body = Vec::new();
        body.extend_from_slice(&7u32.to_ne_bytes());
        body.extend_from_slice(&8u32.to_ne_bytes());
        for word in [0x1000u64, 0x2000, 0x3000] {
            body.extend_from_slice(&word.to_ne_bytes());
        }
        body.extend_from_slice(&254u32.to_ne_bytes());
        body.extend_from_slice(&1u32.to_ne_bytes());
        for word in [99u64, 0] {
            body.extend_from_slice(&word.to_ne_bytes());
        }
        body.extend_from_slice(&prot.to_ne_bytes());
        body.extend_from_slice(&0u32.to_ne_bytes());
        body.extend_from_slice(name);
        with_id(body, 5)
    }

    #[test]
    fn executable_mappings_are_taken_and_others_left() {
        let bytes = mmap2(5, b"/lib/x.so\0\0\0\0\0\0\0");
        let (time_ns, event) = decode(bindings::PERF_RECORD_MMAP2, 0, &bytes).expect("a mapping");
        let Sideband::Mapped { pid, mapping } = event else { panic!("{event:?}") };
        assert_eq!((time_ns, pid), (5, 7));
        assert_eq!((mapping.start, mapping.end, mapping.file_offset), (0x1000, 0x3000, 0x3000));
        assert_eq!((mapping.device, mapping.inode, &*mapping.path), ((254, 1), 99, "/lib/x.so"));
        assert_eq!(decode(bindings::PERF_RECORD_MMAP2, 0, &mmap2(1, b"/x\0")), None);
    }

    #[test]
    fn processes_outside_of_the_pid_namespace_are_no_events() {
        // The kernel gives them these numbers.
        for pid in [0, u32::MAX] {
            let mut bytes = mmap2(5, b"/lib/x.so\0\0\0\0\0\0\0");
            bytes[..4].copy_from_slice(&pid.to_ne_bytes());
            assert_eq!(decode(bindings::PERF_RECORD_MMAP2, 0, &bytes), None);
            let body: Vec<u8> = [pid, 7, pid, 7].into_iter().flat_map(u32::to_ne_bytes).collect();
            for kind in [bindings::PERF_RECORD_FORK, bindings::PERF_RECORD_EXIT] {
                assert_eq!(decode(kind, 0, &with_id(body.clone(), 5)), None);
            }
        }
        // A child that comes into the namespace from outside.
        let body: Vec<u8> = [9u32, 0, 9, 0].into_iter().flat_map(u32::to_ne_bytes).collect();
        let forked = decode(bindings::PERF_RECORD_FORK, 0, &with_id(body, 5));
        assert_eq!(forked, Some((5, Sideband::Forked { pid: 9, tid: 9, parent_pid: 0 })));
        let lost: Vec<u8> = [0u64, 3].into_iter().flat_map(u64::to_ne_bytes).collect();
        let lost = decode(bindings::PERF_RECORD_LOST, 0, &with_id(lost, 5));
        assert_eq!(lost, Some((5, Sideband::Lost(3))), "it begins with a number of the event");
    }

    #[test]
    fn cut_records_are_no_events() {
        let bytes = mmap2(5, b"/lib/x.so\0\0\0\0\0\0\0");
        for cut in 0..70 {
            assert_eq!(decode(bindings::PERF_RECORD_MMAP2, 0, &bytes[..cut]), None, "{cut}");
        }
    }
}
