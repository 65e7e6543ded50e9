//! Functions of a V8 process: read once, and never believed where the kernel side has seen another one at their address.

use crate::bpf::number;
use crate::record::interpreters::function_names::{FunctionNames, FunctionNumber, RunFunction};
use crate::runtimes::TargetMemory;
use crate::runtimes::v8::{V8Function, V8Layout};
use rustc_hash::FxHashMap;

/// Functions that are remembered of a process.
const MOST_FUNCTIONS: usize = 100_000;
/// A function is looked at again when it was last looked at this long ago, ns.
const LOOK_INTERVAL_NS: u64 = 1_000_000_000;
/// Name of functions without one.
const ANONYMOUS: &str = "<anonymous>";
/// Name of the code of a script that is in no function.
const SCRIPT: &str = "<module>";

/// A function as it was when it was read.
#[derive(Debug, Clone)]
pub(super) struct V8KnownFunction {
    pub(super) number: FunctionNumber,
    pub(super) function: V8Function,
    looked_ns: u64,
}

/// The functions of one process, by the address of what closures share and by the check of that.
#[derive(Debug, Default, Clone)]
pub(super) struct V8Functions(FxHashMap<(u64, u32), V8KnownFunction>);

impl V8Functions {
    /// The function described at `shared` with this check; `None` if another one is there by now.
    pub(super) fn get(
        &mut self,
        memory: &impl TargetMemory,
        layout: &V8Layout,
        (shared, check): (u64, u32),
        time_ns: u64,
        names: &mut FunctionNames,
    ) -> Option<&V8KnownFunction> {
        let key = (shared, check);
        let is_fresh =
            |known: &mut V8KnownFunction| time_ns.saturating_sub(known.looked_ns) < LOOK_INTERVAL_NS;
        if self.0.get_mut(&key).is_some_and(is_fresh) {
            return self.0.get(&key);
        }
        // What is there now counts if it is what the kernel side has seen. Else the function has moved or is gone, and what
        // was known of it is still right.
        let now = V8Function::read(memory, layout, shared).filter(|now| v8_check(now.identity) == check);
        if let Some(function) = now {
            if self.0.len() >= MOST_FUNCTIONS {
                self.0.clear();
            }
            let number = names.number(named(&function));
            self.0.insert(key, V8KnownFunction { number, function, looked_ns: time_ns });
        } else if let Some(known) = self.0.get_mut(&key) {
            known.looked_ns = time_ns;
        }
        self.0.get(&key)
    }

    /// The function described at `shared` now, whichever it is.
    pub(super) fn now(
        &mut self,
        memory: &impl TargetMemory,
        layout: &V8Layout,
        shared: u64,
        time_ns: u64,
        names: &mut FunctionNames,
    ) -> Option<&V8KnownFunction> {
        let check = v8_check(layout.frame.identity(memory, shared)?);
        self.get(memory, layout, (shared, check), time_ns, names)
    }
}

/// The check of a function, as the kernel side computes it of its identity.
pub(super) fn v8_check(identity: u64) -> u32 {
    match (identity.wrapping_mul(number::PROF_V8_CHECK_FACTOR) >> 32) as u32 {
        0 => 1,
        check => check,
    }
}

/// A function as reports name it.
pub(super) fn named(function: &V8Function) -> RunFunction {
    let name = match (function.name.as_str(), function.line, function.column) {
        ("", Some(1), Some(1)) => SCRIPT,
        ("", ..) => ANONYMOUS,
        (name, ..) => name,
    };
    let file = function.file.strip_prefix("file://").unwrap_or(&function.file);
    RunFunction {
        name: name.to_owned(),
        file: file.to_owned(),
        first_line: function.line.unwrap_or(0),
        is_inlined: false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_check_is_zero_and_neighbours_differ() {
        assert_eq!(v8_check(0), 1);
        let checks: std::collections::BTreeSet<u32> =
            (0..1000).map(|number| v8_check(number << 32)).collect();
        assert_eq!(checks.len(), 1000);
    }
}
