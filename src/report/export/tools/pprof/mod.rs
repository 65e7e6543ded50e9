//! pprof's protobuf format, gzipped: for `go tool pprof`, Pyroscope, Parca, Grafana, Speedscope. Counts and weights of samples
//! and waits are columns side by side. A location lists its innermost inlined function first, the main program is the first
//! mapping, and labels hold the thread of a sample and the reason of a wait. Which samples count is decided outside.

mod addresses;
#[cfg(test)]
pub(super) mod decoded;
pub(crate) mod messages;
mod writer;

use super::columns::ValueColumns;
use super::gzip;
use super::stacks::common_notes;
use crate::report::export::exporter::{Exporter, Render, Rendered};
use crate::report::options::ExportOptions;
use crate::report::query::filter_words;
use crate::report::query::selection::Selection;
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
    render: Render::Stacks(render),
    ..Exporter::NONE
};

fn render<'r>(selection: Selection<'r>, options: &ExportOptions) -> Box<dyn Rendered + 'r> {
    let notes = common_notes(&selection, options)
        .into_iter()
        .chain(["pprof cannot store times, CPUs or wakers: equal stacks are merged".to_owned()]);
    Box::new(PprofFile {
        columns: ValueColumns::of(&selection, options),
        names: options.common.names_for_programs(),
        time: options.common.filter.time,
        filters: filter_words::description(&options.common.filter),
        notes: notes.collect(),
        selection,
    })
}
