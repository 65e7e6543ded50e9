//! How much of a stranger's file this module is willing to read, unpack and chase.

use std::time::Duration;

/// Limits for one module (one ELF file with its debug file) or one symbol list.
///
/// The defaults let every program pass that a distribution ships; what lies beyond is skipped and
/// reported (see [`super::elf_names::resolve::ModuleNames::problem`]), never read half-way.
#[derive(Debug, Clone)]
pub struct Limits {
    /// Section headers of one file.
    pub max_sections: u32,
    /// Bytes of one section, as stored and as unpacked.
    pub max_section_bytes: u64,
    /// How many times larger than its packed form a compressed section may be. Sections that unpack to
    /// less than 1 MiB are exempt.
    pub max_inflation: u64,
    /// Entries of one symbol table, and symbols of the kernel.
    pub max_symbols: u64,
    /// Bytes kept of one name.
    pub max_name_bytes: usize,
    /// Functions at one address, inlined ones included; the outermost is always kept.
    pub max_inline_depth: usize,
    /// Times that what was read of each debug section may be read over for one unit. Honest files need two or three; a
    /// file whose entries all refer to the same long list would need thousands.
    pub max_rereads: u64,
    /// Bytes of a perf map.
    pub max_perf_map_bytes: u64,
    /// Entries of a perf map.
    pub max_perf_map_entries: usize,
    /// Wall time for the DWARF of one module, if the deadline is not sooner. Addresses not reached by then get
    /// symbol-table names.
    pub max_time: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            max_sections: 65_536,
            max_section_bytes: 8 << 30,
            max_inflation: 64,
            max_symbols: 16_000_000,
            max_name_bytes: 4096,
            max_inline_depth: 256,
            max_rereads: 32,
            max_perf_map_bytes: 64 << 20,
            max_perf_map_entries: 2_000_000,
            max_time: Duration::from_secs(10),
        }
    }
}
