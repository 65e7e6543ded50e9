//! Frames that come with their names: what folded stacks, text and pprof have of them.

use super::intake::cut_name;
use super::module_kinds::classify;
use crate::profile::{
    Frame, FrameFlags, FrameId, FrameSpace, Function, Location, Module, ModuleId, ModuleKind, Profile,
};
use rustc_hash::{FxHashMap, FxHashSet};

/// Addresses from here on are made up: of frames of which none is known, or another one has theirs.
const MADE_UP: u64 = 1 << 62;

/// A function of a frame.
#[derive(Debug, Clone, Default)]
pub(super) struct NamedLocation {
    /// For people.
    pub(super) name: String,
    /// As symbol tables have it; empty where that is not known.
    pub(super) raw_name: String,
    pub(super) file: String,
    /// 0 where it is not known.
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

/// What a frame is at.
#[derive(Debug, Clone, Copy)]
pub(super) struct FramePlace {
    pub(super) module: ModuleId,
    pub(super) space: FrameSpace,
    /// `None` where it is not known.
    pub(super) address: Option<u64>,
}

/// Gives frames with names their rows.
#[derive(Debug, Default)]
pub(super) struct NamedFrames {
    known: FxHashMap<(Frame, Vec<Location>), FrameId>,
    taken: FxHashSet<Frame>,
    made_up: u64,
}

impl NamedFrames {
    /// The module called `name`, and where its code runs.
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

    /// The frame at `place` with these functions, innermost first; without any it has no name.
    pub(super) fn frame(
        &mut self,
        profile: &mut Profile,
        place: FramePlace,
        functions: &[NamedLocation],
    ) -> FrameId {
        let locations: Vec<Location> = functions.iter().map(|function| location(profile, function)).collect();
        let flags = FrameFlags { space: place.space, ..FrameFlags::default() };
        let wanted = Frame { module: place.module, address: place.address.unwrap_or(MADE_UP), flags };
        let key = (wanted, locations);
        if let Some(frame) = self.known.get(&key) {
            return *frame;
        }
        let row = if place.address.is_some() && self.taken.insert(wanted) {
            wanted
        } else {
            self.made_up += 1;
            Frame { address: MADE_UP + self.made_up, ..wanted }
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
