//! Bodies of the fuzz targets: ordinary functions that feed any bytes to a reader of foreign data, and panic where a promise
//! about such data is broken. `fuzz/` runs them under libFuzzer, `tests/fuzzing.rs` without. Only built with the feature
//! `testing`. Not here: the kernel's walker, which is C and has its fuzzer in `tests/walker`.

mod generated;
mod hostile;
mod imports;
mod input;
mod interpreters;
mod managed;
mod memory;
mod modules;
mod names;
mod profiles;
mod records;

pub use hostile::unwind_elf;

/// What a target does with an input.
type Body = fn(&[u8]);

/// All bodies, by the names of their targets and of the folders of their corpora in `fuzz/corpus`.
pub const BODIES: [(&str, Body); 20] = [
    ("profile_reader", profiles::profile_reader),
    ("reports", profiles::reports),
    ("elf_rows", modules::elf_rows),
    ("kept_tables", modules::kept_tables),
    ("symbols", modules::symbols),
    ("probes", modules::probes),
    ("patched_code", modules::patched_code),
    ("perf_map", generated::perf_map),
    ("jit_dump", generated::jit_dump),
    ("process_files", records::process_files),
    ("rings", records::rings),
    ("imports", imports::imports),
    ("names", names::names),
    ("python", interpreters::python),
    ("ruby", interpreters::ruby),
    ("php", interpreters::php),
    ("perl", interpreters::perl),
    ("go", interpreters::go),
    ("java", managed::java),
    ("v8", managed::v8),
];

/// Runs the body of a target.
///
/// # Panics
///
/// Where there is no such target, and where its reader breaks a promise.
pub fn run(target: &str, data: &[u8]) {
    let (_, body) = BODIES.iter().find(|(name, _)| *name == target).expect("a target has a body");
    body(data);
}
