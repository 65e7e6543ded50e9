//! Who ended waits, by name: the function that a thread was in, an interrupt, or the thread alone.

use super::code::{Code, is_own};
use super::label::{code_kind, module_text};
use super::name::module_file;
use crate::profile::{FrameSpace, Profile, Reason, StackId, Waker, WakerKind};
use crate::units::percent;
use rustc_hash::FxHashMap;
use std::cmp::Reverse;

/// One that ended some of the waits of a row.
#[derive(Debug, Clone, PartialEq)]
pub struct WokenBy {
    /// What it was.
    pub kind: WakerKind,
    /// In a few words: its function, `[softirq]`, `[timer]`, `[irq]`, or its name, in brackets for a kernel thread.
    /// Foreign text.
    pub name: String,
    /// Name of the thread; empty for interrupts. Foreign text.
    pub thread: String,
    /// Its function, where its stack is known. Foreign text.
    pub function: Option<String>,
    /// Share of the waits whose end is known, percent.
    pub share_percent: f64,
}

/// A function that a waking thread was in, and whether it is the kernel's.
type WakingFunction = (String, bool);

/// How often one thread's wake-ups were made in each function; `None` for those of which no stack is known.
type WakeUps = FxHashMap<Option<WakingFunction>, u64>;

/// Those that ended the waits of one row, with thousandths of how many; commonest first. Only some threads' stacks are
/// taken when they wake others: these stand for all that the thread woke.
pub(super) fn woken_by(profile: &Profile, reason: Reason, wakers: &[(Waker, u64)]) -> Vec<WokenBy> {
    let mut interrupts: FxHashMap<(WakerKind, &str), u64> = FxHashMap::default();
    let mut threads: FxHashMap<&str, WakeUps> = FxHashMap::default();
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
                let comm = waker.task.map_or("", |task| {
                    let tables = &profile.tables;
                    tables.string(tables.task(task).comm)
                });
                let function = waker.stack.and_then(|stack| function(profile, stack));
                add(threads.entry(comm).or_default().entry(function).or_default());
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
    for (comm, functions) in threads {
        found.extend(of_thread(comm, functions, all));
    }
    found.sort_by(|a, b| {
        (b.share_percent.total_cmp(&a.share_percent))
            .then_with(|| (&a.name, &a.thread).cmp(&(&b.name, &b.thread)))
    });
    found
}

/// The functions of a thread with their shares; those wake-ups of which no stack is known are spread over them.
fn of_thread(comm: &str, functions: WakeUps, all: u64) -> Vec<WokenBy> {
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
        return vec![woken_by(comm.to_owned(), None, share)];
    }
    let mut found: Vec<(WakingFunction, u64)> =
        functions.into_iter().filter_map(|(function, count)| Some((function?, count))).collect();
    found.sort_by(|a, b| (Reverse(a.1), &a.0).cmp(&(Reverse(b.1), &b.0)));
    (found.into_iter())
        .map(|((function, is_kernel), count)| {
            let name = if is_kernel { kernel_thread(comm) } else { function.clone() };
            woken_by(name, Some(function), share * percent(count, known) / 100.0)
        })
        .collect()
}

/// `[jbd2]` of `jbd2/sda1-8`: the part behind is a number of one of many.
fn kernel_thread(comm: &str) -> String {
    format!("[{}]", comm.split(['/', ':']).next().unwrap_or(comm))
}

/// The function that a waking thread was in, the program's own if there is one; and whether it is the kernel's.
fn function(profile: &Profile, stack: StackId) -> Option<WakingFunction> {
    let mut innermost = None;
    let mut in_kernel = None;
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
                continue;
            }
            let file = profile.tables.string(location.file);
            if is_own(Code { kind, module: &path, name, file, is_inlined: location.is_inlined }) {
                return Some((name.to_owned(), false));
            }
            innermost.get_or_insert_with(|| name.to_owned());
        }
        if row.flags.space == FrameSpace::User {
            innermost.get_or_insert_with(|| format!("{}+{:#x}", module_file(&path), row.lookup_address()));
        }
    }
    innermost.map(|name| (name, false)).or(in_kernel.map(|name| (name, true)))
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
