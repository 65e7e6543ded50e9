//! A recording on its way to a server: its parts that are not there yet, and what happens to them.

use super::counts::{PushCounts, PushedParts};
use super::named::{Fate, NamedSeries, fates};
use super::pace::PushPace;
use super::reply::{PushProblem, PushReply};
use super::request::{PushBody, any_body_of, body_of};
use super::target::PushProtocol;
use crate::report::{SeriesBatch, SeriesChunk, halves};
use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// Most tries of one request that makes the server fail, in ten minutes and more: it may be the request that does.
const MOST_FAILURES: u32 = 20;

/// Sends requests.
pub(super) trait Courier {
    /// The language of the server.
    fn protocol(&self) -> PushProtocol;

    /// Sends one, and waits for the answer.
    fn send(&mut self, body: &PushBody) -> PushReply;

    /// The status of the last answer; `None` if there was none.
    fn status(&self) -> Option<u16>;

    /// The series that the last answer says have failed, while the server has the others; none if it does not say.
    fn named(&self) -> &[NamedSeries] {
        &[]
    }
}

/// What a step of a shipment came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PushStep {
    /// Something was delivered, divided or given up; there is more.
    More,
    /// The same is to be tried after this time, of which the server has asked for a part, and why.
    Wait { wait: Duration, asked: Option<Duration>, problem: PushProblem, words: String },
    /// Nothing is left.
    Done,
}

/// A recording on its way.
#[derive(Debug)]
pub(super) struct Shipment {
    batch: SeriesBatch,
    /// Requests to be sent, the next one last.
    pending: Vec<Vec<SeriesChunk>>,
    /// Failures of the server at the next one.
    failures: u32,
    pub(super) requests: u64,
    pub(super) bytes: u64,
    pub(super) delivered: PushedParts,
    /// What was given up, by reason, with what the server said last.
    pub(super) dropped: BTreeMap<PushProblem, (PushedParts, String)>,
}

impl Shipment {
    pub(super) fn new(batch: SeriesBatch) -> Self {
        let pending = vec![batch.chunks()];
        Shipment {
            batch,
            pending,
            failures: 0,
            requests: 0,
            bytes: 0,
            delivered: PushedParts::default(),
            dropped: BTreeMap::new(),
        }
    }

    /// What is sent.
    pub(super) fn batch(&self) -> &SeriesBatch {
        &self.batch
    }

    /// The requests that it takes, each small enough; nothing is sent.
    pub(super) fn requests(mut self, protocol: PushProtocol) -> Vec<(Vec<SeriesChunk>, PushBody)> {
        let mut all = Vec::new();
        while let Some((chunks, body)) = self.next(protocol) {
            all.push((chunks, body));
        }
        all
    }

    /// The next request.
    fn next(&mut self, protocol: PushProtocol) -> Option<(Vec<SeriesChunk>, PushBody)> {
        loop {
            let chunks = self.pending.pop()?;
            if let Some(body) = body_of(protocol, &self.batch, &chunks) {
                return Some((chunks, body));
            }
            match halves(&chunks) {
                Some([first, second]) => self.pending.extend([second, first]),
                // A sample alone that is so large is the server's to refuse.
                None => return any_body_of(protocol, &self.batch, &chunks).map(|body| (chunks, body)),
            }
        }
    }

    /// Sends the next request.
    pub(super) fn step(
        &mut self,
        courier: &mut dyn Courier,
        pace: &mut PushPace,
        counts: &PushCounts,
    ) -> PushStep {
        let Some((chunks, body)) = self.next(courier.protocol()) else { return PushStep::Done };
        let reply = courier.send(&body);
        counts.answered(courier.status(), reply.word());
        let chunks = match reply {
            PushReply::Taken { .. } => chunks,
            PushReply::Later { .. } => self.without_stored(chunks, &body, courier.named(), false, counts),
            _ => self.without_stored(chunks, &body, courier.named(), true, counts),
        };
        match reply {
            // Of all that was sent, some is delivered, and the rest only has to be sent again.
            _ if chunks.is_empty() => {}
            PushReply::Taken { refused, words } => {
                pace.reset();
                self.take(&chunks, &body, refused, words, counts);
            }
            PushReply::TooLarge { words } => match halves(&chunks) {
                Some([first, second]) => {
                    count_retry(counts, PushProblem::TooLarge);
                    self.pending.extend([second, first]);
                }
                None => self.drop_parts(&chunks, PushProblem::TooLarge, &words, counts),
            },
            PushReply::Never { problem, words } => self.drop_parts(&chunks, problem, &words, counts),
            PushReply::Later { problem, after, words, is_of_request } => {
                self.failures += u32::from(is_of_request);
                if self.failures >= MOST_FAILURES {
                    self.drop_parts(&chunks, problem, &words, counts);
                } else {
                    self.pending.push(chunks);
                    counts.lock().last_problem = format!("{}: {words}", problem.key());
                    return PushStep::Wait { wait: pace.wait(after), asked: after, problem, words };
                }
            }
        }
        self.failures = 0;
        if self.pending.is_empty() { PushStep::Done } else { PushStep::More }
    }

    /// Gives up all that is left.
    pub(super) fn give_up(&mut self, problem: PushProblem, words: &str, counts: &PushCounts) {
        for chunks in std::mem::take(&mut self.pending) {
            self.drop_parts(&chunks, problem, words, counts);
        }
    }

    /// Counts a recording of which nothing is left.
    pub(super) fn finish(&self, counts: &PushCounts) {
        let mut numbers = counts.lock();
        match self.dropped.keys().next() {
            None => numbers.recordings += 1,
            Some(problem) => *numbers.recordings_dropped.entry(*problem).or_default() += 1,
        }
    }

    /// What of a request is not at the server, where its answer names the series that failed; the others are delivered. Where the
    /// answer `is_final`, what may be taken another time is put aside to be sent again.
    fn without_stored(
        &mut self,
        chunks: Vec<SeriesChunk>,
        body: &PushBody,
        named: &[NamedSeries],
        is_final: bool,
        counts: &PushCounts,
    ) -> Vec<SeriesChunk> {
        let Some(fates) = fates(named, &body.series, chunks.len()) else { return chunks };
        let of = |wanted: &[Fate]| -> Vec<SeriesChunk> {
            let both = chunks.iter().zip(&fates).filter(|(_, fate)| wanted.contains(fate));
            both.map(|(chunk, _)| chunk.clone()).collect()
        };
        let [stored, failed, busy] = [Fate::Stored, Fate::Failed, Fate::Busy].map(|fate| of(&[fate]));
        if !stored.is_empty() {
            // What is left is another request.
            self.failures = 0;
            let bytes = body.bytes.len() * stored.len() / chunks.len();
            self.deliver(self.parts(&stored), bytes as u64, counts);
        }
        // Without any progress the same would be sent again and again.
        if !is_final || (stored.is_empty() && failed.is_empty()) {
            return of(&[Fate::Failed, Fate::Busy]);
        }
        if !busy.is_empty() {
            self.pending.push(busy);
        }
        failed
    }

    fn take(
        &mut self,
        chunks: &[SeriesChunk],
        body: &PushBody,
        refused: u64,
        words: String,
        counts: &PushCounts,
    ) {
        let mut parts = self.parts(chunks);
        // Which profiles a receiver has refused it does not say, nor how many samples they have.
        let lost = PushedParts { profiles: refused.min(parts.profiles), samples: 0 };
        parts.profiles -= lost.profiles;
        self.deliver(parts, body.bytes.len() as u64, counts);
        if lost.profiles > 0 {
            self.drop_counted(lost, PushProblem::Rejected, &words, counts);
        }
    }

    /// Counts what a server has taken by one request.
    fn deliver(&mut self, parts: PushedParts, bytes: u64, counts: &PushCounts) {
        (self.requests, self.bytes) = (self.requests + 1, self.bytes + bytes);
        self.delivered.add(parts);
        let mut numbers = counts.lock();
        (numbers.requests, numbers.bytes) = (numbers.requests + 1, numbers.bytes + bytes);
        numbers.delivered.add(parts);
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        numbers.last_unix_ns = u64::try_from(now.as_nanos()).unwrap_or(u64::MAX);
    }

    fn drop_parts(&mut self, chunks: &[SeriesChunk], problem: PushProblem, words: &str, counts: &PushCounts) {
        self.drop_counted(self.parts(chunks), problem, words, counts);
    }

    fn drop_counted(&mut self, parts: PushedParts, problem: PushProblem, words: &str, counts: &PushCounts) {
        let dropped = self.dropped.entry(problem).or_default();
        dropped.0.add(parts);
        dropped.1 = words.to_owned();
        let mut numbers = counts.lock();
        numbers.dropped.entry(problem).or_default().add(parts);
        numbers.last_problem = format!("{}: {words}", problem.key());
    }

    fn parts(&self, chunks: &[SeriesChunk]) -> PushedParts {
        let samples = chunks.iter().map(|chunk| chunk.rows.len() as u64).sum();
        PushedParts { profiles: chunks.len() as u64, samples }
    }
}

/// Counts a try that is repeated.
pub(super) fn count_retry(counts: &PushCounts, problem: PushProblem) {
    *counts.lock().retries.entry(problem).or_default() += 1;
}
