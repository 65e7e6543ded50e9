//! Subs of Perl: programs that call them in every way there is, against what their text allows.

use crate::harness::fixture;
use crate::harness::machine::{tool_or_skip, turn};
use crate::harness::profiler::{Recording, messages, prof, text};
use crate::harness::running::Running;
use crate::languages::by_user::{LEAST_READ_OF_THREADS, recorded_by_user};
use crate::languages::recorded::{RunSample, RunStacks, Step, UNREAD};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::process::Command;
use std::sync::OnceLock;

/// Threads of the program besides the first.
const THREADS: &str = "2";

/// Who may call whom. Those that call in another way than by name have a word for that between the two.
const CALLS: [(&str, &[&str]); 53] = [
    ("(main)", &["rounds"]),
    ("rounds", &["round", "waits"]),
    (
        "round",
        &[
            "shares",
            "__ANON__",
            "closures",
            "sorts",
            "ties",
            "overloads",
            "destroys",
            "autoloads",
            "jumps",
            "target",
            "lists",
            "from_xs",
            "text",
            "block",
            "caught",
            "hooks",
            "regexes",
            "signals",
            "formats",
        ],
    ),
    ("shares", &["sixty", "thirty"]),
    ("sixty", &["spin"]),
    ("thirty", &["spin"]),
    ("recurse", &["recurse", "spin"]),
    ("__ANON__", &["recurse", "spin", "(eval)", "wanted", "__ANON__"]),
    ("closures", &["__ANON__"]),
    ("sorts", &["(sort block)", "by_number"]),
    ("by_number", &["spin"]),
    ("(sort block)", &["compared", "spin", "__ANON__"]),
    ("compared", &["spin"]),
    ("ties", &["FETCH", "STORE"]),
    ("FETCH", &["spin"]),
    ("STORE", &["spin"]),
    ("overloads", &["add", "__ANON__"]),
    ("add", &["spin"]),
    ("destroys", &["new", "DESTROY", "(eval)"]),
    ("new", &[]),
    ("DESTROY", &["spin"]),
    ("autoloads", &["AUTOLOAD"]),
    ("AUTOLOAD", &["spin"]),
    ("jumps", &[]),
    ("target", &["spin"]),
    ("lists", &["mapped", "spin"]),
    ("mapped", &["spin"]),
    ("from_xs", &["__ANON__", "first", "reduce"]),
    ("wanted", &["spin"]),
    ("first", &[]),
    ("reduce", &[]),
    ("text", &["(eval)", "__ANON__"]),
    ("block", &["(eval)", "spin"]),
    ("(eval)", &["(eval)", "spin", "__ANON__", "DESTROY", "rounds"]),
    ("caught", &["__ANON__", "(sort block)"]),
    ("hooks", &["__ANON__", "(eval)"]),
    ("signals", &["__ANON__", "(eval)"]),
    ("regexes", &["(regex block)", "replaced"]),
    ("(regex block)", &["spin"]),
    ("replaced", &["spin"]),
    ("formats", &["(format)"]),
    ("(format)", &["formatted"]),
    ("formatted", &["spin"]),
    ("waits", &[]),
    ("spin", &[]),
    ("handler", &[]),
    ("import", &[]),
    ("BEGIN", &[]),
    ("(require)", &[]),
    ("create", &[]),
    ("detach", &[]),
    ("report", &[]),
    ("str", &[]),
];

/// Chains that are to be found.
const CHAINS: [&[&str]; 18] = [
    &["round", "shares", "sixty", "spin"],
    &["recurse", "recurse", "recurse", "spin"],
    &["closures", "__ANON__", "spin"],
    &["sorts", "(sort block)", "spin"],
    &["sorts", "(sort block)", "compared", "spin"],
    &["sorts", "by_number", "spin"],
    &["ties", "FETCH", "spin"],
    &["ties", "STORE", "spin"],
    &["overloads", "add", "spin"],
    &["destroys", "(eval)", "DESTROY", "spin"],
    &["autoloads", "AUTOLOAD", "spin"],
    &["round", "target", "spin"],
    &["lists", "mapped", "spin"],
    &["from_xs", "__ANON__", "wanted", "spin"],
    &["caught", "(sort block)", "__ANON__", "(eval)", "spin"],
    &["hooks", "(eval)", "__ANON__", "spin"],
    &["regexes", "(regex block)", "spin"],
    &["formats", "(format)", "formatted", "spin"],
];

fn script() -> PathBuf {
    fixture::sources().join("perl").join("calls.pl")
}

/// One recording of the program.
struct Recorded {
    recording: Recording,
    pid: u32,
    doctor: String,
}

fn recorded() -> Option<&'static Recorded> {
    static MADE: OnceLock<Option<Recorded>> = OnceLock::new();
    MADE.get_or_init(|| {
        let _turn = turn()?;
        let perl = tool_or_skip("perl")?;
        let running = Running::start_ready(Command::new(perl).arg(script()).arg(THREADS));
        let recording = Recording::of_pid_with(running.pid(), "5s", &["-F", "1999"]);
        recording.complete_names();
        assert!(running.is_alive(), "it has ended: {:?}", running.end());
        let page = prof().args(["doctor", "-p", &running.pid().to_string()]).output().expect("prof runs");
        Some(Recorded { recording, pid: running.pid(), doctor: text(&page) + &messages(&page) })
    })
    .as_ref()
}

/// The last part of a sub's name.
fn short(step: &Step) -> &str {
    step.name.rsplit("::").next().unwrap_or_default()
}

/// Lines of subs that have one line, by name.
fn lines_of_subs() -> BTreeMap<String, u32> {
    let source = std::fs::read_to_string(script()).expect("it is there");
    let of_line = |(line, text): (u32, &str)| {
        let rest = text.strip_prefix("sub ")?;
        let (name, _) = rest.split_once(' ')?;
        text.ends_with('}').then(|| (format!("main::{name}"), line))
    };
    (1..).zip(source.lines()).filter_map(of_line).collect()
}

/// What is wrong with the functions of a sample, by the text of the program.
fn fault(sample: &RunSample, lines: &BTreeMap<String, u32>) -> Option<String> {
    let run = sample.run();
    let is_wrong = |pair: &[&Step]| {
        let (caller, callee) = (short(pair[0]), short(pair[1]));
        // Those are counted apart.
        let is_unread = [pair[0], pair[1]].iter().any(|step| step.name == UNREAD);
        !is_unread && !CALLS.iter().any(|(name, callees)| *name == caller && callees.contains(&callee))
    };
    if let Some(pair) = run.windows(2).find(|pair| is_wrong(pair)) {
        return Some(format!("{} calls {}: {}", pair[0].name, pair[1].name, sample.text()));
    }
    let is_elsewhere = |step: &&&Step| lines.get(&step.name).is_some_and(|line| *line != step.line);
    let elsewhere = run.iter().find(is_elsewhere);
    elsewhere.map(|step| format!("{} is not in line {}: {}", step.name, step.line, sample.text()))
}

#[test]
fn stacks_are_those_that_the_text_of_the_program_allows() {
    let Some(recorded) = recorded() else { return };
    let stacks = RunStacks::read(&recorded.recording.file());
    let lines = lines_of_subs();
    assert!(lines.len() > 15, "{lines:?}");
    let samples: Vec<&RunSample> =
        stacks.of(recorded.pid).into_iter().filter(|sample| sample.has_loop()).collect();
    // The program sleeps between its calls: on a fast machine it does little else.
    let is_enough = samples.len() > 500 || recorded.recording.was_crowded;
    assert!(is_enough, "only {} samples", samples.len());
    let unplaced: Vec<_> = samples.iter().filter(|sample| sample.is_unplaced()).collect();
    let placed: Vec<_> = samples.iter().filter(|sample| !sample.is_unplaced()).collect();
    let (mut frames, mut unread) = (0, 0);
    for sample in &placed {
        frames += sample.run().len();
        unread += sample.run().iter().filter(|step| step.name == UNREAD).count();
    }
    let faults: Vec<String> = placed.iter().filter_map(|sample| fault(sample, &lines)).collect();
    println!(
        "{} samples, {} not placed, {frames} frames, {unread} unread, {} against the text",
        samples.len(),
        unplaced.len(),
        faults.len()
    );
    let some = |texts: &[String]| texts.iter().take(8).cloned().collect::<Vec<_>>().join("\n");
    let texts: Vec<String> = unplaced.iter().map(|sample| sample.text()).collect();
    assert!(
        unplaced.len() * 100 <= samples.len(),
        "{} of {}:\n{}",
        unplaced.len(),
        samples.len(),
        some(&texts)
    );
    assert!(unread * 1000 <= frames, "{unread} of {frames} frames are not read");
    assert!(faults.len() * 500 <= placed.len(), "{} of {}:\n{}", faults.len(), placed.len(), some(&faults));
    let found: BTreeSet<Vec<&str>> =
        placed.iter().map(|sample| sample.run().into_iter().map(short).collect()).collect();
    let has = |chain: &&[&str]| found.iter().any(|run| run.windows(chain.len()).any(|part| part == *chain));
    let missing: Vec<_> = CHAINS.iter().filter(|chain| !has(chain)).collect();
    assert!(missing.is_empty(), "not found: {missing:?}");
}

#[test]
fn what_an_ordinary_user_has_of_perl_is_what_the_text_of_the_program_allows() {
    let Some(made) = recorded_by_user("perl", &[], &[script()], &[THREADS]) else { return };
    let stacks = RunStacks::read(&made.recording.file());
    let lines = lines_of_subs();
    let read = made.read(&stacks, LEAST_READ_OF_THREADS);
    let faults: Vec<String> = read.iter().filter_map(|sample| fault(sample, &lines)).collect();
    let threads: BTreeSet<u32> = read.iter().map(|sample| sample.tid).collect();
    println!("{} read, of {} threads, {} against the text", read.len(), threads.len(), faults.len());
    let some = faults.iter().take(8).cloned().collect::<Vec<_>>().join("\n");
    assert!(faults.len() * 500 <= read.len(), "{} of {}:\n{some}", faults.len(), read.len());
    assert!(threads.len() == 3 || made.recording.was_crowded, "of {} threads", threads.len());
}

#[test]
fn a_sub_that_does_twice_the_work_has_twice_the_time() {
    let Some(recorded) = recorded() else { return };
    let stacks = recorded.recording.stacks();
    let share = |name: &str| stacks.percent(|stack| stack.has(&["main::shares", name]));
    let (sixty, thirty) = (share("main::sixty"), share("main::thirty"));
    let part = 100.0 * sixty / (sixty + thirty);
    // Four times the standard error of such a share: on a busy machine there are few samples.
    let samples = recorded.recording.report().samples() as f64 * (sixty + thirty) / 100.0;
    let margin = 3.0 + 4.0 * (66.7 * 33.3 / samples).sqrt();
    assert!(samples > 20.0 && (part - 66.7).abs() < margin, "{sixty:.1} % and {thirty:.1} % of {samples}");
}

#[test]
fn waits_have_the_sub_and_the_line_that_waits() {
    let Some(recorded) = recorded() else { return };
    let stacks = RunStacks::read(&recorded.recording.file());
    let line = lines_of_subs()["main::waits"];
    let sleeps: Vec<&RunSample> = (stacks.waits.iter())
        .filter(|wait| {
            wait.pid == recorded.pid && wait.steps.iter().any(|step| step.name.contains("nanosleep"))
        })
        .collect();
    let is_there = |wait: &&&RunSample| {
        wait.run().last().is_some_and(|leaf| leaf.name == "main::waits" && leaf.line == line)
    };
    let there = sleeps.iter().filter(is_there).count();
    assert!(sleeps.len() > 20, "only {} waits", sleeps.len());
    assert!(there * 100 >= sleeps.len() * 99, "{there} of {}", sleeps.len());
}

#[test]
fn the_options_of_reports_say_how_much_of_the_interpreter_is_shown() {
    let Some(recorded) = recorded() else { return };
    let is_loop = |stack: &crate::harness::profiler::Stack| stack.any_contains("Perl_runops_standard");
    let folded = recorded.recording.stacks();
    // Where subs are not placed, which is in one of a hundred at most, native frames stay.
    let shown = folded.percent(is_loop);
    assert!(shown <= 1.0, "the interpreter's loop is shown in {shown:.2} %");
    let full = recorded.recording.stacks_with(&["--runtime", "full"]);
    assert!(full.percent(is_loop) > 50.0, "full shows it");
    let off = recorded.recording.stacks_with(&["--runtime", "off"]);
    assert!(off.percent(|stack| stack.any_contains("main::spin")) == 0.0, "off shows native frames only");
    let report = recorded.recording.report_text(&[]);
    assert!(report.contains("perl 5."), "the header says which runtime: {report}");
    assert!(recorded.doctor.contains("offsets from the instructions"), "{}", recorded.doctor);
}
