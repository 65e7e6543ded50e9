//! Recorded stacks, walked by the kernel's walker: compiled for the host from its own source, with arm64's
//! registers, under sanitizers. `tests/walker` has the program and describes its input and output.

use std::collections::BTreeSet;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use prof::internals::bpf::{FRAME_ADDRESS, FRAME_BY_FP, outcome};
use prof::internals::unwind::arch::architecture::SIGNATURE_MASK_48_BITS;

use crate::case::{Module, Modules, Stop, visit_stops};

/// The registers of a case: x0 to x30, sp, pc.
const REGISTERS: usize = 33;
/// Bytes of the smallest page that arm64 has.
const PAGE: u64 = 4096;
/// `PROF_IMAGE_READY`
const READY: u32 = 1;

fn start_walker() -> Child {
    let program = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("walker-arm64-{}", std::process::id()));
    let output = Command::new("clang")
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .args(["-D__TARGET_ARCH_arm64", "-g", "-O1", "-Wall", "-Wextra", "-Werror", "-Isrc/bpf/c"])
        .args(["-Wno-unused-parameter", "-Wno-unused-function", "-fno-sanitize-recover=all"])
        .args(["-fsanitize=address,undefined", "-fno-sanitize=alignment"])
        .args(["tests/walker/host/replay.c", "-o"])
        .arg(&program)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let child = Command::new(&program).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    std::fs::remove_file(&program).unwrap();
    child
}

/// Tables and mappings in the walker's binary form: what all stops of a case share.
#[derive(Default)]
struct Tables {
    counts: [u32; 5],
    rows: Vec<u8>,
    pages: Vec<u8>,
    rules: Vec<u8>,
    images: Vec<u8>,
    mappings: Vec<u8>,
}

impl Tables {
    fn of(modules: &Modules) -> Self {
        let mut tables = Self::default();
        let mut sorted: Vec<&Module> = modules.0.iter().collect();
        sorted.sort_by_key(|module| module.start);
        for module in sorted {
            tables.add(module);
        }
        tables
    }

    fn add(&mut self, module: &Module) {
        let table = &module.table;
        let [rows, pages, rules, images, mappings] = &mut self.counts;
        for number in [*pages, table.pages.len() as u32, table.first_page as u32, READY] {
            self.images.extend(number.to_le_bytes());
        }
        for page in table.kernel_pages(*rows) {
            self.pages.extend(page.row.iter().flat_map(|row| row.to_le_bytes()));
        }
        for row in &table.rows {
            self.rows.extend(row.pc_low.to_le_bytes());
            self.rows.extend((row.rule + *rules as u16).to_le_bytes());
        }
        self.rules.extend(table.rules.iter().flat_map(|rule| rule.to_bytes()));
        for number in [module.start, module.end, module.bias, u64::from(*images)] {
            self.mappings.extend(number.to_le_bytes());
        }
        *rows += table.rows.len() as u32;
        *pages += table.pages.len() as u32;
        *rules += table.rules.len() as u32;
        *images += 1;
        *mappings += 1;
    }

    fn encode(&self, stop: &Stop<'_>) -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend(0u32.to_le_bytes());
        bytes.extend(self.counts.iter().flat_map(|count| count.to_le_bytes()));
        // Memory is there by pages, and the walker relies on it.
        let zones = stop.memory.zones.iter();
        let pages: BTreeSet<u64> = zones.flat_map(|&(start, end)| start / PAGE..end.div_ceil(PAGE)).collect();
        bytes.extend((pages.len() as u32).to_le_bytes());
        let registers = stop.registers.general.iter().chain([&stop.registers.pc]);
        assert_eq!(registers.clone().count(), REGISTERS);
        bytes.extend(registers.flat_map(|value| value.to_le_bytes()));
        for part in [&self.rows, &self.pages, &self.rules, &self.images, &self.mappings] {
            bytes.extend(part);
        }
        for start in pages.into_iter().map(|page| page * PAGE) {
            bytes.extend(start.to_le_bytes());
            bytes.extend(PAGE.to_le_bytes());
            let mut content = vec![0; PAGE as usize];
            for (address, value) in stop.memory.words.range(start..start + PAGE) {
                content[(address - start) as usize..][..8].copy_from_slice(&value.to_le_bytes());
            }
            bytes.extend(content);
        }
        bytes
    }
}

#[test]
fn the_kernels_walker_finds_every_recorded_stack() {
    let mut walker = start_walker();
    let mut input = walker.stdin.take().unwrap();
    let mut output = walker.stdout.take().unwrap();
    let mut number = move |size: usize| {
        let mut bytes = [0; 8];
        output.read_exact(&mut bytes[..size]).expect("the walker ends early: a sanitizer has said why above");
        u64::from_le_bytes(bytes)
    };
    let mut stops = 0;
    for name in
        ["calls.txt", "nofp.txt", "signed.txt", "signals.txt", "library.txt", "bare.txt", "followed.txt"]
    {
        let mut tables: Option<Tables> = None;
        visit_stops(name, SIGNATURE_MASK_48_BITS, |modules, stop| {
            let case = tables.get_or_insert_with(|| Tables::of(modules)).encode(stop);
            input.write_all(&(case.len() as u32).to_le_bytes()).unwrap();
            input.write_all(&case).unwrap();
            let (end, count) = (number(4), number(4));
            let found: Vec<u64> = (0..count).map(|_| number(8)).collect();
            let frames: Vec<u64> = found.iter().map(|frame| frame & FRAME_ADDRESS).collect();
            assert_eq!(frames, stop.frames, "{name}:{}: {frames:x?}, expected {:x?}", stop.line, stop.frames);
            assert_eq!(end, u64::from(outcome::COMPLETE), "{name}:{}", stop.line);
            let by_frame_pointer = found.iter().filter(|frame| *frame & FRAME_BY_FP != 0).count();
            assert_eq!(by_frame_pointer, if name == "bare.txt" { 2 } else { 0 }, "{name}:{}", stop.line);
            stops += 1;
        });
    }
    drop(input);
    assert!(walker.wait().unwrap().success());
    assert!(stops > 1000);
}
