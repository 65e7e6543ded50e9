//! Compiles the BPF programs and generates their skeleton.

use libbpf_cargo::SkeletonBuilder;
use std::env;
use std::path::PathBuf;

fn main() {
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let out = folder.join("prof.skel.rs");
    let built = SkeletonBuilder::new()
        .source("src/bpf/prof.bpf.c")
        // Tests read it.
        .obj(folder.join("prof.bpf.o"))
        // -mcpu=v3: 32-bit arithmetic and jumps, since Linux 5.1; v4 would need Linux 6.6.
        .clang_args(["-mcpu=v3", "-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter"])
        .build_and_generate(&out);
    println!("cargo:rerun-if-changed=src/bpf");
    if let Err(error) = built {
        panic!("cannot build the BPF programs (clang 14 or newer is needed): {error:#}");
    }
}
