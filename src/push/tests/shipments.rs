//! Recordings on their way to a server that only pretends to be one.

use super::{batch, running_ns};
use crate::push::counts::PushCounts;
use crate::push::pace::PushPace;
use crate::push::reply::{PushProblem, PushReply};
use crate::push::request::{PushBody, PushRequestMessage, RawSample};
use crate::push::shipment::{Courier, PushStep, Shipment};
use crate::push::target::PushProtocol;
use flate2::read::GzDecoder;
use prost::Message;
use std::io::Read;
use std::time::Duration;

/// `Profile` of pprof, as far as it is added up here.
#[derive(Clone, PartialEq, prost::Message)]
struct SummedProfile {
    #[prost(message, repeated, tag = "2")]
    samples: Vec<crate::report::pprof_messages::PprofSample>,
}

/// A request of push.v1.
pub(super) fn message_in(bytes: &[u8]) -> PushRequestMessage {
    let mut message = Vec::new();
    GzDecoder::new(bytes).read_to_end(&mut message).unwrap();
    PushRequestMessage::decode(&*message).unwrap()
}

/// Running time in a request of push.v1, ns.
pub(super) fn running_in(bytes: &[u8]) -> u64 {
    message_in(bytes).series.iter().flat_map(|series| &series.samples).map(running_of).sum()
}

/// Running time in a profile, ns.
pub(super) fn running_of(sample: &RawSample) -> u64 {
    assert!(sample.profile.len() < 3 << 20, "{} bytes", sample.profile.len());
    let profile = SummedProfile::decode(&*sample.profile).unwrap();
    assert!(profile.samples.len() <= 16_000);
    profile.samples.iter().map(|sample| sample.values[1] as u64).sum()
}

/// Answers by a rule, and adds up what it takes.
struct Pretended<F> {
    answer: F,
    tries: usize,
    running_ns: u64,
}

impl<F: FnMut(usize, &PushBody) -> PushReply> Courier for Pretended<F> {
    fn protocol(&self) -> PushProtocol {
        PushProtocol::Pyroscope
    }

    fn status(&self) -> Option<u16> {
        None
    }

    fn send(&mut self, body: &PushBody) -> PushReply {
        let reply = (self.answer)(self.tries, body);
        self.tries += 1;
        if matches!(reply, PushReply::Taken { .. }) {
            self.running_ns += running_in(&body.bytes);
        }
        reply
    }
}

fn taken() -> PushReply {
    PushReply::Taken { refused: 0, words: String::new() }
}

fn later(problem: PushProblem) -> PushReply {
    PushReply::Later {
        problem,
        after: None,
        words: "busy".to_owned(),
        is_of_request: problem == PushProblem::Server,
    }
}

/// Sends until all is delivered or given up, without waiting.
fn sent<F: FnMut(usize, &PushBody) -> PushReply>(
    stacks: usize,
    answer: F,
) -> (Pretended<F>, Shipment, PushCounts) {
    let mut courier = Pretended { answer, tries: 0, running_ns: 0 };
    let (mut shipment, mut pace, counts) =
        (Shipment::new(batch(stacks)), PushPace::new(), PushCounts::default());
    while shipment.step(&mut courier, &mut pace, &counts) != PushStep::Done {
        assert!(courier.tries < 100_000, "it never ends");
    }
    shipment.finish(&counts);
    (courier, shipment, counts)
}

#[test]
fn a_large_recording_takes_several_requests_that_are_the_whole() {
    let (courier, shipment, counts) = sent(90_000, |_, _| taken());
    assert!(courier.tries > 3, "{}", courier.tries);
    assert_eq!(courier.running_ns, running_ns(90_000));
    assert_eq!(shipment.delivered.samples, 90_000);
    let numbers = counts.numbers();
    assert_eq!(
        (numbers.recordings, numbers.delivered, numbers.requests),
        (1, shipment.delivered, courier.tries as u64)
    );
    assert!(numbers.dropped.is_empty() && numbers.last_unix_ns > 0);
}

#[test]
fn what_is_too_large_is_divided_until_it_is_not() {
    let (courier, shipment, counts) = sent(900, |_, body| match body.raw_bytes {
        20_000.. => PushReply::TooLarge { words: "status 413".to_owned() },
        _ => taken(),
    });
    assert_eq!((courier.running_ns, shipment.dropped.len()), (running_ns(900), 0));
    assert!(counts.numbers().retries[&PushProblem::TooLarge] > 3);
    // A server that takes nothing gets each sample once, and nothing is unaccounted for.
    let (courier, shipment, _) = sent(20, |_, _| PushReply::TooLarge { words: "status 413".to_owned() });
    assert_eq!((courier.running_ns, shipment.delivered.profiles), (0, 0));
    assert_eq!(shipment.dropped[&PushProblem::TooLarge].0.samples, 20);
}

#[test]
fn a_request_that_makes_the_server_fail_does_not_hold_up_the_others() {
    let (courier, shipment, counts) =
        sent(60_000, |tries, _| if tries < 20 { later(PushProblem::Server) } else { taken() });
    let (dropped, words) = &shipment.dropped[&PushProblem::Server];
    assert_eq!(words, "busy");
    assert!(dropped.samples > 0);
    assert_eq!(dropped.samples + shipment.delivered.samples, 60_000);
    assert_eq!(courier.running_ns, running_ns(shipment.delivered.samples as usize));
    assert_eq!(counts.numbers().recordings_dropped[&PushProblem::Server], 1);
}

#[test]
fn a_server_that_is_busy_is_asked_as_often_as_it_takes() {
    let (courier, shipment, _) =
        sent(9, |tries, _| if tries < 50 { later(PushProblem::Throttled) } else { taken() });
    assert_eq!((courier.running_ns, shipment.delivered.samples), (running_ns(9), 9));
}

#[test]
fn what_a_server_refuses_is_counted_with_its_words() {
    let never = |problem| PushReply::Never { problem, words: "status 400: `no`".to_owned() };
    let (_, shipment, counts) = sent(9, |_, _| never(PushProblem::Rejected));
    assert_eq!(shipment.dropped[&PushProblem::Rejected].0.samples, 9);
    assert_eq!(counts.numbers().last_problem, "rejected: status 400: `no`");
    let (_, shipment, _) = sent(9, |_, _| PushReply::Taken { refused: 2, words: "why".to_owned() });
    assert_eq!(shipment.dropped[&PushProblem::Rejected].0.profiles, 2);
    assert_eq!(shipment.delivered.profiles, 1);
}

#[test]
fn waits_grow_and_what_the_server_asks_for_is_kept() {
    let mut courier = Pretended {
        answer: |_, _: &PushBody| PushReply::Later {
            problem: PushProblem::Throttled,
            after: Some(Duration::from_secs(9)),
            words: String::new(),
            is_of_request: false,
        },
        tries: 0,
        running_ns: 0,
    };
    let mut shipment = Shipment::new(batch(1));
    let step = shipment.step(&mut courier, &mut PushPace::new(), &PushCounts::default());
    assert!(matches!(step, PushStep::Wait { wait, .. } if wait >= Duration::from_secs(9)), "{step:?}");
}
