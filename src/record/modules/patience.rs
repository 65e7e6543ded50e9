//! Questions that may never be answered: a file on a server that is away, a file system made by a target to hold anyone who
//! asks.
//!
//! They are asked on a thread of their own, and waited for so long that the recording does not suffer. A thread that is not
//! back in time is left to itself.

use std::sync::Arc;
use std::sync::mpsc::{Sender, channel, sync_channel};
use std::time::{Duration, Instant};

/// The longest wait for one answer.
const LONGEST_WAIT: Duration = Duration::from_millis(500);
/// The shortest, when too much time has been lost already.
const SHORTEST_WAIT: Duration = Duration::from_millis(5);
/// Most time that may be lost in one go to answers that do not come.
const MOST_LOST: Duration = Duration::from_secs(1);
/// Rate at which lost time is forgotten: a tenth of the time may be lost in the long run.
const FORGIVENESS: u32 = 10;
/// Threads that may be away at once.
const MOST_THREADS: usize = 16;

type Question = Box<dyn FnOnce() + Send>;

/// Asks, and waits not too long.
#[derive(Debug, Default)]
pub(crate) struct Patience {
    /// The thread that asks next.
    worker: Option<Sender<Question>>,
    /// Each thread has a copy.
    threads: Arc<()>,
    /// Time that was waited in vain, as far as it is not forgotten.
    lost: Duration,
    last_loss: Option<Instant>,
    /// Answers that did not come in time.
    pub(super) unanswered: u64,
}

impl Patience {
    /// No answer ever comes: all threads are away.
    #[cfg(test)]
    pub(super) fn exhausted() -> Self {
        let patience = Patience::default();
        (0..=MOST_THREADS).for_each(|_| std::mem::forget(Arc::clone(&patience.threads)));
        patience
    }

    /// The answer to `question`; `None` if it does not come in time.
    pub(crate) fn ask<T: Send + 'static>(
        &mut self,
        question: impl FnOnce() -> T + Send + 'static,
    ) -> Option<T> {
        let (answer, answers) = sync_channel(1);
        let question: Question = Box::new(move || {
            // The asking thread may have given up.
            let _ = answer.send(question());
        });
        if !self.give(question) {
            self.unanswered += 1;
            return None;
        }
        let begun = Instant::now();
        if let Ok(answer) = answers.recv_timeout(self.longest_wait(begun)) {
            return Some(answer);
        }
        // Its thread ends when it is back.
        self.worker = None;
        self.lost = self.lost_at(begun) + begun.elapsed();
        self.last_loss = Some(Instant::now());
        self.unanswered += 1;
        None
    }

    /// Time that was lost and is not forgotten.
    fn lost_at(&self, now: Instant) -> Duration {
        let passed = self.last_loss.map_or(Duration::ZERO, |last| now.saturating_duration_since(last));
        self.lost.saturating_sub(passed / FORGIVENESS)
    }

    fn longest_wait(&self, now: Instant) -> Duration {
        MOST_LOST.saturating_sub(self.lost_at(now)).clamp(SHORTEST_WAIT, LONGEST_WAIT)
    }

    /// Hands the question to a thread. Returns whether one was available.
    fn give(&mut self, question: Question) -> bool {
        let mut question = question;
        if let Some(worker) = &self.worker {
            match worker.send(question) {
                Ok(()) => return true,
                Err(refused) => question = refused.0,
            }
        }
        if Arc::strong_count(&self.threads) > MOST_THREADS {
            return false;
        }
        let (sender, questions) = channel::<Question>();
        let counted = Arc::clone(&self.threads);
        let thread = std::thread::Builder::new().name("prof-files".to_owned()).spawn(move || {
            crate::base::privilege::keep_watching_or_end();
            questions.iter().for_each(|question| question());
            drop(counted);
        });
        if thread.is_err() || sender.send(question).is_err() {
            return false;
        }
        self.worker = Some(sender);
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_that_comes_is_given_and_one_that_does_not_is_waited_for_ever_less() {
        let mut patience = Patience::default();
        assert_eq!(patience.ask(|| 7), Some(7));
        let (held, holds) = channel::<()>();
        let holds = Arc::new(std::sync::Mutex::new(holds));
        let mut waits = Vec::new();
        for _ in 0..MOST_THREADS {
            let holds = Arc::clone(&holds);
            let begun = Instant::now();
            let never = move || holds.lock().is_ok_and(|holds| holds.recv().is_ok());
            assert_eq!(patience.ask(never), None);
            waits.push(begun.elapsed());
        }
        assert!(waits[0] >= LONGEST_WAIT);
        assert_eq!(patience.longest_wait(Instant::now()), SHORTEST_WAIT);
        assert_eq!(patience.ask(|| 8), None, "no more threads are risked");
        assert_eq!(patience.unanswered, MOST_THREADS as u64 + 1);
        drop(held);
        let all_back = Instant::now() + Duration::from_secs(60);
        while Arc::strong_count(&patience.threads) > 1 && Instant::now() < all_back {
            std::thread::sleep(Duration::from_millis(1));
        }
        patience.lost = Duration::ZERO;
        assert_eq!(patience.ask(|| 9), Some(9));
    }

    #[test]
    fn lost_time_is_forgotten_at_a_tenth_of_its_rate() {
        let now = Instant::now();
        let patience = Patience { lost: Duration::from_secs(1), last_loss: Some(now), ..Patience::default() };
        assert_eq!(patience.longest_wait(now), SHORTEST_WAIT);
        assert_eq!(patience.lost_at(now + Duration::from_secs(5)), Duration::from_millis(500));
        assert_eq!(patience.longest_wait(now + Duration::from_secs(20)), LONGEST_WAIT);
    }
}
