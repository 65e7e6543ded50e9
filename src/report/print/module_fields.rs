//! The modules of a recording: how much of them is named, by what, and what is missing.

use crate::profile::{Event, FrameId, ModuleKind, ModuleNotes, SymbolsFrom};
use crate::report::analysis::Analysis;
use crate::report::model::label;
use crate::report::model::metric::Shown;
use crate::report::naming::debug_package;
use crate::report::options::{CommonOptions, FilterOptions};
use crate::report::query::selection::Selection;
use serde::Serialize;

/// A module.
#[derive(Debug, Serialize)]
pub(super) struct ModuleFields {
    pub(super) path: String,
    pub(super) build_id: String,
    pub(super) kind: &'static str,
    /// Addresses in it that samples have, and those that have a name.
    pub(super) frames: u64,
    pub(super) named_frames: u64,
    /// Frames of all samples that are in it, and those that have a name.
    pub(super) sampled_frames: u64,
    pub(super) named_sampled_frames: u64,
    /// Sources of the names; missing where not known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) names: Option<NamesFields>,
}

/// Sources of the names of a module.
#[derive(Debug, Serialize)]
pub(super) struct NamesFields {
    pub(super) symbols: &'static str,
    pub(super) has_debug_info: bool,
    pub(super) debug_file: Option<String>,
    pub(super) shared_file: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) shared_file_missing: Option<String>,
    pub(super) package_file: Option<String>,
    pub(super) split_units_found: u64,
    pub(super) split_units_missing: u64,
    pub(super) problems: Vec<String>,
    pub(super) package: Option<String>,
    pub(super) missing: Option<&'static str>,
    pub(super) install: Option<String>,
}

impl NamesFields {
    fn of(path: &str, notes: &ModuleNotes) -> Self {
        let text = |text: &String| Some(text.clone()).filter(|text| !text.is_empty());
        NamesFields {
            symbols: symbols_word(notes.symbols),
            has_debug_info: notes.has_debug_info,
            debug_file: text(&notes.debug_file),
            shared_file: text(&notes.shared_file),
            shared_file_missing: text(&notes.shared_missing),
            package_file: text(&notes.package_file),
            split_units_found: notes.split_found,
            split_units_missing: notes.split_missing,
            problems: notes.problems.clone(),
            package: text(&notes.package),
            missing: debug_package::missing_words(notes),
            install: debug_package::lacks_debug_info(notes)
                .then(|| debug_package::install_command(path, notes))
                .flatten(),
        }
    }
}

/// All modules, those with most addresses first.
pub(super) fn module_fields(recording: &Analysis) -> Vec<ModuleFields> {
    let profile = &recording.profile;
    let rows = profile.tables.modules().iter().enumerate();
    let mut modules: Vec<ModuleFields> = rows
        .map(|(index, module)| ModuleFields {
            path: label::module_text(profile, module.path, module.kind),
            build_id: module.build_id.iter().map(|byte| format!("{byte:02x}")).collect(),
            kind: kind_word(module.kind),
            frames: 0,
            named_frames: 0,
            sampled_frames: 0,
            named_sampled_frames: 0,
            names: (profile.module_notes.get(&crate::profile::ModuleId(index as u32)))
                .map(|notes| NamesFields::of(profile.tables.string(module.path), notes)),
        })
        .collect();
    let sampled = sampled_frames(recording);
    for (index, frame) in profile.tables.frames().iter().enumerate() {
        let module = &mut modules[frame.module.index()];
        let is_named = profile.symbols.is_named(FrameId(index as u32));
        let samples = sampled.get(index).copied().unwrap_or(0);
        module.frames += 1;
        module.named_frames += u64::from(is_named);
        module.sampled_frames += samples;
        module.named_sampled_frames += if is_named { samples } else { 0 };
    }
    modules.sort_by(|a, b| {
        (b.frames.cmp(&a.frames)).then_with(|| (&a.path, &a.build_id).cmp(&(&b.path, &b.build_id)))
    });
    modules
}

/// Samples of all events that have each frame.
fn sampled_frames(recording: &Analysis) -> Vec<u64> {
    let mut sampled = vec![0u64; recording.profile.tables.frames().len()];
    for selection in recording.profile.events.iter().filter_map(|event| unfiltered(recording, event)) {
        for (sum, samples) in sampled.iter_mut().zip(&selection.quality.samples_of_frame) {
            *sum = sum.saturating_add(*samples);
        }
    }
    sampled
}

/// All samples of `event`.
pub(super) fn unfiltered<'r>(recording: &'r Analysis, event: &'r Event) -> Option<Selection<'r>> {
    // Without patterns there is nothing that could be wrong with the options.
    let filter = FilterOptions { idle: true, ..FilterOptions::default() };
    let options = CommonOptions { filter, ..CommonOptions::default() };
    Selection::new(recording, Shown::one(event), &options).ok()
}

/// The word for symbols of a module that was not read.
pub(super) const UNKNOWN: &str = "unknown";

fn symbols_word(symbols: SymbolsFrom) -> &'static str {
    match symbols {
        SymbolsFrom::Unknown => UNKNOWN,
        SymbolsFrom::None => "none",
        SymbolsFrom::Dynsym => "dynsym",
        SymbolsFrom::DebugData => "gnu_debugdata",
        SymbolsFrom::Symtab => "symtab",
    }
}

fn kind_word(kind: ModuleKind) -> &'static str {
    match kind {
        ModuleKind::Elf => "elf",
        ModuleKind::Kernel => "kernel",
        ModuleKind::KernelModule => "kernel_module",
        ModuleKind::Vdso => "vdso",
        ModuleKind::Jit => "jit",
        ModuleKind::Runtime => "runtime",
        ModuleKind::Thread => "thread",
        ModuleKind::Unknown | ModuleKind::Other(_) => "unknown",
    }
}
