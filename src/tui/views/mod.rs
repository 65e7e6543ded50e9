//! The views: a folder each, with what it draws, what its keys do and its tests. No view knows another. `tabs.rs` has a line for
//! each.

pub(crate) mod all;
pub(crate) mod callers;
pub(crate) mod flame;
pub(crate) mod locks;
pub(crate) mod source;
pub(crate) mod tabs;
pub(crate) mod threads;
pub(crate) mod time;
pub(crate) mod top;
pub(crate) mod view;
