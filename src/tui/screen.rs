//! The whole screen: tabs, the open view, details, key hints, and what else is around them. Changes nothing, does no I/O.

use super::app::context::Context;
use super::app::state::App;
use super::widgets::areas::{Areas, SMALLEST};
use super::widgets::line::{Below, both_ends, fitting};
use super::widgets::theme::Theme;
use super::widgets::{change_line, chips, header, help, last_lines};
use crate::base::failure::Failure;
use crate::base::safe_text;
use crate::base::units::{counted, duration, honest_percent_text, percent};
use crate::profile::RuntimeFrames;
use crate::report::{FilterPart, Space, ThreadSplit, TimeRange, filter_parts};
use crate::tui::app::action::Tab;
use crate::tui::app::diff_base::range_words;
use crate::tui::app::key;
use crate::tui::app::query::Window;
use crate::tui::compute::picture::Picture;
use ratatui::Frame;
use ratatui::layout::{Position, Rect};
use ratatui::text::{Line, Span};

/// Draws everything.
pub fn draw(frame: &mut Frame<'_>, app: &App, theme: &Theme) {
    let context = &app.context;
    let screen = frame.area();
    let Some(areas) = Areas::of(screen) else {
        let (columns, rows) = SMALLEST;
        frame.render_widget(
            Line::from(format!("need {columns}x{rows}")),
            Rect { height: screen.height.min(1), ..screen },
        );
        return;
    };
    let columns = usize::from(screen.width);
    frame.render_widget(rule(app, areas, theme, columns), areas.rule);
    match &context.picture {
        Some(picture) => draw_picture(frame, areas, app, picture, theme),
        None => draw_before_the_first(frame, areas, context, theme),
    }
    if let Some(keys) = areas.keys {
        frame.render_widget(hints(context, theme, columns), keys);
    }
    last_lines::draw(frame, context, theme);
    if let Some(overlay) = context.overlay {
        help::draw(frame, app.view(context.tab).help(), context, theme, overlay);
    }
}

/// The line below the view, with the filters, and how many rows of it are not on the screen.
fn rule(app: &App, areas: Areas, theme: &Theme, columns: usize) -> Line<'static> {
    let context = &app.context;
    let rule = |columns: usize| Span::styled(theme.glyphs.rule.repeat(columns), theme.faint());
    let mut spans = Vec::new();
    let mut at = 0;
    for chip in chips::chips(&context.query, columns, theme) {
        spans.push(rule(chip.columns.start - at));
        at = chip.columns.end;
        spans.push(Span::styled(chip.text, theme.heading()));
    }
    let picture = context.picture.as_ref().filter(|picture| picture.empty.is_none());
    let hidden =
        picture.map_or((0, 0), |picture| app.view(context.tab).hidden_rows(context, picture, areas.body));
    let words = hidden_words(hidden);
    let room = columns.saturating_sub(at);
    match room.checked_sub(words.len() + 2).filter(|_| !words.is_empty()) {
        Some(left) => {
            spans.extend([rule(left), Span::styled(words, theme.faint()), rule(2)]);
        }
        None => spans.push(rule(room)),
    }
    Line::from(spans)
}

/// Returns the words for the numbers of rows above and below those on the screen.
fn hidden_words((above, below): (u32, u32)) -> String {
    match (above, below) {
        (0, 0) => String::new(),
        (above, 0) => format!(" {} above ", counted(above.into(), "row")),
        (0, below) => format!(" {} below ", counted(below.into(), "row")),
        (above, below) => format!(" {} above, {below} below ", counted(above.into(), "row")),
    }
}

fn draw_picture(frame: &mut Frame<'_>, areas: Areas, app: &App, picture: &Picture, theme: &Theme) {
    let context = &app.context;
    let columns = usize::from(areas.header.width);
    frame.render_widget(header::header(context, picture, theme, columns), areas.header);
    if let Some(tabs) = areas.tabs {
        frame.render_widget(tab_line(app, picture, theme, columns), tabs);
    }
    match &picture.empty {
        Some(_) if app.view(context.tab).shows_without_samples(picture) => {
            draw_view(frame, areas, app, picture, theme);
        }
        Some(failure) => draw_nothing(frame, areas.body, context, picture, theme, failure),
        None => draw_view(frame, areas, app, picture, theme),
    }
}

/// Draws the message before the first picture, or why there is none.
fn draw_before_the_first(frame: &mut Frame<'_>, areas: Areas, context: &Context, theme: &Theme) {
    let Some(failure) = &context.problem else {
        let what = if context.is_live() {
            " prof  recording; waiting for the first picture"
        } else {
            " prof  reading the profile"
        };
        frame.render_widget(Line::from(what).style(theme.faint()), areas.header);
        return;
    };
    frame.render_widget(Line::from(" prof  nothing to show").style(theme.heading()), areas.header);
    let columns = usize::from(areas.body.width).saturating_sub(1);
    let texts = std::iter::once(&failure.message).chain(&failure.hints);
    let lines = texts.flat_map(|text| safe_text::wrapped(&safe_text::message(text), columns));
    for (line, y) in lines.zip(areas.body.y..areas.body.bottom()) {
        let line = Line::from(format!(" {}", theme.fit(&line, columns)));
        frame.render_widget(line, Rect { y, height: 1, ..areas.body });
    }
}

/// Draws why there is nothing to show, and the key that undoes that.
fn draw_nothing(
    frame: &mut Frame<'_>,
    area: Rect,
    context: &Context,
    picture: &Picture,
    theme: &Theme,
    failure: &Failure,
) {
    let columns = usize::from(area.width).saturating_sub(1);
    let mut lines = safe_text::wrapped(&safe_text::message(&failure.message), columns);
    if !context.undo.is_empty() {
        lines.push("u undoes the last filter".to_owned());
    } else if picture.metrics.len() > 1 {
        lines.push("m shows another metric".to_owned());
    }
    for (line, y) in lines.iter().zip(area.y..area.bottom()) {
        let line = Line::from(format!(" {}", theme.fit(line, columns)));
        frame.render_widget(line, Rect { y, height: 1, ..area });
    }
}

fn draw_view(frame: &mut Frame<'_>, areas: Areas, app: &App, picture: &Picture, theme: &Theme) {
    let context = &app.context;
    let body = areas.body;
    let view = app.view(context.tab);
    view.draw(frame, body, context, picture, theme);
    let below = Below { theme, columns: body.width.into(), lines: areas.details.height.into() };
    let details = view.details(context, picture, below);
    for (line, y) in details.into_iter().take(below.lines).zip(areas.details.y..) {
        frame.render_widget(line, Rect { y, height: 1, ..areas.details });
    }
}

/// The texts of the tabs: when not all names fit, the name of the open tab and the digits of the others.
fn tab_texts(context: &Context, columns: usize) -> Vec<(Tab, String)> {
    let (open, tabs) = (context.tab, context.tabs());
    let text = |tab: Tab, is_named: bool| {
        let name = if is_named { format!("{} {}", tab.digit(), tab.name()) } else { tab.digit().to_string() };
        (tab, if tab == open { format!("[{name}]") } else { format!(" {name} ") })
    };
    let all: Vec<_> = tabs.iter().map(|tab| text(*tab, true)).collect();
    if all.iter().map(|(_, text)| text.len()).sum::<usize>() < columns {
        return all;
    }
    tabs.iter().map(|tab| text(*tab, *tab == open)).collect()
}

/// The tab at a position in the line of tabs.
pub(crate) fn tab_at(tabs: Rect, context: &Context, at: Position) -> Option<Tab> {
    if !tabs.contains(at) {
        return None;
    }
    let mut x = usize::from(tabs.x) + 1;
    tab_texts(context, tabs.width.into()).into_iter().find_map(|(tab, text)| {
        let start = x;
        x += text.len();
        (start..x).contains(&at.x.into()).then_some(tab)
    })
}

fn tab_line(app: &App, picture: &Picture, theme: &Theme, columns: usize) -> Line<'static> {
    let context = &app.context;
    let mut spans = vec![Span::raw(" ")];
    for (tab, text) in tab_texts(context, columns) {
        spans.push(if tab == context.tab { Span::styled(text, theme.heading()) } else { Span::raw(text) });
    }
    let used: usize = spans.iter().map(Span::width).sum();
    let room = columns.saturating_sub(used + 1);
    let right = theme.fit(&state_words(app, picture, room), room);
    both_ends(spans, Span::styled(format!("{right} "), theme.faint()), columns)
}

/// Text on what differs from the default view, the most important last.
fn state_words(app: &App, picture: &Picture, columns: usize) -> String {
    let context = &app.context;
    let query = &picture.query;
    let filter = &query.common.filter;
    let mut parts: Vec<(u8, String)> = Vec::new();
    // Time and the kernel's frames have words of their own.
    let is_counted = |part: FilterPart| !matches!(part, FilterPart::Time | FilterPart::Space);
    let filters = filter_parts(filter).into_iter().filter(|(part, _)| is_counted(*part)).count();
    if filters > 0 {
        let share = honest_percent_text(percent(picture.total.weight, picture.whole.weight));
        parts.push((0, format!("{} {share}", counted(filters as u64, "filter"))));
    }
    if let Some(change) = &picture.change {
        parts.push((0, format!("vs base {}", change_line::in_words(&change.functions.total))));
    }
    if !filter.time.is_everything() {
        let end_ns = filter.time.to_ns.unwrap_or(picture.duration_ns).min(picture.duration_ns);
        let range = TimeRange { to_ns: Some(end_ns), ..filter.time };
        parts.push((0, format!("time {}", range_words(range))));
    } else if context.live.is_some() {
        // That nothing is left out goes first.
        let rank = if query.window == Window::All { 2 } else { 1 };
        parts.push((rank, format!("window {}", query.window.words())));
    }
    if picture.to_name_percent >= 1.0 {
        parts.push((0, "reading names".to_owned()));
    }
    if let Some(until_ns) = picture.rollup_until_ns {
        parts.push((1, format!("rollup before {:.0} s", until_ns as f64 / 1e9)));
    }
    let idle_ns = picture.totals.as_ref().map_or(0, |totals| totals.times.idle_ns());
    if filter.idle {
        parts.push((1, if query.common.idle_is_gone { "without idle" } else { "with idle" }.to_owned()));
    } else if picture.event.has_waits && idle_ns > 0 {
        parts.push((1, format!("idle {} hidden", duration(idle_ns))));
    }
    if filter.space == Space::User {
        parts.push((2, "no kernel".to_owned()));
    }
    if !query.common.inline {
        parts.push((2, "no inlined".to_owned()));
    }
    match query.common.runtime {
        Some(RuntimeFrames::Full) => parts.push((2, "whole interpreter".to_owned())),
        Some(RuntimeFrames::Off) => parts.push((2, "native only".to_owned())),
        Some(RuntimeFrames::Folded) | None => {}
    }
    match query.threads() {
        ThreadSplit::Each => parts.push((2, "each thread".to_owned())),
        ThreadSplit::None => parts.push((2, "threads merged".to_owned())),
        ThreadSplit::Class | ThreadSplit::Name => {}
    }
    if app.view(context.tab).is_inverted(context) {
        parts.push((1, "inverted".to_owned()));
    }
    let order = app.view(context.tab).order_words(context);
    parts.extend(order.map(|words| (3, words.to_owned())));
    fitting(&parts, "  ", columns).trim_start().to_owned()
}

/// The keys of the line of hints, the most useful first: of those that do not fit, the last go.
const HINTS: [&str; 22] = [
    "Enter", "Esc", "/", "Tab 1-6", "Tab 1-7", "f", "u U", "a", "e", "T", "Spc", "w", "[ ]", "H", "m", "s",
    "i", "x", "K", "v", "q", "?",
];
/// Hints that are always shown.
const LAST_HINTS: [&str; 2] = ["q", "?"];

/// The line of key hints: as many as fit, always with quit and help.
fn hints(context: &Context, theme: &Theme, columns: usize) -> Line<'static> {
    let is_frozen = context.live.as_ref().is_some_and(|live| live.is_frozen);
    let has_filters = !context.undo.is_empty();
    let text = |entry: &key::Entry| match entry.keys {
        "Spc" if is_frozen => "Spc go on".to_owned(),
        "Tab 1-6" => format!("1-6 {}", entry.hint),
        "Tab 1-7" => format!("1-7 {}", entry.hint),
        "u U" => format!("u {}", entry.hint),
        keys => format!("{keys} {}", entry.hint),
    };
    let shown = |keys: &&str| {
        let entry = key::entries(context).find(|entry| entry.keys == *keys && !entry.hint.is_empty())?;
        (entry.keys != "u U" || has_filters).then(|| text(entry))
    };
    let last: Vec<String> = LAST_HINTS.iter().filter_map(shown).collect();
    let last = last.join("  ");
    let mut line = String::new();
    for text in HINTS.iter().filter(|keys| !LAST_HINTS.contains(keys)).filter_map(shown) {
        if 1 + line.len() + text.len() + 2 + last.len() <= columns {
            line.push_str(&text);
            line.push_str("  ");
        }
    }
    Line::from(format!(" {line}{last}")).style(theme.faint())
}
