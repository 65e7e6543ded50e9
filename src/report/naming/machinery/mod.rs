//! Functions of interpreters that call other functions, and that only get in the way between two functions of a program.

use super::name::module_stem;

mod functions;
mod java;
mod perl;
mod php;
mod python;
mod ruby;
mod v8;

use functions::Machinery;

const LANGUAGES: [&Machinery; 6] = [
    &python::MACHINERY,
    &java::MACHINERY,
    &v8::MACHINERY,
    &ruby::MACHINERY,
    &php::MACHINERY,
    &perl::MACHINERY,
];

/// Whether a runtime is a Java machine, by the name of its module: `java 17`.
pub(crate) fn is_java(runtime: &str) -> bool {
    runtime == "java" || runtime.starts_with("java ")
}

/// Whether a runtime is Ruby, by the name of its module: `ruby 3.1`.
pub(crate) fn is_ruby(runtime: &str) -> bool {
    runtime.starts_with("ruby ")
}

/// Whether a runtime is PHP, by the name of its module: `php 8.2`.
pub(crate) fn is_php(runtime: &str) -> bool {
    runtime.starts_with("php ")
}

/// Whether a file is that of a Java machine, or of the program that starts one.
pub(crate) fn is_java_file(path: &str) -> bool {
    java::MACHINERY.files.contains(&module_stem(path))
}

/// Whether a frame of a Java machine is not a method: these have the name of their class before a dot.
pub(crate) fn is_java_stub(name: &str) -> bool {
    !name.contains('.')
}

/// Whether such a frame does nothing but call or return.
pub(crate) fn is_java_call(name: &str) -> bool {
    is_java_stub(name)
        && (matches!(name, "Interpreter" | "vtable chunks" | "MethodHandles adapters" | "adapters")
            || name.contains("I2C/C2I"))
}

/// Whether a file is nothing but an interpreter: its program, its library, or a part of the language's own library that is
/// made of C.
pub(crate) fn is_interpreter_file(path: &str) -> bool {
    is_own_extension(path)
        || is_node_file(path)
        || is_java_file(path)
        || is_version_of(path, python::MACHINERY.files)
        || is_version_of(path, perl::MACHINERY.files)
        || is_version_of(path, php::MACHINERY.files)
        || is_ruby_file(path)
}

/// Whether a file is a part of the own library of Python or Perl that is made of C. What was installed besides is elsewhere.
pub(crate) fn is_own_extension(path: &str) -> bool {
    path.contains("/lib-dynload/")
        || path.split_once("/auto/").is_some_and(|(folder, _)| {
            folder.contains("/perl/") && !folder.contains("/local/") && !folder.contains("/perl5")
        })
}

/// Whether a file is the program or the library of Ruby.
pub(crate) fn is_ruby_file(path: &str) -> bool {
    path.starts_with('/') && is_version_of(path, ruby::MACHINERY.files)
}

/// Whether a file is the program or the library of Node.js.
pub(crate) fn is_node_file(path: &str) -> bool {
    path.starts_with('/') && is_version_of(path, v8::MACHINERY.files)
}

/// Whether a file is called like one of `names`, with a version after it or none.
fn is_version_of(path: &str, names: &[&str]) -> bool {
    let stem = module_stem(path);
    // Not `python-service`, a program of someone's own.
    let is_version = |rest: &str| {
        // `libruby-3.1`: a version begins with a number, also after a dash.
        let number = rest.strip_prefix('-').unwrap_or(rest);
        number.bytes().all(|byte| byte.is_ascii_digit() || b".td".contains(&byte))
            && (number == rest || !number.is_empty())
    };
    names.iter().any(|name| stem.strip_prefix(name).is_some_and(is_version))
}

/// Whether a function interprets an instruction of the function whose frame comes before its own, or is all that this does:
/// a function of PHP that is written in C has a frame, too.
pub(crate) fn is_handler(name: &str) -> bool {
    let is_of_php = name.starts_with("ZEND_") && name.ends_with("_HANDLER")
        || name.starts_with("zif_")
        || name.starts_with("zim_");
    is_of_php || name.starts_with("Builtins_") && name.ends_with("Handler")
}

/// Whether generated code is a trampoline that a runtime makes for profilers, with the name of the function that it calls
/// (`python -X perf`).
pub(crate) fn is_trampoline(name: &str) -> bool {
    name.starts_with("py::")
}

/// Whether a function does nothing but call another one: wherever it is, its time is that of its caller.
pub(crate) fn is_call(name: &str) -> bool {
    let name = name.split('.').next().unwrap_or(name);
    LANGUAGES.iter().flat_map(|language| language.calls).any(|call| name.starts_with(call))
}

/// Whether a function of an interpreter's file only calls other functions.
pub(crate) fn is_machinery(name: &str) -> bool {
    // Static functions that nothing names are called after their address: `python3.11+0x5c`.
    let is_address = name.contains("+0x");
    // Parts that a compiler split off: `take_gil.isra.0`, `_PyEval_EvalFrameDefault.cold`.
    let name = name.split('.').next().unwrap_or(name);
    is_address
        || LANGUAGES.iter().any(|language| {
            language.names.contains(&name) || language.prefixes.iter().any(|prefix| name.starts_with(prefix))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interpreter_is_known_by_its_file() {
        for path in [
            "/usr/bin/python3.11",
            "/usr/lib/libpython3.13t.so.1.0",
            "/usr/lib/python3.11/lib-dynload/_json.cpython-311-x86_64-linux-gnu.so",
            "/usr/lib/jvm/java-17-openjdk-amd64/lib/server/libjvm.so",
            "/usr/bin/node",
            "/usr/bin/php8.2",
            "/usr/sbin/php-fpm8.2",
            "/usr/lib/apache2/modules/libphp8.2.so",
            "/usr/lib/x86_64-linux-gnu/libnode.so.108",
            "/usr/lib/x86_64-linux-gnu/libruby-3.1.so.3.1.2",
            "/usr/bin/ruby3.1",
            "/usr/lib/x86_64-linux-gnu/perl/5.36/auto/Time/HiRes/HiRes.so",
        ] {
            assert!(is_interpreter_file(path), "{path}");
        }
        for path in [
            "/srv/python-service",
            "/srv/ruby-",
            "/usr/bin/rubyfmt",
            "/usr/lib/x86_64-linux-gnu/perl5/5.36/auto/DBD/Pg/Pg.so",
            "/srv/app",
            "/usr/lib/libpythonic.so",
            "python 3.11",
            "node 20.20",
        ] {
            assert!(!is_interpreter_file(path), "{path}");
        }
    }

    #[test]
    fn what_calls_is_machinery_and_what_works_is_not() {
        for name in [
            "_PyEval_EvalFrameDefault",
            "_PyEval_EvalFrameDefault.cold",
            "PyObject_Vectorcall",
            "method_vectorcall_FASTCALL",
            "cfunction_vectorcall_O",
            "gen_iternext",
            "py_trampoline_evaluator",
            "thread_run",
            "zend_call_function",
            "php_execute_script",
            "python3.11+0x5c",
            "Builtins_JSEntryTrampoline",
            "rb_yield_values",
            "vm_call_cfunc_with_frame",
            "v8::internal::(anonymous namespace)::Invoke(v8::internal::Isolate*)",
        ] {
            assert!(is_machinery(name), "{name}");
        }
        for body in ["zif_usort", "zim_PDO_query", "ZEND_DO_FCALL_SPEC_HANDLER"] {
            assert!(is_handler(body), "{body}");
        }
        assert!(!is_handler("zend_sort") && is_php("php 8.2") && !is_php("phpfarm"));
        assert!(is_java_call("I2C/C2I adapters(0xba)") && is_java_call("vtable chunks"));
        assert!(!is_java_call("StubRoutines (2)") && is_java_stub("StubRoutines (2)"));
        assert!(!is_java_stub("java.util.TimSort.sort") && is_java("java 17") && !is_java("javascript"));
        assert!(is_call("_PyFunction_Vectorcall.localalias") && !is_call("PyObject_Free"));
        for name in [
            "list_sort",
            "rb_ary_sort_by_bang",
            "rb_str_concat",
            "zend_sort",
            "zend_hash_find",
            "Builtins_ArrayMap",
            "builtin_sorted",
            "_sre_SRE_Pattern_sub",
            "take_gil",
            "sock_recv",
            "main",
        ] {
            assert!(!is_machinery(name), "{name}");
        }
    }
}
