//! Functions of allocators: by which names they go, and which hooks of the sampler may stand for each.

use serde::{Deserialize, Serialize};
use std::ops::Range;

/// What a function of an allocator does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum FunctionKind {
    /// `void *f(size)`.
    Malloc,
    /// `void *f(count, size)`.
    Calloc,
    /// `void *f(block, size)`.
    Realloc,
    /// `void f(block)`.
    Free,
    /// `int f(block, alignment, size)`.
    PosixMemalign,
    /// `void *f(alignment, size)`.
    Memalign,
}

impl FunctionKind {
    /// Numbers of the hooks in sampler.c for such a function.
    pub(super) fn hooks(self) -> Range<usize> {
        match self {
            FunctionKind::Malloc => 0..8,
            FunctionKind::Calloc => 8..12,
            FunctionKind::Realloc => 12..16,
            FunctionKind::Free => 16..26,
            FunctionKind::PosixMemalign => 26..29,
            FunctionKind::Memalign => 29..33,
        }
    }

    /// What the function of this name does: those of the C library and of jemalloc, mimalloc and tcmalloc, which may have a
    /// prefix. What comes after the arguments that count, such as jemalloc's flags, is passed on.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        const PREFIXES: [&str; 6] = ["_rjem_", "je_", "tc_", "mi_", "tbb_", ""];
        let name = PREFIXES.iter().find_map(|prefix| name.strip_prefix(prefix))?;
        Some(match name {
            "malloc" | "mallocx" | "valloc" | "pvalloc" => FunctionKind::Malloc,
            "calloc" => FunctionKind::Calloc,
            "realloc" | "rallocx" => FunctionKind::Realloc,
            "free" | "cfree" | "dallocx" | "sdallocx" | "free_sized" | "free_aligned_sized" => {
                FunctionKind::Free
            }
            "posix_memalign" => FunctionKind::PosixMemalign,
            "memalign" | "aligned_alloc" => FunctionKind::Memalign,
            _ => return None,
        })
    }
}

/// A function of an allocator in a process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AllocatorFunction {
    pub(crate) kind: FunctionKind,
    /// Name in the symbol table. Foreign text.
    pub(crate) name: String,
    /// Process address; in an answer of a worker, the address in the file.
    pub(crate) address: u64,
    /// Size by the symbol table, bytes; 0: not known.
    pub(crate) size: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_allocators_are_known_with_their_prefixes() {
        assert_eq!(FunctionKind::of_name("malloc"), Some(FunctionKind::Malloc));
        assert_eq!(FunctionKind::of_name("_rjem_sdallocx"), Some(FunctionKind::Free));
        assert_eq!(FunctionKind::of_name("mi_posix_memalign"), Some(FunctionKind::PosixMemalign));
        assert_eq!(
            [FunctionKind::of_name("xmalloc"), FunctionKind::of_name("malloc_usable_size")],
            [None; 2]
        );
    }

    #[test]
    fn hooks_are_numbered_without_gaps() {
        use FunctionKind::{Calloc, Free, Malloc, Memalign, PosixMemalign, Realloc};
        let kinds = [Malloc, Calloc, Realloc, Free, PosixMemalign, Memalign];
        let end = kinds.iter().fold(0, |begin, kind| {
            assert_eq!(kind.hooks().start, begin);
            kind.hooks().end
        });
        assert_eq!(end, super::super::inject::image::HOOKS);
    }
}
