//! One question to one server, over HTTP.

use super::settings::Settings;
use std::fs::File;
use std::io::{Read, Write};
use std::sync::Arc;
use ureq::Agent;
use ureq::tls::{RootCerts, TlsConfig};

/// Bytes that are taken at a time.
const STEP_BYTES: usize = 1 << 16;

/// Outcome of a question to a server.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// All of it is in the file now.
    Whole,
    /// The server does not have it.
    NotThere,
    /// The server cannot be asked, and why.
    Failed(String),
    /// The file is larger than it may be, bytes, as far as is known.
    TooLarge(u64),
}

/// Client that asks the servers.
#[derive(Debug)]
pub(super) struct Client {
    agent: Agent,
    largest: u64,
}

impl Client {
    pub(super) fn new(settings: &Settings) -> Self {
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let tls = TlsConfig::builder()
            // The machine's own list of authorities, as for its other programs.
            .root_certs(RootCerts::PlatformVerifier)
            .unversioned_rustls_crypto_provider(provider)
            .build();
        let config = Agent::config_builder()
            .tls_config(tls)
            .user_agent(concat!("prof/", env!("CARGO_PKG_VERSION")))
            .http_status_as_error(false)
            .timeout_global(Some(settings.longest))
            .timeout_resolve(Some(settings.patience))
            .timeout_connect(Some(settings.patience))
            .timeout_recv_response(Some(settings.patience))
            .timeout_per_read(Some(settings.patience))
            .build();
        Client { agent: config.into(), largest: settings.largest }
    }

    /// Asks for the file at `url` and writes it to `file`; `progress` is given how many bytes there are, and how many there
    /// will be, if that is known.
    pub(super) fn get(&self, url: &str, file: &mut File, progress: &dyn Fn(u64, Option<u64>)) -> Reply {
        let response = match self.agent.get(url).call() {
            Ok(response) => response,
            Err(error) => return Reply::Failed(error.to_string()),
        };
        match response.status().as_u16() {
            200 => {}
            404 => return Reply::NotThere,
            status => return Reply::Failed(format!("it answers with status {status}")),
        }
        let body = response.into_body();
        let total = body.content_length();
        if let Some(total) = total.filter(|total| *total > self.largest) {
            return Reply::TooLarge(total);
        }
        let mut reader = body.into_with_config().limit(u64::MAX).reader();
        let (mut buffer, mut size) = (vec![0; STEP_BYTES], 0u64);
        loop {
            progress(size, total);
            match reader.read(&mut buffer) {
                Ok(0) if total.is_some_and(|total| total != size) => {
                    return Reply::Failed("it ended too early".to_owned());
                }
                Ok(0) => return Reply::Whole,
                Ok(read) => {
                    size += read as u64;
                    if size > self.largest {
                        return Reply::TooLarge(size);
                    }
                    if let Err(error) = file.write_all(&buffer[..read]) {
                        return Reply::Failed(format!("cannot keep it: {error}"));
                    }
                }
                Err(error) => return Reply::Failed(error.to_string()),
            }
        }
    }
}
