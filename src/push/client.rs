//! One request over HTTP, and what became of it.

use super::named::{NamedSeries, named_in};
use super::reply::{HttpAnswer, PushProblem, PushReply, said};
use super::request::PushBody;
use super::shipment::Courier;
use super::target::{PushProtocol, PushSecrets, PushTarget};
use crate::base::failure::{Failure, io_words, status};
use crate::base::safe_text;
use std::io::{self, Read};
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use ureq::Agent;
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig, parse_pem};

/// Longest time in which a name is resolved and a connection is made.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most bytes that are read of an answer.
const MOST_ANSWER: u64 = 64 << 10;

/// Client of one server.
#[derive(Debug)]
pub(super) struct PushClient {
    agent: Agent,
    target: PushTarget,
    secrets: PushSecrets,
    /// Status of the last answer.
    status: Option<u16>,
    /// The series that the last answer says have failed.
    named: Vec<NamedSeries>,
}

impl PushClient {
    /// # Errors
    ///
    /// When the file of authorities has no certificate.
    pub(super) fn new(target: &PushTarget, secrets: PushSecrets) -> Result<Self, Failure> {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = TlsConfig::builder()
            .root_certs(authorities(target, &secrets)?)
            .unversioned_rustls_crypto_provider(provider)
            .build();
        let patience = PATIENCE.min(target.timeout);
        let config = Agent::config_builder()
            .tls_config(tls)
            .user_agent(concat!("prof/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            // What is sent would not be sent again, or to someone else with the secrets.
            .max_redirects(0)
            .max_redirects_will_error(false)
            .timeout_global(Some(target.timeout))
            .timeout_resolve(Some(patience))
            .timeout_connect(Some(patience))
            .build();
        Ok(PushClient {
            agent: config.into(),
            target: target.clone(),
            secrets,
            status: None,
            named: Vec::new(),
        })
    }
}

impl PushClient {
    /// Gets what is at the URL of the server, at most `most` bytes.
    ///
    /// # Errors
    ///
    /// When it cannot be reached, refuses, or sends more.
    pub(super) fn get(&self, most: u64) -> io::Result<Vec<u8>> {
        let mut request = self.agent.get(self.target.url.base());
        if let Some(secret) = &self.secrets.authorization {
            request = request.header("Authorization", secret);
        }
        let response = request.call().map_err(|error| io::Error::other(words_of(&error)))?;
        if !response.status().is_success() {
            return Err(io::Error::other(format!("status {}", response.status().as_u16())));
        }
        let mut bytes = Vec::new();
        response.into_body().into_reader().take(most.saturating_add(1)).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > most { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(bytes) }
    }
}

/// The authorities that are trusted: those of the file, or the machine's.
fn authorities(target: &PushTarget, secrets: &PushSecrets) -> Result<RootCerts, Failure> {
    let (Some(path), Some(pem)) = (&target.ca_file, &secrets.authorities) else {
        return Ok(RootCerts::PlatformVerifier);
    };
    let items = parse_pem(pem).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    let certificates: Vec<Certificate<'static>> = items.collect();
    if certificates.is_empty() {
        let message = format!("`{}` has no certificate in PEM", path.display());
        return Err(Failure::new(status::FAILED, message));
    }
    Ok(RootCerts::new_with_certs(&certificates))
}

impl Courier for PushClient {
    fn protocol(&self) -> PushProtocol {
        self.target.url.protocol
    }

    fn status(&self) -> Option<u16> {
        self.status
    }

    fn named(&self) -> &[NamedSeries] {
        &self.named
    }

    fn send(&mut self, body: &PushBody) -> PushReply {
        let (kind, protocol) = match self.protocol() {
            PushProtocol::Pyroscope => ("application/proto", Some(("Connect-Protocol-Version", "1"))),
            PushProtocol::Otlp => ("application/x-protobuf", None),
        };
        let mut request = self.agent.post(self.target.url.endpoint()).content_type(kind);
        let tenant = self.target.tenant.as_deref().map(|tenant| ("X-Scope-OrgID", tenant));
        let packed = [("Content-Encoding", "gzip")];
        let secret = self.secrets.authorization.as_deref().map(|secret| ("Authorization", secret));
        let others = self.target.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in others.chain(protocol).chain(tenant).chain(packed).chain(secret) {
            request = request.header(name, value);
        }
        (self.status, self.named) = (None, Vec::new());
        let response = match request.send(&body.bytes) {
            Ok(response) => response,
            Err(error) => return reply_of(&error),
        };
        let answer_status = response.status().as_u16();
        self.status = Some(answer_status);
        let header = response.headers().get("retry-after");
        let retry_after = header.and_then(|value| value.to_str().ok()).map(str::to_owned);
        let mut bytes = Vec::new();
        // What the status says counts, whatever becomes of the rest.
        let _ = response.into_body().into_reader().take(MOST_ANSWER).read_to_end(&mut bytes);
        // Of a text that was cut, the names may be those of others.
        if answer_status >= 300 && (bytes.len() as u64) < MOST_ANSWER {
            self.named = named_in(&said(&bytes));
        }
        let answer = HttpAnswer { status: answer_status, retry_after: retry_after.as_deref(), body: &bytes };
        PushReply::of(self.protocol(), &answer, SystemTime::now())
    }
}

/// Why a request got no answer. Quotes what others have said.
fn words_of(error: &ureq::Error) -> String {
    let words = match error {
        ureq::Error::Io(error) => io_words(error),
        other => other.to_string(),
    };
    safe_text::message(&words).into_owned()
}

/// What a request that got no answer means.
fn reply_of(error: &ureq::Error) -> PushReply {
    use ureq::Error;
    let words = words_of(error);
    let is_tls = |error: &std::io::Error| error.get_ref().is_some_and(|inner| inner.is::<rustls::Error>());
    let problem = match error {
        Error::HostNotFound => PushProblem::Name,
        Error::Timeout(_) => PushProblem::Timeout,
        Error::Io(error) if error.kind() == std::io::ErrorKind::TimedOut => PushProblem::Timeout,
        Error::Io(error) if is_tls(error) => PushProblem::Tls,
        Error::Io(_) | Error::ConnectionFailed => PushProblem::Connection,
        Error::Tls(_) | Error::Pem(_) | Error::Rustls(_) => PushProblem::Tls,
        Error::Protocol(_) => PushProblem::Answer,
        // What the request itself cannot be.
        Error::Http(_) | Error::BadUri(_) => {
            return PushReply::Never { problem: PushProblem::NotThere, words };
        }
        _ => PushProblem::Connection,
    };
    PushReply::Later { problem, after: None, words, is_of_request: false }
}
