//! What an ELF file says to the dynamic linker, as far as it tells which libraries will be mapped. Format: the System V
//! gABI, "Dynamic Section".

use super::fields::{Fields, c_string};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;

/// Libraries that one file may name.
const MAX_NEEDED: usize = 4096;
/// Bytes of the string table that are read.
const MAX_STRING_BYTES: u64 = 64 << 20;

const DT_NEEDED: u64 = 1;
const DT_STRTAB: u64 = 5;
const DT_STRSZ: u64 = 10;
const DT_SONAME: u64 = 14;
const DT_RPATH: u64 = 15;
const DT_RUNPATH: u64 = 29;
const DT_FLAGS_1: u64 = 0x6fff_fffb;
/// In `DT_FLAGS_1`: a position-independent executable.
const DF_1_PIE: u64 = 0x0800_0000;

/// The names in a dynamic section.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct Dynamic {
    /// Libraries that the file needs (`DT_NEEDED`).
    pub(crate) needed: Vec<OsString>,
    /// Folders to search first (`DT_RUNPATH`, else `DT_RPATH`).
    pub(crate) run_path: Option<OsString>,
    /// The file has a name by which others need it (`DT_SONAME`).
    pub(super) has_soname: bool,
    /// The linker marked it as an executable (`DF_1_PIE`).
    pub(super) is_pie: bool,
}

impl Dynamic {
    /// Reads the entries in `table`. `read` gives bytes at one of the module's own addresses.
    pub(crate) fn parse(table: &[u8], read: impl Fn(u64, u64) -> Option<Vec<u8>>) -> Option<Self> {
        let entries: Vec<(u64, u64)> = table
            .chunks_exact(16)
            .map(Fields)
            .map_while(|entry| Some((entry.u64(0)?, entry.u64(8)?)))
            .take_while(|&(tag, _)| tag != 0)
            .collect();
        let value = |tag: u64| entries.iter().find(|entry| entry.0 == tag).map(|entry| entry.1);
        let strings = read(value(DT_STRTAB)?, value(DT_STRSZ)?.min(MAX_STRING_BYTES))?;
        let string = |offset: u64| {
            let path = c_string(&strings, usize::try_from(offset).ok()?)?;
            Some(OsString::from_vec(path.to_vec()))
        };
        let needed = entries.iter().filter(|entry| entry.0 == DT_NEEDED).take(MAX_NEEDED);
        Some(Self {
            needed: needed.filter_map(|entry| string(entry.1)).collect(),
            run_path: value(DT_RUNPATH).or_else(|| value(DT_RPATH)).and_then(string),
            has_soname: value(DT_SONAME).is_some(),
            is_pie: value(DT_FLAGS_1).is_some_and(|flags| flags & DF_1_PIE != 0),
        })
    }
}
