//! Naming addresses of a library without debug information, of the C library with its debug file, and of this program.
//!
//! `PROF_BENCH_ELF=PATH` names another file instead.

use std::fs::File;
use std::hint::black_box;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use object::{Object, ObjectSymbol, SymbolKind};
use prof::internals::base::deadline::Deadline;
use prof::internals::base::memory_budget::MemoryBudget;
use prof::internals::symbols::{ModuleNames, NamingLimits, find_debug_file};

/// Addresses that are named at a time.
const ADDRESSES: usize = 100;
const CANDIDATES: [&str; 4] = [
    "/usr/lib/x86_64-linux-gnu/libLLVM-14.so.1",
    "/usr/lib/x86_64-linux-gnu/libc.so.6",
    "/usr/lib64/libc.so.6",
    "/proc/self/exe",
];

/// Addresses in the middle of functions, from all over the file: two sets of them.
fn addresses(path: &Path) -> [Vec<u64>; 2] {
    let bytes = std::fs::read(path).expect("the file can be read");
    let object = object::File::parse(&*bytes).expect("the file is an ELF file");
    let symbols = object.symbols().chain(object.dynamic_symbols());
    let functions = symbols.filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0);
    let mut middles: Vec<u64> =
        functions.filter(|f| f.is_definition()).map(|f| f.address() + f.size() / 2).collect();
    middles.sort_unstable();
    middles.dedup();
    let step = (middles.len() / (2 * ADDRESSES)).max(1);
    [0, step].map(|first| middles.iter().skip(first).step_by(2 * step).take(ADDRESSES).copied().collect())
}

fn bench(criterion: &mut Criterion) {
    let named = std::env::var_os("PROF_BENCH_ELF").map(PathBuf::from);
    let paths = named.map_or_else(|| CANDIDATES.map(PathBuf::from).to_vec(), |path| vec![path]);
    let (limits, end, memory) = (NamingLimits::default(), Deadline::default(), MemoryBudget::shared());
    let mut group = criterion.benchmark_group("symbols");
    group.sample_size(10);
    for path in paths.iter().filter(|path| path.exists()) {
        let [first, second] = addresses(path);
        let file = Arc::new(File::open(path).expect("the file exists"));
        let open = || {
            let debug_file = find_debug_file(Path::new("/"), path, &file, &end);
            ModuleNames::open(&file, debug_file.as_ref(), &limits, &end, memory)
                .expect("the file is an ELF file")
        };
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        group.bench_function(format!("open {name} and name {ADDRESSES}"), |bencher| {
            bencher.iter(|| black_box(open().resolve(&first, &end)));
        });
        group.bench_function(format!("name {ADDRESSES} more of {name}"), |bencher| {
            let prepared = || {
                let mut names = open();
                names.resolve(&first, &end);
                names
            };
            let more = |mut names: ModuleNames| black_box(names.resolve(&second, &end));
            bencher.iter_batched(prepared, more, criterion::BatchSize::LargeInput);
        });
        let mut names = open();
        group.bench_function(format!("name {ADDRESSES} of {name} again"), |bencher| {
            bencher.iter(|| black_box(names.resolve(&first, &end)));
        });
    }
    group.finish();
}

criterion_group!(benches, bench);
criterion_main!(benches);
