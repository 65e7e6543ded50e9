//! Files of strangers that lie, mapped and run by the target.

use crate::fault::{Fault, How, Outcome};
use crate::harness::fixture;
use crate::recorder::{Recorder, samples};
use crate::target::Storm;
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

/// Memory of a recorder that reads hostile files, MB.
const MOST_MB: u64 = 512;

pub(super) fn rows() -> Vec<Fault> {
    vec![Fault {
        number: "40",
        name: "libraries whose headers lie",
        holds: "no panic, bounded memory and time, the target is recorded",
        tests: &[
            "a_bomb_stops_at_the_size_it_declared",
            "holes_in_sections_take_no_memory",
            "a_sparse_file_of_a_tebibyte_is_quick",
            "entries_that_share_a_long_list_are_cut_off",
            "a_million_units_are_listed_in_little_memory",
            "checksum_is_the_one_of_zlib",
        ],
        how: How::Injected { short: Some(2), long: 10, run: lying_files },
    }]
}

/// What is said of a file that is a library all the same: the dynamic linker reads no section.
struct Section {
    /// Where its entry is in the section table.
    entry: usize,
    offset: usize,
}

/// Offsets in an entry of the section table.
const FLAGS: usize = 8;
const OFFSET: usize = 24;
const SIZE: usize = 32;
const SHF_COMPRESSED: u64 = 1 << 11;

fn word(bytes: &[u8], at: usize) -> usize {
    u64::from_le_bytes(bytes[at..at + 8].try_into().unwrap()) as usize
}

fn half(bytes: &[u8], at: usize) -> usize {
    usize::from(u16::from_le_bytes(bytes[at..at + 2].try_into().unwrap()))
}

fn put(bytes: &mut [u8], at: usize, number: u64) {
    bytes[at..at + 8].copy_from_slice(&number.to_le_bytes());
}

/// The section of a library that was just built.
fn section(bytes: &[u8], name: &str) -> Section {
    let (table, count) = (word(bytes, 0x28), half(bytes, 0x3c));
    let names = word(bytes, table + 64 * half(bytes, 0x3e) + OFFSET);
    let found = (0..count).map(|index| table + 64 * index).find(|entry| {
        let at = names + u32::from_le_bytes(bytes[*entry..*entry + 4].try_into().unwrap()) as usize;
        bytes[at..].starts_with(name.as_bytes()) && bytes[at + name.len()] == 0
    });
    let entry = found.unwrap_or_else(|| panic!("the library has a section {name}"));
    Section { entry, offset: word(bytes, entry + OFFSET) }
}

/// Lies, each by its name.
fn lies(sound: &[u8]) -> Vec<(String, Vec<u8>)> {
    let mut found: Vec<(String, Vec<u8>)> = Vec::new();
    let mut lie = |name: &str, change: &dyn Fn(&mut Vec<u8>)| {
        let mut bytes = sound.to_vec();
        change(&mut bytes);
        found.push((name.to_owned(), bytes));
    };
    for name in [".debug_info", ".debug_line", ".debug_str", ".symtab", ".strtab", ".eh_frame", ".dynsym"] {
        lie(&format!("size{name}"), &|bytes| {
            let entry = section(bytes, name).entry;
            put(bytes, entry + SIZE, 1 << 62);
        });
        lie(&format!("offset{name}"), &|bytes| {
            let entry = section(bytes, name).entry;
            put(bytes, entry + OFFSET, u64::MAX - 4);
        });
    }
    for (name, bits) in [("huge", 62), ("tebibyte", 40), ("gibibytes", 37)] {
        lie(&format!("unpacked-{name}"), &|bytes| {
            let found = section(bytes, ".debug_info");
            put(bytes, found.entry + FLAGS, SHF_COMPRESSED);
            put(bytes, found.offset, 1);
            put(bytes, found.offset + 8, 1 << bits);
        });
    }
    lie("table-behind-the-end", &|bytes| put(bytes, 0x28, 1 << 50));
    lie("many-sections", &|bytes| bytes[0x3c..0x3e].copy_from_slice(&0xfff0u16.to_le_bytes()));
    lie("names-nowhere", &|bytes| bytes[0x3e..0x40].copy_from_slice(&0xfff0u16.to_le_bytes()));
    for name in [".eh_frame", ".debug_abbrev", ".debug_info", ".debug_line"] {
        for fill in [0x00, 0xff, 0x80] {
            lie(&format!("filled-{fill:x}{name}"), &|bytes| {
                let found = section(bytes, name);
                let size = word(bytes, found.entry + SIZE);
                // The dynamic linker needs the length of the first entry of .eh_frame, to know its end.
                bytes[found.offset + 4..found.offset + size].fill(fill);
            });
        }
    }
    found
}

/// A library whose debug section unpacks to much more than it takes.
fn bomb(sound: &[u8]) -> Vec<u8> {
    const UNPACKED: usize = 256 << 20;
    let mut bytes = sound.to_vec();
    let entry = section(&bytes, ".debug_info").entry;
    let mut packer = flate2::write::ZlibEncoder::new(Vec::new(), flate2::Compression::fast());
    let zeros = vec![0; 1 << 20];
    (0..UNPACKED >> 20).for_each(|_| packer.write_all(&zeros).expect("a vector takes all"));
    let packed = packer.finish().expect("a vector takes all");
    let at = bytes.len() as u64;
    put(&mut bytes, entry + FLAGS, SHF_COMPRESSED);
    put(&mut bytes, entry + OFFSET, at);
    put(&mut bytes, entry + SIZE, packed.len() as u64 + 24);
    for number in [1, UNPACKED as u64, 1] {
        bytes.extend(number.to_le_bytes());
    }
    bytes.extend(packed);
    bytes
}

fn lying_files(seconds: u64) -> Outcome {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let program = fixture::build("storm").expect("a C compiler is there");
    let sound = fs::read(program.with_extension("plugin.so")).expect("it was built");
    let mut lies = lies(&sound);
    lies.push(("bomb".to_owned(), bomb(&sound)));
    for (name, bytes) in &lies {
        write(&folder.path().join(format!("{name}.so")), bytes);
    }
    // Nothing behind its end, for a tebibyte.
    let sparse = folder.path().join("sparse.so");
    write(&sparse, &sound);
    File::options().write(true).open(&sparse).expect("own file").set_len(1 << 40).expect("a sparse file");
    let mut outcome = Outcome { faults: lies.len() as u64 + 1, ..Outcome::default() };
    let storm = Storm::start(&["libraries", folder.path().to_str().expect("a temporary path is text")]);
    let length = format!("{seconds}s");
    let ended = Recorder::start(&["-p", &storm.pid().to_string(), "-d", &length]).end(&mut outcome);
    let facts = ended.count(&mut outcome).unwrap_or_default();
    let megabytes = facts["cost"]["max_rss_bytes"].as_u64().unwrap_or(0) / 1_000_000;
    outcome.expect(samples(&facts) > 0, || format!("nothing was recorded: `{}`", ended.said.trim()));
    outcome.expect(megabytes < MOST_MB, || format!("prof takes {megabytes} MB"));
    let loads = storm.finish(&mut outcome);
    outcome.note = format!("loaded {loads} times, {} samples, {megabytes} MB", samples(&facts));
    outcome
}

fn write(path: &Path, bytes: &[u8]) {
    fs::write(path, bytes).expect("there is room");
}
