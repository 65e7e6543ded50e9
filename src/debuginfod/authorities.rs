//! The file of authorities that the user names (`SSL_CERT_FILE`), for a process that may not open it.

use crate::base::opener;
use crate::base::privilege;
use rustix::fs::MemfdFlags;
use std::fs::File;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, IntoRawFd};

/// The variable of OpenSSL, which other clients know, too.
const VARIABLE: &str = "SSL_CERT_FILE";
/// Most bytes of the file: a hundred times what distributions have.
const MOST_BYTES: u64 = 32 << 20;

/// What the file holds, read with the user's own rights.
#[derive(Debug)]
pub(crate) struct NamedAuthorities(Vec<u8>);

impl NamedAuthorities {
    /// Reads the file, if one is named. One that cannot be read is left to the client, which says so.
    pub(crate) fn read() -> Option<Self> {
        let path = std::env::var_os(VARIABLE)?;
        let file = privilege::as_user(|| File::open(path)).ok()?;
        let mut bytes = Vec::new();
        file.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
        Some(NamedAuthorities(bytes))
    }

    /// Has this process find them in its memory, if it has given up its rights. To be called before it has other threads.
    ///
    /// # Errors
    ///
    /// When there is no memory for them.
    pub(crate) fn keep(self) -> io::Result<()> {
        if !opener::makes_files() {
            return Ok(());
        }
        let mut file = File::from(rustix::fs::memfd_create("authorities", MemfdFlags::CLOEXEC)?);
        file.write_all(&self.0)?;
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        // SAFETY: no other thread runs that could read the environment.
        unsafe { std::env::set_var(VARIABLE, path) };
        // It stays open until this process ends.
        let _ = file.into_raw_fd();
        Ok(())
    }
}
