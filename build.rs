//! Compiles the BPF programs and generates their skeleton, and builds the sampler of allocations.

use libbpf_cargo::SkeletonBuilder;
use std::collections::BTreeSet;
use std::env;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    let folder = PathBuf::from(env::var_os("OUT_DIR").expect("cargo sets OUT_DIR"));
    let out = folder.join("prof.skel.rs");
    // The lines of the BPF programs, which the kernel prints when it refuses one, are of the same files wherever they are built.
    let here = env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    let object = folder.join("prof.bpf.o");
    let mut skeleton = SkeletonBuilder::new();
    let skeleton = skeleton
        .source("src/bpf/c/prof.bpf.c")
        // Tests read it.
        .obj(&object)
        // -mcpu=v3: 32-bit arithmetic and jumps, since Linux 5.1; v4 would need Linux 6.6.
        .clang_args([
            "-mcpu=v3",
            // Lines are for the verifier's words; with columns there are half as many again of them in the program.
            "-gno-column-info",
            "-Isrc/bpf/c",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-Wno-unused-parameter",
            &format!("-ffile-prefix-map={here}=."),
        ]);
    let built = skeleton.build().and_then(|()| {
        // A sixtieth of the program would be lines that only its developers need.
        if env::var("PROFILE").is_ok_and(|profile| profile == "release") {
            let whole = std::fs::read(&object)?;
            std::fs::write(&object, without_lines(whole))?;
        }
        skeleton.generate(&out)
    });
    println!("cargo:rerun-if-changed=src/bpf");
    if let Err(error) = built {
        panic!("cannot build the BPF programs (clang 14 or newer is needed): {error:#}");
    }
    let read =
        |name: &str| std::fs::read_to_string(format!("src/bpf/c/{name}")).expect("the header is there");
    // prof.h and what it is made of.
    let parts = ["goroutine.h", "probe.h", "runtime.h", "managed.h", "unwind_table.h", "prof.h"];
    let header: String = parts.map(read).concat();
    std::fs::write(folder.join("prof_numbers.rs"), numbers(&header)).expect("cargo's folder can be written");
    build_heap_sampler(&folder.join("heap_sampler.elf"), &folder.join("heap_sampler.o"));
    println!("cargo:rustc-env=PROF_COMPILER_HASH={:016x}", hash_of_compiler());
}

/// An object file of BPF programs without the lines of its instructions, which a kernel prints when it refuses a program: they are
/// in `.BTF.ext`, the last section, between what is known of functions and what is relocated.
fn without_lines(mut object: Vec<u8>) -> Vec<u8> {
    let number = |object: &[u8], at: usize, bytes: usize| {
        let read = object[at..at + bytes].iter().rev();
        read.fold(0_usize, |number, &byte| number << 8 | usize::from(byte))
    };
    // Where the headers of sections are, how long one is, how many there are, and which has their names (elf.h).
    let headers = number(&object, 0x28, 8);
    let [length, count, names] = [0x3a, 0x3c, 0x3e].map(|at| number(&object, at, 2));
    let header = |index: usize| headers + index * length;
    let names = number(&object, header(names) + 0x18, 8);
    let is_wanted =
        |object: &[u8], at: usize| object[names + number(object, at, 4)..].starts_with(b".BTF.ext\0");
    let section =
        (0..count).map(header).find(|&at| is_wanted(&object, at)).expect("there is BTF of programs");
    let (start, size) = (number(&object, section + 0x18, 8), number(&object, section + 0x20, 8));
    let is_last = (0..count).all(|index| number(&object, header(index) + 0x18, 8) <= start);
    assert!(is_last && start < headers, ".BTF.ext is not the last section");
    // struct btf_ext_header: its own length, then where each part is after it and how long that is.
    let own = number(&object, start + 4, 4);
    let [lines, lines_size, relocations, _] = [16, 20, 24, 28].map(|at| number(&object, start + at, 4));
    assert!(own >= 32 && lines + lines_size == relocations, "relocations do not follow the lines");
    let mut write = |at: usize, bytes: usize, value: usize| {
        object[at..at + bytes].copy_from_slice(&value.to_le_bytes()[..bytes]);
    };
    write(start + 20, 4, 0);
    write(start + 24, 4, lines);
    write(section + 0x20, 8, size - lines_size);
    // The headers of sections come after it, at a multiple of eight.
    let filling = lines_size % 8;
    write(0x28, 8, headers - lines_size + filling);
    let lines = start + own + lines;
    object.drain(lines..lines + lines_size);
    let end = start + size - lines_size;
    object.splice(end..end, std::iter::repeat_n(0, filling));
    object
}

/// Builds the sampler that is put into targets: an ELF file for no operating system. For other processors it is empty.
fn build_heap_sampler(file: &Path, object: &Path) {
    const FOLDER: &str = "src/record/heap/sampler";
    println!("cargo:rerun-if-changed={FOLDER}");
    if env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|target| target != "x86_64") {
        return std::fs::write(file, []).expect("cargo's folder can be written");
    }
    let run = |program: &str, arguments: &[&str], paths: &[&Path]| {
        let ended = Command::new(program).args(arguments).args(paths).status();
        assert!(ended.is_ok_and(|status| status.success()), "cannot build {FOLDER} by {program}");
    };
    let source = format!("{FOLDER}/sampler.c");
    let here = env::var("CARGO_MANIFEST_DIR").expect("cargo sets CARGO_MANIFEST_DIR");
    run(
        "clang",
        &[
            "--target=x86_64-linux-gnu",
            "-O2",
            "-ffreestanding",
            "-fno-builtin",
            "-fno-stack-protector",
            "-fpic",
            "-fcf-protection=none",
            "-fasynchronous-unwind-tables",
            "-Wall",
            "-Wextra",
            "-Werror",
            &format!("-ffile-prefix-map={here}=."),
            "-c",
            &source,
            "-o",
        ],
        &[object],
    );
    run(
        // Debian's name of the linker for this target, wherever it runs; elsewhere it is the only one.
        if Path::new("/usr/bin/x86_64-linux-gnu-ld").exists() { "x86_64-linux-gnu-ld" } else { "ld" },
        &[
            "-m",
            "elf_x86_64",
            "-pie",
            "--no-dynamic-linker",
            "--build-id=sha1",
            "--eh-frame-hdr",
            "-z",
            "noexecstack",
            "-z",
            "max-page-size=4096",
            "-T",
            &format!("{FOLDER}/sampler.ld"),
            "-o",
        ],
        &[file, object],
    );
}

/// The macros and enumerators of headers that are numbers, as constants of Rust: their expressions are the same in both
/// languages but for the suffixes of numbers. Of two that are there for different processors, that of the target.
fn numbers(header: &str) -> String {
    let is_arm = env::var("CARGO_CFG_TARGET_ARCH").is_ok_and(|target| target == "aarch64");
    let header = without_comments(header);
    let mut found = Vec::new();
    let mut is_left_out = false;
    for line in header.lines() {
        match line.trim() {
            "#ifdef __TARGET_ARCH_arm64" => is_left_out = !is_arm,
            "#else" => is_left_out = is_arm,
            "#endif" => is_left_out = false,
            _ => {}
        }
        let definition = line.strip_prefix("#define ").filter(|_| !is_left_out);
        found.extend(definition.and_then(|definition| definition.split_once(' ')));
    }
    for block in header.split("enum ").skip(1) {
        let enumerators = block.split_once('{').and_then(|(_, block)| block.split_once('}'));
        let enumerators = enumerators.map_or("", |(enumerators, _)| enumerators);
        found.extend(enumerators.split(',').filter_map(|enumerator| enumerator.split_once('=')));
    }
    let mut out = String::new();
    for (name, value) in found.into_iter().map(|(name, value)| (name.trim(), value.trim())) {
        let is_number = |letter: char| letter.is_ascii_alphanumeric() || "_()<>+-*/ ".contains(letter);
        if name.starts_with("PROF_") && !value.is_empty() && value.chars().all(is_number) {
            out.push_str(&format!("pub(crate) const {name}: u64 = {};\n", without_suffixes(value)));
        }
    }
    out
}

fn without_comments(text: &str) -> String {
    let mut parts = text.split("/*");
    let first = parts.next().unwrap_or_default().to_owned();
    parts.fold(first, |before, part| before + part.split_once("*/").map_or("", |(_, after)| after))
}

/// `1ULL << 63` as `1 << 63`.
fn without_suffixes(value: &str) -> String {
    let mut out = String::new();
    for word in value.split_inclusive(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_') {
        let (number, end) =
            word.split_at(word.trim_end_matches(|letter: char| !letter.is_ascii_alphanumeric()).len());
        let is_number = number.starts_with(|letter: char| letter.is_ascii_digit());
        out.push_str(if is_number { number.trim_end_matches(['U', 'L']) } else { number });
        out.push_str(end);
    }
    out
}

/// A number that changes with all that unwind tables depend on but the file that they are of: a table of another
/// compiler is not taken from the cache.
fn hash_of_compiler() -> u64 {
    // The versions of libraries, and the compiler itself.
    let mut files = BTreeSet::from([PathBuf::from("Cargo.lock")]);
    let mut folders = vec![PathBuf::from("src/unwind"), PathBuf::from("src/elf")];
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
