//! Layout of the Go runtime of one program, from the program itself: no debugging information, no table by version.
//!
//! Code that creates a goroutine or a thread passes Go's description of its type to the allocator; code that adds to the
//! list of goroutines uses the variable that holds it; and so on. Functions are found by Go's own table of functions.

use super::contention::CONTENTION_FUNCTIONS;
use super::heap::HEAP_FUNCTIONS;
use super::instructions::{GoCode, GoFunctions};
use super::labels::{GoLabelForm, GoLabelLayout, LABEL_FUNCTIONS};
use super::offsets::{GoMachineOffsets, GoroutineFields, MissingGoField};
use super::places::PLACE_FUNCTIONS;
use super::strings::{string_at, word};
use super::types::GoType;
use crate::runtimes::TargetMemory;
use std::fmt;
use std::ops::Range;

/// Goroutines at the start of the list that are checked.
const CHECKED_GOROUTINES: u64 = 16;
/// Most reasons of waiting; Go 1.26 has 47.
const MAX_REASONS: u64 = 256;
const MAX_REASON_BYTES: usize = 64;
/// Larger numbers of goroutines are not believed: 2^48 need 8 years at a million a second.
pub(crate) const MAX_GOROUTINE_ID: u64 = 1 << 48;
/// Functions that enter a system call and stay on the stack meanwhile.
const SYSCALL_CALLERS: [&str; 4] =
    ["syscall.Syscall", "syscall.Syscall6", "runtime.cgocall", "runtime.notetsleepg"];
/// What helps if a program's runtime is not known.
const CURE: &str = "rebuild the program with Go 1.19 or later";
/// Other functions in which the layout is found.
const RUNTIME: [&str; 11] = [
    "runtime.newobject",
    "runtime.malg",
    "runtime.allocm",
    "runtime.allgadd",
    "runtime.morestack",
    "runtime.morestack_noctxt",
    "runtime.goexit",
    "runtime.asyncPreempt",
    "runtime.systemstack",
    "runtime.systemstack_switch",
    "runtime.waitReason.String",
];

/// Whether the layout is found with the function of this name: others need not be kept for [`GoLayout::find`].
pub(crate) fn is_needed(name: &str) -> bool {
    [
        &RUNTIME[..],
        &SYSCALL_CALLERS,
        &LABEL_FUNCTIONS,
        &PLACE_FUNCTIONS,
        &HEAP_FUNCTIONS,
        &CONTENTION_FUNCTIONS,
    ]
    .iter()
    .any(|names| names.contains(&name))
}

/// Why a layout is not found: what is missing, why, and what helps.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GoLayoutProblem {
    text: String,
    /// It may be found later: the program has just started.
    pub(crate) is_temporary: bool,
}

impl GoLayoutProblem {
    fn lasting(text: String) -> Self {
        GoLayoutProblem { text, is_temporary: false }
    }
}

impl fmt::Display for GoLayoutProblem {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(&self.text)
    }
}

/// All that is needed to read the goroutines of one process.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GoLayout {
    pub(crate) goroutine: GoroutineFields,
    pub(crate) machine: GoMachineOffsets,
    /// Process address of the list of all goroutines: pointer to the first entry, number of entries.
    pub(crate) all_goroutines: u64,
    /// Names of the reasons of waiting by number; empty if they are not known.
    reasons: Vec<String>,
    pub(crate) labels: GoLabelLayout,
    pub(crate) code: GoStackCode,
    pub(crate) thread: GoThreadOffsets,
}

/// What a sample reads to tell the goroutine: at most five words, each at an offset from the one before.
///
/// Word at the thread pointer + `goroutine` is the goroutine that runs, which may be the thread's own; + `machine` the
/// thread; + `current` the goroutine it works for, 0 for none; + `id` its number; + `labels` (from `current`, too) the
/// pointer to its labels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct GoThreadOffsets {
    pub(crate) goroutine: i64,
    pub(crate) machine: u32,
    pub(crate) current: u32,
    pub(crate) id: u32,
    pub(crate) labels: u32,
}

/// Code that matters to the walk of a goroutine's stack, process addresses.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct GoStackCode {
    /// Outermost frame of every goroutine.
    pub(crate) goexit: Range<u64>,
    /// First instructions of what a function calls before it has a frame, to grow its stack or to be preempted.
    pub(crate) morestack: Vec<u64>,
    /// Frame of a goroutine that was interrupted anywhere.
    pub(crate) async_preempt: Range<u64>,
    /// Function that runs another one on the thread's own stack, and where a goroutine is said to be meanwhile.
    pub(crate) systemstack: u64,
    pub(crate) systemstack_switch: Range<u64>,
    /// Functions that enter system calls, and bytes from their stack pointer to their frame pointer.
    pub(crate) syscalls: Vec<(Range<u64>, u64)>,
}

impl GoLayout {
    /// Finds the layout in the memory of a process. An error says what is missing.
    pub(crate) fn find<M: TargetMemory>(
        memory: &M,
        functions: GoFunctions<'_>,
    ) -> Result<Self, GoLayoutProblem> {
        let allocator = function(functions, "runtime.newobject")?.start;
        let goroutine = allocated(memory, functions, "runtime.malg", allocator)?;
        let goroutine = GoroutineFields::of(memory, &goroutine).map_err(|missing| no_field("g", &missing))?;
        let machine = allocated(memory, functions, "runtime.allocm", allocator)?;
        let machine = GoMachineOffsets::of(memory, &machine).map_err(|missing| no_field("m", &missing))?;
        let adds = code(memory, functions, "runtime.allgadd")?;
        let all_goroutines = adds.slice_variable().ok_or_else(|| unknown("runtime.allgadd"))?;
        let morestack = code(memory, functions, "runtime.morestack")?;
        let local = morestack.thread_local_offset(memory).ok_or_else(|| unknown("runtime.morestack"))?;
        let thread = GoThreadOffsets {
            goroutine: local,
            machine: goroutine.m as u32,
            current: machine.current_goroutine as u32,
            id: goroutine.id as u32,
            labels: goroutine.labels as u32,
        };
        let code = GoStackCode::find(memory, functions)?;
        // Go's linker puts constants between the code and the variables.
        let constants = code.goexit.end..all_goroutines;
        let layout = GoLayout {
            goroutine,
            machine,
            all_goroutines,
            reasons: reasons(memory, functions).unwrap_or_default(),
            labels: GoLabelLayout { form: GoLabelForm::find(memory, functions), constants },
            code,
            thread,
        };
        layout.check(memory)?;
        Ok(layout)
    }

    /// Name of a reason of waiting; `None` if it has none.
    pub(crate) fn wait_reason(&self, number: u8) -> Option<&str> {
        self.reasons.get(usize::from(number)).map(String::as_str).filter(|reason| !reason.is_empty())
    }

    /// The list of goroutines: process address of the first entry, and the number of entries.
    ///
    /// The runtime makes the list longer in place or moves it before it counts a new entry, so the number is read first.
    pub(crate) fn list<M: TargetMemory>(&self, memory: &M) -> Option<(u64, u64)> {
        let count = memory.u64(self.all_goroutines.checked_add(8)?)?;
        Some((memory.u64(self.all_goroutines)?, count))
    }

    /// Reads some goroutines to see that they are ones.
    fn check<M: TargetMemory>(&self, memory: &M) -> Result<(), GoLayoutProblem> {
        let (list, count) = self.list(memory).ok_or_else(|| unreadable("the list of goroutines"))?;
        if count == 0 {
            let problem = "cannot read goroutines: the Go runtime of the process has not started yet: try again in \
                           a moment";
            return Err(GoLayoutProblem { text: problem.to_owned(), is_temporary: true });
        }
        let count = count.min(CHECKED_GOROUTINES);
        let entries = memory.range(list, count * 8, (CHECKED_GOROUTINES * 8) as usize);
        let entries = entries.ok_or_else(|| unreadable("the list of goroutines"))?;
        let is_known = |entry: &[u8]| word(entry, 0).is_some_and(|at| self.is_goroutine(memory, at));
        if entries.chunks_exact(8).all(is_known) {
            return Ok(());
        }
        Err(GoLayoutProblem::lasting(format!(
            "cannot read goroutines: what the program lists as goroutines are none: unknown layout: {CURE}"
        )))
    }

    fn is_goroutine<M: TargetMemory>(&self, memory: &M, address: u64) -> bool {
        let Some(bytes) = memory.range(address, self.goroutine.bytes as u64, 1 << 13) else { return false };
        let field = |offset| word(&bytes, offset).unwrap_or(u64::MAX);
        let (low, high) = (field(self.goroutine.stack_low), field(self.goroutine.stack_high));
        // A goroutine that ended keeps its number and may keep its stack.
        low <= high && high < 1 << 47 && field(self.goroutine.id) < MAX_GOROUTINE_ID
    }
}

impl GoStackCode {
    fn find<M: TargetMemory>(memory: &M, functions: GoFunctions<'_>) -> Result<Self, GoLayoutProblem> {
        let morestack = ["runtime.morestack_noctxt", "runtime.morestack"];
        let frame = |name: &&str| {
            let range = functions(name)?;
            let bytes = GoCode::read(memory, &range)?.frame_pointer_above_stack_pointer()?;
            Some((range, bytes))
        };
        Ok(GoStackCode {
            goexit: function(functions, "runtime.goexit")?,
            morestack: morestack.iter().filter_map(|name| Some(functions(name)?.start)).collect(),
            async_preempt: functions("runtime.asyncPreempt").unwrap_or_default(),
            systemstack: functions("runtime.systemstack").unwrap_or_default().start,
            systemstack_switch: functions("runtime.systemstack_switch").unwrap_or_default(),
            syscalls: SYSCALL_CALLERS.iter().filter_map(frame).collect(),
        })
    }
}

/// Type that a function allocates.
fn allocated<M: TargetMemory>(
    memory: &M,
    functions: GoFunctions<'_>,
    name: &str,
    allocator: u64,
) -> Result<GoType, GoLayoutProblem> {
    let code = code(memory, functions, name)?;
    let of_type = code.argument_of_call(allocator).and_then(|address| GoType::read(memory, address));
    of_type.ok_or_else(|| unknown(name))
}

/// Names of the reasons of waiting; `None` if the table is not found or is not one of strings.
fn reasons<M: TargetMemory>(memory: &M, functions: GoFunctions<'_>) -> Option<Vec<String>> {
    let code = GoCode::read(memory, &functions("runtime.waitReason.String")?)?;
    let (table, count) = code.string_table().filter(|&(_, count)| count <= MAX_REASONS)?;
    let reason = |number: u64| {
        let reason = string_at(memory, table.checked_add(16 * number)?)?;
        (reason.len() <= MAX_REASON_BYTES && !reason.contains(char::is_control)).then_some(reason)
    };
    (0..count).map(reason).collect()
}

fn function(functions: GoFunctions<'_>, name: &str) -> Result<Range<u64>, GoLayoutProblem> {
    functions(name).ok_or_else(|| {
        GoLayoutProblem::lasting(format!(
            "cannot read goroutines: function `{name}` is not in the program's function table: \
             its names are obfuscated or its version of Go is unknown: {CURE}"
        ))
    })
}

fn code<M: TargetMemory>(
    memory: &M,
    functions: GoFunctions<'_>,
    name: &str,
) -> Result<GoCode, GoLayoutProblem> {
    let range = function(functions, name)?;
    GoCode::read(memory, &range).ok_or_else(|| unreadable(&format!("function `{name}`")))
}

fn unknown(name: &str) -> GoLayoutProblem {
    GoLayoutProblem::lasting(format!(
        "cannot read goroutines: function `{name}` has unknown code: its version of Go is unknown: {CURE}"
    ))
}

fn no_field(of_type: &str, missing: &MissingGoField) -> GoLayoutProblem {
    let found = match missing.0 {
        whole if whole == of_type => "a description of unknown form".to_string(),
        field => format!("no field `{field}` of the size expected"),
    };
    GoLayoutProblem::lasting(format!(
        "cannot read goroutines: type `runtime.{of_type}` has {found}: its version of Go is unknown: {CURE}"
    ))
}

fn unreadable(what: &str) -> GoLayoutProblem {
    // While a program starts, some of it is not mapped yet.
    GoLayoutProblem {
        text: format!(
            "cannot read goroutines: {what} cannot be read from the process: it has ended, or belongs to \
             another user: run as root and check that it lives"
        ),
        is_temporary: true,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runtimes::go::tests::synthetic_program::{ALL, SyntheticProgram, field};

    fn find(program: &SyntheticProgram) -> Result<GoLayout, String> {
        let found = GoLayout::find(&program.memory, &|name| program.function(name));
        found.map_err(|problem| problem.to_string())
    }

    #[test]
    fn layout_is_found_in_code_and_types() {
        let layout = find(&SyntheticProgram::new(3)).unwrap();
        assert_eq!((layout.goroutine.id, layout.goroutine.sched_bp, layout.goroutine.bytes), (152, 96, 224));
        assert_eq!(layout.machine, GoMachineOffsets { current_goroutine: 8, thread_id: 0 });
        assert_eq!((layout.all_goroutines, layout.labels.form), (ALL, GoLabelForm::Pairs));
        let thread = GoThreadOffsets { goroutine: -8, machine: 48, current: 8, id: 152, labels: 216 };
        assert_eq!(layout.thread, thread);
        assert_eq!([0, 1, 2].map(|reason| layout.wait_reason(reason)), [None, Some("chan receive"), None]);
    }

    #[test]
    fn problems_name_what_is_missing_and_what_helps() {
        let program = SyntheticProgram::new(3).without("runtime.malg");
        let problem = find(&program).unwrap_err();
        assert_eq!(
            problem,
            "cannot read goroutines: function `runtime.malg` is not in the program's function table: its names \
             are obfuscated or its version of Go is unknown: rebuild the program with Go 1.19 or later"
        );
        let none = find(&SyntheticProgram::new(0)).unwrap_err();
        assert!(none.contains("has not started yet: try again"), "{none}");
    }

    #[test]
    fn things_that_are_no_goroutines_are_refused() {
        let mut program = SyntheticProgram::new(3);
        program.set(1, field::ID, u64::MAX / 2);
        assert!(find(&program).unwrap_err().contains("unknown layout"));
        let mut program = SyntheticProgram::new(3);
        program.memory.set_word(SyntheticProgram::entry(2), 0xdead_0000);
        assert!(find(&program).unwrap_err().contains("unknown layout"));
        program.memory.set_word(ALL, 0xdead_0000);
        assert!(find(&program).unwrap_err().contains("the list of goroutines cannot be read"));
    }

    #[test]
    fn reasons_and_labels_are_not_essential() {
        let program =
            SyntheticProgram::new(3).without("runtime.waitReason.String").without("runtime/pprof.Do");
        let layout = find(&program).unwrap();
        assert_eq!((layout.wait_reason(1), layout.labels.form), (None, GoLabelForm::None));
    }
}
