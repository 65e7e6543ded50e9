//! addr2line's tables of one unit, over a view of the debug sections that hides all other units.
//!
//! addr2line reads the first entry, the abbreviations and the header of the line table of every unit before it answers
//! anything. In a view, all units but those wanted are covered by unit headers whose abbreviations do not exist:
//! addr2line skips such units. Offsets stay the same.

use super::split::SplitUnit;
use super::units::UnitSpan;
use crate::elf::ElfError;
use crate::symbols::error::SymbolError;
use crate::symbols::sections::dwarf::Sections;
use crate::symbols::sections::reader::SectionReader;
use crate::symbols::sections::section::SectionData;
use crate::symbols::work::Work;
use addr2line::Context;
use gimli::{Abbreviations, DebugAbbrevOffset, SectionId};
use std::sync::{Arc, OnceLock};

type UnitTables<'a> = Context<SectionReader<'a>>;

self_cell::self_cell!(
    /// A unit's tables, with the bytes that they are read from on demand.
    pub(crate) struct UnitContext {
        owner: UnitView,
        #[not_covariant]
        dependent: UnitTables,
    }
);

/// The sections of a module as addr2line sees them.
#[derive(Debug)]
pub(crate) struct UnitView {
    info: SectionData,
    aranges: SectionData,
    rest: Arc<Sections>,
    /// `.debug_info` and all other sections of the file that several modules share.
    shared: Option<(SectionData, Arc<Sections>)>,
    /// The unit with the functions, if they are in another file; `None` inside: it was not found.
    pub(super) split: OnceLock<Option<SplitUnit>>,
}

impl UnitView {
    /// Restarts the counts of reads of the parts that belong to this unit alone.
    pub(super) fn begin(&self) {
        if let Some(Some(split)) = self.split.get() {
            split.sections().begin();
        }
    }
}

/// The units of a file that are in a view, sorted, and that file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Members<'a> {
    pub(crate) units: &'a [Member],
    pub(crate) sections: &'a Arc<Sections>,
}

/// A unit that is in a view.
#[derive(Debug)]
pub(crate) struct Member {
    pub(crate) span: UnitSpan,
    pub(crate) abbreviations: (usize, Arc<Abbreviations>),
    /// Whether this unit is the one looked up; other units are there for their names.
    pub(crate) is_asked: bool,
}

impl UnitContext {
    /// Opens the tables of the unit that is looked up among the units of `main`.
    pub(crate) fn open(
        main: Members<'_>,
        shared: Option<Members<'_>>,
        work: &Arc<Work>,
    ) -> Result<Self, SymbolError> {
        let shared_view = match shared {
            Some(shared) => Some((info_of(shared, work)?, Arc::clone(shared.sections))),
            None => None,
        };
        let view = UnitView {
            info: info_of(main, work)?,
            aranges: SectionData::of_bytes(address_sets(main.units), work),
            rest: Arc::clone(main.sections),
            shared: shared_view,
            split: OnceLock::new(),
        };
        UnitContext::try_new(view, |view| {
            let mut dwarf = view.rest.dwarf_with(|id| match id {
                SectionId::DebugInfo => &view.info,
                SectionId::DebugAranges => &view.aranges,
                id => view.rest.get(id),
            });
            keep_abbreviations(&mut dwarf, main.units);
            if let (Some((info, rest)), Some(shared)) = (&view.shared, shared) {
                let mut shared_dwarf = rest.dwarf_with(|id| match id {
                    SectionId::DebugInfo => info,
                    id => rest.get(id),
                });
                keep_abbreviations(&mut shared_dwarf, shared.units);
                dwarf.set_sup(shared_dwarf);
            }
            Context::from_dwarf(dwarf).map_err(|_| ElfError::Malformed("debug information").into())
        })
    }
}

fn keep_abbreviations(dwarf: &mut gimli::Dwarf<SectionReader<'_>>, members: &[Member]) {
    for Member { abbreviations: (offset, abbreviations), .. } in members {
        let offset = DebugAbbrevOffset(*offset);
        dwarf.abbreviations_cache.set::<SectionReader<'_>>(offset, Arc::clone(abbreviations));
    }
}

/// `.debug_info` with only the members visible.
fn info_of(members: Members<'_>, work: &Arc<Work>) -> Result<SectionData, SymbolError> {
    let base = members.sections.get(SectionId::DebugInfo);
    let (mut patches, mut covered) = (Vec::new(), 0);
    for Member { span, .. } in members.units {
        if span.start > covered {
            patches.push((covered, unreadable_header(span.start - covered)?));
        }
        covered = span.end;
    }
    SectionData::overlay(base, covered, &patches, work)
}

/// The header of a unit of `len` bytes whose abbreviations lie after the end of any section. Version 4, as its header
/// is the shortest.
fn unreadable_header(len: usize) -> Result<Vec<u8>, SymbolError> {
    const VERSION: [u8; 2] = [4, 0];
    const ADDRESS_SIZE: u8 = 8;
    let len = len as u64;
    let mut header = Vec::new();
    match u32::try_from(len).ok().filter(|len| *len < 0xffff_fff0) {
        Some(len) => {
            let length = len.checked_sub(4).ok_or(ElfError::Malformed("debug information"))?;
            header.extend_from_slice(&length.to_le_bytes());
            header.extend_from_slice(&VERSION);
            header.extend_from_slice(&u32::MAX.to_le_bytes());
        }
        None => {
            header.extend_from_slice(&u32::MAX.to_le_bytes());
            header.extend_from_slice(&(len - 12).to_le_bytes());
            header.extend_from_slice(&VERSION);
            header.extend_from_slice(&u64::MAX.to_le_bytes());
        }
    }
    header.push(ADDRESS_SIZE);
    match header.len() as u64 <= len {
        true => Ok(header),
        false => Err(ElfError::Malformed("debug information").into()),
    }
}

/// `.debug_aranges` for a view: the unit that is looked up has all addresses, the others an unused byte. Without it
/// addr2line would run the line tables of units that do not list their addresses.
fn address_sets(members: &[Member]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for Member { span, is_asked, .. } in members {
        let (address, len) = if *is_asked { (1, u64::MAX - 2) } else { (u64::MAX - 2, 1) };
        // A length of 64 bits, version 2, the unit, sizes of addresses and segments: 24 bytes; then pairs, aligned.
        let mut set = Vec::new();
        set.extend_from_slice(&2_u16.to_le_bytes());
        set.extend_from_slice(&(span.start as u64).to_le_bytes());
        set.extend_from_slice(&[8, 0]);
        set.resize(20, 0);
        for number in [address, len, 0, 0] {
            set.extend_from_slice(&u64::to_le_bytes(number));
        }
        bytes.extend_from_slice(&u32::MAX.to_le_bytes());
        bytes.extend_from_slice(&(set.len() as u64).to_le_bytes());
        bytes.append(&mut set);
    }
    bytes
}
