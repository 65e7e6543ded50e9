//! Small perf.data files, generated here.

use super::*;
use crate::profile::{FrameSpace, counter};
use std::fs::File;
use std::io::Write;

/// Sample fields: address, thread, time, CPU, period, callchain.
const SAMPLE_TYPE: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 7 | 1 << 8 | 1 << 5;

fn words(words: &[u64]) -> Vec<u8> {
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn halves(pair: [u32; 2]) -> Vec<u8> {
    pair.iter().flat_map(|half| half.to_le_bytes()).collect()
}

/// A record: its header and its parts, padded to eight bytes.
pub(super) fn record(kind: u32, misc: u16, parts: &[&[u8]]) -> Vec<u8> {
    let mut body = parts.concat();
    body.resize(body.len().next_multiple_of(8), 0);
    let mut record = kind.to_le_bytes().to_vec();
    record.extend(misc.to_le_bytes());
    record.extend((body.len() as u16 + 8).to_le_bytes());
    record.extend(body);
    record
}

fn sample(time: u64, chain: &[u64]) -> Vec<u8> {
    let fields = [chain.len() as u64];
    let parts = [
        words(&[*chain.iter().find(|word| **word < u64::MAX - 4096).unwrap_or(&0)]),
        halves([10, 11]),
        words(&[time]),
        halves([1, 0]),
        words(&[250_000]),
        words(&fields),
        words(chain),
    ];
    record(9, 2, &parts.iter().map(Vec::as_slice).collect::<Vec<_>>())
}

/// Thread, time and CPU at the end of records other than samples.
fn id(time: u64) -> Vec<u8> {
    [halves([10, 11]), words(&[time]), halves([1, 0])].concat()
}

/// The records of a process with two threads; the last samples are out of order.
pub(super) fn records() -> Vec<u8> {
    [
        records_without_samples(),
        sample(10_000, &[u64::MAX - 127, 0xffff_8010, u64::MAX - 511, 0x5010, 0x5020]),
        record(68, 0, &[]),
        sample(30_000, &[u64::MAX - 511, 0x5010, 0x5020]),
        sample(20_000, &[u64::MAX - 511, 0x9999]),
        record(2, 0, &[&words(&[0, 5]), &id(40_000)]),
        record(68, 0, &[]),
    ]
    .concat()
}

/// Records of what was mapped, started and named.
fn records_without_samples() -> Vec<u8> {
    let text = |text: &str| {
        let mut bytes = text.as_bytes().to_vec();
        bytes.resize((bytes.len() + 1).next_multiple_of(8), 0);
        bytes
    };
    let protection = halves([5, 2]);
    let file = words(&[0, 0, 0]);
    [
        record(
            1,
            1,
            &[
                &halves([u32::MAX, 0]),
                &words(&[0xffff_8000, 0x10_0000, 0xffff_8000]),
                &text("[kernel.kallsyms]_text"),
                &id(0),
            ],
        ),
        record(3, 1 << 13, &[&halves([10, 10]), &text("app"), &id(1)]),
        record(
            10,
            2,
            &[
                &halves([10, 10]),
                &words(&[0x5000, 0x1000, 0x2000]),
                &file,
                &protection,
                &text("/bin/nowhere"),
                &id(2),
            ],
        ),
        record(7, 0, &[&halves([10, 10]), &halves([11, 10]), &words(&[3]), &id(3)]),
        record(3, 0, &[&halves([10, 11]), &text("worker"), &id(4)]),
    ]
    .concat()
}

fn attribute() -> Vec<u8> {
    attribute_of(SAMPLE_TYPE, 0)
}

/// An attribute whose samples have `sample_type`, and these registers of user code.
fn attribute_of(sample_type: u64, user_registers: u64) -> Vec<u8> {
    let mut bytes = halves([1, 112]);
    // The CPU clock, every 250 us, with thread and time in all records.
    bytes.extend(words(&[0, 250_000, sample_type, 0, 1 << 18, 0, 0, 0, 0, user_registers]));
    bytes.resize(112, 0);
    bytes
}

/// perf's registers of x86-64.
const REGISTERS: u64 = 0xff_0fff;

/// Bytes that perf writes to a pipe: samples with a copy of the stack, of which `filled` bytes are there.
pub(super) fn with_copies(filled: u64) -> Vec<u8> {
    let mut registers = vec![0; REGISTERS.count_ones() as usize];
    // The stack pointer, and the instruction pointer.
    (registers[7], registers[8]) = (0x7fff_0000, 0x5010);
    let copied = |time: u64| {
        let parts = [
            words(&[0x5010]),
            halves([10, 11]),
            words(&[time]),
            halves([1, 0]),
            words(&[250_000]),
            words(&[0]),
            words(&[2]),
            words(&registers),
            words(&[64]),
            vec![0; 64],
            words(&[filled]),
        ];
        record(9, 2, &parts.iter().map(Vec::as_slice).collect::<Vec<_>>())
    };
    let attribute = attribute_of(SAMPLE_TYPE | 1 << 12 | 1 << 13, REGISTERS);
    [
        b"PERFILE2".to_vec(),
        words(&[16]),
        record(64, 0, &[&attribute]),
        records_without_samples(),
        copied(10_000),
        copied(20_000),
        record(68, 0, &[]),
    ]
    .concat()
}

/// A complete file with these records.
pub(super) fn file(records: &[u8]) -> Vec<u8> {
    const HEADER: u64 = 104;
    let attributes_at = HEADER;
    let data_at = attributes_at + 128;
    let mut bytes = b"PERFILE2".to_vec();
    bytes.extend(words(&[HEADER, 128, attributes_at, 128, data_at, records.len() as u64, 0, 0]));
    // Features: release and version.
    bytes.extend(words(&[1 << 4 | 1 << 5, 0, 0, 0]));
    bytes.extend(attribute());
    bytes.extend(words(&[0, 0]));
    bytes.extend_from_slice(records);
    let string = |text: &str| {
        [(text.len() as u32 + 1).to_le_bytes().to_vec(), text.as_bytes().to_vec(), vec![0]].concat()
    };
    let (release, version) = (string("0.0.1-none"), string("6.1.187"));
    let table_end = bytes.len() as u64 + 32;
    bytes.extend(words(&[table_end, release.len() as u64]));
    bytes.extend(words(&[table_end + release.len() as u64, version.len() as u64]));
    bytes.extend(release);
    bytes.extend(version);
    bytes
}

/// The stream that perf writes to a pipe.
pub(super) fn piped(records: &[u8]) -> Vec<u8> {
    [b"PERFILE2".to_vec(), words(&[16]), record(64, 0, &[&attribute()]), records.to_vec()].concat()
}

pub(super) fn import_file(bytes: &[u8]) -> Result<(Profile, Imported), ImportError> {
    let mut file: File = tempfile::tempfile().expect("temporary file");
    file.write_all(bytes).expect("writes");
    std::io::Seek::rewind(&mut file).expect("rewinds");
    import_source(
        ImportSource::of_file(file, "perf.data".to_owned()).expect("a second time"),
        &ImportOptions::default(),
    )
}

/// Checks the imported records.
fn check(profile: &Profile) {
    let on_cpu =
        profile.events.iter().find(|event| event.kind().name == "on-cpu").expect("the clock is time");
    assert_eq!((on_cpu.len(), on_cpu.total_weight()), (3, 750_000));
    let times: Vec<u64> = on_cpu.samples().map(|sample| sample.time_ns / 1_000).collect();
    assert_eq!(times, [0, 10, 20], "in the order of time");
    let addresses = |at: usize| -> Vec<(u64, bool)> {
        let stack = on_cpu.sample(at).stack.expect("it has one");
        let frames = profile.tables.stack_frames(stack).map(|frame| *profile.tables.frame(frame));
        frames.map(|frame| (frame.address, frame.flags.space == FrameSpace::Kernel)).collect()
    };
    assert_eq!(addresses(0), [(0x10, true), (0x2010, false), (0x2020, false)]);
    assert_eq!(addresses(1), [(0x9999, false)], "no mapping is there");
    assert_eq!(addresses(2), [(0x2010, false), (0x2020, false)]);
    let task = profile.tables.task(on_cpu.sample(0).task);
    let text = |id| profile.tables.string(id);
    assert_eq!((task.pid, task.tid, text(task.comm), text(task.process)), (10, 11, "worker", "app"));
    assert_eq!(profile.counter(counter::LOST_RING_FULL), 5);
}

#[test]
fn a_file_has_threads_mappings_and_samples_in_order() {
    let (profile, imported) = import_file(&file(&records())).expect("imports");
    check(&profile);
    let meta = &profile.meta;
    assert_eq!((meta.kernel.as_str(), meta.source_tool.as_str()), ("0.0.1-none", "perf 6.1.187"));
    assert_eq!((meta.effective_hz, meta.target_name.as_str(), meta.losses_known), (4_000, "app", true));
    assert!(imported.notes.iter().any(|note| note.contains("not on this machine")), "{:?}", imported.notes);
}

#[test]
fn what_came_through_a_pipe_is_the_same() {
    let (profile, _) = import_bytes(&piped(&records()), &ImportOptions::default()).expect("imports");
    check(&profile);
}

#[test]
fn of_a_copied_stack_whose_code_is_elsewhere_the_leaf_is_known() {
    for filled in [0, 40, 64, u64::MAX] {
        let (profile, imported) =
            import_bytes(&with_copies(filled), &ImportOptions::default()).expect("imports");
        let on_cpu = &profile.events[0];
        assert_eq!(on_cpu.len(), 2, "{filled} bytes filled");
        let stack = on_cpu.sample(0).stack.expect("it has one");
        let addresses: Vec<u64> =
            profile.tables.stack_frames(stack).map(|frame| profile.tables.frame(frame).address).collect();
        assert_eq!(addresses, [0x2010]);
        let note = imported.notes.iter().find(|note| note.contains("unwound from copies"));
        let wanted =
            "2 user stacks unwound from copies (--call-graph dwarf); 2 cut: code is not on this machine";
        assert_eq!(note.map(String::as_str), Some(wanted), "{:?}", imported.notes);
    }
}

#[test]
fn packed_records_are_the_same() {
    let packed = zstd::bulk::compress(&records(), 3).expect("packs");
    let halves: Vec<u8> = packed
        .chunks(packed.len().div_ceil(2))
        .flat_map(|part| {
            // Without padding, which would be taken for compressed data.
            let mut record = 81u32.to_le_bytes().to_vec();
            record.extend(0u16.to_le_bytes());
            record.extend((part.len() as u16 + 8).to_le_bytes());
            record.extend_from_slice(part);
            record
        })
        .collect();
    let (profile, _) = import_file(&file(&halves)).expect("imports");
    check(&profile);
}

#[test]
fn a_file_that_is_cut_is_imported_as_far_as_it_goes() {
    let whole = file(&records());
    // In the middle of the last round.
    let (profile, imported) = import_file(&whole[..whole.len() - 150]).expect("imports");
    assert!(!profile.events.is_empty());
    assert!(imported.notes.iter().any(|note| note.contains("cut")), "{:?}", imported.notes);
}

#[test]
fn a_file_of_the_other_byte_order_is_refused() {
    let mut bytes = file(&records());
    bytes[..8].copy_from_slice(b"2ELIFREP");
    match import_file(&bytes) {
        Err(ImportError::Foreign(why)) => assert!(why.contains("byte order"), "{why}"),
        other => panic!("{other:?}"),
    }
}
