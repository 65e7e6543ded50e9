//! A comparison as text for people, as documents for programs, and as a picture.

mod header;
mod json;
mod order;
pub(crate) mod output;
mod paths;
mod svg;
mod text;
mod tones;
mod trackers;
mod tree;
mod tsv;
mod values;
pub(crate) mod verdict;
