//! pprof's protobuf format, gzipped: for `go tool pprof`, Pyroscope, Parca, Grafana, Speedscope. Counts and weights of samples
//! and waits are columns side by side, and so are blocks of the heap that were allocated and those that count. A location lists
//! its innermost inlined function first, the main program is the first mapping, and labels hold the thread of a sample and the
//! reason of a wait. Which samples count is decided outside.

mod addresses;
mod blocks;
#[cfg(test)]
pub(super) mod decoded;
pub(crate) mod messages;
mod writer;

use super::columns::ValueColumns;
use super::gzip;
use super::stacks::{common_notes, with_waits};
use crate::report::analysis::Analysis;
use crate::report::export::exporter::{Exporter, Render, Rendered};
use crate::report::heap::heap_blocks::all_blocks;
use crate::report::model::metric::Shown;
use crate::report::options::ExportOptions;
use crate::report::query::filter_words;
use crate::report::query::selection::Selection;
use blocks::CountedBlocks;
use std::io::{self, Write};
use writer::PprofFile;

impl Rendered for PprofFile<'_> {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        gzip::packed(out, |out| writer::write(self, out))
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

/// The export format.
pub(in crate::report::export) const EXPORTER: Exporter = Exporter {
    name: "pprof",
    endings: &[".pb.gz", ".pprof"],
    is_binary: true,
    key: Some(('p', "pprof")),
    render: Render::Any(render),
    ..Exporter::NONE
};

fn render<'r>(
    recording: &'r Analysis,
    selection: Selection<'r>,
    options: &ExportOptions,
) -> anyhow::Result<Box<dyn Rendered + 'r>> {
    let counted = with_waits(recording, selection, options)?;
    let all = options.common.heap.zip(all_blocks(&recording.profile));
    let (selection, columns, blocks) = match all {
        Some((view, all)) => {
            let whole = Selection::new(recording, Shown::one(all), &options.common)?;
            let blocks = CountedBlocks::of_selection(&counted);
            (whole, ValueColumns::of_heap(view, options.count), blocks)
        }
        None => {
            let columns = ValueColumns::of(&counted, options);
            (counted, columns, CountedBlocks::default())
        }
    };
    let notes = common_notes(&selection, options)
        .into_iter()
        .chain(["pprof cannot store times, CPUs or wakers: equal stacks are merged".to_owned()]);
    Ok(Box::new(PprofFile {
        columns,
        blocks,
        names: options.common.names_for_programs(),
        time: options.common.filter.time,
        filters: filter_words::description(&options.common.filter),
        notes: notes.collect(),
        selection,
    }))
}
