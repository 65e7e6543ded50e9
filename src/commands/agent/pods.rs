//! The kubelet's list of pods, on its way from the sender, which may use the network, to the recorder, which may not: a file next to
//! the windows.

use crate::agent::config::{AgentConfig, KubeletSettings};
use crate::agent::identity::MOST_LIST_BYTES;
use crate::base::own_file;
use crate::push::fetch::fetch;
use crate::push::target::{PushTarget, PushUrl};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Time between two lists, and between two tries where there is none.
pub(super) const LIST_INTERVAL: Duration = Duration::from_secs(30);

/// The file of the list.
pub(super) fn pods_file(config: &AgentConfig) -> PathBuf {
    config.buffer.folder.join("pods.json")
}

/// Gets the list, and puts it in place of the last one.
///
/// # Errors
///
/// When the kubelet does not give it, or it cannot be written.
pub(super) fn renew_list(kubelet: &KubeletSettings, file: &Path) -> io::Result<()> {
    let url = PushUrl::parse(&format!("otlp+{}", kubelet.url)).map_err(io::Error::other)?;
    let target = PushTarget {
        bearer_file: Some(kubelet.bearer_file.clone()),
        ca_file: kubelet.ca_file.clone(),
        timeout: kubelet.timeout,
        ..PushTarget::new(url)
    };
    let list = fetch(&target, MOST_LIST_BYTES as u64)?;
    let unfinished = file.with_extension("part");
    let _ = fs::remove_file(&unfinished);
    own_file::create(&unfinished)?.write_all(&list)?;
    fs::rename(unfinished, file)
}

/// The list, as it was put there last.
///
/// # Errors
///
/// When there is none, or it is too large.
pub(super) fn read_list(file: &Path) -> io::Result<Vec<u8>> {
    let length = fs::metadata(file)?.len();
    if length > MOST_LIST_BYTES as u64 {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    fs::read(file)
}
