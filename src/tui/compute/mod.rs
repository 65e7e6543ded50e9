//! The thread that turns a recording and a query into a picture, and what the picture is. It knows nothing of the screen.

pub mod picture;
pub(crate) mod renaming;
#[cfg(test)]
pub(crate) mod renaming_tests;
pub mod worker;
#[cfg(test)]
pub(crate) mod worker_tests;
