//! Processors of which code is read. What unwinding has to know of each is in `unwind::arch`.

/// A processor whose code can be unwound.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Architecture {
    /// x86-64.
    #[default]
    X86_64,
    /// arm64.
    Aarch64,
}

impl Architecture {
    /// The processor that this program was built for.
    pub const HOST: Self = if cfg!(target_arch = "aarch64") { Self::Aarch64 } else { Self::X86_64 };

    /// The processor by ELF's number of it (`e_machine`).
    pub(crate) fn of_elf_machine(machine: u16) -> Option<Self> {
        match machine {
            62 => Some(Self::X86_64),
            183 => Some(Self::Aarch64),
            _ => None,
        }
    }
}
