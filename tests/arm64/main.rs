//! arm64: the walk over recorded stacks, the rules of real files, and the BPF programs compiled for it.
//! None of this needs an arm64 machine.

mod bpf;
mod case;
mod replay;
mod rows;
