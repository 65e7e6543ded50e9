//! The state of the interface and all that can happen to it: actions, keys, the query, the search. It draws nothing, reads no
//! terminal and computes no picture.

pub(crate) mod action;
pub(crate) mod choices;
pub(crate) mod context;
pub(crate) mod diff_base;
pub(crate) mod export;
pub(crate) mod key;
pub(crate) mod query;
pub(crate) mod refusal;
pub(crate) mod search;
pub(crate) mod session;
pub(crate) mod state;
pub(crate) mod tree_path;
pub(crate) mod update;
pub(crate) mod update_live;
