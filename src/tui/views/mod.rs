//! The five views: a folder each, with what it draws, what its keys do and its tests.

pub mod callers;
pub mod flame;
pub mod threads;
pub mod time;
pub mod top;
