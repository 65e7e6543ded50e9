//! The five views, a folder each: drawing, keys and tests.

pub(crate) mod callers;
pub(crate) mod flame;
pub(crate) mod threads;
pub(crate) mod time;
pub(crate) mod top;
pub(crate) mod view;
