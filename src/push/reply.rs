//! What the answer to a request means.

use super::answer_date;
use super::target::PushProtocol;
use crate::base::safe_text;
use prost::Message;
use std::time::{Duration, SystemTime};

/// Most characters that are quoted of what a server says.
const LONGEST_QUOTE: usize = 300;
/// The longest time that a server can ask for. One that asks for more is tried again before.
const LONGEST_WAIT: Duration = Duration::from_secs(300);

/// Why something was not delivered, or not yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) enum PushProblem {
    /// The server's name could not be resolved.
    Name,
    /// There was no connection, or it broke.
    Connection,
    /// There was no answer in time.
    Timeout,
    /// The certificate is not trusted, or TLS failed.
    Tls,
    /// Too much at once (429).
    Throttled,
    /// The server failed at what was sent (500).
    Server,
    /// The server cannot serve now (502, 503, 504).
    Unavailable,
    /// The answer was no HTTP, or a redirection.
    Answer,
    /// The server does not know who sends (401, 403).
    Refused,
    /// The server has no such service (404, 405, 415 and the like).
    NotThere,
    /// The server does not take what was sent (400, 422).
    Rejected,
    /// One sample alone is too large (413).
    TooLarge,
    /// It is older than what the server takes, or than what is worth sending.
    TooOld,
    /// The folder of what waits was full.
    Full,
    /// It could not be read, or has nothing that is sent.
    Unreadable,
}

impl PushProblem {
    /// All of them.
    #[cfg(test)]
    pub(crate) const ALL: [Self; 15] = [
        Self::Name,
        Self::Connection,
        Self::Timeout,
        Self::Tls,
        Self::Throttled,
        Self::Server,
        Self::Unavailable,
        Self::Answer,
        Self::Refused,
        Self::NotThere,
        Self::Rejected,
        Self::TooLarge,
        Self::TooOld,
        Self::Full,
        Self::Unreadable,
    ];

    /// A stable word for metrics.
    pub(crate) fn key(self) -> &'static str {
        match self {
            Self::Name => "dns",
            Self::Connection => "connection",
            Self::Timeout => "timeout",
            Self::Tls => "tls",
            Self::Throttled => "throttled",
            Self::Server => "server_error",
            Self::Unavailable => "unavailable",
            Self::Answer => "bad_answer",
            Self::Refused => "unauthorized",
            Self::NotThere => "not_found",
            Self::Rejected => "rejected",
            Self::TooLarge => "too_large",
            Self::TooOld => "too_old",
            Self::Full => "buffer_full",
            Self::Unreadable => "unreadable",
        }
    }

    /// What to do about it, if there is something.
    pub(crate) fn advice(self) -> Option<&'static str> {
        Some(match self {
            Self::Name => "check the name in the URL, and the machine's resolver",
            Self::Connection => "check the host and the port of the URL, and whether the server runs",
            Self::Tls => {
                "for a certificate of your own authority:  --ca-file FILE; for a server without TLS:  http:// in the URL"
            }
            Self::Refused => {
                "check the token, the password and the tenant:  --bearer-file, --basic-auth-file, --tenant"
            }
            Self::NotThere => {
                "check the protocol and the path of the URL; OTLP profiles have to be turned on in receivers"
            }
            Self::TooOld => "servers take the last hour; to send it as if recorded just now:  --now",
            Self::Answer => "check whether the URL is that of the server itself",
            _ => return None,
        })
    }
}

/// Meaning of an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PushReply {
    /// The server has it, but for this number of profiles, and why not those.
    Taken { refused: u64, words: String },
    /// To be tried again, after the time that the server asks for. With `is_of_request`, it may be this request that it fails at.
    Later { problem: PushProblem, after: Option<Duration>, words: String, is_of_request: bool },
    /// To be divided.
    TooLarge { words: String },
    /// Never to be tried again.
    Never { problem: PushProblem, words: String },
}

/// An answer over HTTP.
#[derive(Debug, Clone, Copy)]
pub(super) struct HttpAnswer<'a> {
    pub(super) status: u16,
    /// Value of `Retry-After`.
    pub(super) retry_after: Option<&'a str>,
    /// As much of the body as was read.
    pub(super) body: &'a [u8],
}

impl PushReply {
    /// What it means, in a word.
    pub(super) fn word(&self) -> &'static str {
        match self {
            PushReply::Taken { .. } => "taken",
            PushReply::TooLarge { .. } => PushProblem::TooLarge.key(),
            PushReply::Later { problem, .. } | PushReply::Never { problem, .. } => problem.key(),
        }
    }

    /// What an answer means.
    pub(super) fn of(protocol: PushProtocol, answer: &HttpAnswer<'_>, now: SystemTime) -> Self {
        // What decides may stand after what is quoted.
        let text = said(answer.body);
        let words = format!("status {}{}", answer.status, quoted(&text));
        let later = |problem| {
            let after = answer.retry_after.and_then(|text| answer_date::wait(text, now));
            PushReply::Later {
                problem,
                after: after.map(|after| after.min(LONGEST_WAIT)),
                words: words.clone(),
                // Gateways refuse by 403 what they do not like in a body, too.
                is_of_request: matches!(answer.status, 403 | 500),
            }
        };
        let never = |problem| PushReply::Never { problem, words: words.clone() };
        match answer.status {
            200..=299 if protocol == PushProtocol::Otlp => partly(answer.body),
            200..=299 => PushReply::Taken { refused: 0, words: String::new() },
            408 | 425 => later(PushProblem::Timeout),
            429 if is_of_message(&text) => PushReply::TooLarge { words },
            429 => later(PushProblem::Throttled),
            413 => PushReply::TooLarge { words },
            // Who is allowed to send may change, and so may the token.
            401 | 403 | 407 => later(PushProblem::Refused),
            404 | 405 | 406 | 410 | 415 | 501 | 505 => never(PushProblem::NotThere),
            300..=399 => never(PushProblem::Answer),
            400..=499 if is_of_size(&text) => PushReply::TooLarge { words },
            400..=499 if is_of_time(&text) => never(PushProblem::TooOld),
            400..=499 => never(PushProblem::Rejected),
            500 => later(PushProblem::Server),
            501..=599 => later(PushProblem::Unavailable),
            _ => later(PushProblem::Answer),
        }
    }
}

/// Whether a server refuses the time of a profile, as Pyroscope says it.
fn is_of_time(text: &str) -> bool {
    text.contains("ingestion window") || text.contains("profile_not_in_ingestion_window")
}

/// Whether a server refuses the size of a profile or of all of them, as Pyroscope says it.
fn is_of_size(text: &str) -> bool {
    let limits =
        ["exceeds the size limit", "exceeds the samples count limit", "payload size exceeds limit of"];
    limits.iter().any(|limit| text.contains(limit))
}

/// Whether a server refuses the size of a request for ever, although by the status of what is too much at once: as Connect says it.
fn is_of_message(text: &str) -> bool {
    text.contains("is larger than configured max")
}

/// `ExportProfilesServiceResponse`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct ProfilesResponse {
    #[prost(message, optional, tag = "1")]
    pub(super) partial: Option<PartialSuccess>,
}

/// `ExportProfilesPartialSuccess`.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct PartialSuccess {
    #[prost(int64, tag = "1")]
    pub(super) rejected: i64,
    #[prost(string, tag = "2")]
    pub(super) message: String,
}

/// What a receiver of OTLP has taken. An answer that is none of its messages says nothing.
fn partly(body: &[u8]) -> PushReply {
    let partial = ProfilesResponse::decode(body).ok().and_then(|response| response.partial);
    let (refused, message) =
        partial.map_or((0, String::new()), |partial| (partial.rejected, partial.message));
    PushReply::Taken { refused: u64::try_from(refused).unwrap_or(0), words: shortened(&message) }
}

/// `google.rpc.Status`, with which receivers of OTLP say what is wrong.
#[derive(Clone, PartialEq, prost::Message)]
struct RpcStatus {
    #[prost(string, tag = "2")]
    message: String,
}

/// What a server says, with whatever it has in it.
pub(super) fn said(body: &[u8]) -> String {
    let json = || serde_json::from_slice::<serde_json::Value>(body).ok();
    let of_json = json().and_then(|value| value.get("message")?.as_str().map(str::to_owned));
    let of_status =
        || RpcStatus::decode(body).ok().map(|status| status.message).filter(|text| !text.is_empty());
    of_json.or_else(of_status).unwrap_or_else(|| String::from_utf8_lossy(body).into_owned())
}

/// The beginning of a text, in quotes and with nothing that a terminal obeys; empty if there is none.
fn quoted(text: &str) -> String {
    let text = shortened(text);
    if text.is_empty() { text } else { format!(": `{text}`") }
}

fn shortened(text: &str) -> String {
    let line: String = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let cut: String = line.chars().take(LONGEST_QUOTE).collect();
    safe_text::message(&cut).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reply(protocol: PushProtocol, status: u16, retry_after: Option<&str>, body: &[u8]) -> PushReply {
        PushReply::of(protocol, &HttpAnswer { status, retry_after, body }, SystemTime::UNIX_EPOCH)
    }

    #[test]
    fn an_answer_means_one_of_four_things() {
        let of = |status| reply(PushProtocol::Pyroscope, status, None, b"");
        assert!(matches!(of(200), PushReply::Taken { refused: 0, .. }));
        for status in [429, 500, 502, 503, 504, 408, 401, 403] {
            assert!(matches!(of(status), PushReply::Later { .. }), "{status}");
        }
        for status in [301, 400, 404, 422] {
            assert!(matches!(of(status), PushReply::Never { .. }), "{status}");
        }
        assert!(matches!(of(413), PushReply::TooLarge { .. }));
        let after = |text| match reply(PushProtocol::Otlp, 429, Some(text), b"") {
            PushReply::Later { after, .. } => after,
            other => panic!("{other:?}"),
        };
        assert_eq!(after("7"), Some(Duration::from_secs(7)));
        assert_eq!(after("86400"), Some(LONGEST_WAIT));
        assert_eq!(after("soon"), None);
    }

    #[test]
    fn what_servers_say_is_quoted_and_understood() {
        let old = br#"{"code":"invalid_argument","message":"profile timestamp is outside of ingestion window\u001b[2J"}"#;
        let PushReply::Never { problem, words } = reply(PushProtocol::Pyroscope, 400, None, old) else {
            panic!()
        };
        assert_eq!(problem, PushProblem::TooOld);
        assert_eq!(words, "status 400: `profile timestamp is outside of ingestion window\\x1b[2J`");
        let status = RpcStatus { message: "no such field".to_owned() }.encode_to_vec();
        let PushReply::Never { words, .. } = reply(PushProtocol::Otlp, 400, None, &status) else { panic!() };
        assert_eq!(words, "status 400: `no such field`");
        let partial = Some(PartialSuccess { rejected: 3, message: "why".to_owned() });
        let body = ProfilesResponse { partial }.encode_to_vec();
        let taken = PushReply::Taken { refused: 3, words: "why".to_owned() };
        assert_eq!(reply(PushProtocol::Otlp, 200, None, &body), taken);
        assert!(matches!(reply(PushProtocol::Otlp, 200, None, b"{}"), PushReply::Taken { refused: 0, .. }));
    }

    #[test]
    fn what_is_too_large_is_known_by_its_words() {
        let of = |status, message: &str| {
            let body = serde_json::json!({ "code": "invalid_argument", "message": message }).to_string();
            reply(PushProtocol::Pyroscope, status, None, body.as_bytes())
        };
        let labels = "x".repeat(2 * LONGEST_QUOTE);
        let too_large = [
            (400, "uncompressed batched profile payload size exceeds limit of 1.0 MB"),
            (400, "uncompressed profile payload size exceeds limit of 4.2 MB"),
            (
                400,
                &format!("the profile with labels '{labels}' exceeds the size limit (actual: 9, limit: 8)"),
            ),
            (429, "message size 2000000 is larger than configured max 1000000"),
        ];
        for (status, message) in too_large {
            let PushReply::TooLarge { words } = of(status, message) else { panic!("{message}") };
            assert!(words.chars().count() < LONGEST_QUOTE + 20, "{words}");
        }
        assert!(matches!(of(429, "push rate limit (4 MiB) exceeded"), PushReply::Later { .. }));
    }

    #[test]
    fn problems_have_words_of_their_own() {
        let keys: std::collections::BTreeSet<_> =
            PushProblem::ALL.iter().map(|problem| problem.key()).collect();
        assert_eq!(keys.len(), PushProblem::ALL.len());
    }
}
