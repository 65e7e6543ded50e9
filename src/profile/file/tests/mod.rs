//! What is written is read, in whatever steps; what is damaged is noticed.

#[path = "../../../../tests/support/demo_profile.rs"]
pub(crate) mod demo_profile;
mod hostile;
mod labels;
mod steps;

use crate::profile::{
    End, Frame, FrameFlags, FrameId, Function, Location, Meta, Module, Profile, ReadError, Sample, StackId,
    StringId, Tables, Task, WriteError, Writer, read, read_path,
};
use demo_profile::Demo;
use proptest::prelude::*;
use std::io::{self, Write};

pub(super) fn written(profile: &Profile) -> Vec<u8> {
    let mut writer = Writer::new(Vec::new(), &profile.meta).unwrap();
    writer.flush(&mut profile.clone(), false).unwrap();
    assert_eq!(writer.bytes_written(), writer.into_inner().len() as u64);
    let mut writer = Writer::new(Vec::new(), &profile.meta).unwrap();
    writer.flush(&mut profile.clone(), true).unwrap();
    writer.into_inner()
}

/// A recording of two seconds with its end, in two flushes, as small as it can be.
fn small_file() -> Vec<u8> {
    let mut demo = Demo::new(9);
    let mut writer = Writer::new(Vec::new(), &demo.profile.meta).unwrap();
    for _ in 0..2 {
        for stack in demo_profile::stacks(&mut demo, 3, 4, 5) {
            demo.sample(Some(stack));
            demo.sample(None);
        }
        writer.flush(&mut demo.profile, true).unwrap();
    }
    demo.finish();
    writer.flush(&mut demo.profile, true).unwrap();
    writer.into_inner()
}

fn bytes_per_sample(mut profile: Profile) -> f64 {
    // Flushed once a second, as a recorder does, names at the end.
    let events = std::mem::take(&mut profile.events);
    let symbols = std::mem::take(&mut profile.symbols);
    let end = profile.end.take();
    let mut writer = Writer::new(Vec::new(), &profile.meta).unwrap();
    let samples: Vec<Sample> = events[0].samples().collect();
    profile.add_event(events[0].info().clone());
    let all = std::mem::take(&mut profile.tables);
    for second in samples.chunks(999) {
        let last = second.iter().filter_map(|sample| sample.stack).max();
        copy_stacks(&all, &mut profile, last);
        second.iter().for_each(|&sample| profile.events[0].push(sample));
        writer.flush(&mut profile, true).unwrap();
    }
    all.strings().for_each(|text| {
        profile.tables.intern_string(text);
    });
    (profile.symbols, profile.end) = (symbols, end);
    writer.flush(&mut profile, true).unwrap();
    let bytes = writer.into_inner();
    let (back, integrity) = read(bytes.as_slice()).unwrap();
    assert!(integrity.is_complete, "{integrity:?}");
    assert_eq!(back.events[0].samples().collect::<Vec<_>>(), samples);
    assert!(back.tables == profile.tables && back.symbols == profile.symbols);
    bytes.len() as f64 / samples.len() as f64
}

/// Copies the rows that stacks up to `last` need, as they would have come.
fn copy_stacks(from: &Tables, to: &mut Profile, last: Option<StackId>) {
    let to = &mut to.tables;
    // The synthetic recordings have their module, task and strings before their first stack.
    from.strings().take(3).for_each(|text| {
        to.intern_string(text);
    });
    from.modules().iter().for_each(|module| {
        to.intern_module(module.clone());
    });
    from.tasks().iter().for_each(|&task| {
        to.intern_task(task);
    });
    let stacks = &from.stacks()[..last.map_or(0, |last| last.index() + 1)];
    let frames = stacks.iter().map(|stack| stack.frame.index() + 1).max().unwrap_or(0);
    from.frames()[..frames].iter().for_each(|&frame| {
        to.intern_frame(frame);
    });
    for (id, stack) in stacks.iter().enumerate().skip(to.stacks().len()) {
        assert_eq!(to.intern_stack(stack.parent, stack.frame).index(), id);
    }
}

#[test]
fn a_steady_program_takes_at_most_six_bytes_per_sample() {
    let bytes = bytes_per_sample(demo_profile::steady());
    println!("steady: {bytes:.2} bytes per sample");
    assert!(bytes <= 6.0, "{bytes}");
}

/// Detail 3 of the promises: stacks of stock binaries are complete, and files are small.
#[test]
fn a_compiler_takes_at_most_150_bytes_per_sample() {
    let profile = demo_profile::compiler();
    let per_sample = |rows: usize| rows as f64 / profile.events[0].len() as f64;
    let (stacks, frames) =
        (per_sample(profile.tables.stacks().len()), per_sample(profile.tables.frames().len()));
    let (functions, strings) = (profile.symbols.functions().len(), profile.tables.strings().len());
    let bytes = bytes_per_sample(profile);
    println!(
        "compiler: {bytes:.2} bytes per sample; {stacks:.1} stacks, {frames:.1} frames per sample; {functions} functions, {strings} strings"
    );
    assert!(stacks > 5.0, "the stacks are not new: {stacks}");
    assert!(bytes <= 150.0, "{bytes}");
}

#[test]
fn every_cut_opens_as_a_prefix_and_says_so() {
    let file = small_file();
    let (whole, integrity) = read(file.as_slice()).unwrap();
    assert!(integrity.is_complete && integrity.problem.is_none(), "{integrity:?}");
    assert_eq!(integrity.bytes_read, file.len() as u64);
    let whole_samples: Vec<Sample> = whole.events[0].samples().collect();
    assert_eq!(whole_samples.len(), 12);
    let mut seen = 0;
    for cut in 0..file.len() {
        match read(&file[..cut]) {
            Err(ReadError::Empty) => assert_eq!(cut, 0),
            Err(ReadError::TruncatedHeader { bytes }) => assert!(bytes == cut as u64 && cut < 32),
            Err(error) => panic!("cut {cut}: {error}"),
            Ok((profile, integrity)) => {
                assert!(!integrity.is_complete && integrity.problem.is_some(), "cut {cut}: {integrity:?}");
                assert_eq!(integrity.bytes_read + integrity.bytes_skipped, cut as u64);
                let samples: Vec<Sample> =
                    profile.events.first().map(|e| e.samples().collect()).unwrap_or_default();
                assert!(whole_samples.starts_with(&samples) && samples.len() >= seen, "cut {cut}");
                assert!(profile.tables.stacks() == &whole.tables.stacks()[..profile.tables.stacks().len()]);
                seen = samples.len();
            }
        }
    }
    assert_eq!(seen, 12);
}

#[test]
fn every_flipped_bit_is_noticed_and_what_came_before_is_kept() {
    let file = small_file();
    let (whole, _) = read(file.as_slice()).unwrap();
    let whole_samples: Vec<Sample> = whole.events[0].samples().collect();
    for bit in 0..file.len() * 8 {
        let mut file = file.clone();
        file[bit / 8] ^= 1 << (bit % 8);
        let Ok((profile, integrity)) = read(file.as_slice()) else {
            assert!(bit < 32 * 8, "bit {bit}: after the header nothing is an error");
            continue;
        };
        assert!(!integrity.is_complete && integrity.problem.is_some(), "bit {bit}: {integrity:?}");
        assert!(integrity.bytes_read <= bit as u64 / 8);
        assert_eq!(integrity.bytes_read + integrity.bytes_skipped, file.len() as u64);
        let samples: Vec<Sample> = profile.events.first().map(|e| e.samples().collect()).unwrap_or_default();
        assert!(whole_samples.starts_with(&samples), "bit {bit}");
    }
}

#[test]
fn bytes_behind_the_end_make_it_incomplete() {
    let mut file = small_file();
    let length = file.len() as u64;
    file.extend(*b"some text that came after it!");
    let (_, integrity) = read(file.as_slice()).unwrap();
    assert!(!integrity.is_complete);
    assert_eq!((integrity.bytes_read, integrity.bytes_skipped), (length, 29));
    assert!(integrity.problem.as_ref().unwrap().contains(&format!("at byte {length}")), "{integrity:?}");
}

#[test]
fn what_comes_after_the_end_record_is_followed_by_another() {
    let mut demo = Demo::new(5);
    demo.finish();
    let mut writer = Writer::new(Vec::new(), &demo.profile.meta).unwrap();
    writer.flush(&mut demo.profile, false).unwrap();
    let length = writer.bytes_written();
    writer.flush(&mut demo.profile, false).unwrap();
    assert_eq!(writer.bytes_written(), length, "nothing was new");
    demo.sample(None);
    writer.flush(&mut demo.profile, false).unwrap();
    let (profile, integrity) = read(writer.into_inner().as_slice()).unwrap();
    assert!(integrity.is_complete, "{integrity:?}");
    assert_eq!(profile, demo.profile);
}

#[test]
fn a_name_past_the_limit_is_cut_between_characters() {
    let mut profile = Profile::default();
    let long = "é".repeat(1 << 19) + "é";
    profile.tables.intern_string(&format!("a{long}"));
    profile.tables.intern_string("next");
    let (back, _) = read(written(&profile).as_slice()).unwrap();
    assert_eq!(back.tables.string(StringId(1)).len(), (1 << 20) - 1);
    assert_eq!(back.tables.string(StringId(2)), "next");
}

#[test]
fn a_flush_past_the_size_of_one_chunk_round_trips() {
    let mut demo = Demo::new(4);
    let stacks = demo_profile::stacks(&mut demo, 30_000, 12, 30_000);
    assert!(demo.profile.tables.stacks().len() > 70_000);
    for &stack in stacks.iter().cycle().take(140_000) {
        demo.sample(Some(stack));
    }
    demo.finish();
    let (back, integrity) = read(written(&demo.profile).as_slice()).unwrap();
    assert!(integrity.is_complete, "{integrity:?}");
    assert!(back == demo.profile);
}

#[test]
fn a_stack_too_deep_for_the_format_is_refused_in_words() {
    let mut demo = Demo::new(4);
    let frame = demo.frame(1, 1);
    demo.profile.tables.intern_stack_of(std::iter::repeat_n(frame, 4_096));
    assert_eq!(read(written(&demo.profile).as_slice()).unwrap().0, demo.profile);
    demo.profile.tables.intern_stack_of(std::iter::repeat_n(frame, 4_097));
    let mut writer = Writer::new(Vec::new(), &demo.profile.meta).unwrap();
    let error = writer.flush(&mut demo.profile, false).unwrap_err();
    assert_eq!(error.to_string(), "a stack's depth in frames of 4097 exceeds the format's limit of 4096");
}

/// Takes a number of bytes, then fails as a full disk does.
struct FullDisk {
    taken: Vec<u8>,
    room: usize,
}

impl Write for FullDisk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let taken = bytes.len().min(self.room - self.taken.len());
        self.taken.extend(&bytes[..taken]);
        if taken == 0 { Err(io::ErrorKind::StorageFull.into()) } else { Ok(taken) }
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Detail 8 of the promises: nothing runs that cannot be recorded, and nothing recorded is lost.
#[test]
fn a_full_disk_leaves_a_readable_file_and_no_second_try() {
    let mut demo = Demo::new(6);
    let mut writer = Writer::new(FullDisk { taken: Vec::new(), room: 1000 }, &demo.profile.meta).unwrap();
    let error = loop {
        let stack = demo_profile::stacks(&mut demo, 1, 8, 50)[0];
        demo.sample(Some(stack));
        if let Err(error) = writer.flush(&mut demo.profile, true) {
            break error;
        }
    };
    assert!(matches!(&error, WriteError::Io(error) if error.kind() == io::ErrorKind::StorageFull), "{error}");
    assert!(matches!(writer.flush(&mut demo.profile, true), Err(WriteError::Broken)));
    let end = End { reason: "no space left".into(), ..End::default() };
    let (whole, closing) = (writer.bytes_written() as usize, writer.closing_chunk(&end).unwrap());
    let taken = writer.into_inner().taken;
    let (profile, integrity) = read(taken.as_slice()).unwrap();
    assert!(!profile.events[0].is_empty());
    assert!(integrity.problem.unwrap().contains("cut in the middle"));
    // Where there is room for it, the file says why it ends.
    let (profile, integrity) = read([&taken[..whole], &closing].concat().as_slice()).unwrap();
    assert_eq!((profile.end, integrity.problem), (Some(end), None));
}

#[test]
fn paths_that_are_no_profile_are_refused_by_kind() {
    let folder = tempfile::tempdir().unwrap();
    assert!(matches!(read_path(folder.path()), Err(ReadError::Directory)));
    assert!(matches!(read_path("/dev/zero".as_ref()), Err(ReadError::NotAFile)));
    let missing = read_path(&folder.path().join("missing")).unwrap_err();
    assert!(matches!(&missing, ReadError::Io(error) if error.kind() == io::ErrorKind::NotFound));
    assert!(missing.hint().unwrap().contains("prof record"));
    let path = folder.path().join("prof.data");
    std::fs::write(&path, b"").unwrap();
    assert!(matches!(read_path(&path), Err(ReadError::Empty)));
    std::fs::write(&path, b"PERFILE2 and more").unwrap();
    let error = read_path(&path).unwrap_err();
    assert_eq!(error.to_string(), "not a prof file: it looks like a perf.data file of Linux perf");
    assert_eq!(error.hint(), Some("to read it as a recording:  prof import FILE -o NAME"));
    assert!(error.is_of_perf() && error.is_importable());
    std::fs::write(&path, b"\x7fELF and more, as long as a header has to be").unwrap();
    assert!(!read_path(&path).unwrap_err().is_importable());
    std::fs::write(&path, small_file()).unwrap();
    assert!(read_path(&path).unwrap().1.is_complete);
}

#[test]
fn a_name_that_comes_after_a_new_beginning_is_that_of_its_frame() {
    let mut profile = Profile::new(Meta::default());
    let mut writer = Writer::new(Vec::new(), &profile.meta).unwrap();
    let frame = |profile: &mut Profile, address| {
        let module = profile.tables.intern_module(Module::default());
        profile.tables.intern_frame(Frame { module, address, flags: FrameFlags::default() })
    };
    let location = |profile: &mut Profile, name: &str| {
        let name = profile.tables.intern_string(name);
        let function = profile.symbols.intern_function(Function { name, raw_name: name });
        Location { function, file: name, line: 7, is_inlined: false }
    };
    for address in [10, 20] {
        frame(&mut profile, address);
    }
    let late = writer.frame_id(FrameId(1));
    writer.flush(&mut profile, true).unwrap();
    profile.reset();
    writer.reset();
    let present = frame(&mut profile, 30);
    assert_eq!((writer.frame_of(late), writer.frame_of(writer.frame_id(present))), (None, Some(present)));
    let locations = vec![location(&mut profile, "present")];
    profile.symbols.set_locations(present, locations);
    let locations = vec![location(&mut profile, "late")];
    // The second is of a frame that the file does not have.
    writer.name_former(&mut profile, &[(late, locations.clone()), (FrameId(9), locations)]).unwrap();
    writer.flush(&mut profile, true).unwrap();
    let (back, integrity) = read(writer.into_inner().as_slice()).unwrap();
    assert_eq!(integrity.bytes_skipped, 0, "{integrity:?}");
    let names: Vec<Option<&str>> = (0..3)
        .map(|id| {
            let location = back.symbols.locations(FrameId(id)).first()?;
            assert_eq!((back.tables.string(location.file), location.line).1, 7);
            Some(back.tables.string(back.symbols.function(location.function).name))
        })
        .collect();
    assert_eq!(names, [None, Some("late"), Some("present")]);
}

/// Rows of a report are distinguished by the ids of their texts.
#[test]
fn what_has_one_name_before_and_after_the_rows_began_anew_is_one_function() {
    let mut profile = Profile::new(Meta::default());
    let mut writer = Writer::new(Vec::new(), &profile.meta).unwrap();
    for address in [10, 20] {
        let module = profile.tables.intern_module(Module::default());
        let frame = profile.tables.intern_frame(Frame { module, address, flags: FrameFlags::default() });
        let name = profile.tables.intern_string("work");
        let function = profile.symbols.intern_function(Function { name, raw_name: name });
        let location = Location { function, file: name, line: 7, is_inlined: false };
        profile.symbols.set_locations(frame, vec![location]);
        profile.tables.intern_task(Task { comm: name, process: name, ..Task::default() });
        writer.flush(&mut profile, true).unwrap();
        profile.reset();
        writer.reset();
    }
    let (back, integrity) = read(writer.into_inner().as_slice()).unwrap();
    assert_eq!(integrity.bytes_skipped, 0, "{integrity:?}");
    let location = |id| back.symbols.locations(FrameId(id))[0];
    let texts = |id| {
        let function = back.symbols.function(location(id).function);
        let task = back.tables.tasks()[id as usize];
        [function.name, function.raw_name, location(id).file, task.comm, task.process]
    };
    assert_eq!(texts(0), texts(1));
    assert_eq!(back.tables.string(texts(1)[0]), "work");
}

/// Read to its end, the hole would take minutes.
#[test]
fn a_hole_of_a_terabyte_behind_the_profile_is_not_read() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("prof.data");
    let mut profile = Profile::new(Meta::default());
    let file = std::fs::File::create(&path).unwrap();
    let mut writer = Writer::new(file, &profile.meta).unwrap();
    writer.flush(&mut profile, false).unwrap();
    let whole = writer.bytes_written();
    writer.into_inner().set_len(1 << 40).unwrap();
    let (_, integrity) = read_path(&path).unwrap();
    assert_eq!((integrity.bytes_read, integrity.bytes_skipped), (whole, (1 << 40) - whole));
    assert!(integrity.problem.is_some());
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn bytes_of_any_kind_do_not_panic(bytes in proptest::collection::vec(any::<u8>(), 0..300), start in any::<bool>()) {
        let mut file = if start { Writer::new(Vec::new(), &Meta::default()).unwrap().into_inner() } else { Vec::new() };
        file.extend(bytes);
        if let Ok((_, integrity)) = read(file.as_slice()) {
            prop_assert!(!integrity.is_complete);
        }
    }
}
