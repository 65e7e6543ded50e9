//! The terminal interface on 1,000,000 samples and some 100,000 nodes of a call tree: from a recording to the first
//! screen, from a key to the next screen, and the pictures after a filter and after divergence_depth the tree round.

mod steady;

use criterion::{BatchSize, Criterion, criterion_group, criterion_main};
use prof::internals::profile::Integrity;
use prof::internals::report::{Analysis, CommonOptions, Direction, TimeRange};
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

    let mut focused = query.clone();
    focused.common.filter.focus = Some("7".to_owned());
    let mut inverted = query.clone();
    inverted.direction = Direction::BottomUp;
    let mut middle = query.clone();
    let second = 1_000_000_000;
    middle.common.filter.time = TimeRange { from_ns: Some(100 * second), to_ns: Some(900 * second) };
    for (name, changed) in
        [("filter", &focused), ("invert", &inverted), ("time range", &middle), ("undo", &query)]
    {
        group.bench_function(name, |bencher| {
            bencher.iter(|| draw(&mut screen, &app_with(&picture(&recording, changed))));
        });
    }
    group.finish();
}

criterion_group!(benches, tui);
criterion_main!(benches);
