//! Limits for reading, unpacking and following references in foreign files.

use crate::base::memory_budget::MemoryBudget;
use crate::elf::ElfLimits;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

/// Memory for the sections that a process unpacks as a whole in the background at a time, within that of all work, bytes.
const BACKGROUND_WHOLE_BYTES: u64 = 32 << 20;

/// When a compressed section is unpacked as a whole, and the memory for that. Without memory left, it is unpacked in parts.
#[derive(Debug, Clone)]
pub(crate) enum WholeSections {
    /// When it is read for the first time; it stays. The memory comes on top of that of all other work.
    AtOnce(Arc<MemoryBudget>),
    /// When a lookup has unpacked more than its length, time and again, in parts; until the lookup ends. The memory is a part of
    /// that of all work.
    AfterRepeats(Arc<MemoryBudget>),
}

impl WholeSections {
    /// As is right while something is recorded.
    fn in_background() -> Self {
        static MEMORY: OnceLock<Arc<MemoryBudget>> = OnceLock::new();
        let memory = MEMORY.get_or_init(|| Arc::new(MemoryBudget::new(BACKGROUND_WHOLE_BYTES)));
        WholeSections::AfterRepeats(Arc::clone(memory))
    }
}

/// Limits for one module (one ELF file with its debug file) or one symbol list.
///
/// The defaults are large enough for any program that a distribution ships; anything beyond them is skipped and
/// reported (see [`super::elf_names::resolve::ModuleNames::problem`]), never read half-way.
#[derive(Debug, Clone)]
pub struct NamingLimits {
    /// Limits for reading the ELF file.
    pub elf: ElfLimits,
    /// Entries of one symbol table, and symbols of the kernel.
    pub max_symbols: u64,
    /// Bytes kept of one name.
    pub(crate) max_name_bytes: usize,
    /// Functions at one address, inlined ones included; the outermost is always kept.
    pub(crate) max_inline_depth: usize,
    /// Number of times that the bytes read of each debug section may be read again for one unit. Real files need two or
    /// three; a file whose entries all refer to the same long list would need thousands.
    pub(crate) max_rereads: u64,
    /// Bytes of a perf map.
    pub(crate) max_perf_map_bytes: u64,
    /// Entries of a perf map.
    pub(crate) max_perf_map_entries: usize,
    /// Wall time for the DWARF of one module, if the deadline is not sooner. Addresses not reached by then get names
    /// from the symbol table.
    pub(crate) max_time: Duration,
    /// Threads that read the DWARF of one module at the same time.
    pub(crate) max_threads: usize,
    /// When compressed sections are unpacked as a whole, instead of in parts.
    pub(crate) whole_sections: WholeSections,
}

impl NamingLimits {
    /// Most threads that are of use.
    const MOST_THREADS: usize = 4;

    /// Limits where somebody waits for the names and nothing is recorded meanwhile, with memory for whole sections.
    pub(crate) fn of_foreground(whole_sections: &Arc<MemoryBudget>) -> Self {
        let cpus = std::thread::available_parallelism().map_or(1, usize::from);
        NamingLimits {
            max_time: Duration::from_secs(600),
            max_threads: cpus.min(Self::MOST_THREADS),
            whole_sections: WholeSections::AtOnce(Arc::clone(whole_sections)),
            ..NamingLimits::default()
        }
    }
}

impl Default for NamingLimits {
    fn default() -> Self {
        NamingLimits {
            elf: ElfLimits::default(),
            max_symbols: 16_000_000,
            max_name_bytes: 4096,
            max_inline_depth: 256,
            max_rereads: 32,
            max_perf_map_bytes: 64 << 20,
            max_perf_map_entries: 2_000_000,
            max_time: Duration::from_secs(10),
            max_threads: 1,
            whole_sections: WholeSections::in_background(),
        }
    }
}

/// At most `max` bytes of `text`, cut between characters.
pub(crate) fn cut_text(text: &str, max: usize) -> &str {
    match text.char_indices().map(|(at, letter)| at + letter.len_utf8()).take_while(|&end| end <= max).last()
    {
        _ if text.len() <= max => text,
        end => &text[..end.unwrap_or(0)],
    }
}
