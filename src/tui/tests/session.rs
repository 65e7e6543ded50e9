//! A session for tests of views: every view at several sizes, with and without colours.

use crate::report::{Analysis, CommonOptions, Metric};
use crate::tui::app::action::{Action, Tab};
use crate::tui::app::query::Query;
use crate::tui::app::state::App;
use crate::tui::compute::picture::Picture;
use crate::tui::screen;
use crate::tui::widgets::theme::{ColorDepth, Theme};
use ratatui::Terminal;
use ratatui::backend::TestBackend;
use ratatui::buffer::Buffer;
use ratatui::layout::Size;
use ratatui::style::{Color, Modifier};
use std::sync::Arc;

pub(super) const SIZES: [(u16, u16); 3] = [(80, 24), (120, 40), (40, 10)];

pub(crate) fn theme(depth: ColorDepth, is_ascii: bool) -> Theme {
    Theme { depth, ..Theme::plain(is_ascii) }
}

/// An app without a terminal, whose pictures are computed at once.
pub(crate) struct Session {
    pub(crate) app: App,
    pub(crate) recording: Arc<Analysis>,
}

impl Session {
    pub(crate) fn new(recording: Analysis, metric: Option<Metric>, tab: Tab) -> Self {
        let common = CommonOptions { metric, ..CommonOptions::default() };
        let app = App::new(Query::new(common), Size::new(80, 24));
        let mut session = Session { app, recording: Arc::new(recording) };
        session.picture();
        session.press(&[Action::Open(tab)]);
        session
    }

    pub(crate) fn picture(&mut self) {
        let before = self.app.context.picture.clone();
        let picture = Picture::after(&self.recording, &self.app.context.query, before.as_deref());
        self.app.set_picture(Arc::new(picture.unwrap()));
        self.app.take_effects();
    }

    pub(crate) fn press(&mut self, actions: &[Action]) -> &mut Self {
        for action in actions {
            self.app.update(action);
            if self.app.context.picture.as_ref().is_none_or(|picture| picture.query != self.app.context.query)
            {
                self.picture();
            }
        }
        self
    }

    pub(crate) fn buffer(&mut self, (columns, rows): (u16, u16), theme: &Theme) -> Buffer {
        self.app.context.size = Size::new(columns, rows);
        let mut terminal = Terminal::new(TestBackend::new(columns, rows)).unwrap();
        terminal.draw(|frame| screen::draw(frame, &self.app, theme)).unwrap();
        terminal.backend().buffer().clone()
    }

    pub(crate) fn lines(&mut self, size: (u16, u16), theme: &Theme) -> Vec<String> {
        let buffer = self.buffer(size, theme);
        let columns = usize::from(buffer.area.width);
        let cells: Vec<&str> = buffer.content.iter().map(|cell| cell.symbol()).collect();
        cells.chunks(columns).map(|row| row.concat().trim_end().to_owned()).collect()
    }

    /// The screen at all sizes: as text, with the modifiers used without colours, and in ASCII.
    pub(crate) fn snapshot(&mut self) -> String {
        let mut out = String::new();
        for size in SIZES {
            let unicode = self.lines(size, &theme(ColorDepth::True, false));
            let plain = theme(ColorDepth::None, false);
            assert_eq!(self.lines(size, &plain), unicode, "colours change no text");
            let ascii = self.lines(size, &theme(ColorDepth::Basic, true));
            assert!(ascii.iter().all(|line| line.is_ascii()), "{ascii:#?}");
            let modifiers = modifiers(&self.buffer(size, &plain));
            for (what, lines) in [("", unicode), (" without colour", modifiers), (" in ASCII", ascii)] {
                out.push_str(&format!("{}x{}{what}\n{}\n\n", size.0, size.1, lines.join("\n")));
            }
        }
        out
    }

    pub(crate) fn text(&mut self) -> String {
        self.lines((80, 24), &theme(ColorDepth::True, false)).join("\n")
    }
}

/// A letter for the style of each cell without colours.
fn modifiers(buffer: &Buffer) -> Vec<String> {
    let letter = |cell: &ratatui::buffer::Cell| {
        assert_eq!((cell.fg, cell.bg), (Color::Reset, Color::Reset), "a colour");
        let has = |modifier| cell.modifier.contains(modifier);
        match (has(Modifier::REVERSED), has(Modifier::BOLD), has(Modifier::UNDERLINED)) {
            (true, _, true) => 'U',
            (true, true, false) => 'R',
            (true, false, false) => 'r',
            (false, _, true) => 'u',
            (false, true, false) => 'b',
            (false, false, false) => '.',
        }
    };
    let columns = usize::from(buffer.area.width);
    let rows = buffer.content.chunks(columns).map(|row| row.iter().map(letter).collect::<String>());
    rows.map(|row| row.trim_end_matches('.').to_owned()).collect()
}

pub(crate) fn function(app: &App) -> String {
    let picture = app.context.picture.as_ref().unwrap();
    app.selected().last().map_or(String::new(), |label| picture.labels.get(*label).name.clone())
}
