//! What views count and how it is called: amounts, metrics, groups of equal samples, labels and names, the times of threads.
//! Computed from a profile, owned by no view; nothing here is printed or drawn.

pub(crate) mod activity;
pub(crate) mod amount;
pub(crate) mod ending;
pub(crate) mod group;
pub(crate) mod label;
pub(crate) mod label_key;
pub(crate) mod label_kind;
pub(crate) mod metric;
pub(crate) mod quality;
pub(crate) mod rollup;
pub(crate) mod sample_labels;
pub(crate) mod spread;
pub(crate) mod thread_names;
pub(crate) mod totals;
