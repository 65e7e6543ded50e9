//! Files of earlier versions: what those versions said of their files, this one says, too.
//!
//! `old/README.md` says which versions they are, and how the files and the answers were made.

use serde_json::Value;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A file with an answer of an earlier version, and the question.
type Answer = (&'static str, &'static [&'static str]);

/// The recordings, each in a folder of its own, and what was asked of them.
const RECORDINGS: [(&str, &[Answer]); 4] =
    [("on-cpu", &ON_CPU), ("waits", &WAITS), ("live", &LIVE), ("events", &EVENTS)];

const INFO: Answer = ("info.json", &["info", "--json"]);
const RUNNING: Answer = ("on-cpu.json", &["report", "--json", "-n", "1", "--on-cpu"]);
const WAITING: Answer = ("off-cpu.json", &["report", "--json", "-n", "1", "--off-cpu"]);
const PASSED: Answer = ("wall.json", &["report", "--json", "-n", "1", "--wall"]);
const FUNCTIONS: Answer = ("functions.tsv", &["report", "--tsv", "-n", "0", "--on-cpu"]);
const PLACES: Answer = ("waits.tsv", &["report", "--tsv", "-n", "0", "--off-cpu", "--idle"]);
/// Asked as `--threads` then, which had one row for all threads of a name.
const THREADS: Answer = ("threads.tsv", &["report", "--tsv", "--threads", "each"]);

const ON_CPU: [Answer; 6] = [
    INFO,
    RUNNING,
    FUNCTIONS,
    THREADS,
    ("tree.tsv", &["report", "--tsv", "--tree", "--min-pct", "0"]),
    ("stacks.folded", &["export", "--format", "folded", "-o", "-"]),
];
const WAITS: [Answer; 8] = [
    INFO,
    RUNNING,
    WAITING,
    PASSED,
    FUNCTIONS,
    PLACES,
    THREADS,
    ("stacks.folded", &["export", "--format", "folded", "-o", "-", "--wall", "--idle", "--user"]),
];
const LIVE: [Answer; 8] = [
    INFO,
    RUNNING,
    WAITING,
    PASSED,
    FUNCTIONS,
    PLACES,
    THREADS,
    ("tree.tsv", &["report", "--tsv", "--tree", "--min-pct", "0", "--wall", "--idle"]),
];
const EVENTS: [Answer; 10] = [
    INFO,
    RUNNING,
    WAITING,
    FUNCTIONS,
    PLACES,
    THREADS,
    ("faults.json", &["report", "--json", "-n", "1", "-e", "page-faults"]),
    ("switches.json", &["report", "--json", "-n", "1", "-e", "context-switches"]),
    ("faults.folded", &["export", "--format", "folded", "-o", "-", "-e", "page-faults"]),
    ("switches.folded", &["export", "--format", "folded", "-o", "-", "-e", "context-switches"]),
];

/// Keys of JSON that had another name as long as all weights were times.
const RENAMED: [(&str, &str); 3] =
    [("self_ns", "self"), ("total_ns", "total"), ("recorded_total_ns", "recorded_total")];

/// Blocked time is divided into these. Where waits were thinned, the weights of the waits of all threads decided how, and now
/// those of each thread do: what is compared is the sum.
const DIVIDED: [&str; 2] = ["blocked_ns", "idle_ns"];

/// Keys that may have other values or none: the number of the schema, sentences, and a counter that was always 0.
const NOT_COMPARED: [&str; 3] = ["schema", "notes", "late"];

/// Columns of the table of threads that can be added up.
const SUMS: [&str; 8] =
    ["threads", "total_ns", "samples", "on_cpu_ns", "no_cpu_ns", "blocked_ns", "idle_ns", "unaccounted_ns"];

fn folder_of(recording: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/profile_file/old").join(recording)
}

/// What this version says.
fn says(recording: &str, question: &[&str]) -> String {
    let mut prof = Command::new(env!("CARGO_BIN_EXE_prof"));
    let output = prof.args(question).arg(folder_of(recording).join("prof.data")).output().unwrap();
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{recording}: {question:?}: {complaint}");
    String::from_utf8(output.stdout).unwrap()
}

/// What the version that recorded it said.
fn said(recording: &str, answer: &str) -> String {
    std::fs::read_to_string(folder_of(recording).join(answer)).unwrap()
}

/// Values of `then` that are not in `now` at the same place. What is new in `now` is no difference.
fn compare_values(place: &str, then: &Value, now: &Value, found: &mut Vec<String>) {
    match (then, now) {
        (Value::Object(then), Value::Object(now)) => {
            let [sum_then, sum_now] = [then, now].map(|of| {
                DIVIDED.map(|key| of.get(key).and_then(Value::as_u64).unwrap_or(0)).iter().sum::<u64>()
            });
            if sum_then != sum_now && now.contains_key(DIVIDED[1]) {
                found.push(format!("{place}: {DIVIDED:?} were {sum_then} ns, are {sum_now} ns"));
            }
            let is_compared = |key: &str| !NOT_COMPARED.contains(&key) && !DIVIDED.contains(&key);
            for (key, value) in then.iter().filter(|(key, _)| is_compared(key)) {
                let renamed = RENAMED.iter().find(|(old, _)| old == key).map(|(_, new)| *new);
                match now.get(key).or_else(|| now.get(renamed?)) {
                    Some(now) => compare_values(&format!("{place}.{key}"), value, now, found),
                    None => found.push(format!("{place}.{key} is gone")),
                }
            }
        }
        (Value::Array(then), Value::Array(now)) if then.len() == now.len() => {
            for (index, (then, now)) in then.iter().zip(now).enumerate() {
                compare_values(&format!("{place}[{index}]"), then, now, found);
            }
        }
        _ if then == now => {}
        _ => found.push(format!("{place} was {then}, is {now}")),
    }
}

/// The rows of a table, of each the cells of the named columns; a column that is not there has no text.
fn rows<'t>(table: &'t str, columns: &[&str]) -> Vec<Vec<&'t str>> {
    let mut lines = table.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let titles = lines.next().unwrap();
    let places: Vec<_> =
        columns.iter().map(|column| titles.iter().position(|title| title == column)).collect();
    lines.map(|row| places.iter().map(|place| place.map_or("", |place| row[place])).collect()).collect()
}

fn titles(table: &str) -> Vec<&str> {
    table.lines().next().unwrap().split('\t').collect()
}

/// Rows of `then` that `now` does not have in that place, by the columns that `then` had.
fn compare_tables(then: &str, now: &str, found: &mut Vec<String>) {
    let columns = titles(then);
    let (then, now) = (rows(then, &columns), rows(now, &columns));
    if then.len() != now.len() {
        found.push(format!("{} rows were {}", now.len(), then.len()));
    }
    let changed = then.iter().zip(&now).filter(|(then, now)| then != now);
    found.extend(changed.map(|(then, now)| format!("{then:?} became {now:?}")));
}

/// The sums of all threads of a name, by thread and process.
fn sums<'t>(table: &'t str, columns: &[&str]) -> BTreeMap<(&'t str, &'t str), Vec<i64>> {
    let mut sums = BTreeMap::new();
    for (names, numbers) in rows(table, &["thread", "process"]).iter().zip(rows(table, columns)) {
        let sum: &mut Vec<i64> = sums.entry((names[0], names[1])).or_insert_with(|| vec![0; columns.len()]);
        sum.iter_mut().zip(numbers).for_each(|(sum, number)| *sum += number.parse::<i64>().unwrap());
    }
    if let [Some(blocked), Some(idle)] = DIVIDED.map(|key| columns.iter().position(|title| *title == key)) {
        sums.values_mut().for_each(|sum| sum[blocked] += std::mem::take(&mut sum[idle]));
    }
    sums
}

/// What of an earlier answer does not hold any more.
fn differences(answer: &str, then: &str, now: &str) -> Vec<String> {
    let mut found = Vec::new();
    if answer == THREADS.0 {
        let columns: Vec<&str> = titles(then).into_iter().filter(|title| SUMS.contains(title)).collect();
        let (then, now) = (sums(then, &columns), sums(now, &columns));
        let names: BTreeSet<_> = then.keys().chain(now.keys()).collect();
        let changed = names.into_iter().filter(|name| then.get(name) != now.get(name));
        found
            .extend(changed.map(|name| format!("{name:?}: {:?} became {:?}", then.get(name), now.get(name))));
    } else if answer.ends_with(".tsv") {
        compare_tables(then, now, &mut found);
    } else if answer.ends_with(".json") {
        let [then, now] = [then, now].map(|text| serde_json::from_str(text).unwrap());
        compare_values("", &then, &now, &mut found);
    } else if then != now {
        found.push(format!("{} bytes became {}", then.len(), now.len()));
    }
    found
}

#[test]
fn what_earlier_versions_said_of_their_files_holds() {
    let mut found = Vec::new();
    for (recording, answers) in RECORDINGS {
        for &(answer, question) in answers {
            let differences = differences(answer, &said(recording, answer), &says(recording, question));
            found.extend(differences.into_iter().map(|one| format!("{recording}/{answer}: {one}")));
        }
    }
    assert!(found.is_empty(), "{} differences:\n{}", found.len(), found.join("\n"));
}

/// The place of the first of the longest numbers.
fn longest_number(text: &str) -> Range<usize> {
    let mut starts = vec![0];
    starts.extend(text.match_indices(|character: char| !character.is_ascii_digit()).map(|(at, _)| at + 1));
    let length = |start: usize| text[start..].bytes().take_while(u8::is_ascii_digit).count();
    let in_characters = starts.into_iter().filter(|start| text.is_char_boundary(*start));
    let start = in_characters.min_by_key(|start| Reverse(length(*start))).unwrap();
    start..start + length(start)
}

#[test]
fn another_number_in_an_answer_is_a_difference() {
    for (recording, answers) in RECORDINGS {
        for &(answer, _) in answers {
            let then = said(recording, answer);
            assert_eq!(differences(answer, &then, &then), Vec::<String>::new(), "{recording}/{answer}");
            let number = longest_number(&then);
            let other = if then[number.clone()].starts_with('9') { "1" } else { "9" };
            let mut changed = then.clone();
            changed.replace_range(number.start..=number.start, other);
            let count = differences(answer, &then, &changed).len();
            assert_eq!(count, 1, "{recording}/{answer}: {} changed", &then[number]);
        }
    }
}

#[test]
fn every_answer_is_asked_for() {
    let here = |folder: PathBuf| {
        let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap());
        entries.map(|entry| entry.file_name().into_string().unwrap()).collect::<BTreeSet<String>>()
    };
    let recordings = RECORDINGS.map(|(recording, _)| recording.to_owned());
    let known: BTreeSet<String> = recordings.into_iter().chain(["README.md".to_owned()]).collect();
    assert_eq!(here(folder_of("")), known);
    for (recording, answers) in RECORDINGS {
        let names = answers.iter().map(|(answer, _)| (*answer).to_owned());
        let known: BTreeSet<String> = names.chain(["prof.data".to_owned()]).collect();
        assert_eq!(here(folder_of(recording)), known, "{recording}");
    }
}
