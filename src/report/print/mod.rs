//! A report as text for people and as JSON and tables for programs, on a terminal or not. Views come in; nothing is computed here
//! that another output would need.

pub(crate) mod annotate;
pub(crate) mod annotation_json;
pub(crate) mod cost;
mod heap;
pub(crate) mod info;
mod info_modules;
pub(crate) mod json;
mod json_goroutines;
pub(crate) mod json_waits;
mod locks;
mod module_fields;
pub(crate) mod output;
pub(crate) mod render;
pub(crate) mod terminal;
pub(crate) mod text;
pub(crate) mod tsv;
