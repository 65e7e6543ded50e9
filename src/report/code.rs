//! What a function is to the program that runs it: its own code, or that of the C library and of language runtimes.
//!
//! A table of waits names the first function that is the program's own, since nobody looks for `futex_wait`.

use super::label::LabelKind;
use super::name::module_stem;

/// Libraries that programs are linked with by their language, by the name of the file up to `.so`.
const RUNTIME_LIBRARIES: [&str; 16] = [
    "libc",
    "libpthread",
    "librt",
    "libdl",
    "libm",
    "libgcc_s",
    "libstdc++",
    "libc++",
    "libc++abi",
    "libgomp",
    "ld-linux-x86-64",
    "ld-linux-aarch64",
    "ld-musl-x86_64",
    "ld-musl-aarch64",
    "[vdso]",
    "[vsyscall]",
];

/// How names of functions of language runtimes begin, that are linked into programs: of Go, Rust and C++, and of
/// libraries that run other code on their threads.
const RUNTIME_PREFIXES: [&str; 24] = [
    "runtime.",
    "runtime/",
    "internal/",
    "syscall.",
    "sync.",
    "std::",
    "core::",
    "alloc::",
    "__gnu_cxx::",
    "__cxxabiv1::",
    "parking_lot::",
    "parking_lot_core::",
    "lock_api::",
    "tokio::runtime::",
    "tokio::park::",
    "rayon_core::",
    "mio::",
    "__rust_",
    "__rustc",
    "_Unwind_",
    "__cxa_",
    "std.",
    "absl::synchronization_internal::",
    "__asan_",
];

/// The same of C libraries that are linked statically. Programs have functions called `read` of their own; these are
/// names that only a C library has.
const C_LIBRARY_PREFIXES: [&str; 12] = [
    "__libc_",
    "__pthread_",
    "pthread_",
    "__futex_",
    "futex_wait",
    "__lll_",
    "lll_",
    "__GI_",
    "__syscall",
    "__clone",
    "__new_sem_",
    "__internal_syscall",
];

/// As [`C_LIBRARY_PREFIXES`], whole names.
const C_LIBRARY_NAMES: [&str; 22] = [
    "_start",
    "start_thread",
    "thread_start",
    "clone",
    "clone3",
    "syscall",
    "epoll_wait",
    "epoll_pwait",
    "epoll_pwait2",
    "nanosleep",
    "clock_nanosleep",
    "usleep",
    "sem_wait",
    "sem_timedwait",
    "ppoll",
    "pselect",
    "fdatasync",
    "fsync",
    "waitpid",
    "wait4",
    "sigwaitinfo",
    "_dl_start_user",
];

/// Whether a function is the program's own, by what its label says. Libraries that the program chose are.
pub(super) fn is_own(kind: LabelKind, module: &str, name: &str) -> bool {
    match kind {
        LabelKind::Library => !is_runtime_library(module) && !is_runtime_function(name),
        LabelKind::Program => !is_runtime_function(name) && !is_c_library_function(name),
        LabelKind::Jit => true,
        _ => false,
    }
}

fn is_runtime_library(path: &str) -> bool {
    let stem = module_stem(path);
    // Old C libraries are called libc-2.31.so.
    let stem = stem.split_once("-2.").map_or(stem, |(name, _)| name);
    RUNTIME_LIBRARIES.contains(&stem)
}

fn is_runtime_function(name: &str) -> bool {
    let path = leading_path(name);
    RUNTIME_PREFIXES.iter().any(|prefix| path.starts_with(prefix))
}

fn is_c_library_function(name: &str) -> bool {
    C_LIBRARY_NAMES.contains(&name) || C_LIBRARY_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// The path that a name begins with, behind the return type that demangled C++ templates start with.
fn leading_path(name: &str) -> &str {
    // Rust: `<Type as Trait>::method` belongs to the type.
    if let Some(inside) = name.strip_prefix('<') {
        return inside.trim_start_matches(['&', '*']);
    }
    let head = &name[..name.find(['<', '(']).unwrap_or(name.len())];
    head.rsplit(' ').next().unwrap_or(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn runtimes_are_not_the_programs_own_code() {
        for (kind, module, name) in [
            (LabelKind::Library, "/usr/lib/x86_64-linux-gnu/libc.so.6", "__poll"),
            (LabelKind::Library, "/lib/libc-2.31.so", "read"),
            (LabelKind::Library, "/lib/libpthread-2.31.so", "pthread_cond_wait"),
            (LabelKind::Library, "/lib/ld-musl-x86_64.so.1", "pause"),
            (LabelKind::Library, "/usr/lib/libstdc++.so.6.0.30", "std::condition_variable::wait"),
            (LabelKind::Program, "/usr/bin/go-server", "runtime.findRunnable"),
            (LabelKind::Program, "/usr/bin/rusty", "std::thread::park"),
            (LabelKind::Program, "/usr/bin/rusty", "<std::sync::mpsc::Receiver<T>>::recv"),
            (LabelKind::Program, "/usr/bin/cpp", "void std::__invoke_impl<void, run()::{lambda()#1}>(int)"),
            (LabelKind::Program, "/usr/bin/static", "__pthread_cond_wait"),
            (LabelKind::Program, "/usr/bin/any", "_start"),
            (LabelKind::Kernel, "[kernel]", "do_poll"),
            (LabelKind::Wait(crate::profile::Reason::Lock), "", "[lock]"),
        ] {
            assert!(!is_own(kind, module, name), "{module} {name}");
        }
    }

    #[test]
    fn what_a_program_does_itself_is_its_own() {
        for (kind, module, name) in [
            (LabelKind::Program, "/usr/bin/x", "main"),
            (LabelKind::Program, "/usr/bin/x", "read"),
            (LabelKind::Program, "/usr/bin/x", "pool_get(std::string const&)"),
            (LabelKind::Program, "/usr/bin/x", "x+0x1234"),
            (LabelKind::Program, "/usr/bin/x", "<app::Server as core::future::Future>::poll"),
            (LabelKind::Program, "/usr/bin/go-server", "main.(*server).handle"),
            (LabelKind::Library, "/usr/lib/libcurl.so.4.8.0", "curl_easy_perform"),
            (LabelKind::Library, "/usr/lib/libc-client.so.2007", "mail_open"),
            (LabelKind::Jit, "[jit]", "render"),
        ] {
            assert!(is_own(kind, module, name), "{module} {name}");
        }
    }
}
