//! The state of the interface and all that can happen to it: actions, keys, the query, the search. It draws nothing, reads no
//! terminal and computes no picture.

pub mod action;
pub(crate) mod export;
pub(crate) mod feed;
pub mod key;
pub mod query;
pub(crate) mod refusal;
pub mod search;
pub(crate) mod session;
pub mod state;
pub mod tree_path;
pub(crate) mod update;
pub(crate) mod update_live;
