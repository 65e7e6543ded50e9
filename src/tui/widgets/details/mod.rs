//! Lines below a view about what is selected, in the words that several views share. What only one view says is in its folder.

mod function;
mod rest;

pub(crate) use function::function_details;
pub(crate) use rest::{REST_WORDS, rest_heading, rest_name, rest_text};
