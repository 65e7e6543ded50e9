//! Gzip compression of exports.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Size of the buffer before compression, bytes.
const BUFFER_BYTES: usize = 64 << 10;

/// Whether the name of a file asks for compression, whatever the format. Formats that are always compressed do it
/// themselves.
pub(in crate::report::export) fn asks_for_gzip(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    name.ends_with(".json.gz")
}

/// Compresses what `write` writes, and writes it to `out`. The same input gives the same bytes, since no time is
/// stored.
///
/// # Errors
///
/// Returns the errors of `write` and `out`.
pub(in crate::report::export) fn packed(
    out: &mut dyn Write,
    write: impl FnOnce(&mut dyn Write) -> io::Result<()>,
) -> io::Result<()> {
    let mut encoder = GzEncoder::new(out, Compression::fast());
    {
        let mut buffered = BufWriter::with_capacity(BUFFER_BYTES, &mut encoder);
        write(&mut buffered)?;
        buffered.flush()?;
    }
    encoder.finish().map(drop)
}
