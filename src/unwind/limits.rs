//! Upper bounds on what a foreign ELF file may make the compilation of its unwind table read, keep and compute.

use crate::elf::ElfLimits;

/// Limits for compiling the unwind table of one ELF file.
///
/// Every one of them is far above what real files need (the largest seen: 2.8 million rows, 90 MB of
/// `.symtab`); a file that passes one is refused, or the part is left out, as each field says.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Limits on reading the file.
    pub elf: ElfLimits,
    /// Bytes of code scanned for known instruction patterns; what lies beyond is not scanned.
    pub max_scanned_code_bytes: u64,
    /// Frame description entries; a file with more is refused.
    pub max_fdes: usize,
    /// Bytes of call frame instructions that may be executed in total. This is what bounds the time of
    /// a compilation: a CIE's instructions count again for every FDE that names it.
    pub max_cfi_bytes: u64,
    /// Rows of a table, before equal neighbours are merged; a file with more is refused.
    pub max_rows: usize,
    /// Different rules of a table; rows that would need more are left to user space.
    pub max_rules: usize,
    /// Pages of 64 KiB between a module's first and last executable byte.
    pub max_pages: usize,
    /// Symbols looked at when code has no unwind entries; those after it are not seen.
    pub max_symbols: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            // zstd can pack better than zlib's 1:1032, but no section that unwinding needs does.
            elf: ElfLimits { max_section_bytes: 512 << 20, max_inflation: 1032, ..ElfLimits::default() },
            max_scanned_code_bytes: 64 << 20,
            max_fdes: 8 << 20,
            max_cfi_bytes: 512 << 20,
            max_rows: 16 << 20,
            max_rules: 8192,
            max_pages: 65_536,
            max_symbols: 4 << 20,
        }
    }
}
