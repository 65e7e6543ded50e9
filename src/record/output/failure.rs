//! Why a file could not be written, in words.

use crate::base::failure::{self, Failure, status};
use crate::record::environment::descriptors;
use std::io;
use std::io::ErrorKind;
use std::path::Path;

/// A failure to write `path`.
pub(crate) fn write_failure(path: &Path, error: &io::Error) -> Failure {
    if descriptors::is_lack(error) {
        return descriptors::lack(&format!("cannot write `{}`", path.display()));
    }
    let hint = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "free some space, or write elsewhere: -o /path/on/another/disk"
        }
        ErrorKind::FileTooLarge => "raise the limit (ulimit -f), or shorten the recording: -d 10s",
        ErrorKind::PermissionDenied | ErrorKind::ReadOnlyFilesystem => "write elsewhere: -o /tmp/prof.data",
        _ => "write elsewhere: -o FILE",
    };
    let why = failure::io_words(error);
    Failure::new(status::FAILED, format!("cannot write `{}`: {why}", path.display())).hint(hint)
}
