//! Where a thread waited, in a few words: the program's own function that made the call, and its caller.

use crate::profile::{Profile, Reason};
use crate::report::model::activity::Activity;
use crate::report::model::label::{LabelId, Labels, Step};
use crate::report::model::label_kind::LabelKind;
use crate::report::naming::code::{Code, is_c_library, is_java_wait, is_own};
use crate::report::naming::machinery::is_interpreter_file;

/// A place where threads wait. Waits with one site are one row of a table of waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum WaitSite {
    /// In a call of `blocked_in`, the innermost function that is the program's own, which `called_by` had called, the
    /// next of its own. Where a stack has none of the program's own, the innermost function that says something.
    Call {
        /// The function; `None` for a page fault, which is no call.
        blocked_in: Option<LabelId>,
        /// Caller of `blocked_in`, or the function in which the page fault happened.
        called_by: Option<LabelId>,
    },
    /// Nowhere: ready to run, on any stack.
    NoCpu,
    /// In waits that were too short to have a stack.
    Short,
}

impl WaitSite {
    /// The function that waited, and its caller.
    pub(crate) fn labels(self) -> [Option<LabelId>; 2] {
        match self {
            WaitSite::Call { blocked_in, called_by } => [blocked_in, called_by],
            WaitSite::NoCpu | WaitSite::Short => [None, None],
        }
    }

    /// The names of these: by them, rows of equal weight have one order whatever that of the samples was.
    pub(crate) fn names(self, labels: &Labels) -> [String; 2] {
        self.labels().map(|label| label.map_or(String::new(), |label| labels.get(label).name.clone()))
    }
}

/// Finds the sites of paths.
#[derive(Debug)]
pub(crate) struct WaitSites<'l> {
    labels: &'l Labels,
    /// Whether each place in the source is own code, as a function that has a frame, and as one that is inlined.
    is_own: Vec<[bool; 2]>,
    /// Whether each label is the C library's.
    is_c_library: Vec<bool>,
    /// Whether each label is in the file of an interpreter.
    is_interpreter: Vec<bool>,
}

impl<'l> WaitSites<'l> {
    pub(crate) fn new(profile: &Profile, labels: &'l Labels) -> Self {
        let is_own = (labels.places().iter())
            .map(|place| {
                let label = labels.get(place.label);
                let (module, name) = (label.module.as_str(), label.name.as_str());
                let file = profile.tables.string(place.file);
                [false, true]
                    .map(|is_inlined| is_own(Code { kind: label.kind, module, name, file, is_inlined }))
            })
            .collect();
        let is_c_library = (labels.iter())
            .map(|label| {
                let (kind, module, name) = (label.kind, label.module.as_str(), label.name.as_str());
                is_c_library(Code { kind, module, name, file: "", is_inlined: false })
            })
            .collect();
        let is_interpreter = labels.iter().map(|label| is_interpreter_file(&label.module)).collect();
        WaitSites { labels, is_own, is_c_library, is_interpreter }
    }

    fn is_own(&self, step: &Step) -> bool {
        self.is_own[step.place.index()][usize::from(step.is_inlined)]
    }

    /// The site of a wait whose steps, root first, are `path`.
    pub(crate) fn of(&self, path: &[Step], activity: Activity) -> WaitSite {
        match activity {
            Activity::WaitingShortly(_) => return WaitSite::Short,
            Activity::Waiting(Reason::NoCpu) => return WaitSite::NoCpu,
            _ => {}
        }
        // Where the functions that an interpreter runs are known, its own are none of the program's.
        let has_run = path.iter().any(|step| self.kind(step.label) == LabelKind::Interpreted);
        let is_own =
            |step: &&Step| self.is_own(step) && !(has_run && self.is_interpreter[step.label.index()]);
        let mut own = path.iter().rev().filter(is_own).map(|step| step.label);
        let first = own.next();
        if activity == Activity::Waiting(Reason::Fault) {
            return WaitSite::Call { blocked_in: None, called_by: first.or_else(|| self.fallback(path)) };
        }
        // A function that calls itself is its own caller only in a sense that no one asked for.
        let called_by = own.find(|label| Some(*label) != first);
        WaitSite::Call { blocked_in: first.or_else(|| self.fallback(path)), called_by }
    }

    /// The innermost function outside of the kernel: the call that blocked.
    pub(crate) fn call(&self, path: &[Step]) -> Option<LabelId> {
        let is_call = |label: &LabelId| self.kind(*label).is_user_code();
        path.iter().rev().map(|step| step.label).find(is_call)
    }

    /// The innermost step that says something: of user code, else of the kernel, else whatever there is.
    fn fallback(&self, path: &[Step]) -> Option<LabelId> {
        let mut steps = path.iter().rev().map(|step| step.label);
        let says_where = |label: &LabelId| {
            self.kind(*label) == LabelKind::Kernel && !self.labels.get(*label).name.contains("schedule")
        };
        let is_reason = |label: &LabelId| matches!(self.kind(*label), LabelKind::Wait(_));
        let is_runtime =
            |label: &LabelId| !self.is_c_library[label.index()] && self.kind(*label).is_user_code();
        let is_run = |label: &LabelId| self.kind(*label) == LabelKind::Interpreted;
        let is_working_run = |label: &LabelId| is_run(label) && !is_java_wait(&self.labels.get(*label).name);
        // Of a language's runtime the function says more than that of the C library which it calls.
        (path.iter().rev().map(|step| step.label).find(is_working_run))
            .or_else(|| path.iter().rev().map(|step| step.label).find(is_run))
            .or_else(|| path.iter().rev().map(|step| step.label).find(is_runtime))
            .or_else(|| self.call(path))
            .or_else(|| steps.clone().find(says_where))
            .or_else(|| steps.find(|label| !is_reason(label)))
    }

    fn kind(&self, label: LabelId) -> LabelKind {
        self.labels.get(label).kind
    }
}

#[cfg(test)]
mod tests {
    use crate::profile::{Reason, Waker, WakerKind};
    use crate::report::tests::fixture::Build;
    use crate::report::{CommonOptions, FilterOptions, Metric, SortKey, WaitSite, WaitTable};

    const RUSTY: &str = "/usr/bin/rusty";

    /// Where a thread waits whose stack, root first, is made of `functions`, and who woke it out of the same stack.
    fn site(functions: &[&str]) -> [Option<String>; 3] {
        let mut build = Build::new();
        let task = build.task(1, 1, "rusty", "rusty");
        let frames: Vec<String> = functions.iter().map(|function| format!("{RUSTY}:{function}")).collect();
        let mut frames: Vec<&str> = frames.iter().map(String::as_str).collect();
        frames.push("/usr/lib/libc.so.6:syscall");
        let stack = build.stack(&frames);
        let waker = Waker { kind: WakerKind::Thread, task: Some(task), stack };
        build.thinned_wait(task, Reason::Lock, [0, 1_000, 1_000], &frames, waker);
        let recording = build.finish();
        let filter = FilterOptions { idle: true, ..FilterOptions::default() };
        let options = CommonOptions { metric: Some(Metric::OFF_CPU), filter, ..CommonOptions::default() };
        let selection = recording.select(&options).unwrap();
        let table = WaitTable::new(&selection, SortKey::SelfWeight);
        let WaitSite::Call { blocked_in, called_by } = table.rows[0].site else { panic!("{table:?}") };
        let name = |label| selection.labels.get(label).name.clone();
        [blocked_in.map(name), called_by.map(name), table.rows[0].woken_by[0].function.clone()]
    }

    #[test]
    fn inlined_functions_of_the_standard_library_are_no_sites_whatever_their_names() {
        // As line tables alone have them: without their paths.
        let functions = [
            "std::rt::lang_start",
            "^{closure#0}<main::main::{closure_env#0}, ()>",
            "run⇒^with<u32>",
            "rusty::handle⇒update⇒^lock<u32>⇒^lock",
            "<std::sys::sync::mutex::futex::Mutex>::lock_contended",
        ];
        assert_eq!(site(&functions).map(Option::unwrap), ["update", "rusty::handle", "update"]);
    }

    #[test]
    fn what_calls_closures_is_no_caller() {
        let glue =
            "<&dyn core::ops::function::Fn<(), Output = i32> as core::ops::function::FnOnce<()>>::call_once";
        assert_eq!(
            site(&["std::rt::lang_start", glue, "rusty::main", "^join<()>"])[..2],
            [Some("rusty::main".to_owned()), None]
        );
    }
}
