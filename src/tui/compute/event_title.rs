//! What a picture says of its event.

use crate::base::units;
use crate::profile::{Meta, Unit};
use crate::report::{Metric, Shown};

/// Description of the event on the screen, without its recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct EventTitle {
    /// Name of the weights: `on-CPU`, `off-CPU`, `wall clock`, `page faults`. Safe to print.
    pub(crate) title: String,
    /// Unit of the weights.
    pub(crate) unit: Unit,
    /// Metric of the weights.
    pub(crate) metric: Metric,
    /// Noun for one sample of the event. Safe to print.
    pub(crate) noun: String,
    /// Sampling rate, with a space in front: ` 999 Hz`.
    pub(crate) rate: String,
    /// Whether waits are among the samples.
    pub(crate) has_waits: bool,
}

impl EventTitle {
    /// Describes what is shown of a recording.
    pub(super) fn of(shown: &Shown<'_>, meta: &Meta) -> Self {
        EventTitle {
            title: shown.title.to_string(),
            unit: shown.unit,
            metric: shown.metric(),
            noun: shown.noun.to_string(),
            rate: shown.rate(meta).replacen(" at ", " ", 1),
            has_waits: shown.waits.is_some(),
        }
    }

    /// A weight with its unit, by itself: `20.8 ms`, `20,770 page faults`.
    pub(crate) fn amount(&self, weight: u64) -> String {
        let number = units::weight(self.unit, weight, 0);
        if self.unit == Unit::Nanoseconds { number } else { format!("{number} {}", self.title) }
    }
}
