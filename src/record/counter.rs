//! What the kernel and the processor count, by the names that perf has for it: `page-faults`, `cycles:u`, `r01c2`.

use crate::base::failure::{Failure, status};
use crate::profile::EventKind;
use perf_event_open_sys::bindings;
use std::io;

/// Hint for a counter that is not there.
const EVENTS_OF_ALL: &str =
    "these software events work everywhere:  -e page-faults, context-switches, cpu-migrations";

/// A counter that is to be sampled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PerfCounter {
    /// Kind of the samples; the name is as it was asked for.
    pub(crate) kind: EventKind,
    /// `type` of perf_event_attr.
    pub(super) source: u32,
    /// `config` of perf_event_attr.
    pub(super) config: u64,
    /// Only what happens in user space counts (`:u`).
    pub(super) user_only: bool,
    /// Only what happens in the kernel counts (`:k`).
    pub(crate) kernel_only: bool,
    /// A sample each time that it has counted so far; `None`: as often as running threads are sampled.
    pub(crate) period: Option<u64>,
}

/// A row for each: names, what is counted, and where (perf_event_open(2)).
const KNOWN: &[(&[&str], &str, u32, u64)] = {
    const SOFTWARE: u32 = bindings::PERF_TYPE_SOFTWARE;
    const HARDWARE: u32 = bindings::PERF_TYPE_HARDWARE;
    const CACHE: u32 = bindings::PERF_TYPE_HW_CACHE;
    const MISS: u64 = (bindings::PERF_COUNT_HW_CACHE_RESULT_MISS as u64) << 16;
    const DATA: u64 = bindings::PERF_COUNT_HW_CACHE_L1D as u64;
    const LAST: u64 = bindings::PERF_COUNT_HW_CACHE_LL as u64;
    const DATA_TLB: u64 = bindings::PERF_COUNT_HW_CACHE_DTLB as u64;
    const CODE_TLB: u64 = bindings::PERF_COUNT_HW_CACHE_ITLB as u64;
    &[
        (&["page-faults", "faults"], "page faults", SOFTWARE, bindings::PERF_COUNT_SW_PAGE_FAULTS as u64),
        (&["minor-faults"], "minor faults", SOFTWARE, bindings::PERF_COUNT_SW_PAGE_FAULTS_MIN as u64),
        (&["major-faults"], "major faults", SOFTWARE, bindings::PERF_COUNT_SW_PAGE_FAULTS_MAJ as u64),
        (
            &["context-switches", "cs"],
            "context switches",
            SOFTWARE,
            bindings::PERF_COUNT_SW_CONTEXT_SWITCHES as u64,
        ),
        (
            &["cpu-migrations", "migrations"],
            "migrations",
            SOFTWARE,
            bindings::PERF_COUNT_SW_CPU_MIGRATIONS as u64,
        ),
        (
            &["alignment-faults"],
            "alignment faults",
            SOFTWARE,
            bindings::PERF_COUNT_SW_ALIGNMENT_FAULTS as u64,
        ),
        (
            &["emulation-faults"],
            "emulation faults",
            SOFTWARE,
            bindings::PERF_COUNT_SW_EMULATION_FAULTS as u64,
        ),
        (&["cgroup-switches"], "cgroup switches", SOFTWARE, bindings::PERF_COUNT_SW_CGROUP_SWITCHES as u64),
        (&["cycles", "cpu-cycles"], "cycles", HARDWARE, bindings::PERF_COUNT_HW_CPU_CYCLES as u64),
        (&["instructions"], "instructions", HARDWARE, bindings::PERF_COUNT_HW_INSTRUCTIONS as u64),
        (
            &["cache-references"],
            "cache references",
            HARDWARE,
            bindings::PERF_COUNT_HW_CACHE_REFERENCES as u64,
        ),
        (&["cache-misses"], "cache misses", HARDWARE, bindings::PERF_COUNT_HW_CACHE_MISSES as u64),
        (
            &["branches", "branch-instructions"],
            "branches",
            HARDWARE,
            bindings::PERF_COUNT_HW_BRANCH_INSTRUCTIONS as u64,
        ),
        (&["branch-misses"], "branch misses", HARDWARE, bindings::PERF_COUNT_HW_BRANCH_MISSES as u64),
        (&["bus-cycles"], "bus cycles", HARDWARE, bindings::PERF_COUNT_HW_BUS_CYCLES as u64),
        (&["ref-cycles"], "reference cycles", HARDWARE, bindings::PERF_COUNT_HW_REF_CPU_CYCLES as u64),
        (
            &["stalled-cycles-frontend"],
            "stalled cycles",
            HARDWARE,
            bindings::PERF_COUNT_HW_STALLED_CYCLES_FRONTEND as u64,
        ),
        (
            &["stalled-cycles-backend"],
            "stalled cycles",
            HARDWARE,
            bindings::PERF_COUNT_HW_STALLED_CYCLES_BACKEND as u64,
        ),
        (&["L1-dcache-loads"], "L1 data loads", CACHE, DATA),
        (&["L1-dcache-load-misses"], "L1 data load misses", CACHE, DATA | MISS),
        (&["LLC-loads"], "last-level loads", CACHE, LAST),
        (&["LLC-load-misses"], "last-level load misses", CACHE, LAST | MISS),
        (&["dTLB-loads"], "data TLB loads", CACHE, DATA_TLB),
        (&["dTLB-load-misses"], "data TLB load misses", CACHE, DATA_TLB | MISS),
        (&["iTLB-load-misses"], "code TLB load misses", CACHE, CODE_TLB | MISS),
    ]
};

impl PerfCounter {
    /// The counter that `text` names: one of perf's names, or `r` and the number of an event of this processor in hexadecimal
    /// digits; then perhaps `:u` or `:k`.
    ///
    /// # Errors
    ///
    /// Fails with what is wrong with `text`, in words.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let (name, modifiers) = text.split_once(':').unwrap_or((text, "uk"));
        if modifiers.is_empty() || !modifiers.chars().all(|modifier| matches!(modifier, 'u' | 'k')) {
            return Err(format!(
                "unknown modifier `:{modifiers}`: `:u` counts user space only, `:k` the kernel only"
            ));
        }
        let (in_user, in_kernel) = (modifiers.contains('u'), modifiers.contains('k'));
        let raw = || u64::from_str_radix(name.strip_prefix('r')?, 16).ok();
        let known = KNOWN.iter().find(|(names, ..)| names.contains(&name));
        let (canonical, title, source, config) = match (known, raw()) {
            (Some((names, title, source, config)), _) => (names[0], (*title).to_owned(), *source, *config),
            (None, Some(config)) => (name, format!("events {name}"), bindings::PERF_TYPE_RAW, config),
            (None, None) => {
                return Err(format!(
                    "no such event; known events are cpu, off, lock, heap, syscalls, {}",
                    Self::names()
                ));
            }
        };
        let (name, title) = match (in_user, in_kernel) {
            (true, true) => (canonical.to_owned(), title),
            (true, false) => (format!("{canonical}:u"), format!("{title} in user space")),
            (false, _) => (format!("{canonical}:k"), format!("{title} in the kernel")),
        };
        let (user_only, kernel_only) = (!in_kernel, !in_user);
        Ok(Self {
            kind: EventKind {
                skids: source != bindings::PERF_TYPE_SOFTWARE,
                ..EventKind::counted(name, title)
            },
            source,
            config,
            user_only,
            kernel_only,
            period: None,
        })
    }

    /// All names, for people.
    pub(crate) fn names() -> String {
        let names: Vec<&str> = KNOWN.iter().map(|(names, ..)| names[0]).collect();
        format!("{}, rHEX", names.join(", "))
    }

    /// How many are counted for a sample if nothing else is asked for; `None`: samples come as often as those of running threads.
    ///
    /// Page faults come in bursts, of which the kernel's search for the right number would miss nearly all: it looks again
    /// after a tick. One in 101 costs the program nothing that can be measured; those that wait for a disk are rare.
    pub(crate) fn default_period(&self) -> Option<u64> {
        let is_rare = self.config == u64::from(bindings::PERF_COUNT_SW_PAGE_FAULTS_MAJ);
        self.is_of_page_faults().then_some(if is_rare { 1 } else { 101 })
    }

    /// Whether it counts page faults, so that its samples have an address.
    pub(crate) fn is_of_page_faults(&self) -> bool {
        const FAULTS: [u32; 3] = [
            bindings::PERF_COUNT_SW_PAGE_FAULTS,
            bindings::PERF_COUNT_SW_PAGE_FAULTS_MIN,
            bindings::PERF_COUNT_SW_PAGE_FAULTS_MAJ,
        ];
        self.source == bindings::PERF_TYPE_SOFTWARE
            && FAULTS.iter().any(|config| self.config == u64::from(*config))
    }

    /// Whether the processor counts it, rather than the kernel.
    pub(super) fn is_of_processor(&self) -> bool {
        self.kind.skids
    }

    /// Whether it only counts what happens in the kernel, though user code may be the cause.
    pub(super) fn is_of_kernel(&self) -> bool {
        const OF_SCHEDULER: [u32; 3] = [
            bindings::PERF_COUNT_SW_CONTEXT_SWITCHES,
            bindings::PERF_COUNT_SW_CPU_MIGRATIONS,
            bindings::PERF_COUNT_SW_CGROUP_SWITCHES,
        ];
        let is_software = self.source == bindings::PERF_TYPE_SOFTWARE;
        self.kernel_only
            || (is_software && OF_SCHEDULER.iter().any(|config| self.config == u64::from(*config)))
    }

    /// The failure where `error` says that there is no such counter here.
    pub(super) fn lack(&self, error: &io::Error) -> Option<Failure> {
        let name = &self.kind.name;
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::ENODEV | libc::EOPNOTSUPP | libc::EINVAL) if self.is_of_processor() => {
                let what = format!("this machine has no counter for `{name}`");
                Some(
                    Failure::new(status::FAILED, what)
                        .hint("a virtual machine has processor counters only if its host exposes them")
                        .hint(EVENTS_OF_ALL),
                )
            }
            Some(libc::ENOENT) => {
                let what = format!("this kernel has no event `{name}`");
                Some(Failure::new(status::FAILED, what).hint(EVENTS_OF_ALL))
            }
            _ => None,
        }
    }

    /// Returns the rule by which samples are taken, for people, where those of running threads come at `hz`.
    pub(super) fn rule(&self, hz: u32) -> String {
        let name = &self.kind.name;
        match self.period {
            Some(period) => format!("{name}, a sample every {}", crate::base::units::count(period)),
            None => format!("{name} at {} Hz per CPU", crate::base::units::count(hz.into())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_have_perfs_names() {
        let parse = |text| {
            let counter = PerfCounter::parse(text).expect(text);
            (counter.source, counter.config, counter.user_only, counter.kernel_only)
        };
        assert_eq!(parse("context-switches"), (1, 3, false, false));
        assert_eq!(parse("cs"), (1, 3, false, false));
        assert_eq!(parse("cgroup-switches"), (1, 11, false, false));
        assert_eq!(parse("cycles:u"), (0, 0, true, false));
        assert_eq!(parse("instructions:k"), (0, 1, false, true));
        assert_eq!(parse("instructions:uk"), (0, 1, false, false));
        assert_eq!(parse("r01c2"), (4, 0x1c2, false, false));
        assert_eq!(parse("LLC-load-misses"), (3, 0x1_0002, false, false));
        assert_eq!(PerfCounter::parse("cs:u").unwrap().kind.name, "context-switches:u");
        assert_eq!(PerfCounter::parse("cs:u").unwrap().kind.title, "context switches in user space");
    }

    #[test]
    fn page_faults_have_a_number_of_their_own() {
        let of = |text| PerfCounter::parse(text).unwrap();
        assert_eq!(
            (of("faults").default_period(), of("minor-faults:u").default_period()),
            (Some(101), Some(101))
        );
        assert_eq!(of("major-faults").default_period(), Some(1));
        assert_eq!((of("cs").default_period(), of("cycles").default_period()), (None, None));
        assert!(of("faults").is_of_page_faults() && !of("r2").is_of_page_faults());
    }

    #[test]
    fn what_is_no_counter_is_said_with_those_that_there_are() {
        let no = |text| PerfCounter::parse(text).unwrap_err();
        assert!(no("cycels").contains("cycles, instructions"), "{}", no("cycels"));
        assert!(no("rust").contains("rHEX") && no("r").contains("rHEX"));
        assert!(no("cycles:").contains("`:`") && no("cycles:p").contains("`:p`"), "{}", no("cycles:p"));
    }
}
