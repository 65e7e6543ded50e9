//! The thread that turns a recording and a query into a picture, and what the picture is. It knows nothing of the screen.

pub(crate) mod picture;
pub(crate) mod worker;
#[cfg(test)]
pub(crate) mod worker_tests;
