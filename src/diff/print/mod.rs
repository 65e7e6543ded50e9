//! A comparison as text for people, as documents for programs, and as a picture.

mod bmf;
mod criterion;
mod gobench;
mod header;
mod json;
mod order;
pub(crate) mod output;
mod paths;
mod svg;
mod text;
mod tree;
mod tsv;
mod values;
pub(crate) mod verdict;
