//! Where the weight of a hit is.

use crate::bpf::{prof_probe, weight_kind};
use serde::{Deserialize, Serialize};

/// Place of a value when a probe is hit; by default there is none, and each hit counts as one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(super) struct WeightPlace {
    /// One of `enum prof_weight_kind`; the functions below set it.
    pub(super) kind: u32,
    /// Register, by DWARF number, or argument of a tracepoint, from 0.
    pub(super) base: u32,
    /// Register that is multiplied by `scale`, if that is not 0, and added.
    pub(super) index: u32,
    pub(super) scale: u32,
    /// What is added to an address, or the value itself.
    pub(super) offset: i64,
    /// Size of the value: 1, 2, 4 or 8.
    pub(super) bytes: u32,
    pub(super) is_signed: bool,
}

impl WeightPlace {
    /// The value is in a register.
    pub(super) fn register(self, register: u32) -> Self {
        WeightPlace { kind: weight_kind::REGISTER, base: register, ..self }
    }

    /// The value is in memory, at an address made of a register.
    pub(super) fn memory(self, base: u32) -> Self {
        WeightPlace { kind: weight_kind::MEMORY, base, ..self }
    }

    /// The value is always the same.
    pub(super) fn constant(self) -> Self {
        WeightPlace { kind: weight_kind::CONSTANT, ..self }
    }

    /// The value is an argument of a tracepoint, from 0.
    pub(super) fn argument(self, number: u32) -> Self {
        WeightPlace { kind: weight_kind::ARGUMENT, base: number, ..self }
    }

    /// The register whose value counts, if there is one.
    pub(super) fn whole_register(&self) -> Option<u32> {
        (self.kind == weight_kind::REGISTER).then_some(self.base)
    }

    /// Whether the programs can read it: another process may have said it.
    pub(super) fn is_possible(&self) -> bool {
        self.kind <= weight_kind::ARGUMENT
            && self.base < 32
            && self.index < 32
            && [0, 1, 2, 4, 8].contains(&self.scale)
            && (self.kind == weight_kind::ONE || [1, 2, 4, 8].contains(&self.bytes))
    }

    /// As the programs have it: for the event of this number, where a hit costs `hit_ns`.
    pub(super) fn for_kernel(&self, event: u32, hit_ns: u64) -> prof_probe {
        prof_probe {
            weight_kind: self.kind,
            base: self.base,
            index: self.index,
            scale: self.scale,
            offset: self.offset,
            bytes: self.bytes,
            is_signed: self.is_signed.into(),
            hit_ns,
            event,
            pad: 0,
        }
    }
}
