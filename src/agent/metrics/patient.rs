//! A server of metrics whose address someone else may have: any user of the host can be there first. Nothing waits for it; it is begun
//! once its address can be had.

use super::registry::AgentMetrics;
use super::server::{MetricsServer, RunningServer};
use crate::agent::config::ListenAddress;
use crate::base::failure::{Failure, io_words, status};
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Interval between two attempts.
const RETRY: Duration = Duration::from_secs(15);

/// A server that runs or is to run. It ends when this is dropped.
#[derive(Debug)]
pub(crate) struct PatientServer {
    address: ListenAddress,
    running: Option<RunningServer>,
    /// The attempt before has failed: the next is made then.
    next: Option<Instant>,
}

impl PatientServer {
    /// A server at an address, which is not looked at yet.
    pub(crate) fn new(address: ListenAddress) -> Self {
        PatientServer { address, running: None, next: None }
    }

    /// Begins to serve, unless it does so already or the time for another attempt has not come at `now`. Returns what is to be said: why
    /// it cannot be, once, and that it can be after all.
    pub(crate) fn attend(&mut self, metrics: &Arc<AgentMetrics>, now: Instant) -> Option<String> {
        if self.running.is_some() || self.next.is_some_and(|next| now < next) {
            return None;
        }
        let has_failed = self.next.is_some();
        match self.begin(metrics) {
            Ok(running) => {
                self.running = Some(running);
                has_failed.then(|| format!("metrics are served at `{}` now", self.address))
            }
            Err(failure) => {
                self.next = now.checked_add(RETRY);
                let hints = failure.hints.join("; ");
                let words = format!(
                    "{} ({hints}): all else goes on, and this is tried again every {} s",
                    failure.message,
                    RETRY.as_secs()
                );
                (!has_failed).then_some(words)
            }
        }
    }

    fn begin(&self, metrics: &Arc<AgentMetrics>) -> Result<RunningServer, Failure> {
        MetricsServer::bind(&self.address)?.serve(Arc::clone(metrics)).map_err(|error| {
            let message = format!("cannot serve metrics at `{}`: {}", self.address, io_words(&error));
            Failure::new(status::FAILED, message).hint("no thread can be started")
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{TcpListener, TcpStream};

    #[test]
    fn an_address_that_is_taken_is_had_once_it_is_free_and_each_is_said_once() {
        let other = TcpListener::bind("127.0.0.1:0").expect("there is a port");
        let address = other.local_addr().expect("it has an address");
        let metrics = Arc::new(AgentMetrics::new("1", Duration::from_secs(60)));
        let mut server = PatientServer::new(ListenAddress::Tcp(address));
        let start = Instant::now();
        let mut at = |tries: u32| server.attend(&metrics, start + RETRY * tries);
        let why = at(0).expect("it is said");
        let expected = format!("cannot serve metrics at `{address}`: ");
        assert!(why.starts_with(&expected) && why.contains("in use") && why.contains("goes on"), "{why}");
        assert_eq!(at(1), None);
        drop(other);
        assert_eq!(at(1), None, "the time of the next attempt has not come");
        assert_eq!(at(2), Some(format!("metrics are served at `{address}` now")));
        assert!(TcpStream::connect(address).is_ok());
        assert_eq!(at(3), None);
    }

    #[test]
    fn an_address_that_is_free_is_no_news() {
        let folder = tempfile::tempdir().expect("a folder");
        let metrics = Arc::new(AgentMetrics::new("1", Duration::from_secs(60)));
        let path = folder.path().join("metrics.sock");
        let mut server = PatientServer::new(ListenAddress::Unix(path.clone()));
        assert_eq!(server.attend(&metrics, Instant::now()), None);
        assert!(std::os::unix::net::UnixStream::connect(&path).is_ok());
    }
}
