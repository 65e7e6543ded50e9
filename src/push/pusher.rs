//! Sends the recordings of a folder as they come, one after the other: the thread of an agent. What cannot be sent now waits, and
//! what waits too long is dropped and counted.

use super::buffer::{BufferLimits, PushBuffer, WaitingFile};
use super::counts::PushCounts;
use super::pace::PushPace;
use super::reply::PushProblem;
use super::shipment::{Courier, PushStep, Shipment, count_retry};
use super::target::{PushSecrets, PushTarget};
use crate::base::failure::{Failure, io_words, status};
use crate::report::{Analysis, Input, SeriesBatch, SeriesOptions};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The longest that the thread sleeps before it looks whether it is to end.
const TICK: Duration = Duration::from_millis(500);
/// Time after which secrets that cannot be read are read again.
const SECRETS_AGAIN: Duration = Duration::from_secs(10);
/// Time between two looks into the folder.
const LOOK: Duration = Duration::from_secs(1);

/// What is sent from where to where.
#[derive(Debug, Clone)]
pub(crate) struct PusherOptions {
    pub(crate) target: PushTarget,
    /// Folder of the recordings that wait: `*.data`, which are removed once they are delivered.
    pub(crate) folder: PathBuf,
    pub(crate) limits: BufferLimits,
    pub(crate) series: SeriesOptions,
    /// How old a recording is when it is sent, so that many hosts do not send at once. What is older is sent at once.
    pub(crate) delay: Duration,
}

/// Sends what comes into a folder.
pub(crate) struct Pusher {
    options: PusherOptions,
    counts: Arc<PushCounts>,
    buffer: PushBuffer,
    pace: PushPace,
    /// The secrets of the client, as they were read last.
    secrets: PushSecrets,
}

impl Pusher {
    /// Makes one; nothing is sent yet.
    pub(crate) fn new(options: PusherOptions, counts: Arc<PushCounts>) -> Self {
        let buffer = PushBuffer::new(options.folder.clone(), options.limits);
        Pusher { options, counts, buffer, pace: PushPace::new(), secrets: PushSecrets::default() }
    }

    /// Sends until `is_over`: then each recording that still waits is tried once, for as long as `grace` allows, and stays in the
    /// folder if that fails.
    ///
    /// Files of secrets that cannot be read, or have none, are read again until they do; other destinations have nothing of it.
    pub(crate) fn run(&mut self, is_over: &dyn Fn() -> bool, grace: Duration) {
        let Some(mut courier) = self.first_courier(is_over) else { return };
        while !is_over() {
            self.send_waiting(&mut courier, is_over);
            let until = Instant::now() + LOOK;
            while !is_over() && Instant::now() < until {
                std::thread::sleep(TICK);
            }
        }
        let end = Instant::now() + grace;
        for file in self.pruned() {
            if Instant::now() >= end {
                break;
            }
            let is_late = || Instant::now() >= end;
            if !self.send_file(&file, &mut courier, &is_late, true) {
                break;
            }
        }
    }

    /// What sends, once its secrets can be read; `None` if it was over before.
    fn first_courier(&mut self, is_over: &dyn Fn() -> bool) -> Option<Box<dyn Courier>> {
        loop {
            let made = PushSecrets::read(&self.options.target)
                .and_then(|secrets| Ok((courier_with(&self.options.target, secrets.clone())?, secrets)));
            let problem = PushProblem::Refused;
            match made {
                Ok((courier, secrets)) => {
                    self.secrets = secrets;
                    return Some(courier);
                }
                Err(failure) => {
                    self.counts.lock().last_problem = format!("{}: {}", problem.key(), failure.message);
                }
            }
            count_retry(&self.counts, problem);
            self.drop_pruned();
            if !self.sleep(SECRETS_AGAIN, is_over) {
                return None;
            }
        }
    }

    /// Sends all that waits, as far as that is possible before it is over.
    fn send_waiting(&mut self, courier: &mut Box<dyn Courier>, is_over: &dyn Fn() -> bool) {
        let files = self.pruned();
        let looked_at = Instant::now();
        for file in files {
            let age = file.age.saturating_add(looked_at.elapsed());
            if !self.sleep(self.options.delay.saturating_sub(age), is_over) {
                return;
            }
            if !self.send_file(&file, courier, is_over, false) {
                return;
            }
            // What has come meanwhile may have to be dropped.
            self.drop_pruned();
        }
    }

    /// The files that wait and may, the oldest first.
    fn pruned(&mut self) -> Vec<WaitingFile> {
        self.drop_pruned();
        self.buffer.waiting().unwrap_or_else(|error| {
            self.counts.lock().last_problem =
                format!("the folder of what waits cannot be read: {}", io_words(&error));
            Vec::new()
        })
    }

    fn drop_pruned(&mut self) {
        for (file, problem) in self.buffer.prune().unwrap_or_default() {
            let name = file.path.display();
            self.counts.drop_recording(problem, format!("{}: `{name}` was not sent", problem.key()));
        }
    }

    /// Sends a recording until it is delivered or has to be dropped; false if it still waits.
    fn send_file(
        &mut self,
        file: &WaitingFile,
        courier: &mut Box<dyn Courier>,
        is_over: &dyn Fn() -> bool,
        is_last_try: bool,
    ) -> bool {
        // One that was pruned in between is counted already.
        if !file.path.exists() {
            return true;
        }
        self.renew(courier);
        let input = Input::File(file.path.clone());
        let analysis = Analysis::load_quietly(&input).map_err(|error| format!("{error:#}"));
        let batch = analysis.map(|analysis| SeriesBatch::of(&analysis, &self.options.series));
        let mut shipment = match batch {
            Ok(Ok(batch)) => Shipment::new(batch),
            // A window in which nothing ran has nothing to send.
            Ok(Err(failure)) if failure.status == status::NO_MATCH => {
                self.counts.lock().recordings += 1;
                self.buffer.remove(&file.path);
                return true;
            }
            Ok(Err(failure)) => return self.refuse(file, &failure.to_string()),
            Err(words) => return self.refuse(file, &words),
        };
        let begun = Instant::now();
        loop {
            match shipment.step(courier.as_mut(), &mut self.pace, &self.counts) {
                PushStep::More => {}
                PushStep::Done => break,
                PushStep::Wait { .. } if is_last_try || is_over() => return false,
                PushStep::Wait { wait, problem, words, .. } => {
                    if file.age.saturating_add(begun.elapsed()) > self.options.limits.most_age {
                        shipment.give_up(PushProblem::TooOld, &words, &self.counts);
                        break;
                    }
                    count_retry(&self.counts, problem);
                    if !self.sleep(wait, is_over) {
                        return false;
                    }
                    self.renew(courier);
                    // This one, too, may have had to go.
                    self.drop_pruned();
                    if !file.path.exists() {
                        shipment.give_up(PushProblem::Full, &words, &self.counts);
                        return true;
                    }
                }
            }
        }
        shipment.finish(&self.counts);
        self.buffer.remove(&file.path);
        true
    }

    /// Takes new secrets, if their files have some: tokens are only good for a time.
    fn renew(&mut self, courier: &mut Box<dyn Courier>) {
        let Ok(secrets) = PushSecrets::read(&self.options.target) else { return };
        if secrets == self.secrets {
            return;
        }
        if let Ok(new) = courier_with(&self.options.target, secrets.clone()) {
            (*courier, self.secrets) = (new, secrets);
            self.pace.reset();
        }
    }

    fn refuse(&mut self, file: &WaitingFile, words: &str) -> bool {
        let words = format!("unreadable: `{}` cannot be sent: {words}", file.path.display());
        self.counts.drop_recording(PushProblem::Unreadable, words);
        self.buffer.remove(&file.path);
        true
    }

    /// Sleeps; false if it was over before.
    fn sleep(&self, wait: Duration, is_over: &dyn Fn() -> bool) -> bool {
        let until = Instant::now() + wait;
        while Instant::now() < until {
            if is_over() {
                return false;
            }
            std::thread::sleep(TICK.min(until.saturating_duration_since(Instant::now())));
        }
        true
    }
}

/// The client of a server.
///
/// # Errors
///
/// When the file of authorities has none, or this program was built without a client.
#[cfg(feature = "push")]
pub(super) fn courier_with(target: &PushTarget, secrets: PushSecrets) -> Result<Box<dyn Courier>, Failure> {
    Ok(Box::new(super::client::PushClient::new(target, secrets)?))
}

#[cfg(not(feature = "push"))]
pub(super) fn courier_with(_: &PushTarget, _: PushSecrets) -> Result<Box<dyn Courier>, Failure> {
    Err(Failure::new(status::FAILED, "this prof was built without sending")
        .hint("build it with the feature `push`"))
}
