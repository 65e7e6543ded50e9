//! Packing what is written.

use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// What is packed at a time, bytes.
const BUFFER_BYTES: usize = 64 << 10;

/// Whether a file of this name is expected to be packed, whatever the format. What always is packs itself.
pub(in crate::report::export) fn asks_for_gzip(path: &Path) -> bool {
    let name = path.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    name.ends_with(".json.gz")
}

/// Has `write` write to `out`, packed. The same input gives the same bytes: there is no time in them.
///
/// # Errors
///
/// Those of `write` and `out`.
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
