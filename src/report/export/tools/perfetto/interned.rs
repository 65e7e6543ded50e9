//! What packets refer to by index: names and annotations of slices, functions, files, modules.

use super::messages::{InternedData, InternedFrame, InternedMapping, InternedName, InternedString};
use super::states::ThreadState;
use crate::base::safe_text;
use crate::profile::{FrameId, ModuleId, Reason, StringId};
use crate::report::export::tools::stacks::{FrameTexts, Numbered, named};
use crate::report::model::label::{LabelId, PlaceId, module_text};
use crate::report::naming::style::NameStyle;
use crate::report::query::selection::Selection;

/// Slice categories.
const CATEGORIES: [&str; 3] = ["running", "runnable", "waiting"];

/// Names of slice annotations.
const ANNOTATIONS: [&str; 3] = ["reason", "waker", "stands_for_ns"];

/// Identity of a frame.
pub(super) type FrameKey = (LabelId, PlaceId, Option<FrameId>);

/// Names of slices, categories and annotations. The annotation texts are `wakers`, followed by the reasons.
pub(super) fn of_slices(wakers: &[String]) -> InternedData {
    let running = InternedName { id: event_name(ThreadState::Running), name: "running".to_owned() };
    let reasons = || Reason::ALL.into_iter().chain([Reason::Unknown(u8::MAX)]);
    let after = wakers.len() as u64;
    let text =
        |reason: Reason| InternedString { id: reason_text(after, reason), text: reason.label().into() };
    InternedData {
        categories: names_of(CATEGORIES.iter().map(|name| (*name).to_owned())),
        event_names: std::iter::once(running).chain(reasons().map(reason_name)).collect(),
        annotation_names: names_of(ANNOTATIONS.iter().map(|name| (*name).to_owned())),
        annotation_texts: strings_of(wakers.iter().cloned()).into_iter().chain(reasons().map(text)).collect(),
        ..InternedData::default()
    }
}

/// Frames, and their functions, files and modules.
pub(super) fn of_frames(selection: &Selection<'_>, style: NameStyle, frames: &[FrameKey]) -> InternedData {
    let profile = selection.profile;
    let mut interned = InternedData::default();
    let mut functions: Numbered<LabelId> = Numbered::default();
    let mut files: Numbered<StringId> = Numbered::default();
    let mut modules: Numbered<Option<ModuleId>> = Numbered::default();
    for (at, (label, place, frame)) in frames.iter().enumerate() {
        let place = selection.labels.places()[place.index()];
        let row = frame.map(|frame| profile.tables.frame(frame));
        let has_file = place.file != StringId(0);
        interned.frames.push(InternedFrame {
            id: at as u64 + 1,
            function_name: u64::from(functions.number(*label)) + 1,
            mapping: u64::from(modules.number(row.map(|row| row.module))) + 1,
            address: row.map_or(0, |row| row.lookup_address()),
            source_path: has_file.then(|| u64::from(files.number(place.file)) + 1),
            line: (place.line > 0).then_some(place.line),
        });
    }
    let texts = FrameTexts::new(selection, style);
    interned.function_names = strings_of(functions.items.iter().map(|label| texts.name_of(*label)));
    let file = |file: &StringId| safe_text::message(profile.tables.string(*file)).into_owned();
    interned.source_paths = strings_of(files.items.iter().map(file));
    add_modules(&mut interned, selection, &modules.items);
    interned
}

fn add_modules(interned: &mut InternedData, selection: &Selection<'_>, modules: &[Option<ModuleId>]) {
    let tables = &selection.profile.tables;
    let mut build_ids: Numbered<&[u8]> = Numbered::default();
    let path = |module: &Option<ModuleId>| match module.map(|module| tables.module(module)) {
        Some(module) => named(&module_text(selection.profile, module.path, module.kind)),
        None => "[prof]".to_owned(),
    };
    interned.mapping_paths = strings_of(modules.iter().map(path));
    for (module, id) in modules.iter().zip(1..) {
        let own = module.map_or(&[][..], |module| &tables.module(module).build_id);
        let build_id = u64::from(build_ids.number(own)) + 1;
        interned.mappings.push(InternedMapping { id, build_id, path: vec![id] });
    }
    let ids = build_ids.items.into_iter().zip(1..);
    interned.build_ids = ids.map(|(text, id)| InternedString { id, text: text.to_vec() }).collect();
}

fn names_of(names: impl Iterator<Item = String>) -> Vec<InternedName> {
    names.zip(1..).map(|(name, id)| InternedName { id, name }).collect()
}

fn strings_of(texts: impl Iterator<Item = String>) -> Vec<InternedString> {
    texts.zip(1..).map(|(text, id)| InternedString { id, text: text.into_bytes() }).collect()
}

/// Index of the category of a state in [`CATEGORIES`], from 1.
pub(super) fn category(state: ThreadState) -> u64 {
    match state {
        ThreadState::Running => 1,
        ThreadState::Waiting(Reason::NoCpu, _) => 2,
        ThreadState::Waiting(..) => 3,
    }
}

/// Index of a slice's name.
pub(super) fn event_name(state: ThreadState) -> u64 {
    match state {
        ThreadState::Running => 1,
        ThreadState::Waiting(reason, _) => reason_number(reason),
    }
}

fn reason_number(reason: Reason) -> u64 {
    let place = Reason::ALL.iter().position(|known| *known == reason);
    place.unwrap_or(Reason::ALL.len()) as u64 + 2
}

fn reason_name(reason: Reason) -> InternedName {
    let name = match reason {
        Reason::NoCpu => "runnable".to_owned(),
        reason => format!("waiting ({})", reason.label()),
    };
    InternedName { id: reason_number(reason), name }
}

/// Index of a reason among the annotation texts, of which `after` come first.
pub(super) fn reason_text(after: u64, reason: Reason) -> u64 {
    after + reason_number(reason)
}
