//! Hand-made files with sound checksums and wrong contents: each is refused in words, keeps what came
//! before, and takes no more memory than its size allows.

use crate::profile::contents::{End, Profile};
use crate::profile::event::{EventInfo, Sample};
use crate::profile::file::bounds::MAX_ROWS;
use crate::profile::file::chunk::{ChunkKind, FLAG_ZSTD, Next, Unpacker, frame};
use crate::profile::file::error::Integrity;
use crate::profile::file::header;
use crate::profile::file::reader::read;
use crate::profile::file::rows::schema;
use crate::profile::file::writer::Writer;
use crate::profile::rows::{Frame, LabelSetId, Module, StackId, Task};
use crate::profile::symbols::{Function, Location};
use proptest::prelude::*;
use prost::Message;

/// A file of a header and the given chunks.
pub(super) struct File {
    bytes: Vec<u8>,
    chunks: u16,
}

impl File {
    fn new() -> Self {
        File { bytes: header::encode(0).to_vec(), chunks: 0 }
    }

    /// One module, task, frame, stack, event and set of labels, each with id 0.
    pub(super) fn with_one_row_each() -> Self {
        File::new()
            .with(
                ChunkKind::Modules,
                &schema::Modules { first_id: 0, rows: vec![schema::ModuleRow::default()] },
            )
            .with(ChunkKind::Tasks, &schema::Tasks { first_id: 0, rows: vec![schema::TaskRow::default()] })
            .with(ChunkKind::Frames, &schema::Frames { rows: 1, address: vec![16], ..Default::default() })
            .with(ChunkKind::Stacks, &stacks(0, &[0], &[1], &[0]))
            .with(ChunkKind::Events, &schema::Events { first_id: 0, rows: vec![schema::EventRow::default()] })
            .with(ChunkKind::Functions, &schema::Functions { rows: 1, ..Default::default() })
            .with(ChunkKind::LabelSets, &label_sets(0, 1, &[]))
    }

    pub(super) fn with(self, kind: ChunkKind, message: &impl Message) -> Self {
        self.with_payload(kind as u8, 0, &message.encode_to_vec())
    }

    fn with_payload(mut self, kind: u8, flags: u8, payload: &[u8]) -> Self {
        self.bytes.extend(frame(kind, flags, self.chunks, payload.len() as u32, payload));
        self.chunks += 1;
        self
    }

    fn with_packed(mut self, kind: ChunkKind, message: &impl Message) -> Self {
        let payload = message.encode_to_vec();
        let packed = zstd::bulk::compress(&payload, 19).unwrap();
        self.bytes.extend(frame(kind as u8, FLAG_ZSTD, self.chunks, payload.len() as u32, &packed));
        self.chunks += 1;
        self
    }

    pub(super) fn read(&self) -> (Profile, Integrity) {
        let (profile, integrity) = read(self.bytes.as_slice()).unwrap();
        assert_eq!(integrity.bytes_read + integrity.bytes_skipped, self.bytes.len() as u64);
        (profile, integrity)
    }

    /// The problem with the last chunk, which must be the only one.
    pub(super) fn problem(&self) -> String {
        let (_, integrity) = self.read();
        assert!(!integrity.is_complete && integrity.bytes_skipped > 0, "{integrity:?}");
        integrity.problem.unwrap()
    }
}

fn stacks(first_id: u32, run_parent: &[u32], run_length: &[u32], frame: &[u32]) -> schema::Stacks {
    let (run_parent, run_length, frame) = (run_parent.to_vec(), run_length.to_vec(), frame.to_vec());
    schema::Stacks { first_id, run_parent, run_length, frame }
}

/// Sets of labels whose texts are all empty, with the numbers of their labels.
pub(super) fn label_sets(first_id: u32, labels: u32, label_count: &[u32]) -> schema::LabelSets {
    let (rows, label_count) = (label_count.len().max(1) as u32, label_count.to_vec());
    schema::LabelSets { first_id, rows, labels, label_count, ..Default::default() }
}

/// One sample of stack 0 (stored as 1, so one past the 0 of "no stack").
pub(super) fn sample() -> schema::Samples {
    schema::Samples { rows: 1, stack: vec![2], ..Default::default() }
}

#[test]
fn the_file_that_the_others_change_is_sound() {
    let end = schema::End { duration_ns: 5, ..Default::default() };
    let (profile, integrity) =
        File::with_one_row_each().with(ChunkKind::Samples, &sample()).with(ChunkKind::End, &end).read();
    assert!(integrity.is_complete, "{integrity:?}");
    assert_eq!(profile.events[0].len(), 1);
    assert_eq!(profile.events[0].sample(0).stack, Some(StackId(0)));
}

#[test]
fn an_id_that_is_not_there_is_refused_for_every_kind() {
    let samples = |change: fn(&mut schema::Samples)| {
        let mut samples = sample();
        change(&mut samples);
        File::with_one_row_each().with(ChunkKind::Samples, &samples)
    };
    let module = schema::ModuleRow { path: 1, ..Default::default() };
    let task = schema::TaskRow { process: 7, ..Default::default() };
    let frames = schema::Frames { rows: 1, module: vec![1], address: vec![0], ..Default::default() };
    let functions = schema::Functions { rows: 1, raw_name: vec![-1], ..Default::default() };
    let symbols = |file, frame, function| schema::Symbols {
        rows: 1,
        locations: 1,
        frame: vec![frame],
        function: vec![function],
        file: vec![file],
        ..Default::default()
    };
    let with_label = |[key, value]: [u32; 2]| {
        let sets = schema::LabelSets { key: vec![key], value: vec![value], ..label_sets(1, 1, &[]) };
        File::with_one_row_each().with(ChunkKind::LabelSets, &sets)
    };
    for (file, part) in [
        (
            File::new().with(ChunkKind::Modules, &schema::Modules { first_id: 0, rows: vec![module] }),
            "string 1",
        ),
        (File::new().with(ChunkKind::Tasks, &schema::Tasks { first_id: 0, rows: vec![task] }), "string 7"),
        (File::new().with(ChunkKind::Frames, &frames), "module 1"),
        (File::new().with(ChunkKind::Functions, &functions), "string 4294967295"),
        (File::new().with(ChunkKind::Stacks, &stacks(0, &[0], &[1], &[0])), "frame 0"),
        (File::with_one_row_each().with(ChunkKind::Symbols, &symbols(2, 0, 0)), "string 1"),
        (File::with_one_row_each().with(ChunkKind::Symbols, &symbols(0, 2, 0)), "frame 1"),
        (File::with_one_row_each().with(ChunkKind::Symbols, &symbols(0, 0, 2)), "function 1"),
        (samples(|samples| samples.event = 1), "event 1"),
        (samples(|samples| samples.task = vec![1]), "task 1"),
        (samples(|samples| samples.stack = vec![4]), "stack 1"),
        (samples(|samples| samples.labels = vec![2]), "set of labels 1"),
        (samples(|samples| samples.labels = vec![u32::MAX]), "set of labels 4294967294"),
        (with_label([1, 0]), "string 1"),
        (with_label([0, u32::MAX]), "string 4294967295"),
        (samples(|samples| samples.stack = vec![u32::MAX - 1]), "stack 2147483646"),
    ] {
        let problem = file.problem();
        assert!(problem.contains(&format!("{part} is not there")), "{part}: {problem}");
    }
}

#[test]
fn a_parent_that_does_not_come_first_is_refused() {
    for (run_parent, first) in [(2, 1), (3, 1), (u32::MAX, 1)] {
        let problem = File::with_one_row_each()
            .with(ChunkKind::Stacks, &stacks(first, &[run_parent], &[1], &[1]))
            .problem();
        assert!(problem.contains("the parent's stack"), "{problem}");
    }
}

#[test]
fn a_gap_or_an_overlap_in_ids_is_refused() {
    for (kind, payload) in [
        (ChunkKind::Strings, schema::Strings { first_id: 2, ..Default::default() }.encode_to_vec()),
        (ChunkKind::Strings, schema::Strings { first_id: 0, ..Default::default() }.encode_to_vec()),
        (ChunkKind::Modules, schema::Modules { first_id: 2, ..Default::default() }.encode_to_vec()),
        (ChunkKind::Tasks, schema::Tasks { first_id: 0, ..Default::default() }.encode_to_vec()),
        (ChunkKind::Frames, schema::Frames { first_id: u32::MAX, ..Default::default() }.encode_to_vec()),
        (ChunkKind::Stacks, stacks(5, &[], &[], &[]).encode_to_vec()),
        (ChunkKind::Events, schema::Events { first_id: 2, ..Default::default() }.encode_to_vec()),
        (ChunkKind::Functions, schema::Functions { first_id: 2, ..Default::default() }.encode_to_vec()),
        (ChunkKind::LabelSets, label_sets(0, 1, &[]).encode_to_vec()),
        (ChunkKind::LabelSets, label_sets(u32::MAX, 1, &[]).encode_to_vec()),
    ] {
        let problem = File::with_one_row_each().with_payload(kind as u8, 0, &payload).problem();
        assert!(problem.contains("it starts with id"), "{problem}");
    }
}

#[test]
fn lengths_that_do_not_agree_are_refused() {
    let strings = |length: &[u32], text: &str| {
        let (length, text) = (length.to_vec(), text.to_owned());
        File::new().with(ChunkKind::Strings, &schema::Strings { first_id: 1, length, text }).problem()
    };
    assert!(strings(&[3], "ab").contains("does not end in its text"));
    assert!(strings(&[1, 1], "é").contains("does not end in its text"), "within a character");
    assert!(strings(&[1], "ab").contains("1 bytes of text are in no string"));
    assert!(strings(&[u32::MAX], "ab").contains("a string of 4294967295 bytes"));

    let runs = |parents: &[u32], lengths: &[u32], frames: &[u32]| {
        File::with_one_row_each().with(ChunkKind::Stacks, &stacks(1, parents, lengths, frames)).problem()
    };
    assert!(runs(&[1], &[2], &[1]).contains("a run of 2 stacks"));
    assert!(runs(&[1], &[0], &[]).contains("a run of 0 stacks"));
    assert!(runs(&[1], &[u32::MAX], &[1]).contains("a run of 4294967295 stacks"));
    assert!(runs(&[1], &[1], &[1, 1]).contains("1 frames are in no run"));
    assert!(runs(&[1, 1], &[1], &[1]).contains("differ in length"));

    let mut samples = sample();
    samples.rows = 3;
    samples.stack = vec![1];
    samples.cpu = vec![1, 2];
    let problem = File::with_one_row_each().with(ChunkKind::Samples, &samples).problem();
    assert!(problem.contains("column `cpu` has 2 values for 3 rows"), "{problem}");

    let frames = schema::Frames { first_id: 1, rows: 2, address: vec![1], ..Default::default() };
    assert!(
        File::with_one_row_each()
            .with(ChunkKind::Frames, &frames)
            .problem()
            .contains("1 addresses for 2 rows")
    );

    let symbols = |rows, locations, counts: &[u32]| {
        let location_count = counts.to_vec();
        let symbols = schema::Symbols {
            rows,
            locations,
            location_count,
            frame: vec![1],
            function: vec![1],
            ..Default::default()
        };
        File::with_one_row_each().with(ChunkKind::Symbols, &symbols).problem()
    };
    assert!(symbols(1, 1, &[2]).contains("a frame with 2 locations"));
    assert!(symbols(1, 1, &[0]).contains("a frame with 0 locations"));
    assert!(symbols(1, 1, &[u32::MAX]).contains("a frame with 4294967295 locations"));
    assert!(symbols(1, 2, &[1]).contains("1 locations belong to no frame"));
}

#[test]
fn numbers_out_of_range_are_refused() {
    let samples = |change: fn(&mut schema::Samples)| {
        let mut samples = sample();
        change(&mut samples);
        File::with_one_row_each().with(ChunkKind::Samples, &samples).problem()
    };
    assert!(samples(|samples| samples.cpu = vec![1 << 16]).contains("cpu 65536 is out of range"));
    assert!(samples(|samples| samples.outcome = vec![256]).contains("outcome 256 is out of range"));
    assert!(
        samples(|samples| samples.time_first_us = u64::MAX / 1000 + 1).contains("a time is out of range")
    );
    assert!(samples(|samples| samples.time = vec![-1]).contains("a time is out of range"));
    let time = |samples: &mut schema::Samples| {
        (samples.rows, samples.stack, samples.time_step_us) = (3, vec![1], u64::MAX / 2 + 1);
    };
    assert!(samples(time).contains("a time is out of range"));
    let weight = |samples: &mut schema::Samples| {
        (samples.rows, samples.stack, samples.weight) = (2, vec![1], vec![u64::MAX / 2 + 1]);
    };
    assert!(samples(weight).contains("the sum of its weights overflows"));
    let flags =
        schema::Frames { first_id: 1, rows: 1, address: vec![1], flags: vec![256], ..Default::default() };
    assert!(File::with_one_row_each().with(ChunkKind::Frames, &flags).problem().contains("frame flags 256"));
}

#[test]
fn weights_may_not_overflow_across_chunks_either() {
    let mut samples = sample();
    samples.weight = vec![u64::MAX];
    let file = File::with_one_row_each().with(ChunkKind::Samples, &samples);
    assert_eq!(file.read().0.events[0].total_weight(), u64::MAX);
    samples.weight = vec![1];
    samples.stack = vec![3]; // stack 0 again
    let file = file.with(ChunkKind::Samples, &samples);
    assert!(file.problem().contains("the sum of its weights overflows"));
    assert_eq!(file.read().0.events[0].len(), 1);
}

#[test]
fn a_stack_of_endless_depth_is_refused() {
    let mut file = File::with_one_row_each();
    let rows = MAX_ROWS as u32;
    file = file.with_packed(ChunkKind::Stacks, &stacks(1, &[1], &[rows], &vec![1; MAX_ROWS]));
    assert!(file.problem().contains("the depth of a stack 4097 is out of range"), "{}", file.problem());
}

#[test]
fn a_small_file_cannot_ask_for_much_memory() {
    // 65,536 samples from some tens of bytes, again and again.
    let samples = schema::Samples { rows: MAX_ROWS as u32, stack: vec![1], ..Default::default() };
    let mut file = File::with_one_row_each();
    for _ in 0..200 {
        file = file.with(ChunkKind::Samples, &samples);
    }
    let (profile, integrity) = file.read();
    assert!(integrity.problem.unwrap().contains("more memory than a file of this size"));
    let samples = profile.events[0].len() as u64;
    assert!(samples > 1_000_000 && samples * 34 < 160 << 20, "{samples}");
}

#[test]
fn too_many_rows_are_refused() {
    let samples = schema::Samples { rows: MAX_ROWS as u32 + 1, ..Default::default() };
    let problem = File::with_one_row_each().with(ChunkKind::Samples, &samples).problem();
    assert!(problem.contains("it claims 65537 rows"), "{problem}");
    let strings = schema::Strings { first_id: 1, length: vec![0; MAX_ROWS + 1], text: String::new() };
    let problem = File::new().with_packed(ChunkKind::Strings, &strings).problem();
    assert!(problem.contains("it has 65537 rows"), "{problem}");
    let counters = schema::Counters { rows: vec![schema::CounterRow::default(); MAX_ROWS + 100] };
    let problem = File::new().with_packed(ChunkKind::Counters, &counters).problem();
    assert!(problem.contains("not a valid message"), "{problem}");
}

#[test]
fn what_a_later_version_adds_is_passed_over_and_counted() {
    let mut later = sample().encode_to_vec();
    later.extend([0xf8, 0x01, 7]); // field 31 = 7
    let file = File::with_one_row_each()
        .with_payload(99, 0, b"of later")
        .with_payload(99, FLAG_ZSTD, b"anything")
        .with_payload(ChunkKind::Samples as u8, 0, &later)
        .with(ChunkKind::End, &schema::End::default());
    let (profile, integrity) = file.read();
    assert!(integrity.is_complete, "{integrity:?}");
    assert_eq!((integrity.unknown_chunks, integrity.unknown_fields), (2, 1));
    assert_eq!(profile.events[0].len(), 1);
}

#[test]
fn a_payload_that_is_no_message_is_refused() {
    for payload in [&b"\x08"[..], b"\xff\xff\xff", b"\x0a\x02\xff\xff", b"\x0b\x0c"] {
        let problem = File::new().with_payload(ChunkKind::End as u8, 0, payload).problem();
        assert!(problem.contains("a chunk of end is wrong"), "{problem}");
    }
    // The name of an event is not UTF-8.
    let payload = [0x12, 3, 0x0a, 1, 0xff];
    let problem = File::new().with_payload(ChunkKind::Events as u8, 0, &payload).problem();
    assert!(problem.contains("UTF-8"), "{problem}");
}

/// Code that handles waits relies on their rows having a length.
#[test]
fn a_known_kind_is_what_it_is_whatever_a_file_says() {
    let row = |name: &str, has_duration| schema::EventRow {
        name: name.into(),
        title: Some("\x1b[2Jfaults".into()),
        noun: Some("fault".into()),
        has_duration: Some(has_duration),
        ..Default::default()
    };
    let rows = vec![row("on-cpu", true), row("off-cpu", false), row("other", true)];
    let (profile, _) = File::new().with(ChunkKind::Events, &schema::Events { first_id: 0, rows }).read();
    let kinds: Vec<_> = profile.events.iter().map(|event| event.kind()).collect();
    assert_eq!(kinds[..2], [&crate::profile::EventKind::ON_CPU, &crate::profile::EventKind::OFF_CPU]);
    assert_eq!((&*kinds[2].noun, kinds[2].has_duration), ("fault", true));
}

/// A pipe whose other end goes on for ever, as `cat damaged.data /dev/zero` does.
#[test]
fn nothing_behind_damage_is_read_of_a_stream() {
    let end = schema::End { duration_ns: 5, ..Default::default() };
    let mut bytes = File::with_one_row_each().with(ChunkKind::End, &end).bytes;
    let last = bytes.len() - 1;
    bytes[last] ^= 1;
    let endless = std::io::Read::chain(bytes.as_slice(), std::io::repeat(0));
    let (profile, integrity) = crate::profile::file::reader::read_stream(endless).unwrap();
    assert!(integrity.problem.is_some() && !profile.events.is_empty());
}

#[test]
fn a_known_field_number_is_the_highest_of_its_message() {
    // Every field set, so that each is written: none of them may count as unknown.
    for kind in [ChunkKind::Meta, ChunkKind::End, ChunkKind::Samples, ChunkKind::LabelSets] {
        let payload = match kind {
            ChunkKind::Samples => schema::Samples { labels: vec![1], ..Default::default() }.encode_to_vec(),
            ChunkKind::LabelSets => {
                schema::LabelSets { value: vec![1], ..Default::default() }.encode_to_vec()
            }
            ChunkKind::Meta => schema::Meta { runtime: 1, ..Default::default() }.encode_to_vec(),
            _ => schema::End { writing_failed: Some(true), ..Default::default() }.encode_to_vec(),
        };
        let known = schema::known_fields(kind);
        assert_eq!(crate::profile::file::decode::wire::unknown_fields(&payload, &known), Some(0));
        let lower = schema::KnownFields { highest: known.highest - 1, row: None };
        assert_eq!(crate::profile::file::decode::wire::unknown_fields(&payload, &lower), Some(1));
    }
}

/// The payloads of a small recording with several rows of each kind, in two flushes.
fn payloads() -> Vec<(u8, Vec<u8>)> {
    let mut profile = Profile::default();
    profile.meta.command = vec!["prof".into(), "record".into()];
    let event = profile.add_event(EventInfo {
        kind: crate::profile::EventKind::ON_CPU,
        period: 7,
        ..EventInfo::default()
    });
    let mut writer = Writer::new(Vec::new(), &profile.meta).unwrap();
    for flush in 0..2_u32 {
        let tables = &mut profile.tables;
        let [path, name] = ["path", "name"].map(|text| tables.intern_string(&format!("{text} {flush}")));
        let module =
            tables.intern_module(Module { path, build_id: vec![flush as u8; 4], ..Module::default() });
        let task = tables.intern_task(Task { pid: 5, tid: 5 + flush, comm: name, ..Task::default() });
        tables.intern_labels(&[("gil", "held"), ("round", ["first", "second"][flush as usize])]);
        for number in 0..6_u32 {
            let (address, stack_parent) =
                (u64::from(number) * 16, number.checked_sub(1 + number % 2).map(StackId));
            let frame = tables.intern_frame(Frame { module, address, ..Frame::default() });
            let stack = tables.intern_stack(stack_parent, frame);
            let function = profile.symbols.intern_function(Function { name, raw_name: path });
            let location = Location { function, file: path, line: number, is_inlined: false };
            profile.symbols.set_locations(frame, vec![location; 1 + number as usize % 2]);
            let time_ns = u64::from(number) * 1_000_000;
            let stack = (number > 0).then_some(stack);
            let weight = 7 + u64::from(number % 2);
            let labels = (number > 1).then_some(LabelSetId(number % (flush + 1)));
            let sample =
                Sample { time_ns, task, stack, weight, cpu: number as u16, labels, ..Sample::default() };
            profile.events[event.index()].push(sample);
        }
        profile.count("rescued", 1);
        profile.end = Some(End { duration_ns: 6_000_000, reason: "x".into(), ..End::default() });
        writer.flush(&mut profile, true).unwrap();
    }
    let bytes = writer.into_inner();
    let mut chunks = Unpacker::new(&bytes[header::LENGTH..]).unwrap();
    let mut payloads = Vec::new();
    while let Next::Chunk { kind, payload, .. } = chunks.next() {
        payloads.push((kind as u8, payload.to_vec()));
    }
    payloads
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4000, failure_persistence: None, ..ProptestConfig::default() })]

    /// As an attacker would, with right checksums: what is accepted can be walked, written and read again.
    #[test]
    fn changed_payloads_with_sound_checksums_never_panic(
        changes in proptest::collection::vec((any::<usize>(), any::<usize>(), any::<u8>(), 0_u8..3), 1..4),
    ) {
        let mut payloads = payloads();
        for (chunk, at, byte, how) in changes {
            let chunk = chunk % payloads.len();
            let payload = &mut payloads[chunk].1;
            let at = at % payload.len();
            match how {
                0 => payload[at] = byte,
                1 => payload.insert(at, byte),
                _ => drop(payload.remove(at)),
            }
            if payload.is_empty() {
                payloads.remove(chunk);
            }
        }
        let file = payloads.iter().fold(File::new(), |file, (kind, payload)| file.with_payload(*kind, 0, payload));
        let (mut profile, _) = file.read();
        for event in &profile.events {
            event.total_weight();
            for sample in event.samples() {
                profile.tables.string(profile.tables.task(sample.task).comm);
                sample.labels.map(|set| profile.tables.labels(set).count());
                for frame in sample.stack.into_iter().flat_map(|stack| profile.tables.stack_frames(stack)) {
                    profile.tables.string(profile.tables.module(profile.tables.frame(frame).module).path);
                    for location in profile.symbols.locations(frame) {
                        let function = profile.symbols.function(location.function);
                        profile.tables.string(function.name);
                        profile.tables.string(function.raw_name);
                        profile.tables.string(location.file);
                    }
                }
            }
        }
        let mut writer = Writer::new(Vec::new(), &profile.meta).unwrap();
        writer.flush(&mut profile, false).unwrap();
        prop_assert_eq!(read(writer.into_inner().as_slice()).unwrap().0, profile);
    }
}
