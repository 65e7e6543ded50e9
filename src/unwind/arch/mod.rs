//! What differs between processors: register numbers, what calls and signals do, and on arm64 rules from entries and from code.
//! The rest of the room asks here and names no processor.

pub(crate) mod aarch64_cfi_rule;
pub(crate) mod aarch64_patterns;
pub(crate) mod aarch64_prologue;
pub(crate) mod architecture;
pub(crate) mod perf_registers;
pub(crate) mod register_set;
