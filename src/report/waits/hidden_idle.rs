//! Idle waits that a view hides, by their places: what is not shown can still be named.

use super::site::WaitSite;
use super::table::WaitTable;
use crate::profile::Reason;
use crate::report::analysis::Analysis;
use crate::report::model::amount::Amount;
use crate::report::model::metric::Metric;
use crate::report::naming::name;
use crate::report::options::{CommonOptions, FilterOptions, Grouping, SortKey};
use crate::report::query::selection::Selection;
use std::cmp::Reverse;

/// Idle waits of one reason at one place.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct IdlePlace {
    /// The function that waits. Foreign text.
    pub(crate) function: String,
    /// Short name of the function. Foreign text.
    pub(crate) short: String,
    /// Reason of the waits.
    pub(crate) reason: Reason,
    /// Number and time of the waits.
    pub(crate) amount: Amount,
}

/// All idle waits that are hidden.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct HiddenIdle {
    /// Number and time of the waits.
    pub(crate) amount: Amount,
    /// Places of the waits, the longest time first.
    pub(crate) places: Vec<IdlePlace>,
}

impl HiddenIdle {
    /// Finds the idle waits that `selection`, which was made with `options`, hides; `None` when there are none.
    pub(crate) fn of(
        recording: &Analysis,
        selection: &Selection<'_>,
        options: &CommonOptions,
    ) -> Option<Self> {
        if selection.hidden_idle.is_empty() || selection.shown.waits.is_none() {
            return None;
        }
        let filter = FilterOptions { idle: true, ..options.filter.clone() };
        let options = CommonOptions { filter, grouping: Grouping::Function, ..options.clone() };
        // The patterns were read without error for the selection itself.
        let all = Selection::new(recording, recording.shown(Some(Metric::OFF_CPU)).ok()?, &options).ok()?;
        let mut hidden = HiddenIdle { amount: Amount::default(), places: Vec::new() };
        for row in
            WaitTable::new(&all, SortKey::SelfWeight).rows.into_iter().filter(|row| !row.idle.is_empty())
        {
            hidden.amount.add(row.idle);
            let WaitSite::Call { blocked_in, called_by } = row.site else { continue };
            let label = blocked_in.or(called_by).map(|label| all.labels.get(label));
            let function = label.map_or("[no stack]".to_owned(), |label| label.name.clone());
            let short = label.map_or(function.clone(), |label| name::short_of(label.kind, &label.name));
            hidden.places.push(IdlePlace { function, short, reason: row.reason, amount: row.idle });
        }
        // One function may be called by several.
        let mut places: Vec<IdlePlace> = Vec::new();
        for place in hidden.places {
            match places
                .iter_mut()
                .find(|known| (&known.function, known.reason) == (&place.function, place.reason))
            {
                Some(known) => known.amount.add(place.amount),
                None => places.push(place),
            }
        }
        places.sort_by_key(|place| Reverse(place.amount.weight));
        (!hidden.amount.is_empty()).then_some(HiddenIdle { places, ..hidden })
    }
}
