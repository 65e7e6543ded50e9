//! What the kernel side gets before it is loaded: room for unwind tables, which cannot grow later, and steps of a walk.

use super::modules::ModuleFiles;
use super::options::RecordOptions;
use super::perf_event;
use crate::bpf::MAX_USER_FRAMES;
use crate::unwind::{MAX_WALKED_FRAMES, Row};

/// Bytes of `.eh_frame` behind one unwind row, at the least: a low guess makes room for too much.
const EH_FRAME_BYTES_PER_ROW: u64 = 4;
/// Room for tables beyond those known at the start: libraries that are loaded later.
const SPARE_ROWS: u64 = 3 << 20;
/// The same for pages: 256 MiB of code.
const SPARE_PAGES: u64 = 4096;
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

/// Rows to make room for, a power of two: what the files known so far will need and room for more, within the memory
/// budget; all of the budget when another than the default was asked for.
pub(super) fn row_capacity(files: &ModuleFiles, is_system_wide: bool, budget_bytes: u64) -> u32 {
    let affordable = (budget_bytes / size_of::<Row>() as u64).clamp(MIN_ROWS, MAX_ROWS);
    // Rounded down: the budget is a promise.
    let affordable = 1 << affordable.ilog2();
    if budget_bytes != RecordOptions::default().table_budget_bytes {
        return affordable as u32;
    }
    let rows = files.unwind_section_bytes() / EH_FRAME_BYTES_PER_ROW;
    let rows = if is_system_wide { rows + rows / 2 } else { rows };
    (rows + SPARE_ROWS).clamp(MIN_ROWS, MAX_ROWS).next_power_of_two().min(affordable) as u32
}

/// Pages that the files known so far will need, with room for more: 64 KiB of code each; a power of two.
pub(super) fn page_capacity(files: &ModuleFiles) -> u32 {
    let bytes: u64 = files
        .iter()
        .filter_map(|(_, file)| file.elf.as_ref())
        .flat_map(|elf| elf.segments())
        .filter(|segment| segment.is_executable)
        .map(|segment| segment.memory_size + (2 << 16))
        .fold(0, u64::saturating_add);
    ((bytes >> 16) * 2 + SPARE_PAGES).min(MAX_PAGES).next_power_of_two() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deep_stacks_take_no_more_than_a_share_of_the_period() {
        assert_eq!(max_walked_frames(99), 16_384);
        assert!(max_walked_frames(999) > 8000);
        assert!((1024..3000).contains(&max_walked_frames(4999)));
        assert_eq!(max_walked_frames(20_000), 1024);
    }
}
