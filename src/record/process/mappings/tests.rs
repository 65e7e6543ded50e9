use super::*;

fn mapped(start: u64, end: u64, file: u32, since_ns: u64) -> Mapped {
    Mapped { start, end, bias: 0x1000, file: FileId(file), since_ns }
}

#[test]
fn a_new_mapping_takes_the_place_of_what_it_covers_from_its_time_on() {
    let mut process = Process::default();
    process.map(mapped(0x1000, 0x5000, 1, 0));
    process.map(mapped(0x2000, 0x3000, 2, 100));
    assert_eq!(process.find(0x2800, 100).map(|m| m.file), Some(FileId(2)));
    assert_eq!(process.find(0x2800, 99).map(|m| m.file), Some(FileId(1)));
    assert_eq!(process.find(0x1800, 100).map(|m| m.file), Some(FileId(1)));
    assert_eq!(process.find(0x4800, 100).map(|m| m.file), Some(FileId(1)));
    assert_eq!(process.find(0x5000, 100), None);
}

#[test]
fn a_child_has_inherited_what_the_kernel_side_had_heard_of_for_certain() {
    let mut parent = Process::default();
    assert!(parent.forked(0, monotonic_ns()).is_inherited);
    parent.set_interpreter(ProcessInterpreter::Pending {
        file: FileId(1),
        since_ns: 0,
        next_ns: 0,
        why: String::new(),
    });
    let now_ns = monotonic_ns();
    assert!(!parent.forked(0, now_ns).is_inherited, "it may have forked before that was published");
    assert!(parent.forked(0, now_ns + 2 * PUBLISHED_AFTER_NS).is_inherited);
}

/// A program maps two libraries at one place in turn; word of the second is on its way while /proc shows it.
#[test]
fn what_proc_shows_later_is_not_taken_for_what_was_mapped_then() {
    let at = |start, file, since_ns| mapped(start, start + 0x1000, file, since_ns);
    let mut process = Process::default();
    process.map(at(0x2000, 1, 100));
    // A sample at 110 has an address that nothing is known of.
    process.fill(vec![at(0x2000, 2, 500), at(0x7000, 3, 500), at(0x9000, 4, 500)], 0x7010, 110);
    let file = |process: &Process, address, time_ns| process.find(address, time_ns).map(|m| m.file.0);
    assert_eq!(file(&process, 0x2010, 110), Some(1), "the first library was there");
    assert_eq!((file(&process, 0x7010, 110), file(&process, 0x7010, 109)), (Some(3), None));
    assert_eq!((file(&process, 0x9010, 110), file(&process, 0x9010, 500)), (None, Some(4)));
    process.map(at(0x2000, 2, 300));
    assert_eq!((file(&process, 0x2010, 299), file(&process, 0x2010, 300)), (Some(1), Some(2)));
    process.map(at(0x9000, 4, 200));
    assert_eq!(file(&process, 0x9010, 200), Some(4), "word of it says since when");
    // The second library is longer: an address of what it has more says nothing about what was there before it.
    let longer = Mapped { end: 0x5000, ..at(0x3000, 5, 600) };
    process.map(at(0x3000, 1, 400));
    process.map(longer);
    process.fill(vec![Mapped { since_ns: 700, ..longer }], 0x4010, 500);
    assert_eq!((file(&process, 0x3010, 500), file(&process, 0x3010, 600)), (Some(1), Some(5)));
    assert_eq!(file(&process, 0x4010, 500), None);
}

#[test]
fn of_what_changed_while_records_were_lost_the_time_is_unknown() {
    let at = |start, file, since_ns| mapped(start, start + 0x1000, file, since_ns);
    let mut process = Process::default();
    process.map(at(0x2000, 1, 100));
    process.map(at(0x5000, 3, 100));
    // Records were lost at 200; at 500 /proc shows another file.
    process.set_mappings(vec![at(0x2000, 2, 500), at(0x5000, 3, 500)], 200, 500);
    let file = |time_ns| process.find(0x2010, time_ns).map(|m| m.file.0);
    assert_eq!((file(199), file(200), file(499), file(500)), (Some(1), None, None, Some(2)));
    assert_eq!(process.find(0x5010, 300).map(|m| m.file.0), Some(3), "what is unchanged was there");
    assert!(!process.is_present(499) && process.is_present(500), "frames of before are not those of after");
    // What came after the loss, and was gone when /proc was read, was there meanwhile.
    process.map(at(0x8000, 4, 700));
    process.set_mappings(vec![at(0x5000, 3, 900)], 600, 900);
    let file = |address, time_ns| process.find(address, time_ns).map(|m| m.file.0);
    assert_eq!((file(0x8010, 699), file(0x8010, 800), file(0x8010, 900)), (None, Some(4), None));
    assert_eq!((file(0x2010, 599), file(0x2010, 600)), (Some(2), None));
}

#[test]
fn frames_in_a_replaced_file_are_not_believed_until_the_kernel_side_has_heard_of_it() {
    let mut process = Process::default();
    process.map(mapped(0x1000, 0x5000, 1, 0));
    process.published(10);
    let returns_to = |address| MarkedAddress::new(address, true, false).0;
    let frames = [0x9000, returns_to(0x2801), returns_to(0x9800)];
    assert_eq!(process.frames_before_stale(&frames, 50), None);
    process.map(mapped(0x2000, 0x3000, 2, 100));
    assert_eq!(process.frames_before_stale(&frames, 99), None, "the old file was still there");
    assert_eq!(process.frames_before_stale(&frames, 100), Some(2));
    process.published(200);
    assert_eq!(process.frames_before_stale(&frames, 199), Some(2));
    assert_eq!(process.frames_before_stale(&frames, 200), None);
    assert_eq!(process.frames_before_stale(&[returns_to(0x3001)], 150), None, "a call before the border");
    assert_eq!(process.frames_before_stale(&[0x9000], 150), None, "nothing was there before");
}

#[test]
fn the_vsyscall_page_is_known_with_and_without_the_high_bits() {
    assert!(is_vsyscall(0xffff_ffff_ff60_0400) && is_vsyscall(0xffff_ffff_ff60_0400 & FRAME_ADDRESS));
    assert!(!is_vsyscall(0xffff_ffff_ff60_1000) && !is_vsyscall(0x400));
}

#[test]
fn exec_ends_every_mapping() {
    let mut process = Process::default();
    process.map(mapped(0x1000, 0x2000, 1, 0));
    process.unmap_all(50);
    process.map(mapped(0x1000, 0x2000, 2, 60));
    assert_eq!(process.find(0x1000, 49).map(|m| m.file), Some(FileId(1)));
    assert_eq!(process.find(0x1000, 55), None);
    assert_eq!(process.find(0x1000, 60).map(|m| m.file), Some(FileId(2)));
}

#[test]
fn the_kernel_entry_is_sorted_merged_and_cut_with_a_count() {
    let mut process = Process::default();
    process.map(mapped(0x9000, 0xa000, 1, 0));
    process.map(mapped(0x1000, 0x2000, 1, 0));
    process.map(mapped(0x2000, 0x3000, 1, 0));
    let (entry, cut) = process.kernel_entry(1, &ModuleFiles::new(false));
    assert_eq!((entry.count, cut), (2, 0));
    assert_eq!((entry.start[0], entry.mapping[0].end), (0x1000, 0x3000));
    assert_eq!(entry.start[2], NO_START);
    for i in 0..300u64 {
        process.map(mapped(0x10_0000 + i * 0x2000, 0x10_1000 + i * 0x2000, 1, 0));
    }
    let (entry, cut) = process.kernel_entry(1, &ModuleFiles::new(false));
    assert_eq!((entry.count as usize, cut), (MAX_MAPPINGS, 46));
}
