//! From a file to an export, by the program itself: 1,000,000 samples of 10,000 stacks, and 500,000 samples with as many
//! waits. `cargo bench --bench exports -- firefox` runs one format.

use criterion::{Criterion, criterion_group, criterion_main};
use prof::internals::profile::{Profile, Writer};
use std::path::Path;
use std::process::{Command, Stdio};

#[path = "../tests/support/demo_profile.rs"]
mod demo_profile;

const FORMATS: [&str; 8] =
    ["pprof", "speedscope", "firefox", "perfetto", "callgrind", "json", "perf-script", "folded"];

fn write(mut profile: Profile, path: &Path) {
    let mut writer = Writer::new(Vec::new(), &profile.meta).expect("a vector takes all");
    writer.flush(&mut profile, false).expect("a vector takes all");
    std::fs::write(path, writer.into_inner()).expect("the temporary folder can be written");
}

fn export(file: &Path, format: &str) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_prof"));
    command.arg("export").arg(file).args(["-o", "-", "--format", format]);
    let status = command.stdout(Stdio::null()).stderr(Stdio::null()).status();
    assert!(status.is_ok_and(|status| status.success()), "{format}");
}

fn exports(criterion: &mut Criterion) {
    let folder = tempfile::tempdir().expect("the temporary folder can be written");
    let file = folder.path().join("prof.data");
    for (name, profile) in [
        ("export 1M samples", demo_profile::long(1_000_000)),
        ("export 500k samples 500k waits", demo_profile::with_waits(demo_profile::long(500_000), 500_000)),
    ] {
        write(profile, &file);
        let mut group = criterion.benchmark_group(name);
        group.sample_size(10);
        for format in FORMATS {
            group.bench_function(format, |bencher| bencher.iter(|| export(&file, format)));
        }
        group.finish();
    }
}

criterion_group!(benches, exports);
criterion_main!(benches);
