//! The kernel side: the BPF object with its generated bindings, and the bytes it sends as events.
//!
//! Knows nothing of processes, tables or profiles.
