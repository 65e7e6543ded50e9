//! The terminal interface on 1,000,000 samples and some 100,000 nodes of a call tree: from a recording to the first
//! screen, from a key to the next screen, and the pictures that keys ask for, also with 1,000,000 waits and
//! with 5,000 threads.

mod steady;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use prof::internals::profile::Integrity;
use prof::internals::report::{Analysis, CommonOptions, Direction, Metric, ThreadSplit, TimeRange, Timeline};
use prof::internals::tui::app::action::Action;
use prof::internals::tui::app::query::Query;
use prof::internals::tui::app::state::App;
use prof::internals::tui::compute::picture::Picture;
use prof::internals::tui::screen;
use prof::internals::tui::widgets::theme::{ColorDepth, Glyphs, Theme};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::layout::Size;
use std::hint::black_box;
use std::sync::Arc;

const COLUMNS: u16 = 120;
const ROWS: u16 = 40;
const THEME: Theme = Theme { depth: ColorDepth::True, is_light: false, glyphs: Glyphs::UNICODE };

/// An app that shows `picture`.
fn app_with(picture: &Arc<Picture>) -> App {
    let mut app = App::new(picture.query.clone(), Size::new(COLUMNS, ROWS));
    app.set_picture(Arc::clone(picture));
    app
}

fn terminal() -> Terminal<TestBackend> {
    match Terminal::new(TestBackend::new(COLUMNS, ROWS)) {
        Ok(terminal) => terminal,
        Err(never) => match never {},
    }
}

fn draw(terminal: &mut Terminal<TestBackend>, app: &App) {
    let drawn = terminal.draw(|frame| screen::draw(frame, app, &THEME));
    black_box(drawn.map(|frame| frame.count)).unwrap_or_else(|never| match never {});
}

fn picture(recording: &Arc<Analysis>, query: &Query) -> Arc<Picture> {
    Arc::new(Picture::new(recording, query).expect("a query without patterns can be answered"))
}

fn tui(criterion: &mut Criterion) {
    let recording = Arc::new(steady::recording(1_000_000, 6_500));
    let query = Query::new(CommonOptions::default());
    let first = picture(&recording, &query);
    let mut group = criterion.benchmark_group(format!("tui 1M/{}k nodes", first.tree.nodes().len() / 1000));
    group.sample_size(10);
    group.bench_function("recording to first screen", |bencher| {
        bencher.iter_batched(
            // Samples are counted once for a recording: a copy has to count again.
            || Arc::new(Analysis::new(recording.profile.clone(), Integrity::default())),
            |recording| draw(&mut terminal(), &app_with(&picture(&recording, &query))),
            BatchSize::PerIteration,
        );
    });

    let mut app = app_with(&first);
    let mut screen = terminal();
    for (name, there, back) in [
        ("key: down and up", Action::Down, Action::Up),
        ("key: next and previous match", Action::NextMatch, Action::PreviousMatch),
        ("key: order", Action::Sort, Action::Sort),
    ] {
        app.update(&Action::Search);
        for c in "module_7".chars() {
            app.update(&Action::Edit(tui_input::InputRequest::InsertChar(c)));
        }
        app.update(&Action::Accept);
        group.bench_function(name, |bencher| {
            bencher.iter(|| {
                for action in [&there, &back] {
                    app.update(action);
                    draw(&mut screen, &app);
                }
            });
        });
    }
    group.bench_function("key: a letter of a search", |bencher| {
        bencher.iter(|| {
            app.update(&Action::Search);
            app.update(&Action::Edit(tui_input::InputRequest::InsertChar('7')));
            draw(&mut screen, &app);
        });
    });

    group.finish();
    pictures(criterion, &format!("tui 1M/{}k nodes", first.tree.nodes().len() / 1000), &recording);
}

/// The pictures that keys ask for, of `recording`, drawn.
fn pictures(criterion: &mut Criterion, title: &str, recording: &Arc<Analysis>) {
    let query = Query::new(CommonOptions::default());
    let mut screen = terminal();
    let mut group = criterion.benchmark_group(title);
    group.sample_size(10);
    let second = 1_000_000_000;
    let of = |change: &dyn Fn(&mut Query)| {
        let mut changed = query.clone();
        change(&mut changed);
        changed
    };
    let filtered = of(&|query| query.common.filter.focus = Some("7".to_owned()));
    let inverted = of(&|query| query.direction = Direction::BottomUp);
    let range = TimeRange { from_ns: Some(100 * second), to_ns: Some(900 * second) };
    let middle = of(&|query| query.common.filter.time = range);
    let split = of(&|query| query.common.threads = Some(ThreadSplit::Each));
    let waits = of(&|query| query.common.metric = Some(Metric::OFF_CPU));
    let mut cases = vec![
        ("filter", &filtered),
        ("invert", &inverted),
        ("time range", &middle),
        ("split by thread", &split),
        ("undo", &query),
    ];
    if recording.profile.events.len() > 1 {
        cases.push(("waits", &waits));
    }
    for (name, changed) in cases {
        group.bench_function(name, |bencher| {
            bencher.iter(|| draw(&mut screen, &app_with(&picture(recording, changed))));
        });
    }
    group.bench_function("timeline", |bencher| {
        bencher.iter(|| black_box(Timeline::new(recording, &query.common, 960, 0).is_ok()));
    });
    group.finish();
}

fn with_waits_or_many_threads(criterion: &mut Criterion) {
    let running = steady::recording(1_000_000, 6_500).profile.clone();
    let waiting = steady::with_waits(running, 1_000_000, 10_000);
    let waiting = Arc::new(Analysis::new(waiting, Integrity::default()));
    pictures(criterion, "tui 1M and 1M waits", &waiting);
    pictures(
        criterion,
        "tui 1M of 5,000 threads",
        &Arc::new(steady::recording_of_threads(1_000_000, 6_500, 5_000)),
    );
}

criterion_group!(benches, tui, with_waits_or_many_threads);
criterion_main!(benches);
