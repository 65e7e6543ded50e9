//! Split DWARF: the functions of a unit are in a separate `.dwo` file, or in a `.dwp` file with the functions of all
//! units of a module. The module keeps the address ranges of units and the line tables. DWARF 5, section 7.3, and the
//! GNU extension to DWARF 4 before it.

use super::survey::split_unit_bytes;
use crate::elf::source::Source;
use crate::elf::{ElfError, ElfFile};
use crate::symbols::debug_files::found::FoundFile;
use crate::symbols::debug_files::refusal::UnusedFiles;
use crate::symbols::debug_files::split_search::SplitSearch;
use crate::symbols::error::SymbolError;
use crate::symbols::limits::NamingLimits;
use crate::symbols::sections::dwarf::{DebugStores, Sections, has_split_units};
use crate::symbols::sections::reader::SectionReader;
use crate::symbols::work::{Charge, Work};
use gimli::{Dwarf, DwarfPackage, DwoId, Reader, Section, SectionId, UnitType};
use std::collections::BTreeSet;
use std::sync::Arc;

/// Most units of a file searched for the one wanted; type units come before it.
const MAX_UNITS: usize = 10_000;
/// Most names of missing files kept.
const MAX_MISSING: usize = 1000;

/// A unit of split DWARF.
#[derive(Debug)]
pub(crate) struct SplitUnit {
    file: SplitFile,
    _charge: Charge,
}

#[derive(Debug, Clone)]
enum SplitFile {
    /// A file with one unit.
    Single(Arc<Sections>),
    /// A file with all units of a module.
    Package(Arc<Sections>),
}

impl SplitFile {
    fn sections(&self) -> &Arc<Sections> {
        match self {
            SplitFile::Single(sections) | SplitFile::Package(sections) => sections,
        }
    }

    /// The sections of the unit `id`, which is the first one in them; `None` if the file does not have it.
    fn dwarf<'s>(
        &'s self,
        id: DwoId,
        parent: &Dwarf<SectionReader<'s>>,
    ) -> gimli::Result<Option<Dwarf<SectionReader<'s>>>> {
        let mut dwarf = match self {
            SplitFile::Single(sections) => {
                let mut dwarf = sections.dwarf();
                dwarf.make_dwo(parent);
                dwarf
            }
            SplitFile::Package(sections) => {
                let section = |id| Ok::<_, gimli::Error>(SectionReader::new(sections.get(id)));
                let empty = section(SectionId::DebugTypes)?;
                match DwarfPackage::load(section, empty)?.find_cu(id, parent)? {
                    Some(dwarf) => dwarf,
                    None => return Ok(None),
                }
            }
        };
        let mut units = dwarf.units();
        for _ in 0..MAX_UNITS {
            let Some(header) = units.next()? else { break };
            let is_wanted = match header.type_() {
                UnitType::SplitCompilation(other) => other == id,
                UnitType::Compilation => dwarf.unit(header)?.dwo_id == Some(id),
                _ => false,
            };
            if is_wanted {
                let offset = header.offset().0;
                let mut info = *dwarf.debug_info.reader();
                info.skip(offset)?;
                dwarf.debug_info = info.into();
                return Ok(Some(dwarf));
            }
        }
        Ok(None)
    }

    /// The error that the file does not hold the unit `wanted`, with the ID of the unit that it holds.
    fn other_unit(&self, wanted: DwoId, parent: &Dwarf<SectionReader<'_>>) -> SymbolError {
        let mut dwarf = self.sections().dwarf();
        dwarf.make_dwo(parent);
        let first = dwarf.units().next().ok().flatten();
        let unit = first.and_then(|header| dwarf.unit(header).ok());
        SymbolError::OtherUnit {
            found: unit.and_then(|unit| unit.dwo_id).map_or(0, |id| id.0),
            wanted: wanted.0,
        }
    }
}

impl SplitUnit {
    /// The sections that the unit is in.
    pub(super) fn sections(&self) -> &Sections {
        self.file.sections()
    }

    /// The unit in the form that addr2line takes.
    pub(super) fn dwarf<'s>(
        &'s self,
        id: DwoId,
        parent: &Dwarf<SectionReader<'s>>,
    ) -> Option<Arc<Dwarf<SectionReader<'s>>>> {
        self.file.dwarf(id, parent).ok().flatten().map(Arc::new)
    }
}

/// The split DWARF files of one module.
#[derive(Debug)]
pub(crate) struct SplitFiles {
    search: SplitSearch,
    package_file: Option<FoundFile>,
    /// The package, read on first use. `None` inside: it cannot be read.
    package: Option<Option<Arc<Sections>>>,
    limits: NamingLimits,
    /// Number of units found.
    pub(super) found: u64,
    /// Names of files not found.
    pub(super) missing: BTreeSet<String>,
    /// Files that are there but were not used, with the reason.
    pub(super) refused: UnusedFiles,
}

impl SplitFiles {
    /// Looks for files with `search`, except for the units in `package`.
    pub(crate) fn new(search: SplitSearch, package: Option<FoundFile>, limits: &NamingLimits) -> Self {
        SplitFiles {
            search,
            package_file: package,
            package: None,
            limits: limits.clone(),
            found: 0,
            missing: BTreeSet::new(),
            refused: UnusedFiles::default(),
        }
    }

    /// The same files for another thread.
    pub(super) fn another(&self) -> Self {
        SplitFiles::new(self.search.clone(), self.package_file.clone(), &self.limits)
    }

    /// Takes over what another thread has found and missed.
    pub(super) fn take(&mut self, other: SplitFiles) {
        self.found += other.found;
        self.missing.extend(other.missing);
        while self.missing.len() > MAX_MISSING {
            self.missing.pop_last();
        }
        self.refused.take(other.refused);
    }

    /// Finds the unit that `load` asks for.
    pub(super) fn find<'s>(
        &mut self,
        load: &addr2line::SplitDwarfLoad<SectionReader<'s>>,
        work: &Arc<Work>,
    ) -> Option<SplitUnit> {
        let text = |reader: &Option<SectionReader<'s>>| {
            let bytes = reader.as_ref().and_then(|reader| reader.to_slice().ok().map(|it| it.into_owned()));
            bytes.unwrap_or_default()
        };
        let (folder, name) = (text(&load.comp_dir), text(&load.path));
        let unit = self.in_package(load, work).or_else(|| {
            let (limits, refused) = (&self.limits, &mut self.refused);
            self.search.open(&folder, &name, refused, |file| {
                let image = ElfFile::parse(Source::of_file(file)?, &limits.elf)?;
                if !has_split_units(&image) {
                    return Err(ElfError::Malformed("no split debug information").into());
                }
                let sections = Arc::new(DebugStores::find_split(&image, limits, work)?.open(work)?);
                charged(SplitFile::Single(sections), load, work)
            })
        });
        match &unit {
            Some(_) => self.found += 1,
            None if self.missing.len() < MAX_MISSING && !name.is_empty() => {
                self.missing.insert(String::from_utf8_lossy(&name).into_owned());
            }
            None => {}
        }
        unit
    }

    fn in_package(
        &mut self,
        load: &addr2line::SplitDwarfLoad<SectionReader<'_>>,
        work: &Arc<Work>,
    ) -> Option<SplitUnit> {
        let found = self.package_file.as_ref()?;
        if self.package.is_none() {
            let image = Source::of_file(&found.file).and_then(|it| ElfFile::parse(it, &self.limits.elf));
            let sections = image.map_err(SymbolError::from).and_then(|image| {
                Ok(Arc::new(DebugStores::find_split(&image, &self.limits, work)?.open(work)?))
            });
            if let Err(error) = &sections {
                self.refused.add(&found.path, &error.to_string());
            }
            self.package = Some(sections.ok());
        }
        let sections = self.package.as_ref()?.as_ref()?;
        sections.begin();
        match charged(SplitFile::Package(Arc::clone(sections)), load, work) {
            Ok(unit) => Some(unit),
            // The unit has its own file then.
            Err(SymbolError::OtherUnit { .. }) => None,
            Err(error) => {
                self.refused.add(&found.path, &error.to_string());
                None
            }
        }
    }
}

/// The unit that `load` asks for, from `file`, with the memory charged that its functions may take.
fn charged(
    file: SplitFile,
    load: &addr2line::SplitDwarfLoad<SectionReader<'_>>,
    work: &Arc<Work>,
) -> Result<SplitUnit, SymbolError> {
    let wanted = load.dwo_id;
    let bytes = {
        let damaged = |_| SymbolError::from(ElfError::Malformed("split debug information"));
        let dwarf = file.dwarf(wanted, &load.parent).map_err(damaged)?;
        let dwarf = dwarf.ok_or_else(|| file.other_unit(wanted, &load.parent))?;
        let header = dwarf.units().next().map_err(damaged)?.ok_or_else(|| damaged(gimli::Error::Io))?;
        let abbreviations = dwarf.abbreviations(&header).map_err(damaged)?;
        split_unit_bytes(&header, &abbreviations).map_err(damaged)?
    };
    Ok(SplitUnit { file, _charge: Charge::new(work, bytes)? })
}
