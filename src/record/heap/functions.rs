//! Functions of allocators: by which names they go, and which hooks of the sampler may stand for each.

use serde::{Deserialize, Serialize};
use std::ops::Range;

/// What a function of an allocator does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum FunctionKind {
    /// `void *f(size)`.
    Malloc,
    /// `void *f(count, size, …)`.
    Calloc,
    /// `void *f(block, size, …)`.
    Realloc,
    /// `void f(block)`.
    Free,
    /// `int f(block, alignment, size)`.
    PosixMemalign,
    /// `void *f(alignment, size)`.
    Memalign,
    /// `void *f(size, alignment, …)`.
    AlignedMalloc,
    /// `void *f(size, …)`: `operator new` that gives nothing where there is no memory.
    NewNothrow,
    /// `void *f(size)`: `operator new`, which throws.
    New,
    /// `void *f(size, alignment, …)`, which gives nothing.
    AlignedNewNothrow,
    /// `void *f(size, alignment)`, which throws.
    AlignedNew,
}

impl FunctionKind {
    /// Numbers of the hooks in sampler.c for such a function.
    pub(super) fn hooks(self) -> Range<usize> {
        match self {
            FunctionKind::Malloc => 0..12,
            FunctionKind::Calloc => 12..17,
            FunctionKind::Realloc => 17..23,
            FunctionKind::Free => 23..47,
            FunctionKind::PosixMemalign => 47..51,
            FunctionKind::Memalign => 51..59,
            FunctionKind::NewNothrow => 59..61,
            FunctionKind::New => 61..63,
            FunctionKind::AlignedNewNothrow => 63..65,
            FunctionKind::AlignedNew => 65..67,
            FunctionKind::AlignedMalloc => 67..71,
        }
    }

    /// The kind that allocates in the place of one that throws, where a block is sampled: an exception could not pass the
    /// sampler.
    pub(super) fn stand_in(self) -> Option<Self> {
        match self {
            FunctionKind::New => Some(FunctionKind::NewNothrow),
            FunctionKind::AlignedNew => Some(FunctionKind::AlignedNewNothrow),
            _ => None,
        }
    }

    /// What the function of this name does: those of the C library and of jemalloc, mimalloc and tcmalloc, which may have a
    /// prefix. What comes after the arguments that count, such as jemalloc's flags, is passed on.
    pub(crate) fn of_name(name: &str) -> Option<Self> {
        if let Some(kind) = Self::of_operator(name) {
            return Some(kind);
        }
        if let Some(kind) = name.strip_prefix("mi_").and_then(Self::of_mimalloc) {
            return Some(kind);
        }
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

    /// What the functions do that only mimalloc has, by their names without its prefix. Programs in Rust call no others but
    /// `mi_free`.
    fn of_mimalloc(name: &str) -> Option<Self> {
        Some(match name {
            "malloc_small" | "zalloc" | "zalloc_small" => FunctionKind::Malloc,
            "mallocn" | "calloc_aligned" => FunctionKind::Calloc,
            "reallocf" | "rezalloc" | "realloc_aligned" | "rezalloc_aligned" => FunctionKind::Realloc,
            "free_size" | "free_aligned" | "free_size_aligned" => FunctionKind::Free,
            "malloc_aligned" | "malloc_aligned_at" | "zalloc_aligned" | "zalloc_aligned_at" => {
                FunctionKind::AlignedMalloc
            }
            _ => return None,
        })
    }

    /// What `operator new` and `delete`, and those of arrays, do: by their names as C++ mangles them.
    fn of_operator(name: &str) -> Option<Self> {
        let of_any = |one: &str, many: &str| name.strip_prefix(one).or_else(|| name.strip_prefix(many));
        if let Some(rest) = of_any("_ZdlPv", "_ZdaPv") {
            const FORMS: [&str; 6] = [
                "",
                "m",
                "RKSt9nothrow_t",
                "St11align_val_t",
                "mSt11align_val_t",
                "St11align_val_tRKSt9nothrow_t",
            ];
            return FORMS.contains(&rest).then_some(FunctionKind::Free);
        }
        Some(match of_any("_Znwm", "_Znam")? {
            "" => FunctionKind::New,
            "RKSt9nothrow_t" => FunctionKind::NewNothrow,
            "St11align_val_t" => FunctionKind::AlignedNew,
            "St11align_val_tRKSt9nothrow_t" => FunctionKind::AlignedNewNothrow,
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
    /// Of one that throws, the address of the function of the same file that stands in for it; else, or where there is none, 0.
    pub(crate) stand_in: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_allocators_are_known_with_their_prefixes() {
        assert_eq!(FunctionKind::of_name("malloc"), Some(FunctionKind::Malloc));
        assert_eq!(FunctionKind::of_name("_rjem_sdallocx"), Some(FunctionKind::Free));
        assert_eq!(FunctionKind::of_name("mi_posix_memalign"), Some(FunctionKind::PosixMemalign));
        assert_eq!(FunctionKind::of_name("mi_zalloc_aligned"), Some(FunctionKind::AlignedMalloc));
        assert_eq!(FunctionKind::of_name("mi_realloc_aligned"), Some(FunctionKind::Realloc));
        for (operator, kind) in [
            ("_Znwm", FunctionKind::New),
            ("_ZnamRKSt9nothrow_t", FunctionKind::NewNothrow),
            ("_ZnwmSt11align_val_tRKSt9nothrow_t", FunctionKind::AlignedNewNothrow),
            ("_ZdaPvmSt11align_val_t", FunctionKind::Free),
        ] {
            assert_eq!(FunctionKind::of_name(operator), Some(kind));
        }
        // The last one is given a place.
        for other in ["xmalloc", "malloc_usable_size", "_ZnwmPv", "zalloc"] {
            assert_eq!(FunctionKind::of_name(other), None);
        }
    }

    #[test]
    fn hooks_are_numbered_without_gaps() {
        use FunctionKind::{
            AlignedMalloc, AlignedNew, AlignedNewNothrow, Calloc, Free, Malloc, Memalign, New, NewNothrow,
            PosixMemalign, Realloc,
        };
        let kinds = [Malloc, Calloc, Realloc, Free, PosixMemalign, Memalign];
        let operators = [NewNothrow, New, AlignedNewNothrow, AlignedNew];
        let kinds = kinds.into_iter().chain(operators).chain([AlignedMalloc]);
        let end = kinds.fold(0, |begin, kind| {
            assert_eq!(kind.hooks().start, begin);
            kind.hooks().end
        });
        assert_eq!(end, super::super::inject::image::HOOKS);
    }
}
