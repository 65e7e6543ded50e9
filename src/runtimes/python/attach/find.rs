//! Finding the layout of an interpreter in a process, and checking it: what does not fit is a problem with a reason,
//! never a guess.

use super::confirm::{self, PythonVerdict};
use super::debug_offsets;
use super::disassembly::{self, FunctionAccesses};
use super::locator;
use super::tables;
use super::version;
use crate::runtimes::RuntimeProblem;
use crate::runtimes::memory::TargetMemory;
use crate::runtimes::python::frames::{PythonThread, threads};
use crate::runtimes::python::layout::{
    PythonGil, PythonLayout, PythonLists, PythonLocator, PythonOffsets, PythonVersion,
};
use crate::runtimes::python::text::field;

/// Cure where nothing can be done but to live without.
const NATIVE_ONLY: &str = "only native frames are shown";

impl PythonLayout {
    /// Finds the layout of the interpreter in a process.
    ///
    /// `symbols` gives process addresses of symbols of the interpreter's module, exported ones or of its symbol table;
    /// `path` is the module's file.
    ///
    /// # Errors
    /// A sentence of what is not known or does not fit. It is temporary if the interpreter is still starting.
    pub(crate) fn find(
        memory: &impl TargetMemory,
        symbols: &dyn Fn(&str) -> Option<u64>,
        path: &str,
    ) -> Result<Self, RuntimeProblem> {
        let symbol = |name| {
            symbols(name).ok_or_else(|| {
                RuntimeProblem::lasting(format!(
                    "python: no symbol `{name}` in `{path}`, which is stripped of it: {NATIVE_ONLY}"
                ))
            })
        };
        let runtime = symbol("_PyRuntime")?;
        let Some((version, version_source)) = version::find(memory, symbols, runtime, path) else {
            return Err(RuntimeProblem::lasting(format!(
                "python: version of `{path}` not found: {NATIVE_ONLY}"
            )));
        };
        let mut offsets = offsets(memory, runtime, version)?;
        offsets.object.code_type = symbol("PyCode_Type")?;
        offsets.object.text_type = symbol("PyUnicode_Type")?;
        offsets.object.bytes_type = symbol("PyBytes_Type")?;
        offsets.lists.interpreters = runtime.saturating_add(u64::from(offsets.interpreters));
        // First of all, as types and functions cannot be read before the dynamic linker has prepared the module.
        let threads = started_threads(memory, version, &offsets.lists)?;
        let of_functions = check_functions(memory, symbols, version, &offsets)?;
        let getter = symbols("PyGILState_GetThisThreadState")
            .map(|address| disassembly::accesses(memory, address))
            .unwrap_or_default();
        let current = symbols("PyThreadState_Get").map(|address| disassembly::accesses(memory, address));
        check_runtime(version, &getter, &current.unwrap_or_default(), &offsets, runtime)?;
        let of_stacks = check_stacks(memory, version, &offsets, &threads, of_functions)?;
        let locator = find_locator(
            memory,
            version,
            &locator::candidates(memory, &getter, &offsets, runtime),
            &threads,
        )?;
        Ok(Self {
            version,
            source: source(&offsets, version_source, of_functions, of_stacks),
            locator,
            state_frame: offsets.state_frame,
            c_frame: offsets.c_frame,
            previous_c_frame: offsets.previous_c_frame,
            frame: offsets.frame,
            code: offsets.code,
            object: offsets.object,
            lists: offsets.lists,
            gil: find_gil(memory, version, &offsets, runtime, &threads)?,
        })
    }
}

fn misfit(version: PythonVersion, what: &str) -> RuntimeProblem {
    RuntimeProblem::lasting(format!(
        "python {version}: unknown layout: {what} (a changed or unreleased build?): {NATIVE_ONLY}"
    ))
}

/// Offsets of this version, by the table or as published.
fn offsets(
    memory: &impl TargetMemory,
    runtime: u64,
    version: PythonVersion,
) -> Result<PythonOffsets, RuntimeProblem> {
    if version.minor >= 13 {
        if !matches!(version.minor, 13 | 14) {
            return Err(RuntimeProblem::lasting(format!(
                "python {version}: this version's layout is not known here (known: 3.8 to 3.14): {NATIVE_ONLY}"
            )));
        }
        return debug_offsets::offsets(memory, runtime, version.minor, version.is_free_threaded).ok_or_else(
            || misfit(version, "the offsets that the interpreter publishes are not in the known order"),
        );
    }
    tables::offsets(version.minor).ok_or_else(|| {
        RuntimeProblem::lasting(format!(
            "python {version}: this version's layout is not known here (known: 3.8 to 3.14): {NATIVE_ONLY}"
        ))
    })
}

/// Compares the offsets with types and functions; `Refuted` is an error.
fn check_functions(
    memory: &impl TargetMemory,
    symbols: &dyn Fn(&str) -> Option<u64>,
    version: PythonVersion,
    offsets: &PythonOffsets,
) -> Result<PythonVerdict, RuntimeProblem> {
    match confirm::members(memory, symbols, offsets) {
        PythonVerdict::Confirmed => {}
        // As of a process that is just ending.
        PythonVerdict::Silent => {
            return Err(RuntimeProblem::temporary(format!(
                "python {version}: unknown layout: `PyCode_Type` does not list the members of code objects: \
                 {NATIVE_ONLY} unless a later attempt succeeds"
            )));
        }
        PythonVerdict::Refuted => {
            return Err(misfit(version, "code objects have other offsets than expected"));
        }
    }
    match confirm::instructions(memory, symbols, offsets) {
        PythonVerdict::Refuted => {
            Err(misfit(version, "functions read frames at other offsets than expected"))
        }
        verdict => Ok(verdict),
    }
}

/// Compares the places in `_PyRuntime` with those that the interpreter's functions read: the key of thread states
/// (`getter`) and the state of the lock's holder (`current`).
fn check_runtime(
    version: PythonVersion,
    getter: &FunctionAccesses,
    current: &FunctionAccesses,
    offsets: &PythonOffsets,
    runtime: u64,
) -> Result<(), RuntimeProblem> {
    let key = locator::key_offset(getter, runtime, offsets.runtime_size);
    if offsets.key.zip(key).is_some_and(|(expected, read)| u64::from(expected) != read) {
        return Err(misfit(version, "the key of thread states is at another offset than expected"));
    }
    let distances = current.constants.iter().filter_map(|address| address.checked_sub(runtime));
    let read: Vec<u64> = distances.filter(|&distance| distance < offsets.runtime_size).collect();
    if offsets.current_state.is_some_and(|expected| !read.is_empty() && !read.contains(&u64::from(expected)))
    {
        return Err(misfit(version, "the current thread's state is at another offset than expected"));
    }
    Ok(())
}

/// Threads of the interpreter, which has started.
fn started_threads(
    memory: &impl TargetMemory,
    version: PythonVersion,
    lists: &PythonLists,
) -> Result<Vec<PythonThread>, RuntimeProblem> {
    let threads = threads(memory, lists);
    if threads.is_empty() {
        return Err(RuntimeProblem::temporary(format!(
            "python {version}: the interpreter has no threads yet: its frames are shown once it has started"
        )));
    }
    Ok(threads)
}

/// Compares the offsets with stacks; silence is allowed where the functions have confirmed them.
fn check_stacks(
    memory: &impl TargetMemory,
    version: PythonVersion,
    offsets: &PythonOffsets,
    threads: &[PythonThread],
    of_functions: PythonVerdict,
) -> Result<PythonVerdict, RuntimeProblem> {
    match (confirm::stacks(memory, offsets, threads), of_functions) {
        (PythonVerdict::Confirmed, _) => Ok(PythonVerdict::Confirmed),
        (PythonVerdict::Silent, PythonVerdict::Confirmed) => Ok(PythonVerdict::Silent),
        (PythonVerdict::Silent, _) => Err(RuntimeProblem::temporary(format!(
            "python {version}: no thread runs Python code, so the layout cannot be checked: its frames are shown \
             once one does"
        ))),
        (PythonVerdict::Refuted, _) => Err(RuntimeProblem::temporary(format!(
            "python {version}: unknown layout: no stack could be read to its root (a changed build, or stacks that \
             change too fast): {NATIVE_ONLY} unless a later attempt succeeds"
        ))),
    }
}

/// The place that leads from threads to their states.
fn find_locator(
    memory: &impl TargetMemory,
    version: PythonVersion,
    candidates: &[PythonLocator],
    threads: &[PythonThread],
) -> Result<PythonLocator, RuntimeProblem> {
    let leads_to = |locator: &PythonLocator, thread: &&PythonThread| {
        thread.thread_pointer != 0
            && locator.thread_state(memory, thread.thread_pointer) == Some(thread.state)
    };
    let found =
        candidates.iter().find(|locator| threads.iter().take(256).any(|thread| leads_to(locator, &thread)));
    found.copied().ok_or_else(|| {
        RuntimeProblem::temporary(format!(
            "python {version}: the place of thread states was not found (a C library other than glibc, or more than \
             32 pthread keys): {NATIVE_ONLY}"
        ))
    })
}

/// Where to read who holds the lock of the main interpreter, the last in the list.
fn find_gil(
    memory: &impl TargetMemory,
    version: PythonVersion,
    offsets: &PythonOffsets,
    runtime: u64,
    threads: &[PythonThread],
) -> Result<PythonGil, RuntimeProblem> {
    if let Some(offset) = offsets.current_state {
        return Ok(PythonGil::Current { state: runtime.saturating_add(u64::from(offset)) });
    }
    let Some((pointer, holder, locked)) = offsets.lock else { return Ok(PythonGil::Absent) };
    let lock = || {
        let lock = memory.u64(field(threads.last()?.interpreter, pointer)?).filter(|&lock| lock != 0)?;
        let (holder, locked) = (field(lock, holder)?, field(lock, locked)?);
        // Other numbers are in a lock that is not ready yet.
        (memory.u32(locked)? <= 1).then_some(PythonGil::Lock { holder, locked })
    };
    lock().ok_or_else(|| {
        RuntimeProblem::temporary(format!(
            "python {version}: the interpreter lock is not ready: frames are shown once the interpreter has started"
        ))
    })
}

/// Sentence of where the offsets come from and what confirmed them.
fn source(
    offsets: &PythonOffsets,
    version_source: &str,
    of_functions: PythonVerdict,
    of_stacks: PythonVerdict,
) -> String {
    let mut witnesses = vec!["its types"];
    witnesses.extend((of_functions == PythonVerdict::Confirmed).then_some("its functions"));
    witnesses.extend((of_stacks == PythonVerdict::Confirmed).then_some("its stacks"));
    format!("{} (version by {version_source}), confirmed by {}", offsets.source, witnesses.join(", "))
}
