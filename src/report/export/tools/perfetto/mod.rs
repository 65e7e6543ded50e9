//! Perfetto's protobuf trace: a track per thread with its states over time, and samples with their stacks. Slices are named
//! `running`, `runnable` (ready, without a free CPU) and `waiting (lock)`; a wait has its stack and its waker. Everything that
//! packets refer to by index comes first, in a single sequence. Which samples count is decided outside.

#[cfg(test)]
pub(super) mod decoded;
mod interned;
mod messages;
mod states;
mod writer;

use super::in_time::InTime;
use super::stacks::{common_notes, short_waits_note};
use crate::profile::{Event, EventKind};
use crate::report::export::exporter::{Exporter, Render, Rendered};
use crate::report::options::ExportOptions;
use crate::report::query::selection::Selection;
use std::io::{self, Write};
use writer::PerfettoTrace;

impl Rendered for PerfettoTrace<'_> {
    fn write(&self, out: &mut dyn Write) -> io::Result<()> {
        writer::write(self, out)
    }

    fn notes(&self) -> Vec<String> {
        self.notes.clone()
    }
}

/// The export format.
pub(in crate::report::export) const EXPORTER: Exporter = Exporter {
    name: "perfetto",
    endings: &[".perfetto-trace", ".pftrace"],
    is_binary: true,
    render: Render::Stacks(render),
    ..Exporter::NONE
};

fn render<'r>(selection: Selection<'r>, options: &ExportOptions) -> Box<dyn Rendered + 'r> {
    let is_time = |event: &Event| event.kind().is(&EventKind::ON_CPU);
    let filter = &options.common.filter;
    let has_both = selection.shown.sampled.is_some_and(is_time) && selection.shown.waits.is_some();
    // With these filters it is not known which code a thread ran between two samples.
    let has_running = has_both && !filter.drops_by_code() && !filter.drops_single_samples();
    let in_time = InTime::new(&selection, filter.time);
    let mut notes: Vec<String> = common_notes(&selection, options).into_iter().collect();
    notes.extend(short_waits_note(&selection, "they have no times and are left out"));
    notes.extend(in_time.notes());
    if has_both && !has_running {
        notes.push("with filters on code, CPUs or labels there are no slices of running time".to_owned());
    }
    Box::new(PerfettoTrace {
        names: options.common.names_for_programs(),
        time: filter.time,
        in_time,
        has_running,
        notes,
        selection,
    })
}
