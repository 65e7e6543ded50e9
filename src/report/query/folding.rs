//! The frames of interpreters in stacks: which native frames are the interpreter's own machinery, and what is shown of
//! both.

use crate::profile::{FrameId, Module, ModuleId, ModuleKind, Profile, RuntimeFrames, UNPLACED};
use crate::report::model::label::{Labels, Step};
use crate::report::naming::machinery::{
    is_call, is_handler, is_interpreter_file, is_java, is_java_call, is_java_file, is_java_stub,
    is_machinery, is_node_file, is_ruby_file, is_trampoline,
};
use rustc_hash::FxHashSet;

/// Part of a stack that a frame is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FramePart {
    /// A function that an interpreter runs, or the frame that says that it is not known which native frame called those.
    Run,
    /// A call of the interpreter's loop.
    Loop,
    /// Native code by which an interpreter calls functions, or is called.
    Machinery,
    /// Other native code of a file that is nothing but the interpreter.
    Interpreter,
    /// Everything else.
    Other,
}

/// Which frames of stacks are shown. Does nothing where no interpreter was recorded.
#[derive(Debug, Clone, Default)]
pub(super) struct Folding {
    runtime: RuntimeFrames,
    /// Part of each frame; empty where no interpreter was recorded.
    parts: Vec<FramePart>,
    /// Labels of functions that only call, where these are not shown.
    calls: Vec<bool>,
}

impl Folding {
    /// What `runtime` shows of the stacks of `profile`; `None` leaves it to the recording.
    pub(super) fn of(profile: &Profile, runtime: Option<RuntimeFrames>) -> Self {
        let runtime = runtime.unwrap_or(profile.meta.runtime);
        let tables = &profile.tables;
        if !tables.modules().iter().any(|module| module.kind == ModuleKind::Runtime) {
            return Folding::default();
        }
        let loops = tables.frames().iter().filter(|frame| frame.flags.is_interpreter);
        let mut interpreters: FxHashSet<ModuleId> = loops.map(|frame| frame.module).collect();
        let runtimes = tables.modules().iter().filter(|module| module.kind == ModuleKind::Runtime);
        let has_java = runtimes.into_iter().any(|module| is_java(tables.string(module.path)));
        if !interpreters.is_empty() || has_java {
            // Functions may all have been compiled, and none interpreted; a Java machine has no loop among the native frames.
            let is_one = |module: &Module| {
                let path = tables.string(module.path);
                is_node_file(path) || is_java_file(path)
            };
            let modules = tables.modules().iter().enumerate().filter(|(_, module)| is_one(module));
            interpreters.extend(modules.map(|(index, _)| ModuleId(index as u32)));
        }
        let part_of = |index: usize| part_of(profile, &interpreters, FrameId(index as u32));
        let parts = (0..tables.frames().len()).map(part_of).collect();
        Folding { runtime, parts, calls: Vec::new() }
    }

    /// The same for the stacks that `labels` name.
    pub(super) fn with_labels(mut self, labels: &Labels) -> Self {
        if !self.parts.is_empty() && self.runtime == RuntimeFrames::Folded {
            self.calls = (labels.iter())
                .map(|label| is_call(&label.name) && is_interpreter_file(&label.module))
                .collect();
        }
        self
    }

    /// Whether a step of a stack with functions of an interpreter is not shown: a function that only calls, which may be
    /// inlined into one that works.
    pub(super) fn is_call(&self, step: &Step) -> bool {
        self.calls.get(step.label.index()).copied().unwrap_or(false)
    }

    /// Whether all frames are shown.
    pub(super) fn shows_all(&self) -> bool {
        self.parts.is_empty() || self.runtime == RuntimeFrames::Full
    }

    /// Removes frames that are not to be shown from `frames`, a whole stack, leaf first. Returns whether functions of an
    /// interpreter are left.
    pub(super) fn fold(&self, frames: &mut Vec<FrameId>) -> bool {
        let part = |frame: &FrameId| self.parts.get(frame.index()).copied().unwrap_or(FramePart::Other);
        if self.runtime == RuntimeFrames::Off {
            frames.retain(|frame| part(frame) != FramePart::Run);
            return false;
        }
        let is_run = |frame: &FrameId| part(frame) == FramePart::Run;
        let Some(first) = frames.iter().position(is_run) else { return false };
        let last = frames.iter().rposition(is_run).unwrap_or(first);
        let is_shown = |at: usize, frame: &FrameId| match part(frame) {
            FramePart::Run | FramePart::Other => true,
            FramePart::Loop => false,
            FramePart::Machinery => at < first,
            FramePart::Interpreter => at < last,
        };
        let innermost = frames.iter().enumerate().position(|(at, frame)| is_shown(at, frame));
        // The time of what is left out is that of the function that calls it, but not that of native code in between, such as
        // the C library's sorting: there the outermost one stays.
        let stays = innermost.filter(|at| *at < first).and_then(|at| at.checked_sub(1));
        let mut index = 0;
        frames.retain(|frame| {
            let at = index;
            index += 1;
            is_shown(at, frame) || stays == Some(at)
        });
        true
    }

    /// Whether the leaf of `frames`, which were folded, is called by native code: its functions that only call stay, as above.
    pub(super) fn is_leaf_in_native(&self, frames: &[FrameId]) -> bool {
        let caller = frames.get(1).and_then(|frame| self.parts.get(frame.index()));
        caller.is_some_and(|part| *part != FramePart::Run)
    }
}

/// Part of a stack that a frame is, where `interpreters` are the modules with the loop of one.
fn part_of(profile: &Profile, interpreters: &FxHashSet<ModuleId>, id: FrameId) -> FramePart {
    let tables = &profile.tables;
    let frame = tables.frame(id);
    let module = tables.module(frame.module);
    let location = profile.symbols.locations(id).last();
    let name = location.map(|location| tables.string(profile.symbols.function(location.function).name));
    match (module.kind, name) {
        (ModuleKind::Runtime, Some(name)) if is_java(tables.string(module.path)) && is_java_stub(name) => {
            if is_java_call(name) {
                FramePart::Loop
            } else {
                FramePart::Machinery
            }
        }
        (ModuleKind::Runtime, _) => FramePart::Run,
        _ if tables.string(module.path) == UNPLACED => FramePart::Run,
        _ if frame.flags.is_interpreter => FramePart::Loop,
        (ModuleKind::Jit, Some(name)) if is_trampoline(name) => FramePart::Machinery,
        (ModuleKind::Jit, _) => FramePart::Other,
        _ if !interpreters.contains(&frame.module) => FramePart::Other,
        // Its functions in C have frames of their own among those that it runs.
        (_, name) if is_ruby_file(tables.string(module.path)) && name.is_none_or(is_machinery) => {
            FramePart::Loop
        }
        (_, None) => FramePart::Machinery,
        (_, Some(name)) if is_handler(name) => FramePart::Loop,
        (_, Some(name)) if is_machinery(name) => FramePart::Machinery,
        _ if is_interpreter_file(tables.string(module.path)) => FramePart::Interpreter,
        _ => FramePart::Other,
    }
}

#[cfg(test)]
mod tests {
    use crate::profile::RuntimeFrames;
    use crate::report::tests::fixture::Build;
    use crate::report::{Analysis, CommonOptions};

    /// A stack of a Python program, root first: `sorted` calls `key`, which is about to be left.
    const STACK: [&str; 15] = [
        "/usr/bin/python3.11:_start",
        "/usr/lib/libc.so.6:__libc_start_main",
        "/usr/bin/python3.11:Py_RunMain",
        "/usr/bin/python3.11:_PyEval_EvalFrameDefault⇒PyObject_Vectorcall",
        "python 3.11:<module>",
        "python 3.11:sorter",
        "/usr/bin/python3.11:builtin_sorted⇒PyObject_Vectorcall",
        "/usr/bin/python3.11:+0x1234",
        "/usr/lib/_fast.so:fast_sort",
        "/usr/bin/python3.11:PyObject_CallOneArg",
        "[jit]:py::key:/srv/app.py",
        "/usr/bin/python3.11:_PyEval_EvalFrameDefault",
        "python 3.11:key",
        "/usr/bin/python3.11:_PyFunction_Vectorcall",
        "/usr/bin/python3.11:PyObject_Free",
    ];

    fn shown(stack: &[&str], runtime: RuntimeFrames) -> Vec<String> {
        let mut build = Build::new();
        let task = build.task(1, 1, "app", "app");
        build.add(task, 1, stack);
        let recording: Analysis = build.finish();
        let options = CommonOptions { runtime: Some(runtime), ..CommonOptions::default() };
        let selection = recording.select(&options).expect("it has a sample");
        let mut names = Vec::new();
        selection.for_each_path(|path, _| {
            names = path.iter().map(|step| selection.labels.get(step.label).name.clone()).collect();
        });
        names
    }

    #[test]
    fn folded_stacks_have_the_functions_and_what_they_call() {
        let folded = shown(&STACK, RuntimeFrames::Folded);
        assert_eq!(
            folded,
            [
                "__libc_start_main",
                "<module>",
                "sorter",
                "builtin_sorted",
                "fast_sort",
                "key",
                "PyObject_Free",
            ]
        );
    }

    #[test]
    fn the_time_of_what_calls_is_not_that_of_native_code_that_calls_it() {
        const RUBY: &str = "/usr/lib/libruby-3.1.so.3.1";
        let (loop_, sort, yields) =
            (format!("{RUBY}:rb_vm_exec"), format!("{RUBY}:rb_ary_sort"), format!("{RUBY}:rb_yield"));
        let (static_, sorts) = (format!("{RUBY}:+0x1234"), "/usr/lib/libc.so.6:msort");
        let leaf = |stack: &[&str]| shown(stack, RuntimeFrames::Folded).pop();
        let run = [&loop_, "ruby 3.1:work", "ruby 3.1:sort"];
        let with = |inner: &[&str]| leaf(&[&run, inner].concat()).unwrap_or_default();
        assert_eq!(with(&[&sort, sorts]), "msort");
        assert_eq!(with(&[&sort, sorts, &static_, &yields]), "libruby-3.1.so.3.1+0x1234");
        assert_eq!(with(&[&sort, sorts, &yields, &loop_]), "rb_yield");
        assert_eq!(with(&[&static_, &yields]), "sort", "called by the function itself");
        let python = ["/usr/bin/python3.11:_PyEval_EvalFrameDefault", "python 3.11:work"];
        let call = "/usr/bin/python3.11:_PyFunction_Vectorcall";
        assert_eq!(leaf(&[&python[..], &[call]].concat()).as_deref(), Some("work"));
        let sorted = [&python[..], &["/usr/bin/python3.11:builtin_sorted", call]].concat();
        assert_eq!(leaf(&sorted).as_deref(), Some("_PyFunction_Vectorcall"));
    }

    #[test]
    fn full_stacks_have_all_frames_and_native_ones_lack_the_functions() {
        let full = shown(&STACK, RuntimeFrames::Full);
        // What is inlined into the loop has no place: it would come after the functions that the loop runs.
        assert_eq!(full.len(), STACK.len() + 1, "{full:?}");
        assert_eq!(full[3..6], ["_PyEval_EvalFrameDefault", "<module>", "sorter"]);
        let off = shown(&STACK, RuntimeFrames::Off);
        assert_eq!(off.len(), full.len() - 3, "{off:?}");
        assert!(!off.iter().any(|name| ["<module>", "sorter", "key"].contains(&name.as_str())));
    }

    #[test]
    fn stacks_without_functions_of_an_interpreter_stay_as_they_are() {
        let native = [STACK[0], STACK[1], STACK[2], STACK[13], STACK[14]];
        assert_eq!(shown(&native, RuntimeFrames::Folded).len(), native.len());
        // A program that has the interpreter linked in keeps its own code.
        let mut embedding = STACK;
        for frame in &mut embedding {
            *frame = match *frame {
                "/usr/bin/python3.11:_start" => "/srv/app:_start",
                "/usr/bin/python3.11:Py_RunMain" => "/srv/app:serve",
                "/usr/bin/python3.11:_PyEval_EvalFrameDefault" => "/srv/app:_PyEval_EvalFrameDefault",
                other => other,
            };
        }
        assert!(shown(&embedding, RuntimeFrames::Folded).contains(&"serve".to_owned()));
    }
}
