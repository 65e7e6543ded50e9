//! Several values side by side per stack: counts and weights of samples and of waits.

use crate::base::safe_text;
use crate::profile::Unit;
use crate::report::model::activity::Activity;
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
    /// The columns of `selection`, and the one that the options choose.
    pub(super) fn of(selection: &Selection<'_>, options: &ExportOptions) -> Self {
        let shown = &selection.shown;
        let column = |name: &str, unit, measure| {
            let name = safe_text::message(name).replace(char::is_whitespace, "_");
            ValueColumn { name, unit, measure, thousandths: 0 }
        };
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

    /// Puts the values of `group` into `values`, one per column.
    pub(super) fn fill(&mut self, group: &Group, values: &mut Vec<u64>) {
        let is_wait = group.activity != Activity::Running;
        values.clear();
        values.extend(self.all.iter_mut().map(|column| column.value(group, is_wait)));
    }
}

impl ValueColumn {
    fn value(&mut self, group: &Group, is_wait: bool) -> u64 {
        let is_counted = match self.measure {
            ColumnMeasure::Samples | ColumnMeasure::SampleWeight => !is_wait,
            ColumnMeasure::Waits | ColumnMeasure::WaitWeight => is_wait,
            ColumnMeasure::Weight => true,
        };
        match self.measure {
            _ if !is_counted => 0,
            ColumnMeasure::Samples | ColumnMeasure::Waits => {
                let before = rounded(self.thousandths);
                self.thousandths = self.thousandths.saturating_add(group.amount.count_thousandths);
                rounded(self.thousandths) - before
            }
            ColumnMeasure::SampleWeight | ColumnMeasure::WaitWeight | ColumnMeasure::Weight => {
                group.amount.weight
            }
        }
    }
}

fn rounded(thousandths: u64) -> u64 {
    thousandths / 1000 + u64::from(thousandths % 1000 >= 500)
}
