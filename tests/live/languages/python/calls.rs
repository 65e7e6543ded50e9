//! Stacks of functions that interpreters run, against those that the program has reported of itself.

use crate::harness::machine::turn;
use crate::harness::profiler::Recording;
use crate::languages::python::interpreters::{Target, recorded_in_all};
use crate::languages::recorded::{RunSample, RunStacks, Step, UNREAD};
use serde_json::Value;
use std::collections::BTreeSet;
use std::sync::{Mutex, OnceLock, PoisonError};

/// A program whose stacks are known, recorded in all versions.
pub(crate) struct Known {
    pub(crate) recording: Recording,
    pub(crate) targets: Vec<Target>,
}

/// One recording for all tests; `None` where it cannot be made.
pub(crate) fn known() -> Option<&'static Known> {
    static MADE: OnceLock<Option<Known>> = OnceLock::new();
    MADE.get_or_init(|| {
        let _turn = turn()?;
        let (recording, targets) = recorded_in_all("chains.py", "4s", &["-F", "1999"])?;
        Some(Known { recording, targets })
    })
    .as_ref()
}

/// End of the fault of a function whose line is not known.
const NO_LINE: &str = " has no line";

/// Share of the samples of an interpreter whose functions may fit its native frames in no certain way.
const MISMATCHES: f64 = 0.001;
const MISMATCHES_OF_3_12: f64 = 0.01;

/// Functions with whose names stacks end while they do their work.
const LEAVES: [&str; 2] = ["burn_once", "burn_twice"];

/// A function and the line at which it was: `["sort_key", "/…/chains.py", 66]`.
type Place = (String, String, u32);

/// What a program has reported.
struct Reported {
    /// Whole stacks but for their leaves, and the leaf's lines.
    chains: Vec<(Vec<Place>, Place, u32)>,
    /// A function at a line, and the function that it calls there.
    calls: BTreeSet<(Place, (String, String))>,
    /// Files that are its own.
    files: BTreeSet<String>,
}

fn place(value: &Value) -> Place {
    let text = |index: usize| value[index].as_str().expect("a text").to_owned();
    (text(0), text(1), value[2].as_u64().expect("a line") as u32)
}

impl Reported {
    fn of(target: &Target) -> Reported {
        let said = target.said();
        let chains: Vec<(Vec<Place>, Place, u32)> = (said["chains"].as_array().expect("a list").iter())
            .map(|chain| {
                let callers = chain["callers"].as_array().expect("a list").iter().map(place).collect();
                let leaf = place(&chain["leaf"]);
                (callers, leaf, chain["leaf"][3].as_u64().expect("a line") as u32)
            })
            .collect();
        assert!(chains.len() >= 25, "{}: {} chains", target.python.version, chains.len());
        let mut calls = BTreeSet::new();
        for (callers, leaf, _) in &chains {
            let callees =
                callers[1..].iter().chain([leaf]).map(|(name, file, _)| (name.clone(), file.clone()));
            calls.extend(callers.iter().cloned().zip(callees));
        }
        let files = chains.iter().map(|(_, leaf, _)| leaf.1.clone()).chain(["<made>".to_owned()]).collect();
        Reported { chains, calls, files }
    }

    /// What is wrong with a stack.
    fn fault(&self, sample: &RunSample) -> Option<String> {
        let run = sample.run();
        let root = run.first()?;
        if root.name != "<module>" && !root.name.ends_with("_bootstrap") {
            return Some(format!("the root is {}", root.name));
        }
        if let Some(step) = run.iter().find(|step| step.line == 0 && step.name != UNREAD) {
            return Some(format!("{}{NO_LINE}", step.name));
        }
        for pair in run.windows(2) {
            let call = (place_of(pair[0]), (pair[1].name.clone(), pair[1].file.clone()));
            if self.files.contains(&pair[1].file) && !self.calls.contains(&call) {
                return Some(format!("no such call: {call:?}"));
            }
        }
        let (leaf, callers) = run.split_last()?;
        if !LEAVES.contains(&leaf.name.as_str()) {
            return None;
        }
        let callers: Vec<Place> = callers.iter().map(|step| place_of(step)).collect();
        let is_it = |(those, known, last): &&(Vec<Place>, Place, u32)| {
            *those == callers
                && (&known.0, &known.1) == (&leaf.name, &leaf.file)
                && (known.2..=*last).contains(&leaf.line)
        };
        let is_known = self.chains.iter().any(|chain| is_it(&chain));
        (!is_known).then(|| format!("no such chain: {callers:?}, {leaf:?}"))
    }
}

fn place_of(step: &Step) -> Place {
    (step.name.clone(), step.file.clone(), step.line)
}

/// The samples of a target in its interpreter.
fn samples_of<'s>(stacks: &'s RunStacks, target: &Target) -> Vec<&'s RunSample> {
    stacks.of(target.pid).into_iter().filter(|sample| sample.has_loop()).collect()
}

/// The recording, read by one test at a time: that takes memory.
fn with_stacks(judge: impl Fn(&Target, &[&RunSample]) -> Result<(), String>) {
    static READ: Mutex<()> = Mutex::new(());
    let Some(known) = known() else { return };
    let _read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    let stacks = RunStacks::read(&known.recording.file());
    let mut wrong = Vec::new();
    for target in &known.targets {
        let samples = samples_of(&stacks, target);
        assert!(samples.len() > 100, "{}: only {} samples", target.python.version, samples.len());
        if let Err(fault) = judge(target, &samples) {
            wrong.push(format!("python {}, {} samples: {fault}", target.python.version, samples.len()));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

#[test]
fn every_stack_is_one_that_the_program_has_reported() {
    with_stacks(|target, samples| {
        let judged: Vec<&RunSample> =
            samples.iter().copied().filter(|sample| !sample.is_unplaced()).collect();
        are_reported(target, &judged)
    });
}

/// Whether the program has reported each of these stacks of it.
pub(crate) fn are_reported(target: &Target, samples: &[&RunSample]) -> Result<(), String> {
    let reported = Reported::of(target);
    let fault_of = |sample: &&RunSample| Some((reported.fault(sample)?, sample.text()));
    let mut faults: Vec<(String, String)> = samples.iter().filter_map(fault_of).collect();
    // A frame that is being made has the position of one that was there before: then it has no line.
    let lacks_line = |(fault, _): &(String, String)| fault.ends_with(NO_LINE);
    if faults.iter().filter(|fault| lacks_line(fault)).count() <= 1 + samples.len() / 2000 {
        faults.retain(|fault| !lacks_line(fault));
    }
    match faults.first() {
        None => Ok(()),
        Some((fault, stack)) => Err(format!("{} are wrong; one: {fault}\n{stack}", faults.len())),
    }
}

#[test]
fn functions_of_an_interpreter_fit_its_native_frames() {
    with_stacks(|target, samples| {
        let count = |matches: &dyn Fn(&RunSample) -> bool| {
            samples.iter().filter(|sample| matches(sample)).count() as f64
        };
        let share = if target.python.version == "3.12" { MISMATCHES_OF_3_12 } else { MISMATCHES };
        // One of few is no share.
        let most = |share: f64| 1.0 + share * samples.len() as f64;
        let unplaced = count(&|sample| sample.is_unplaced());
        let bare = count(&|sample| sample.run().is_empty());
        let unread = count(&|sample| sample.run().iter().any(|step| step.name == UNREAD));
        let cut = count(&|sample| !sample.is_complete());
        // A function may be gone before a crowded machine has read it: that is said, and rare.
        let few = (samples.len() / 2000) as f64;
        let is_well =
            unplaced <= most(share) && bare <= most(MISMATCHES) && unread <= few && cut <= most(0.01);
        let found =
            format!("{unplaced} do not fit, {bare} have no functions, {unread} lack names, {cut} are cut");
        println!("python {}: {} samples, {found}", target.python.version, samples.len());
        is_well.then_some(()).ok_or(found)
    });
}

/// What is wrong with where a sample's functions are.
fn misplaced(sample: &RunSample) -> Option<String> {
    let steps = &sample.steps;
    let first = steps.iter().position(|step| step.is_run).unwrap_or(steps.len());
    if !steps[..first].iter().any(|step| step.is_loop) && first < steps.len() {
        return Some(format!("nothing calls the outermost function: {}", sample.text()));
    }
    let mut pairs = steps.iter().zip(steps.iter().skip(1));
    let is_native = pairs.any(|(caller, callee)| callee.is_run && !caller.is_run && !caller.is_loop);
    is_native.then(|| format!("C code calls a function without a loop: {}", sample.text()))
}

/// Each group of functions is called by a loop, and what C code calls in between is between them.
#[test]
fn native_frames_between_two_functions_are_in_their_place() {
    with_stacks(|target, samples| {
        let whole = samples.iter().filter(|sample| sample.is_complete() && !sample.is_unplaced());
        let wrong: Vec<String> = whole.copied().filter_map(misplaced).collect();
        // As many as do not fit: a function may begin, or end, between the two looks of a sample.
        if wrong.len() as f64 > 1.0 + MISMATCHES * samples.len() as f64 {
            return Err(format!("{} of {}: {}", wrong.len(), samples.len(), wrong[0]));
        }
        let has_between = |caller: &str, between: &str, callee: &str| {
            samples.iter().any(|sample| {
                let at = |name: &str| sample.steps.iter().position(|step| step.name == name);
                let places = (at(caller), at(between), at(callee));
                matches!(places, (Some(one), Some(two), Some(three)) if one < two && two < three)
            })
        };
        let mut missing = Vec::new();
        let mut wanted = vec![("by_libc", "ffi_call", "compare")];
        if target.python.has_symbols {
            wanted.push(("by_sort", "list_sort_impl", "sort_key"));
            wanted.push(("by_generator", "builtin_sum_impl", "numbers"));
            wanted.push(("sort_key", "pattern_subx", "replaced"));
        }
        for (caller, between, callee) in wanted {
            if !has_between(caller, between, callee) {
                missing.push(format!("{caller} < {between} < {callee}"));
            }
        }
        // On a crowded machine there may be no time for the symbol table of a whole interpreter: then no static function has a name.
        let was_crowded = known().is_some_and(|known| known.recording.was_crowded);
        if missing.is_empty() || (was_crowded && missing.len() == 3) {
            return Ok(());
        }
        Err(format!("never seen: {missing:?}"))
    });
}

#[test]
fn functions_have_the_shares_of_their_work() {
    with_stacks(have_shares_of_work);
}

/// Whether functions have the shares of their work.
pub(crate) fn have_shares_of_work(target: &Target, samples: &[&RunSample]) -> Result<(), String> {
    let work = &target.said()["work"];
    let units = |name: &str| work[name].as_f64().expect("a number");
    let expected = units(LEAVES[1]) / (units(LEAVES[0]) + units(LEAVES[1]));
    let count = |name: &str| {
        samples.iter().filter(|sample| sample.run().last().is_some_and(|step| step.name == name)).count()
    };
    let (once, twice) = (count(LEAVES[0]) as f64, count(LEAVES[1]) as f64);
    let found = twice / (once + twice);
    let error = (expected * (1.0 - expected) / (once + twice)).sqrt();
    let is_near = (found - expected).abs() < 0.03 + 4.0 * error;
    is_near.then_some(()).ok_or(format!("{found:.3} instead of {expected:.3} ± {error:.3}"))
}
