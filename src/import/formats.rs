//! The formats of this version. A new format is a file or a folder here, and a line in the table.

use super::error::ImportError;
use super::folded::FoldedStacks;
use super::importer::{ImportOptions, Importer};
use super::intake::{Imported, Intake, NameFrames};
use super::perf_data::PerfData;
use super::perf_script::PerfScriptInput;
use super::pprof::PprofInput;
use super::source::ImportSource;
use std::io::Write;

/// One of [`ImportFormat::ALL`].
#[derive(Debug, Clone, Copy)]
pub(crate) struct ImportFormat(&'static dyn Importer);

impl PartialEq for ImportFormat {
    fn eq(&self, other: &Self) -> bool {
        self.name() == other.name()
    }
}

impl Eq for ImportFormat {}

impl ImportFormat {
    /// All formats, the ones that are recognised most reliably first.
    pub(crate) const ALL: [Self; 4] =
        [Self(&PerfData), Self(&PprofInput), Self(&PerfScriptInput), Self(&FoldedStacks)];

    /// Name on the command line.
    pub(crate) fn name(self) -> &'static str {
        self.0.name()
    }

    /// The format of a file that begins with `head`; `None` if no format matches.
    fn of(head: &[u8]) -> Option<Self> {
        Self::ALL.into_iter().find(|format| format.0.recognises(head))
    }
}

/// Reads `source` and writes it to `out` as a profile; `name_frames` is called once all frames are known.
///
/// # Errors
///
/// Fails when the source is not in the format, it cannot be read, or `out` cannot be written.
pub(crate) fn import(
    mut source: ImportSource,
    format: Option<ImportFormat>,
    options: &ImportOptions,
    out: &mut dyn Write,
    name_frames: NameFrames<'_>,
) -> Result<Imported, ImportError> {
    let head = source.unpacked_head()?;
    if head.is_empty() {
        return Err(ImportError::Foreign("it is empty".to_owned()));
    }
    let Some(format) = format.or_else(|| ImportFormat::of(&head)) else {
        return Err(ImportError::Foreign(unrecognised(&head)));
    };
    let mut intake = Intake::new(out, format.0.title(), source.shown_name());
    format.0.read(source, &mut intake, options)?;
    intake.finish(name_frames)
}

/// The error for a file that matches none of the formats: says what it seems to be.
fn unrecognised(head: &[u8]) -> String {
    const KNOWN: [(&[u8], &str); 7] = [
        (b"\x89prof", "it is a profile of prof already"),
        (b"{", "it is JSON; speedscope and Firefox profiles cannot be imported"),
        (b"\x7fELF", "it is a program or library"),
        (b"<svg", "it is an SVG picture"),
        (b"<?xml", "it is an XML or SVG file"),
        (b"\x28\xb5\x2f\xfd", "it is packed by zstd; unpack it first"),
        (b"\xfd7zXZ", "it is packed by xz; unpack it first"),
    ];
    let known = KNOWN.iter().find(|(magic, _)| head.starts_with(magic));
    let what = known.map_or("it is not of a format that prof knows", |(_, what)| what);
    let formats = ImportFormat::ALL.map(|format| format.0.title()).join(", ");
    format!("{what} (known: {formats})")
}
