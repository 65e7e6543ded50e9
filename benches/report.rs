//! From a profile in memory to a report: 1,000,000 samples of 10,000 distinct stacks of 30 frames (a
//! steady program), 100,000 samples that all have a stack of their own (a compiler), and 1,000,000 waits of 10,000
//! stacks.

mod steady;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use prof::internals::profile::Integrity;
use prof::internals::report::{
    Analysis, CommonOptions, Metric, NameStyle, Page, ReportOptions, ReportView, SamplesAt, TimeRange,
    Timeline, folded, render,
};
use std::hint::black_box;
use steady::{recording, with_waits};

fn views_of_waits(criterion: &mut Criterion) {
    let profile = with_waits(recording(10_000, 10_000).profile.clone(), 1_000_000, 10_000);
    let recording = Analysis::new(profile, Integrity::default());
    let mut group = criterion.benchmark_group("waits 1M/10k");
    group.sample_size(10);
    for (name, metric, view) in [
        ("waits", Metric::OFF_CPU, ReportView::Waits),
        ("wall", Metric::WALL, ReportView::Flat),
        ("threads", Metric::ON_CPU, ReportView::Threads),
        ("on-CPU", Metric::ON_CPU, ReportView::Flat),
    ] {
        let mut options = ReportOptions { view, ..ReportOptions::default() };
        options.common.metric = Some(metric);
        group.bench_function(name, |bencher| {
            // Which waits are idle is decided once for a recording: a copy has to decide again.
            bencher.iter_batched(
                || Analysis::new(recording.profile.clone(), Integrity::default()),
                |recording| render(black_box(&recording), &options, &Page::PLAIN).map(|text| text.len()),
                BatchSize::PerIteration,
            );
        });
    }
    group.finish();
}

fn views(criterion: &mut Criterion) {
    for (name, recording) in
        [("steady 1M/10k", recording(1_000_000, 10_000)), ("compiler 100k/100k", recording(100_000, 100_000))]
    {
        let mut group = criterion.benchmark_group(name);
        group.sample_size(10);
        for (view_name, view) in
            [("flat", ReportView::Flat), ("tree", ReportView::Tree), ("bottom-up", ReportView::BottomUp)]
        {
            let options = ReportOptions { view, ..ReportOptions::default() };
            group.bench_function(view_name, |bencher| {
                bencher.iter(|| render(black_box(&recording), &options, &Page::PLAIN));
            });
        }
        group.bench_function("folded", |bencher| {
            bencher.iter(|| {
                let selection = black_box(&recording).select(&CommonOptions::default());
                selection.map(|selection| folded(&selection, NameStyle::Full, false).len())
            });
        });
        group.bench_function("timeline", |bencher| {
            bencher.iter(|| Timeline::new(black_box(&recording), &CommonOptions::default(), 960, 0));
        });
        let time = TimeRange { from_ns: Some(1_000_000_000), to_ns: Some(20_000_000_000) };
        let mut options = CommonOptions::default();
        options.filter.time = time;
        group.bench_function("samples behind 19 s", |bencher| {
            bencher.iter(|| SamplesAt::new(black_box(&recording), &options, 1_000));
        });
        group.finish();
    }
}

criterion_group!(benches, views, views_of_waits);
criterion_main!(benches);
