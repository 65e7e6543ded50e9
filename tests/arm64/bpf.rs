//! The BPF programs, compiled for arm64. Not loaded: that takes an arm64 kernel.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

use libbpf_rs::btf::{Btf, types};
use object::{Object, ObjectSection, ObjectSymbol};

/// Bytes of an instruction; its classes (include/uapi/linux/bpf.h) that are looked at.
const INSTRUCTION: usize = 8;
const LOAD_CONSTANT: u8 = 0;
const LOAD: u8 = 1;
const STORE_CONSTANT: u8 = 2;
const STORE: u8 = 3;
const JUMP: u8 = 5;
const JUMP32: u8 = 6;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;
/// The jump without a condition, and the instruction with a number of 64 bits, which takes two places.
const ALWAYS: u8 = 0x05;
const WIDE: u8 = 0x18;

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

/// Compiles the programs for a processor, as libbpf names it.
fn compile(processor: &str, object: &Path) {
    let output = Command::new("clang")
        .args(["-g", "-O2", "-target", "bpf", "-mcpu=v3", &format!("-D__TARGET_ARCH_{processor}")])
        .args(["-Wall", "-Wextra", "-Werror", "-Wno-unused-parameter", "-I"])
        .arg(libbpf_headers())
        .args(["-I", concat!(env!("CARGO_MANIFEST_DIR"), "/src/bpf/c")])
        .args(["-c", concat!(env!("CARGO_MANIFEST_DIR"), "/src/bpf/c/prof.bpf.c"), "-o"])
        .arg(object)
        .output()
        .expect("clang builds prof itself");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Registers that an instruction reads, and the one that it writes.
fn reads_and_writes(instruction: &[u8]) -> (Vec<u8>, Option<u8>) {
    const OF_REGISTER: u8 = 0x08;
    const MOVE: u8 = 0xb0;
    let (code, target, source) = (instruction[0], instruction[1] & 15, instruction[1] >> 4);
    let takes_source = code & OF_REGISTER != 0;
    match code & 7 {
        LOAD_CONSTANT => (Vec::new(), Some(target)),
        LOAD => (vec![source], Some(target)),
        STORE_CONSTANT => (vec![target], None),
        STORE => (vec![target, source], None),
        _ if code == ALWAYS => (Vec::new(), None),
        JUMP | JUMP32 if takes_source => (vec![target, source], None),
        JUMP | JUMP32 => (vec![target], None),
        _ => {
            let own = (code & 0xf0 != MOVE).then_some(target);
            (own.into_iter().chain(takes_source.then_some(source)).collect(), Some(target))
        }
    }
}

/// Whether a function looks at the argument in `register` on any way through it.
fn uses_argument(code: &[u8], register: u8) -> bool {
    let mut seen = BTreeSet::new();
    let mut waiting = vec![0];
    while let Some(index) = waiting.pop() {
        let Some(instruction) = code.chunks_exact(INSTRUCTION).nth(index) else { continue };
        if matches!(instruction[0], CALL | EXIT) || !seen.insert(index) {
            continue;
        }
        let (reads, writes) = reads_and_writes(instruction);
        if reads.contains(&register) {
            return true;
        }
        if writes == Some(register) {
            continue;
        }
        if matches!(instruction[0] & 7, JUMP | JUMP32) {
            let offset = i16::from_le_bytes([instruction[2], instruction[3]]);
            waiting.push((index as i64 + 1 + i64::from(offset)) as usize);
        }
        if instruction[0] != ALWAYS {
            waiting.push(index + if instruction[0] == WIDE { 2 } else { 1 });
        }
    }
    false
}

/// Arguments that global functions have and do not look at, as `function: number`.
fn unused_arguments(path: &Path) -> Vec<String> {
    let bytes = std::fs::read(path).unwrap();
    let file = object::File::parse(&bytes[..]).unwrap();
    let text = file.section_by_name(".text").unwrap();
    let code = text.data().unwrap();
    let btf = Btf::from_path(path).unwrap();
    let mut functions = 0;
    let mut found = Vec::new();
    for symbol in file.symbols().filter(|symbol| symbol.section_index() == Some(text.index())) {
        let name = symbol.name().unwrap();
        let Some(function) = btf.type_by_name::<types::Func<'_>>(name).filter(|_| symbol.is_global()) else {
            continue;
        };
        functions += 1;
        let start = symbol.address() as usize;
        let code = &code[start..start + symbol.size() as usize];
        let parameters = types::FuncProto::try_from(function.next_type().unwrap()).unwrap().len();
        let unused = (1..=parameters as u8).filter(|&register| !uses_argument(code, register));
        found.extend(unused.map(|register| format!("{name}: {register}")));
    }
    assert!(functions > 5, "only {functions} global functions were found");
    found
}

/// The kernel checks each argument of a call to a global function. clang does not pass those that the function does not use, so
/// that the register has something else, with which the programs are refused.
#[test]
fn global_functions_use_all_their_arguments_on_both_processors() {
    let out = tempfile::tempdir().unwrap();
    for processor in ["x86", "arm64"] {
        let object = out.path().join(processor);
        compile(processor, &object);
        assert_eq!(unused_arguments(&object), [""; 0], "on {processor}");
    }
}

#[test]
fn the_programs_compile_for_arm64_without_a_warning() {
    let out = tempfile::tempdir().unwrap();
    let object = out.path().join("prof.bpf.o");
    compile("arm64", &object);
    let bytes = std::fs::read(&object).unwrap();
    let file = object::File::parse(&bytes[..]).unwrap();
    let program = file.section_by_name("perf_event").expect("the sampler is there");
    assert!(program.size() > 1000);
    // The registers of arm64, by the name that only its side has.
    assert!(file.section_by_name(".rodata").is_some());
    let has = |name: &[u8]| bytes.windows(name.len()).any(|part| part == name);
    assert!(has(b"signature_mask") && has(b"syscallno") && !has(b"orig_ax"));
}
