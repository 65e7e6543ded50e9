//! Compiling the unwind table of a large library, and looking rows up in it.
//!
//! The file is the first of a list that exists; `PROF_BENCH_ELF=PATH` names another.

use std::fs::File;
use std::hint::black_box;
use std::path::PathBuf;

use criterion::{Criterion, Throughput, criterion_group, criterion_main};
use prof::internals::unwind::{ElfImage, Limits, compile};

const CANDIDATES: [&str; 5] = [
    "/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1",
    "/usr/lib/x86_64-linux-gnu/libLLVM-15.so.1",
    "/usr/bin/node",
    "/usr/lib/x86_64-linux-gnu/libc.so.6",
    "/usr/lib64/libc.so.6",
];

fn bench(criterion: &mut Criterion) {
    let named = std::env::var_os("PROF_BENCH_ELF").map(PathBuf::from);
    let found = named.or_else(|| CANDIDATES.iter().map(PathBuf::from).find(|path| path.exists()));
    let Some(path) = found else { return };
    let limits = Limits::default();
    let load = || {
        let file = File::open(&path).expect("the file exists");
        let image = ElfImage::open(&file, &limits.elf).expect("the file is an ELF file");
        compile(&image, &limits).expect("the file has a table")
    };
    let table = load();
    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();

    let mut group = criterion.benchmark_group("unwind_table");
    group.sample_size(20);
    group.throughput(Throughput::Elements(table.rows.len() as u64));
    group.bench_function(format!("compile {name}, {} rows", table.rows.len()), |bencher| {
        bencher.iter(|| black_box(load()));
    });
    let first = table.first_page << 16;
    let span = (table.pages.len() as u64) << 16;
    group.throughput(Throughput::Elements(1));
    group.bench_function(format!("lookup {name}"), |bencher| {
        let mut state = 1u64;
        bencher.iter(|| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            black_box(table.lookup(first + (state >> 20) % span))
        });
    });
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
