//! The BPF programs, compiled for arm64. Not loaded: that takes an arm64 kernel.

use std::path::{Path, PathBuf};
use std::process::Command;

use object::{Object, ObjectSection};

/// libbpf's headers, as its crate unpacked them for this build.
fn libbpf_headers() -> PathBuf {
    let builds = Path::new(env!("OUT_DIR")).ancestors().nth(2).unwrap();
    let has_headers = |path: &PathBuf| path.join("bpf/bpf_helpers.h").exists();
    std::fs::read_dir(builds)
        .unwrap()
        .filter_map(|entry| Some(entry.ok()?.path().join("out/include")))
        .find(has_headers)
        .expect("libbpf-sys was built before this test")
}

#[test]
fn the_programs_compile_for_arm64_without_a_warning() {
    let out = tempfile::tempdir().unwrap();
    let object = out.path().join("prof.bpf.o");
    let output = Command::new("clang")
        .args(["-g", "-O2", "-target", "bpf", "-mcpu=v3", "-D__TARGET_ARCH_arm64"])
        .args(["-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-I"])
        .arg(libbpf_headers())
        .args(["-I", concat!(env!("CARGO_MANIFEST_DIR"), "/src/bpf/c")])
        .args(["-c", concat!(env!("CARGO_MANIFEST_DIR"), "/src/bpf/c/prof.bpf.c"), "-o"])
        .arg(&object)
        .output()
        .expect("clang builds prof itself");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let bytes = std::fs::read(&object).unwrap();
    let file = object::File::parse(&bytes[..]).unwrap();
    let program = file.section_by_name("perf_event").expect("the sampler is there");
    assert!(program.size() > 1000);
    // The registers of arm64, by the name that only its side has.
    assert!(file.section_by_name(".rodata").is_some());
    let has = |name: &[u8]| bytes.windows(name.len()).any(|part| part == name);
    assert!(has(b"signature_mask") && has(b"syscallno") && !has(b"orig_ax"));
}
