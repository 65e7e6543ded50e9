//! Waits of goroutines for each other, and who held the locks: Go's runtime samples both by itself where two rates are not 0.
//! While a recording lasts they are set, unless the program has set them.

mod rates;
mod rows;
mod tables;

pub(in crate::record) use rates::GoRateService;
pub(crate) use tables::{GoWaitEvents, GoWaits};
