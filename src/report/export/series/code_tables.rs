//! Code that samples of all series refer to: functions, locations, modules and stacks, each once.

use super::options::SeriesOptions;
use crate::base::safe_text;
use crate::profile::{FrameId, FrameSpace, ModuleId, ModuleKind, Profile, StringId};
use crate::report::export::tools::stacks::{Numbered, frames_of, named};
use crate::report::model::label::{LabelId, PlaceId, Step, module_text};
use crate::report::query::selection::Selection;
use rustc_hash::FxHashMap;

/// Alignment of the address ranges that modules get.
const STEP: u64 = 1 << 20;

/// A function.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct SentFunction {
    pub(super) name: String,
    /// Source file; empty if unknown.
    pub(super) file: String,
}

/// A machine frame, with the functions that are inlined there.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct SentLocation {
    /// Index of the module; `None` for what is no code.
    pub(super) module: Option<u32>,
    /// Address in the module, if it is sent. Without it, the places of a line are one.
    pub(super) address: Option<u64>,
    /// Indices of functions, with lines, the innermost first.
    pub(super) lines: Vec<(u32, u32)>,
    /// Name of the kind of code that receivers of OpenTelemetry know; empty if there is none.
    pub(super) code: &'static str,
}

/// A module, and the range of addresses that it gets, since a recording has addresses in modules only.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct SentModule {
    pub(super) file: String,
    /// Build ID as hexadecimal digits; empty if unknown.
    pub(super) build_id: String,
    /// Start of the range; 0 where there was no room.
    pub(super) start: u64,
    pub(super) limit: u64,
    last_address: u64,
    /// Whether functions, files and lines in it are known.
    pub(super) known: [bool; 3],
}

impl SentModule {
    /// The address of a place in it; 0 for one without.
    pub(super) fn address(&self, address: Option<u64>) -> u64 {
        address.filter(|_| self.start != 0).map_or(0, |address| self.start.saturating_add(address))
    }
}

/// All code of a recording that is sent.
#[derive(Debug, Default)]
pub(crate) struct CodeTables {
    functions: Numbered<SentFunction>,
    locations: Numbered<SentLocation>,
    stacks: Numbered<Vec<u32>>,
    module_ids: Numbered<ModuleId>,
    modules: Vec<SentModule>,
}

impl CodeTables {
    pub(super) fn function(&self, index: u32) -> &SentFunction {
        &self.functions.items[index as usize]
    }

    pub(super) fn location(&self, index: u32) -> &SentLocation {
        &self.locations.items[index as usize]
    }

    pub(super) fn module(&self, index: u32) -> &SentModule {
        &self.modules[index as usize]
    }

    /// Indices of locations, leaf first.
    pub(super) fn stack(&self, index: u32) -> &[u32] {
        &self.stacks.items[index as usize]
    }

    /// Gives each module its range. To be called once, when all code is there.
    pub(super) fn place_modules(&mut self) {
        let mut next = STEP;
        for module in &mut self.modules {
            // A module with addresses that cannot be real gets no range, rather than one that overlaps another's.
            let end = next.checked_add(module.last_address).and_then(|last| last.checked_add(STEP));
            if let Some(limit) = end.map(|end| end / STEP * STEP).filter(|limit| *limit < i64::MAX as u64) {
                module.start = std::mem::replace(&mut next, limit);
                module.limit = limit;
            }
        }
    }
}

/// Identity of a location in one selection: the machine frame, and the functions shown for it, outermost first.
type SelectedLocation = (Option<FrameId>, Vec<(LabelId, PlaceId)>);

/// Adds the code of a selection to the tables.
pub(super) struct CodeOf<'t, 's, 'p> {
    tables: &'t mut CodeTables,
    selection: &'s Selection<'p>,
    options: &'s SeriesOptions,
    known: FxHashMap<SelectedLocation, u32>,
}

impl<'t, 's, 'p> CodeOf<'t, 's, 'p> {
    pub(super) fn new(
        tables: &'t mut CodeTables,
        selection: &'s Selection<'p>,
        options: &'s SeriesOptions,
    ) -> Self {
        CodeOf { tables, selection, options, known: FxHashMap::default() }
    }

    /// The index of the stack with these steps, root first.
    pub(super) fn stack(&mut self, path: &[Step]) -> u32 {
        let locations = frames_of(path).map(|functions| self.location(functions)).collect();
        self.tables.stacks.number(locations)
    }

    fn location(&mut self, functions: &[Step]) -> u32 {
        let frame = functions.first().and_then(|step| step.frame);
        let key = (frame, functions.iter().map(|step| (step.label, step.place)).collect());
        if let Some(index) = self.known.get(&key) {
            return *index;
        }
        let lines: Vec<(u32, u32)> = functions.iter().rev().map(|step| self.line(step)).collect();
        let (module, address, code) = match frame {
            Some(frame) => self.place_of(frame, functions),
            None => (None, None, ""),
        };
        let index = self.tables.locations.number(SentLocation { module, address, lines, code });
        self.known.insert(key, index);
        index
    }

    fn line(&mut self, step: &Step) -> (u32, u32) {
        let profile = self.selection.profile;
        let place = self.selection.labels.places()[step.place.index()];
        let label = self.selection.labels.get(step.label);
        let function = SentFunction {
            name: named(&label.text(self.options.common.names_for_programs())),
            file: safe_text::message(profile.tables.string(place.file)).into_owned(),
        };
        (self.tables.functions.number(function), place.line)
    }

    fn place_of(&mut self, frame: FrameId, functions: &[Step]) -> (Option<u32>, Option<u64>, &'static str) {
        let profile = self.selection.profile;
        let row = profile.tables.frame(frame);
        let index = self.tables.module_ids.number(row.module);
        if index as usize == self.tables.modules.len() {
            self.tables.modules.push(sent_module(profile, row.module));
        }
        let places = functions.iter().map(|step| self.selection.labels.places()[step.place.index()]);
        let (mut has_file, mut has_line) = (false, false);
        for place in places {
            has_file |= place.file != StringId(0);
            has_line |= place.line > 0;
        }
        let module = &mut self.tables.modules[index as usize];
        let address = row.lookup_address();
        module.last_address = module.last_address.max(address);
        let is_named = profile.symbols.is_named(frame);
        let known = [is_named, has_file, has_line];
        module.known.iter_mut().zip(known).for_each(|(all, one)| *all |= one);
        let code = match profile.tables.module(row.module).kind {
            _ if row.flags.space == FrameSpace::Kernel => "kernel",
            ModuleKind::Elf => "native",
            _ => "",
        };
        (Some(index), (self.options.with_addresses && !is_named).then_some(address), code)
    }
}

fn sent_module(profile: &Profile, id: ModuleId) -> SentModule {
    let module = profile.tables.module(id);
    SentModule {
        file: named(&module_text(profile, module.path, module.kind)),
        build_id: module.build_id.iter().map(|byte| format!("{byte:02x}")).collect(),
        ..SentModule::default()
    }
}
