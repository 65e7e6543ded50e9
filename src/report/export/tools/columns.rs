//! Several values side by side per stack: counts and weights of samples and of waits.

use crate::base::safe_text;
use crate::profile::Unit;
use crate::report::heap::HeapView;
use crate::report::model::activity::Activity;
use crate::report::model::amount::Amount;
use crate::report::model::group::Group;
use crate::report::model::metric::Metric;
use crate::report::options::ExportOptions;
use crate::report::query::selection::Selection;

use super::stacks::is_wall;

/// Quantity that a column counts of a group.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ColumnMeasure {
    Samples,
    SampleWeight,
    Waits,
    WaitWeight,
    Weight,
    /// Of the heap: blocks that count, and their bytes; samples are all that were allocated.
    Blocks,
    BlockWeight,
}

/// One value per stack.
#[derive(Debug, Clone)]
pub(super) struct ValueColumn {
    /// Name of the column, safe to print.
    pub(super) name: String,
    /// Unit of the values.
    pub(super) unit: Unit,
    measure: ColumnMeasure,
    /// Running sum in thousandths: values are differences of rounded sums, so that they add up to the rounded total.
    thousandths: u64,
}

/// All values per stack.
#[derive(Debug, Clone)]
pub(super) struct ValueColumns {
    pub(super) all: Vec<ValueColumn>,
    /// Index of the column that is shown by default.
    pub(super) chosen: usize,
}

impl ValueColumns {
    /// The columns of all blocks of the heap, and of those that count, with the names that Go's profiles of memory have.
    pub(super) fn of_heap(view: HeapView, is_count: bool) -> Self {
        let mut all = vec![
            column("alloc_objects", Unit::Count, ColumnMeasure::Samples),
            column("alloc_space", Unit::Bytes, ColumnMeasure::SampleWeight),
        ];
        if let Some(word) = view.column() {
            all.push(column(&format!("{word}_objects"), Unit::Count, ColumnMeasure::Blocks));
            all.push(column(&format!("{word}_space"), Unit::Bytes, ColumnMeasure::BlockWeight));
        }
        let chosen = all.len() - 1 - usize::from(is_count);
        ValueColumns { all, chosen }
    }

    /// The columns of `selection`, and the one that the options choose.
    pub(super) fn of(selection: &Selection<'_>, options: &ExportOptions) -> Self {
        let shown = &selection.shown;
        let mut all = Vec::new();
        if let (Some(_), Some(event)) = (options.common.locks, shown.sampled.or(shown.waits)) {
            // The names that Go's profiles of locks have.
            let [number, weight] = match shown.sampled {
                Some(_) => [ColumnMeasure::Samples, ColumnMeasure::SampleWeight],
                None => [ColumnMeasure::Waits, ColumnMeasure::WaitWeight],
            };
            all.push(column("contentions", Unit::Count, number));
            all.push(column("delay", event.kind().unit, weight));
            return ValueColumns { all, chosen: usize::from(!options.count) };
        }
        if options.common.chains {
            all.push(column("wait", shown.unit, ColumnMeasure::Weight));
            return ValueColumns { all, chosen: 0 };
        }
        if let Some(event) = shown.sampled {
            let is_time = Metric::of_kind(event.kind()) == Metric::ON_CPU;
            let name = if is_time { "cpu" } else { &*event.kind().name };
            all.push(column("samples", Unit::Count, ColumnMeasure::Samples));
            all.push(column(name, event.kind().unit, ColumnMeasure::SampleWeight));
        }
        if let Some(event) = shown.waits {
            all.push(column("waits", Unit::Count, ColumnMeasure::Waits));
            all.push(column("off_cpu", event.kind().unit, ColumnMeasure::WaitWeight));
        }
        if is_wall(options) {
            all.push(column("wall", shown.unit, ColumnMeasure::Weight));
        }
        // Weights come after counts; the sum of both events comes last.
        let chosen = match (is_wall(options), options.count) {
            (true, _) => all.len().saturating_sub(1),
            (false, is_number) => usize::from(!is_number),
        };
        ValueColumns { all, chosen }
    }

    /// Puts the values of `group` into `values`, one per column. Of blocks of the heap, `blocks` are those that count.
    pub(super) fn fill(&mut self, group: &Group, blocks: Amount, values: &mut Vec<u64>) {
        values.clear();
        values.extend(self.all.iter_mut().map(|column| column.value(group, blocks)));
    }
}

fn column(name: &str, unit: Unit, measure: ColumnMeasure) -> ValueColumn {
    let name = safe_text::message(name).replace(char::is_whitespace, "_");
    ValueColumn { name, unit, measure, thousandths: 0 }
}

impl ValueColumn {
    fn value(&mut self, group: &Group, blocks: Amount) -> u64 {
        let is_wait = group.activity != Activity::Running;
        let counted = match self.measure {
            ColumnMeasure::Samples | ColumnMeasure::SampleWeight if is_wait => return 0,
            ColumnMeasure::Waits | ColumnMeasure::WaitWeight if !is_wait => return 0,
            ColumnMeasure::Blocks | ColumnMeasure::BlockWeight => blocks,
            _ => group.amount,
        };
        match self.measure {
            ColumnMeasure::Samples | ColumnMeasure::Waits | ColumnMeasure::Blocks => {
                let before = rounded(self.thousandths);
                self.thousandths = self.thousandths.saturating_add(counted.count_thousandths);
                rounded(self.thousandths) - before
            }
            ColumnMeasure::SampleWeight
            | ColumnMeasure::WaitWeight
            | ColumnMeasure::Weight
            | ColumnMeasure::BlockWeight => counted.weight,
        }
    }
}

fn rounded(thousandths: u64) -> u64 {
    thousandths / 1000 + u64::from(thousandths % 1000 >= 500)
}
