//! The file `prof.data` (`docs/format.md`): chunks of rows, appended while the recording runs. A chunk only refers to rows of
//! chunks before it, so every prefix that ends between two chunks is a profile. [`Writer`] appends what is new; [`read`] checks
//! each length, id and sum of a stranger's file before it relies on it, and is bounded by the size of the file. What the rows
//! mean is not known here.

mod blocks_so_far;
pub(crate) mod bounds;
mod chunk;
mod decode;
pub(crate) mod error;
pub(crate) mod glance;
mod header;
pub(crate) mod lock;
mod open;
mod reader;
mod rows;
mod sink;
mod writer;
mod written_rows;

#[cfg(test)]
pub(super) mod tests;

#[cfg(feature = "testing")]
pub(crate) use self::chunk::chunk_of;
pub(crate) use self::glance::Glance;
pub(crate) use header::begins_as_profile;
pub use open::read_path;
pub(crate) use open::{Opened, start_of};
pub use reader::read;
pub(crate) use reader::read_stream;
pub use writer::Writer;
