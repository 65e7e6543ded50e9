//! The symbol table that Fedora and its relatives leave in stripped programs: a whole ELF file, packed with xz, in
//! `.gnu_debugdata` (GDB's manual, "Debugging information in a special section").

use crate::elf::source::Source;
use crate::elf::{ElfError, ElfFile};
use crate::symbols::error::SymbolError;
use crate::symbols::limits::NamingLimits;
use crate::symbols::work::{Charge, Work};
use lzma_rust2::XzReader;
use std::io::Read;
use std::sync::Arc;

/// Most bytes of the packed file, the unpacked file, and the dictionary. The largest seen is 3 MB packed, with an 8 MB
/// dictionary.
const MAX_PACKED_BYTES: u64 = 32 << 20;
const MAX_UNPACKED_BYTES: u64 = 96 << 20;
const MAX_DICTIONARY_BYTES: u64 = 32 << 20;
/// Bytes unpacked at a time.
const STEP_BYTES: u64 = 1 << 20;

/// The small symbol table inside a module.
#[derive(Debug)]
pub(crate) struct MiniDebug {
    pub(crate) image: ElfFile,
    _charge: Charge,
}

impl MiniDebug {
    /// Unpacks the table in `image`; `None` if it has none.
    pub(crate) fn open(
        image: &ElfFile,
        limits: &NamingLimits,
        work: &Arc<Work>,
    ) -> Result<Option<Self>, SymbolError> {
        let Some(section) = image.section(b".gnu_debugdata").filter(|section| section.has_bytes()) else {
            return Ok(None);
        };
        let packed_charge = Charge::new(work, section.size.min(MAX_PACKED_BYTES) + MAX_DICTIONARY_BYTES)?;
        let packed = image.part(section, ".gnu_debugdata", 0, section.size, MAX_PACKED_BYTES)?;
        let charge = Charge::none(work);
        let bytes = unpack(&packed, &charge, work)?;
        drop(packed_charge);
        let image = ElfFile::parse(Source::Bytes(Arc::new(bytes)), &limits.elf)?;
        Ok(Some(MiniDebug { image, _charge: charge }))
    }
}

fn unpack(packed: &[u8], charge: &Charge, work: &Work) -> Result<Vec<u8>, SymbolError> {
    const WHAT: &str = ".gnu_debugdata";
    let mut reader = XzReader::new_mem_limit(packed, false, (MAX_DICTIONARY_BYTES >> 10) as u32);
    let mut bytes = Vec::new();
    loop {
        if work.is_late() {
            return Err(SymbolError::Stopped);
        }
        let size = bytes.len() as u64;
        if size >= MAX_UNPACKED_BYTES {
            return Err(ElfError::TooLarge { what: WHAT, size, limit: MAX_UNPACKED_BYTES }.into());
        }
        charge.add(STEP_BYTES)?;
        let too_large = ElfError::TooLarge { what: WHAT, size, limit: MAX_UNPACKED_BYTES };
        bytes.try_reserve_exact(STEP_BYTES as usize).map_err(|_| too_large)?;
        let read = reader.by_ref().take(STEP_BYTES).read_to_end(&mut bytes);
        if read.map_err(|_| ElfError::Malformed("the data packed in .gnu_debugdata"))? == 0 {
            return Ok(bytes);
        }
    }
}
