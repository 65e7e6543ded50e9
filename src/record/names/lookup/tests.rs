use super::queue::{PATIENCE, SHORTEST_WAIT};
use super::*;

/// Detail 12 of the promises: names take seconds, and can be cut short.
#[test]
fn what_is_new_in_the_first_seconds_has_its_names_soon() {
    let took = Duration::from_millis(200);
    let looks = |number: u32| wait_after(number, 0, took) + took;
    // The first lookup is at once; the next three come within five seconds, not at fifty times the interval.
    assert!(took + looks(1) <= Duration::from_secs(1), "{:?}", looks(1));
    assert!(took + (1..=3).map(looks).sum::<Duration>() <= Duration::from_secs(5));
    assert_eq!(wait_after(20, 0, took), took * PATIENCE, "in the long run it costs little");
    assert_eq!(wait_after(u32::MAX, 0, Duration::MAX), Duration::MAX);
    assert_eq!(wait_after(1, 2, Duration::ZERO), SHORTEST_WAIT * 4, "names that may never come");
    let least: Vec<Duration> = (1..=5).map(|looks| wait_after(looks, 0, Duration::ZERO)).collect();
    assert!(least.is_sorted() && least[0] < Duration::from_millis(100), "{least:?}");
    assert_eq!(least[3..], [SHORTEST_WAIT; 2]);
}

/// On a crowded machine, a small program had no names because compilers used up all of the time.
#[test]
fn small_files_are_looked_into_first() {
    let (sender, answers) = std::sync::mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let deliver = move |answer| sender.lock().expect("no thread panicked").send(answer).expect("it is taken");
    let mut names = Names::to_be_written(Arc::new(deliver), Duration::from_secs(8), &[]);
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let limits = crate::unwind::Limits::default();
    for (id, kib) in [(0, 900), (1, 10), (2, 500), (3, 1), (4, 90)] {
        let path = folder.path().join(id.to_string());
        std::fs::write(&path, vec![0; kib << 10]).expect("a file can be written");
        let file = Arc::new(std::fs::File::open(&path).expect("it can be opened"));
        let path = path.to_str().expect("its path is text");
        let file = ModuleFile::read(std::process::id(), path, file, &limits);
        names.add_file(FileId(id), file, vec![(0x10, FrameId(id))]);
    }
    // Looked up by the one background thread, in this order.
    names.look_up(Urgency::Whenever);
    let next = || answers.recv_timeout(Duration::from_secs(60)).expect("it is looked up").origin;
    assert_eq!([3, 1, 4, 2, 0].map(|id| Origin::File(FileId(id))), [(); 5].map(|()| next()));
}

#[test]
fn a_look_that_starves_in_the_background_is_begun_again_elsewhere() {
    let path = std::env::current_exe().expect("this program has a file");
    let file = Arc::new(std::fs::File::open(&path).expect("it can be opened"));
    let path = path.to_str().expect("its path is text");
    let limits = crate::unwind::Limits::default();
    let own = ModuleFile::read(std::process::id(), path, file, &limits);
    let (sender, answers) = std::sync::mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let deliver = move |answer| sender.lock().expect("no thread panicked").send(answer).expect("it is taken");
    let mut names = Names::to_be_written(Arc::new(deliver), Duration::from_secs(8), &[]);
    let (release, held) = std::sync::mpsc::channel::<()>();
    // Ends when the test does.
    names.background.as_ref().expect("there is a pool").spawn(move || assert!(held.recv().is_err()));
    let id = FileId(0);
    let elf = own.elf.clone().expect("it is ELF");
    let code = elf.sections().iter().find(|section| section.name == b".text").expect("it has code");
    names.add_file(id, own, vec![(code.address, FrameId(7))]);
    names.look_up(Urgency::Whenever);
    assert!(names.is_awaited() && answers.try_recv().is_err());
    let origin = Origin::File(id);
    let begun = names.queues[&origin].in_background_since.expect("it is in the background");
    names.look_up(Urgency::Now);
    assert_eq!(names.queues[&origin].in_background_since, Some(begun), "it has a little time");
    std::thread::sleep(URGENT_PATIENCE);
    names.look_up(Urgency::Now);
    let named = names.take(answers.recv_timeout(Duration::from_secs(60)).expect("it is looked up"));
    assert!(named.iter().all(|(frame, _)| *frame == FrameId(7)) && named.len() == 1, "{named:?}");
    assert!(!names.is_awaited());
    drop(release);
    let late = answers.recv_timeout(Duration::from_secs(60)).expect("the first look ends too");
    assert!(names.take(late).is_empty(), "nothing has two answers");
}

/// Regression: a file whose names took longer than windows have patience for never had any.
#[test]
fn names_that_are_late_for_their_window_are_there_for_the_next_one() {
    let path = std::env::current_exe().expect("this program has a file");
    let file = Arc::new(std::fs::File::open(&path).expect("it can be opened"));
    let path = path.to_str().expect("its path is text");
    let own = ModuleFile::read(std::process::id(), path, file, &crate::unwind::Limits::default());
    let (sender, answers) = std::sync::mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let deliver = move |answer| sender.lock().expect("no thread panicked").send(answer).expect("it is taken");
    let mut names = Names::to_be_written(Arc::new(deliver), Duration::from_secs(8), &[]);
    let elf = own.elf.clone().expect("it is ELF");
    let code = elf.sections().iter().find(|section| section.name == b".text").expect("it has code").address;
    names.add_file(FileId(0), own.clone(), vec![(code, FrameId(7)), (0, FrameId(8))]);
    names.look_up(Urgency::Now);
    let answer = answers.recv_timeout(Duration::from_secs(60)).expect("it is looked up");
    // The window is over before the answer is taken, and no one waits for it.
    assert!(names.is_awaited());
    names.begin_window(&ModuleFiles::unread());
    assert!(!names.is_awaited());
    names.add_file(FileId(0), own, vec![(code, FrameId(3)), (code + 1, FrameId(4))]);
    let known: Vec<(u64, bool)> =
        names.answered(&answer).map(|(at, names)| (at, !names.is_empty())).collect();
    assert_eq!((known.len(), known[1]), (2, (code, true)));
    let named: Vec<FrameId> = names.take(answer).into_iter().map(|(frame, _)| frame).collect();
    assert_eq!(named, [FrameId(3)]);
    assert_eq!(names.to_come().collect::<Vec<_>>(), [FrameId(4)], "it was not looked up");
}

/// Regression: a report said that `prof info --modules` has the reason, which was only in the messages of `record -v`.
#[test]
fn why_a_file_was_not_read_is_noted() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("damaged");
    std::fs::write(&path, b"\x7fELF and no more").expect("a file can be written");
    let opened = Arc::new(std::fs::File::open(&path).expect("it can be opened"));
    let text = path.to_str().expect("its path is text");
    let limits = crate::unwind::Limits::default();
    let file = ModuleFile::read(std::process::id(), text, opened, &limits);
    let (sender, answers) = std::sync::mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let deliver = move |answer| sender.lock().expect("no thread panicked").send(answer).expect("it is taken");
    let mut names = Names::to_be_written(Arc::new(deliver), Duration::from_secs(8), &[]);
    for _ in 0..2 {
        names.add_file(FileId(0), file.clone(), vec![(0x10, FrameId(0))]);
        names.look_up(Urgency::Last);
        let answer = answers.recv_timeout(Duration::from_secs(60)).expect("it is looked up");
        assert!(names.take(answer).is_empty());
    }
    let notes = names.notes(FileId(0)).expect("there are notes");
    let [problem] = &notes.problems[..] else { panic!("{notes:?}") };
    assert!(names.problems()[0].ends_with(problem.as_str()) && !problem.contains(text), "{problem}");
    assert_eq!(notes.symbols, SymbolsFrom::Unknown);
}
