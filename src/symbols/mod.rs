//! Addresses to names.
//!
//! Pure functions over opened files and buffers: ELF symbol tables, DWARF lines and inline chains, the
//! kernel's symbol list, JIT maps, and demangling. Knows nothing of samples or profiles.
//!
//! Everything read here was written by a stranger. Sizes are checked before they are trusted, work is
//! bounded by [`Limits`], and what cannot be named for sure is left unnamed: an address never gets
//! the name of the function beside it.

mod demangle;

pub use demangle::demangle;
