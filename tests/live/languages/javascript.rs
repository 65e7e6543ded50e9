//! JavaScript functions of V8 against what V8 itself writes of its code: the map of `--perf-basic-prof`.

use crate::harness::fixture;
use crate::harness::machine::{tool_or_skip, turn};
use crate::harness::profiler::{Recording, messages, prof, text};
use crate::harness::running::Running;
use prof::internals::profile::{EventKind, FrameId, FrameSpace, Outcome, Profile, read_path};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// Options by which V8 writes the names of all of its code into a map: also of interpreted functions, each of which then has
/// code of its own.
const WITH_MAP: [&str; 3] = ["--perf-basic-prof", "--interpreted-frames-native-stack", "--expose-gc"];

/// A function as V8 or `prof` names it: name, file, first line.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Named {
    name: String,
    file: String,
    line: u32,
}

impl Named {
    /// From an entry of a map: `JS:*fibonacci /srv/functions.js:36:19`; `None` for V8's own code.
    fn of_map(entry: &str) -> Option<Named> {
        let kinds = ["JS:", "LazyCompile:", "Function:", "Script:", "Eval:"];
        let rest = kinds.into_iter().find_map(|kind| entry.strip_prefix(kind))?;
        let rest = rest.trim_start_matches(['~', '^', '+', '*']).trim_start_matches('\'');
        let (rest, _column) = rest.rsplit_once(':')?;
        let (rest, line) = rest.rsplit_once(':')?;
        let (name, file) = rest.rsplit_once(' ')?;
        let file = file.strip_prefix("file://").unwrap_or(file);
        Some(Named { name: name.to_owned(), file: file.to_owned(), line: line.parse().ok()? })
    }
}

/// A native frame that runs a function, and what is known of it.
struct Pair {
    map: Named,
    name: String,
    file: String,
    /// Where it is, not where it begins.
    line: u32,
}

/// A recording's frames of JavaScript.
#[derive(Default)]
struct Found {
    /// Frames that both name.
    pairs: Vec<Pair>,
    /// Frames of generated code without a function, which V8 says is a function's.
    lacking: BTreeMap<String, u64>,
    frames: u64,
    samples: u64,
    complete: u64,
    /// Functions on stacks whose innermost frames are several functions of one native frame.
    inlined: BTreeSet<String>,
    /// Frames of functions that are marked as inlined.
    marked: u64,
    /// Names and files of all functions.
    names: BTreeSet<(String, String)>,
}

/// Whether a source file is one of JavaScript.
fn is_script(file: &str) -> bool {
    file.ends_with(".js") || file.starts_with("node:")
}

fn script() -> PathBuf {
    fixture::sources().join("javascript").join("functions.js")
}

fn name_of(profile: &Profile, frame: FrameId) -> Option<(String, String, u32)> {
    let location = profile.symbols.locations(frame).last()?;
    let text = |id| profile.tables.string(id).to_owned();
    let name = text(profile.symbols.function(location.function).name);
    Some((name, text(location.file), location.line))
}

impl Found {
    fn read(file: &Path) -> Found {
        let (profile, integrity) = read_path(file).expect("prof wrote a file that can be read");
        assert!(integrity.is_complete, "the file is cut: {integrity:?}");
        let mut found = Found::default();
        let event = profile.event_of(&EventKind::ON_CPU).expect("running threads were sampled");
        for sample in event.samples() {
            let Some(stack) = sample.stack else { continue };
            // Leaf first.
            let frames: Vec<FrameId> = profile.tables.stack_frames(stack).collect();
            found.samples += 1;
            found.complete += u64::from(sample.outcome == Outcome::Complete);
            found.add(&profile, &frames);
        }
        found
    }

    fn add(&mut self, profile: &Profile, frames: &[FrameId]) {
        let named: Vec<Option<(String, String, u32)>> =
            frames.iter().map(|&frame| name_of(profile, frame)).collect();
        let carries = |index: usize| profile.tables.frames()[frames[index].index()].flags.is_interpreter;
        let is_run = |index: &usize| {
            let file = named[*index].as_ref().map_or("", |(_, file, _)| file);
            !carries(*index) && is_script(file)
        };
        let is_kernel =
            |index: usize| profile.tables.frames()[frames[index].index()].flags.space == FrameSpace::Kernel;
        for index in 0..frames.len() {
            let run: Vec<usize> = (0..index).rev().take_while(is_run).collect();
            self.names.extend(Some(index).filter(is_run).and_then(|index| {
                let (name, file, _) = named[index].clone()?;
                Some((name, file))
            }));
            let is_marked = |index: &&usize| {
                profile.symbols.locations(frames[**index]).iter().any(|location| location.is_inlined)
            };
            if carries(index) {
                assert!(run.first().is_none_or(|outer| !is_marked(&outer)), "the outermost has the frame");
                self.marked += run.iter().filter(is_marked).count() as u64;
            }
            if run.len() > 1 && carries(index) {
                self.inlined.extend(run.iter().filter_map(|&index| Some(named[index].as_ref()?.0.clone())));
            }
            let entry = named[index].as_ref().map_or("", |(name, ..)| name);
            // Text that was evaluated is no file; and the function at the leaf may not have made its frame yet.
            let is_leaf = (0..index).all(|index| is_run(&index) || is_kernel(index));
            let Some(map) = Named::of_map(entry).filter(|map| is_script(&map.file) && !is_leaf) else {
                continue;
            };
            self.frames += 1;
            match run.first().filter(|_| carries(index)).and_then(|&outer| named[outer].clone()) {
                Some((name, file, line)) => self.pairs.push(Pair { map, name, file, line }),
                None => *self.lacking.entry(entry.to_owned()).or_default() += 1,
            }
        }
    }

    /// Pairs that say different things.
    fn differences(&self) -> Vec<String> {
        let is_same = |pair: &Pair| {
            let no_name =
                ["<anonymous>", "<module>"].contains(&pair.name.as_str()) && pair.map.name.is_empty();
            (pair.name == pair.map.name || no_name)
                && pair.file == pair.map.file
                && pair.line >= pair.map.line
        };
        let differing = self.pairs.iter().filter(|pair| !is_same(pair));
        differing
            .map(|pair| {
                let Pair { map, name, file, line } = pair;
                format!("{map:?} is {name} ({file}:{line})")
            })
            .collect()
    }
}

/// A recording of Node.js with these options and this in its environment, while it runs for `seconds`.
fn record(options: &[&str], variable: (&str, &str), seconds: &str) -> Option<Recording> {
    let node = tool_or_skip("node")?;
    // It writes a log into the folder it is in.
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let mut command = Command::new(node);
    command.args(options).arg(script()).current_dir(folder.path()).env(variable.0, variable.1);
    let running = Running::start_ready(&mut command);
    std::thread::sleep(std::time::Duration::from_millis(1500));
    let recording = Recording::of_pid_with(running.pid(), seconds, &["-F", "1999", "-e", "cpu"]);
    recording.complete_names();
    assert!(running.is_alive(), "it has ended: {:?}", running.end());
    let _ = std::fs::remove_file(format!("/tmp/perf-{}.map", running.pid()));
    Some(recording)
}

#[test]
fn functions_are_those_of_the_map_and_keep_their_names_while_garbage_is_collected() {
    let Some(_turn) = turn() else { return };
    // Without code that is made and thrown away: a map does not say when an address is used again.
    let Some(with_map) = record(&WITH_MAP, ("STEADY", "1"), "4s") else { return };
    let found = Found::read(&with_map.file());
    let differences = found.differences();
    let lacking: u64 = found.lacking.values().sum();
    println!(
        "{} samples, {} complete, {} frames, {} compared, {} without function: {:?}",
        found.samples,
        found.complete,
        found.frames,
        found.pairs.len(),
        lacking,
        found.lacking
    );
    assert!(found.pairs.len() > 5_000, "only {} frames to compare", found.pairs.len());
    assert!(
        differences.is_empty(),
        "{} differ: {:?}",
        differences.len(),
        &differences[..differences.len().min(8)]
    );
    assert!(lacking * 1000 <= found.frames, "{lacking} of {} frames have no function", found.frames);
    assert!(!found.inlined.is_empty() && found.marked > 0, "nothing is inlined");

    // Objects move all the time.
    let Some(collecting) = record(&["--expose-gc"], ("FORCE_GC", "1"), "4s") else { return };
    let collected = Found::read(&collecting.file());
    let own = |names: &BTreeSet<(String, String)>| -> BTreeSet<(String, String)> {
        names.iter().filter(|(_, file)| file.contains("/javascript/")).cloned().collect()
    };
    let (known, seen) = (own(&found.names), own(&collected.names));
    let sources = [script(), script().with_file_name("library.js")];
    let text = sources.map(|source| std::fs::read_to_string(source).expect("it is there")).concat();
    // V8 has names of its own for what has none, such as `<instance_members_initializer>`.
    let is_known = |named: &&(String, String)| {
        known.contains(*named) || named.0.starts_with('<') || text.contains(&named.0)
    };
    let strange: Vec<_> = seen.iter().filter(|named| !is_known(named)).collect();
    assert!(seen.len() > 20 && strange.is_empty(), "{} functions, strange ones: {strange:?}", seen.len());
}

#[test]
fn without_flags_the_language_stands_for_its_machinery() {
    let Some(_turn) = turn() else { return };
    let Some(node) = tool_or_skip("node") else { return };
    let running = Running::start_ready(Command::new(node).arg(script()));
    running.let_it_start();
    let recording = Recording::of_pid(running.pid(), "3s");
    recording.complete_names();
    let folded = recording.stacks();
    let calls = folded.percent(|stack| stack.has(&["loop", "fibonacci"]));
    assert!(calls > 0.5, "{calls:.1} % are in fibonacci; top: {}", recording.report().top());
    let machinery = |stack: &crate::harness::profiler::Stack| {
        stack.any_contains("Builtins_JSEntryTrampoline") && stack.any_contains("fibonacci")
    };
    assert!(folded.percent(machinery) == 0.0, "frames by which functions are called are shown");
    assert!(recording.stacks_with(&["--runtime", "full"]).percent(machinery) > 0.0, "full shows them");
    let off = recording.stacks_with(&["--runtime", "off"]);
    assert!(off.percent(|stack| stack.any_contains("fibonacci")) == 0.0, "off shows native frames only");
    folded.assert_has(&["sorter", "compare"]);
    folded.assert_has(&["loop", "recursive"]);
    let report = recording.report_text(&[]);
    assert!(report.contains("node "), "the header says which runtime: {report}");
    let page = prof().args(["doctor", "-p", &running.pid().to_string()]).output().expect("prof runs");
    let said = text(&page) + &messages(&page);
    assert!(said.contains("offsets from its v8dbg symbols"), "{said}");
}
