//! Goroutines of a Go program, read in its memory while it runs: their states, stacks and labels; and what its runtime samples of
//! its heap and of waits for locks.
//!
//! Where the runtime keeps them is found in the program itself, stripped or not: in its code and in Go's own descriptions
//! of types. Not here: names of functions, files, which process is a Go program, and programs of the kernel.

mod contention;
mod heap;
mod instructions;
mod labels;
mod layout;
mod offsets;
mod places;
mod sampling;
mod snapshot;
mod stacks;
mod strings;
#[cfg(test)]
mod tests;
mod types;

pub(crate) use contention::{GoRateAddresses, GoWaitLayout, GoWaitPlace, GoWaitRates};
pub(crate) use heap::{GoHeapLayout, GoHeapPlace};
pub(crate) use instructions::GoFunctions;
#[cfg(feature = "testing")]
pub(crate) use labels::GoLabelLayout;
pub(crate) use labels::{GoLabelForm, first_labels};
pub(crate) use layout::{GoLayout, is_needed};
pub(crate) use places::{GoTableLack, real_calls};
pub(crate) use snapshot::{GoSnapshotOptions, GoState, Goroutine, GoroutineSnapshot};
pub(crate) use stacks::GoStackEnd;
