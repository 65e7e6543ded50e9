//! Output of a comparison: text for people, documents for programs, and a flame graph. Nothing is compared here.

pub(crate) mod change_words;
pub(crate) mod header;
mod json;
mod order;
pub(crate) mod output;
mod paths;
mod svg;
mod text;
pub(crate) mod tones;
mod trackers;
mod tree;
mod tsv;
pub(crate) mod values;
pub(crate) mod verdict;
