//! Colours and characters. Colour shows the kind of code; it is never the only sign of anything.
//!
//! The palette is distinguishable for colour-blind users (Okabe and Ito). Everything around the views uses the
//! terminal's own colours.

use super::palette::{Hue, is_bright, rgb_color, shaded, text_on};
use crate::base::safe_text;
use crate::diff::Tone;
use crate::profile::Reason;
use crate::report::{ColorWhen, LabelKind, TimelineState};
use ratatui::style::{Color, Modifier, Style};
use std::time::Duration;

/// Background colour of a search match.
const MATCH: [u8; 3] = [0xe6, 0x00, 0xe6];

/// Longest wait for the terminal to report its background.
const BACKGROUND_LIMIT: Duration = Duration::from_millis(100);

/// Number of colours of the terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ColorDepth {
    /// 24-bit RGB.
    True,
    /// The 256 colours of xterm.
    Indexed,
    /// The 16 colours of the user's palette.
    Basic,
    /// No colours.
    None,
}

impl ColorDepth {
    /// Chooses the depth by `when` and the environment variables.
    pub(crate) fn of_environment(when: ColorWhen, variable: impl Fn(&str) -> Option<String>) -> Self {
        let is_set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
        let term = variable("TERM").unwrap_or_default();
        let is_plain = is_set("NO_COLOR") || term == "dumb";
        match when {
            ColorWhen::Never => return ColorDepth::None,
            ColorWhen::Auto if is_plain => return ColorDepth::None,
            ColorWhen::Auto | ColorWhen::Always => {}
        }
        let colorterm = variable("COLORTERM").unwrap_or_default();
        if matches!(colorterm.as_str(), "truecolor" | "24bit") || term.ends_with("-direct") {
            ColorDepth::True
        } else if term.contains("256") {
            ColorDepth::Indexed
        } else {
            ColorDepth::Basic
        }
    }
}

/// Characters that some terminals cannot show.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Glyphs {
    /// The left edge of a box.
    pub(crate) edge: &'static str,
    /// Replaces cut text.
    pub(crate) ellipsis: &'static str,
    /// Horizontal line.
    pub(crate) rule: &'static str,
    /// Bars of rising height, the first empty.
    pub(crate) bars: [&'static str; 9],
    /// Shades of rising darkness, the first empty.
    pub(crate) shades: [&'static str; 5],
    /// Mark of blocked time.
    pub(crate) dot: &'static str,
    /// Marks of threads that want a CPU, a lock or I/O: none of them is a bar.
    pub(crate) states: [&'static str; 3],
    /// Separator between the steps of a path.
    pub(crate) step: &'static str,
    /// Plus-minus sign.
    pub(crate) plus_minus: &'static str,
    /// Sign in front of a count.
    pub(crate) times: &'static str,
    /// Separator between facts.
    pub(crate) separator: &'static str,
    /// Mark of the pivot function.
    pub(crate) pivot: &'static str,
    /// Corners and sides of a frame: top left, top right, bottom left, bottom right, side.
    pub(crate) frame: [&'static str; 5],
}

impl Glyphs {
    /// Characters of terminals that show Unicode.
    pub const UNICODE: Glyphs = Glyphs {
        edge: "▏",
        ellipsis: "…",
        rule: "─",
        bars: [" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"],
        shades: [" ", "░", "▒", "▓", "█"],
        dot: "·",
        states: ["▓", "▒", "░"],
        step: " › ",
        plus_minus: "±",
        times: "×",
        separator: " · ",
        pivot: "█",
        frame: ["┌", "┐", "└", "┘", "│"],
    };

    /// Characters of all other terminals.
    pub(crate) const ASCII: Glyphs = Glyphs {
        edge: "|",
        ellipsis: "..",
        rule: "-",
        bars: [" ", ".", ":", "-", "=", "+", "*", "#", "#"],
        shades: [" ", ".", ":", "+", "#"],
        dot: "~",
        states: ["C", "L", "I"],
        step: " > ",
        plus_minus: "+-",
        times: "x",
        separator: ", ",
        pivot: "#",
        frame: ["+", "+", "+", "+", "|"],
    };
}

/// Colours and characters of the interface.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Theme {
    /// Number of colours.
    pub depth: ColorDepth,
    /// Whether the background is light, with dark text.
    pub is_light: bool,
    /// Characters that the terminal can show.
    pub glyphs: Glyphs,
}

impl Theme {
    /// Without colours.
    pub(crate) fn plain(is_ascii: bool) -> Self {
        let glyphs = if is_ascii { Glyphs::ASCII } else { Glyphs::UNICODE };
        Theme { depth: ColorDepth::None, is_light: false, glyphs }
    }

    /// Looks at the environment, and asks the terminal for its background. Before anything else reads from it.
    pub(crate) fn of_terminal(color: ColorWhen, ascii: bool) -> Self {
        let variable = |name: &str| std::env::var(name).ok();
        let depth = ColorDepth::of_environment(color, variable);
        let glyphs =
            if ascii || !safe_text::is_utf8_locale(variable) { Glyphs::ASCII } else { Glyphs::UNICODE };
        let is_light = depth != ColorDepth::None && is_light(background(), variable("COLORFGBG").as_deref());
        Theme { depth, is_light, glyphs }
    }

    /// Whether only ASCII characters are shown.
    pub(crate) fn is_ascii(&self) -> bool {
        self.glyphs.edge == Glyphs::ASCII.edge
    }

    /// `text`, which must be safe, in at most `columns` columns and in characters that the terminal can show.
    pub(crate) fn fit(&self, text: &str, columns: usize) -> String {
        if !self.is_ascii() {
            return safe_text::fit_tail(text, columns).into_owned();
        }
        let text = self.in_ascii(text);
        if text.len() <= columns {
            return text;
        }
        let mark = &self.glyphs.ellipsis[..self.glyphs.ellipsis.len().min(columns)];
        format!("{}{mark}", &text[..columns - mark.len()])
    }

    /// The same, but cut at the start: the end of a source location says more.
    pub(crate) fn fit_end(&self, text: &str, columns: usize) -> String {
        if !self.is_ascii() {
            return safe_text::fit_end(text, columns).into_owned();
        }
        let text = self.in_ascii(text);
        if text.len() <= columns {
            return text;
        }
        let mark = &self.glyphs.ellipsis[..self.glyphs.ellipsis.len().min(columns)];
        format!("{mark}{}", &text[text.len() - (columns - mark.len())..])
    }

    fn in_ascii(&self, text: &str) -> String {
        text.chars().fold(String::new(), |mut out, c| {
            match c {
                '…' => out.push_str(self.glyphs.ellipsis),
                '±' => out.push_str(self.glyphs.plus_minus),
                '×' => out.push_str(self.glyphs.times),
                c if c.is_ascii() => out.push(c),
                // By code point, so that different names stay different.
                c => out.push_str(&safe_text::in_ascii(c.encode_utf8(&mut [0; 4]))),
            }
            out
        })
    }

    /// Style of a box of this kind; `name` sets the lightness.
    pub(crate) fn kind(&self, kind: LabelKind, is_waiting: bool, name: &str) -> Style {
        self.filled(Hue::of(kind, is_waiting), Some(name))
    }

    /// Style of a box that has changed so much.
    pub(crate) fn tone(&self, tone: Tone) -> Style {
        self.filled(Hue::of_tone(tone), None)
    }

    /// Style of text about such a change.
    pub(crate) fn changed(&self, tone: Tone) -> Style {
        match (tone, self.depth) {
            (Tone::Noise, _) => self.faint(),
            (_, ColorDepth::None) => self.heading(),
            (Tone::New, _) => Style::new().fg(Color::Magenta),
            (Tone::MuchLess | Tone::Less | Tone::LittleLess, _) => Style::new().fg(Color::LightBlue),
            (Tone::LittleMore | Tone::More | Tone::MuchMore, _) => Style::new().fg(Color::LightRed),
        }
    }

    /// A box in this colour, with a lightness that `name` sets.
    fn filled(&self, hue: Hue, name: Option<&str>) -> Style {
        match self.depth {
            ColorDepth::None => Style::new(),
            ColorDepth::Basic => Style::new().bg(hue.basic).fg(hue.basic_text),
            ColorDepth::Indexed => {
                Style::new().bg(Color::Indexed(hue.indexed)).fg(Color::Indexed(hue.indexed_text()))
            }
            ColorDepth::True => {
                let rgb = name.map_or(hue.rgb, |name| shaded(hue.rgb, name));
                Style::new().bg(rgb_color(rgb)).fg(text_on(rgb))
            }
        }
    }

    /// Style of the selection: `style` inverted; on a dark background black on white, since an inverted box would look
    /// like a hole in the picture.
    pub(crate) fn selected(&self, style: Style) -> Style {
        let (white, black) = match self.depth {
            ColorDepth::None => return style.add_modifier(Modifier::REVERSED | Modifier::BOLD),
            _ if self.is_light => return style.add_modifier(Modifier::REVERSED | Modifier::BOLD),
            ColorDepth::Basic => (Color::White, Color::Black),
            ColorDepth::Indexed => (Color::Indexed(231), Color::Indexed(16)),
            ColorDepth::True => (Color::Rgb(0xff, 0xff, 0xff), Color::Rgb(0, 0, 0)),
        };
        style.bg(white).fg(black).add_modifier(Modifier::BOLD)
    }

    /// Style of a search match.
    pub(crate) fn matched(&self, style: Style) -> Style {
        let style = style.add_modifier(Modifier::UNDERLINED);
        match self.depth {
            ColorDepth::True => style.bg(rgb_color(MATCH)).fg(text_on(MATCH)),
            ColorDepth::Indexed => style.bg(Color::Indexed(201)).fg(Color::Indexed(16)),
            ColorDepth::Basic => style.bg(Color::Magenta).fg(Color::White),
            ColorDepth::None => style.add_modifier(Modifier::BOLD),
        }
    }

    /// Style of headings and the open tab.
    pub(crate) fn heading(&self) -> Style {
        Style::new().add_modifier(Modifier::BOLD)
    }

    /// Style of what matters less.
    pub(crate) fn faint(&self) -> Style {
        if self.depth == ColorDepth::None { Style::new() } else { Style::new().add_modifier(Modifier::DIM) }
    }

    /// Style of warnings and notes.
    pub(crate) fn note(&self) -> Style {
        match (self.depth, self.is_light) {
            (ColorDepth::None, _) => Style::new().add_modifier(Modifier::BOLD),
            (ColorDepth::True, true) => {
                Style::new().fg(Color::Rgb(0x8a, 0x5a, 0x00)).add_modifier(Modifier::BOLD)
            }
            (ColorDepth::Indexed, true) => Style::new().fg(Color::Indexed(94)).add_modifier(Modifier::BOLD),
            (ColorDepth::Basic, true) => Style::new().fg(Color::Red).add_modifier(Modifier::BOLD),
            (_, false) => Style::new().fg(Color::Yellow).add_modifier(Modifier::BOLD),
        }
    }

    /// Style of what one must not miss: what is seen is old.
    pub(crate) fn alarm(&self) -> Style {
        let red = match (self.depth, self.is_light) {
            (ColorDepth::None, _) => {
                return Style::new().add_modifier(Modifier::REVERSED | Modifier::BOLD);
            }
            (ColorDepth::True, false) => Color::Rgb(0xff, 0x6b, 0x6b),
            (ColorDepth::True, true) => Color::Rgb(0xb2, 0x18, 0x2b),
            (ColorDepth::Indexed, false) => Color::Indexed(203),
            (ColorDepth::Indexed, true) => Color::Indexed(124),
            (ColorDepth::Basic, false) => Color::LightRed,
            (ColorDepth::Basic, true) => Color::Red,
        };
        Style::new().fg(red).add_modifier(Modifier::BOLD)
    }

    /// Style of a bar or shade of running time.
    pub(crate) fn running(&self) -> Style {
        self.ink(Hue::PROGRAM)
    }

    /// Style of a bar of threads in one state, on the background or on those in another.
    pub(crate) fn state(&self, state: TimelineState, above: Option<TimelineState>) -> Style {
        let style = self.ink(Hue::of_state(state));
        match above.map(|above| self.ink(Hue::of_state(above)).fg) {
            Some(Some(background)) => style.bg(background),
            _ => style,
        }
    }

    /// The character that fills a cell with threads in one state: colour is never the only sign.
    pub(crate) fn state_glyph(&self, state: TimelineState) -> &'static str {
        match state {
            TimelineState::Running | TimelineState::Sampled => self.glyphs.bars[8],
            TimelineState::NoCpu => self.glyphs.states[0],
            TimelineState::Blocked(Reason::Lock | Reason::Gil) => self.glyphs.states[1],
            TimelineState::Blocked(reason) if reason.is_io() => self.glyphs.states[2],
            TimelineState::Blocked(_) | TimelineState::Idle => self.glyphs.dot,
        }
    }

    fn ink(&self, hue: Hue) -> Style {
        match self.depth {
            ColorDepth::None => Style::new(),
            ColorDepth::Basic => Style::new().fg(hue.basic),
            ColorDepth::Indexed => Style::new().fg(Color::Indexed(hue.indexed)),
            ColorDepth::True => Style::new().fg(rgb_color(hue.rgb)),
        }
    }
}

/// Background that the terminal reports (OSC 11), if it does.
fn background() -> Option<[u8; 3]> {
    let mut options = terminal_colorsaurus::QueryOptions::default();
    options.timeout = BACKGROUND_LIMIT;
    let (r, g, b) = terminal_colorsaurus::background_color(options).ok()?.scale_to_8bit();
    Some([r, g, b])
}

/// Whether a background is light. Where the terminal did not answer, the last field of the variable COLORFGBG may say
/// which of the 16 colours it is. The default is dark, since most terminals are.
fn is_light(background: Option<[u8; 3]>, colorfgbg: Option<&str>) -> bool {
    if let Some(rgb) = background {
        return is_bright(rgb);
    }
    let index = colorfgbg.and_then(|value| value.rsplit(';').next()?.parse::<u8>().ok());
    matches!(index, Some(7 | 9..=15))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::tui::widgets::palette::{LEAST_CONTRAST, indexed_rgb, luminance};

    fn depth(when: ColorWhen, set: &[(&str, &str)]) -> ColorDepth {
        ColorDepth::of_environment(when, |name| {
            set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
        })
    }

    #[test]
    fn the_environment_says_how_many_colours() {
        let auto = ColorWhen::Auto;
        assert_eq!(depth(auto, &[("TERM", "xterm-256color"), ("COLORTERM", "truecolor")]), ColorDepth::True);
        assert_eq!(depth(auto, &[("TERM", "screen-256color")]), ColorDepth::Indexed);
        assert_eq!(depth(auto, &[("TERM", "linux")]), ColorDepth::Basic);
        assert_eq!(depth(auto, &[("TERM", "xterm-256color"), ("NO_COLOR", "1")]), ColorDepth::None);
        assert_eq!(depth(auto, &[("TERM", "xterm-256color"), ("NO_COLOR", "")]), ColorDepth::Indexed);
        assert_eq!(depth(ColorWhen::Always, &[("TERM", "xterm"), ("NO_COLOR", "1")]), ColorDepth::Basic);
        assert_eq!(depth(ColorWhen::Never, &[("COLORTERM", "24bit")]), ColorDepth::None);
    }

    /// Detail 24 of the promises: colours work on every terminal.
    #[test]
    fn text_is_readable_on_every_shade_of_every_kind() {
        let kinds = [
            LabelKind::Program,
            LabelKind::Library,
            LabelKind::Kernel,
            LabelKind::Jit,
            LabelKind::Interpreted,
            LabelKind::Task,
            LabelKind::Wait(Reason::Lock),
            LabelKind::Wait(Reason::Disk),
            LabelKind::Wait(Reason::NoCpu),
            LabelKind::Wait(Reason::Sleep),
        ];
        for kind in kinds {
            for is_waiting in [false, true] {
                for is_light in [false, true] {
                    for name in 0..400 {
                        let name = format!("f{name}");
                        for depth in [ColorDepth::True, ColorDepth::Indexed] {
                            let theme = Theme { depth, is_light, glyphs: Glyphs::UNICODE };
                            let style = theme.kind(kind, is_waiting, &name);
                            for style in [style, theme.selected(style), theme.matched(style)] {
                                let found = contrast_of(style);
                                assert!(
                                    found >= LEAST_CONTRAST,
                                    "{kind:?} {is_waiting} {depth:?}: {found:.2}"
                                );
                            }
                        }
                    }
                }
            }
        }
    }

    /// Contrast of a box with the text on it. Both are our own colours, so the terminal's background does not matter.
    fn contrast_of(style: Style) -> f64 {
        let rgb = |color: Option<Color>| match color {
            Some(Color::Rgb(r, g, b)) => [r, g, b],
            Some(Color::Indexed(index)) => indexed_rgb(index),
            other => panic!("{other:?} is not ours"),
        };
        let (a, b) = (luminance(rgb(style.fg)) + 0.05, luminance(rgb(style.bg)) + 0.05);
        f64::max(a, b) / f64::min(a, b)
    }

    #[test]
    fn what_stands_on_the_background_can_be_read_on_it() {
        for (is_light, background) in
            [(false, [0x1e; 3]), (false, [0; 3]), (true, [0xff; 3]), (true, [0xfd, 0xf6, 0xe3])]
        {
            for depth in [ColorDepth::True, ColorDepth::Indexed] {
                let theme = Theme { depth, is_light, glyphs: Glyphs::UNICODE };
                // Everything around the views uses the terminal's own colours, except for notes and alarms.
                for style in [theme.heading(), theme.faint()] {
                    assert_eq!((style.fg, style.bg), (None, None));
                }
                let [r, g, b] = background;
                for style in [theme.note(), theme.alarm()] {
                    if style.fg != Some(Color::Yellow) {
                        let found = contrast_of(style.bg(Color::Rgb(r, g, b)));
                        assert!(found >= LEAST_CONTRAST, "{is_light} {depth:?}: {found:.2}");
                    }
                }
            }
        }
    }

    /// Detail 24 of the promises: colours work on every terminal.
    #[test]
    fn the_background_says_whether_it_is_light() {
        for (answer, light) in [
            ([0x00, 0x00, 0x00], false),
            ([0x1e, 0x1e, 0x1e], false),
            // Solarized dark and light.
            ([0x00, 0x2b, 0x36], false),
            ([0xfd, 0xf6, 0xe3], true),
            ([0xff, 0xff, 0xff], true),
        ] {
            assert_eq!(is_light(Some(answer), None), light, "{answer:x?}");
            // The answer of the terminal takes precedence over the environment variable.
            assert_eq!(is_light(Some(answer), Some("0;15")), light);
            assert_eq!(is_light(Some(answer), Some("15;0")), light);
        }
        for (variable, light) in [
            ("0;15", true),
            ("0;default;15", true),
            ("0;7", true),
            ("15;0", false),
            ("12;8", false),
            ("15;default", false),
            ("", false),
            ("15;300", false),
        ] {
            assert_eq!(is_light(None, Some(variable)), light, "{variable}");
        }
        assert!(!is_light(None, None));
    }

    #[test]
    fn only_utf8_locales_show_utf8() {
        let locale = |set: &[(&str, &str)]| {
            safe_text::is_utf8_locale(|name| {
                set.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned())
            })
        };
        assert!(locale(&[("LANG", "en_US.UTF-8")]));
        assert!(locale(&[("LC_ALL", ""), ("LC_CTYPE", "C.utf8")]));
        assert!(!locale(&[("LC_ALL", "C"), ("LANG", "en_US.UTF-8")]));
        assert!(!locale(&[]));
    }
}
