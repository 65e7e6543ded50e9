//! `prof info --modules`: for each module what its names are from, what is missing, and what brings it.

use super::module_fields::{ModuleFields, NamesFields, UNKNOWN, module_fields};
use crate::base::safe_text;
use crate::base::units::{count, counted, honest_percent_text, percent};
use crate::report::analysis::Analysis;
use std::fmt::Write;

/// Modules listed with other facts; the document lists all.
const MOST_MODULES: usize = 30;

/// The modules for people, those with most frames of samples first.
pub(super) fn render(recording: &Analysis) -> String {
    let mut text = String::new();
    let mut modules = module_fields(recording);
    // It stays sorted by what else there is.
    modules.sort_by_key(|module| std::cmp::Reverse(module.sampled_frames));
    for (index, module) in modules.iter().enumerate() {
        if index > 0 {
            text.push('\n');
        }
        add(&mut text, module);
    }
    if text.is_empty() {
        text.push_str("no module: the recording has no samples\n");
    }
    text
}

/// A line for each of the first modules, by its name and its value.
pub(super) fn lines(recording: &Analysis) -> Vec<(&'static str, String)> {
    let modules = module_fields(recording);
    let line = |module: &ModuleFields| {
        let named = honest_percent_text(percent(module.named_frames, module.frames));
        let frames = counted(module.frames, "address");
        let build_id = if module.build_id.is_empty() { "no build ID" } else { &module.build_id };
        ("module", format!("{}  {frames}, {named} named  {build_id}", module.path))
    };
    let mut lines: Vec<_> = modules.iter().take(MOST_MODULES).map(line).collect();
    if modules.len() > MOST_MODULES {
        let more = count((modules.len() - MOST_MODULES) as u64);
        lines.push(("", format!("... {more} more modules (--modules lists all)")));
    }
    lines
}

fn add(text: &mut String, module: &ModuleFields) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "{}", safe_text::message(&module.path));
    let mut line = |name: &str, value: &str| {
        let _ = writeln!(text, "  {name:<10} {}", safe_text::message(value));
    };
    if module.kind == "elf" {
        line("build ID", if module.build_id.is_empty() { "none" } else { &module.build_id });
    }
    let share = |named, all| honest_percent_text(percent(named, all));
    line(
        "named",
        &format!(
            "{} of {} in samples, {} of {}",
            share(module.named_sampled_frames, module.sampled_frames),
            counted(module.sampled_frames, "frame"),
            share(module.named_frames, module.frames),
            counted(module.frames, "address"),
        ),
    );
    match &module.names {
        Some(names) => add_names(&mut line, module, names),
        None if module.kind == "elf" => line("names", "what they are from was not recorded"),
        None => {}
    }
}

fn add_names(line: &mut dyn FnMut(&str, &str), module: &ModuleFields, names: &NamesFields) {
    if names.symbols == UNKNOWN {
        // Of a file that could not be read, there is nothing to say but why.
        names.problems.iter().for_each(|problem| line("not read", problem));
        return;
    }
    let debug_file = names.debug_file.as_deref();
    let symbols = match (names.symbols, debug_file) {
        ("symtab", Some(file)) if !names.has_debug_info => format!("all functions, in {file}"),
        ("symtab", _) => "all functions (.symtab)".to_owned(),
        ("gnu_debugdata", _) => "all functions (.gnu_debugdata)".to_owned(),
        ("dynsym", _) => "exported functions only (.dynsym)".to_owned(),
        _ => "none".to_owned(),
    };
    line("symbols", &symbols);
    match (names.has_debug_info, debug_file) {
        (true, Some(file)) => line("debug info", file),
        (true, None) => line("debug info", "in the module itself"),
        (false, _) => line("debug info", "none"),
    }
    let shared = names.shared_file.iter().map(|file| format!("shared by several modules: {file}"));
    shared.for_each(|value| line("", &value));
    let package = names.package_file.iter().map(|file| format!("split: {file}"));
    package.for_each(|value| line("", &value));
    if names.split_units_found > 0 || names.split_units_missing > 0 {
        let missing = match names.split_units_missing {
            0 => String::new(),
            missing => format!(", {missing} not found"),
        };
        line(
            "",
            &format!("{} of split debug information read{missing}", counted(names.split_units_found, "unit")),
        );
    }
    names.problems.iter().for_each(|problem| line("not used", problem));
    // Of the vDSO there is no debug information anywhere.
    let Some(missing) = names.missing.filter(|_| module.kind == "elf") else { return };
    line("missing", missing);
    let mut ways: Vec<String> = names.install.iter().cloned().collect();
    if names.split_units_missing > 0 {
        ways.push("prof symbolize FILE --debug-dir DIR, where the .dwo files are".to_owned());
    }
    if let Some(shared) = &names.shared_file_missing {
        let name = shared.rsplit('/').next().unwrap_or(shared);
        ways.push(format!("prof symbolize FILE --debug-dir DIR, where {name} is"));
    }
    // Servers have no .dwo files.
    let is_at_servers = !names.has_debug_info || names.shared_file_missing.is_some();
    if is_at_servers && !module.build_id.is_empty() {
        ways.push("prof symbolize FILE --debuginfod".to_owned());
    }
    for (index, way) in ways.iter().enumerate() {
        line(if index == 0 { "get it by" } else { "or" }, way);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{
        Frame, FrameFlags, FrameSpace, Integrity, Meta, Module, ModuleKind, ModuleNotes, Profile, SymbolsFrom,
    };

    #[test]
    fn each_module_says_what_is_missing_and_what_brings_it() {
        let mut profile = Profile::new(Meta::default());
        let mut add = |path: &str, build_id: &[u8], kind, notes: Option<ModuleNotes>| {
            let path = profile.tables.intern_string(path);
            let module = Module { path, build_id: build_id.to_vec(), kind, instance: 0 };
            let module = profile.tables.intern_module(module);
            let flags = FrameFlags { space: FrameSpace::User, ..FrameFlags::default() };
            profile.tables.intern_frame(Frame { module, address: 16, flags });
            if let Some(notes) = notes {
                profile.module_notes.insert(module, notes);
            }
        };
        let ruby = ModuleNotes {
            symbols: SymbolsFrom::Dynsym,
            problems: vec!["/usr/lib/debug/x.debug: it is of build 0102, not 8a1b".to_owned()],
            package: "libruby3.1".to_owned(),
            distribution: "debian".to_owned(),
            ..ModuleNotes::default()
        };
        let own = ModuleNotes {
            symbols: SymbolsFrom::Symtab,
            has_debug_info: true,
            debug_file: "/d/own\x1b[1m.debug".to_owned(),
            split_found: 2,
            split_missing: 1,
            ..ModuleNotes::default()
        };
        add("/usr/lib/libruby.so", &[0x8a, 0x1b], ModuleKind::Elf, Some(ruby));
        let shared = ModuleNotes {
            symbols: SymbolsFrom::Symtab,
            has_debug_info: true,
            shared_missing: "../.dwz/common.debug".to_owned(),
            package: "git".to_owned(),
            distribution: "debian".to_owned(),
            ..ModuleNotes::default()
        };
        let damaged =
            ModuleNotes { problems: vec!["too many sections".to_owned()], ..ModuleNotes::default() };
        add("/home/u/own", &[1, 2], ModuleKind::Elf, Some(own));
        add("/usr/bin/git", &[3, 4], ModuleKind::Elf, Some(shared));
        add("/usr/bin/damaged", &[], ModuleKind::Elf, Some(damaged));
        add("/home/u/old", &[], ModuleKind::Elf, None);
        add("[jit]", &[], ModuleKind::Jit, None);
        let text = render(&Analysis::new(profile, Integrity::default()));
        insta::assert_snapshot!(text);
        assert!(text.lines().all(|line| line.len() <= 80), "{text}");
    }
}
