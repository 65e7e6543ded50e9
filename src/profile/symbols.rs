//! Names of frames: a cache of what the addresses mean, filled when the recording ends.

use super::rows::{FrameId, StringId, id};
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
///
/// Rows are append-only: a frame that is named again gets new locations and its old ones stay unused.
/// `by_function` covers the first `indexed` functions, as in the other tables.
#[derive(Debug, Default)]
pub struct Symbols {
    functions: Vec<Function>,
    by_function: FxHashMap<Function, FunctionId>,
    indexed: usize,
    locations: Vec<Location>,
    /// Ranges of the locations of each frame, by frame id; empty for a frame without a name.
    spans: Vec<LocationSpan>,
    /// Frames in the order in which they were named; one that was named again is there again.
    naming_order: Vec<FrameId>,
    named_frames: usize,
}

/// A range of `Symbols::locations`.
#[derive(Debug, Clone, Copy, Default)]
struct LocationSpan {
    start: u32,
    len: u32,
}

/// A copy for readers: the index of functions is made again when one is added.
impl Clone for Symbols {
    fn clone(&self) -> Self {
        Symbols {
            functions: self.functions.clone(),
            by_function: FxHashMap::default(),
            indexed: 0,
            locations: self.locations.clone(),
            spans: self.spans.clone(),
            naming_order: self.naming_order.clone(),
            named_frames: self.named_frames,
        }
    }
}

impl PartialEq for Symbols {
    fn eq(&self, other: &Self) -> bool {
        self.functions == other.functions && self.frames() == other.frames()
    }
}

impl Symbols {
    /// The id of `function`, added when new.
    pub fn intern_function(&mut self, function: Function) -> FunctionId {
        while let Some(&function) = self.functions.get(self.indexed) {
            self.by_function.entry(function).or_insert(FunctionId(self.indexed as u32));
            self.indexed += 1;
        }
        *self.by_function.entry(function).or_insert_with(|| {
            self.functions.push(function);
            self.indexed += 1;
            FunctionId(self.functions.len() as u32 - 1)
        })
    }

    /// Appends a function as the next id. The reader's way in: an equal one is not looked for.
    pub(super) fn push_function(&mut self, function: Function) {
        self.functions.push(function);
    }

    /// Names `frame`: the innermost inlined function first, the function that owns the code last. An
    /// empty list changes nothing. `frame` must be an id of the profile's tables.
    pub fn set_locations(&mut self, frame: FrameId, locations: Vec<Location>) {
        self.set_location_slice(frame, &locations);
    }

    /// Sets locations like [`Symbols::set_locations`].
    pub(super) fn set_location_slice(&mut self, frame: FrameId, locations: &[Location]) {
        debug_assert!(locations.iter().all(|l| l.function.index() < self.functions.len()));
        let current = self.locations(frame);
        if locations.is_empty() || current == locations {
            return;
        }
        self.named_frames += usize::from(current.is_empty());
        if self.spans.len() <= frame.index() {
            self.spans.resize(frame.index() + 1, LocationSpan::default());
        }
        let start = self.locations.len() as u32;
        self.locations.extend_from_slice(locations);
        self.spans[frame.index()] = LocationSpan { start, len: locations.len() as u32 };
        self.naming_order.push(frame);
    }

    /// The functions at `frame`, innermost first; empty when it could not be named.
    pub fn locations(&self, frame: FrameId) -> &[Location] {
        let Some(span) = self.spans.get(frame.index()) else { return &[] };
        let start = span.start as usize;
        &self.locations[start..start + span.len as usize]
    }

    /// Whether the name of `frame` comes from a symbol table or DWARF. Functions of stripped modules are
    /// called after their start, `module+0xSTART`: they have locations, too, but no raw name.
    pub(crate) fn is_named(&self, frame: FrameId) -> bool {
        let locations = self.locations(frame);
        locations.iter().any(|location| self.function(location.function).raw_name != StringId(0))
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
    pub(crate) fn frames(&self) -> Vec<(FrameId, &[Location])> {
        let ids = (0..self.spans.len() as u32).map(FrameId);
        ids.map(|id| (id, self.locations(id))).filter(|(_, locations)| !locations.is_empty()).collect()
    }

    /// Number of named frames.
    #[cfg(test)]
    pub(crate) fn named_frames(&self) -> usize {
        self.named_frames
    }

    /// The frames in the order in which they were named; one that was named again is there again.
    pub(super) fn naming_order(&self) -> &[FrameId] {
        &self.naming_order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at_line(line: u32) -> Location {
        Location { line, ..Location::default() }
    }

    #[test]
    fn the_latest_name_of_a_frame_counts() {
        let mut symbols = Symbols::default();
        symbols.intern_function(Function::default());
        symbols.set_locations(FrameId(3), vec![at_line(1), at_line(2)]);
        symbols.set_locations(FrameId(1), vec![at_line(5)]);
        symbols.set_locations(FrameId(3), vec![at_line(7)]);
        symbols.set_locations(FrameId(1), Vec::new());
        assert_eq!(symbols.locations(FrameId(3)), [at_line(7)]);
        assert_eq!(symbols.locations(FrameId(0)), []);
        assert_eq!(symbols.locations(FrameId(9)), []);
        assert_eq!(symbols.named_frames(), 2);
        assert_eq!(symbols.frames(), [(FrameId(1), &[at_line(5)][..]), (FrameId(3), &[at_line(7)][..])]);
        assert_eq!(symbols.naming_order(), [FrameId(3), FrameId(1), FrameId(3)]);
    }

    #[test]
    fn a_frame_without_a_raw_name_is_not_named() {
        let mut symbols = Symbols::default();
        let at_start = symbols.intern_function(Function { name: StringId(1), raw_name: StringId(0) });
        let known = symbols.intern_function(Function { name: StringId(2), raw_name: StringId(3) });
        let location = |function| Location { function, ..Location::default() };
        symbols.set_locations(FrameId(0), vec![location(at_start)]);
        symbols.set_locations(FrameId(1), vec![location(known)]);
        assert!(!symbols.is_named(FrameId(0)) && !symbols.is_named(FrameId(2)));
        assert!(symbols.is_named(FrameId(1)));
    }

    #[test]
    fn functions_that_were_appended_are_found_again() {
        let mut symbols = Symbols::default();
        let function = |name| Function { name: StringId(name), raw_name: StringId(name) };
        symbols.push_function(function(1));
        symbols.push_function(function(2));
        assert_eq!(symbols.intern_function(function(2)), FunctionId(1));
        assert_eq!(symbols.intern_function(function(3)), FunctionId(2));
        assert_eq!(symbols.intern_function(function(1)), FunctionId(0));
    }
}
