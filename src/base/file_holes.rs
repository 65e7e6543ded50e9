//! Parts of files that were never written: a few bytes on disk can claim to be a gigabyte of tables.

use rustix::fs::SeekFrom;
use std::fs::File;

/// Parts with data that are counted; what lies after this many counts as data.
const MAX_DATA_PARTS: usize = 64;
/// Shorter parts are not looked at, bytes.
const SMALL_BYTES: u64 = 1 << 20;

/// Whether most of `offset..offset + size` was never written: a part of a file that takes no room on disk is no table. The
/// position of `file` changes.
pub(crate) fn is_hole(file: &File, offset: u64, size: u64) -> bool {
    size > SMALL_BYTES && data_bytes(file, offset, size) < size / 2
}

/// Bytes of `offset..offset + size` that lie in parts of the file with data. A file system that cannot tell has data
/// everywhere; one that packs what it stores has no holes for that.
fn data_bytes(file: &File, offset: u64, size: u64) -> u64 {
    let end = offset.saturating_add(size);
    let (mut at, mut data) = (offset, 0);
    for _ in 0..MAX_DATA_PARTS {
        let start = match rustix::fs::seek(file, SeekFrom::Data(at)) {
            Ok(start) => start.max(at),
            // No data from here on.
            Err(rustix::io::Errno::NXIO) => return data,
            Err(_) => return size,
        };
        if start >= end {
            return data;
        }
        let Ok(hole) = rustix::fs::seek(file, SeekFrom::Hole(start)) else { return size };
        data += hole.clamp(start, end) - start;
        at = hole.max(start);
        if at >= end {
            return data;
        }
    }
    data + (end - at)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::FileExt;

    #[test]
    fn parts_that_were_never_written_are_holes() {
        let file = tempfile::tempfile().unwrap();
        let mib = 1 << 20;
        file.set_len(16 * mib).unwrap();
        file.write_all_at(&vec![1; 3 << 20], 4 * mib).unwrap();
        assert!(is_hole(&file, 8 * mib, 8 * mib) && is_hole(&file, 0, 16 * mib));
        assert!(!is_hole(&file, 4 * mib, 3 * mib) && !is_hole(&file, 3 * mib, 5 * mib));
        assert!(!is_hole(&file, 8 * mib, mib), "too short to matter");
    }
}
