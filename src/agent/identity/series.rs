//! The labels of a series, and a limit on how many series there are.

use super::super::rules::{LabelMap, cut};
use crate::base::safe_text;
use std::collections::HashMap;
use std::time::{Duration, Instant};

/// Most labels of a series, with `__name__`, which is added when it is sent: what servers take by default.
pub(crate) const MOST_LABELS: usize = 30;

/// Most bytes of a value.
const MOST_VALUE_BYTES: usize = 256;

/// How long a series counts after its last process was asked for: longer than a window of ten minutes and the one after it.
const KEPT: Duration = Duration::from_secs(1500);

/// The service of processes whose series would be too many.
pub(crate) const OTHER_SERVICE: &str = "other";

/// Labels of a series, ordered by name: safe to show, none empty, `service_name` among them.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct SeriesLabels {
    pairs: Vec<(String, String)>,
}

impl SeriesLabels {
    /// The labels of a map that are no facts, with values that servers and screens can have.
    pub(super) fn of(map: LabelMap) -> Self {
        let is_sent = |(name, value): &(String, String)| !name.starts_with("__") && !value.is_empty();
        let pairs = map.into_iter().map(|(name, value)| (name, clean(&value))).filter(is_sent);
        SeriesLabels { pairs: pairs.take(MOST_LABELS - 1).collect() }
    }

    /// Names and values, ordered by name.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.pairs.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// The value of a label.
    #[cfg(test)]
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.iter().find_map(|(own, value)| (own == name).then_some(value))
    }

    /// The name of the service: every series has one.
    #[cfg(test)]
    pub(crate) fn service(&self) -> &str {
        self.get("service_name").unwrap_or_default()
    }
}

/// A value without what drives terminals, and not longer than servers take.
fn clean(value: &str) -> String {
    let shown = safe_text::terminal(value.trim());
    cut(&shown, MOST_VALUE_BYTES).trim().to_owned()
}

/// Keeps series few: processes choose their own names, and each new one costs the server an index entry.
#[derive(Debug)]
pub(crate) struct SeriesLimit {
    most: usize,
    seen: HashMap<SeriesLabels, Instant>,
}

impl SeriesLimit {
    /// At most `most` series at a time, those of the last 25 minutes.
    pub(crate) fn new(most: usize) -> Self {
        SeriesLimit { most, seen: HashMap::new() }
    }

    /// Number of series that count now.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.seen.len()
    }

    /// Whether a series is one of those that there may be.
    pub(super) fn admits(&mut self, labels: &SeriesLabels, now: Instant) -> bool {
        if let Some(used) = self.seen.get_mut(labels) {
            *used = now;
            return true;
        }
        if self.seen.len() >= self.most {
            self.seen.retain(|_, used| now.saturating_duration_since(*used) < KEPT);
        }
        let has_room = self.seen.len() < self.most;
        if has_room {
            self.seen.insert(labels.clone(), now);
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn series(pairs: &[(&str, &str)]) -> SeriesLabels {
        SeriesLabels::of(pairs.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect())
    }

    #[test]
    fn facts_and_empty_values_are_not_sent() {
        let labels = series(&[("service_name", " shop\x1b[2J "), ("__exe", "/bin/x"), ("a", " ")]);
        assert_eq!(labels.iter().collect::<Vec<_>>(), [("service_name", "shop\\x1b[2J")]);
        assert_eq!(labels.service(), "shop\\x1b[2J");
    }

    #[test]
    fn a_process_that_makes_up_names_does_not_make_series() {
        let (mut limit, now) = (SeriesLimit::new(3), Instant::now());
        let of = |n: u32| series(&[("service_name", &n.to_string())]);
        let admitted = (0..100).filter(|n| limit.admits(&of(*n), now)).count();
        assert_eq!((admitted, limit.len()), (3, 3));
        assert!(limit.admits(&of(0), now + KEPT / 2), "those that are there stay");
        assert!(!limit.admits(&of(7), now + KEPT / 2));
        assert!(limit.admits(&of(7), now + KEPT), "two have not been seen for ten minutes");
        assert!(limit.admits(&of(0), now + KEPT));
    }

    proptest! {
        #[test]
        fn values_are_bounded_and_safe(value in any::<String>(), count in 0usize..60) {
            let map = (0..count).map(|n| (format!("l{n}"), value.clone())).collect();
            let labels = SeriesLabels::of(map);
            prop_assert!(labels.iter().count() < MOST_LABELS);
            for (_, value) in labels.iter() {
                prop_assert!(!value.is_empty() && value.len() <= MOST_VALUE_BYTES);
                prop_assert!(!value.chars().any(char::is_control));
            }
        }
    }
}
