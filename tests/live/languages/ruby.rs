//! Functions of Ruby against the stacks that the program reports of itself.

use crate::harness::fixture;
use crate::harness::machine::{tool_or_skip, turn};
use crate::harness::profiler::{Recording, Stack, messages, prof, text};
use crate::harness::running::Running;
use crate::languages::by_user::{LEAST_READ_OF_THREADS, recorded_by_user};
use crate::languages::recorded::{RunStacks, UNREAD};
use prof::internals::profile::{EventKind, FrameId, ModuleKind, Outcome, Profile, Reason, Sample, read_path};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// Functions that wait, the text of the line that does, and what for.
const WAITS: [(&str, &str, &[Reason]); 4] = [
    ("wait_in_sleep", "sleep 0.02 }", &[Reason::Sleep, Reason::Poll, Reason::Lock, Reason::Futex]),
    ("wait_in_pop", "$queue.pop", &[Reason::Futex, Reason::Lock]),
    ("wait_in_read", "$reader.readpartial", &[Reason::Pipe, Reason::Poll]),
    ("wait_in_child", "Process.wait(spawn", &[Reason::Child]),
];

/// A frame of Ruby: function, file, line. Methods in C have no file.
type Place = (String, String, u32);

/// A program that was recorded, and what it said.
struct Recorded {
    recording: Recording,
    pid: u32,
    /// Stacks that `spin` may have, innermost caller first, up to the function that makes all calls.
    stacks: BTreeSet<Vec<Place>>,
    doctor: String,
}

fn script() -> PathBuf {
    fixture::sources().join("ruby").join("calls.rb")
}

fn recorded() -> Option<&'static Recorded> {
    static MADE: OnceLock<Option<Recorded>> = OnceLock::new();
    MADE.get_or_init(|| {
        let _turn = turn()?;
        let ruby = tool_or_skip("ruby")?;
        let running = Running::start_ready(Command::new(ruby).arg(script()));
        let pid = running.pid();
        let recording = Recording::of_pid_with(pid, "4s", &["-F", "1999"]);
        recording.complete_names();
        let page = prof().args(["doctor", "-p", &pid.to_string()]).output().expect("prof runs");
        let doctor = text(&page) + &messages(&page);
        assert!(running.is_alive(), "it has ended: {:?}", running.end());
        let printed = running.finish();
        Some(Recorded { recording, pid, stacks: reported(&printed), doctor })
    })
    .as_ref()
}

/// The stacks that the program has printed.
fn reported(printed: &str) -> BTreeSet<Vec<Place>> {
    let said: Value = serde_json::from_str(printed).expect("it printed JSON");
    let place = |at: &Value| -> Place {
        // A method in C at the root of a fiber has no place.
        let text = |index: usize| at[index].as_str().unwrap_or_default().to_owned();
        (text(0), text(1), at[2].as_u64().unwrap_or(0) as u32)
    };
    let stacks = said.as_array().expect("a list").iter();
    stacks.map(|stack| calls(stack.as_array().expect("a list").iter().map(place))).collect()
}

/// A stack up to the function that makes all calls: what is around that is another thing each time. Of the other functions in
/// which the threads of all kinds begin, such as those of fibers, there is no such one.
fn calls(stack: impl Iterator<Item = Place>) -> Vec<Place> {
    let mut places = Vec::new();
    for place in stack {
        let is_last = place.0 == "all_calls";
        places.push(place);
        if is_last {
            break;
        }
    }
    places
}

/// The frames of Ruby of a sample, leaf first.
fn run_frames(profile: &Profile, sample: &Sample) -> Vec<FrameId> {
    let frames = sample.stack.into_iter().flat_map(|stack| profile.tables.stack_frames(stack));
    let is_run = |frame: &FrameId| {
        let row = profile.tables.frames()[frame.index()];
        profile.tables.module(row.module).kind == ModuleKind::Runtime
    };
    frames.filter(is_run).collect()
}

/// Leaf first. A method in C has the place of its caller, as Ruby says it.
fn places(profile: &Profile, sample: &Sample) -> Vec<Place> {
    let place = |frame: FrameId| -> Place {
        let Some(location) = profile.symbols.locations(frame).last() else {
            return (UNREAD.to_owned(), String::new(), 0);
        };
        let text = |id| profile.tables.string(id).to_owned();
        (text(profile.symbols.function(location.function).name), text(location.file), location.line)
    };
    let mut places: Vec<Place> = run_frames(profile, sample).into_iter().map(place).collect();
    let mut caller: Option<(String, u32)> = None;
    for (_, file, line) in places.iter_mut().rev() {
        match &caller {
            Some(known) if file.is_empty() => (*file, *line) = known.clone(),
            _ => caller = Some((file.clone(), *line)),
        }
    }
    places
}

fn read(recorded: &Recorded) -> Profile {
    let (profile, integrity) =
        read_path(&recorded.recording.file()).expect("prof wrote a file that can be read");
    assert!(integrity.is_complete, "the file is cut: {integrity:?}");
    profile
}

/// Those of the program, and not of the children that it waits for.
fn samples(recorded: &Recorded, profile: &Profile, kind: &EventKind) -> Vec<Sample> {
    let all = profile.event_of(kind).into_iter().flat_map(|event| event.samples());
    all.filter(|sample| profile.tables.task(sample.task).pid == recorded.pid).collect()
}

/// Stacks next to those that the program reports.
#[derive(Default)]
struct Compared {
    /// Number of those that end in `spin`.
    all: u64,
    /// Those of them that it reports.
    found: BTreeSet<Vec<Place>>,
    /// The others, with how often they are there.
    strange: BTreeMap<Vec<Place>, u64>,
}

fn compared(recorded: &Recorded) -> Compared {
    let profile = read(recorded);
    let mut compared = Compared::default();
    for sample in samples(recorded, &profile, &EventKind::ON_CPU) {
        let stack = places(&profile, &sample);
        let Some(spin) = stack.iter().rposition(|(name, ..)| name == "spin") else { continue };
        let callers = calls(stack[spin + 1..].iter().cloned());
        // One that has only begun, or ends, is at its own line.
        compared.all += 1;
        if recorded.stacks.contains(&callers) {
            compared.found.insert(callers);
        } else {
            *compared.strange.entry(callers).or_default() += 1;
        }
    }
    compared
}

#[test]
fn every_stack_is_one_that_the_program_reports() {
    let Some(recorded) = recorded() else { return };
    let Compared { all, found, strange } = compared(recorded);
    println!("{all} stacks, {} of {} kinds, strange: {strange:?}", found.len(), recorded.stacks.len());
    assert!(all > 300, "only {all} stacks");
    let wrong: u64 = strange.values().sum();
    assert!(wrong * 1000 <= all, "{wrong} of {all} stacks are none of the program's: {strange:?}");
    assert!(found.len() * 10 >= recorded.stacks.len() * 9, "{} of {}", found.len(), recorded.stacks.len());
}

#[test]
fn what_an_ordinary_user_has_of_ruby_is_what_the_program_reports() {
    let Some(made) = recorded_by_user("ruby", &[], &[script()], &[]) else { return };
    let samples = RunStacks::read(&made.recording.file());
    let samples =
        format!("{} of {} read", made.read(&samples, LEAST_READ_OF_THREADS).len(), samples.samples.len());
    let stacks = reported(&made.printed);
    let recorded = Recorded { recording: made.recording, pid: made.pid, stacks, doctor: String::new() };
    let Compared { all, found, strange } = compared(&recorded);
    println!(
        "{all} stacks, {} of {} kinds of {samples}, strange: {strange:?}",
        found.len(),
        recorded.stacks.len()
    );
    assert!(strange.is_empty(), "none of the program's: {strange:?}");
    let is_enough = all > 300 && found.len() * 2 >= recorded.stacks.len();
    assert!(is_enough || recorded.recording.was_crowded, "{all} stacks, {} kinds", found.len());
}

#[test]
fn nearly_all_samples_have_their_functions_in_place_and_these_their_names() {
    let Some(recorded) = recorded() else { return };
    let profile = read(recorded);
    let (mut all, mut complete, mut rooted, mut frames, mut unread) = (0, 0, 0, 0u64, 0u64);
    for sample in samples(recorded, &profile, &EventKind::ON_CPU) {
        let stack = places(&profile, &sample);
        all += 1;
        complete += u64::from(sample.outcome == Outcome::Complete);
        rooted += u64::from(!stack.is_empty());
        frames += stack.len() as u64;
        unread += stack.iter().filter(|(name, ..)| name == UNREAD).count() as u64;
    }
    let mismatches = profile.counter("interpreter_mismatches");
    println!(
        "{all} samples, {complete} complete, {rooted} with Ruby, {mismatches} misfits, {unread} of {frames} unread"
    );
    // On a crowded machine there are fewer samples, and more of them before the tables of a library are there.
    let was_crowded = recorded.recording.was_crowded;
    assert!(all > 500 || was_crowded, "only {all} samples");
    let least = if was_crowded { 970 } else { 998 };
    assert!(complete * 1000 >= all * least, "{complete} of {all} stacks are whole");
    assert!(rooted * 100 >= all * 99, "{rooted} of {all} samples have a function of Ruby");
    assert!(mismatches * 100 <= all, "{mismatches} of {all} samples do not fit");
    assert!(unread * 1000 <= frames, "{unread} of {frames} frames have no name");
}

#[test]
fn shares_are_those_that_the_program_makes() {
    let Some(recorded) = recorded() else { return };
    let stacks = recorded.recording.stacks();
    let share = |function: &str| stacks.percent(|stack: &Stack| stack.has(&[function]));
    let (heavy, light) = (share("heavy"), share("light"));
    println!("heavy {heavy:.2} %, light {light:.2} %");
    assert!(light > 1.0 && (2.5..3.5).contains(&(heavy / light)), "{heavy:.2} % and {light:.2} %");
    stacks.assert_has(&["<main>", "loop", "block in <main>", "heavy", "burn"]);
    stacks.assert_has(&["in_c", "each", "in_struct"]);
}

#[test]
fn every_wait_is_in_the_line_that_waits() {
    let Some(recorded) = recorded() else { return };
    let profile = read(recorded);
    let source =
        std::fs::read_to_string(fixture::sources().join("ruby").join("calls.rb")).expect("it is there");
    let line_of = |text: &str| {
        let at = source.lines().position(|line| line.contains(text));
        at.expect("the program has this line") as u32 + 1
    };
    for (function, text, reasons) in WAITS {
        let line = line_of(text);
        let (mut all, mut there, mut others) = (0, 0, BTreeSet::new());
        for wait in samples(recorded, &profile, &EventKind::OFF_CPU) {
            let stack = places(&profile, &wait);
            let Some((_, _, at)) = stack.iter().find(|(name, ..)| name.contains(function)) else { continue };
            let reason = wait.wait.expect("it is a wait").reason;
            if reason == Reason::NoCpu {
                continue;
            }
            all += 1;
            there += u64::from(*at == line);
            if !reasons.contains(&reason) {
                others.insert(format!("{reason:?}"));
            }
        }
        println!("{function}: {all} waits, {there} in line {line}, other reasons {others:?}");
        assert!(all > 3 && there * 20 > all * 19, "{function}: {there} of {all} waits in line {line}");
    }
}

#[test]
fn the_machinery_is_shown_where_it_is_asked_for() {
    let Some(recorded) = recorded() else { return };
    let run = |stack: &Stack| stack.any_contains("all_calls");
    let machinery = |stack: &Stack| run(stack) && stack.any_contains("libruby-");
    let folded = recorded.recording.stacks();
    assert!(folded.percent(run) > 20.0, "top: {}", recorded.recording.report().top());
    let loops = |stack: &Stack| run(stack) && stack.any_contains("rb_vm_exec");
    assert!(folded.percent(loops) < 0.5, "{} % show the loop", folded.percent(loops));
    let full = recorded.recording.stacks_with(&["--runtime", "full"]);
    assert!(full.percent(machinery) > 20.0, "{} %", full.percent(machinery));
    let off = recorded.recording.stacks_with(&["--runtime", "off"]);
    assert!(off.percent(run) == 0.0, "off shows native frames only");
    let report = recorded.recording.report_text(&[]);
    assert!(report.contains("ruby "), "the header says which runtime: {report}");
    let is_said = recorded.doctor.contains("offsets from the table of ruby");
    assert!(is_said || recorded.recording.was_crowded, "{}", recorded.doctor);
}
