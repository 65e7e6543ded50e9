//! Which unit of DWARF covers which addresses, found without reading more of a unit than its first entry.
//!
//! Compilers record the addresses of a unit in different places; the order of preference is addr2line's:
//! `DW_AT_ranges`, `.debug_aranges`, `DW_AT_low_pc` with `DW_AT_high_pc`, and the line table as a last resort.

use super::problem::DebugProblem;
use crate::symbols::error::SymbolError;
use crate::symbols::sections::dwarf::{DebugStores, Sections};
use crate::symbols::sections::reader::SectionReader;
use crate::symbols::sections::section::SectionData;
use crate::symbols::sort::sort_by_key;
use crate::symbols::work::{Charge, Work};
use gimli::{
    Abbreviations, AttributeValue, DebugAbbrev, DebugAbbrevOffset, DebugAddrBase, DebugArangesOffset,
    DebugInfoOffset, DebugLineOffset, DebugRngListsBase, Dwarf, EndianSlice, LittleEndian, Reader, SectionId,
    Unit, UnitHeader, UnitType, constants,
};
use std::sync::Arc;

/// Bytes in memory after which the sections are opened again while the units are listed.
const MAX_LOADED_BYTES: u64 = 2 << 20;
/// Most abbreviations skipped to find that of a unit's first entry. In all files seen it is the first.
const MAX_PASSED: usize = 1000;
/// Number of elements that memory is charged for at a time.
const CHARGE_STEP: usize = 1 << 12;

/// The place of a unit in the file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct UnitSpan {
    /// Offset of the unit's header in `.debug_info`.
    pub(crate) start: usize,
    /// One past the unit's last byte.
    pub(crate) end: usize,
    /// Offset of the unit's line table in `.debug_line`; `usize::MAX` if it has none.
    lines: usize,
}

impl UnitSpan {
    /// Offset of the unit's line table.
    pub(crate) fn lines(&self) -> Option<usize> {
        Some(self.lines).filter(|lines| *lines != usize::MAX)
    }
}

#[derive(Debug, Clone, Copy)]
struct UnitRange {
    begin: u64,
    end: u64,
    /// The lowest `begin` of this range and all that follow.
    min_begin: u64,
    unit: u32,
}

/// The units of one file.
#[derive(Debug)]
pub(crate) struct UnitIndex {
    units: Vec<UnitSpan>,
    /// Address ranges, sorted by end, then by unit.
    ranges: Vec<UnitRange>,
    /// The problem with some units; all others are listed.
    pub(crate) problem: Option<DebugProblem>,
    charge: Charge,
}

impl UnitIndex {
    /// Lists the units.
    pub(crate) fn build(stores: &DebugStores, work: &Arc<Work>) -> Result<Self, SymbolError> {
        let mut index =
            UnitIndex { units: Vec::new(), ranges: Vec::new(), problem: None, charge: Charge::none(work) };
        let sets = AddressSets::read(stores, work)?;
        let mut sections = stores.open(work)?;
        let mut known = KnownRoot::default();
        let mut at = 0;
        while at < sections.get(SectionId::DebugInfo).len() {
            if work.is_late() {
                return Err(SymbolError::Stopped);
            }
            if sections.loaded_bytes() > MAX_LOADED_BYTES {
                sections = stores.open(work)?;
            }
            let dwarf = sections.dwarf();
            let Ok(header) = dwarf.debug_info.header_from_offset(DebugInfoOffset(at)) else {
                index.note_error(work)?;
                break;
            };
            let end = at + header.length_including_self();
            index.make_room()?;
            let number = index.units.len() as u32;
            index.units.push(UnitSpan { start: at, end, lines: usize::MAX });
            let listing = UnitListing { dwarf: &dwarf, sections: &sections, sets: &sets, number };
            if listing.list(header, &mut known, &mut index).is_err() {
                index.note_error(work)?;
            }
            at = end;
        }
        index.sort(work)?;
        Ok(index)
    }

    /// Distinguishes an error in the file, which costs one unit, from a refusal by the limits, which ends the listing.
    fn note_error(&mut self, work: &Work) -> Result<(), SymbolError> {
        use crate::symbols::work::WorkRefusal;
        let problem = match work.refusal() {
            Some(WorkRefusal::Late) => return Err(SymbolError::Stopped),
            Some(WorkRefusal::Memory(refused)) => return Err(SymbolError::NoMemory(refused)),
            Some(WorkRefusal::Spent) => DebugProblem::TooBig,
            Some(WorkRefusal::Damaged) | None => DebugProblem::Damaged,
        };
        self.problem = self.problem.or(Some(problem));
        Ok(())
    }

    fn make_room(&mut self) -> Result<(), SymbolError> {
        if self.units.len() == self.units.capacity() {
            // Doubling copies the list, so both copies exist for a while.
            let more = self.units.len().max(CHARGE_STEP);
            self.charge.add((more * size_of::<UnitSpan>()) as u64)?;
            self.units.reserve_exact(more);
        }
        Ok(())
    }

    fn push(&mut self, begin: u64, end: u64, unit: u32) -> gimli::Result<()> {
        if begin >= end {
            return Ok(());
        }
        if self.ranges.len() == self.ranges.capacity() {
            let more = self.ranges.len().max(CHARGE_STEP);
            // The refusal is noted; any error ends the listing.
            let bytes = (more * size_of::<UnitRange>()) as u64;
            self.charge.add(bytes).map_err(|_| gimli::Error::Io)?;
            self.ranges.reserve_exact(more);
        }
        self.ranges.push(UnitRange { begin, end, min_begin: 0, unit });
        Ok(())
    }

    fn sort(&mut self, work: &Work) -> Result<(), SymbolError> {
        self.charge.add((self.ranges.len() * size_of::<UnitRange>()) as u64)?;
        sort_by_key(&mut self.ranges, |range| (range.end, range.unit), || !work.is_late())
            .ok_or(SymbolError::Stopped)?;
        let mut least = u64::MAX;
        for range in self.ranges.iter_mut().rev() {
            least = least.min(range.begin);
            range.min_begin = least;
        }
        self.ranges.shrink_to_fit();
        self.units.shrink_to_fit();
        let bytes = self.ranges.len() * size_of::<UnitRange>() + self.units.len() * size_of::<UnitSpan>();
        self.charge.shrink_to(bytes as u64);
        Ok(())
    }

    /// A unit by its number.
    pub(crate) fn unit(&self, number: u32) -> Option<UnitSpan> {
        self.units.get(number as usize).copied()
    }

    /// The number of the unit that contains an offset in `.debug_info`.
    pub(super) fn unit_at(&self, offset: usize) -> Option<u32> {
        let after = self.units.partition_point(|unit| unit.start <= offset);
        let number = after.checked_sub(1)?;
        (offset < self.units[number].end).then_some(number as u32)
    }

    /// The units that may cover `address`, in the order in which to ask them.
    pub(super) fn covering(&self, address: u64) -> impl Iterator<Item = u32> + '_ {
        let first = self.ranges.partition_point(|range| range.end <= address);
        (self.ranges[first..].iter())
            .take_while(move |range| range.min_begin <= address)
            .filter(move |range| range.begin <= address)
            .map(|range| range.unit)
    }
}

/// The sets of `.debug_aranges`, by unit.
#[derive(Debug)]
struct AddressSets {
    /// Unit and offset of its set, sorted.
    sets: Vec<(usize, usize)>,
    _charge: Charge,
}

impl AddressSets {
    fn read(stores: &DebugStores, work: &Arc<Work>) -> Result<Self, SymbolError> {
        let sections = stores.open(work)?;
        let charge = Charge::none(work);
        let mut sets = Vec::new();
        let mut headers = sections.dwarf().debug_aranges.headers();
        // A damaged set hides those after it: their units have address ranges of their own.
        while let Ok(Some(header)) = headers.next() {
            if sets.len().is_multiple_of(CHARGE_STEP) {
                charge.add((CHARGE_STEP * size_of::<(usize, usize)>() * 2) as u64)?;
            }
            sets.push((header.debug_info_offset().0, header.offset().0));
        }
        if work.is_late() {
            return Err(SymbolError::Stopped);
        }
        sort_by_key(&mut sets, |set| *set, || !work.is_late()).ok_or(SymbolError::Stopped)?;
        Ok(AddressSets { sets, _charge: charge })
    }

    fn of_unit(&self, unit: usize) -> impl Iterator<Item = usize> + '_ {
        let first = self.sets.partition_point(|(other, _)| *other < unit);
        self.sets[first..].iter().take_while(move |(other, _)| *other == unit).map(|(_, set)| *set)
    }
}

/// The abbreviation of a first entry, cached because the next unit often has the same one.
#[derive(Debug, Default)]
struct KnownRoot {
    /// Offset in `.debug_abbrev`, and the code of the abbreviation.
    key: Option<(usize, u64)>,
    abbreviations: Arc<Abbreviations>,
}

impl KnownRoot {
    /// The table at `offset`, read only for the abbreviation `code`.
    fn find(&mut self, section: &SectionData, offset: usize, code: u64) -> gimli::Result<Arc<Abbreviations>> {
        if self.key != Some((offset, code)) {
            let mut reader = SectionReader::new(section);
            reader.skip(offset)?;
            let bytes = abbreviation_bytes(reader, code)?;
            let table = DebugAbbrev::from(EndianSlice::new(&bytes, LittleEndian));
            self.abbreviations = Arc::new(table.abbreviations(DebugAbbrevOffset(0))?);
            self.key = Some((offset, code));
        }
        Ok(Arc::clone(&self.abbreviations))
    }
}

/// The bytes of the abbreviation `code`, followed by an end of table.
fn abbreviation_bytes(mut reader: SectionReader<'_>, code: u64) -> gimli::Result<Vec<u8>> {
    for _ in 0..MAX_PASSED {
        let start = reader;
        let this_code = reader.read_uleb128()?;
        if this_code == 0 {
            break;
        }
        reader.read_uleb128()?; // Tag.
        reader.read_u8()?; // Whether it has children.
        loop {
            let (name, form) = (reader.read_uleb128()?, reader.read_uleb128()?);
            if form == u64::from(constants::DW_FORM_implicit_const.0) {
                reader.read_sleb128()?;
            }
            if (name, form) == (0, 0) {
                break;
            }
        }
        if this_code == code {
            let mut part = start;
            part.truncate(reader.offset_from(&start))?;
            let mut bytes = part.to_slice()?.into_owned();
            bytes.push(0);
            return Ok(bytes);
        }
    }
    Err(gimli::Error::InvalidAbbreviationCode(code))
}

/// One unit that is being listed.
struct UnitListing<'a, 's> {
    dwarf: &'a Dwarf<SectionReader<'s>>,
    sections: &'s Sections,
    sets: &'a AddressSets,
    number: u32,
}

/// The address ranges given in the first entry of a unit.
#[derive(Default)]
struct Root<'s> {
    ranges: Option<AttributeValue<SectionReader<'s>>>,
    low: Option<AttributeValue<SectionReader<'s>>>,
    high: Option<AttributeValue<SectionReader<'s>>>,
    lines: Option<DebugLineOffset>,
}

impl<'s> UnitListing<'_, 's> {
    /// Adds the ranges of the unit to the index.
    fn list(
        &self,
        header: UnitHeader<SectionReader<'s>>,
        known: &mut KnownRoot,
        index: &mut UnitIndex,
    ) -> gimli::Result<()> {
        let start = header.offset().0;
        if matches!(header.type_(), UnitType::Type { .. } | UnitType::SplitType { .. }) {
            return Ok(());
        }
        let code = header.range_from(header.root_offset()..)?.read_uleb128()?;
        let table = self.sections.get(SectionId::DebugAbbrev);
        let abbreviations = known.find(table, header.debug_abbrev_offset().0, code)?;
        let mut unit = bare_unit(header, abbreviations);
        let Some(root) = read_root(&mut unit)? else { return Ok(()) };
        if let (Some(span), Some(lines)) = (index.units.last_mut(), root.lines) {
            span.lines = lines.0;
        }
        if let Some(offset) = root.ranges.map(|value| self.dwarf.attr_ranges_offset(&unit, value)) {
            if let Some(low) = root.low {
                unit.low_pc = self.dwarf.attr_address(&unit, low)?.unwrap_or(0);
            }
            if let Some(offset) = offset?
                && self.add_list(&unit, offset, index)?
            {
                return Ok(());
            }
        } else if self.add_sets(start, index)? {
            return Ok(());
        }
        if let Some(low) = root.low
            && let Some(low) = self.dwarf.attr_address(&unit, low)?
        {
            let high = match root.high {
                Some(AttributeValue::Udata(size)) => Some(low.wrapping_add(size)),
                Some(value) => self.dwarf.attr_address(&unit, value)?,
                None => None,
            };
            if let Some(high) = high.filter(|high| *high > low) {
                return index.push(low, high, self.number);
            }
        }
        root.lines.map_or(Ok(()), |lines| self.add_lines(&unit, lines, index))
    }

    fn add_list(
        &self,
        unit: &Unit<SectionReader<'s>>,
        offset: gimli::RangeListsOffset,
        index: &mut UnitIndex,
    ) -> gimli::Result<bool> {
        let before = index.ranges.len();
        let mut ranges = self.dwarf.ranges(unit, offset)?;
        while let Some(range) = ranges.next()? {
            index.push(range.begin, range.end, self.number)?;
        }
        Ok(index.ranges.len() > before)
    }

    fn add_sets(&self, start: usize, index: &mut UnitIndex) -> gimli::Result<bool> {
        let before = index.ranges.len();
        for set in self.sets.of_unit(start) {
            let header = self.dwarf.debug_aranges.header(DebugArangesOffset(set))?;
            let mut entries = header.entries();
            while let Some(entry) = entries.next().transpose() {
                // A range that overflows, as rustc writes for a unit without code, is left out.
                if let Ok(entry) = entry
                    && entry.length() != 0
                {
                    index.push(entry.range().begin, entry.range().end, self.number)?;
                }
            }
        }
        Ok(index.ranges.len() > before)
    }

    fn add_lines(
        &self,
        unit: &Unit<SectionReader<'s>>,
        lines: DebugLineOffset,
        index: &mut UnitIndex,
    ) -> gimli::Result<()> {
        let program = self.dwarf.debug_line.program(lines, unit.header.address_size(), None, None)?;
        let mut rows = program.rows();
        let mut begin = None;
        while let Some((_, row)) = rows.next_row()? {
            if row.end_sequence() {
                if let Some(begin) = begin.take() {
                    index.push(begin, row.address(), self.number)?;
                }
            } else if begin.is_none() {
                begin = Some(row.address());
            }
        }
        Ok(())
    }
}

/// A unit without its strings and line table, which would need more reads.
fn bare_unit<'s>(
    header: UnitHeader<SectionReader<'s>>,
    abbreviations: Arc<Abbreviations>,
) -> Unit<SectionReader<'s>> {
    let (encoding, file) = (header.encoding(), gimli::DwarfFileType::Main);
    Unit {
        header,
        abbreviations,
        name: None,
        comp_dir: None,
        low_pc: 0,
        str_offsets_base: gimli::DebugStrOffsetsBase::default_for_encoding_and_file(encoding, file),
        addr_base: DebugAddrBase(0),
        loclists_base: gimli::DebugLocListsBase::default_for_encoding_and_file(encoding, file),
        rnglists_base: DebugRngListsBase::default_for_encoding_and_file(encoding, file),
        line_program: None,
        dwo_id: None,
    }
}

/// Reads the first entry; `None` for a unit that covers no code of its own.
fn read_root<'s>(unit: &mut Unit<SectionReader<'s>>) -> gimli::Result<Option<Root<'s>>> {
    let (mut root, mut addr_base, mut rnglists_base) = (Root::default(), unit.addr_base, unit.rnglists_base);
    let abbreviations = Arc::clone(&unit.abbreviations);
    let mut entries = unit.header.entries_raw(&abbreviations, None)?;
    let Some(abbreviation) = entries.read_abbreviation()? else { return Ok(None) };
    let is_partial = abbreviation.tag() == constants::DW_TAG_partial_unit
        || matches!(unit.header.type_(), UnitType::Partial);
    for spec in abbreviation.attributes() {
        let attribute = entries.read_attribute(*spec)?;
        match (attribute.name(), attribute.value()) {
            (constants::DW_AT_ranges, value) => root.ranges = Some(value),
            (constants::DW_AT_low_pc, value) => root.low = Some(value),
            (constants::DW_AT_high_pc, value) => root.high = Some(value),
            (constants::DW_AT_stmt_list, AttributeValue::DebugLineRef(lines)) => root.lines = Some(lines),
            (
                constants::DW_AT_addr_base | constants::DW_AT_GNU_addr_base,
                AttributeValue::DebugAddrBase(base),
            ) => addr_base = base,
            (
                constants::DW_AT_rnglists_base | constants::DW_AT_GNU_ranges_base,
                AttributeValue::DebugRngListsBase(base),
            ) => rnglists_base = base,
            _ => {}
        }
    }
    (unit.addr_base, unit.rnglists_base) = (addr_base, rnglists_base);
    Ok((!is_partial).then_some(root))
}
