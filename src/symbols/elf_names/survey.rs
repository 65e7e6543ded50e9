//! A pass over the entries of a unit before addr2line reads them: how much memory that will take, and which other units
//! addr2line will read.
//!
//! The name of a function may be in another unit: link-time optimisation inlines across units, and dwz moves what
//! several units have in common to a shared unit, in the same file or in one that several modules share. Without those
//! units addr2line fails; with all units it is slow and large.

use super::units::UnitIndex;
use crate::elf::ElfError;
use crate::symbols::error::SymbolError;
use crate::symbols::sections::dwarf::Sections;
use crate::symbols::sections::reader::SectionReader;
use crate::symbols::work::{Charge, Work};
use gimli::{
    Abbreviation, Abbreviations, AttributeValue, DebugAbbrevOffset, DebugInfoOffset, DebugLineOffset, Reader,
    SectionId, UnitHeader, UnitOffset, constants,
};
use rustc_hash::{FxHashMap, FxHashSet};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Most references followed from entry to entry for a name; addr2line follows 16.
const MAX_CHAIN: usize = 16;
/// Most references to entries of other units that are followed. The units beyond that are left out of the view, and so
/// are the names in them.
const MAX_TARGETS: usize = 1 << 20;
/// Most reads of one table of abbreviations: the largest seen takes 200,000. A read makes 32 bytes in memory at most.
const MAX_ABBREVIATION_READS: u64 = 2 << 20;
const ABBREVIATION_READ_BYTES: u64 = 32;
/// Memory that addr2line takes for a function, or for an inlined function within a function that was looked up, bytes.
const FUNCTION_BYTES: u64 = 176;
/// Memory for each byte of the header of a line table: names of files.
const LINE_HEADER_FACTOR: u64 = 48;
/// Memory for a row of a line table, which was copied when its list grew.
const ROW_BYTES: u64 = 48;
/// Memory for each byte of a line program. A row takes at least one byte, and four in what compilers write.
const LINE_FACTOR: u64 = 12;
/// Length in bytes above which the rows of a line program are counted.
const MAX_UNCOUNTED_LINES: u64 = 256 << 10;
/// Memory for a unit that is in the view only for its names, bytes.
const MEMBER_BYTES: u64 = 1024;

/// Tables of abbreviations already read, by offset.
pub(crate) type KnownAbbreviations = FxHashMap<usize, (Arc<Abbreviations>, Charge)>;

/// Units that addr2line will read for a unit, and the memory that takes.
#[derive(Debug)]
pub(crate) struct Survey {
    /// The unit and those that it refers to, by number.
    pub(crate) members: BTreeSet<u32>,
    /// Units of the shared file that the unit refers to, by number.
    pub(crate) shared_members: BTreeSet<u32>,
    counts: Counts,
    /// Memory of the line tables, bytes.
    line_bytes: u64,
}

/// Numbers of functions in a unit.
#[derive(Debug, Clone, Copy, Default)]
struct Counts {
    functions: u64,
    inlined: u64,
    /// Number of inlined functions in the function that has the most.
    most_inlined: u64,
}

impl Survey {
    /// Upper limit of the memory in bytes of addr2line's tables after lookups of this many addresses: addr2line reads
    /// the inlined functions only of functions that were looked up.
    pub(crate) fn memory_bytes(&self, asked: u64) -> u64 {
        let Counts { functions, inlined, most_inlined } = self.counts;
        let inlined = most_inlined.saturating_mul(asked).min(inlined);
        (functions + inlined).saturating_mul(FUNCTION_BYTES).saturating_add(self.line_bytes)
    }
}

/// One file with units.
pub(crate) struct SurveyedFile<'a> {
    pub(crate) sections: &'a Sections,
    pub(crate) index: &'a UnitIndex,
    pub(crate) known: &'a mut KnownAbbreviations,
}

/// Surveys units.
pub(crate) struct Surveyor<'a> {
    pub(crate) main: SurveyedFile<'a>,
    /// The file with units that several modules share, made by dwz.
    pub(crate) shared: Option<SurveyedFile<'a>>,
    pub(crate) work: &'a Arc<Work>,
}

/// A unit, by its number in its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct UnitPlace {
    pub(crate) is_shared: bool,
    pub(crate) number: u32,
}

/// An entry, by its offset in the `.debug_info` of its file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct EntryPlace {
    is_shared: bool,
    offset: usize,
}

impl EntryPlace {
    /// The entry that an attribute of a unit at `start` refers to.
    fn of(value: &AttributeValue<SectionReader<'_>>, is_shared: bool, start: usize) -> Option<Self> {
        match value {
            AttributeValue::UnitRef(offset) => {
                Some(EntryPlace { is_shared, offset: start.checked_add(offset.0)? })
            }
            AttributeValue::DebugInfoRef(offset) => Some(EntryPlace { is_shared, offset: offset.0 }),
            // A shared file does not refer to another one.
            AttributeValue::DebugInfoRefSup(offset) if !is_shared => {
                Some(EntryPlace { is_shared: true, offset: offset.0 })
            }
            _ => None,
        }
    }
}

fn damaged<E>(_: E) -> SymbolError {
    ElfError::Malformed("debug information").into()
}

impl<'a> Surveyor<'a> {
    /// Surveys a unit.
    pub(super) fn survey(&mut self, unit: u32) -> Result<Survey, SymbolError> {
        let mut members = BTreeSet::from([unit]);
        let mut shared_members = BTreeSet::new();
        let (counts, targets) = self.entries(unit)?;
        self.follow(targets, &mut members, &mut shared_members)?;
        let mut line_bytes = 0_u64;
        let mains = members.iter().map(|&number| UnitPlace { is_shared: false, number });
        let shared = shared_members.iter().map(|&number| UnitPlace { is_shared: true, number });
        for member in mains.chain(shared) {
            let with_rows = !member.is_shared && member.number == unit;
            line_bytes = line_bytes.saturating_add(self.lines(member, with_rows)?);
        }
        Ok(Survey { members, shared_members, counts, line_bytes })
    }

    fn file(&self, is_shared: bool) -> Result<&SurveyedFile<'a>, SymbolError> {
        match is_shared {
            false => Ok(&self.main),
            true => self.shared.as_ref().ok_or_else(|| damaged(())),
        }
    }

    fn header(&self, unit: UnitPlace) -> Result<UnitHeader<SectionReader<'a>>, SymbolError> {
        let file = self.file(unit.is_shared)?;
        let span = file.index.unit(unit.number).ok_or(ElfError::Malformed("debug information"))?;
        let info = SectionReader::new(file.sections.get(SectionId::DebugInfo));
        gimli::DebugInfo::from(info).header_from_offset(DebugInfoOffset(span.start)).map_err(damaged)
    }

    /// The abbreviations of a unit.
    pub(crate) fn abbreviations(
        &mut self,
        unit: UnitPlace,
    ) -> Result<(usize, Arc<Abbreviations>), SymbolError> {
        let offset = self.header(unit)?.debug_abbrev_offset().0;
        let file = if unit.is_shared { self.shared.as_mut() } else { Some(&mut self.main) };
        let file = file.ok_or(ElfError::Malformed("debug information"))?;
        if let Some((abbreviations, _)) = file.known.get(&offset) {
            return Ok((offset, Arc::clone(abbreviations)));
        }
        let section = file.sections.get(SectionId::DebugAbbrev);
        section.begin(MAX_ABBREVIATION_READS);
        let table = gimli::DebugAbbrev::from(SectionReader::new(section));
        let abbreviations = Arc::new(table.abbreviations(DebugAbbrevOffset(offset)).map_err(damaged)?);
        let charge = Charge::new(self.work, section.reads() * ABBREVIATION_READ_BYTES)?;
        file.known.insert(offset, (Arc::clone(&abbreviations), charge));
        Ok((offset, abbreviations))
    }

    /// The numbers of functions and inlined functions, and the entries of other units that these refer to.
    fn entries(&mut self, unit: u32) -> Result<(Counts, FxHashSet<EntryPlace>), SymbolError> {
        let place = UnitPlace { is_shared: false, number: unit };
        let header = self.header(place)?;
        let (_, abbreviations) = self.abbreviations(place)?;
        let mut targets = FxHashSet::default();
        let counts = count_functions(&header, &abbreviations, |value| {
            if !matches!(value, AttributeValue::UnitRef(_))
                && targets.len() < MAX_TARGETS
                && let Some(target) = EntryPlace::of(&value, false, 0)
            {
                targets.insert(target);
            }
        })
        .map_err(damaged)?;
        Ok((counts, targets))
    }

    /// Adds the units that have the names of `targets`.
    fn follow(
        &mut self,
        mut targets: FxHashSet<EntryPlace>,
        members: &mut BTreeSet<u32>,
        shared_members: &mut BTreeSet<u32>,
    ) -> Result<(), SymbolError> {
        let mut seen: FxHashSet<EntryPlace> = FxHashSet::default();
        for _ in 0..MAX_CHAIN {
            let mut next = FxHashSet::default();
            for target in targets.drain() {
                // Without the shared file only the names in it are missing.
                let Ok(file) = self.file(target.is_shared) else { continue };
                if seen.len() < MAX_TARGETS
                    && seen.insert(target)
                    && let Some(number) = file.index.unit_at(target.offset)
                {
                    if target.is_shared { &mut *shared_members } else { &mut *members }.insert(number);
                    next.extend(self.next_in_chain(number, target)?);
                }
            }
            targets = next;
        }
        Ok(())
    }

    /// The entry that the one at `target` takes its name from, if that has no name of its own.
    fn next_in_chain(&mut self, number: u32, target: EntryPlace) -> Result<Option<EntryPlace>, SymbolError> {
        let unit = UnitPlace { is_shared: target.is_shared, number };
        let header = self.header(unit)?;
        let start = header.offset().0;
        let (_, abbreviations) = self.abbreviations(unit)?;
        let at = Some(UnitOffset(target.offset - start));
        let mut entries = header.entries_raw(&abbreviations, at).map_err(damaged)?;
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
                    next = EntryPlace::of(&value, target.is_shared, start);
                }
                _ => {}
            }
        }
        Ok(next)
    }

    /// Memory for the line table of a unit; rows are read only for the unit looked up.
    fn lines(&self, unit: UnitPlace, with_rows: bool) -> Result<u64, SymbolError> {
        let file = self.file(unit.is_shared)?;
        let Some(lines) = file.index.unit(unit.number).and_then(|span| span.lines()) else {
            return Ok(MEMBER_BYTES);
        };
        let section = file.sections.get(SectionId::DebugLine);
        let sizes = || {
            let mut reader = SectionReader::new(section);
            reader.skip(lines)?;
            let (length, format) = reader.read_initial_length()?;
            if reader.read_u16()? >= 5 {
                reader.skip(2)?;
            }
            Ok::<_, gimli::Error>((length as u64, reader.read_length(format)? as u64))
        };
        // addr2line leaves out a unit with a damaged line table.
        let Ok((length, header)) = sizes() else { return Ok(MEMBER_BYTES) };
        // The most that the header may take while it is counted.
        let _charge = Charge::new(self.work, header.min(length).saturating_mul(LINE_HEADER_FACTOR))?;
        let Some(program) = self.line_program(unit, lines) else { return Ok(MEMBER_BYTES) };
        let header = MEMBER_BYTES + head_bytes(program.header(), with_rows);
        let rows = match length {
            _ if !with_rows => 0,
            ..=MAX_UNCOUNTED_LINES => length * LINE_FACTOR,
            _ => count_rows(program).saturating_mul(ROW_BYTES),
        };
        Ok(header.saturating_add(rows))
    }

    fn line_program(&self, unit: UnitPlace, lines: usize) -> Option<LineProgram<'a>> {
        let address_size = self.header(unit).ok()?.address_size();
        let sections = self.file(unit.is_shared).ok()?.sections;
        let table = gimli::DebugLine::from(SectionReader::new(sections.get(SectionId::DebugLine)));
        table.program(DebugLineOffset(lines), address_size, None, None).ok()
    }
}

/// Memory that the functions of a split DWARF unit may take, bytes.
pub(super) fn split_unit_bytes(
    header: &UnitHeader<SectionReader<'_>>,
    abbreviations: &Abbreviations,
) -> gimli::Result<u64> {
    let counts = count_functions(header, abbreviations, |_| {})?;
    Ok((counts.functions + counts.inlined).saturating_mul(FUNCTION_BYTES))
}

/// Counts the functions of a unit; `found` is called with references to entries that may be in other units.
fn count_functions<'s>(
    header: &UnitHeader<SectionReader<'s>>,
    abbreviations: &Abbreviations,
    mut found: impl FnMut(AttributeValue<SectionReader<'s>>),
) -> gimli::Result<Counts> {
    let mut entries = header.entries_raw(abbreviations, None)?;
    let mut counts = Counts::default();
    let (mut function_depth, mut in_function) = (isize::MAX, 0);
    while !entries.is_empty() {
        let depth = entries.next_depth();
        let Some(abbreviation) = entries.read_abbreviation()? else { continue };
        let (is_function, is_inlined) = (is_function(abbreviation), is_inlined(abbreviation));
        if is_inlined {
            counts.inlined += 1;
            in_function += 1;
            counts.most_inlined = counts.most_inlined.max(in_function);
        } else if is_function {
            counts.functions += 1;
            // An inlined function that follows a nested function counts for the outer function.
            if depth <= function_depth {
                (function_depth, in_function) = (depth, 0);
            }
        }
        if !is_function || !abbreviation.attributes().iter().any(is_foreign_name) {
            entries.skip_attributes(abbreviation.attributes())?;
            continue;
        }
        for spec in abbreviation.attributes() {
            let attribute = entries.read_attribute(*spec)?;
            if is_foreign_name(spec) {
                found(attribute.value());
            }
        }
    }
    Ok(counts)
}

type LineProgram<'a> = gimli::IncompleteLineProgram<SectionReader<'a>>;

/// Memory of a line table's header: names of files and folders, as they are read and, with rows, as text.
fn head_bytes(header: &gimli::LineProgramHeader<SectionReader<'_>>, with_rows: bool) -> u64 {
    /// A path as text is longer than its entry in the table, because it has the folder too.
    const PATH_BYTES: usize = 128;
    let path = if with_rows { PATH_BYTES } else { 0 };
    let file = size_of::<gimli::FileEntry<SectionReader<'_>>>() + path;
    // Lists that grew have at most twice the room that they need.
    (2 * (header.file_names().len() * file + size_of_val(header.include_directories()))) as u64
}

fn count_rows(program: LineProgram<'_>) -> u64 {
    let mut rows = program.rows();
    let mut count = 0;
    while let Ok(Some(_)) = rows.next_row() {
        count += 1;
    }
    count
}

/// Whether this is a function or an inlined function.
fn is_function(abbreviation: &Abbreviation) -> bool {
    abbreviation.tag() == constants::DW_TAG_subprogram || is_inlined(abbreviation)
}

fn is_inlined(abbreviation: &Abbreviation) -> bool {
    abbreviation.tag() == constants::DW_TAG_inlined_subroutine
}

/// Whether this attribute refers to the name of a function in another unit.
fn is_foreign_name(spec: &gimli::AttributeSpecification) -> bool {
    matches!(spec.name(), constants::DW_AT_abstract_origin | constants::DW_AT_specification)
        && matches!(
            spec.form(),
            constants::DW_FORM_ref_addr
                | constants::DW_FORM_indirect
                | constants::DW_FORM_GNU_ref_alt
                | constants::DW_FORM_ref_sup4
                | constants::DW_FORM_ref_sup8
        )
}
