//! The file `prof.data`: chunks of rows, appended while the recording runs. See `docs/format.md`.
//!
//! ```text
//! header │ meta │ strings │ modules │ … │ samples │ counters │ strings │ frames │ samples │ … │ end
//! ```
//!
//! A chunk only refers to rows of chunks before it, so every prefix that ends between two chunks is a
//! profile. [`Writer`] appends what is new; [`read`] takes a file as a stranger's: it checks each length, id
//! and sum before it relies on it, and what it holds in memory is bounded by the size of the file.

pub(crate) mod bounds;
mod chunk;
mod decode;
pub(crate) mod error;
pub(crate) mod glance;
mod header;
mod open;
mod reader;
mod rows;
mod sink;
mod writer;
mod written_rows;

#[cfg(test)]
pub(super) mod tests;

pub(crate) use self::glance::Glance;
pub(crate) use header::begins_as_profile;
pub(crate) use open::Opened;
pub use open::read_path;
pub use reader::read;
pub(crate) use reader::read_stream;
pub use writer::Writer;
