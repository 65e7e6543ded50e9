//! Why the kernel did not take the programs.

use crate::base::failure::{Failure, status, without_error_numbers};
use crate::record::environment::kernel_release::KernelRelease;
use libbpf_rs::{PrintLevel, libbpf_sys};
use std::io::Write as _;
use std::sync::{Mutex, PoisonError};

/// What the kernel lacks, by what the loader last said of programs that were refused.
static LACK: Mutex<Option<String>> = Mutex::new(None);

/// Has the loader's messages read for what the kernel lacks, and shown only if that is wanted.
pub(crate) fn read_loader_messages(are_shown: bool) {
    let print = if are_shown { read_and_show } else { read };
    libbpf_rs::set_print(Some((PrintLevel::Info, print)));
}

fn read(_: PrintLevel, message: String) {
    if let Some(lack) = lack_in(&message) {
        *LACK.lock().unwrap_or_else(PoisonError::into_inner) = Some(lack);
    }
}

fn read_and_show(level: PrintLevel, message: String) {
    // The static program has no lines of its BPF programs' sources.
    if message.contains("missing .BTF.ext line info") {
        return;
    }
    // If standard error is closed, there is no one to show it to.
    let _ = std::io::stderr().write_all(message.as_bytes());
    read(level, message);
}

/// What a message of the loader, or what it quotes of the kernel, says that the kernel lacks.
fn lack_in(message: &str) -> Option<String> {
    const NO_SUCH_HELPER: &str = "invalid func unknown#";
    const NOT_FOR_SUCH_PROGRAMS: [&str; 2] = ["unknown func ", "program of this type cannot use helper "];
    const NO_SUCH_TYPE: &str = "failed to find kernel BTF type ID of '";
    let of_line = |line: &str| {
        if let Some(number) = line.strip_prefix(NO_SUCH_HELPER) {
            let number = number.trim_end().parse().ok()?;
            return Some(format!("this kernel lacks {}, which the BPF programs call", helper(number)));
        }
        if let Some(named) = NOT_FOR_SUCH_PROGRAMS.iter().find_map(|start| line.strip_prefix(start)) {
            let name = named.split('#').next()?;
            return Some(format!("this kernel lacks {name} for programs of their type"));
        }
        let (_, name) = line.split_once(NO_SUCH_TYPE)?;
        let name = name.split('\'').next()?;
        Some(format!("this kernel lacks `{name}`, to which one of the BPF programs attaches"))
    };
    message.lines().find_map(of_line)
}

/// Name of a function of the kernel that programs call, by its number.
fn helper(number: u32) -> String {
    // Those that came later than BPF programs of tracing as such.
    const NAMES: [(u32, &str); 12] = [
        (libbpf_sys::BPF_FUNC_copy_from_user_task, "bpf_copy_from_user_task"),
        (libbpf_sys::BPF_FUNC_loop, "bpf_loop"),
        (libbpf_sys::BPF_FUNC_find_vma, "bpf_find_vma"),
        (libbpf_sys::BPF_FUNC_task_pt_regs, "bpf_task_pt_regs"),
        (libbpf_sys::BPF_FUNC_get_attach_cookie, "bpf_get_attach_cookie"),
        (libbpf_sys::BPF_FUNC_get_current_task_btf, "bpf_get_current_task_btf"),
        (libbpf_sys::BPF_FUNC_task_storage_get, "bpf_task_storage_get"),
        (libbpf_sys::BPF_FUNC_get_task_stack, "bpf_get_task_stack"),
        (libbpf_sys::BPF_FUNC_ringbuf_output, "bpf_ringbuf_output"),
        (libbpf_sys::BPF_FUNC_ringbuf_reserve, "bpf_ringbuf_reserve"),
        (libbpf_sys::BPF_FUNC_ringbuf_query, "bpf_ringbuf_query"),
        (libbpf_sys::BPF_FUNC_seq_write, "bpf_seq_write"),
    ];
    let known = NAMES.iter().find(|(known, _)| *known == number);
    known.map_or_else(|| format!("helper {number}"), |(_, name)| (*name).to_owned())
}

/// Error for a failure of the loader, in words that lead somewhere: libbpf's own mislead (no BTF reads
/// "No such process", a missing right "ulimit -l").
pub(crate) fn load_failure(error: &libbpf_rs::Error) -> anyhow::Error {
    // What was said of this failure, and is not to be said of the next.
    let lack = LACK.lock().unwrap_or_else(PoisonError::into_inner).take();
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
    let why = lack.unwrap_or_else(|| in_words(&format!("{error:#}")));
    Failure::new(status::FAILED, format!("cannot load the samplers: {why}"))
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
    let version = KernelRelease::in_text(release)?.version();
    let is_older = version < FIRST_KERNEL;
    is_older.then(|| format!("the BPF programs need Linux {FIRST_KERNEL} or later, and this is {version}"))
}

/// Whether lockdown, as its file in securityfs has it, keeps BPF programs from reading the kernel's memory.
fn is_locked_down(state: &str) -> bool {
    state.contains("[confidentiality]")
}

/// The first version of the kernel that the BPF programs are made for.
const FIRST_KERNEL: KernelRelease = KernelRelease::new(6, 1, 0);

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
    fn what_the_kernel_lacks_is_read_from_its_log() {
        let log = |line: &str| {
            format!("libbpf: prog 'on_cpu': -- BEGIN PROG LOAD LOG --\n0: R1=ctx()\n{line}\nend")
        };
        for (said, lack) in [
            ("invalid func unknown#181", "this kernel lacks bpf_loop, which the BPF programs call"),
            ("invalid func unknown#999", "this kernel lacks helper 999, which the BPF programs call"),
            ("unknown func bpf_find_vma#180", "this kernel lacks bpf_find_vma for programs of their type"),
            (
                "libbpf: prog 'threads': failed to find kernel BTF type ID of 'task': -ESRCH",
                "this kernel lacks `task`, to which one of the BPF programs attaches",
            ),
        ] {
            assert_eq!(lack_in(&log(said)).as_deref(), Some(lack));
        }
        for said in ["invalid func unknown#", "R3=func()", "", "unknown func"] {
            assert_eq!(lack_in(&log(said)), None, "{said}");
        }
    }

    #[test]
    fn only_confidentiality_keeps_bpf_programs_from_reading() {
        assert!(is_locked_down("none integrity [confidentiality]\n"));
        assert!(!is_locked_down("none [integrity] confidentiality\n"));
        assert!(!is_locked_down("[none] integrity confidentiality\n"));
        assert!(!is_locked_down(""));
    }
}
