//! Speed of the profile file: 1,000,000 samples of 10,000 stacks, and one second of a recording.

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use prof::internals::profile::{Writer, read};
use std::hint::black_box;

#[path = "../tests/support/demo_profile.rs"]
mod demo_profile;

fn profile_file(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("profile_file");
    group.sample_size(10);

    let mut long = demo_profile::long(1_000_000);
    let mut writer = Writer::new(Vec::new(), &long.meta).expect("a vector takes all");
    writer.flush(&mut long, false).expect("a vector takes all");
    let bytes = writer.into_inner();
    group.bench_function("read 1,000,000 samples", |bencher| {
        bencher.iter(|| read(black_box(bytes.as_slice())).expect("it is a profile"));
    });
    group.bench_function("write 1,000,000 samples", |bencher| {
        bencher.iter(|| {
            let mut writer = Writer::new(Vec::new(), &long.meta).expect("a vector takes all");
            writer.flush(&mut long, false).expect("a vector takes all");
            writer.into_inner().len()
        });
    });

    // Nearly all rows are new.
    let compiler = demo_profile::compiler();
    group.bench_function("flush 10 s of a compiler", |bencher| {
        bencher.iter_batched_ref(
            || compiler.clone(),
            |profile| {
                let mut writer = Writer::new(Vec::new(), &profile.meta).expect("a vector takes all");
                writer.flush(profile, true).expect("a vector takes all");
                writer.into_inner().len()
            },
            BatchSize::LargeInput,
        );
    });
    group.finish();
}

criterion_group!(benches, profile_file);
criterion_main!(benches);
