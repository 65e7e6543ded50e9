//! Reads a profile and shows it: load, select, count, one view.
//!
//! [`Selection`] filters samples and names their frames; tables and trees are built from the selection, and views are drawn
//! from tables and trees. Data never flows back. Everything works on any event of a profile.

mod analysis;
mod chains;
mod clock;
mod clock_part;
mod code;
mod export;
mod grouping;
mod heap;
mod input;
mod load;
mod locks;
mod model;
mod naming;
mod options;
mod print;
mod query;
mod recording;
mod row_limits;
#[cfg(test)]
pub(crate) mod tests;
mod views;
mod waits;
mod windows;

pub use analysis::Analysis;
pub(crate) use analysis::Seen;
pub(crate) use clock::{ClockSpan, SPAN_FORMS};
pub(crate) use clock_part::ClockPart;
pub(crate) use code::annotate_options::{AnnotateOptions, AnnotationView};
pub(crate) use code::disassembly::AsmSyntax;
pub(crate) use code::source_files::{SourceTexts, read as read_sources};
pub use export::folded;
pub(crate) use export::pprof_messages;
pub(crate) use export::{ExportFormat, ExportJob, ExportRequest, ExportShape, export, write_to_free_name};
pub(crate) use export::{
    HostLabel, SampleLabel, SeriesBatch, SeriesChunk, SeriesOptions, halves, otlp_profiles, otlp_request,
    pprof_profile, refuse_label,
};
pub(crate) use heap::HeapView;
pub(crate) use heap::heap_part::HeapPart;
pub(crate) use input::{DEFAULT_FILE, Input};
pub(crate) use load::unreadable;
pub(crate) use locks::ChargedTo;
pub(crate) use locks::lock_sheet::{LockIdentity, LockLine, LockSheet, has_locks, keep_lock_waits};
pub(crate) use model::activity::Activity;
pub(crate) use model::amount::Amount;
pub(crate) use model::ending::words as ending_words;
pub(crate) use model::group::Group;
pub(crate) use model::label::{Label, LabelId, Labels, Step};
pub(crate) use model::label_key::{LabelKey, SourceLine};
pub(crate) use model::label_kind::LabelKind;
pub use model::metric::Metric;
pub(crate) use model::metric::Shown;
pub(crate) use model::quality::Quality;
pub(crate) use model::totals::{Times, Totals};
pub(crate) use naming::name::{module_file, module_stem, short};
pub(crate) use naming::nearest::nearest;
pub(crate) use naming::runtime::Runtime;
pub use naming::style::NameStyle;
pub(crate) use naming::thread_class::thread_name;
pub(crate) use options::{
    ColorWhen, ExportOptions, Format, Grouping, InfoOptions, LabelPattern, NamePattern, PathStep,
    ReportDestination, SortKey, Space, ThreadFilter, ThreadKey,
};
pub use options::{CommonOptions, ReportOptions, ReportView, ThreadSplit, TimeRange};
pub(crate) use options::{FilterOptions, StackFilter};
pub(crate) use print::annotate::annotate;
pub(crate) use print::cost::{cost_lines, cost_sum_words, cost_words};
pub(crate) use print::info::info;
pub(crate) use print::json::document;
pub(crate) use print::output::{check, check_not_input, replace_file, say_notes, write_with};
pub use print::render::render;
pub(crate) use print::render::report;
pub(crate) use print::terminal::{Screen, show_in_pager};
pub use print::text::page::Page;
pub(crate) use print::text::page::{FAINT, HEADING, NOTE, padded, push_line};
pub(crate) use query::filter::pattern;
pub(crate) use query::filter_words::{FilterPart, description as filters_in_words, filter_parts};
pub(crate) use query::lighter_threads::LighterThreads;
pub(crate) use query::named_since::{NamedSince, PathStart, label_of};
pub(crate) use query::selection::Selection;
pub(crate) use recording::Recording;
pub(crate) use row_limits::RowLimits;
pub(crate) use views::annotation::{AnnotatedLine, Annotation, InnermostCalls};
pub use views::call_tree::Direction;
pub(crate) use views::call_tree::{CallTree, Node, NodeId};
pub(crate) use views::flame::{BoxOf, FlameBox, flame_boxes};
pub(crate) use views::function_table::{FunctionRow, FunctionTable};
pub(crate) use views::heat_map::HeatGrid;
pub use views::samples_at::SamplesAt;
pub(crate) use views::samples_at::{SampleAt, StackStep};
pub(crate) use views::sandwich::Sandwich;
pub(crate) use views::threads::{ThreadRow, TopWait, thread_rows, thread_rows_with_times, thread_title};
pub use views::timeline::Timeline;
pub(crate) use views::timeline::{TimelineRow, TimelineState};
pub(crate) use waits::site::{WaitSite, WaitSites};
pub(crate) use windows::without_foreign;
#[cfg(test)]
pub(crate) use {
    views::annotation::tests::annotated,
    views::peek::peek,
    views::threads::{threads, threads_with_times},
    waits::table::WaitTable,
};
