//! Which language's machine has generated code, by the libraries and the program of its process, and what gives such
//! code names and whole stacks.

use super::name::module_file;
use crate::profile::{ModuleKind, Outcome, Profile, StackId};
use crate::report::model::group::Group;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;

/// A machine that generates code while a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum Runtime {
    Java,
    Node,
    DotNet,
    /// CPython with its `-X perf` or its compiler.
    Python,
    Ruby,
    Php,
    Erlang,
    /// LuaJIT, which writes no names.
    LuaJit,
    /// The interpreter of Lua.
    Lua,
}

impl Runtime {
    const ALL: [Runtime; 9] = [
        Runtime::Java,
        Runtime::Node,
        Runtime::DotNet,
        Runtime::Python,
        Runtime::Ruby,
        Runtime::Php,
        Runtime::Erlang,
        Runtime::LuaJit,
        Runtime::Lua,
    ];

    /// Beginnings of the file names that tell it: of its library, or of its program.
    fn files(self) -> &'static [&'static str] {
        match self {
            Runtime::Java => &["libjvm.so", "java"],
            Runtime::Node => &["node", "libnode.so"],
            Runtime::DotNet => &["libcoreclr.so", "dotnet"],
            Runtime::Python => &["libpython3", "python3"],
            Runtime::Ruby => &["libruby", "ruby"],
            Runtime::Php => &["php", "libphp"],
            Runtime::Erlang => &["beam.smp"],
            Runtime::LuaJit => &["luajit", "libluajit"],
            Runtime::Lua => &["lua", "liblua"],
        }
    }

    /// Whether the file or process called `name` is its.
    fn has_file(self, name: &str) -> bool {
        self.files().iter().any(|start| {
            name.strip_prefix(start).is_some_and(|rest| !rest.starts_with(|c: char| c.is_ascii_alphabetic()))
        })
    }

    /// Way to make the runtime write names for its code; `None` if there is none.
    pub(crate) fn cure_for_names(self) -> Option<&'static str> {
        match self {
            Runtime::Java => Some(
                "java: run `jcmd PID Compiler.perfmap` while it is recorded (JDK 17 and later), or start it with \
                 -XX:+DumpPerfMapAtExit",
            ),
            Runtime::Node => Some("node: start it with --perf-basic-prof"),
            Runtime::DotNet => Some(".NET: start it with DOTNET_PerfMapEnabled=1 in the environment"),
            Runtime::Python => Some(
                "python: start it with -X perf, or PYTHONPERFSUPPORT=1 in the environment (3.12 and later)",
            ),
            Runtime::Ruby => Some("ruby: start it with --yjit-perf"),
            Runtime::Php => Some("php: set opcache.jit_debug=16"),
            Runtime::Erlang => Some("erlang: start it with +JPperf true"),
            Runtime::LuaJit | Runtime::Lua => None,
        }
    }

    /// What is shown of a language whose functions `prof` does not read itself, and what a user can do; `None` for the
    /// others.
    pub(crate) fn unread(self) -> Option<(&'static str, &'static str)> {
        match self {
            Runtime::DotNet => Some((
                ".NET: methods have names only by a perf map, which it writes on request",
                "start it with DOTNET_PerfMapEnabled=1 in its environment",
            )),
            Runtime::Erlang => Some((
                "erlang: functions have names and whole stacks only by a perf map, which it writes on request",
                "start it with +JPperf true",
            )),
            Runtime::LuaJit => Some((
                "luajit: functions of Lua have no names, generated code is [jit]",
                "luajit -jp profiles functions of Lua",
            )),
            Runtime::Lua => Some((
                "lua: functions of Lua have no names, the interpreter's own have",
                "LuaJIT's -jp, or debug.sethook in the program, profiles functions of Lua",
            )),
            Runtime::Java | Runtime::Node | Runtime::Python | Runtime::Ruby | Runtime::Php => None,
        }
    }

    /// Way to make the runtime's code keep frame pointers, by which stacks are walked through it; `None` if there is none.
    pub(crate) fn cure_for_stacks(self) -> Option<&'static str> {
        match self {
            Runtime::Java => Some("java: start it with -XX:+PreserveFramePointer"),
            Runtime::Erlang => Some("erlang: start it with +JPperf true"),
            _ => None,
        }
    }

    /// The runtime that is known by the names of files, or of processes.
    pub(crate) fn of_files<'a>(names: impl Iterator<Item = &'a str> + Clone) -> Option<Self> {
        Runtime::ALL.into_iter().find(|runtime| names.clone().any(|name| runtime.has_file(name)))
    }
}

/// The runtimes of generated code that harms a profile.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Runtimes {
    /// Runtime of most frames without a name.
    pub(crate) unnamed: Option<Runtime>,
    /// Runtime of most stacks that end in generated code.
    pub(crate) cut: Option<Runtime>,
}

impl Runtimes {
    /// Finds the runtimes of `groups`.
    pub(crate) fn of(profile: &Profile, groups: &[Group]) -> Self {
        let mut unnamed: FxHashMap<u32, u64> = FxHashMap::default();
        let mut cut: FxHashMap<u32, u64> = FxHashMap::default();
        let mut seen: FxHashMap<StackId, bool> = FxHashMap::default();
        for group in groups {
            let Some(stack) = group.stack else { continue };
            let pid = profile.tables.task(group.task).pid;
            let is_unnamed = *seen.entry(stack).or_insert_with(|| has_unnamed_code(profile, stack));
            if is_unnamed {
                *unnamed.entry(pid).or_default() += group.amount.samples;
            }
            if ends_in_generated_code(profile, group) {
                *cut.entry(pid).or_default() += group.amount.samples;
            }
        }
        let most = |counts: &FxHashMap<u32, u64>| {
            counts.iter().max_by_key(|(pid, count)| (**count, Reverse(**pid))).map(|(pid, _)| *pid)
        };
        let of_most = |counts| most(counts).and_then(|pid| runtime_of(profile, groups, pid));
        Runtimes { unnamed: of_most(&unnamed), cut: of_most(&cut) }
    }
}

fn has_unnamed_code(profile: &Profile, stack: StackId) -> bool {
    profile.tables.stack_frames(stack).any(|frame| {
        let row = profile.tables.frame(frame);
        profile.tables.module(row.module).kind == ModuleKind::Jit
            && !row.flags.is_interpreter
            && !profile.symbols.is_named(frame)
    })
}

fn ends_in_generated_code(profile: &Profile, group: &Group) -> bool {
    if group.outcome == Outcome::JitEnd {
        return true;
    }
    let is_cut = group.outcome.is_cut();
    let last = group.stack.and_then(|stack| profile.tables.stack_frames(stack).last()).filter(|_| is_cut);
    last.is_some_and(|frame| {
        profile.tables.module(profile.tables.frame(frame).module).kind == ModuleKind::Jit
    })
}

/// The machine of a process: by the files of all its code that was seen, else by the name of the process.
fn runtime_of(profile: &Profile, groups: &[Group], pid: u32) -> Option<Runtime> {
    let own = || groups.iter().filter(|group| profile.tables.task(group.task).pid == pid);
    let mut modules = FxHashSet::default();
    let mut stacks = FxHashSet::default();
    for group in own() {
        let mut at = group.stack;
        while let Some(id) = at.filter(|id| stacks.insert(*id)) {
            let row = profile.tables.stack(id);
            modules.insert(profile.tables.frame(row.frame).module);
            at = row.parent;
        }
    }
    let files: Vec<&str> = (modules.into_iter())
        .map(|module| module_file(profile.tables.string(profile.tables.module(module).path)))
        .collect();
    let names = own().map(|group| profile.tables.string(profile.tables.task(group.task).process));
    Runtime::of_files(files.into_iter()).or_else(|| Runtime::of_files(names))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_runtime_is_known_by_its_files() {
        let of = |names: &[&str]| Runtime::of_files(names.iter().copied());
        assert_eq!(of(&["libc.so.6", "libjvm.so"]), Some(Runtime::Java));
        assert_eq!(of(&["node"]), Some(Runtime::Node));
        assert_eq!(of(&["libnode.so.115"]), Some(Runtime::Node));
        assert_eq!(of(&["python3.12"]), Some(Runtime::Python));
        assert_eq!(of(&["libpython3.13.so.1.0"]), Some(Runtime::Python));
        assert_eq!(of(&["libcoreclr.so", "libc.so.6"]), Some(Runtime::DotNet));
        assert_eq!(of(&["beam.smp"]), Some(Runtime::Erlang));
        assert_eq!(of(&["libluajit-5.1.so.2"]), Some(Runtime::LuaJit));
        assert_eq!(of(&["redis-server", "liblua5.1.so.0"]), Some(Runtime::Lua));
        assert_eq!(of(&["javascript-thing", "nodename", "rubyist"]), None);
    }
}
