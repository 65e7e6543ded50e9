//! What the machine gives this process: capabilities, namespaces, filters on system calls, limits on files and memory, and the allocator.
//! Facts and advice; nothing is recorded here.

pub(crate) mod allocator;
pub(crate) mod descriptors;
pub(crate) mod kernel_release;
pub(crate) mod kernel_types;
pub(crate) mod known_bugs;
pub(crate) mod machine;
pub(crate) mod memory_limit;
pub(crate) mod namespaces;
pub(crate) mod packages;
pub(crate) mod proc_status;
pub(crate) mod rights;
pub(crate) mod seccomp;
