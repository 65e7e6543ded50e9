//! Reads the waits of a recording, and the book that the fixture `waits` keeps of its own.

use crate::harness::counter;
use prof::internals::profile::{
    Event, EventKind, Profile, Reason, Sample, StackId, TaskId, ThreadTime, WakerKind, read_path,
};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::Range;
use std::path::Path;

/// A recording with waits.
pub(crate) struct Waits {
    /// All of it.
    pub(crate) profile: Profile,
    names: HashMap<StackId, Vec<String>>,
}

/// Waits summed up.
#[derive(Debug, Default, Clone)]
pub(crate) struct Sum {
    /// How many rows.
    pub(crate) count: u64,
    /// Sum of their weights, ns.
    pub(crate) weight_ns: u64,
    /// Their own lengths, ns.
    pub(crate) length_ns: u64,
    /// Of `weight_ns`, ns².
    pub(crate) variance: f64,
}

impl Sum {
    fn add(&mut self, sample: &Sample, length_ns: u64) {
        self.count += 1;
        self.weight_ns += sample.weight;
        self.length_ns += length_ns;
        self.variance += sample.weight as f64 * sample.weight.saturating_sub(length_ns) as f64;
    }
}

/// Standard errors that a sum may be off. All tests together compare dozens of sums, and three errors are one in 370 by chance.
const ERRORS: f64 = 4.5;

impl Waits {
    /// Of a file.
    pub(crate) fn read(file: &Path) -> Waits {
        let (profile, integrity) = read_path(file).expect("prof wrote a file that can be read");
        assert!(integrity.is_complete, "the file is cut: {integrity:?}");
        let mut names = HashMap::new();
        for stack in profile.event_of(&EventKind::OFF_CPU).into_iter().flat_map(|event| event.samples()) {
            let wakers = stack.wait.and_then(|wait| wait.waker.stack);
            for id in stack.stack.into_iter().chain(wakers) {
                names.entry(id).or_insert_with(|| function_names(&profile, id));
            }
        }
        Waits { profile, names }
    }

    /// The table of waits.
    pub(crate) fn event(&self) -> &Event {
        self.profile.event_of(&EventKind::OFF_CPU).expect("the recording has waits")
    }

    /// The counter `name`.
    pub(crate) fn counter(&self, name: &str) -> u64 {
        self.profile.counter(name)
    }

    /// The recording's time, CLOCK_MONOTONIC, ns.
    pub(crate) fn span_ns(&self) -> Range<u64> {
        let start = self.profile.meta.start_mono_ns;
        start..start + self.profile.duration_ns()
    }

    /// Names of the functions of a stack, leaf first, those of the kernel among them.
    pub(crate) fn stack(&self, stack: Option<StackId>) -> &[String] {
        stack.and_then(|id| self.names.get(&id)).map_or(&[], Vec::as_slice)
    }

    /// Whether `path` occurs in a stack in this order, the root first, perhaps with other frames between.
    pub(crate) fn has(&self, stack: Option<StackId>, path: &[&str]) -> bool {
        let mut frames = self.stack(stack).iter().rev();
        path.iter().all(|name| frames.any(|frame| frame == name))
    }

    /// The waits whose innermost function of the fixture's sites is `site`, by reason. A thread may lose its CPU in
    /// that function before or after what the book has: those are left out.
    pub(crate) fn of_site(&self, site: &str, book: &Book) -> BTreeMap<Reason, Sum> {
        let start_ns = self.span_ns().start;
        let is_booked = |sample: &Sample| {
            let wait = sample.wait.expect("every row of off-cpu is a wait");
            let middle_ns = start_ns + sample.time_ns + wait.duration_ns / 2;
            wait.reason != Reason::NoCpu
                || book.covers(site, self.profile.tables.task(sample.task).tid, middle_ns)
        };
        self.sums(|sample| self.site(sample.stack).is_some_and(|name| name == site) && is_booked(sample))
    }

    /// The innermost function of the fixture's sites in a stack.
    pub(crate) fn site(&self, stack: Option<StackId>) -> Option<&str> {
        self.stack(stack).iter().map(String::as_str).find(|name| name.starts_with("site_"))
    }

    /// The waits that are wanted, by reason.
    pub(crate) fn sums(&self, is_wanted: impl Fn(&Sample) -> bool) -> BTreeMap<Reason, Sum> {
        let mut sums: BTreeMap<Reason, Sum> = BTreeMap::new();
        for sample in self.event().samples().filter(is_wanted) {
            let wait = sample.wait.expect("every row of off-cpu is a wait");
            sums.entry(wait.reason).or_default().add(&sample, wait.duration_ns);
        }
        sums
    }

    /// How long a thread was off CPU in waits that are at none of the fixture's sites, or in no row at all, ns.
    pub(crate) fn without_site_ns(&self, tid: u32) -> u64 {
        let is_own = |task| self.profile.tables.task(task).tid == tid;
        let at_sites = self.sums(|sample| is_own(sample.task) && self.site(sample.stack).is_some());
        let at_sites_ns = at_sites.values().map(|sum| sum.weight_ns).sum();
        let times = self.profile.thread_times.iter().filter(|time| is_own(time.task));
        let off_ns: u64 = times.map(|time| time.no_cpu_ns + time.blocked_ns).sum();
        off_ns.saturating_sub(at_sites_ns)
    }

    /// Numbers and names of a thread, for messages.
    pub(crate) fn thread(&self, time: &ThreadTime) -> String {
        let task = self.profile.tables.task(time.task);
        format!("{} ({}/{})", self.profile.tables.string(task.comm), task.pid, task.tid)
    }

    /// Asserts what is true of every recording: waits and threads lie within it, lengths are possible, and on CPU,
    /// without one and blocked are the whole time of every thread.
    pub(crate) fn assert_sound(&self) {
        let end_ns = self.profile.duration_ns();
        for sample in self.event().samples() {
            let wait = sample.wait.expect("every row of off-cpu is a wait");
            let until = sample.time_ns.checked_add(wait.duration_ns).expect("no wait is endless");
            assert!(
                until <= end_ns + SLACK_NS,
                "a wait ends at {until} ns, the recording at {end_ns}: {sample:?}"
            );
            assert!(sample.weight >= wait.duration_ns, "a wait is weighted as less than itself: {sample:?}");
            assert!(wait.waker.stack.is_none() || wait.waker.kind != WakerKind::None, "{sample:?}");
        }
        assert!(!self.profile.thread_times.is_empty(), "no thread has a time");
        for time in &self.profile.thread_times {
            let name = self.thread(time);
            assert!(
                time.from_ns <= time.to_ns && time.to_ns <= end_ns + SLACK_NS,
                "{name}: {time:?} of {end_ns}"
            );
            let (sum, whole) = (time.on_cpu_ns + time.no_cpu_ns + time.blocked_ns, time.to_ns - time.from_ns);
            assert!(
                sum.abs_diff(whole) <= whole / 1000,
                "{name}: {sum} ns are explained of {whole}: {time:?}"
            );
        }
        // Threads that end at the very end may be gone too late on a crowded machine: they are counted then.
        let (lost, threads) = (self.counter(counter::LOST_THREAD_TIMES), self.profile.thread_times.len());
        assert!(lost <= 2 + threads as u64 / 50, "{lost} of {threads} threads are not accounted for");
    }

    /// The threads whose waits differ most from the time that they did not run, for messages.
    fn worst_threads(&self) -> String {
        let mut waited: HashMap<u32, i128> = HashMap::new();
        for sample in self.event().samples() {
            *waited.entry(self.profile.tables.task(sample.task).tid).or_default() +=
                i128::from(sample.weight);
        }
        let mut threads: Vec<(i128, String)> = (self.profile.thread_times.iter())
            .map(|time| {
                let short_ns: u64 = time.short_waits.iter().map(|waits| waits.time_ns).sum();
                let found_ns = waited.remove(&self.profile.tables.task(time.task).tid).unwrap_or(0);
                let missing_ns =
                    i128::from(time.no_cpu_ns + time.blocked_ns) - i128::from(short_ns) - found_ns;
                (missing_ns, format!("{missing_ns} ns of {}: {time:?}", self.thread(time)))
            })
            .collect();
        threads.sort_by_key(|(missing_ns, _)| -missing_ns.abs());
        threads.into_iter().take(10).map(|(_, thread)| thread + "\n").collect()
    }

    /// Asserts that the weights of the waits add up to the time that threads did not run, within 1 % and [`ERRORS`] times the error
    /// that leaving some out makes.
    pub(crate) fn assert_totals(&self) {
        self.assert_sound();
        let lost_ns = self.counter(counter::LOST_WAIT_NS);
        // One whose end came too late for the recording has waits, and is counted.
        let tables = &self.profile.tables;
        let number = |task: TaskId| (tables.task(task).tid, tables.task(task).generation);
        let numbers: HashSet<(u32, u32)> =
            self.profile.thread_times.iter().map(|time| number(time.task)).collect();
        let are_all_known = self.counter(counter::LOST_THREAD_TIMES) == 0;
        let sums = self.sums(|sample| are_all_known || numbers.contains(&number(sample.task)));
        let kept_ns: u64 = sums.values().map(|sum| sum.weight_ns).sum();
        let error_ns = sums.values().map(|sum| sum.variance).sum::<f64>().sqrt();
        let times = &self.profile.thread_times;
        let short_ns: u64 = times.iter().flat_map(|time| &time.short_waits).map(|waits| waits.time_ns).sum();
        let off_ns: u64 = times.iter().map(|time| time.no_cpu_ns + time.blocked_ns).sum();
        let found_ns = kept_ns + short_ns + lost_ns;
        let allowed_ns = off_ns as f64 * 0.01 + ERRORS * error_ns;
        assert!(
            (found_ns as f64 - off_ns as f64).abs() <= allowed_ns,
            "waits of {kept_ns} ns, short ones of {short_ns}, lost ones of {lost_ns}, while threads did not run for \
             {off_ns}; allowed are {allowed_ns:.0}; {:?}, {}",
            self.profile.counters,
            self.worst_threads()
        );
        if self.counter(counter::WAITS_THINNED) == 0 {
            // Lots may have been drawn, and all have fallen on the waits: the chances were good.
            assert!(
                error_ns <= 0.001 * off_ns as f64,
                "nothing was left out, and yet the error is {error_ns} ns of {off_ns}"
            );
        }
    }
}

/// A time that both sides know to so much, ns: the end is when prof says so, and that takes a while.
const SLACK_NS: u64 = 1_000_000;

fn function_names(profile: &Profile, stack: StackId) -> Vec<String> {
    let mut names = Vec::new();
    for frame in profile.tables.stack_frames(stack) {
        for location in profile.symbols.locations(frame) {
            let name = profile.symbols.function(location.function).name;
            names.push(profile.tables.string(name).to_owned());
        }
    }
    names
}

/// One wait in the fixture's book.
struct Entry {
    site: String,
    tid: u32,
    span_ns: Range<u64>,
    off_ns: u64,
}

/// The fixture's book.
pub(crate) struct Book(Vec<Entry>);

impl Book {
    /// Of what the fixture printed.
    pub(crate) fn parse(text: &str) -> Book {
        let entry = |line: &str| {
            let mut words = line.split(' ');
            let site = words.next()?.to_owned();
            let tid = words.next()?.parse().ok()?;
            let numbers: Vec<u64> = words.map_while(|word| word.parse().ok()).collect();
            let [start, end, off_ns] = numbers[..] else { return None };
            Some(Entry { site, tid, span_ns: start..end, off_ns })
        };
        let entries: Vec<Entry> = text
            .lines()
            .map(|line| entry(line).unwrap_or_else(|| panic!("not of the book: {line}")))
            .collect();
        assert!(!entries.is_empty(), "the fixture's book is empty");
        Book(entries)
    }

    /// How long threads did not run at `site` within `span`, ns, and in how many waits.
    pub(crate) fn off_ns(&self, site: &str, span_ns: &Range<u64>) -> (u64, usize) {
        let (mut sum_ns, mut count) = (0, 0);
        for entry in self.0.iter().filter(|entry| entry.site == site) {
            let start = entry.span_ns.start.max(span_ns.start);
            let end = entry.span_ns.end.min(span_ns.end);
            if start < end {
                sum_ns += entry.off_ns.min(end - start);
                count += 1;
            }
        }
        (sum_ns, count)
    }

    /// The threads that waited at `site`.
    pub(crate) fn threads(&self, site: &str) -> BTreeSet<u32> {
        self.0.iter().filter(|entry| entry.site == site).map(|entry| entry.tid).collect()
    }

    /// Whether a thread was in one of its waits at `site` at `time_ns`.
    pub(crate) fn covers(&self, site: &str, tid: u32, time_ns: u64) -> bool {
        let mut of_thread = self.0.iter().filter(|entry| entry.tid == tid && entry.site == site);
        of_thread.any(|entry| entry.span_ns.contains(&time_ns))
    }
}
