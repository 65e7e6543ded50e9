//! A folder whose recordings are sent as they come.

use super::servers::{Came, reply, serve, target};
use super::shipments::running_in;
use super::{running_ns, write};
use crate::push::buffer::BufferLimits;
use crate::push::counts::{PushCounts, PushNumbers};
use crate::push::pusher::{Pusher, PusherOptions};
use crate::push::reply::PushProblem;
use crate::push::target::PushTarget;
use crate::report::SeriesOptions;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

/// Sends from the folder until `is_enough`; returns the numbers.
fn pushed(
    folder: &Path,
    address: &str,
    limits: BufferLimits,
    is_enough: impl Fn(&PushNumbers) -> bool,
) -> PushNumbers {
    pushed_to(target(&format!("pyroscope+http://{address}")), folder, limits, is_enough)
}

fn pushed_to(
    target: PushTarget,
    folder: &Path,
    limits: BufferLimits,
    is_enough: impl Fn(&PushNumbers) -> bool,
) -> PushNumbers {
    let (folder, series, delay) = (folder.to_owned(), SeriesOptions::default(), Duration::ZERO);
    pushed_by(PusherOptions { target, folder, limits, series, delay }, is_enough)
}

fn pushed_by(options: PusherOptions, is_enough: impl Fn(&PushNumbers) -> bool) -> PushNumbers {
    let counts = Arc::<PushCounts>::default();
    let is_over = Arc::<AtomicBool>::default();
    let (over, shared) = (Arc::clone(&is_over), Arc::clone(&counts));
    let thread = std::thread::spawn(move || {
        Pusher::new(options, shared).run(&|| over.load(Ordering::Relaxed), Duration::ZERO);
    });
    let until = Instant::now() + Duration::from_secs(60);
    while !is_enough(&counts.numbers()) {
        assert!(Instant::now() < until, "{:?}", counts.numbers());
        std::thread::sleep(Duration::from_millis(20));
    }
    is_over.store(true, Ordering::Relaxed);
    thread.join().unwrap();
    counts.numbers()
}

fn running_of(came: &[Came]) -> u64 {
    came.iter().map(|request| running_in(&request.body)).sum()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

const LIMITS: BufferLimits = BufferLimits {
    most_bytes: 1 << 30,
    most_age: Duration::from_secs(3_300),
    free_percent: 0,
    most_free: u64::MAX,
};

#[test]
fn recordings_are_sent_once_and_removed_although_the_server_was_down() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["1.data", "2.data"] {
        write(&folder.path().join(name), 30);
    }
    std::fs::write(folder.path().join("3.part"), "still written").unwrap();
    let (address, came) = serve(|number, stream| match number {
        0..3 => reply(stream, "503 Unavailable", b""),
        _ => reply(stream, "200 OK", b""),
    });
    let numbers = pushed(folder.path(), &address, LIMITS, |numbers| numbers.recordings == 2);
    assert_eq!(names(folder.path()), ["3.part"]);
    let came = came.lock().unwrap();
    assert_eq!(running_of(&came[3..]), 2 * running_ns(30));
    assert_eq!((numbers.delivered.samples, numbers.retries[&PushProblem::Unavailable]), (60, 3));
    assert!(numbers.dropped.is_empty() && numbers.recordings_dropped.is_empty());
    let answers: Vec<(&str, u64)> =
        numbers.answers.iter().map(|(answer, count)| (answer.as_str(), *count)).collect();
    assert_eq!(answers, [("200", 2), ("503", 3)]);
}

#[test]
fn a_recording_is_sent_at_its_age_and_an_old_one_at_once() {
    let (folder, delay) = (tempfile::tempdir().unwrap(), Duration::from_secs(3));
    let old = folder.path().join("old.data");
    write(&old, 3);
    let minute = Duration::from_secs(60);
    let file = std::fs::File::options().write(true).open(&old).unwrap();
    file.set_modified(SystemTime::now() - minute).unwrap();
    let new = folder.path().join("new.data");
    write(&new, 6);
    let written = std::fs::metadata(&new).unwrap().modified().unwrap();
    let arrivals = Arc::<Mutex<Vec<SystemTime>>>::default();
    let noted = Arc::clone(&arrivals);
    let (address, came) = serve(move |_, stream| {
        noted.lock().unwrap().push(SystemTime::now());
        reply(stream, "200 OK", b"");
    });
    let target = target(&format!("pyroscope+http://{address}"));
    let (folder, series) = (folder.path().to_owned(), SeriesOptions::default());
    let options = PusherOptions { target, folder, limits: LIMITS, series, delay };
    pushed_by(options, |numbers| numbers.recordings == 2);
    let ages =
        arrivals.lock().unwrap().iter().map(|at| at.duration_since(written).unwrap()).collect::<Vec<_>>();
    assert!(ages[0] < ages[1] && ages[1] >= delay - Duration::from_millis(50), "{ages:?}");
    assert_eq!(running_of(&came.lock().unwrap()[..1]), running_ns(3));
}

#[test]
fn a_destination_whose_secret_cannot_be_read_waits_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let token = folder.path().join("token");
    write(&folder.path().join("1.data"), 30);
    let (address, came) = serve(|_, stream| reply(stream, "200 OK", b""));
    let to = || {
        let plain = target(&format!("pyroscope+http://{address}"));
        PushTarget { bearer_file: Some(token.clone()), ..plain }
    };
    let numbers =
        pushed_to(to(), folder.path(), LIMITS, |numbers| numbers.retries.contains_key(&PushProblem::Refused));
    assert!(numbers.last_problem.starts_with("unauthorized: "), "{}", numbers.last_problem);
    assert!(numbers.last_problem.contains("token") && numbers.answers.is_empty());
    assert_eq!((names(folder.path()), came.lock().unwrap().len()), (vec!["1.data".to_owned()], 0));
    std::fs::write(&token, "secret").unwrap();
    let numbers = pushed_to(to(), folder.path(), LIMITS, |numbers| numbers.recordings == 1);
    assert_eq!((numbers.delivered.samples, names(folder.path())), (30, vec!["token".to_owned()]));
}

#[test]
fn what_gets_no_answer_is_counted_by_its_reason() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("1.data"), 3);
    // A port that no one listens on any more.
    let closed = std::net::TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let numbers = pushed(folder.path(), &closed.to_string(), LIMITS, |numbers| !numbers.answers.is_empty());
    assert_eq!(numbers.answers.keys().map(String::as_str).collect::<Vec<_>>(), ["connection"]);
}

#[test]
fn what_cannot_be_sent_is_dropped_and_counted() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    write(&path("1.data"), 3);
    write(&path("2.data"), 6);
    std::fs::write(path("3.data"), "no recording").unwrap();
    write(&path("0.data"), 9);
    let old = SystemTime::now() - Duration::from_secs(7_200);
    std::fs::File::options().write(true).open(path("0.data")).unwrap().set_modified(old).unwrap();
    let (address, came) = serve(|number, stream| match number {
        0 => reply(stream, "400 Bad Request", br#"{"code":"invalid_argument","message":"no"}"#),
        _ => reply(stream, "200 OK", b""),
    });
    let is_enough =
        |numbers: &PushNumbers| numbers.recordings + numbers.recordings_dropped.values().sum::<u64>() == 4;
    let numbers = pushed(folder.path(), &address, LIMITS, is_enough);
    assert_eq!(running_of(&came.lock().unwrap()[1..]), running_ns(6));
    let dropped: Vec<(PushProblem, u64)> = numbers.recordings_dropped.into_iter().collect();
    assert_eq!(dropped, [(PushProblem::Rejected, 1), (PushProblem::TooOld, 1), (PushProblem::Unreadable, 1)]);
    assert_eq!(numbers.dropped[&PushProblem::Rejected].samples, 3);
    assert!(names(folder.path()).is_empty());
}

#[test]
fn a_server_that_stays_down_costs_the_oldest_and_nothing_is_sent_twice() {
    let folder = tempfile::tempdir().unwrap();
    write(&folder.path().join("1.data"), 30);
    let bytes = std::fs::metadata(folder.path().join("1.data")).unwrap().len();
    write(&folder.path().join("2.data"), 30);
    write(&folder.path().join("3.data"), 30);
    let limits = BufferLimits { most_bytes: bytes * 5 / 2, ..LIMITS };
    let (address, came) = serve(|_, stream| reply(stream, "500 Internal", b""));
    let numbers =
        pushed(folder.path(), &address, limits, |numbers| numbers.retries.values().sum::<u64>() > 0);
    assert_eq!(names(folder.path()), ["2.data", "3.data"], "what waits is there after the end");
    assert_eq!(numbers.recordings_dropped[&PushProblem::Full], 1);
    assert!(numbers.last_problem.starts_with("server_error: status 500"), "{}", numbers.last_problem);
    assert!(!came.lock().unwrap().is_empty());
}
