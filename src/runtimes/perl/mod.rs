//! Perl: frames and names of perl 5.28 to 5.42, read in the memory of a process that runs: its layout, names of subs, the
//! functions that run ops, and stacks. Not here: ELF files, unwinding, merging with native
//! frames, programs of the kernel.

mod code;
mod find;
mod frames;
mod instructions;
mod layout;
mod loops;
mod ops;
mod shapes;
#[cfg(test)]
mod tests;
mod text;

pub(crate) use code::{PerlCode, check, kind_name};
pub(crate) use frames::{PerlFrame, frames};
pub(crate) use layout::{PerlLayout, PerlLocator};
pub(crate) use loops::loop_ranges;
pub(crate) use ops::OpTables;
#[cfg(feature = "testing")]
pub(crate) use {layout::PerlVersion, shapes::shape};
