use super::super::dump_piece::{
    ARCHITECTURE_TIMES, HEADER_BYTES, MAGIC, RECORD_HEADER_BYTES, SAME_FILE, VERSION,
};
use super::*;
use proptest::prelude::*;
use std::io::Write;
use std::os::unix::fs::MetadataExt;

/// A dump written piece by piece.
struct DumpWriter {
    file: Arc<File>,
    bytes: Vec<u8>,
}

fn header(flags: u64) -> Vec<u8> {
    let words = [MAGIC, VERSION, HEADER_BYTES as u32, 62, 0, 77];
    let mut bytes: Vec<u8> = words.into_iter().flat_map(u32::to_le_bytes).collect();
    bytes.extend(1u64.to_le_bytes());
    bytes.extend(flags.to_le_bytes());
    bytes
}

fn record(kind: u32, time_ns: u64, body: &[u8]) -> Vec<u8> {
    let mut bytes = kind.to_le_bytes().to_vec();
    bytes.extend((RECORD_HEADER_BYTES as u32 + body.len() as u32).to_le_bytes());
    bytes.extend(time_ns.to_le_bytes());
    bytes.extend(body);
    bytes
}

fn numbers(numbers: &[u64]) -> Vec<u8> {
    numbers.iter().flat_map(|number| number.to_le_bytes()).collect()
}

/// The bytes of a load record. Process and thread are one word.
fn load(time_ns: u64, start: u64, size: u64, name: &str) -> Vec<u8> {
    let body = [&numbers(&[0x4d_0000_004d, start, start, size, 1])[..], name.as_bytes(), &[0; 5]].concat();
    record(0, time_ns, &body)
}

fn moved(time_ns: u64, old: u64, new: u64, size: u64) -> Vec<u8> {
    record(1, time_ns, &numbers(&[0x4d_0000_004d, new, old, new, size, 1]))
}

fn lines(start: u64, entries: &[(u64, u32, &[u8])]) -> Vec<u8> {
    let mut body = numbers(&[start, entries.len() as u64]);
    for (address, line, file) in entries {
        body.extend(numbers(&[*address, u64::from(*line)]));
        body.extend(*file);
        body.push(0);
    }
    record(2, 0, &body)
}

impl DumpWriter {
    fn new(flags: u64) -> (DumpWriter, JitDump) {
        let file = Arc::new(tempfile::tempfile().unwrap());
        let uid = file.metadata().unwrap().uid();
        let dump = JitDump::new(Arc::clone(&file), uid).unwrap();
        let mut writer = DumpWriter { file, bytes: Vec::new() };
        writer.write(&header(flags));
        (writer, dump)
    }

    fn write(&mut self, bytes: &[u8]) {
        (&*self.file).write_all(bytes).unwrap();
        self.bytes.extend(bytes);
    }
}

fn read(dump: &mut JitDump) -> Progress {
    dump.read_more(usize::MAX, &NamingLimits::default())
}

fn name(dump: &JitDump, address: u64, time_ns: u64) -> Option<&str> {
    dump.lookup(address, time_ns, time_ns).map(|found| found.name)
}

#[test]
fn a_name_holds_for_its_addresses_and_its_time() {
    let (mut writer, mut dump) = DumpWriter::new(0);
    writer.write(&load(100, 0x1000, 0x100, "first"));
    writer.write(&load(200, 0x2000, 0x100, "other"));
    writer.write(&load(300, 0x1080, 0x100, "second"));
    writer.write(&load(400, 0x1080, 0x10, "third"));
    assert_eq!(read(&mut dump), Progress { records: 4, has_more: false });
    assert_eq!((dump.pid(), dump.len(), dump.bad_records(), dump.is_cut()), (77, 4, 0, false));
    assert_eq!(name(&dump, 0xfff, 150), None);
    assert_eq!(name(&dump, 0x1000, 150), Some("first"));
    assert_eq!(name(&dump, 0x10ff, 50), Some("first"), "nothing was there before");
    assert_eq!(name(&dump, 0x1100, 150), None, "what is there later was not there yet");
    assert_eq!([name(&dump, 0x1080, 299), name(&dump, 0x1080, 300)], [Some("first"), Some("second")]);
    assert_eq!([name(&dump, 0x1080, 399), name(&dump, 0x1080, 400)], [Some("second"), Some("third")]);
    assert_eq!(name(&dump, 0x1000, 300), None, "its code was given up as a whole");
    assert_eq!(name(&dump, 0x1090, 400), None);
    assert_eq!(name(&dump, 0x2050, 1000), Some("other"));
    let reuse = |time_ns| dump.lookup(0x1080, time_ns, time_ns).unwrap().reuse;
    assert_eq!([reuse(150), reuse(300), reuse(400)], [0, 3, 4]);
    assert_eq!(dump.lookup(0x1080, 310, 390).map(|found| found.name), Some("second"));
    assert_eq!(dump.lookup(0x1080, 290, 310), None, "it was two");
}

#[test]
fn moved_code_keeps_its_name_and_lines() {
    let (mut writer, mut dump) = DumpWriter::new(0);
    let of_f: [(u64, u32, &[u8]); 4] =
        [(0xfff, 4, b"/a.js"), (0x1000, 5, b"/a.js"), (0x1010, 9, SAME_FILE), (0x1020, 7, b"/b.js")];
    writer.write(&lines(0x1000, &of_f));
    writer.write(&load(100, 0x1000, 0x40, "f"));
    writer.write(&moved(200, 0x1000, 0x5000, 0x40));
    writer.write(&load(300, 0x1000, 0x40, "g"));
    assert_eq!(read(&mut dump).records, 4);
    let at = |address, time_ns| {
        dump.lookup(address, time_ns, time_ns).map(|found| (found.name, found.file, found.line))
    };
    assert_eq!(at(0x1000, 150), Some(("f", Some("/a.js"), 5)));
    assert_eq!(at(0x101f, 150), Some(("f", Some("/a.js"), 9)));
    assert_eq!(at(0x1030, 150), Some(("f", Some("/b.js"), 7)));
    assert_eq!(at(0x1000, 250), None);
    assert_eq!(at(0x5020, 250), Some(("f", Some("/b.js"), 7)));
    assert_eq!(at(0x1000, 350), Some(("g", None, 0)), "the lines are of the other code");
    assert_eq!(dump.lookup(0x1000, 350, 350).map(|found| found.reuse), Some(3));
}

#[test]
fn what_v8_makes_of_lines() {
    let (mut writer, mut dump) = DumpWriter::new(0);
    // The offset includes the header that perf writes before the code.
    writer.write(&lines(0x1000, &[(0x1040, 5, b"/a.js"), (0x1050, 9, b"/a.js")]));
    writer.write(&load(100, 0x1000, 0x40, "f"));
    // Names may be freed memory, too.
    writer.write(&lines(0x2000, &[(0x2040, 5, b"/a.js"), (0x2050, 9, b"\x8b\x04\x04")]));
    writer.write(&load(100, 0x2000, 0x40, "g"));
    assert_eq!(read(&mut dump).records, 4);
    assert_eq!(dump.bad_records(), 1);
    let line_at = |address| dump.lookup(address, 100, 100).map(|found| (found.name, found.line));
    assert_eq!([line_at(0x1000), line_at(0x100f), line_at(0x1010)], [("f", 5), ("f", 5), ("f", 9)].map(Some));
    assert_eq!(line_at(0x2000), Some(("g", 0)), "none of them is believed");
}

#[test]
fn records_are_read_as_they_are_finished() {
    let (mut writer, mut dump) = DumpWriter::new(0);
    let record = load(100, 0x1000, 0x100, "f");
    for &byte in &record {
        assert_eq!(read(&mut dump).records, 0);
        writer.write(&[byte]);
    }
    assert_eq!(read(&mut dump).records, 1);
    assert_eq!(name(&dump, 0x1000, 100), Some("f"));
    for start in 0..10 {
        writer.write(&load(200 + start, 0x1_0000 + start * 0x100, 0x100, "many"));
    }
    assert_eq!(dump.read_more(4, &NamingLimits::default()), Progress { records: 4, has_more: true });
    assert_eq!(dump.read_more(10, &NamingLimits::default()), Progress { records: 6, has_more: false });
    writer.write(&super::tests::record(3, 300, &[]));
    writer.write(&load(400, 0x9000, 0x100, "after the end"));
    assert_eq!(read(&mut dump).records, 1);
    assert_eq!(name(&dump, 0x9000, 400), None);
}

#[test]
fn the_processor_s_own_times_are_no_times() {
    let (mut writer, mut dump) = DumpWriter::new(ARCHITECTURE_TIMES);
    writer.write(&load(1 << 60, 0x1000, 0x100, "alone"));
    writer.write(&load(1 << 61, 0x2000, 0x100, "first"));
    writer.write(&load(1 << 62, 0x2000, 0x100, "second"));
    read(&mut dump);
    assert_eq!(name(&dump, 0x1000, 5), Some("alone"));
    assert_eq!(name(&dump, 0x2000, 5), None, "one of two");
}

#[test]
fn hostile_records_end_nothing_but_themselves() {
    let (mut writer, mut dump) = DumpWriter::new(0);
    writer.write(&load(1, u64::MAX - 4, 0x100, "wraps"));
    writer.write(&load(1, 0x1000, 0, "empty"));
    writer.write(&load(1, 0x2000, 0x10, ""));
    writer.write(&record(0, 1, &[0; 39]));
    writer.write(&record(1, 1, &[0; 47]));
    writer.write(&moved(1, 0x7777, 0x8888, 0x10));
    writer.write(&record(2, 1, &numbers(&[0x1000, u64::MAX])));
    writer.write(&record(4, 1, &[0xff; 100]));
    writer.write(&record(1000, 1, &[]));
    writer.write(&load(1, 0x3000, 0x10, &"x".repeat(10_000)));
    writer.write(&load(1, 0x4000, u64::MAX - 0x4000, "all"));
    writer.write(&load(2, 0x5000, 0x10, "good"));
    assert_eq!(read(&mut dump).records, 12);
    assert_eq!((dump.bad_records(), dump.is_cut()), (6, false));
    assert_eq!(name(&dump, 0x5000, 2), Some("good"));
    assert_eq!(name(&dump, 0x5000, 1), Some("all"));
    assert_eq!(name(&dump, 0x2000, 1), None, "no name is none");
    assert_eq!(name(&dump, 0x3000, 1).map(str::len), Some(NamingLimits::default().max_name_bytes));
    // A length that leads nowhere.
    writer.write(&[0, 0, 0, 0, 15, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    writer.write(&load(3, 0x6000, 0x10, "never"));
    assert_eq!(read(&mut dump).records, 0);
    assert!(dump.is_cut());
    assert_eq!(read(&mut dump), Progress::default());
}

#[test]
fn other_files_are_not_read() {
    for bytes in [&[0x7f; 100][..], &header(0)[..39], &[&[0; 4], &header(0)[4..]].concat()] {
        let file = Arc::new(tempfile::tempfile().unwrap());
        (&*file).write_all(bytes).unwrap();
        let uid = file.metadata().unwrap().uid();
        let mut dump = JitDump::new(file, uid).unwrap();
        assert_eq!(read(&mut dump), Progress::default());
        assert_eq!(dump.len(), 0);
    }
    let folder = tempfile::tempdir().unwrap();
    assert!(JitDump::new(Arc::new(File::open(folder.path()).unwrap()), 0).is_err(), "a folder");
    let file = File::create(folder.path().join("file")).unwrap();
    let uid = file.metadata().unwrap().uid();
    // Files of root are trusted, those of other users are not.
    assert_eq!(JitDump::new(Arc::new(file), uid.wrapping_add(1)).is_ok(), uid == 0);
}

#[test]
fn limits_hold() {
    let (mut writer, mut dump) = DumpWriter::new(0);
    for number in 0..10u64 {
        writer.write(&load(number, 0x1000 * (number + 1), 0x10, "name"));
    }
    let limits = NamingLimits { max_perf_map_entries: 3, ..NamingLimits::default() };
    dump.read_more(usize::MAX, &limits);
    assert_eq!((dump.len(), dump.is_cut()), (3, true));
    let (mut writer, mut dump) = DumpWriter::new(0);
    for number in 0..10u64 {
        writer.write(&load(number, 0x1000 * (number + 1), 0x10, "name"));
    }
    let limits = NamingLimits { max_perf_map_bytes: 13, ..NamingLimits::default() };
    dump.read_more(usize::MAX, &limits);
    assert_eq!((dump.len(), dump.is_cut()), (3, true));
}

#[test]
fn names_of_dumps() {
    assert!(JitDump::is_name("/tmp/jit-17.dump") && JitDump::is_name("jit-0.dump"));
    for other in ["/tmp/jit-.dump", "/tmp/jit-1a.dump", "/tmp/jit-17.dump.so", "/jit-17.dump/libc.so", ""] {
        assert!(!JitDump::is_name(other), "{other}");
    }
}

proptest! {
    #[test]
    fn damage_to_a_dump_is_survived(damage in prop::collection::vec((0usize..600, any::<u8>()), 0..20), cut in 0usize..600) {
        let (mut writer, _) = DumpWriter::new(0);
        writer.write(&lines(0x1000, &[(0x1000, 5, b"/a.js"), (0x1010, 9, SAME_FILE)]));
        for number in 0..5u64 {
            writer.write(&load(number * 10, 0x1000 + number * 0x80, 0x100, "name"));
            writer.write(&moved(number * 10 + 5, 0x1000 + number * 0x80, 0x1000 * number, 0x100));
        }
        let mut bytes = writer.bytes;
        for (at, value) in damage {
            let at = at % bytes.len();
            bytes[at] = value;
        }
        bytes.truncate(cut.max(1));
        let file = Arc::new(tempfile::tempfile().unwrap());
        (&*file).write_all(&bytes).unwrap();
        let uid = file.metadata().unwrap().uid();
        let mut dump = JitDump::new(file, uid).unwrap();
        read(&mut dump);
        for address in (0..0x6000).step_by(0x40) {
            let _ = dump.lookup(address, 7, 20);
            // Code that is there now never overlaps.
            let here = dump.present.range(..=address).next_back().map(|(_, &number)| dump.codes[number as usize]);
            let next = dump.present.range(address + 1..).next().map(|(start, _)| *start);
            prop_assert!(here.is_none_or(|code| next.is_none_or(|next| code.end <= next)));
        }
    }
}
