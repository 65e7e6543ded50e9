//! Scopes of compiled code: the methods inlined at an instruction, each with its bytecode index.

use super::blob::JavaBlob;
use super::numbers::{JavaNumberCoding, JavaNumbers};
use super::tables::{JavaField, JavaTables};
use crate::runtimes::RuntimeProblem;
use crate::runtimes::memory::TargetMemory;

/// Bytes of a table of an nmethod at most.
const LARGEST_TABLE: u64 = 1 << 20;
/// Methods inlined in one another at most; compilers stop at about 15, method handles at some 60.
const DEEPEST: usize = 256;

/// Method at an instruction of compiled code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct JavaScope {
    pub(crate) method: u64,
    /// `None` if the instruction comes before the first bytecode.
    pub(crate) bci: Option<u16>,
}

/// Offsets of the tables of an nmethod in one JVM.
#[derive(Clone, Debug)]
pub(crate) struct JavaScopeLayout {
    tables: ScopeTables,
    metadata: Option<JavaMetadata>,
    pc_offset: JavaField,
    decode_offset: JavaField,
    desc_size: u64,
}

#[derive(Clone, Copy, Debug)]
enum ScopeTables {
    /// Inside the nmethod (to JDK 22): offsets of descriptors and of what follows them, and the data.
    Inside { descs: JavaField, end: JavaField, data: ScopeData },
    /// In memory of their own (from JDK 23 on).
    Outside { base: JavaField, size: JavaField, descs: JavaField, data: JavaField },
}

#[derive(Clone, Copy, Debug)]
enum ScopeData {
    Address(JavaField),
    Offset(JavaField),
}

/// Where an nmethod keeps its Method pointers.
#[derive(Clone, Copy, Debug)]
enum JavaMetadata {
    /// To JDK 22: offset from the nmethod.
    Inside(JavaField),
    /// JDK 23 and 24: offset from the data section.
    InData { data: JavaField, offset: JavaField },
    /// From JDK 25 on: after the relocations, in memory of their own.
    Outside { base: JavaField, relocations: JavaField },
}

impl JavaScopeLayout {
    /// Offsets as `tables` give them; a sentence if one is missing.
    pub(crate) fn of(tables: &JavaTables) -> Result<Self, RuntimeProblem> {
        let nmethod = |name| tables.field("nmethod", name).or_else(|| tables.field("CompiledMethod", name));
        let blob = |name| tables.field("CodeBlob", name);
        let descs = tables.need(&[("nmethod", "_scopes_pcs_offset")])?;
        let data_offset = tables.need(&[("nmethod", "_scopes_data_offset")]);
        let places = match nmethod("_immutable_data") {
            Some(base) => ScopeTables::Outside {
                base,
                size: tables.need(&[("nmethod", "_immutable_data_size")])?,
                descs,
                data: data_offset?,
            },
            None => ScopeTables::Inside {
                descs,
                end: tables.need(&[("nmethod", "_dependencies_offset")])?,
                data: match nmethod("_scopes_data_begin") {
                    Some(field) => ScopeData::Address(field),
                    None => ScopeData::Offset(data_offset?),
                },
            },
        };
        let metadata = match (blob("_mutable_data"), blob("_relocation_size"), nmethod("_metadata_offset")) {
            (Some(base), Some(relocations), None) => Some(JavaMetadata::Outside { base, relocations }),
            (_, _, Some(offset)) if matches!(places, ScopeTables::Inside { .. }) => {
                Some(JavaMetadata::Inside(offset))
            }
            (_, _, Some(offset)) => blob("_data_offset").map(|data| JavaMetadata::InData { data, offset }),
            _ => None,
        };
        Ok(Self {
            tables: places,
            metadata,
            pc_offset: tables.need(&[("PcDesc", "_pc_offset")])?,
            decode_offset: tables.need(&[("PcDesc", "_scope_decode_offset")])?,
            desc_size: tables.size("PcDesc")?,
        })
    }

    /// Methods at `pc` in `blob`, innermost first; empty if the blob has no scope there.
    /// For an address between two descriptors the next one is taken, as HotSpot itself does.
    pub(crate) fn scopes(
        &self,
        memory: &impl TargetMemory,
        blob: &JavaBlob,
        pc: u64,
        coding: JavaNumberCoding,
    ) -> Vec<JavaScope> {
        self.chain(memory, blob, pc, coding).unwrap_or_default()
    }

    fn chain(
        &self,
        memory: &impl TargetMemory,
        blob: &JavaBlob,
        pc: u64,
        coding: JavaNumberCoding,
    ) -> Option<Vec<JavaScope>> {
        let [descs, descs_end, data, data_end] = self.places(blob)?;
        let offset = i64::try_from(pc.checked_sub(blob.code.start)?).ok()?;
        let bytes = read_between(memory, descs, descs_end)?;
        let size = usize::try_from(self.desc_size).ok().filter(|&size| size != 0)?;
        let desc = bytes
            .chunks_exact(size)
            .find(|desc| self.pc_offset.signed(desc).is_some_and(|place| place >= offset))?;
        let mut next = self.decode_offset.signed(desc).filter(|&next| next > 0)?;
        let data = read_between(memory, data, data_end)?;
        let mut scopes = Vec::new();
        while next > 0 && scopes.len() < DEEPEST {
            let mut numbers = JavaNumbers::new(data.get(usize::try_from(next).ok()?..)?, coding);
            let sender = numbers.unsigned()?;
            let method = numbers.unsigned()?;
            // The stream holds the index plus one, and zero for "before the first bytecode".
            let bci = numbers.unsigned()?.checked_sub(1).and_then(|bci| u16::try_from(bci).ok());
            scopes.push(JavaScope { method: self.metadata_at(memory, blob, method)?, bci });
            next = i64::from(sender);
        }
        (next == 0).then_some(scopes)
    }

    /// Start and end of the descriptors and of the data.
    fn places(&self, blob: &JavaBlob) -> Option<[u64; 4]> {
        let header = blob.header.as_slice();
        let at = |base: u64, field: JavaField| base.checked_add(field.of(header)?);
        match self.tables {
            ScopeTables::Inside { descs, end, data } => {
                let first = at(blob.start, descs)?;
                let data = match data {
                    ScopeData::Address(field) => field.of(header)?,
                    ScopeData::Offset(field) => at(blob.start, field)?,
                };
                Some([first, at(blob.start, end)?, data, first])
            }
            ScopeTables::Outside { base, size, descs, data } => {
                let base = base.of(header)?;
                let data = at(base, data)?;
                Some([at(base, descs)?, data, data, at(base, size)?])
            }
        }
    }

    /// Method pointer number `index` of an nmethod, counted from one.
    fn metadata_at(&self, memory: &impl TargetMemory, blob: &JavaBlob, index: u32) -> Option<u64> {
        let header = blob.header.as_slice();
        let base = match self.metadata? {
            JavaMetadata::Inside(offset) => blob.start.checked_add(offset.of(header)?)?,
            JavaMetadata::InData { data, offset } => {
                blob.start.checked_add(data.of(header)?)?.checked_add(offset.of(header)?)?
            }
            JavaMetadata::Outside { base, relocations } => {
                base.of(header)?.checked_add(relocations.of(header)?)?
            }
        };
        memory.u64(base.checked_add(8 * u64::from(index.checked_sub(1)?))?)
    }
}

fn read_between(memory: &impl TargetMemory, start: u64, end: u64) -> Option<Vec<u8>> {
    memory.range(start, end.checked_sub(start)?.min(LARGEST_TABLE), LARGEST_TABLE as usize)
}
