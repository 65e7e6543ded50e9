//! The sender of the agent: takes complete windows, hands them to the destinations, and says of itself and the recorder how it goes.

use super::counters;
use super::log::say;
use super::pause::Pauses;
use super::pods::{LIST_INTERVAL, pods_file, renew_list};
use super::stats::{add_window, family_use, read_window};
use super::tally::AgentTally;
use super::windows::{WindowRoutes, files_in, limits_of};
use crate::agent::config::{AgentConfig, DestinationProtocol, KubeletSettings, PushDestination};
use crate::agent::identity::SeriesLabel;
use crate::agent::metrics::{AgentMetrics, MetricName, PatientServer};
use crate::agent::sampling::{is_recorded_window, sending_delay};
use crate::base::failure::{Failure, io_words, status};
use crate::base::privilege;
use crate::profile::start_of;
use crate::push::counts::{PushCounts, PushNumbers};
use crate::push::pusher::{Pusher, PusherOptions};
use crate::push::target::{PushTarget, PushUrl};
use crate::record::Parent;
use crate::report::{HostLabel, SeriesOptions};
use signal_hook::consts::{SIGINT, SIGTERM};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// Interval between two looks for complete windows.
const LOOK: Duration = Duration::from_secs(1);
/// Longest time for what waits at the end.
const GRACE: Duration = Duration::from_secs(10);
/// Interval at which numbers of the destinations and of the processes are renewed, more often than anyone asks for them; and where no
/// one can.
const NUMBERS: Duration = Duration::from_secs(5);
const UNSEEN_NUMBERS: Duration = Duration::from_secs(15);
/// Interval between two looks at recordings that stay.
const PRUNE: Duration = Duration::from_secs(30);
/// A problem of a destination is said again after this time at the earliest.
const SAID_EVERY: Duration = Duration::from_secs(300);

/// A destination, and the thread that sends to it.
struct Route {
    name: String,
    folder: PathBuf,
    counts: Arc<PushCounts>,
    /// Until it is waited for.
    thread: Option<std::thread::JoinHandle<()>>,
    /// Its last problem, which was said if its kind was not said lately.
    problem: String,
}

/// Sends until a signal; returns the exit status.
///
/// # Errors
///
/// When folders cannot be made, or no thread can be started.
pub(super) fn run(config: &AgentConfig, parent: Parent) -> anyhow::Result<u8> {
    let ends = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        signal_hook::flag::register(signal, Arc::clone(&ends))?;
    }
    let pauses = Pauses::ended_by(&[SIGINT, SIGTERM])?;
    let mut routes = WindowRoutes::of(config)?;
    // From here on, files of other programs' names and answers of servers are read: without rights.
    privilege::keep_sending()?;
    let started_s = AgentTally::read(config).started_s;
    let metrics = Arc::new(metrics_of(config, started_s));
    let mut server = config.metrics.clone().map(PatientServer::new);
    let host = config.host.shown_name(|name| std::env::var(name).ok());
    // The destinations end once the last window has been handed to them.
    let is_over = Arc::new(AtomicBool::new(false));
    let mut to = destinations(config, &host, routes.waiting(), &is_over)?;
    metrics.beat();
    let [mut pods_due, mut prune_due, mut numbers_due] = [Instant::now(); 3];
    let mut complaints = Complaints::default();
    while !ends.load(Ordering::Relaxed) {
        if parent.has_ended() {
            ends.store(true, Ordering::Relaxed);
        }
        let news = server.as_mut().and_then(|server| server.attend(&metrics, Instant::now()));
        news.iter().for_each(|news| say(news));
        take_windows(config, &host, &mut routes, (&metrics, started_s, &mut complaints));
        AgentTally::read(config).show(&metrics);
        if let Some(kubelet) = config.kubelet.as_ref().filter(|_| Instant::now() >= pods_due) {
            pods_due = Instant::now() + LIST_INTERVAL;
            renew_pods(kubelet, &pods_file(config), &metrics);
        }
        if Instant::now() >= numbers_due {
            let is_seen = config.metrics.is_some();
            numbers_due = Instant::now() + if is_seen { NUMBERS } else { UNSEEN_NUMBERS };
            say_numbers(&metrics, &mut complaints, (&mut to, &routes.forgotten()));
        }
        if Instant::now() >= prune_due {
            prune_due = Instant::now() + PRUNE;
            metrics.set(MetricName::KeptBytes, "", routes.prune_kept());
            metrics.add(MetricName::Dropped, "destination_gone", routes.prune_forgotten());
        }
        pauses.pause(LOOK);
    }
    // The recorder has completed its last window before this process was asked to end.
    take_windows(config, &host, &mut routes, (&metrics, started_s, &mut complaints));
    is_over.store(true, Ordering::Relaxed);
    for thread in to.iter_mut().filter_map(|route| route.thread.take()) {
        // A panic of a thread is said by it.
        let _ = thread.join();
    }
    say_numbers(&metrics, &mut complaints, (&mut to, &routes.forgotten()));
    counters::keep(config, started_s, &metrics);
    Ok(status::OK)
}

/// The metrics of the agent that was started at `started_s`, as a sender before this one has left them.
fn metrics_of(config: &AgentConfig, started_s: u64) -> AgentMetrics {
    let metrics = AgentMetrics::new(env!("CARGO_PKG_VERSION"), config.window * 4 + GRACE);
    // They are kept with each window: it has recorded.
    if counters::go_on(config, started_s, &metrics) {
        metrics.set_ready();
    }
    metrics
}

/// Hands on the windows that are complete, for the agent that was started at `started_s`.
fn take_windows(
    config: &AgentConfig,
    host: &str,
    routes: &mut WindowRoutes,
    (metrics, started_s, complaints): (&AgentMetrics, u64, &mut Complaints),
) {
    let windows = routes.complete().unwrap_or_else(|error| {
        complaints.say("the folder of windows", &format!("cannot be read: {}", io_words(&error)));
        Vec::new()
    });
    for window in windows {
        let profile = read_window(&window);
        metrics.beat();
        metrics.set_ready();
        let number = start_of(&window).unwrap_or(0)
            / u64::try_from(config.window.as_nanos()).unwrap_or(u64::MAX).max(1);
        let is_sent = is_recorded_window(host, number, config.windows_share);
        if !is_sent {
            metrics.add(MetricName::WindowsSkipped, "windows_share", 1);
        }
        let refused = match routes.hand_on(&window, is_sent) {
            Ok(refused) => refused,
            Err(error) => {
                complaints
                    .say(&window.display().to_string(), &format!("cannot be removed: {}", io_words(&error)));
                break;
            }
        };
        // Once: now it is where it is not looked at again.
        add_window(metrics, profile);
        counters::keep(config, started_s, metrics);
        for (folder, error) in refused {
            complaints.say(
                &folder.display().to_string(),
                &format!("cannot have a window, which it lacks now: {}", io_words(&error)),
            );
            metrics.add(MetricName::WindowsSkipped, "not_handed_on", 1);
        }
    }
}

/// What has gone wrong, each once in a while.
#[derive(Default)]
struct Complaints(BTreeMap<String, Instant>);

impl Complaints {
    fn say(&mut self, what: &str, why: &str) {
        if self.0.get(what).is_none_or(|at| at.elapsed() >= SAID_EVERY) {
            // There are few folders, and windows that cannot be removed stop the rest.
            self.0.retain(|_, at| at.elapsed() < SAID_EVERY);
            self.0.insert(what.to_owned(), Instant::now());
            say(&format!("{what} {why}"));
        }
    }
}

/// Gets the kubelet's list of pods.
fn renew_pods(kubelet: &KubeletSettings, file: &Path, metrics: &AgentMetrics) {
    if let Err(error) = renew_list(kubelet, file) {
        metrics.add(MetricName::IdentityProblems, "kubelet", 1);
        say(&format!("the kubelet's list of pods was not had: {}", io_words(&error)));
    }
}

/// Starts a thread for each destination.
fn destinations(
    config: &AgentConfig,
    host: &str,
    folders: &[PathBuf],
    is_over: &Arc<AtomicBool>,
) -> Result<Vec<Route>, Failure> {
    let mut routes = Vec::new();
    for (destination, folder) in config.destinations.iter().zip(folders) {
        let counts = Arc::new(PushCounts::default());
        let options = options_of(config, host, destination, folder)?;
        let mut pusher = Pusher::new(options, Arc::clone(&counts));
        let over = Arc::clone(is_over);
        let work = move || pusher.run(&|| over.load(Ordering::Relaxed), GRACE);
        let thread = std::thread::Builder::new().name("prof-push".to_owned()).spawn(work);
        let thread = thread.map_err(|error| {
            Failure::new(status::FAILED, format!("no thread can be started to send: {}", io_words(&error)))
        })?;
        routes.push(Route {
            name: destination.name.clone(),
            folder: folder.clone(),
            counts,
            thread: Some(thread),
            problem: String::new(),
        });
    }
    Ok(routes)
}

/// What is sent to a destination, and how.
fn options_of(
    config: &AgentConfig,
    host: &str,
    to: &PushDestination,
    folder: &Path,
) -> Result<PusherOptions, Failure> {
    let protocol = match to.protocol {
        DestinationProtocol::Pyroscope => "pyroscope",
        DestinationProtocol::Otlp => "otlp",
    };
    let url = PushUrl::parse(&format!("{protocol}+{}", to.url)).map_err(Failure::usage)?;
    let target = PushTarget {
        tenant: to.tenant.clone(),
        bearer_file: to.bearer_file.clone(),
        basic_user: to.basic.as_ref().map(|basic| basic.user.clone()),
        basic_file: to.basic.as_ref().map(|basic| basic.password_file.clone()),
        ca_file: to.ca_file.clone(),
        headers: to.headers.iter().map(|(name, value)| (name.clone(), value.clone())).collect(),
        timeout: to.timeout,
        ..PushTarget::new(url)
    };
    Ok(PusherOptions {
        target,
        folder: folder.to_owned(),
        limits: limits_of(config),
        series: SeriesOptions {
            host: HostLabel::OfSamples,
            series_labels: series_labels(config),
            other_labels: other_labels(config, host),
            ..SeriesOptions::default()
        },
        delay: sending_delay(host, config.window),
    })
}

/// Keys of labels that series have: those of the configuration, and those that its rules write.
fn series_labels(config: &AgentConfig) -> Vec<String> {
    let known = config.series_labels.iter().map(|label| label.name().to_owned());
    let written = config.rules.targets().map(str::to_owned);
    let mut keys: Vec<String> = known.chain(written).chain(config.labels.keys().cloned()).collect();
    keys.retain(|key| key != "service_name");
    keys.sort();
    keys.dedup();
    keys
}

/// The labels that all series have, for what has no labels of a process: waits that were only counted, and the lightest of too many
/// series. What rules may change is none of them.
fn other_labels(config: &AgentConfig, host: &str) -> Vec<(String, String)> {
    let mut labels = config.labels.clone();
    if config.series_labels.contains(&SeriesLabel::Host) {
        let key = SeriesLabel::Host.name().to_owned();
        labels.entry(key).or_insert_with(|| host.to_owned());
    }
    labels.into_iter().filter(|(key, _)| !config.rules.may_change(key)).collect()
}

/// Puts the numbers of the destinations and of both processes into the metrics; says what goes wrong, but not all the time.
fn say_numbers(
    metrics: &AgentMetrics,
    complaints: &mut Complaints,
    (routes, forgotten): (&mut [Route], &[PathBuf]),
) {
    let (mut bytes, mut files) = (0, 0);
    let mut answers = BTreeMap::<String, u64>::new();
    let [mut dropped, mut dropped_profiles] = [BTreeMap::<&'static str, u64>::new(), BTreeMap::new()];
    for folder in forgotten {
        let waiting = files_in(folder);
        (files, bytes) = (files + waiting.0, bytes + waiting.1);
    }
    for route in routes {
        let numbers = route.counts.numbers();
        set_numbers(metrics, &route.name, &numbers);
        for (answer, count) in &numbers.answers {
            *answers.entry(answer.clone()).or_default() += count;
        }
        for (problem, parts) in &numbers.dropped {
            *dropped_profiles.entry(problem.key()).or_default() += parts.profiles;
        }
        for (problem, recordings) in &numbers.recordings_dropped {
            *dropped.entry(problem.key()).or_default() += recordings;
        }
        let waiting = files_in(&route.folder);
        (files, bytes) = (files + waiting.0, bytes + waiting.1);
        if route.problem != numbers.last_problem {
            let (kind, words) = numbers.last_problem.split_once(' ').unwrap_or((&numbers.last_problem, ""));
            complaints.say(&format!("{}: {kind}", route.name), words);
            route.problem = numbers.last_problem;
        }
    }
    answers.iter().for_each(|(answer, count)| metrics.set_own(MetricName::PushRequests, answer, *count));
    dropped.iter().for_each(|(reason, count)| metrics.set_own(MetricName::Dropped, reason, *count));
    for (reason, count) in &dropped_profiles {
        metrics.set_own(MetricName::DroppedProfiles, reason, *count);
    }
    metrics.set(MetricName::BufferBytes, "", bytes);
    metrics.set(MetricName::BufferFiles, "", files);
    // From the one that the user has started on.
    let used = family_use(std::os::unix::process::parent_id());
    metrics.set_most(MetricName::CpuSeconds, "user", used.cpu_s);
    metrics.set(MetricName::RssBytes, "", used.resident_bytes);
}

fn set_numbers(metrics: &AgentMetrics, name: &str, numbers: &PushNumbers) {
    metrics.set_own(MetricName::PushBytes, name, numbers.bytes);
    metrics.set_own(MetricName::PushRetries, name, numbers.retries.values().sum());
    // Without any it is that of the sender before.
    if numbers.last_unix_ns > 0 {
        metrics.set(MetricName::LastPush, name, numbers.last_unix_ns / 1_000_000_000);
    }
}
