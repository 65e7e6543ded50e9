//! The protobuf of pprof, packed: for `go tool pprof`, Pyroscope, Parca, Grafana, Speedscope.
//!
//! Numbers and weights of samples and waits stand side by side. A location has its innermost inlined function first, the
//! main program's mapping is the first one, and labels say which thread a sample is of and why a thread waited.

mod addresses;
#[cfg(test)]
pub(super) mod decoded;
pub(crate) mod messages;
mod writer;

use super::columns::ValueColumns;
use super::gzip;
use super::stacks::{common_notes, with_waits};
use crate::report::analysis::Analysis;
use crate::report::export::exporter::{Exporter, Rendered};
use crate::report::options::ExportOptions;
use crate::report::query::filter;
use crate::report::query::selection::Selection;
use std::io::{self, Write};
use writer::PprofFile;

/// The format.
#[derive(Debug)]
pub(in crate::report::export) struct Pprof;

impl Rendered for PprofFile<'_> {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        gzip::packed(out, |out| writer::write(self, out))
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

impl Exporter for Pprof {
    fn name(&self) -> &'static str {
        "pprof"
    }

    fn endings(&self) -> &'static [&'static str] {
        &[".pb.gz", ".pprof"]
    }

    fn is_binary(&self) -> bool {
        true
    }

    fn key(&self) -> Option<(char, &'static str)> {
        Some(('p', "pprof"))
    }

    fn render<'r>(
        &self,
        recording: &'r Analysis,
        selection: Selection<'r>,
        options: &ExportOptions,
    ) -> anyhow::Result<Box<dyn Rendered + 'r>> {
        let selection = with_waits(recording, selection, options)?;
        let notes = common_notes(&selection, options)
            .into_iter()
            .chain(["pprof cannot store times, CPUs or wakers: equal stacks are merged".to_owned()]);
        Ok(Box::new(PprofFile {
            columns: ValueColumns::of(&selection, options),
            names: options.common.names_for_programs(),
            time: options.common.filter.time,
            filters: filter::description(&options.common.filter),
            notes: notes.collect(),
            selection,
        }))
    }
}
