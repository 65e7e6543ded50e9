//! `--fail-on`: what must not grow, and whether it did.

pub(crate) mod judge;
pub(crate) mod rule;
