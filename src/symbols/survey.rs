//! A look through the entries of a unit before addr2line reads them: how much memory that will take, and which other
//! units it will look into.
//!
//! A name may stand in another unit: link-time optimisation inlines across units, and dwz moves what several units have in
//! common to one that they share. Without those units addr2line fails; with all units it is slow and large.

use super::SymbolError;
use super::dwarf_sections::Sections;
use super::reader::SectionReader;
use super::units::UnitIndex;
use super::work::{Charge, Work};
use gimli::{
    Abbreviation, Abbreviations, AttributeValue, DebugAbbrevOffset, DebugInfoOffset, DebugLineOffset, Reader,
    SectionId, UnitHeader, UnitOffset, constants,
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;
use std::sync::Arc;

/// References that are followed from entry to entry for a name; addr2line follows 16.
const MAX_CHAIN: usize = 16;
/// References to entries of other units that are followed. The units of those beyond are not there, and nor are the names.
const MAX_TARGETS: usize = 1 << 20;
/// Reads of one table of abbreviations: the largest seen takes 200,000. A read makes 32 bytes in memory at most.
const MAX_ABBREVIATION_READS: u64 = 2 << 20;
const ABBREVIATION_READ_BYTES: u64 = 32;
/// Memory that addr2line takes for a function or an inlined one, bytes.
const FUNCTION_BYTES: u64 = 176;
/// Memory for a byte of the header of a line table: names of files.
const LINE_HEADER_FACTOR: u64 = 48;
/// Memory for a row of a line table, which was copied when its list grew.
const ROW_BYTES: u64 = 48;
/// Memory for a byte of a line program. A row takes at least one byte, and four in what compilers write.
const LINE_FACTOR: u64 = 12;
/// The rows of longer line programs are counted.
const MAX_UNCOUNTED_LINES: u64 = 256 << 10;
/// Memory for a unit that is there for its names, bytes.
const MEMBER_BYTES: u64 = 1024;

/// Tables of abbreviations that were read, by their place.
pub(super) type KnownAbbreviations = FxHashMap<usize, (Arc<Abbreviations>, Charge)>;

/// What a unit takes.
#[derive(Debug)]
pub(super) struct Survey {
    /// The unit and those that it refers to, by number.
    pub(super) members: BTreeSet<u32>,
    /// Memory of addr2line's tables, bytes.
    pub(super) memory_bytes: u64,
}

/// Looks through units.
pub(super) struct Surveyor<'a> {
    pub(super) sections: &'a Sections,
    pub(super) index: &'a UnitIndex,
    pub(super) known: &'a mut KnownAbbreviations,
    pub(super) work: &'a Arc<Work>,
}

fn damaged<E>(_: E) -> SymbolError {
    SymbolError::Damaged("debug information")
}

impl<'a> Surveyor<'a> {
    /// Looks through a unit.
    pub(super) fn survey(&mut self, unit: u32) -> Result<Survey, SymbolError> {
        let mut members = BTreeSet::from([unit]);
        let (functions, targets) = self.entries(unit)?;
        self.follow(targets, &mut members)?;
        let mut memory_bytes = functions.saturating_mul(FUNCTION_BYTES);
        for &member in &members {
            memory_bytes = memory_bytes.saturating_add(self.lines(member, member == unit)?);
        }
        Ok(Survey { members, memory_bytes })
    }

    fn header(&self, unit: u32) -> Result<UnitHeader<SectionReader<'a>>, SymbolError> {
        let span = self.index.unit(unit).ok_or(SymbolError::Damaged("debug information"))?;
        let info = SectionReader::new(self.sections.get(SectionId::DebugInfo));
        gimli::DebugInfo::from(info).header_from_offset(DebugInfoOffset(span.start)).map_err(damaged)
    }

    /// The abbreviations of a unit.
    pub(super) fn abbreviations(&mut self, unit: u32) -> Result<(usize, Arc<Abbreviations>), SymbolError> {
        let offset = self.header(unit)?.debug_abbrev_offset().0;
        if let Some((abbreviations, _)) = self.known.get(&offset) {
            return Ok((offset, Arc::clone(abbreviations)));
        }
        let section = self.sections.get(SectionId::DebugAbbrev);
        section.begin(MAX_ABBREVIATION_READS);
        let table = gimli::DebugAbbrev::from(SectionReader::new(section));
        let abbreviations = Arc::new(table.abbreviations(DebugAbbrevOffset(offset)).map_err(damaged)?);
        let charge = Charge::new(self.work, section.reads() * ABBREVIATION_READ_BYTES)?;
        self.known.insert(offset, (Arc::clone(&abbreviations), charge));
        Ok((offset, abbreviations))
    }

    /// Number of functions and inlined functions, and the entries of other units that these refer to.
    fn entries(&mut self, unit: u32) -> Result<(u64, FxHashSet<usize>), SymbolError> {
        let header = self.header(unit)?;
        let (_, abbreviations) = self.abbreviations(unit)?;
        let mut entries = header.entries_raw(&abbreviations, None).map_err(damaged)?;
        let (mut functions, mut targets) = (0, FxHashSet::default());
        while !entries.is_empty() {
            let Some(abbreviation) = entries.read_abbreviation().map_err(damaged)? else { continue };
            let is_function = is_function(abbreviation);
            functions += u64::from(is_function);
            if !is_function || !abbreviation.attributes().iter().any(is_foreign_name) {
                entries.skip_attributes(abbreviation.attributes()).map_err(damaged)?;
                continue;
            }
            for spec in abbreviation.attributes() {
                let attribute = entries.read_attribute(*spec).map_err(damaged)?;
                if is_foreign_name(spec)
                    && let AttributeValue::DebugInfoRef(target) = attribute.value()
                    && targets.len() < MAX_TARGETS
                {
                    targets.insert(target.0);
                }
            }
        }
        Ok((functions, targets))
    }

    /// Adds the units in which the names of `targets` are.
    fn follow(
        &mut self,
        mut targets: FxHashSet<usize>,
        members: &mut BTreeSet<u32>,
    ) -> Result<(), SymbolError> {
        let mut seen: FxHashSet<usize> = FxHashSet::default();
        for _ in 0..MAX_CHAIN {
            let mut next = FxHashSet::default();
            for target in targets.drain() {
                if seen.len() < MAX_TARGETS
                    && seen.insert(target)
                    && let Some(unit) = self.index.unit_at(target)
                {
                    members.insert(unit);
                    next.extend(self.next_in_chain(unit, target)?);
                }
            }
            targets = next;
        }
        Ok(())
    }

    /// The entry that has the name of the one at `target`, if that has none of its own.
    fn next_in_chain(&mut self, unit: u32, target: usize) -> Result<Option<usize>, SymbolError> {
        let header = self.header(unit)?;
        let start = header.offset().0;
        let (_, abbreviations) = self.abbreviations(unit)?;
        let mut entries =
            header.entries_raw(&abbreviations, Some(UnitOffset(target - start))).map_err(damaged)?;
        let Some(abbreviation) = entries.read_abbreviation().map_err(damaged)? else { return Ok(None) };
        let mut next = None;
        for spec in abbreviation.attributes() {
            let attribute = entries.read_attribute(*spec).map_err(damaged)?;
            match (attribute.name(), attribute.value()) {
                (
                    constants::DW_AT_name
                    | constants::DW_AT_linkage_name
                    | constants::DW_AT_MIPS_linkage_name,
                    _,
                ) => return Ok(None),
                (constants::DW_AT_abstract_origin | constants::DW_AT_specification, value) => {
                    next = match value {
                        AttributeValue::UnitRef(offset) => start.checked_add(offset.0),
                        AttributeValue::DebugInfoRef(offset) => Some(offset.0),
                        _ => None,
                    };
                }
                _ => {}
            }
        }
        Ok(next)
    }

    /// Memory for the line table of a unit; its rows are read of one unit only.
    fn lines(&self, unit: u32, with_rows: bool) -> Result<u64, SymbolError> {
        let Some(lines) = self.index.unit(unit).and_then(|span| span.lines()) else {
            return Ok(MEMBER_BYTES);
        };
        let section = self.sections.get(SectionId::DebugLine);
        let sizes = || {
            let mut reader = SectionReader::new(section);
            reader.skip(lines)?;
            let (length, format) = reader.read_initial_length()?;
            if reader.read_u16()? >= 5 {
                reader.skip(2)?;
            }
            Ok::<_, gimli::Error>((length as u64, reader.read_length(format)? as u64))
        };
        // addr2line leaves a unit out whose line table is damaged.
        let Ok((length, header)) = sizes() else { return Ok(MEMBER_BYTES) };
        let header = MEMBER_BYTES.saturating_add(header.min(length).saturating_mul(LINE_HEADER_FACTOR));
        if !with_rows {
            return Ok(header);
        }
        let _charge = Charge::new(self.work, header)?;
        let rows = match length {
            ..=MAX_UNCOUNTED_LINES => length * LINE_FACTOR,
            _ => self.count_rows(unit, lines).unwrap_or(0).saturating_mul(ROW_BYTES),
        };
        Ok(header.saturating_add(rows))
    }

    fn count_rows(&self, unit: u32, lines: usize) -> Option<u64> {
        let address_size = self.header(unit).ok()?.address_size();
        let table = gimli::DebugLine::from(SectionReader::new(self.sections.get(SectionId::DebugLine)));
        let mut rows = table.program(DebugLineOffset(lines), address_size, None, None).ok()?.rows();
        let mut count = 0;
        while rows.next_row().ok()?.is_some() {
            count += 1;
        }
        Some(count)
    }
}

fn is_function(abbreviation: &Abbreviation) -> bool {
    matches!(abbreviation.tag(), constants::DW_TAG_subprogram | constants::DW_TAG_inlined_subroutine)
}

/// Whether this attribute is the name of a function in another unit.
fn is_foreign_name(spec: &gimli::AttributeSpecification) -> bool {
    matches!(spec.name(), constants::DW_AT_abstract_origin | constants::DW_AT_specification)
        && matches!(spec.form(), constants::DW_FORM_ref_addr | constants::DW_FORM_indirect)
}
