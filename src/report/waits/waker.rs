//! Who ended waits, by name: the function that a thread was in, an interrupt, or the thread alone.

use super::own_code::OwnCode;
use crate::base::units::{count, percent};
use crate::profile::{FrameSpace, ModuleKind, OUTSIDE, Profile, Reason, StackId, Waker, WakerKind};
use crate::report::model::label::{code_kind, module_text};
use crate::report::naming::code::Code;
use crate::report::naming::name::{self, module_file};
use crate::report::naming::style::NameStyle;
use rustc_hash::{FxHashMap, FxHashSet};
use std::borrow::Cow;
use std::cmp::Reverse;

/// One that ended some of the waits of a row.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct WokenBy {
    /// Kind of waker.
    pub(crate) kind: WakerKind,
    /// In a few words: its function, `[softirq]`, `[timer]`, `[irq]`, or its name: in brackets for a kernel thread, with
    /// `(exit)` for one whose end it was, with `(outside)` for one that the recorder's PID namespace does not have, with the process for one of whose code nothing is known. Foreign text.
    pub(crate) name: String,
    /// Name of the thread; empty for interrupts, and where threads of several names were in the function. Foreign text.
    pub(crate) thread: String,
    /// Function of the thread, where its stack is known. Foreign text.
    pub(crate) function: Option<String>,
    /// Share of the waits whose end is known, percent.
    pub(crate) share_percent: f64,
}

impl WokenBy {
    /// The name in the given style. Names of threads and interrupts are no names of functions: they stay as they are.
    pub(crate) fn name_in(&self, style: NameStyle) -> Cow<'_, str> {
        match self.function {
            Some(_) => name::in_style(&self.name, style),
            None => Cow::Borrowed(&self.name),
        }
    }
}

/// Place of a waking thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
enum WakerPlace {
    /// In the program.
    Program,
    /// In the kernel, called by a program of which nothing is known.
    SystemCall,
    /// In the kernel, at its end.
    Exit,
    /// In the kernel, of which it is a thread.
    KernelThread,
}

/// A function that a waking thread was in, and where that is.
type WakingFunction = (String, WakerPlace);

/// Name of waking threads, and whether the recorder's PID namespace does not have them.
type WakingName<'p> = (&'p str, bool);

/// The same, and whether they are of [`strangers`].
type WakingThread<'p> = (WakingName<'p>, bool);

/// Number of one thread's wake-ups in each function; `None` for those of which no stack is known.
type WakeUps = FxHashMap<Option<WakingFunction>, u64>;

/// Finds who ended the waits of one row, commonest first; `wakers` come with thousandths of how many. Only some threads'
/// stacks are taken when they wake others: these are taken for all that the thread woke.
pub(crate) fn woken_by(profile: &Profile, reason: Reason, wakers: &[(Waker, u64)]) -> Vec<WokenBy> {
    let mut interrupts: FxHashMap<(WakerKind, &str), u64> = FxHashMap::default();
    let mut threads: FxHashMap<WakingThread<'_>, WakeUps> = FxHashMap::default();
    let strangers = strangers(profile, wakers);
    let mut stranger_pids: FxHashMap<WakingName<'_>, FxHashSet<u32>> = FxHashMap::default();
    let mut all = 0u64;
    for (waker, count) in wakers {
        let add = |sum: &mut u64| *sum = sum.saturating_add(*count);
        match waker.kind {
            WakerKind::None | WakerKind::Unknown(_) => continue,
            WakerKind::SoftInterrupt => add(interrupts.entry((waker.kind, "[softirq]")).or_default()),
            WakerKind::Interrupt => {
                let is_timer = reason == Reason::Sleep || has_timer(profile, waker.stack);
                let name = if is_timer { "[timer]" } else { "[irq]" };
                add(interrupts.entry((waker.kind, name)).or_default());
            }
            WakerKind::Thread => {
                let row = waker.task.map(|task| profile.tables.task(task));
                let comm = row.map_or("", |row| profile.tables.string(row.comm));
                let comm = (comm, row.is_some_and(|row| profile.tables.string(row.process) == OUTSIDE));
                let is_stranger = row.is_some_and(|row| strangers.contains(&row.pid));
                if let Some(row) = row.filter(|_| is_stranger) {
                    stranger_pids.entry(comm).or_default().insert(row.pid);
                }
                let function = waker.stack.and_then(|stack| function(profile, stack));
                add(threads.entry((comm, is_stranger)).or_default().entry(function).or_default());
            }
        }
        add(&mut all);
    }
    let mut found: Vec<WokenBy> = (interrupts.into_iter())
        .map(|((kind, name), count)| WokenBy {
            kind,
            name: name.to_owned(),
            thread: String::new(),
            function: None,
            share_percent: percent(count, all),
        })
        .collect();
    for ((comm, is_stranger), functions) in threads {
        let pids = stranger_pids.get(&comm).filter(|_| is_stranger);
        found.extend(of_thread(comm, functions, all, pids));
    }
    by_function(found)
}

/// The same, one for each function, whatever the threads in it are called; commonest first.
fn by_function(mut found: Vec<WokenBy>) -> Vec<WokenBy> {
    // Threads in order, so that sums are the same in each run.
    found.sort_by(|a, b| (&a.name, &a.function, &a.thread).cmp(&(&b.name, &b.function, &b.thread)));
    found.dedup_by(|next, first| {
        let is_same = next.function.is_some()
            && (next.kind, &next.name, &next.function) == (first.kind, &first.name, &first.function);
        if is_same {
            first.share_percent += next.share_percent;
            if first.thread != next.thread {
                first.thread.clear();
            }
        }
        is_same
    });
    found.sort_by(|a, b| b.share_percent.total_cmp(&a.share_percent));
    found
}

/// The functions of a thread with their shares; those wake-ups of which no stack is known are spread over them.
/// Strangers are distinguished by their processes.
fn of_thread(
    (comm, is_outside): WakingName<'_>,
    functions: WakeUps,
    all: u64,
    strangers: Option<&FxHashSet<u32>>,
) -> Vec<WokenBy> {
    let share: f64 = functions.values().map(|count| percent(*count, all)).sum();
    let known: u64 = functions.iter().filter(|(name, _)| name.is_some()).map(|(_, count)| *count).sum();
    let woken_by = |name: String, function: Option<String>, share_percent| WokenBy {
        kind: WakerKind::Thread,
        name,
        thread: comm.to_owned(),
        function,
        share_percent,
    };
    if known == 0 {
        let name = match strangers.map(|pids| (pids.len() as u64, pids.iter().next())) {
            _ if is_outside => format!("{comm} (outside)"),
            Some((1, Some(pid))) => format!("{comm} ({pid})"),
            Some((pids, _)) => {
                format!("{comm} ({} processes)", count(pids))
            }
            None => comm.to_owned(),
        };
        return vec![woken_by(name, None, share)];
    }
    let mut found: Vec<(WakingFunction, u64)> =
        functions.into_iter().filter_map(|(function, count)| Some((function?, count))).collect();
    found.sort_by(|a, b| (Reverse(a.1), &a.0).cmp(&(Reverse(b.1), &b.0)));
    (found.into_iter())
        .map(|((function, place), count)| {
            let name = match place {
                WakerPlace::Program => function.clone(),
                WakerPlace::SystemCall if is_outside => format!("{comm} (outside)"),
                WakerPlace::SystemCall => comm.to_owned(),
                WakerPlace::Exit if is_outside => format!("{comm} (exit, outside)"),
                WakerPlace::Exit => format!("{comm} (exit)"),
                WakerPlace::KernelThread => kernel_thread(comm),
            };
            woken_by(name, Some(function), share * percent(count, known) / 100.0)
        })
        .collect()
}

/// `[jbd2]` of `jbd2/sda1-8`: the part after is a number of one of many.
fn kernel_thread(comm: &str) -> String {
    format!("[{}]", comm.split(['/', ':']).next().unwrap_or(comm))
}

/// The processes of wakers whose stacks say nothing, since their code is not known: they were there before the recording
/// and are no part of it.
fn strangers(profile: &Profile, wakers: &[(Waker, u64)]) -> FxHashSet<u32> {
    let threads = wakers.iter().filter(|(waker, _)| waker.kind == WakerKind::Thread);
    let unknown = threads.filter(|(waker, _)| {
        waker.stack.is_some_and(|stack| {
            let mut frames = profile.tables.stack_frames(stack);
            frames.any(|frame| profile.tables.frame(frame).flags.space == FrameSpace::User)
                && function(profile, stack).is_none()
        })
    });
    unknown.filter_map(|(waker, _)| Some(profile.tables.task(waker.task?).pid)).collect()
}

/// Kernel functions by which programs enter it.
const ENTRIES: [&str; 4] = ["do_syscall_64", "entry_SYSCALL_64_after_hwframe", "el0_svc", "invoke_syscall"];
/// The kernel function in which threads end.
const EXIT: &str = "do_exit";

/// The function that a waking thread was in, the program's own if there is one; and where that is. `None`
/// for a stack of code that nothing is known of: an address alone tells no one anything.
fn function(profile: &Profile, stack: StackId) -> Option<WakingFunction> {
    let own = OwnCode::of(profile, stack);
    let (mut innermost, mut says_more) = (None, None);
    let mut in_kernel = None;
    let mut is_user = false;
    let mut place = WakerPlace::KernelThread;
    for frame in profile.tables.stack_frames(stack) {
        let row = profile.tables.frame(frame);
        let module = profile.tables.module(row.module);
        let path = module_text(profile, module.path, module.kind);
        let kind = code_kind(module.kind, &path, row.flags.space);
        for location in profile.symbols.locations(frame) {
            let name = profile.tables.string(profile.symbols.function(location.function).name);
            if name.is_empty() {
                continue;
            }
            if row.flags.space == FrameSpace::Kernel {
                in_kernel.get_or_insert_with(|| name.to_owned());
                if name == EXIT {
                    place = WakerPlace::Exit;
                } else if place == WakerPlace::KernelThread && ENTRIES.contains(&name) {
                    place = WakerPlace::SystemCall;
                }
                continue;
            }
            let file = profile.tables.string(location.file);
            if own.has(Code { kind, module: &path, name, file, is_inlined: location.is_inlined }) {
                return Some((name.to_owned(), WakerPlace::Program));
            }
            if own.says_more(kind) {
                says_more.get_or_insert_with(|| name.to_owned());
            }
            innermost.get_or_insert_with(|| name.to_owned());
        }
        is_user |= row.flags.space == FrameSpace::User;
        if row.flags.space == FrameSpace::User && module.kind != ModuleKind::Unknown {
            innermost.get_or_insert_with(|| format!("{}+{:#x}", module_file(&path), row.lookup_address()));
        }
    }
    let in_kernel = in_kernel.filter(|_| !is_user);
    says_more.or(innermost).map(|name| (name, WakerPlace::Program)).or(in_kernel.map(|name| (name, place)))
}

fn has_timer(profile: &Profile, stack: Option<StackId>) -> bool {
    stack.is_some_and(|stack| {
        profile.tables.stack_frames(stack).any(|frame| {
            (profile.symbols.locations(frame).iter()).any(|location| {
                let name = profile.tables.string(profile.symbols.function(location.function).name);
                name.contains("hrtimer") || name.contains("run_timer")
            })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::tests::fixture::Build;
    use crate::report::{CommonOptions, Metric, SortKey, WaitTable};

    #[test]
    fn the_name_of_a_thread_is_never_shortened() {
        let waker = |name: &str, function: Option<&str>| WokenBy {
            kind: WakerKind::Thread,
            name: name.to_owned(),
            thread: String::new(),
            function: function.map(str::to_owned),
            share_percent: 100.0,
        };
        assert_eq!(waker("[kworker/0:1]", None).name_in(NameStyle::Short), "[kworker/0:1]");
        assert_eq!(waker("kworker/u8:2 (exit)", None).name_in(NameStyle::Short), "kworker/u8:2 (exit)");
        let function = "a::b::Queue<int>::push(int)";
        assert_eq!(waker(function, Some(function)).name_in(NameStyle::Short), "Queue<..>::push");
        assert_eq!(waker(function, Some(function)).name_in(NameStyle::Full), function);
    }

    #[test]
    fn a_waker_of_unknown_code_is_called_by_its_thread_and_process() {
        let mut build = Build::new();
        let waiter = build.task(1, 1, "python3", "python3");
        let sibling = build.task(1, 2, "python3", "python3");
        let stranger = build.task(77, 77, "python3", "python3");
        let unknown = build.stack(&["[unknown]:+0x7f001000", "[unknown]:+0x7f002000"]);
        let write = build.stack(&["/usr/bin/python3:os_write"]);
        for number in 0..10 {
            // Stacks of wakers are taken for some only.
            let (task, stack) = match number {
                0..3 => (stranger, unknown),
                3..8 => (stranger, None),
                8 => (sibling, write),
                _ => (sibling, None),
            };
            let waker = Waker { kind: WakerKind::Thread, task: Some(task), stack };
            build.thinned_wait(
                waiter,
                Reason::Pipe,
                [number, 1_000, 1_000],
                &["/usr/bin/python3:os_read"],
                waker,
            );
        }
        let recording = build.finish();
        let options = CommonOptions { metric: Some(Metric::OFF_CPU), ..CommonOptions::default() };
        let table = WaitTable::new(&recording.select(&options).unwrap(), SortKey::SelfWeight);
        let woken: Vec<_> = (table.rows[0].woken_by.iter())
            .map(|by| (by.name.as_str(), by.function.as_deref(), by.share_percent.round()))
            .collect();
        assert_eq!(woken, [("python3 (77)", None, 80.0), ("os_write", Some("os_write"), 20.0)]);
    }

    #[test]
    fn a_waker_outside_of_the_namespace_has_a_name_and_no_number() {
        let mut build = Build::new();
        let waiter = build.task(1, 1, "reader", "reader");
        let [outside, end, flusher] = [(0, "sshd"), (1, "child"), (2, "jbd2/sda1-8")]
            .map(|(generation, name)| build.next_task(0, 0, generation, name, OUTSIDE));
        let inside = build.task(7, 7, "sshd", "sshd");
        let write = build.stack(&["[kernel]:do_syscall_64", "[kernel]:pipe_write"]);
        let exit = build.stack(&["[kernel]:do_syscall_64", "[kernel]:do_exit"]);
        let commit = build.stack(&["[kernel]:kthread", "[kernel]:kjournald2"]);
        let wakers = [(outside, write), (outside, None), (inside, write), (end, exit), (flusher, commit)];
        for (number, (task, stack)) in (0..).zip(wakers) {
            let waker = Waker { kind: WakerKind::Thread, task: Some(task), stack };
            build.thinned_wait(
                waiter,
                Reason::Pipe,
                [number, 1_000, 1_000],
                &["/bin/reader:read_all"],
                waker,
            );
        }
        let recording = build.finish();
        let options = CommonOptions { metric: Some(Metric::OFF_CPU), ..CommonOptions::default() };
        let table = WaitTable::new(&recording.select(&options).unwrap(), SortKey::SelfWeight);
        let mut woken: Vec<_> =
            table.rows[0].woken_by.iter().map(|by| (by.name.as_str(), by.share_percent.round())).collect();
        woken.sort_by_key(|by| by.0);
        let expected =
            [("[jbd2]", 20.0), ("child (exit, outside)", 20.0), ("sshd", 20.0), ("sshd (outside)", 40.0)];
        assert_eq!(woken, expected);
    }

    #[test]
    fn a_function_has_one_share_whatever_its_threads_are_called() {
        let mut build = Build::new();
        let waiter = build.task(1, 1, "pool", "pool");
        let frequent = build.stack(&["/usr/bin/pool:worker", "/usr/bin/pool:wake_it"]);
        let rare = build.stack(&["/usr/bin/pool:worker", "/usr/bin/pool:rarely"]);
        let end = build.stack(&["[kernel]:do_syscall_64", "[kernel]:do_exit"]);
        let write = build.stack(&["[kernel]:do_syscall_64", "[kernel]:pipe_write"]);
        let commit = build.stack(&["[kernel]:kthread", "[kernel]:kjournald2"]);
        for number in 0..20u32 {
            let (name, stack) = match number {
                0..14 => (format!("conn-{number}"), frequent),
                14..16 => ("rare".to_owned(), rare),
                16 | 17 => ("child".to_owned(), end),
                18 => ("sh".to_owned(), write),
                _ => ("jbd2/sda1-8".to_owned(), commit),
            };
            let task = build.task(1, 2 + number, &name, "pool");
            let waker = Waker { kind: WakerKind::Thread, task: Some(task), stack };
            let time = [number.into(), 1_000, 1_000];
            build.thinned_wait(waiter, Reason::Pipe, time, &["/usr/bin/pool:wait_it"], waker);
        }
        let recording = build.finish();
        let options = CommonOptions { metric: Some(Metric::OFF_CPU), ..CommonOptions::default() };
        let table = WaitTable::new(&recording.select(&options).unwrap(), SortKey::SelfWeight);
        let mut woken: Vec<_> = (table.rows[0].woken_by.iter())
            .map(|by| (by.share_percent.round(), by.name.as_str(), by.thread.as_str()))
            .collect();
        woken[1..3].sort_by_key(|by| by.1);
        woken[3..].sort_by_key(|by| by.1);
        assert_eq!(
            woken,
            [
                (70.0, "wake_it", ""),
                (10.0, "child (exit)", "child"),
                (10.0, "rarely", "rare"),
                (5.0, "[jbd2]", "jbd2/sda1-8"),
                (5.0, "sh", "sh"),
            ]
        );
    }

    #[test]
    fn many_such_wakers_of_one_name_are_one() {
        let mut build = Build::new();
        let waiter = build.task(1, 1, "reader", "reader");
        let unknown = build.stack(&["[unknown]:+0x7f001000", "[kernel]:pipe_write"]);
        for number in 0..3 {
            let task = build.task(70 + number, 70 + number, "sh", "sh");
            let waker = Waker { kind: WakerKind::Thread, task: Some(task), stack: unknown };
            let time = [number.into(), 1_000, 1_000];
            build.thinned_wait(waiter, Reason::Pipe, time, &["/usr/bin/reader:read_all"], waker);
        }
        let recording = build.finish();
        let options = CommonOptions { metric: Some(Metric::OFF_CPU), ..CommonOptions::default() };
        let table = WaitTable::new(&recording.select(&options).unwrap(), SortKey::SelfWeight);
        let woken: Vec<_> = table.rows[0].woken_by.iter().map(|by| by.name.as_str()).collect();
        assert_eq!(woken, ["sh (3 processes)"]);
    }
}
