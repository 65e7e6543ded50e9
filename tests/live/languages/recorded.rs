//! Reads the stacks of a recording as they were merged, before anything is left out of them.

use prof::internals::profile::{
    EventKind, FrameId, ModuleKind, Outcome, Profile, Sample, StackId, read_path,
};
use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;

/// Name of functions that could not be read.
pub(crate) const UNREAD: &str = "[function not read]";

/// Root of the functions of an interpreter where these fit the native frames in no certain way.
const UNPLACED: &str = "[frames of an interpreter, native callers not known]";

/// So many functions at each end of a stack are shown in messages.
const ENDS: usize = 20;

/// A function in a stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Step {
    pub(crate) name: String,
    /// Empty if not known.
    pub(crate) file: String,
    pub(crate) line: u32,
    /// An interpreter runs it.
    pub(crate) is_run: bool,
    /// It is an interpreter's loop.
    pub(crate) is_loop: bool,
}

/// A sample, or a wait.
pub(crate) struct RunSample {
    pub(crate) sample: Sample,
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    /// Root first.
    pub(crate) steps: Arc<Vec<Step>>,
}

impl RunSample {
    /// The functions that an interpreter ran, root first.
    pub(crate) fn run(&self) -> Vec<&Step> {
        self.steps.iter().filter(|step| step.is_run).collect()
    }

    /// Whether some thread's interpreter is at work: its loop is on the stack.
    pub(crate) fn has_loop(&self) -> bool {
        self.steps.iter().any(|step| step.is_loop)
    }

    /// Whether it is not known which functions native frames have called.
    pub(crate) fn is_unplaced(&self) -> bool {
        self.steps.iter().any(|step| step.name == UNPLACED)
    }

    /// Whether its functions were read, all of them, and fit its native frames.
    pub(crate) fn is_read(&self) -> bool {
        let run = self.run();
        !self.is_unplaced() && !run.is_empty() && run.iter().all(|step| step.name != UNREAD)
    }

    /// Whether the native stack is whole.
    pub(crate) fn is_complete(&self) -> bool {
        self.sample.outcome == Outcome::Complete
    }

    /// For messages.
    pub(crate) fn text(&self) -> String {
        let step = |step: &Step| match step.is_run {
            true => format!("**{} ({}:{})**", step.name, step.file, step.line),
            false => step.name.clone(),
        };
        let mut steps: Vec<String> = self.steps.iter().map(step).collect();
        if steps.len() > 2 * ENDS {
            steps.splice(ENDS..steps.len() - ENDS, ["…".to_owned()]);
        }
        steps.join(" > ")
    }
}

/// A recording's samples and waits.
pub(crate) struct RunStacks {
    pub(crate) profile: Profile,
    pub(crate) samples: Vec<RunSample>,
    pub(crate) waits: Vec<RunSample>,
}

impl RunStacks {
    /// Of a file.
    pub(crate) fn read(file: &Path) -> RunStacks {
        let (profile, integrity) = read_path(file).expect("prof wrote a file that can be read");
        assert!(integrity.is_complete, "the file is cut: {integrity:?}");
        let mut known = HashMap::new();
        let samples = all(&profile, &EventKind::ON_CPU, &mut known);
        let waits = all(&profile, &EventKind::OFF_CPU, &mut known);
        RunStacks { profile, samples, waits }
    }

    /// The samples of a process.
    pub(crate) fn of(&self, pid: u32) -> Vec<&RunSample> {
        self.samples.iter().filter(|sample| sample.pid == pid).collect()
    }

    /// The waits of a thread.
    pub(crate) fn waits_of(&self, tid: u32) -> Vec<&RunSample> {
        self.waits.iter().filter(|wait| wait.tid == tid).collect()
    }
}

fn all(profile: &Profile, kind: &EventKind, known: &mut HashMap<StackId, Arc<Vec<Step>>>) -> Vec<RunSample> {
    let samples = profile.event_of(kind).into_iter().flat_map(|event| event.samples());
    let read = |sample: Sample| {
        let task = profile.tables.task(sample.task);
        let steps = match sample.stack {
            None => Arc::default(),
            Some(stack) => Arc::clone(known.entry(stack).or_insert_with(|| Arc::new(steps(profile, stack)))),
        };
        RunSample { sample, pid: task.pid, tid: task.tid, steps }
    };
    samples.map(read).collect()
}

fn steps(profile: &Profile, stack: StackId) -> Vec<Step> {
    let frames: Vec<FrameId> = profile.tables.stack_frames(stack).collect();
    let mut steps: Vec<Step> = frames.into_iter().flat_map(|frame| steps_of_frame(profile, frame)).collect();
    steps.reverse();
    steps
}

/// Innermost first.
fn steps_of_frame(profile: &Profile, frame: FrameId) -> Vec<Step> {
    let tables = &profile.tables;
    let is_loop = tables.frames()[frame.index()].flags.is_interpreter;
    let locations = profile.symbols.locations(frame);
    let text = |id| tables.string(id).to_owned();
    if locations.is_empty() {
        return vec![Step { name: String::new(), file: String::new(), line: 0, is_run: false, is_loop }];
    }
    (locations.iter())
        .map(|location| {
            let name = text(profile.symbols.function(location.function).name);
            let file = text(location.file);
            let module = tables.module(tables.frames()[frame.index()].module);
            let is_run = name == UNREAD
                || module.kind == ModuleKind::Runtime
                || [".py", ".java", ".pl", ".pm"].iter().any(|end| file.ends_with(end))
                || file.starts_with('<')
                || file.starts_with("(eval");
            Step { name, file, line: location.line, is_run, is_loop }
        })
        .collect()
}
