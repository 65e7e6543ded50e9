//! The kind of module that a name denotes, in the notation of perf and others.

use crate::profile::{FrameSpace, ModuleKind};

/// `prof`'s name for the kernel.
pub(super) const KERNEL: &str = "[kernel]";
/// `prof`'s name for code generated at run time.
pub(super) const GENERATED: &str = "[jit]";

/// `prof`'s name for a module, its kind, and the space its code runs in.
pub(super) fn classify(name: &str) -> (&str, ModuleKind, FrameSpace) {
    let user = |kind| (name, kind, FrameSpace::User);
    let is_kernel_file = [".ko", ".ko.xz", ".ko.gz", ".ko.zst"].iter().any(|ending| name.ends_with(ending));
    match name {
        "" | "[unknown]" | "unknown" => ("", ModuleKind::Unknown, FrameSpace::User),
        _ if name.starts_with("[kernel")
            || name.starts_with("[guest.kernel")
            || name.ends_with("/vmlinux") =>
        {
            (KERNEL, ModuleKind::Kernel, FrameSpace::Kernel)
        }
        "[vdso]" | "[vdso32]" | "[vdsox32]" | "[vsyscall]" => user(ModuleKind::Vdso),
        "[heap]" | "[stack]" | "[anon]" | "[frames left out]" | "[hidden]" => user(ModuleKind::Unknown),
        _ if is_generated(name) => (GENERATED, ModuleKind::Jit, FrameSpace::User),
        _ if is_kernel_file || (name.starts_with('[') && name.ends_with(']')) => {
            (name, ModuleKind::KernelModule, FrameSpace::Kernel)
        }
        _ => user(ModuleKind::Elf),
    }
}

/// Whether a mapping with this name holds code generated at run time.
pub(super) fn is_generated(name: &str) -> bool {
    let file = name.rsplit('/').next().unwrap_or(name);
    let is_map = file.starts_with("perf-") && file.ends_with(".map");
    name.starts_with("[jit]")
        || name.starts_with("//anon")
        || name.starts_with("/memfd:")
        || name.starts_with("anon_inode:")
        || is_map
        || (file.starts_with("jitted-") && file.ends_with(".so"))
}
