//! Frames that come with names, as in folded stacks, text and pprof.

use super::intake::cut_name;
use super::module_kinds::classify;
use crate::profile::{
    Frame, FrameFlags, FrameId, FrameSpace, Function, Location, Module, ModuleId, ModuleKind, Profile,
};
use rustc_hash::{FxHashMap, FxHashSet};

/// Start of synthetic addresses, for frames without an address and those whose address is taken by another frame.
const SYNTHETIC: u64 = 1 << 62;

/// A function of a frame.
#[derive(Debug, Clone, Default)]
pub(super) struct NamedLocation {
    /// Name for people.
    pub(super) name: String,
    /// Name in the symbol table; empty if unknown.
    pub(super) raw_name: String,
    pub(super) file: String,
    /// Line number; 0 if unknown.
    pub(super) line: u32,
    pub(super) is_inlined: bool,
}

impl NamedLocation {
    /// A function of which only the name is known.
    pub(super) fn named(name: &str, is_inlined: bool) -> Self {
        let name = name.to_owned();
        NamedLocation { raw_name: name.clone(), name, is_inlined, ..NamedLocation::default() }
    }
}

/// Place of a frame.
#[derive(Debug, Clone, Copy)]
pub(super) struct FramePlace {
    pub(super) module: ModuleId,
    pub(super) space: FrameSpace,
    /// Module-relative address; `None` if unknown.
    pub(super) address: Option<u64>,
}

/// Assigns frame ids to frames with names.
#[derive(Debug, Default)]
pub(super) struct NamedFrames {
    known: FxHashMap<(Frame, Vec<Location>), FrameId>,
    taken: FxHashSet<Frame>,
    synthetic: u64,
}

impl NamedFrames {
    /// The module with this name, and the space its code runs in.
    pub(super) fn module(
        &mut self,
        profile: &mut Profile,
        name: &str,
        build_id: &[u8],
    ) -> (ModuleId, FrameSpace) {
        let (name, kind, space) = classify(name);
        let path = profile.tables.intern_string(cut_name(name));
        let build_id = if kind == ModuleKind::Elf { build_id.to_vec() } else { Vec::new() };
        (profile.tables.intern_module(Module { path, build_id, kind, instance: 0 }), space)
    }

    /// The frame at `place` with these functions, innermost first; without functions it is unnamed.
    pub(super) fn frame(
        &mut self,
        profile: &mut Profile,
        place: FramePlace,
        functions: &[NamedLocation],
    ) -> FrameId {
        let locations: Vec<Location> = functions.iter().map(|function| location(profile, function)).collect();
        let flags = FrameFlags { space: place.space, ..FrameFlags::default() };
        let wanted = Frame { module: place.module, address: place.address.unwrap_or(SYNTHETIC), flags };
        let key = (wanted, locations);
        if let Some(frame) = self.known.get(&key) {
            return *frame;
        }
        let row = if place.address.is_some() && self.taken.insert(wanted) {
            wanted
        } else {
            self.synthetic += 1;
            Frame { address: SYNTHETIC + self.synthetic, ..wanted }
        };
        let frame = profile.tables.intern_frame(row);
        profile.symbols.set_locations(frame, key.1.clone());
        self.known.insert(key, frame);
        frame
    }
}

fn location(profile: &mut Profile, named: &NamedLocation) -> Location {
    let name = profile.tables.intern_string(cut_name(&named.name));
    let raw_name = profile.tables.intern_string(cut_name(&named.raw_name));
    let file = profile.tables.intern_string(cut_name(&named.file));
    let function = profile.symbols.intern_function(Function { name, raw_name });
    Location { function, file, line: named.line, is_inlined: named.is_inlined }
}
