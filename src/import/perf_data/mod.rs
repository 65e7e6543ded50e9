//! `perf.data` as written by `perf record`: files, streams to a pipe (`-o -`), and compressed records (`-z`). Records are
//! sorted by time round by round, as perf does; little is kept of them, within limits. Parsed here rather than by a library: the
//! existing ones allocate what a file claims, panic at some damaged records, and keep files without rounds in memory. Names and
//! unwinding are called, not done here.

mod attributes;
mod blocks;
mod bytes;
mod copied_stacks;
mod frames;
mod header;
mod kernel;
mod module_files;
mod processes;
mod reader;
mod record;
mod sample;
mod sorter;

use super::error::ImportError;
use super::importer::{ImportOptions, Importer};
use super::intake::Intake;
use super::source::ImportSource;
use blocks::RecordBlocks;
use header::PerfHeader;
use kernel::PerfKernel;
use module_files::MappedFiles;
use reader::PerfReader;

/// The import format.
#[derive(Debug)]
pub(super) struct PerfData;

impl Importer for PerfData {
    fn name(&self) -> &'static str {
        "perf"
    }

    fn title(&self) -> &'static str {
        "perf.data"
    }

    fn recognises(&self, head: &[u8]) -> bool {
        head.starts_with(header::MAGIC) || head.starts_with(header::SWAPPED_MAGIC)
    }

    fn read(
        &self,
        mut source: ImportSource,
        intake: &mut Intake<'_>,
        _options: &ImportOptions,
    ) -> Result<(), ImportError> {
        let file_bytes = source.file_bytes();
        let (kernel_list, vdso) = (source.kernel_list.take(), source.vdso.take());
        let (stream, file) = source.into_parts();
        let mut blocks = RecordBlocks::new(stream);
        let header = PerfHeader::read(&mut blocks, file.zip(file_bytes))?;
        for note in &header.notes {
            intake.note(note.clone());
        }
        blocks.limit(header.data_bytes);
        let mut reader =
            PerfReader::new(intake, header, PerfKernel::new(kernel_list), MappedFiles::new(vdso));
        let mut is_cut = false;
        while let Some(record) = blocks.next_record(&mut is_cut)? {
            reader.record(record)?;
            let skipped = reader.bytes_to_skip();
            is_cut |= !blocks.skip(skipped)?;
        }
        if is_cut {
            reader.note("the file is cut or damaged: what comes after that is missing");
        }
        reader.finish()
    }
}
