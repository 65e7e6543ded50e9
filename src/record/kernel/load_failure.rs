//! Why the kernel did not take the programs.

use crate::base::failure::{Failure, status, without_error_numbers};

/// Error for a failure of the loader, in words that lead somewhere: libbpf's own mislead (no BTF reads
/// "No such process", a missing right "ulimit -l").
pub(crate) fn load_failure(error: &libbpf_rs::Error) -> anyhow::Error {
    let is_denied = matches!(error.kind(), libbpf_rs::ErrorKind::PermissionDenied)
        || error.to_string().contains("Operation not permitted")
        || crate::record::environment::seccomp::filtered_calls().contains(&"bpf");
    if is_denied {
        return crate::record::environment::rights::not_permitted("cannot load the samplers").into();
    }
    if let Some(why) = too_old(&rustix::system::uname().release().to_string_lossy()) {
        return Failure::new(status::FAILED, why).hint(format!("what it refused: {error:#}")).into();
    }
    if is_locked_down(&std::fs::read_to_string("/sys/kernel/security/lockdown").unwrap_or_default()) {
        return Failure::new(
            status::FAILED,
            "cannot load the samplers: kernel lockdown (confidentiality) does not let BPF programs read its memory",
        )
        .hint("boot with lockdown=integrity or without lockdown")
        .into();
    }
    if error.to_string().contains("Too many open files") {
        return crate::record::environment::descriptors::lack("cannot load the samplers").into();
    }
    let is_out_of_memory = matches!(error.kind(), libbpf_rs::ErrorKind::OutOfMemory)
        || error.to_string().contains("Cannot allocate memory");
    if is_out_of_memory {
        // What the kernel allocates for BPF maps counts against the cgroup of this process.
        return Failure::new(
            status::FAILED,
            "cannot load the samplers: no memory for their tables and buffers",
        )
        .hint("they take about 30 MiB or more: raise the memory limit of prof's own container or service")
        .into();
    }
    Failure::new(status::FAILED, format!("cannot load the samplers: {}", in_words(&format!("{error:#}"))))
        .hint(
            "run `prof doctor` to see what this kernel lacks, or `prof record -v` for the loader's messages",
        )
        .into()
}

/// An error of the loader that has no words of its own here. What the kernel says where it finds fault with a program would
/// read as a fault of the command line.
fn in_words(error: &str) -> String {
    let plain = without_error_numbers(error);
    match plain.as_str() {
        "Invalid argument" | "Argument list too long" => {
            format!("the kernel refuses the BPF programs ({plain}; prof record -v says why)")
        }
        _ => plain,
    }
}

/// Message that the kernel is too old for the BPF programs; `None` where it is not, or its version is not known.
pub(crate) fn too_old(release: &str) -> Option<String> {
    let (major, minor) = kernel_version(release).filter(|version| *version < FIRST_KERNEL)?;
    let (first_major, first_minor) = FIRST_KERNEL;
    Some(format!(
        "the BPF programs need Linux {first_major}.{first_minor} or later, and this is {major}.{minor}"
    ))
}

/// Whether lockdown, as its file in securityfs has it, keeps BPF programs from reading the kernel's memory.
fn is_locked_down(state: &str) -> bool {
    state.contains("[confidentiality]")
}

/// The first version of the kernel that the BPF programs are made for.
pub(crate) const FIRST_KERNEL: (u32, u32) = (6, 1);

/// `5.15` of `5.15.0-91-generic`.
pub(crate) fn kernel_version(release: &str) -> Option<(u32, u32)> {
    let mut numbers = release.split(|c: char| !c.is_ascii_digit()).map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_that_is_too_old_is_named_in_one_sentence() {
        let said = too_old("5.15.0-91-generic");
        assert_eq!(said.as_deref(), Some("the BPF programs need Linux 6.1 or later, and this is 5.15"));
        for release in ["6.1.0-18-amd64", "6.18.5", "10.0", "unknown"] {
            assert_eq!(too_old(release), None, "{release}");
        }
    }

    #[test]
    fn a_refused_program_is_no_invalid_argument_of_the_user() {
        let said = in_words("Invalid argument (os error 22)");
        assert_eq!(said, "the kernel refuses the BPF programs (Invalid argument; prof record -v says why)");
        assert_eq!(in_words("Device or resource busy (os error 16)"), "Device or resource busy");
    }

    #[test]
    fn only_confidentiality_keeps_bpf_programs_from_reading() {
        assert!(is_locked_down("none integrity [confidentiality]\n"));
        assert!(!is_locked_down("none [integrity] confidentiality\n"));
        assert!(!is_locked_down("[none] integrity confidentiality\n"));
        assert!(!is_locked_down(""));
    }
}
