//! How the kernel takes the programs: why it did not, and what its verifier had to look at.

pub(crate) mod failure;
pub(crate) mod verifier;
