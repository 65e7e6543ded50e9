//! A certificate for a server on this host, of an authority that no machine knows.

use crate::support::skip;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Its files, in PEM.
pub(crate) struct Certificate {
    pub(crate) authority: PathBuf,
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

impl Certificate {
    /// That of `localhost`, in a folder. Without openssl there is none, which is said.
    pub(crate) fn of_localhost(folder: &Path) -> Option<Self> {
        let script = "printf 'subjectAltName=DNS:localhost' >names &&
            openssl req -x509 -newkey rsa:2048 -nodes -keyout ca.key -out ca.pem -days 2 -subj /CN=authority \
                -addext basicConstraints=critical,CA:TRUE &&
            openssl req -newkey rsa:2048 -nodes -keyout server.key -out server.csr -subj /CN=localhost &&
            openssl x509 -req -in server.csr -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 -extfile names -out server.pem";
        let made = Command::new("sh").args(["-c", script]).current_dir(folder).output().unwrap();
        if !made.status.success() {
            let why = String::from_utf8_lossy(&made.stderr);
            return skip(&format!("no certificate by openssl: {why}"));
        }
        let file = |name: &str| folder.join(name);
        Some(Certificate {
            authority: file("ca.pem"),
            certificate: file("server.pem"),
            key: file("server.key"),
        })
    }
}
