//! The samples of a cell: a list, and the whole stack of one.

use super::state::{Panel, SampleKey, TimeState};
use crate::base::safe_text;
use crate::base::units::{count, counted, duration, duration_in, weight};
use crate::profile::Unit;
use crate::report::{Activity, LabelKind, NameStyle, SampleAt, SamplesAt, StackStep, module_stem};
use crate::tui::app::action::Action;
use crate::tui::app::context::Context;
use crate::tui::app::search::Search;
use crate::tui::compute::picture::Picture;
use crate::tui::widgets::line::{Below, fitting, place_text};
use crate::tui::widgets::list::ListState;
use crate::tui::widgets::table::{self, PlacedColumns, TableColumn};
use crate::tui::widgets::theme::Theme;
use ratatui::Frame;
use ratatui::layout::Rect;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use rustc_hash::FxHasher;
use std::hash::{Hash, Hasher};

/// Content of a column of the list.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SampleColumn {
    Time,
    Thread,
    What,
    Length,
    Stack,
}

/// Content of a column of the stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum StepId {
    Function,
    Module,
    Source,
}

/// The listed samples, once the picture holds those of the current query.
fn found<'p>(context: &Context, picture: &'p Picture) -> Option<&'p SamplesAt> {
    picture.samples_at.as_ref().filter(|_| picture.query.samples_at == context.query.samples_at)
}

fn selected<'p>(view: &TimeState, samples_at: &'p SamplesAt) -> Option<&'p SampleAt> {
    samples_at.samples.get(view.samples.cursor(samples_at.samples.len()))
}

fn key(samples_at: &SamplesAt, sample: &SampleAt) -> SampleKey {
    let SampleAt { tid, time_ns, bucket_ns, activity, stack, .. } = *sample;
    let mut hasher = FxHasher::default();
    // A single sample is identified by its time alone, so that it is found when functions on its stack have been named
    // since.
    for step in samples_at.stacks.get(stack).into_iter().flatten().filter(|_| bucket_ns > 0) {
        (&step.label.name, step.is_inlined).hash(&mut hasher);
    }
    SampleKey { tid, time_ns, bucket_ns, activity, stack: hasher.finish() }
}

/// Keeps the selected sample in another picture. If it is no longer listed, its stack is closed.
pub(crate) fn follow(view: &mut TimeState, context: &mut Context, picture: &Picture) {
    let Some(samples_at) = found(context, picture) else { return };
    let Some(selected) = view.sample else { return };
    match samples_at.samples.iter().position(|sample| key(samples_at, sample) == selected) {
        Some(at) => view.samples.follow(at),
        None => {
            // The sample under the cursor is another one, which is selected from now on.
            view.sample = self::selected(view, samples_at).map(|sample| key(samples_at, sample));
            if view.panel == Panel::Stack {
                view.panel = Panel::Samples;
                context.show_message("that sample was merged with others, or dropped");
            }
        }
    }
}

/// The stack of the selected sample, innermost function first.
fn steps<'p>(view: &TimeState, samples_at: &'p SamplesAt) -> Vec<&'p StackStep> {
    let stack = selected(view, samples_at).and_then(|sample| samples_at.stacks.get(sample.stack));
    stack.into_iter().flatten().rev().collect()
}

/// Names on the selected stack, innermost first: the whole stack in the list of samples, or from the selected line on
/// in the view of a stack. Foreign text.
pub(crate) fn selected_names(view: &TimeState, context: &Context, picture: &Picture) -> Vec<String> {
    let Some(samples_at) = found(context, picture) else { return Vec::new() };
    let steps = steps(view, samples_at);
    let from = if view.panel == Panel::Stack { view.stack.cursor(steps.len()) } else { 0 };
    steps.iter().skip(from).map(|step| step.label.name.clone()).collect()
}

/// Applies `action`, with the view drawn in `area`; returns false if the action does nothing here.
pub(crate) fn update(
    view: &mut TimeState,
    context: &mut Context,
    action: &Action,
    area: Rect,
    picture: &Picture,
) -> bool {
    if *action == Action::Back {
        if view.panel == Panel::Stack {
            view.panel = Panel::Samples;
        } else {
            view.panel = Panel::Map;
            context.ask(|query| query.samples_at = None);
        }
        return true;
    }
    let Some(samples_at) = found(context, picture) else { return false };
    // The first line is the title.
    let area = below_title(area);
    match action {
        Action::RangeStart | Action::RangeEnd => {
            range_edge(view, context, samples_at, *action == Action::RangeStart)
        }
        Action::Whole => context.clear_range(),
        Action::HeatMap => {
            view.is_heat_map = !view.is_heat_map;
            view.panel = Panel::Map;
            context.ask(|query| query.samples_at = None);
        }
        Action::NextMatch => next_match(view, context, samples_at, area, true),
        Action::PreviousMatch => next_match(view, context, samples_at, area, false),
        _ => {
            let (count, list) = match view.panel {
                Panel::Stack => (steps(view, samples_at).len(), &mut view.stack),
                _ => (samples_at.samples.len(), &mut view.samples),
            };
            match (table::Frame { area, count }.update(list, action), view.panel) {
                (None, _) => return false,
                (Some(table::TableEvent::Opened), Panel::Stack) => pivot(view, context, samples_at),
                (Some(table::TableEvent::Opened), _) => show_stack(view, count),
                (Some(table::TableEvent::Moved | table::TableEvent::Heading(_)), _) => {}
            }
        }
    }
    view.sample = selected(view, samples_at).map(|sample| key(samples_at, sample));
    true
}

/// Whether the search matches a sample: its thread or a function on its stack.
fn is_found(search: &Search, samples_at: &SamplesAt, sample: &SampleAt) -> bool {
    let steps = samples_at.stacks.get(sample.stack).into_iter().flatten();
    search.matches_text(&sample.thread) || steps.into_iter().any(|step| search.matches_label(&step.label))
}

/// Selects the next match: a sample in the list, or a function in the stack.
fn next_match(
    view: &mut TimeState,
    context: &mut Context,
    samples_at: &SamplesAt,
    area: Rect,
    forward: bool,
) {
    let Some(search) = &context.search else {
        context.show_message("search first: /");
        return;
    };
    let is_stack = view.panel == Panel::Stack;
    let found: Vec<bool> = match is_stack {
        true => steps(view, samples_at).iter().map(|step| search.matches_label(&step.label)).collect(),
        false => samples_at.samples.iter().map(|sample| is_found(search, samples_at, sample)).collect(),
    };
    let rows = found.len();
    let list = if is_stack { &mut view.stack } else { &mut view.samples };
    let at = list.cursor(rows);
    let next = match forward {
        true => (at + 1..rows).chain(0..=at).find(|at| found.get(*at) == Some(&true)),
        false => (0..at).rev().chain((at..rows).rev()).find(|at| found.get(*at) == Some(&true)),
    };
    match next {
        Some(next) => list.select(next, rows, table::Frame { area, count: rows }.rows()),
        None => context.show_message("nothing matches in what is listed"),
    }
}

fn show_stack(view: &mut TimeState, samples: usize) {
    if samples > 0 {
        view.panel = Panel::Stack;
        view.stack = ListState::default();
    }
}

/// Shows the callers of the selected function on the stack.
fn pivot(view: &mut TimeState, context: &mut Context, samples_at: &SamplesAt) {
    let steps = steps(view, samples_at);
    let Some(step) = steps.get(view.stack.cursor(steps.len())) else { return };
    if matches!(step.label.kind, LabelKind::Wait(_) | LabelKind::Cut | LabelKind::Nothing) {
        context.show_message("this is not a function");
        return;
    }
    context.callers_of = Some(step.label.key());
}

/// Sets the start or the end of the time range to the selected sample.
fn range_edge(view: &mut TimeState, context: &mut Context, samples_at: &SamplesAt, is_start: bool) {
    let Some(sample) = selected(view, samples_at) else { return };
    let from_ns = sample.time_ns;
    let length_ns = if sample.bucket_ns > 0 { sample.bucket_ns } else { sample.duration_ns.unwrap_or(0) };
    let to_ns = from_ns.saturating_add(length_ns).max(from_ns.saturating_add(1));
    context.change_filter(|options| {
        let time = &mut options.time;
        if is_start {
            time.to_ns = time.to_ns.filter(|to| *to > from_ns);
            time.from_ns = Some(from_ns);
        } else {
            time.from_ns = time.from_ns.filter(|from| *from < to_ns);
            time.to_ns = Some(to_ns);
        }
    });
}

fn below_title(area: Rect) -> Rect {
    Rect { y: area.y + 1, height: area.height.saturating_sub(1), ..area }
}

/// Rows of the list, or of the stack, above and below those on the screen, in a view that takes `area`.
pub(super) fn hidden_rows(view: &TimeState, context: &Context, picture: &Picture, area: Rect) -> (u32, u32) {
    let Some(samples_at) = found(context, picture) else { return (0, 0) };
    let (list, count) = match view.panel {
        Panel::Stack => (view.stack, steps(view, samples_at).len()),
        Panel::Map | Panel::Samples => (view.samples, samples_at.samples.len()),
    };
    table::Frame { area: below_title(area), count }.hidden_rows(list)
}

/// Draws the list, or the stack, into `area`.
pub(crate) fn draw(
    frame: &mut Frame<'_>,
    area: Rect,
    view: &TimeState,
    context: &Context,
    picture: &Picture,
    theme: &Theme,
) {
    let columns = usize::from(area.width);
    let title = Rect { height: area.height.min(1), ..area };
    let Some(samples_at) = found(context, picture) else {
        frame.render_widget(Line::from(" looking for the samples").style(theme.faint()), title);
        return;
    };
    let text = if view.panel == Panel::Stack {
        stack_title(view, picture, samples_at, columns)
    } else {
        title_of(context, picture, samples_at, columns)
    };
    frame.render_widget(Line::from(theme.fit(&text, columns)).style(theme.heading()), title);
    if view.panel == Panel::Stack {
        draw_stack(frame, below_title(area), view, context, samples_at, theme);
    } else {
        draw_samples(frame, below_title(area), view, context, picture, samples_at, theme);
    }
}

fn time_text(sample: &SampleAt) -> String {
    let seconds = sample.time_ns as f64 / 1e9;
    match sample.bucket_ns {
        0 => format!("{seconds:.6} s"),
        bucket_ns => format!("{seconds:.0}-{:.0} s", sample.time_ns.saturating_add(bucket_ns) as f64 / 1e9),
    }
}

fn title_of(context: &Context, picture: &Picture, samples_at: &SamplesAt, columns: usize) -> String {
    let samples = counted(samples_at.total.count(), &picture.event.noun);
    let mut of = format!("{samples}, {}", picture.event.amount(samples_at.total.weight));
    let mut when = String::new();
    if let Some(asked) = &context.query.samples_at {
        if let Some(row) = &asked.row {
            of.push_str(&format!(" of {}", safe_text::terminal(&row.thread)));
            if let Some(tid) = row.tid {
                of.push_str(&format!(" {tid}"));
            }
        }
        let seconds = |ns: u64| format!("{:.3}", ns as f64 / 1e9);
        let from = seconds(asked.time.from_ns.unwrap_or(0));
        let to = seconds(asked.time.to_ns.unwrap_or(picture.duration_ns).min(picture.duration_ns));
        when = format!("{from}-{to} s");
    }
    let mut parts = vec![(0, of), (1, when)];
    let known = samples_at.left_out.saturating_add(samples_at.samples.len() as u64);
    if known < samples_at.total.count() {
        parts.push((2, format!("{} known individually", count(known))));
    }
    if samples_at.left_out > 0 {
        parts.push((3, format!("the largest {} of them", count(samples_at.samples.len() as u64))));
    }
    fitting(&parts, ", ", columns)
}

fn matched_if(is_found: bool, theme: &Theme) -> Style {
    if is_found { theme.matched(Style::new()) } else { Style::new() }
}

fn what(sample: &SampleAt) -> &'static str {
    match sample.activity {
        Activity::Running => "ran",
        Activity::Waiting(reason) | Activity::WaitingShortly(reason) => reason.label(),
    }
}

fn stack_title(view: &TimeState, picture: &Picture, samples_at: &SamplesAt, columns: usize) -> String {
    let Some(sample) = selected(view, samples_at) else { return String::new() };
    let (amount, what) = (picture.event.amount(sample.weight), what(sample));
    let is_time = picture.event.metric.is_time();
    let length = match sample.duration_ns {
        _ if sample.bucket_ns > 0 => {
            let amount = if is_time { format!("{what} {amount}") } else { amount };
            format!("{amount} in {}", counted(sample.samples, "sample"))
        }
        Some(length_ns) => format!("{what} {}", duration(length_ns)),
        None if is_time => format!("{what} for {amount}"),
        None => amount,
    };
    let parts = [
        (0, format!("{} {}", safe_text::terminal(&sample.thread), sample.tid)),
        (1, format!("{} {}", if sample.bucket_ns > 0 { "in" } else { "at" }, time_text(sample))),
        (0, length),
    ];
    fitting(&parts, "  ", columns)
}

/// Weight of a sample, or the full length of a wait if weights are time; the sum, if several were merged.
fn length(sample: &SampleAt, unit: Unit) -> u64 {
    let is_length = unit == Unit::Nanoseconds && sample.bucket_ns == 0;
    sample.duration_ns.filter(|_| is_length).unwrap_or(sample.weight)
}

fn draw_samples(
    frame: &mut Frame<'_>,
    area: Rect,
    view: &TimeState,
    context: &Context,
    picture: &Picture,
    samples_at: &SamplesAt,
    theme: &Theme,
) {
    let unit = picture.event.unit;
    let length_heading = if unit == Unit::Nanoseconds { "LENGTH" } else { unit.heading() };
    let column = |id, heading, width, is_number, rank| TableColumn { id, heading, width, is_number, rank };
    let mut columns = vec![
        column(SampleColumn::Time, "TIME", 12, true, 0),
        column(SampleColumn::Thread, "THREAD", 18, false, 3),
        column(SampleColumn::What, "WHAT", 7, false, 1),
        column(SampleColumn::Length, length_heading, 8, true, 2),
        column(SampleColumn::Stack, "FUNCTION < CALLED BY", 16, false, 0),
    ];
    // A sample of another event than time says nothing about what the thread did.
    if !picture.event.metric.is_time() && !picture.event.has_waits {
        columns.retain(|column| column.id != SampleColumn::What);
    }
    let placed = PlacedColumns::new(columns, area.width.into(), SampleColumn::Stack, usize::MAX);
    let list = (view.samples, samples_at.samples.len());
    let longest = samples_at.samples.iter().map(|sample| length(sample, unit)).max().unwrap_or(0);
    let heading = |_: SampleColumn, text: &'static str| text.to_owned();
    table::draw(frame.buffer_mut(), area, &placed, list, theme, heading, |id, at, width| {
        let sample = &samples_at.samples[at];
        let text = match id {
            SampleColumn::Time => time_text(sample),
            SampleColumn::Thread => format!("{} {}", safe_text::terminal(&sample.thread), sample.tid),
            SampleColumn::What => what(sample).to_owned(),
            SampleColumn::Length if unit == Unit::Nanoseconds => duration_in(length(sample, unit), longest),
            SampleColumn::Length => weight(unit, length(sample, unit), longest),
            SampleColumn::Stack => {
                let is_found =
                    context.search.as_ref().is_some_and(|search| is_found(search, samples_at, sample));
                return (path_text(context, samples_at, sample, width), matched_if(is_found, theme));
            }
        };
        (text, Style::new())
    });
}

/// The innermost functions, as many as fit.
fn path_text(context: &Context, samples_at: &SamplesAt, sample: &SampleAt, columns: usize) -> String {
    let mut text = String::new();
    for step in samples_at.stacks.get(sample.stack).into_iter().flatten().rev() {
        if !text.is_empty() {
            text.push_str(" < ");
        }
        text.push_str(&context.name(&step.label));
        if safe_text::width(&text) >= columns {
            break;
        }
    }
    text
}

fn draw_stack(
    frame: &mut Frame<'_>,
    area: Rect,
    view: &TimeState,
    context: &Context,
    samples_at: &SamplesAt,
    theme: &Theme,
) {
    let column = |id, heading, width, rank| TableColumn { id, heading, width, is_number: false, rank };
    let columns = vec![
        column(StepId::Function, "FUNCTION", 20, 0),
        column(StepId::Module, "MODULE", 14, 1),
        column(StepId::Source, "SOURCE", 20, 2),
    ];
    let placed = PlacedColumns::new(columns, area.width.into(), StepId::Function, usize::MAX);
    let steps = steps(view, samples_at);
    let heading = |_: StepId, text: &'static str| text.to_owned();
    let list = (view.stack, steps.len());
    table::draw(frame.buffer_mut(), area, &placed, list, theme, heading, |id, at, width| {
        let step = steps[at];
        match id {
            StepId::Function => {
                let mark = match (step.is_kernel, step.is_inlined) {
                    (true, _) => " [k]",
                    (_, true) => " [i]",
                    _ => "",
                };
                let name = context.name(&step.label);
                let room = width.saturating_sub(mark.len());
                let search = context.search.as_ref();
                let is_found = search.is_some_and(|search| search.matches_label(&step.label));
                (format!("{}{mark}", theme.fit(&name, room)), matched_if(is_found, theme))
            }
            StepId::Module => {
                (safe_text::terminal(module_stem(&step.label.module)).into_owned(), theme.faint())
            }
            StepId::Source => {
                let source =
                    step.source.as_ref().map_or(String::new(), |source| source.text(NameStyle::Short));
                (theme.fit_end(&safe_text::terminal(&source), width), theme.faint())
            }
        }
    });
}

/// Details of the selection.
pub(crate) fn details(
    view: &TimeState,
    context: &Context,
    picture: &Picture,
    below: Below<'_>,
) -> Vec<Line<'static>> {
    let Below { theme, columns, lines } = below;
    let Some(samples_at) = found(context, picture) else { return Vec::new() };
    let Some(sample) = selected(view, samples_at) else { return Vec::new() };
    let fit = |text: String| theme.fit(&text, columns);
    if view.panel == Panel::Stack {
        let steps = steps(view, samples_at);
        let Some(step) = steps.get(view.stack.cursor(steps.len())) else { return Vec::new() };
        let module = safe_text::terminal(&step.label.module).into_owned();
        let source = step.source.as_ref().map_or(String::new(), |source| source.text(NameStyle::Full));
        let place = place_text(theme, &module, &safe_text::terminal(&source), columns.saturating_sub(1));
        let name = safe_text::terminal(&step.label.name).into_owned();
        let name = Line::from(Span::styled(fit(format!(" {name}")), theme.heading()));
        return vec![name, Line::from(fit(format!(" {place}")))].into_iter().take(lines).collect();
    }
    let path = path_text(context, samples_at, sample, columns);
    let lines_of = [stack_title(view, picture, samples_at, columns), format!(" {path}")];
    lines_of.into_iter().take(lines).map(|text| Line::from(fit(text))).collect()
}
