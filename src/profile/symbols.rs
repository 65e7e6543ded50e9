//! Names of frames: a cache of what the addresses mean, filled when the recording ends.

use super::table::id;
use super::{FrameId, StringId};
use rustc_hash::FxHashMap;

id!(/** A [`Function`]. */ FunctionId);

/// A function's names.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Function {
    /// Name for people, demangled.
    pub name: StringId,
    /// Name as the symbol table or DWARF has it.
    pub raw_name: StringId,
}

/// One function at one place: a machine frame is one or more of these, inlined ones included.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Location {
    /// The function.
    pub function: FunctionId,
    /// Source file; the empty string (id 0) when unknown.
    pub file: StringId,
    /// Line in `file`, 0 when unknown.
    pub line: u32,
    /// Whether the function was inlined into the next location.
    pub is_inlined: bool,
}

/// Names of frames. A frame without an entry was not named: show `module+0xoffset`.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Symbols {
    functions: Vec<Function>,
    by_function: FxHashMap<Function, FunctionId>,
    frames: FxHashMap<FrameId, Vec<Location>>,
}

impl Symbols {
    /// The id of `function`, added when new.
    pub fn intern_function(&mut self, function: Function) -> FunctionId {
        *self.by_function.entry(function).or_insert_with(|| {
            self.functions.push(function);
            FunctionId(self.functions.len() as u32 - 1)
        })
    }

    /// Names `frame`: the innermost inlined function first, the function that owns the code last.
    pub fn set_locations(&mut self, frame: FrameId, locations: Vec<Location>) {
        debug_assert!(locations.iter().all(|l| l.function.index() < self.functions.len()));
        if !locations.is_empty() {
            self.frames.insert(frame, locations);
        }
    }

    /// The functions at `frame`, innermost first; empty when it could not be named.
    pub fn locations(&self, frame: FrameId) -> &[Location] {
        self.frames.get(&frame).map_or(&[], Vec::as_slice)
    }

    /// Row of a function.
    pub fn function(&self, id: FunctionId) -> Function {
        self.functions[id.index()]
    }

    /// All functions, by id.
    pub fn functions(&self) -> &[Function] {
        &self.functions
    }

    /// All named frames with their locations, in order of frame id.
    pub fn frames(&self) -> Vec<(FrameId, &[Location])> {
        let mut frames: Vec<_> =
            (self.frames.iter()).map(|(&frame, locations)| (frame, locations.as_slice())).collect();
        frames.sort_unstable_by_key(|(frame, _)| *frame);
        frames
    }

    /// Number of named frames.
    pub fn named_frames(&self) -> usize {
        self.frames.len()
    }
}
