//! The debug sections of a module that lookups use.

use super::reader::SectionReader;
use super::section::{SectionData, Store};
use crate::elf::{ElfFile, Section as ElfSection};
use crate::symbols::error::SymbolError;
use crate::symbols::limits::NamingLimits;
use crate::symbols::work::Work;
use gimli::{Dwarf, DwarfSections, SectionId};
use std::sync::Arc;

/// The sections that lookups use. All others (types, locations, macros) stay unread.
const SECTIONS: [SectionId; 10] = [
    SectionId::DebugAbbrev,
    SectionId::DebugAddr,
    SectionId::DebugAranges,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLineStr,
    SectionId::DebugRanges,
    SectionId::DebugRngLists,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
];

/// The sections of a `.dwo` or `.dwp` file that lookups use, with the indices of a `.dwp` and the sections that the
/// index has a part of for each unit.
const SPLIT_SECTIONS: [SectionId; 12] = [
    SectionId::DebugAbbrev,
    SectionId::DebugCuIndex,
    SectionId::DebugInfo,
    SectionId::DebugLine,
    SectionId::DebugLoc,
    SectionId::DebugLocLists,
    SectionId::DebugMacinfo,
    SectionId::DebugMacro,
    SectionId::DebugRngLists,
    SectionId::DebugTypes,
    SectionId::DebugStr,
    SectionId::DebugStrOffsets,
];

/// Whether `image` has DWARF of functions.
pub(crate) fn has_debug_info(image: &ElfFile) -> bool {
    debug_section(image, SectionId::DebugInfo).is_some_and(ElfSection::has_bytes)
}

/// Whether `image` has split DWARF units.
pub(crate) fn has_split_units(image: &ElfFile) -> bool {
    split_section(image, SectionId::DebugInfo).is_some_and(ElfSection::has_bytes)
}

fn debug_section(image: &ElfFile, id: SectionId) -> Option<&ElfSection> {
    section_called(image, id.name())
}

fn split_section(image: &ElfFile, id: SectionId) -> Option<&ElfSection> {
    section_called(image, id.dwo_name().unwrap_or(id.name()))
}

fn section_called<'i>(image: &'i ElfFile, name: &str) -> Option<&'i ElfSection> {
    let old = || format!(".z{}", name.trim_start_matches('.'));
    image.section(name.as_bytes()).or_else(|| image.section(old().as_bytes()))
}

/// The places of the debug sections.
#[derive(Debug)]
pub(crate) struct DebugStores {
    stores: Vec<(SectionId, Store, u64)>,
    max_rereads: u64,
}

impl DebugStores {
    /// Finds all sections that lookups need, or none: half of the sections would give wrong answers.
    pub(crate) fn find(
        image: &ElfFile,
        limits: &NamingLimits,
        work: &Arc<Work>,
    ) -> Result<Self, SymbolError> {
        Self::find_by(image, &SECTIONS, debug_section, limits, work)
    }

    /// Finds the sections of a `.dwo` or `.dwp` file, as [`DebugStores::find`] does.
    pub(crate) fn find_split(
        image: &ElfFile,
        limits: &NamingLimits,
        work: &Arc<Work>,
    ) -> Result<Self, SymbolError> {
        Self::find_by(image, &SPLIT_SECTIONS, split_section, limits, work)
    }

    fn find_by<'i>(
        image: &'i ElfFile,
        ids: &[SectionId],
        section: impl Fn(&'i ElfFile, SectionId) -> Option<&'i ElfSection>,
        limits: &NamingLimits,
        work: &Arc<Work>,
    ) -> Result<Self, SymbolError> {
        let mut stores = Vec::new();
        for &id in ids {
            if let Some(section) = section(image, id).filter(|section| section.has_bytes()) {
                let contents = image.contents(section, "debug section")?;
                let len = contents.len;
                stores.push((id, Store::open(image.source(), contents, work)?, len));
            }
        }
        Ok(DebugStores { stores, max_rereads: limits.max_rereads })
    }

    /// The same places for another thread.
    pub(crate) fn another(&self, work: &Arc<Work>) -> Self {
        let stores = self.stores.iter().map(|(id, store, len)| (*id, store.another(work), *len)).collect();
        DebugStores { stores, max_rereads: self.max_rereads }
    }

    /// Opens the sections, none of which is in memory yet.
    pub(crate) fn open(&self, work: &Arc<Work>) -> Result<Sections, SymbolError> {
        let open = |(id, store, len): &(SectionId, Store, u64)| {
            let section = SectionData::new(store.clone(), *len, self.max_rereads, work)?;
            Ok((*id, Arc::new(section)))
        };
        let sections = self.stores.iter().map(open).collect::<Result<_, SymbolError>>()?;
        Ok(Sections { sections, empty: Arc::new(SectionData::empty(work)) })
    }
}

/// The debug sections, of which only the pages read are in memory.
#[derive(Debug)]
pub(crate) struct Sections {
    sections: Vec<(SectionId, Arc<SectionData>)>,
    empty: Arc<SectionData>,
}

impl Sections {
    /// A section; an empty one if the module has none of that kind.
    pub(crate) fn get(&self, id: SectionId) -> &Arc<SectionData> {
        self.sections.iter().find(|(other, _)| *other == id).map_or(&self.empty, |(_, section)| section)
    }

    /// Bytes of pages in memory.
    pub(crate) fn loaded_bytes(&self) -> u64 {
        self.sections.iter().map(|(_, section)| section.loaded_bytes()).sum()
    }

    /// Restarts the counts of reads, because they are per unit.
    pub(crate) fn begin(&self) {
        /// Each range of an entry takes two reads, and 40 bytes in addr2line's tables.
        const MAX_RANGE_READS: u64 = 2 << 20;
        for (id, section) in &self.sections {
            let is_ranges = matches!(id, SectionId::DebugRanges | SectionId::DebugRngLists);
            section.begin(if is_ranges { MAX_RANGE_READS } else { u64::MAX });
        }
    }

    /// Readers of the sections.
    pub(crate) fn dwarf(&self) -> Dwarf<SectionReader<'_>> {
        self.dwarf_with(|id| self.get(id))
    }

    /// Readers of the sections that `choose` gives.
    pub(crate) fn dwarf_with<'a>(
        &'a self,
        choose: impl Fn(SectionId) -> &'a SectionData,
    ) -> Dwarf<SectionReader<'a>> {
        let Ok(sections) = DwarfSections::load(|id| Ok::<_, std::convert::Infallible>(choose(id)));
        sections.borrow(|section| SectionReader::new(section))
    }
}
