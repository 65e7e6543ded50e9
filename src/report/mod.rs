//! Reading a profile and showing it: load, select, count, one view.
//!
//! [`Selection`] filters the samples and names their frames; tables and trees are built from it; views
//! are drawn from those and never write back. Everything works on any event of a profile.

mod export;
mod load;
mod model;
mod naming;
mod options;
mod print;
mod query;
mod recording;
#[cfg(test)]
pub(crate) mod tests;
mod views;
mod waits;

pub use export::{ExportJob, ExportShape, export, folded};
pub(crate) use load::unreadable;
pub use model::activity::Activity;
pub use model::amount::Amount;
pub(crate) use model::ending::words as ending_words;
pub use model::group::Group;
pub(crate) use model::label::thread_name;
pub use model::label::{Label, LabelId, Labels, Place, PlaceId, Step};
pub use model::label_key::{LabelKey, Source};
pub use model::label_kind::LabelKind;
pub use model::metric::{Metric, Shown};
pub use model::quality::{Quality, WorstModule};
pub use model::rollup::{RollupPart, RollupTime};
pub use model::totals::{ThreadTimes, Times, Totals};
pub use naming::name::{module_file, module_stem, short};
pub use naming::style::NameStyle;
pub use options::{
    ColorWhen, CommonOptions, DEFAULT_FILE, Destination, ExportFormat, ExportOptions, FilterOptions, Format,
    Grouping, InfoOptions, Input, NamePattern, PathStep, ReportOptions, SortKey, Space, StackFilter,
    ThreadFilter, ThreadKey, TimeRange, View,
};
pub use print::info::info;
pub use print::output::replace_file;
pub use print::render::{render, report};
pub use print::terminal::Screen;
pub use print::text::event_title;
pub use print::text::page::Page;
pub use query::selection::Selection;
pub use recording::Recording;
pub use views::call_tree::{CallTree, Direction, Node, NodeId};
pub use views::flame::{BoxOf, FlameBox, flame_boxes};
pub use views::function_table::{FunctionTable, Row};
pub use views::heat_map::{HeatGrid, HeatMap};
pub use views::peek::{Peek, peek};
pub use views::samples_at::{SampleAt, SamplesAt, StackStep};
pub use views::sandwich::Sandwich;
pub use views::threads::{
    ThreadRow, TopWait, thread_rows, thread_rows_with_times, thread_title, threads, threads_with_times,
};
pub use views::timeline::{Busy, Timeline, TimelineRow};
pub use waits::idle::IdleWaits;
pub use waits::reasons::Reasons;
pub use waits::site::WaitSite;
pub use waits::table::{WaitRow, WaitTable};
pub use waits::waker::WokenBy;
