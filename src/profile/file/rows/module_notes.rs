//! Notes of modules, to and from a file. A later row of a module replaces an earlier one.

use crate::profile::file::rows::schema;
use crate::profile::rows::{ModuleId, ModuleNotes, SymbolsFrom};

/// Problems of one module that are kept, and their length, bytes.
const MAX_PROBLEMS: usize = 16;
const MAX_PROBLEM_BYTES: usize = 1024;
/// Longest other text, bytes.
const MAX_TEXT_BYTES: usize = 4096;
/// Rows of a chunk, which stays below half of the largest payload.
pub(in crate::profile::file) const ROWS_PER_CHUNK: usize = 96;

/// At most `max` bytes of `text`, whole characters.
fn cut(text: &str, max: usize) -> String {
    let end = (0..=max.min(text.len())).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    text[..end].to_owned()
}

/// The row of a module.
pub(in crate::profile::file) fn row(module: ModuleId, notes: &ModuleNotes) -> schema::ModuleNotesRow {
    schema::ModuleNotesRow {
        module: module.0,
        symbols: notes.symbols.code(),
        has_debug_info: notes.has_debug_info,
        debug_file: cut(&notes.debug_file, MAX_TEXT_BYTES),
        shared_file: cut(&notes.shared_file, MAX_TEXT_BYTES),
        package_file: cut(&notes.package_file, MAX_TEXT_BYTES),
        split_found: notes.split_found,
        split_missing: notes.split_missing,
        problems: notes.problems.iter().take(MAX_PROBLEMS).map(|it| cut(it, MAX_PROBLEM_BYTES)).collect(),
        package: cut(&notes.package, MAX_TEXT_BYTES),
        distribution: cut(&notes.distribution, MAX_TEXT_BYTES),
        shared_missing: cut(&notes.shared_missing, MAX_TEXT_BYTES),
    }
}

/// Decodes a row.
pub(in crate::profile::file) fn notes(row: schema::ModuleNotesRow) -> ModuleNotes {
    let mut problems = row.problems;
    problems.truncate(MAX_PROBLEMS);
    ModuleNotes {
        symbols: SymbolsFrom::from_code(row.symbols),
        has_debug_info: row.has_debug_info,
        debug_file: row.debug_file,
        shared_file: row.shared_file,
        shared_missing: row.shared_missing,
        package_file: row.package_file,
        split_found: row.split_found,
        split_missing: row.split_missing,
        problems,
        package: row.package,
        distribution: row.distribution,
    }
}

/// Memory that a row takes, bytes.
pub(in crate::profile::file) fn row_bytes(row: &schema::ModuleNotesRow) -> usize {
    let files = [&row.debug_file, &row.shared_file, &row.shared_missing, &row.package_file];
    let texts = files.into_iter().chain([&row.package, &row.distribution]);
    let texts = texts.chain(&row.problems).map(|text| text.len() + size_of::<String>());
    texts.sum::<usize>() + size_of::<ModuleNotes>()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Meta, Module, ModuleKind, Profile, Writer, read};

    #[test]
    fn notes_come_back_and_the_last_ones_count() {
        let mut profile = Profile::new(Meta::default());
        let path = profile.tables.intern_string("/usr/bin/x");
        let module =
            |build_id: u8| Module { path, build_id: vec![build_id], kind: ModuleKind::Elf, instance: 0 };
        let ids = [1, 2].map(|build_id| profile.tables.intern_module(module(build_id)));
        let first =
            ModuleNotes { symbols: SymbolsFrom::Dynsym, package: "x".to_owned(), ..ModuleNotes::default() };
        profile.module_notes.insert(ids[0], first.clone());
        let mut writer = Writer::new(Vec::new(), &profile.meta).expect("a file");
        writer.flush(&mut profile, true).expect("written");
        let whole = ModuleNotes {
            symbols: SymbolsFrom::Symtab,
            has_debug_info: true,
            debug_file: "/d/x.debug".to_owned(),
            shared_file: "/d/shared".to_owned(),
            shared_missing: "/d/other".to_owned(),
            package_file: "/d/x.dwp".to_owned(),
            split_found: 3,
            split_missing: 4,
            problems: vec!["/y: why".to_owned(); MAX_PROBLEMS],
            package: String::new(),
            distribution: "debian".to_owned(),
        };
        profile.module_notes.insert(ids[0], whole.clone());
        profile.module_notes.insert(ids[1], first);
        writer.flush(&mut profile, true).expect("written");
        let (again, integrity) = read(writer.into_inner().as_slice()).expect("a profile");
        assert_eq!((integrity.unknown_chunks, integrity.unknown_fields), (0, 0));
        assert_eq!(again.module_notes, profile.module_notes);
        assert_eq!(again.module_notes[&ids[0]], whole);
    }

    #[test]
    fn long_texts_are_cut_between_characters() {
        let notes = ModuleNotes {
            debug_file: "ä".repeat(9000),
            problems: vec!["ö".repeat(9000); 99],
            ..ModuleNotes::default()
        };
        let row = row(ModuleId(0), &notes);
        assert_eq!((row.debug_file.len(), row.problems.len(), row.problems[0].len()), (4096, 16, 1024));
    }
}
