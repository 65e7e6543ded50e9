//! Turns locations into frames.

use super::tables::PprofTables;
use crate::import::named_frames::{FramePlace, NamedFrames, NamedLocation};
use crate::profile::{FrameId, Profile};
use crate::report::pprof_messages::{PprofLocation, PprofMapping};
use rustc_hash::FxHashMap;

/// Most functions of a location that are kept: files may have up to 512.
const MAX_FUNCTIONS: usize = 500;

/// Frames of locations.
#[derive(Debug, Default)]
pub(super) struct PprofFrames {
    known: FxHashMap<u64, FrameId>,
    frames: NamedFrames,
    /// Number of locations that samples refer to but the file lacks.
    pub(super) missing: u64,
}

impl PprofFrames {
    /// The frame of a location.
    pub(super) fn frame(&mut self, tables: &PprofTables<'_>, profile: &mut Profile, id: u64) -> FrameId {
        if let Some(frame) = self.known.get(&id) {
            return *frame;
        }
        let location = tables.location(id);
        self.missing += u64::from(location.is_none());
        let functions = location.map_or(Vec::new(), |location| functions(tables, location));
        let mapping = location.and_then(|location| tables.mapping(location));
        let path = mapping.map_or(String::new(), |mapping| tables.text(mapping.file));
        let build_id = mapping.map_or(Vec::new(), |mapping| build_id(tables.bytes(mapping.build_id)));
        let (module, space) = self.frames.module(profile, &path, &build_id);
        let address = location.filter(|location| location.address > 0);
        let address = address.map(|location| address_in(mapping, location.address));
        let frame = self.frames.frame(profile, FramePlace { module, space, address }, &functions);
        self.known.insert(id, frame);
        frame
    }
}

/// The functions of a location, innermost first.
fn functions(tables: &PprofTables<'_>, location: &PprofLocation) -> Vec<NamedLocation> {
    let lines = location.lines.iter().rev().take(MAX_FUNCTIONS).rev();
    let mut functions: Vec<NamedLocation> = lines
        .filter_map(|line| {
            let function = tables.function(line.function)?;
            let name = tables.text(function.name);
            let raw_name = tables.text(function.system_name);
            let name = if name.is_empty() { raw_name.clone() } else { name };
            let raw_name = if raw_name.is_empty() { name.clone() } else { raw_name };
            let file = tables.text(function.file);
            let line = u32::try_from(line.line).unwrap_or(0);
            Some(NamedLocation { name, raw_name, file, line, is_inlined: true })
        })
        .filter(|function| !function.name.is_empty())
        .collect();
    if let Some(outermost) = functions.last_mut() {
        outermost.is_inlined = false;
    }
    functions
}

/// The bytes of a hexadecimal build ID; empty for anything else, such as Go's own IDs.
fn build_id(text: &[u8]) -> Vec<u8> {
    let digits: Option<Vec<u8>> =
        text.iter().map(|byte| char::from(*byte).to_digit(16).map(|digit| digit as u8)).collect();
    match digits {
        Some(digits) if digits.len() % 2 == 0 && digits.len() <= 128 => {
            digits.chunks(2).map(|pair| pair[0] << 4 | pair[1]).collect()
        }
        _ => Vec::new(),
    }
}

/// The module-relative address: the file offset, which usually equals the ELF address of code.
fn address_in(mapping: Option<&PprofMapping>, address: u64) -> u64 {
    match mapping {
        Some(mapping) if mapping.limit > mapping.start => {
            address.wrapping_sub(mapping.start).wrapping_add(mapping.file_offset)
        }
        _ => address,
    }
}
