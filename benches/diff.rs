//! From two files to a comparison: `prof diff` of recordings with 1,000,000 samples each, of 10,000 distinct stacks of 30 frames.

mod steady;

use criterion::{Criterion, criterion_group, criterion_main};
use prof::internals::profile::Writer;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use steady::recording;

fn written(folder: &std::path::Path, name: &str, stacks: usize) -> PathBuf {
    let mut profile = recording(1_000_000, stacks).profile.clone();
    let mut writer = Writer::new(Vec::new(), &profile.meta).expect("it can be written");
    writer.flush(&mut profile, true).expect("it can be written");
    let file = folder.join(name);
    std::fs::write(&file, writer.into_inner()).expect("the folder is writable");
    file
}

fn diff(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let files = [("base.data", 10_000), ("new.data", 9_900)];
    let files = files.map(|(name, stacks)| written(folder.path(), name, stacks));
    let mut group = criterion.benchmark_group("diff 1M/10k");
    group.sample_size(10);
    for (name, options) in [("text", &[][..]), ("json", &["--json"])] {
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                let mut command = Command::new(env!("CARGO_BIN_EXE_prof"));
                command.arg("diff").args(&files).args(options).stdout(Stdio::null()).stderr(Stdio::null());
                assert!(command.status().expect("it can be started").success());
            });
        });
    }
    group.finish();
}

criterion_group!(benches, diff);
criterion_main!(benches);
