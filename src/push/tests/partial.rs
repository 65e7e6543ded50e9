//! Servers that take some series of a request and not the others, as Pyroscope does.

use super::servers::{reply, serve, target};
use super::shipments::{message_in, running_in, running_of};
use super::{batch, running_ns};
use crate::push::counts::PushCounts;
use crate::push::named::{NamedSeries, named_in};
use crate::push::pace::PushPace;
use crate::push::pusher::courier_with;
use crate::push::reply::{HttpAnswer, PushProblem, PushReply, said};
use crate::push::request::{PushBody, RawProfileSeries, body_of};
use crate::push::shipment::{Courier, PushStep, Shipment};
use crate::push::target::{PushProtocol, PushSecrets};
use std::time::{Duration, SystemTime};

const RATE: &str = "resource_exhausted: push rate limit (4.0 MiB) exceeded while adding 90 KiB";
const LABELS: &str = "invalid_argument: profile series '{service_name=\"b\"}' has 31 label names; limit 30";
const SIZE: &str = "invalid_argument: the profile with labels '{service_name=\"b\"}' exceeds the size limit (actual: 9, limit: 8)";

/// Stores series one by one: those for which `refuse` has no words, by the number of the request, the name of the service and how
/// many stacks it has.
struct Storing<F> {
    refuse: F,
    /// Whether its answers name the series that failed.
    is_naming: bool,
    tries: usize,
    running_ns: u64,
    named: Vec<NamedSeries>,
}

impl<F: FnMut(usize, &str, u64) -> Option<&'static str>> Storing<F> {
    /// What it says of a series that it does not store.
    fn store(&mut self, index: usize, series: &RawProfileSeries) -> Option<String> {
        let service = &series.labels.iter().find(|label| label.name == "service_name").unwrap().value;
        let sample = &series.samples[0];
        let running = running_of(sample);
        let words = (self.refuse)(self.tries, service, running / running_ns(1));
        if words.is_none() {
            self.running_ns += running;
        }
        Some(format!("push series with index {index} and id {} failed: {}", sample.id, words?))
    }
}

impl<F: FnMut(usize, &str, u64) -> Option<&'static str>> Courier for Storing<F> {
    fn protocol(&self) -> PushProtocol {
        PushProtocol::Pyroscope
    }

    fn status(&self) -> Option<u16> {
        None
    }

    fn named(&self) -> &[NamedSeries] {
        &self.named
    }

    fn send(&mut self, body: &PushBody) -> PushReply {
        let message = message_in(&body.bytes);
        let series = message.series.iter().enumerate();
        let errors: Vec<String> = series.filter_map(|(index, series)| self.store(index, series)).collect();
        self.tries += 1;
        let joined = errors.join("; ");
        let text = if errors.len() > 1 { format!("{} errors: {joined}", errors.len()) } else { joined };
        let status = match () {
            () if errors.is_empty() => 200,
            // One mistake makes all of it one, as the OTLP door of Pyroscope has it.
            () if text.contains("invalid_argument") => 400,
            () => 429,
        };
        let text = if self.is_naming { text } else { "push rate limit (4.0 MiB) exceeded".to_owned() };
        let text = serde_json::json!({ "code": "x", "message": text }).to_string();
        self.named = named_in(&said(text.as_bytes()));
        let answer = HttpAnswer { status, retry_after: None, body: text.as_bytes() };
        PushReply::of(self.protocol(), &answer, SystemTime::now())
    }
}

/// Sends 9 stacks of three services without waiting.
fn sent<F: FnMut(usize, &str, u64) -> Option<&'static str>>(
    is_naming: bool,
    refuse: F,
) -> (Storing<F>, Shipment, PushCounts) {
    let mut server = Storing { refuse, is_naming, tries: 0, running_ns: 0, named: Vec::new() };
    let (mut shipment, mut pace, counts) = (Shipment::new(batch(9)), PushPace::new(), PushCounts::default());
    while shipment.step(&mut server, &mut pace, &counts) != PushStep::Done {
        assert!(server.tries < 1_000, "it never ends");
    }
    shipment.finish(&counts);
    (server, shipment, counts)
}

#[test]
fn only_the_series_that_were_too_much_are_sent_again() {
    let (server, shipment, counts) = sent(true, |tries, service, _| {
        let is_late = (tries == 0 && service != "a") || (tries < 40 && service == "c");
        is_late.then_some(RATE)
    });
    assert_eq!((server.running_ns, server.tries), (running_ns(9), 41));
    assert_eq!((shipment.delivered.samples, shipment.delivered.profiles, shipment.requests), (9, 3, 3));
    let numbers = counts.numbers();
    assert_eq!((numbers.delivered, numbers.recordings, numbers.requests), (shipment.delivered, 1, 3));
    assert!(numbers.dropped.is_empty() && numbers.last_problem.starts_with("throttled: status 429: `push"));
}

#[test]
fn only_the_series_that_are_refused_are_dropped() {
    let (server, shipment, counts) = sent(true, |_, service, _| (service == "b").then_some(LABELS));
    assert_eq!((server.running_ns, server.tries), (running_ns(6), 1));
    assert_eq!(shipment.delivered.samples, 6);
    let (dropped, words) = &shipment.dropped[&PushProblem::Rejected];
    assert_eq!((dropped.profiles, dropped.samples), (1, 3));
    assert!(words.starts_with("status 400: `push series with index 1 and id "), "{words}");
    assert_eq!(counts.numbers().recordings_dropped[&PushProblem::Rejected], 1);
}

#[test]
fn what_was_only_too_much_is_not_dropped_with_what_is_refused() {
    let (server, shipment, _) = sent(true, |tries, service, _| match service {
        "b" => Some(LABELS),
        _ => (tries == 0).then_some(RATE),
    });
    assert_eq!((server.running_ns, server.tries), (running_ns(6), 2));
    assert_eq!((shipment.delivered.samples, shipment.dropped[&PushProblem::Rejected].0.samples), (6, 3));
    // Nor when that is all that failed, and the answer is for ever all the same; but not without end.
    let words = "internal: invalid_argument";
    let (server, shipment, _) = sent(true, |_, service, _| (service == "c").then_some(words));
    assert_eq!((server.running_ns, server.tries), (running_ns(6), 2));
    assert_eq!((shipment.delivered.samples, shipment.dropped[&PushProblem::Rejected].0.samples), (6, 3));
}

#[test]
fn only_the_series_that_is_too_large_is_divided() {
    let (server, shipment, counts) =
        sent(true, |_, service, stacks| (service == "b" && stacks > 1).then_some(SIZE));
    assert_eq!((server.running_ns, shipment.delivered.samples), (running_ns(9), 9));
    assert!(shipment.dropped.is_empty() && counts.numbers().retries[&PushProblem::TooLarge] == 2);
}

#[test]
fn all_is_sent_again_where_no_series_is_named() {
    let (server, shipment, _) =
        sent(false, |tries, service, _| (tries == 0 && service == "b").then_some(RATE));
    // The server has what it did not say that it has twice.
    assert_eq!((server.running_ns, server.tries), (running_ns(15), 2));
    assert_eq!((shipment.delivered.samples, shipment.requests), (9, 1));
}

#[test]
fn the_client_reads_which_series_failed() {
    for (protocol, door) in [("pyroscope", ""), ("otlp", "failed to make a GRPC request: ")] {
        let mut shipment = Shipment::new(batch(9));
        let of = if door.is_empty() { PushProtocol::Pyroscope } else { PushProtocol::Otlp };
        let series = body_of(of, shipment.batch(), &shipment.batch().chunks()).unwrap().series;
        assert_eq!(series.iter().map(|series| series.part).collect::<Vec<_>>(), [0, 1, 2]);
        // The ids of OTLP are the server's own.
        let id = series[1].id.clone().unwrap_or_else(|| "own-1".to_owned());
        assert_eq!(series[1].id.is_some(), door.is_empty());
        let text = format!("{door}push series with index 1 and id {id} failed: {RATE}\n");
        let (address, came) = serve(move |number, stream| match number {
            0 => reply(stream, "429 Too Many Requests", text.as_bytes()),
            _ => reply(stream, "200 OK", b""),
        });
        let target = target(&format!("{protocol}+http://{address}"));
        let mut courier = courier_with(&target, PushSecrets::default()).unwrap();
        let (mut pace, counts) = (PushPace::new(), PushCounts::default());
        let step = shipment.step(courier.as_mut(), &mut pace, &counts);
        assert!(matches!(step, PushStep::Wait { wait, .. } if wait < Duration::from_secs(1)), "{step:?}");
        assert_eq!(shipment.delivered.samples, 6);
        assert_eq!(shipment.step(courier.as_mut(), &mut pace, &counts), PushStep::Done);
        assert_eq!((shipment.delivered.samples, courier.named().len()), (9, 0));
        let came = came.lock().unwrap();
        if door.is_empty() {
            assert_eq!(running_in(&came[1].body), running_ns(3));
        }
        assert!(came[1].body.len() < came[0].body.len());
    }
}
