//! What is recorded, and how: the options of every command that records.

use super::testing::TestingArgs;
use super::value::{self, EventName};
use crate::base::failure::Failure;
use crate::record::{
    CallGraph, Children, PROBE_FORMS, PerfCounter, Rate, RecordOptions, Sampler, Target, WaitOptions,
};
use crate::report::Metric;
use clap::Args;
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// How it is recorded.
#[derive(Debug, Args)]
pub(super) struct SamplerArgs {
    /// What to record: cpu (running time), off (waiting time), lock (waits for locks), heap (memory), perf events such as
    /// page-faults, context-switches, cycles, cache-misses:u, r01c2, or probes such as uprobe:libc.so.6:malloc
    /// [default: cpu,off, and cpu for -a]
    #[arg(short, long, value_name = "EVENT,…", value_delimiter = ',', value_parser = value::event,
        long_help = event_help())]
    event: Vec<EventName>,
    /// For perf events: take one sample per N events; 1 samples every event [default: 101 for page faults,
    /// else -F samples a second]
    #[arg(short = 'c', long, value_name = "N", value_parser = value::period, allow_negative_numbers = true)]
    count: Option<u64>,
    /// Samples per second and CPU, or max for the kernel's limit
    #[arg(short = 'F', long, alias = "freq", value_name = "HZ|max", value_parser = value::rate, long_help = rate_help(),
        allow_negative_numbers = true)]
    frequency: Option<Rate>,
    /// Waits shorter than this are only added up, by thread and reason, without stacks
    #[arg(long, value_name = "TIME", default_value = "1us", value_parser = value::duration_with_unit,
        allow_hyphen_values = true)]
    min_block: Duration,
    /// Share of each CPU's time that taking stacks of waits may use; beyond that, only a sample of the waits is
    /// kept, and weighted up. The same again for hits of probes; a probe whose hits alone cost more is taken off. 0 is no limit
    #[arg(long, value_name = "SHARE", default_value = "2%", value_parser = value::overhead_ppm,
        allow_hyphen_values = true)]
    max_overhead: u32,
    /// Also record what all goroutines of Go programs do and wait for, by snapshots that do not stop them; reading these
    /// costs at most --max-overhead of a CPU: of more goroutines, a sample is read
    #[arg(long)]
    pub(super) goroutines: bool,
    /// How to walk user stacks: by unwind tables, and frame pointers where there are none (auto), by
    /// unwind tables only (dwarf), by frame pointers only (fp)
    #[arg(long, value_name = "HOW", default_value = "auto", value_parser = value::CallGraphParser)]
    call_graph: CallGraph,
    /// Leave out the kernel: no samples in kernel mode, no kernel frames
    #[arg(long)]
    user_only: bool,
    /// Also record the children that a recorded process already has, and their children; children started later are
    /// recorded anyway
    #[arg(long, conflicts_with = "no_children")]
    children: bool,
    /// Do not record processes started by recorded processes
    #[arg(long)]
    no_children: bool,
    /// Run the command as this user, a name or a number [default: the user who called sudo]
    #[arg(long, value_name = "USER", help_heading = "Target")]
    run_as: Option<String>,
    /// Maximum memory for unwind tables
    #[arg(long, value_name = "SIZE", value_parser = value::budget_bytes, help = budget_help())]
    table_budget: Option<u64>,
    #[command(flatten)]
    testing: TestingArgs,
}

/// When it is recorded.
#[derive(Debug, Args)]
pub(super) struct SpanArgs {
    /// Stop after this long
    #[arg(short, long, value_name = "TIME", value_parser = value::positive_duration, allow_hyphen_values = true)]
    pub(super) duration: Option<Duration>,
    /// Start sampling this long after everything is set up
    #[arg(short = 'D', long, value_name = "TIME", value_parser = value::duration, allow_hyphen_values = true)]
    pub(super) delay: Option<Duration>,
}

/// Options that say where debug information is looked for.
#[derive(Debug, Args)]
#[command(next_help_heading = "Debug information")]
pub(super) struct DebugSourceArgs {
    /// Look for debug files in this folder, too, by build ID or by file name; may be given several times
    #[arg(long = "debug-dir", value_name = "DIR")]
    pub(super) folders: Vec<PathBuf>,
    /// Ask the servers of DEBUGINFOD_URLS for debug information that is not on this machine
    #[arg(long)]
    pub(super) debuginfod: bool,
}

fn event_help() -> String {
    format!(
        "Events to record, one or more of:\n\n\
         cpu  running time of threads\n\
         off  waiting time of threads\n\
         lock  waiting time in futexes alone: locks, condition variables, semaphores; has Go's runtime sample waits of goroutines while it records; prof report --locks\n\
         heap  memory that functions allocate; changes the code of malloc in the target while it records; prof report --heap\n\
         syscalls  system calls: which ones, how long they take, and from where; slows those of all processes a little, as is said\n\
         perf events, by perf's names: {}. The suffix :u counts user space only, :k the kernel only; rHEX is a raw event of \
         this processor.\n\
         probes: {}. Each hit is counted and has its stack; what a hit costs is said before the recording begins\n\n\
         [default: cpu,off, and cpu for -a]",
        PerfCounter::names(),
        PROBE_FORMS
    )
}

fn rate_help() -> String {
    format!(
        "Samples per second and CPU, or max for the kernel's limit (kernel.perf_event_max_sample_rate), \
         which also caps higher rates [default: {} for processes, threads and commands, {} for -a]",
        Target::Pids(Vec::new()).default_hz(),
        Target::System.default_hz()
    )
}

fn budget_help() -> String {
    let default = value::budget_text(RecordOptions::default().table_budget_bytes);
    format!("Maximum memory for unwind tables [default: {default}]")
}

impl SamplerArgs {
    /// Records what a view of `metric` is about, where the command line does not say what is recorded.
    ///
    /// # Errors
    ///
    /// A usage failure when it says that something else is: such a view would stay empty.
    pub(super) fn record_for(&mut self, metric: Option<Metric>) -> Result<(), Failure> {
        let (option, needed): (_, &[EventName]) = match metric {
            Some(Metric::ON_CPU) => ("--on-cpu", &[EventName::Cpu]),
            Some(Metric::OFF_CPU) => ("--off-cpu", &[EventName::Off]),
            Some(Metric::WALL) => ("--wall", &[EventName::Cpu, EventName::Off]),
            _ => return Ok(()),
        };
        if self.event.is_empty() {
            if needed.contains(&EventName::Off) {
                // All that is recorded of a process by default, also where waits are left out by default.
                self.event = vec![EventName::Cpu, EventName::Off];
            }
            return Ok(());
        }
        let Some(missing) = needed.iter().find(|event| !self.event.contains(event)) else { return Ok(()) };
        let given: Vec<&str> = self.event.iter().map(EventName::word).collect();
        let given = given.join(",");
        let what = match missing {
            EventName::Off => "waiting time",
            EventName::Cpu
            | EventName::Lock
            | EventName::Heap
            | EventName::Counter(_)
            | EventName::Probe(_) => "running time",
        };
        Err(Failure::usage(format!("{option} shows {what}, which -e {given} does not record"))
            .hint(format!("to record both:  {option} -e cpu,off")))
    }

    /// Where a file is looked at, `-e` names what is shown of it.
    pub(super) fn shown(&self) -> Option<Metric> {
        self.event.first().map(EventName::metric)
    }

    /// Refuses options that would record nothing, or are about something that is not recorded.
    fn check(&self) -> Result<(), Failure> {
        let counters = || self.event.iter().filter_map(EventName::counter);
        if self.count.is_some() && counters().next().is_none() {
            return Err(Failure::usage("-c needs a perf event, and -e names none")
                .hint("for example:  -e page-faults -c 1"));
        }
        if let (Some(count), Some(_)) = (self.count, &self.frequency)
            && !self.event.contains(&EventName::Cpu)
        {
            let given: Vec<&str> = self.event.iter().map(EventName::word).collect();
            let given = given.join(",");
            return Err(Failure::usage(format!(
                "-F and -c both say how often -e {given} is sampled: -c {count} takes a sample per {count} events, whatever the time"
            ))
            .hint(format!("to take samples per second, leave out -c:  -e {given} -F HZ"))
            .hint(format!("to sample running time at -F, too:  -e cpu,{given}")));
        }
        let of_kernel = counters().find(|counter| counter.kernel_only && self.user_only);
        of_kernel.map_or(Ok(()), |counter| {
            Err(Failure::usage(format!("--user-only leaves nothing to record of `{}`", counter.kind.name)))
        })
    }

    /// What is sampled.
    fn samplers(&self, is_of_system: bool) -> Vec<Sampler> {
        let waits = WaitOptions {
            min_block: self.min_block,
            max_overhead_ppm: self.max_overhead,
            ..WaitOptions::default()
        };
        let words = match (self.event.is_empty(), is_of_system) {
            (true, true) => vec![EventName::Cpu],
            (true, false) => vec![EventName::Cpu, EventName::Off],
            (false, _) => self.event.clone(),
        };
        let has_off = words.contains(&EventName::Off);
        let mut samplers = Vec::new();
        for word in words {
            let sampler = match word {
                EventName::Cpu => Sampler::Clock,
                EventName::Off => Sampler::Waits(waits),
                EventName::Lock => {
                    samplers.push(Sampler::GoWaits(self.max_overhead));
                    // All waits have the lock that they are for.
                    if has_off {
                        continue;
                    }
                    Sampler::Waits(WaitOptions { futexes_only: true, ..waits })
                }
                EventName::Heap => Sampler::Heap(self.max_overhead),
                EventName::Counter(mut counter) => {
                    let own = counter.default_period().filter(|_| self.frequency.is_none());
                    counter.period = self.count.or(own);
                    Sampler::Counter(counter)
                }
                EventName::Probe(probe) => Sampler::Probe(probe, self.max_overhead),
            };
            if !samplers.contains(&sampler) {
                samplers.push(sampler);
            }
        }
        samplers
    }

    /// The options for `target`; what has to do with its file is as by default.
    ///
    /// # Errors
    ///
    /// A usage failure for options that contradict each other.
    pub(super) fn into_options(
        self,
        target: Target,
        timer: Option<Vec<OsString>>,
        span: &SpanArgs,
    ) -> Result<RecordOptions, Failure> {
        self.check()?;
        if self.run_as.is_some() && timer.is_none() && !matches!(target, Target::Launch(_)) {
            return Err(Failure::usage("--run-as: there is no command to run"));
        }
        let mut events = self.samplers(target == Target::System);
        events.extend(self.goroutines.then_some(Sampler::Goroutines(self.max_overhead)));
        let default = RecordOptions::default();
        Ok(self.testing.apply(RecordOptions {
            events,
            target,
            timer,
            run_as: self.run_as,
            duration: span.duration,
            delay: span.delay,
            rate: self.frequency.unwrap_or(Rate::Default),
            call_graph: self.call_graph,
            user_only: self.user_only,
            children: match (self.children, self.no_children) {
                (true, _) => Children::All,
                (_, true) => Children::None,
                _ => Children::New,
            },
            table_budget_bytes: self.table_budget.unwrap_or(default.table_budget_bytes),
            ..default
        }))
    }
}
