//! What a function is to the program that runs it: its own code, or that of the C library and of language runtimes.
//!
//! A table of waits names the first function that is the program's own, since no one looks for `futex_wait`.

use super::machinery::{is_java, is_java_stub, is_php, is_ruby};
use super::name::module_stem;
use crate::report::model::label_kind::LabelKind;

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

/// Beginnings of the names of functions of language runtimes that are linked into programs: of Go, Rust and C++, and of
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

/// Whole names of functions of the C library, like [`C_LIBRARY_PREFIXES`].
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

/// Crates with which Rust programs wait and run threads, by the name of their folder up to the version, and the part of
/// it that is meant.
const RUNTIME_CRATES: [(&str, &str); 8] = [
    ("parking_lot", "src/"),
    ("parking_lot_core", "src/"),
    ("lock_api", "src/"),
    ("rayon-core", "src/"),
    ("mio", "src/"),
    ("tokio", "src/runtime/"),
    ("tokio", "src/park/"),
    ("tokio", "src/macros/"),
];

/// Beginning of the names of source files of Node.js's own library.
const NODE_LIBRARY: &str = "node:";

/// A function at one place of the source.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Code<'c> {
    /// Kind of the module's code.
    pub(crate) kind: LabelKind,
    /// Path of the module.
    pub(crate) module: &'c str,
    /// Name of the function; empty when not known.
    pub(crate) name: &'c str,
    /// Source file; empty when not known.
    pub(crate) file: &'c str,
    /// Whether the function has no frame of its own.
    pub(crate) is_inlined: bool,
}

/// Whether a function is the program's own. Libraries that the program chose are.
///
/// Where debug information has only line tables, the names of inlined functions lack the path that tells those of a
/// runtime: their source files have it.
pub(crate) fn is_own(code: Code<'_>) -> bool {
    let Code { kind, module, name, file, is_inlined } = code;
    match kind {
        LabelKind::Library | LabelKind::Program if is_runtime_file(file, is_inlined) => false,
        LabelKind::Library => {
            !is_runtime_library(module) && !is_runtime_function(name) && !is_java_primitive(module, name)
        }
        LabelKind::Program => !is_runtime_function(name) && !is_c_library_function(name),
        LabelKind::Jit => true,
        LabelKind::Interpreted if is_java(module) => {
            !is_java_stub(name) && !is_java_library(name) && !name.contains("$$Lambda")
        }
        LabelKind::Interpreted if is_ruby(module) => !is_ruby_library_file(file),
        // Functions of PHP itself have no file.
        LabelKind::Interpreted if is_php(module) => !file.is_empty(),
        LabelKind::Interpreted if module.starts_with("perl ") => !is_perl_library_file(file),
        LabelKind::Interpreted => !is_python_library_file(file) && !file.starts_with(NODE_LIBRARY),
        _ => false,
    }
}

/// Whether a method of Java, named with its class, is of the library that comes with Java.
fn is_java_library(name: &str) -> bool {
    ["java.", "javax.", "jdk.", "sun.", "com.sun."].iter().any(|package| name.starts_with(package))
}

/// Whether a method of Java's own library, named with its class, waits on behalf of its caller.
pub(crate) fn is_java_wait(name: &str) -> bool {
    const WAITS: [&str; 5] = [
        "jdk.internal.misc.Unsafe.park",
        "sun.misc.Unsafe.park",
        "java.util.concurrent.locks.",
        "java.lang.Object.wait",
        "java.lang.Thread.sleep",
    ];
    WAITS.iter().any(|wait| name.starts_with(wait))
}

/// Whether a source file of Python is one of its own library, and none that was installed besides.
fn is_python_library_file(file: &str) -> bool {
    file.starts_with("<frozen ")
        || (file.split_once("/lib/python3").is_some_and(|(_, path)| {
            let in_library = path.split_once('/').map_or("", |(_, path)| path);
            !in_library.starts_with("site-packages/") && !in_library.starts_with("dist-packages/")
        }) && !file.contains("/dist-packages/"))
}

/// Whether a source file of Ruby is one of its own library, and none that was installed besides. Methods that are written in C
/// have none.
fn is_ruby_library_file(file: &str) -> bool {
    let is_version = |path: &str| path.starts_with(|first: char| first.is_ascii_digit());
    file.is_empty()
        || file.starts_with("<internal:")
        || file.split_once("/lib/ruby/").is_some_and(|(_, path)| is_version(path))
}

/// Whether a source file of Perl is one of its own library, and none that was installed besides.
fn is_perl_library_file(file: &str) -> bool {
    let in_library = |folder: &str| {
        file.split_once(folder)
            .is_some_and(|(_, path)| path.starts_with(|first: char| first.is_ascii_digit()))
    };
    // Debian's folders, and those of a build of one's own.
    file.contains("/perl-base/")
        || in_library("/perl/5.")
        || in_library("/lib/5.")
        || in_library("/lib/perl5/5.")
}

/// Whether a source file is that of a language's library.
fn is_runtime_file(file: &str, is_inlined: bool) -> bool {
    // A function of the program that has only line numbers can be in a line of a header that was expanded in it.
    rust_library_file(file).is_some()
        || is_runtime_crate(file)
        || is_inlined && (file.contains("/include/c++/") || file.contains("/libcxx/include/"))
}

/// The part of a path below the source of Rust's standard library: `std/src/thread/mod.rs`. In programs it is below the place
/// where the library was built (`/rustc/HASH`, `/usr/src/rustc-1.63.0`) or where its source is installed.
pub(crate) fn rust_library_file(file: &str) -> Option<&str> {
    let (place, path) = file.split_once("/library/")?;
    let is_of_rust =
        place.ends_with("/rustlib/src/rust") || place.split('/').any(|part| part.starts_with("rustc"));
    is_of_rust.then_some(path)
}

/// Whether a file is in one of [`RUNTIME_CRATES`], where Cargo unpacks crates: `…/registry/src/INDEX/mio-1.0.3/src/…`.
fn is_runtime_crate(file: &str) -> bool {
    let Some((_, path)) = file.split_once("/registry/src/") else { return false };
    let Some((folder, path)) = path.split_once('/').and_then(|(_, path)| path.split_once('/')) else {
        return false;
    };
    let is_of = |krate: &str| {
        let version = folder.strip_prefix(krate).and_then(|rest| rest.strip_prefix('-'));
        version.is_some_and(|version| version.starts_with(|letter: char| letter.is_ascii_digit()))
    };
    RUNTIME_CRATES.iter().any(|(krate, part)| path.starts_with(part) && is_of(krate))
}

fn is_runtime_library(path: &str) -> bool {
    let stem = module_stem(path);
    // Old C libraries are called libc-2.31.so.
    let stem = stem.split_once("-2.").map_or(stem, |(name, _)| name);
    RUNTIME_LIBRARIES.contains(&stem)
}

/// Whether a function is one with which the Java machine's own threads and monitors wait: as much as `pthread_cond_wait` is.
fn is_java_primitive(module: &str, name: &str) -> bool {
    const PREFIXES: [&str; 8] = [
        "os::PlatformEvent::",
        "PlatformEvent::",
        "os::PlatformMonitor::",
        "PlatformMonitor::",
        "Parker::",
        "Monitor::",
        "Mutex::",
        "Semaphore::",
    ];
    // Methods of its own library that are made of C.
    const NATIVES: [&str; 4] = ["Java_java_", "Java_sun_", "Java_jdk_", "NET_"];
    let starts_with = |prefix: &&str| name.starts_with(prefix);
    match module_stem(module) {
        "libjvm" => PREFIXES.iter().any(starts_with),
        "libnio" | "libnet" | "libjava" => NATIVES.iter().any(starts_with),
        _ => false,
    }
}

/// Whether code is that of the C library, linked to a program or in it.
pub(crate) fn is_c_library(code: Code<'_>) -> bool {
    match code.kind {
        LabelKind::Library => is_runtime_library(code.module) || is_c_library_function(code.name),
        _ => is_c_library_function(code.name),
    }
}

fn is_runtime_function(name: &str) -> bool {
    // Only the compiler makes these: what calls a closure, or a function by its address.
    if name.contains(" as core::ops::function::Fn") || name.contains(" as core::ops::Fn") {
        return true;
    }
    // Functions of any program that allocate for it: those of C++, mimalloc's in their place, and a Rust program's allocator.
    if name.starts_with("operator new") || name.starts_with("operator delete") || name.starts_with("mi_new") {
        return true;
    }
    if name.contains(" as core::alloc::global::GlobalAlloc>::") {
        return true;
    }
    let path = leading_path(name);
    RUNTIME_PREFIXES.iter().any(|prefix| path.starts_with(prefix))
}

fn is_c_library_function(name: &str) -> bool {
    C_LIBRARY_NAMES.contains(&name) || C_LIBRARY_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// The path that a name begins with, after the return type that demangled C++ templates start with.
fn leading_path(name: &str) -> &str {
    // Rust: `<Type as Trait>::method` belongs to the type.
    if let Some(inside) = name.strip_prefix('<') {
        return inside.trim_start_matches(['&', '*']).trim_start_matches("mut ").trim_start_matches("dyn ");
    }
    let head = &name[..name.find(['<', '(']).unwrap_or(name.len())];
    head.rsplit(' ').next().unwrap_or(head)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named<'c>(kind: LabelKind, module: &'c str, name: &'c str) -> Code<'c> {
        Code { kind, module, name, file: "", is_inlined: false }
    }

    #[test]
    fn the_source_file_tells_functions_of_a_runtime_whose_name_does_not() {
        const STD: &str = "/rustc/59807616e1fa2540724bfbac14d7976d7e4a3860/library/std/src";
        const CRATES: &str = "/root/.cargo/registry/src/index.crates.io-1949cf8c6b5b557f";
        let is_own_at = |name, file: &str, is_inlined| {
            is_own(Code { file, is_inlined, ..named(LabelKind::Program, "/usr/bin/rusty", name) })
        };
        for (name, file) in [
            ("lock<u32>", format!("{STD}/sync/poison/mutex.rs")),
            ("{closure#0}<main::main::{closure_env#2}, ()>", format!("{STD}/thread/lifecycle.rs")),
            ("join<()>", "/opt/rust/lib/rustlib/src/rust/library/std/src/thread/join_handle.rs".to_owned()),
            ("park", "/usr/src/rustc-1.63.0/library/std/src/thread/mod.rs".to_owned()),
            ("lock", format!("{CRATES}/parking_lot-0.12.3/src/raw_mutex.rs")),
            ("run", format!("{CRATES}/tokio-1.43.0/src/runtime/scheduler/multi_thread/worker.rs")),
            ("wait<lambda>", "/usr/include/c++/12/condition_variable".to_owned()),
        ] {
            assert!(!is_own_at(name, &file, true), "{name} {file}");
        }
        for (name, file) in [
            ("lock<u32>", "/home/me/library/std/src/sync/mutex.rs".to_owned()),
            ("handle", "/src/app/src/main.rs".to_owned()),
            ("query", format!("{CRATES}/sqlx-0.8.0/src/lib.rs")),
            ("lock", format!("{CRATES}/parking_lot-extras-0.1.0/src/lib.rs")),
            ("copy", format!("{CRATES}/tokio-1.43.0/src/io/copy.rs")),
        ] {
            assert!(is_own_at(name, &file, true), "{name} {file}");
        }
        assert!(is_own_at("handle", "/usr/include/c++/12/bits/stl_vector.h", false));
    }

    #[test]
    fn functions_of_php_itself_are_not_the_programs() {
        let is_own_in = |file| is_own(Code { file, ..named(LabelKind::Interpreted, "php 8.2", "usleep") });
        assert!(!is_own_in("") && is_own_in("/srv/app.php"));
    }

    #[test]
    fn functions_of_pythons_own_library_are_not_the_programs() {
        let is_own_in = |file| is_own(Code { file, ..named(LabelKind::Interpreted, "python 3.11", "wait") });
        for file in [
            "/usr/lib/python3.11/threading.py",
            "/opt/python/lib/python3.12/concurrent/futures/thread.py",
            "<frozen importlib._bootstrap>",
        ] {
            assert!(!is_own_in(file), "{file}");
        }
        for file in [
            "/srv/app/main.py",
            "<string>",
            "/usr/lib/python3/dist-packages/requests/api.py",
            "/srv/venv/lib/python3.11/site-packages/django/db/models.py",
        ] {
            assert!(is_own_in(file), "{file}");
        }
    }

    #[test]
    fn methods_of_rubys_own_library_are_not_the_programs() {
        let is_own_in = |file| is_own(Code { file, ..named(LabelKind::Interpreted, "ruby 3.1", "wait") });
        for file in ["", "<internal:kernel>", "/usr/lib/ruby/3.1.0/net/protocol.rb"] {
            assert!(!is_own_in(file), "{file}");
        }
        for file in [
            "/srv/app/main.rb",
            "evaluated",
            "/usr/lib/ruby/gems/3.1.0/gems/rack-2.2.4/lib/rack.rb",
            "/usr/lib/ruby/vendor_ruby/rack.rb",
        ] {
            assert!(is_own_in(file), "{file}");
        }
    }

    #[test]
    fn functions_of_perls_own_library_are_not_the_programs() {
        let is_own_in =
            |file| is_own(Code { file, ..named(LabelKind::Interpreted, "perl 5.36", "IO::wait") });
        for file in [
            "/usr/share/perl/5.36/File/Find.pm",
            "/usr/lib/x86_64-linux-gnu/perl/5.36/IO/Handle.pm",
            "/usr/lib/x86_64-linux-gnu/perl-base/List/Util.pm",
            "/opt/perl/lib/5.40.0/x86_64-linux/POSIX.pm",
        ] {
            assert!(!is_own_in(file), "{file}");
        }
        for file in [
            "/srv/app/perl/main.pl",
            "(eval 3)",
            "/usr/share/perl5/Moose.pm",
            "/opt/perl/lib/site_perl/5.40.0/DBI.pm",
        ] {
            assert!(is_own_in(file), "{file}");
        }
    }

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
            (LabelKind::Program, "/usr/bin/rusty", "<dyn core::any::Any>::downcast_ref"),
            (
                LabelKind::Program,
                "/usr/bin/rusty",
                "<&dyn core::ops::function::Fn<(), Output = i32> as core::ops::function::FnOnce<()>>::call_once",
            ),
            (
                LabelKind::Program,
                "/usr/bin/rusty",
                "<app::main::{closure#0} as core::ops::function::FnOnce<()>>::call_once::{shim:vtable#0}",
            ),
            (LabelKind::Library, "/usr/lib/libmimalloc.so.2", "mi_new_aligned"),
            (
                LabelKind::Program,
                "/usr/bin/rusty",
                "<mimalloc::MiMalloc as core::alloc::global::GlobalAlloc>::alloc",
            ),
            (LabelKind::Program, "/usr/bin/cpp", "void std::__invoke_impl<void, run()::{lambda()#1}>(int)"),
            (LabelKind::Program, "/usr/bin/static", "__pthread_cond_wait"),
            (LabelKind::Program, "/usr/bin/any", "_start"),
            (LabelKind::Kernel, "[kernel]", "do_poll"),
            (LabelKind::Wait(crate::profile::Reason::Lock), "", "[lock]"),
        ] {
            assert!(!is_own(named(kind, module, name)), "{module} {name}");
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
            assert!(is_own(named(kind, module, name)), "{module} {name}");
        }
    }
}
