//! Output of a comparison: text for people, documents for programs, and a flame graph.

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
