//! How much room the kernel side gets for unwind tables, before it is loaded: it cannot grow later.

use super::modules::ModuleFiles;
use super::options::RecordOptions;
use crate::unwind::Row;

/// Bytes of `.eh_frame` behind one unwind row, at the least: a low guess makes room for too much.
const EH_FRAME_BYTES_PER_ROW: u64 = 4;
/// Room for tables beyond those known at the start: libraries that are loaded later.
const SPARE_ROWS: u64 = 3 << 20;
/// The smallest row array that makes sense, and the largest that the verifier can index (2^29 bytes).
const MIN_ROWS: u64 = 1 << 12;
const MAX_ROWS: u64 = 1 << 26;

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
    ((bytes >> 16) * 2 + 16384).min(1 << 20).next_power_of_two() as u32
}
