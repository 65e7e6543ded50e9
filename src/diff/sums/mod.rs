//! A recording reduced to the sums that a comparison needs: by row, by path, and in slices of time. It knows one recording
//! at a time; sides and statistics stay outside.

pub(crate) mod parts;
pub(crate) mod path_finder;
pub(crate) mod path_parts;
mod rows;
pub(crate) mod run;
pub(crate) mod run_row;
pub(crate) mod slicing;
