//! A document from a server, with the same care as what is sent: its certificate, a token from a file, limits of time and size.

use super::target::{PushSecrets, PushTarget};
use std::io;

/// Gets what is at the URL of `target`, at most `most` bytes. The files of secrets are read each time.
///
/// # Errors
///
/// When the server cannot be reached, refuses, or sends more; when a file of secrets cannot be read.
#[cfg(feature = "push")]
pub(crate) fn fetch(target: &PushTarget, most: u64) -> io::Result<Vec<u8>> {
    let other = |failure: crate::base::failure::Failure| io::Error::other(failure.message);
    let secrets = PushSecrets::read(target).map_err(other)?;
    super::client::PushClient::new(target, secrets).map_err(other)?.get(most)
}

/// Says that there is no client.
///
/// # Errors
///
/// Always.
#[cfg(not(feature = "push"))]
pub(crate) fn fetch(_: &PushTarget, _: u64) -> io::Result<Vec<u8>> {
    Err(io::Error::other("this prof was built without sending"))
}
