//! Compiles the BPF programs and generates their skeleton.

use libbpf_cargo::SkeletonBuilder;
use std::collections::BTreeSet;
use std::env;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::PathBuf;

fn main() {
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let out = folder.join("prof.skel.rs");
    let built = SkeletonBuilder::new()
        .source("src/bpf/c/prof.bpf.c")
        // Tests read it.
        .obj(folder.join("prof.bpf.o"))
        // -mcpu=v3: 32-bit arithmetic and jumps, since Linux 5.1; v4 would need Linux 6.6.
        .clang_args(["-mcpu=v3", "-Isrc/bpf/c", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"])
        .build_and_generate(&out);
    println!("cargo:rerun-if-changed=src/bpf");
    if let Err(error) = built {
        panic!("cannot build the BPF programs (clang 14 or newer is needed): {error:#}");
    }
    println!("cargo:rustc-env=PROF_COMPILER_HASH={:016x}", hash_of_compiler());
}

/// A number that changes with all that unwind tables depend on but the file that they are of: a table of another
/// compiler is not taken from the cache.
fn hash_of_compiler() -> u64 {
    // The versions of libraries, and the compiler itself.
    let mut files = BTreeSet::from([PathBuf::from("Cargo.lock")]);
    let mut folders = vec![PathBuf::from("src/unwind")];
    while let Some(folder) = folders.pop() {
        println!("cargo:rerun-if-changed={}", folder.display());
        for entry in std::fs::read_dir(folder).expect("the sources are there").flatten() {
            let path = entry.path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.insert(path);
            }
        }
    }
    let mut hasher = DefaultHasher::new();
    for file in files {
        std::fs::read(&file).expect("a source file can be read").hash(&mut hasher);
        println!("cargo:rerun-if-changed={}", file.display());
    }
    hasher.finish()
}
