//! `--fail-on`: what must not grow, and whether it did. Estimates come from `statistics`; nothing is measured here.

pub(crate) mod rule;
pub(crate) mod verdicts;
