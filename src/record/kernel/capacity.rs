//! What the kernel side gets before it is loaded: the first room for unwind tables, and steps of a walk.

use super::perf_event;
use crate::bpf::MAX_USER_FRAMES;
use crate::record::modules::ModuleFiles;
use crate::unwind::{Limits, MAX_WALKED_FRAMES, Row};

/// Bytes of `.eh_frame` after one unwind row, at the least: a low guess makes room for too much.
const EH_FRAME_BYTES_PER_ROW: u64 = 4;
/// Room for tables beyond those known at the start: a few libraries that are loaded later. For more of them another room
/// is made then.
const SPARE_ROWS: u64 = 1 << 18;
/// The same for pages: 32 MiB of code.
const SPARE_PAGES: u64 = 512;
/// The largest page array: 64 GiB of code.
const MAX_PAGES: u64 = 1 << 20;
/// The smallest row array that makes sense, and the largest that the verifier can index (2^29 bytes).
const MIN_ROWS: u64 = 1 << 12;
const MAX_ROWS: u64 = 1 << 26;

/// Time that the walk of one frame takes in the kernel when it hits the caches, ns.
const FRAME_NS: u64 = 31;

/// Frames after which a walk ends without its root: as many as a quarter of the sampling period has time for.
pub(super) fn max_walked_frames(hz: u32) -> u32 {
    let affordable = perf_event::period_ns(hz) / 4 / FRAME_NS;
    affordable.clamp(MAX_USER_FRAMES as u64, MAX_WALKED_FRAMES as u64) as u32
}

/// Rows to make room for, a power of two: what the files known so far will need and some more, within the memory budget.
pub(crate) fn row_capacity(files: &ModuleFiles, is_system_wide: bool, budget_bytes: u64) -> u32 {
    let affordable = (budget_bytes / size_of::<Row>() as u64).clamp(MIN_ROWS, MAX_ROWS);
    // Rounded down: the budget is a promise.
    let affordable = 1 << affordable.ilog2();
    let rows = files.unwind_section_bytes() / EH_FRAME_BYTES_PER_ROW;
    let rows = if is_system_wide { rows + rows / 2 } else { rows };
    (rows + SPARE_ROWS).clamp(MIN_ROWS, MAX_ROWS).next_power_of_two().min(affordable) as u32
}

/// Pages that the files known so far will need, with room for more: 64 KiB of code each; a power of two.
pub(crate) fn page_capacity(files: &ModuleFiles) -> u32 {
    let limits = Limits::default();
    let pages = files.iter().map(|(_, file)| file.code_pages(&limits)).fold(0, u64::saturating_add);
    pages.saturating_mul(2).saturating_add(SPARE_PAGES).min(MAX_PAGES).next_power_of_two() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An ELF file of 4 KiB with an executable segment for each of the sizes that are claimed in the file and in memory.
    fn claiming(segments: &[(u64, u64)]) -> Vec<u8> {
        let mut bytes = vec![0; 4096];
        bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
        let machine: u16 = if cfg!(target_arch = "aarch64") { 183 } else { 62 };
        for (at, value) in [(16, 3), (18, machine), (54, 56), (56, segments.len() as u16)] {
            bytes[at..at + 2].copy_from_slice(&value.to_le_bytes());
        }
        bytes[32..40].copy_from_slice(&64u64.to_le_bytes());
        for (index, (file_size, memory_size)) in segments.iter().enumerate() {
            let at = 64 + 56 * index;
            bytes[at] = 1; // PT_LOAD
            bytes[at + 4] = 5; // readable and executable
            bytes[at + 32..at + 40].copy_from_slice(&file_size.to_le_bytes());
            bytes[at + 40..at + 48].copy_from_slice(&memory_size.to_le_bytes());
        }
        bytes
    }

    fn pages_for(segments: &[(u64, u64)]) -> u32 {
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let path = folder.path().join("crafted");
        std::fs::write(&path, claiming(segments)).expect("a file can be written");
        let mut files = ModuleFiles::new(false);
        let file = std::fs::File::open(&path).expect("it is there");
        files.preload(file, &path).expect("it is an ELF file");
        page_capacity(&files)
    }

    #[test]
    fn room_is_made_for_code_that_is_there_and_not_for_what_headers_claim() {
        let usual = pages_for(&[(4096, 4096)]);
        assert_eq!(usual, 1024);
        assert_eq!(pages_for(&[(4096, u64::MAX)]), usual, "memory past the end of the file");
        assert_eq!(pages_for(&[(1 << 40, 1 << 40)]), usual, "more than the file has");
        assert_eq!(pages_for(&[(u64::MAX, u64::MAX); 40]), usual);
    }

    #[test]
    fn deep_stacks_take_no_more_than_a_share_of_the_period() {
        assert_eq!(max_walked_frames(99), 16_384);
        assert!(max_walked_frames(999) > 8000);
        assert!((1024..3000).contains(&max_walked_frames(4999)));
        assert_eq!(max_walked_frames(20_000), 1024);
    }
}
