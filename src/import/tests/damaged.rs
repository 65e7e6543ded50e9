//! Files of all formats, truncated at every length and with every bit flipped, are either imported in part or refused.

use super::perf_file::{file, import_file, piped, records, with_copies};
use super::*;
use crate::report::pprof_messages::{
    PprofFunction, PprofLabel, PprofLine, PprofLocation, PprofMapping, PprofSample, ValueType,
};
use prost::encoding;

/// A profile of two functions, one inlined.
fn pprof() -> Vec<u8> {
    let mut out = Vec::new();
    for (kind, unit) in [(1, 2), (3, 4)] {
        encoding::message::encode(1, &ValueType { kind, unit }, &mut out);
    }
    for values in [vec![2, 2_000], vec![1, 1_000]] {
        let sample = PprofSample { locations: vec![1], values, labels: Vec::new() };
        encoding::message::encode(2, &sample, &mut out);
    }
    let mapping = PprofMapping { id: 1, start: 0x1000, limit: 0x2000, file: 5, ..PprofMapping::default() };
    encoding::message::encode(3, &mapping, &mut out);
    let line = |function| PprofLine { function, line: 7 };
    let lines = vec![line(1), line(2)];
    encoding::message::encode(4, &PprofLocation { id: 1, mapping: 1, address: 0x1010, lines }, &mut out);
    for (id, name) in [(1, 6), (2, 7)] {
        encoding::message::encode(5, &PprofFunction { id, name, system_name: name, file: 0 }, &mut out);
    }
    for text in ["", "samples", "count", "cpu", "nanoseconds", "/bin/app", "inner", "outer"] {
        encoding::string::encode(6, &text.to_owned(), &mut out);
    }
    encoding::int64::encode(10, &5_000_000, &mut out);
    out
}

#[test]
fn pprof_has_events_numbers_and_inlined_functions() {
    let (profile, _) = import_bytes(&pprof(), &ImportOptions::default()).expect("imports");
    let (weight, samples, stacks) = event(&profile, "on-cpu");
    assert_eq!((weight, samples), (3_000, 3));
    assert_eq!(stacks, ["inner<outer", "inner<outer"]);
    assert_eq!((profile.known_duration_ns(), profile.meta.target.as_str()), (Some(5_000_000), "app"));
}

/// Imports the bytes of a file.
type ImportOf = fn(&[u8]) -> Result<(Profile, Imported), ImportError>;
fn files() -> Vec<(&'static str, Vec<u8>, ImportOf)> {
    let of_bytes: ImportOf = |bytes| import_bytes(bytes, &ImportOptions::default());
    vec![
        ("folded", FOLDED.as_bytes().to_vec(), of_bytes),
        ("perf script", SCRIPT.as_bytes().to_vec(), of_bytes),
        ("pprof", pprof(), of_bytes),
        ("perf.data", file(&records()), import_file),
        ("perf.data through a pipe", piped(&records()), of_bytes),
        ("perf.data with copied stacks", with_copies(40), of_bytes),
    ]
}

/// Whether the result is one of the allowed ones.
fn is_told(result: &Result<(Profile, Imported), ImportError>) -> bool {
    matches!(result, Ok(_) | Err(ImportError::Foreign(_) | ImportError::NoSamples(_) | ImportError::Read(_)))
}

/// Whether the first bytes of a file are a whole file in themselves, which no reader could tell from one that was cut.
fn is_whole(name: &str, bytes: &[u8], whole: &[u8]) -> bool {
    match name {
        "folded" => bytes.ends_with(b"\n"),
        // The second newline ends an event. The first line alone is an event of a text without stacks.
        "perf script" => {
            let lines = bytes.iter().filter(|&&byte| byte == b'\n').count();
            bytes.ends_with(b"\n\n") || (bytes.ends_with(b"\n") && lines == 1)
        }
        // The length of the recording comes last.
        "pprof" => bytes.len() == whole.len() - 5,
        "perf.data through a pipe" | "perf.data with copied stacks" => ends_with_record(bytes, whole),
        _ => false,
    }
}

/// Whether the first bytes of a perf.data stream end between two records.
fn ends_with_record(bytes: &[u8], whole: &[u8]) -> bool {
    let mut at = 16;
    while at < bytes.len() {
        at += usize::from(u16::from_le_bytes([whole[at + 6], whole[at + 7]]));
    }
    at == bytes.len()
}

#[test]
fn every_cut_is_told() {
    for (name, bytes, import) in files() {
        let (_, whole) = import(&bytes).expect("imports");
        let mut silent = Vec::new();
        for cut in 0..bytes.len() {
            let result = import(&bytes[..cut]);
            assert!(is_told(&result), "{name} cut at {cut}: {result:?}");
            let is_noted =
                |imported: &Imported| imported.notes.iter().any(|note| !whole.notes.contains(note));
            let is_silent = result.as_ref().is_ok_and(|(_, imported)| !is_noted(imported));
            if is_silent && !is_whole(name, &bytes[..cut], &bytes) {
                silent.push(cut);
            }
        }
        assert_eq!(silent, [0; 0], "{name} of {} bytes was cut there, and nothing says so", bytes.len());
    }
}

/// Regression: `labels that are not kept: ` listed a label whose name was cut off.
#[test]
fn a_label_whose_name_is_missing_is_not_listed() {
    let mut bytes = Vec::new();
    encoding::message::encode(1, &ValueType { kind: 1, unit: 2 }, &mut bytes);
    let label = PprofLabel { key: 9, text: 9, ..PprofLabel::default() };
    let sample = PprofSample { locations: Vec::new(), values: vec![2], labels: vec![label] };
    encoding::message::encode(2, &sample, &mut bytes);
    for text in ["", "samples", "count"] {
        encoding::string::encode(6, &text.to_owned(), &mut bytes);
    }
    let (_, imported) = import_bytes(&bytes, &ImportOptions::default()).expect("imports");
    assert!(!imported.notes.iter().any(|note| note.contains("labels")), "{:?}", imported.notes);
    assert!(imported.notes.iter().any(|note| note.contains("names are missing")), "{:?}", imported.notes);
}

#[test]
fn a_text_that_is_cut_inside_a_line_is_imported_without_what_is_wrong() {
    let import = |text: &str| import_bytes(text.as_bytes(), &ImportOptions::default()).expect("imports");
    let has = |imported: &Imported, words: &str| imported.notes.iter().any(|note| note.contains(words));
    // A weight may be cut; a tool may also write no newline at the end.
    let (profile, imported) = import("main;work 3\nmain 1");
    assert_eq!(event(&profile, "samples").0, 4);
    assert!(has(&imported, "no newline"), "{:?}", imported.notes);
    let (profile, imported) = import("main;work 3\nmai");
    assert_eq!(event(&profile, "samples").0, 3);
    assert!(has(&imported, "no newline") && has(&imported, "left out"), "{:?}", imported.notes);

    // `55d0 ma` would be a function that the program does not have.
    let first = "app 1/1 1.5:  1000 cycles: \n\t 55d0 main (/bin/a)\n\n";
    let (profile, imported) =
        import(&format!("{first}app 1/1 1.6:  1000 cycles: \n\t 55d0 work (/bin/a)\n\t 55d8 ma"));
    assert_eq!(event(&profile, "cycles").2, ["main", "work"]);
    assert!(has(&imported, "cut inside its last line"), "{:?}", imported.notes);
    let (profile, imported) = import(&format!("{first}app 1/1 1.6:  10"));
    assert_eq!(event(&profile, "cycles").0, 1000);
    assert!(has(&imported, "cut inside its last line"), "{:?}", imported.notes);
    // Lines without frames need no empty line after them.
    let (_, imported) = import("app 1/1 1.5:  1000 cycles:  55d0 main (/bin/a)\n");
    assert!(!has(&imported, "cut"), "{:?}", imported.notes);
}

#[test]
fn every_flipped_bit_is_told() {
    for (name, bytes, import) in files() {
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            let result = import(&damaged);
            assert!(is_told(&result), "{name} with bit {bit} flipped: {result:?}");
        }
    }
}

/// Sets eight bytes at every offset to the largest values, for lengths and counts.
#[test]
fn the_largest_numbers_are_told() {
    for (name, bytes, import) in files() {
        for at in 0..bytes.len().saturating_sub(8) {
            for byte in [0xff, 0x7f] {
                let mut damaged = bytes.clone();
                damaged[at..at + 8].fill(byte);
                let result = import(&damaged);
                assert!(is_told(&result), "{name} with {byte:#x} at {at}: {result:?}");
            }
        }
    }
}
