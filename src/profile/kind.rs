//! Kinds of events, as data: what one is called and what its weights are, wherever it is shown. A kind is stored with
//! its event; nothing about it is guessed from samples.

use crate::base::fnv::fnv1a;
use crate::base::units::Unit;
use std::borrow::Cow;

/// A kind of event by a hash of its name: a profile has few kinds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct KindKey(u64);

impl KindKey {
    /// The key of the kind of this name.
    pub(crate) const fn of(name: &str) -> Self {
        KindKey(fnv1a(name))
    }
}

/// Kind of event.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct EventKind {
    /// Stable name, by which command lines, files and other programs know it: `on-cpu`, `page-faults`.
    pub(crate) name: Cow<'static, str>,
    /// Name of the weights in titles: `on-CPU`, `page faults`.
    pub(crate) title: Cow<'static, str>,
    /// The word for one observation: `sample`, `wait`.
    pub(crate) noun: Cow<'static, str>,
    /// Unit of the weights.
    pub(crate) unit: Unit,
    /// Whether observations are intervals, each of which has an end, a reason and perhaps a waker ([`super::Wait`]).
    pub(crate) has_duration: bool,
    /// Whether a counter of the processor takes the samples: their addresses are some instructions past the cause.
    pub(crate) skids: bool,
}

impl EventKind {
    /// Name of [`EventKind::ON_CPU`].
    pub(crate) const ON_CPU_NAME: &str = "on-cpu";
    /// Name of [`EventKind::OFF_CPU`].
    pub(crate) const OFF_CPU_NAME: &str = "off-cpu";
    /// Name of [`EventKind::LOCK`].
    pub(crate) const LOCK_NAME: &str = "lock";
    /// Name of [`EventKind::HEAP`].
    pub(crate) const HEAP_NAME: &str = "heap";
    /// Name of [`EventKind::SYSTEM_CALLS`].
    pub(crate) const SYSTEM_CALLS_NAME: &str = "syscalls";
    /// Name of [`EventKind::GOROUTINES`].
    pub(crate) const GOROUTINES_NAME: &str = "goroutines";
    /// Name of [`EventKind::GOROUTINE_WAITS`].
    pub(crate) const GOROUTINE_WAITS_NAME: &str = "goroutine-waits";
    /// Name of [`EventKind::GOROUTINE_HOLDERS`].
    pub(crate) const GOROUTINE_HOLDERS_NAME: &str = "goroutine-holders";

    /// The time that threads run, by samples.
    pub const ON_CPU: Self = Self {
        name: Cow::Borrowed(Self::ON_CPU_NAME),
        title: Cow::Borrowed("on-CPU"),
        noun: Cow::Borrowed("sample"),
        unit: Unit::Nanoseconds,
        has_duration: false,
        skids: false,
    };
    /// The time that threads do not run, by waits.
    pub const OFF_CPU: Self = Self {
        name: Cow::Borrowed(Self::OFF_CPU_NAME),
        title: Cow::Borrowed("off-CPU"),
        noun: Cow::Borrowed("wait"),
        unit: Unit::Nanoseconds,
        has_duration: true,
        skids: false,
    };

    /// The time that threads wait in futexes, where no other waits are recorded.
    pub(crate) const LOCK: Self = Self {
        name: Cow::Borrowed(Self::LOCK_NAME),
        title: Cow::Borrowed("waits for locks"),
        noun: Cow::Borrowed("wait"),
        unit: Unit::Nanoseconds,
        has_duration: true,
        skids: false,
    };

    /// The time that goroutines of Go programs are in each state, by snapshots.
    pub(crate) const GOROUTINES: Self = Self {
        name: Cow::Borrowed(Self::GOROUTINES_NAME),
        title: Cow::Borrowed("goroutines"),
        noun: Cow::Borrowed("goroutine"),
        unit: Unit::Nanoseconds,
        has_duration: false,
        skids: false,
    };

    /// The time that goroutines of Go programs wait for each other, where they wait, by what the runtime counts.
    pub(crate) const GOROUTINE_WAITS: Self = Self {
        name: Cow::Borrowed(Self::GOROUTINE_WAITS_NAME),
        title: Cow::Borrowed("waits of goroutines"),
        noun: Cow::Borrowed("wait"),
        unit: Unit::Nanoseconds,
        has_duration: true,
        skids: false,
    };

    /// The time that goroutines wait for locks, where these are let go, by what the runtime counts.
    pub(crate) const GOROUTINE_HOLDERS: Self = Self {
        name: Cow::Borrowed(Self::GOROUTINE_HOLDERS_NAME),
        title: Cow::Borrowed("waits for goroutines that hold locks"),
        noun: Cow::Borrowed("wait"),
        unit: Unit::Nanoseconds,
        has_duration: false,
        skids: false,
    };

    /// The time that system calls take, from their beginning to their end, by calls.
    pub(crate) const SYSTEM_CALLS: Self = Self {
        name: Cow::Borrowed(Self::SYSTEM_CALLS_NAME),
        title: Cow::Borrowed("in system calls"),
        noun: Cow::Borrowed("call"),
        unit: Unit::Nanoseconds,
        has_duration: false,
        skids: false,
    };

    /// Memory that functions of an allocator have given, by sampled blocks.
    pub(crate) const HEAP: Self = Self {
        name: Cow::Borrowed(Self::HEAP_NAME),
        title: Cow::Borrowed("heap"),
        noun: Cow::Borrowed("block"),
        unit: Unit::Bytes,
        has_duration: false,
        skids: false,
    };

    /// Blocks that have been live for a while, in a recording that goes on: only its file has them. Once it has ended,
    /// [`EventKind::HEAP`] has all.
    pub(crate) const HEAP_SO_FAR: Self = Self { name: Cow::Borrowed("heap-so-far"), ..Self::HEAP };

    /// A kind whose weights are numbers of something that happens, of which `title` is the plural: `page faults`.
    pub fn counted(name: impl Into<Cow<'static, str>>, title: impl Into<Cow<'static, str>>) -> Self {
        let noun = Cow::Borrowed("sample");
        Self {
            name: name.into(),
            title: title.into(),
            noun,
            unit: Unit::Count,
            has_duration: false,
            skids: false,
        }
    }

    /// The kind of this name that every version knows, whatever a file says of it: others rely on its rows.
    pub(crate) fn known(name: &str) -> Option<Self> {
        [
            Self::ON_CPU,
            Self::OFF_CPU,
            Self::LOCK,
            Self::HEAP,
            Self::GOROUTINES,
            Self::GOROUTINE_WAITS,
            Self::GOROUTINE_HOLDERS,
            Self::SYSTEM_CALLS,
        ]
        .into_iter()
        .find(|kind| kind.name == name)
    }

    /// Name in `-e` of `prof record`.
    pub(crate) fn option(&self) -> &str {
        match &*self.name {
            Self::ON_CPU_NAME => "cpu",
            Self::OFF_CPU_NAME => "off",
            name => name,
        }
    }

    /// Whether it is of goroutines, which are no threads.
    pub(crate) fn is_of_goroutines(&self) -> bool {
        [Self::GOROUTINES, Self::GOROUTINE_WAITS, Self::GOROUTINE_HOLDERS].iter().any(|kind| self.is(kind))
    }

    /// Whether it is of a tracepoint of the kernel: its name is as in `-e`.
    pub(crate) fn is_tracepoint(&self) -> bool {
        self.name.starts_with("tracepoint:")
    }

    /// Whether a notice is about this probe: it begins with its name.
    pub(crate) fn is_subject_of(&self, notice: &str) -> bool {
        let is_probe = ["uprobe:", "usdt:", "tracepoint:"].iter().any(|form| self.name.starts_with(form));
        let rest = notice.strip_prefix(&*self.name).filter(|_| is_probe);
        rest.is_some_and(|rest| rest.starts_with(": ") || rest.starts_with(" is "))
    }

    /// The kind by its name.
    pub(crate) fn key(&self) -> KindKey {
        KindKey::of(&self.name)
    }

    /// Whether it is `other`, by its name.
    pub(crate) fn is(&self, other: &EventKind) -> bool {
        self.name == other.name
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn notices_on_a_probe_begin_with_its_name() {
        let probe = EventKind::counted("uprobe:app:f", "hits of f");
        assert!(
            probe.is_subject_of("uprobe:app:f: 7 hits") && probe.is_subject_of("uprobe:app:f is at +0x4")
        );
        assert!(
            !probe.is_subject_of("uprobe:app:f/arg1: 7 hits") && !probe.is_subject_of("uprobe:app:fg: 7")
        );
        assert!(!EventKind::ON_CPU.is_subject_of("on-cpu: something"));
    }
}
