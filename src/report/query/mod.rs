//! What of a profile is shown: the filters, the samples that they keep, and the notes on those. Options come in, a selection goes out.
//! A selection is what every view is made of.

pub(crate) mod advice;
pub(crate) mod filter;
pub(crate) mod filter_words;
mod folding;
pub(crate) mod groups;
pub(crate) mod lighter_threads;
pub(crate) mod named_since;
pub(crate) mod notes;
pub(crate) mod same_path;
pub(crate) mod select;
pub(crate) mod selection;
pub(crate) mod stack_filter;
pub(crate) mod waits_note;
