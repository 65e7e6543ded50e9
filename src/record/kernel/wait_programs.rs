//! The kernel side of waits: which programs this kernel can run, and their start and end.

use super::attach::KernelSide;
use super::load::failure::load_failure;
use crate::bpf::{Counter, WatchedThreadEvent};
use crate::record::kernel::wait_config::WaitConfig;
use libbpf_rs::Link;
use std::io::Read as _;
use std::time::{Duration, Instant};

impl KernelSide<'_> {
    /// Attaches the programs of waits. They count from [`KernelSide::start_waits`] on.
    pub(super) fn attach_waits(&mut self, config: &WaitConfig) -> anyhow::Result<()> {
        let programs = &self.skeleton.progs;
        let attach = |link: libbpf_rs::Result<Link>| link.map_err(|error| load_failure(&error));
        let mut links = vec![
            attach(programs.on_waking.attach_trace())?,
            attach(programs.on_new_thread.attach_trace())?,
            attach(programs.on_exec_thread.attach_trace())?,
            attach(programs.on_gone_thread.attach_trace())?,
        ];
        if config.is_early {
            links.push(attach(programs.on_switch_early.attach_trace())?);
        } else {
            links.push(attach(programs.on_back.attach_trace())?);
            links.push(attach(programs.on_switch.attach_trace())?);
        }
        self.links.append(&mut links);
        Ok(())
    }

    /// Waits count from now on. The threads that are there are looked at before, so that each of them has an account when
    /// it counts, and once more for what they wait for then. Returns the time, CLOCK_MONOTONIC, ns.
    pub(crate) fn start_waits(&mut self) -> anyhow::Result<u64> {
        self.span.open();
        self.look_at_threads()?;
        let start_ns = self.span.start();
        self.look_at_threads()?;
        Ok(start_ns)
    }

    /// Hits of probes count from now on, where no waits are recorded. Returns the time, CLOCK_MONOTONIC, ns.
    pub(crate) fn start_hits(&self) -> u64 {
        self.span.start()
    }

    /// Gives accounts to threads that are to have one and have none.
    fn look_at_threads(&mut self) -> anyhow::Result<()> {
        let link = self.skeleton.progs.threads_at_start.attach()?;
        let mut nothing = Vec::new();
        libbpf_rs::Iter::new(&link)?.read_to_end(&mut nothing)?;
        Ok(())
    }

    /// Looks at the threads again if one has turned up without an account: there was no memory for it, or it is of a
    /// process that was published to the kernel side late. Under the scheduler's locks, where that shows, none can be begun.
    pub(crate) fn look_for_missed(&mut self) -> anyhow::Result<()> {
        let is_too_soon = self.last_look.is_some_and(|last| last.elapsed() < LOOK_INTERVAL);
        if is_too_soon || !self.span.has_missed() {
            return Ok(());
        }
        self.last_look = Some(Instant::now());
        self.span.forget_missed();
        self.look_at_threads()
    }

    /// All threads with accounts: their times, and their waits that are not over. The stacks of those that are new are on
    /// their way, as far as there is room for them.
    pub(crate) fn watched_threads(&mut self) -> anyhow::Result<Vec<WatchedThreadEvent>> {
        self.span.set_room_for_open_waits(THREADS_PER_TAKE.into());
        let link = self.skeleton.progs.threads_watched.attach()?;
        let mut bytes = Vec::new();
        libbpf_rs::Iter::new(&link)?.read_to_end(&mut bytes)?;
        Ok(WatchedThreadEvent::decode_all(&bytes))
    }

    /// Closes the waits that were not over when sampling was stopped, and the times of all threads. After every few that
    /// wait `take` is to make room in the rings.
    pub(crate) fn close_waits(&mut self, mut take: impl FnMut() -> anyhow::Result<()>) -> anyhow::Result<()> {
        let link = self.skeleton.progs.threads_at_end.attach()?;
        let mut threads = libbpf_rs::Iter::new(&link)?;
        let mut byte = [0];
        let mut count = 0u32;
        // One byte for each thread that waits.
        while threads.read(&mut byte)? > 0 {
            count += 1;
            if count.is_multiple_of(THREADS_PER_TAKE) {
                take()?;
            }
        }
        drop(threads);
        // A thread that ends is on no list any more before it leaves its CPU for the last time, which this one may have
        // taken, and is gone for good a little later.
        let deadline = Instant::now() + LAST_SWITCH_PATIENCE;
        while self.open_accounts()? > 0 && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Accounts of threads' times that the kernel side has not sent yet.
    fn open_accounts(&self) -> anyhow::Result<u64> {
        let counters = self.counters()?;
        let closed = counters.get(Counter::AccountSent) + counters.get(Counter::ThreadFull);
        Ok(counters.get(Counter::Account).saturating_sub(closed))
    }
}

/// Time that threads that end may take for it while the recording does, too. All that they need is a CPU, for which they wait
/// with all others on a crowded machine: 400 ms were not enough for one of them.
const LAST_SWITCH_PATIENCE: Duration = Duration::from_secs(2);
/// Interval of looks at all threads for the sake of those that were missed.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);
/// Stack copies of sleeping threads that fit into their ring: 120.
const THREADS_PER_TAKE: u32 = 64;
