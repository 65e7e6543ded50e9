//! `prof push`: sends recordings that are there to a server, and says what became of them.

use super::counts::{PushCounts, PushedParts};
use super::pace::PushPace;
use super::pusher::courier_with;
use super::reply::PushProblem;
use super::shipment::{Courier, PushStep, Shipment};
use super::target::{PushProtocol, PushSecrets, PushTarget};
use crate::base::failure::{Failure, io_words, status};
use crate::base::units::{bytes, count, counted, duration};
use crate::base::{opener, privilege, safe_text};
use crate::report::{Analysis, Input, SeriesBatch, SeriesOptions};
use anyhow::Context;
use std::fmt::Write as _;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// Options of `prof push`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct PushOptions {
    /// Recordings, and folders of some.
    pub(crate) files: Vec<PathBuf>,
    pub(crate) target: PushTarget,
    pub(crate) series: SeriesOptions,
    /// Whether recordings are sent as if they had just ended.
    pub(crate) is_now: bool,
    /// The longest time without any success.
    pub(crate) patience: Duration,
    /// Whether to show what would be sent, and send nothing.
    pub(crate) is_dry_run: bool,
    /// Whether to print nothing of what was sent.
    pub(crate) is_quiet: bool,
}

/// What has to be read before rights are given up.
#[derive(Debug)]
pub(crate) struct PushReady {
    /// The recordings.
    pub(crate) files: Vec<PathBuf>,
    secrets: PushSecrets,
}

/// Reads the secrets, and which recordings the folders have.
///
/// # Errors
///
/// When a file or folder cannot be read, or there is no recording in any folder.
pub(crate) fn prepare(options: &PushOptions) -> Result<PushReady, Failure> {
    options.target.check()?;
    let secrets =
        if options.is_dry_run { PushSecrets::default() } else { PushSecrets::read(&options.target)? };
    let mut files = Vec::new();
    for path in &options.files {
        match privilege::as_user(|| path.is_dir()) {
            true => files.extend(recordings_in(path)?),
            false => files.push(path.clone()),
        }
    }
    if files.is_empty() {
        let message = "there is nothing to send: no folder has a recording, `*.data`";
        return Err(Failure::new(status::NO_MATCH, message));
    }
    Ok(PushReady { files, secrets })
}

fn recordings_in(folder: &Path) -> Result<Vec<PathBuf>, Failure> {
    let names = opener::names_in(folder).map_err(|error| {
        let why = io_words(&error);
        Failure::new(status::FAILED, format!("cannot read the folder `{}`: {why}", folder.display()))
    })?;
    let mut files: Vec<PathBuf> = names.into_iter().map(|name| folder.join(name)).collect();
    files.sort();
    Ok(files)
}

/// What became of all recordings.
#[derive(Debug, Default)]
struct PushedFiles {
    sent: usize,
    empty: usize,
    failed: usize,
}

/// Sends; returns the exit status.
///
/// # Errors
///
/// When there is no client, or nothing can be printed.
pub(crate) fn run(options: &PushOptions, ready: PushReady) -> anyhow::Result<u8> {
    let mut files = PushedFiles::default();
    let mut sender = match options.is_dry_run {
        true => None,
        false => Some(VerbSender::new(options, ready.secrets)?),
    };
    if let Some(warning) = options.target.warning().filter(|_| !options.is_dry_run) {
        say(&format!("warning: {warning}"));
    }
    for path in &ready.files {
        let batch = match loaded(path, options) {
            Ok(batch) => batch,
            Err(error) => {
                let of_status = error.chain().find_map(|cause| cause.downcast_ref::<Failure>());
                match of_status.map(|failure| failure.status) {
                    Some(status::NO_MATCH) => files.empty += 1,
                    // What is wrong with the command line is wrong with it for all files.
                    Some(status::USAGE) => return Err(error),
                    _ => files.failed += 1,
                }
                explain(path, &error);
                continue;
            }
        };
        match &mut sender {
            None => {
                print(&listing(path, Shipment::new(batch), options.target.url.protocol))?;
                files.sent += 1;
            }
            Some(sender) => match sender.send(path, batch)? {
                true => files.sent += 1,
                false => files.failed += 1,
            },
        }
    }
    Ok(match files {
        PushedFiles { failed: 1.., .. } => status::FAILED,
        PushedFiles { sent: 0, .. } => status::NO_MATCH,
        _ => status::OK,
    })
}

fn loaded(path: &Path, options: &PushOptions) -> anyhow::Result<SeriesBatch> {
    let analysis = Analysis::load(&Input::File(path.to_owned()))?;
    let mut series = options.series.clone();
    if options.is_now {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        series.ended_unix_ns = u64::try_from(now.as_nanos()).ok();
    } else if analysis.profile.meta.start_unix_ns == 0 {
        return Err(Failure::new(status::FAILED, "it is not known when this was recorded")
            .hint("to send it as if recorded just now:  --now")
            .into());
    }
    Ok(SeriesBatch::of(&analysis, &series)?)
}

/// Sends one recording after the other.
struct VerbSender<'o> {
    options: &'o PushOptions,
    courier: Box<dyn Courier>,
    pace: PushPace,
    counts: PushCounts,
    /// Until when something has to succeed, once it has been tried.
    until: Option<Instant>,
}

impl<'o> VerbSender<'o> {
    fn new(options: &'o PushOptions, secrets: PushSecrets) -> Result<Self, Failure> {
        let courier = courier_with(&options.target, secrets)?;
        Ok(VerbSender::of(options, courier))
    }

    fn of(options: &'o PushOptions, courier: Box<dyn Courier>) -> Self {
        VerbSender { options, courier, pace: PushPace::new(), counts: PushCounts::default(), until: None }
    }

    /// Whether all of it was delivered.
    fn send(&mut self, path: &Path, batch: SeriesBatch) -> anyhow::Result<bool> {
        let mut shipment = Shipment::new(batch);
        self.ship(&mut shipment);
        if !self.options.is_quiet && shipment.requests > 0 {
            print(&summary(path, &shipment, self.options))?;
        }
        for (problem, (parts, words)) in &shipment.dropped {
            let what = parts_words(*parts);
            let url = &self.options.target.url;
            say(&format!("prof: `{}`: {what} not delivered to {url}: {words}", path.display()));
            if let Some(advice) = problem.advice() {
                say(&format!("  {advice}"));
            }
        }
        Ok(shipment.dropped.is_empty())
    }

    /// Sends until nothing is left, or for as long as is to be tried.
    fn ship(&mut self, shipment: &mut Shipment) {
        let (mut has_said, mut tries) = (false, 0u64);
        let begun = Instant::now();
        loop {
            let delivered = shipment.delivered;
            let until = *self.until.get_or_insert_with(|| Instant::now() + self.options.patience);
            match shipment.step(self.courier.as_mut(), &mut self.pace, &self.counts) {
                PushStep::More => self.until = None,
                PushStep::Done => {
                    self.until = None;
                    return;
                }
                PushStep::Wait { wait, asked, problem, words } => {
                    tries += 1;
                    // A part of the request may have arrived.
                    let has_some = shipment.delivered != delivered;
                    let until = if has_some { Instant::now() + self.options.patience } else { until };
                    self.until = Some(until);
                    let is_for_the_user = matches!(problem, PushProblem::Tls | PushProblem::Refused);
                    let left = until.saturating_duration_since(Instant::now());
                    let Some(wait) = wait_within(wait, asked, left).filter(|_| !is_for_the_user) else {
                        let length = u64::try_from(begun.elapsed().as_nanos()).unwrap_or(u64::MAX);
                        let tried = match tries {
                            1 => String::new(),
                            _ => format!(" (tried {} times in {})", count(tries), duration(length)),
                        };
                        return shipment.give_up(problem, &format!("{words}{tried}"), &self.counts);
                    };
                    if !std::mem::replace(&mut has_said, true) && !self.options.is_quiet {
                        say(&format!("note: {} does not take it yet: {words}", self.options.target.url));
                    }
                    std::thread::sleep(wait);
                }
            }
        }
    }
}

/// How long to wait for the next try, when so long is left; `None` if there is no other: the time is over, or will be when the server
/// wants to be asked again. The last try is at the end of the time.
fn wait_within(wait: Duration, asked: Option<Duration>, left: Duration) -> Option<Duration> {
    let is_too_early = asked.is_some_and(|asked| asked > left);
    (!left.is_zero() && !is_too_early).then(|| wait.min(left))
}

fn parts_words(parts: PushedParts) -> String {
    let profiles = counted(parts.profiles, "profile");
    match parts.samples {
        0 => profiles,
        samples => format!("{profiles} with {}", counted(samples, "distinct sample")),
    }
}

/// A line on what was delivered.
fn summary(path: &Path, shipment: &Shipment, options: &PushOptions) -> String {
    let parts = parts_words(shipment.delivered);
    let (size, requests) = (bytes(shipment.bytes), counted(shipment.requests, "request"));
    let url = &options.target.url;
    format!("`{}` → {url}: {parts}, {size} in {requests}\n", path.display())
}

/// What would be sent of a recording.
fn listing(path: &Path, shipment: Shipment, protocol: PushProtocol) -> String {
    let mut text = format!("`{}`\n", path.display());
    for series in &shipment.batch().series {
        let labels = series.labels.iter().map(|(key, value)| format!("{key}={value}"));
        let sums = series.sums();
        let sums = sums.iter().map(|(name, unit, sum)| format!("{name} {sum} {unit}"));
        let (labels, sums) = (labels.collect::<Vec<_>>().join(","), sums.collect::<Vec<_>>().join(", "));
        let samples = counted(series.samples() as u64, "distinct sample");
        let _ = writeln!(text, "  {} {{{labels}}}: {samples}, {sums}", series.event.name);
    }
    for (number, (chunks, body)) in (1..).zip(shipment.requests(protocol)) {
        let profiles = counted(chunks.len() as u64, "profile");
        let (packed, raw) = (bytes(body.bytes.len() as u64), bytes(body.raw_bytes as u64));
        let _ = writeln!(text, "  request {number}: {profiles}, {packed} ({raw} before compression)");
    }
    text
}

fn explain(path: &Path, error: &anyhow::Error) {
    let (_, lines) = crate::base::failure::explain(error);
    for (at, line) in lines.iter().enumerate() {
        match line.strip_prefix("prof: ").filter(|_| at == 0 && !line.contains(&*path.to_string_lossy())) {
            Some(rest) => say(&format!("prof: `{}`: {rest}", path.display())),
            None => say(line),
        }
    }
}

fn say(line: &str) {
    // If standard error is closed, there is nowhere to print it.
    let _ = writeln!(io::stderr().lock(), "{}", safe_text::message(line));
}

fn print(text: &str) -> anyhow::Result<()> {
    let is_terminal = io::stdout().is_terminal();
    let mut out = io::stdout().lock();
    let lines: Vec<_> = text.lines().map(|line| safe_text::message(line).into_owned() + "\n").collect();
    out.write_all(safe_text::for_locale(&lines.concat(), is_terminal).as_bytes())
        .and_then(|()| out.flush())
        .context("cannot write to standard output")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::push::reply::PushReply;
    use crate::push::request::PushBody;
    use crate::push::target::PushUrl;
    use crate::push::tests::batch;
    use std::sync::{Arc, Mutex};

    /// A server that takes nothing, and notes when it was asked.
    #[derive(Debug)]
    struct Busy {
        asks_for: Option<Duration>,
        asked_at: Arc<Mutex<Vec<Instant>>>,
    }

    impl Courier for Busy {
        fn protocol(&self) -> PushProtocol {
            PushProtocol::Pyroscope
        }

        fn send(&mut self, _: &PushBody) -> PushReply {
            self.asked_at.lock().unwrap().push(Instant::now());
            let (problem, words) = (PushProblem::Connection, "refused".to_owned());
            PushReply::Later { problem, after: self.asks_for, words, is_of_request: false }
        }

        fn status(&self) -> Option<u16> {
            None
        }
    }

    /// When a server was asked, in time since the first time, and when it was given up.
    fn tries(patience: Duration, asks_for: Option<Duration>) -> (Vec<Duration>, Duration) {
        let options = PushOptions {
            files: Vec::new(),
            target: PushTarget::new(PushUrl::parse("pyroscope+http://localhost:1").unwrap()),
            series: SeriesOptions::default(),
            is_now: true,
            patience,
            is_dry_run: false,
            is_quiet: true,
        };
        let asked_at = Arc::default();
        let courier = Box::new(Busy { asks_for, asked_at: Arc::clone(&asked_at) });
        assert!(!VerbSender::of(&options, courier).send(Path::new("x.data"), batch(9)).unwrap());
        let asked_at = asked_at.lock().unwrap();
        let since = |at: Instant| at - asked_at[0];
        (asked_at.iter().map(|at| since(*at)).collect(), since(Instant::now()))
    }

    #[test]
    fn a_server_is_tried_to_the_end_of_the_time() {
        let patience = Duration::from_millis(1300);
        let (tries, end) = tries(patience, None);
        let last = *tries.last().unwrap();
        // The time begins a little before the first try.
        assert!(last + Duration::from_millis(500) >= patience, "{tries:?}");
        assert!(tries.len() >= 3 && end < patience * 2, "{tries:?} {end:?}");
    }

    #[test]
    fn a_server_is_not_asked_before_it_wants_to_be() {
        let (tries, end) = tries(Duration::from_secs(2), Some(Duration::from_secs(60)));
        assert!(tries.len() == 1 && end < Duration::from_secs(1), "{tries:?} {end:?}");
        let second = Duration::from_secs(1);
        assert_eq!(wait_within(3 * second, Some(second), 2 * second), Some(2 * second));
        assert_eq!(wait_within(second, None, Duration::ZERO), None);
    }
}
