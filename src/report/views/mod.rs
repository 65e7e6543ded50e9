//! Tables, trees and grids of a selection, as data for text, exports and the terminal. Views print and draw nothing,
//! and are independent of each other.

pub(crate) mod annotation;
pub(crate) mod call_tree;
pub(crate) mod flame;
pub(crate) mod function_table;
pub(crate) mod goroutine_table;
pub(crate) mod heat_map;
pub(crate) mod heaviest_paths;
pub(crate) mod peek;
pub(crate) mod samples_at;
pub(crate) mod sandwich;
pub(crate) mod threads;
pub(crate) mod timeline;
