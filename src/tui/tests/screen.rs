//! A test screen: an app with its picture, rendered into memory and read back as text.

use crate::report::tests::fixture::ingest;
use crate::report::{Analysis, CommonOptions};
use crate::tui::app::action::{Action, Effect};
use crate::tui::app::query::Query;
use crate::tui::app::state::App;
use crate::tui::compute::export::ScreenExport;
use crate::tui::compute::picture::Picture;
use crate::tui::screen;
use crate::tui::terminal::translator::Translator;
use crate::tui::widgets::theme::{ColorDepth, Glyphs, Theme};
use crossterm::event::{Event, KeyCode, KeyEvent, KeyModifiers};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::Size;
use ratatui::style::Modifier;
use std::sync::Arc;
use std::time::Instant;

pub(crate) const COLORS: Theme = Theme { depth: ColorDepth::True, is_light: false, glyphs: Glyphs::UNICODE };
pub(crate) const PLAIN: Theme = Theme { depth: ColorDepth::None, ..COLORS };
pub(crate) const ASCII: Theme = Theme { depth: ColorDepth::None, is_light: false, glyphs: Glyphs::ASCII };

/// An app whose pictures are computed at once.
pub(crate) struct TestScreen {
    pub(crate) app: App,
    pub(crate) recording: Arc<Analysis>,
    /// The side effects that were requested, except for pictures.
    pub(crate) effects: Vec<Effect>,
}

/// The recording of most tests, on 80 by 24 cells.
pub(crate) fn screen() -> TestScreen {
    TestScreen::new(ingest(), 80, 24)
}

impl TestScreen {
    /// Names of the selected stack, root first.
    pub(crate) fn selected(&self) -> Vec<String> {
        self.app.views.flame.selected.path.iter().map(|step| step.label.name().into_owned()).collect()
    }

    /// Names of the path to the zoom, root first.
    pub(crate) fn zoom(&self) -> Vec<String> {
        self.app.views.flame.zoom.path.iter().map(|step| step.label.name().into_owned()).collect()
    }

    pub(crate) fn new(recording: Analysis, columns: u16, rows: u16) -> Self {
        TestScreen::with(recording, CommonOptions::default(), columns, rows)
    }

    pub(crate) fn with(recording: Analysis, common: CommonOptions, columns: u16, rows: u16) -> Self {
        let app = App::new(Query::new(common), Size::new(columns, rows));
        let mut screen = TestScreen { app, recording: Arc::new(recording), effects: Vec::new() };
        screen.compute();
        screen
    }

    /// Computes the picture, as the worker does.
    pub(crate) fn compute(&mut self) {
        match Picture::new(&self.recording, &self.app.context.query) {
            Ok(picture) => self.app.set_picture(Arc::new(picture)),
            Err(failure) => self.app.set_problem(&failure),
        }
    }

    pub(crate) fn act(&mut self, action: &Action) {
        self.app.update(action);
        for effect in self.app.take_effects() {
            match effect {
                Effect::Ask => self.compute(),
                other => self.effects.push(other),
            }
        }
    }

    /// Presses `keys`, the last of which exports; returns the text of the file, and what is said of it.
    pub(crate) fn exported(&mut self, keys: &str) -> (String, String) {
        self.effects.clear();
        self.keys(keys);
        let Some(Effect::Export(job, what)) = self.effects.pop() else {
            panic!("{:?}", self.app.context.toast)
        };
        let folder = tempfile::tempdir().unwrap();
        let (path, _) = ScreenExport { stem: folder.path().join("prof"), ..*job }.run().unwrap();
        (std::fs::read_to_string(path).unwrap(), what)
    }

    pub(crate) fn press(&mut self, code: KeyCode, held: KeyModifiers) {
        let event = Event::Key(KeyEvent::new(code, held));
        if let Some(action) = Translator::default().action(&self.app.context, &event, Instant::now()) {
            self.act(&action);
        }
    }

    /// Types characters; `\n` is Enter, `\x1b` is Esc, arrows are the arrow keys.
    pub(crate) fn keys(&mut self, keys: &str) {
        for c in keys.chars() {
            let code = match c {
                '\n' => KeyCode::Enter,
                '\x1b' => KeyCode::Esc,
                '↓' => KeyCode::Down,
                '↑' => KeyCode::Up,
                '→' => KeyCode::Right,
                '←' => KeyCode::Left,
                c => KeyCode::Char(c),
            };
            self.press(code, KeyModifiers::NONE);
        }
    }

    fn buffer(&self, theme: &Theme) -> Buffer {
        let size = self.app.context.size;
        let mut terminal = Terminal::new(TestBackend::new(size.width, size.height)).unwrap();
        terminal.draw(|frame| screen::draw(frame, &self.app, theme)).unwrap();
        terminal.backend().buffer().clone()
    }

    /// The text on the screen.
    pub(crate) fn text(&self, theme: &Theme) -> String {
        let buffer = self.buffer(theme);
        let rows = buffer.area.rows().map(|row| {
            let mut line = String::new();
            let mut taken = 0;
            for cell in row.columns() {
                // The second cell of a wide character is not shown.
                if cell.x >= taken {
                    let symbol = buffer[(cell.x, cell.y)].symbol();
                    taken = cell.x + crate::base::safe_text::width(symbol).max(1) as u16;
                    line.push_str(symbol);
                }
            }
            line.trim_end().to_owned() + "\n"
        });
        rows.collect()
    }

    /// The text on the screen, and a map with a letter for the style of each cell, explained below.
    pub(crate) fn looks(&self, theme: &Theme) -> String {
        let buffer = self.buffer(theme);
        let mut known: Vec<String> = Vec::new();
        let mut map = String::new();
        for row in buffer.area.rows() {
            let mut line = String::new();
            for cell in row.columns() {
                let style = buffer[(cell.x, cell.y)].style();
                let modifiers = style.add_modifier & !Modifier::empty();
                let look = format!("{:?} on {:?} {modifiers:?}", style.fg, style.bg).replace("Some", "");
                let at = known.iter().position(|one| *one == look).unwrap_or_else(|| {
                    known.push(look);
                    known.len() - 1
                });
                line.push(if at == 0 { ' ' } else { char::from(b'a' + (at as u8 - 1) % 26) });
            }
            map.push_str(line.trim_end());
            map.push('\n');
        }
        let legend: String = (known.iter().enumerate().skip(1))
            .map(|(at, look)| format!("{} = {look}\n", char::from(b'a' + (at as u8 - 1) % 26)))
            .collect();
        format!("{}\n{map}\n{legend}", self.text(theme))
    }
}
