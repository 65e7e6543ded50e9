//! Kernels that are known to go wrong while BPF programs sample, by their versions. Nothing of this was ever seen with `prof`:
//! machines of others locked up, or stood still.

use super::kernel_release::KernelRelease;

/// Versions that have a bug: from the first one on, to the one before the second.
type Affected = &'static [(KernelRelease, KernelRelease)];

/// The check of CONFIG_HARDENED_USERCOPY asks since 5.19, under a lock, whether memory is of vmalloc; the interrupt of a sampler
/// that reads memory of user space may have interrupted who holds that lock. Mended by "mm: Fix copy_from_user_nofault()", of
/// which the changelogs of the stable releases tell.
const LOCKS_UP: Affected = &[
    (KernelRelease::new(5, 19, 0), KernelRelease::new(6, 1, 36)),
    (KernelRelease::new(6, 2, 0), KernelRelease::new(6, 3, 10)),
];

/// The lock of BPF ring buffers waits for a quarter of a second where a non-maskable interrupt finds it taken on its own CPU.
/// Mended in 6.19, and before the last release of 6.17.
const STANDS_STILL: Affected = &[
    (KernelRelease::new(6, 15, 0), KernelRelease::new(6, 17, 13)),
    (KernelRelease::new(6, 18, 0), KernelRelease::new(6, 18, 3)),
];

/// The function that makes the check of CONFIG_HARDENED_USERCOPY.
const USERCOPY_CHECK: &str = " __check_object_size";

/// Why BPF programs are not loaded into the running kernel although it would take them: it may lock up.
pub(crate) fn lock_up() -> Option<String> {
    let release = KernelRelease::of_this_kernel().filter(|release| is_in(LOCKS_UP, *release))?;
    // Where the names may not be read, it is built like most.
    let names = std::fs::read_to_string("/proc/kallsyms").unwrap_or_default();
    let is_checked = names.is_empty() || names.contains(USERCOPY_CHECK);
    is_checked.then(|| {
        format!(
            "Linux {release} can lock up when BPF programs read the memory of programs (with \
             CONFIG_HARDENED_USERCOPY; mended in 6.1.36, 6.3.10 and 6.4)"
        )
    })
}

/// What the running kernel may do when an interrupt that cannot be masked samples.
pub(crate) fn standstill() -> Option<String> {
    let release = KernelRelease::of_this_kernel().filter(|release| is_in(STANDS_STILL, *release))?;
    Some(format!(
        "Linux {release} can stand still for 250 ms at a time when counters of the processor sample (its rqspinlock; \
         mended in 6.17.13, 6.18.3 and 6.19)"
    ))
}

fn is_in(affected: Affected, release: KernelRelease) -> bool {
    affected.iter().any(|(first, end)| (*first..*end).contains(&release))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bug_ends_with_the_release_that_mends_it() {
        let locks_up = |patch| is_in(LOCKS_UP, KernelRelease::new(6, 1, patch));
        assert!(locks_up(0) && locks_up(35) && !locks_up(36) && !locks_up(176));
        assert!(
            !is_in(LOCKS_UP, KernelRelease::new(5, 18, 19)) && is_in(LOCKS_UP, KernelRelease::new(6, 2, 16))
        );
        assert!(
            is_in(LOCKS_UP, KernelRelease::new(6, 3, 9)) && !is_in(LOCKS_UP, KernelRelease::new(6, 3, 10))
        );
        assert!(!is_in(LOCKS_UP, KernelRelease::new(6, 4, 0)));
        let stands_still = |minor, patch| is_in(STANDS_STILL, KernelRelease::new(6, minor, patch));
        assert!(
            !stands_still(14, 11) && stands_still(15, 0) && stands_still(17, 12) && !stands_still(17, 13)
        );
        assert!(stands_still(18, 2) && !stands_still(18, 44) && !stands_still(19, 0));
    }
}
