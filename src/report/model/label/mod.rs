//! Labels: what a report calls the functions, modules, threads and waits that it adds up. A label is an entry of a table and is
//! compared by its number. How names are written is decided in `naming`, what is added up in the views.

mod entry;
mod table;

pub(crate) use entry::{Label, LabelId, Place, PlaceId, Step};
pub(crate) use table::{Labels, code_kind, module_text};
