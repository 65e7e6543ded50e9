//! A recording reduced to the sums that a comparison needs: by row, by path, and in slices of time.

pub(crate) mod parts;
mod rows;
pub(crate) mod run;
pub(crate) mod run_row;
pub(crate) mod slicing;
