//! The first line of the screen: what was recorded, and how far to trust what is seen of it.

use super::line::both_ends;
use super::theme::Theme;
use crate::base::safe_text;
use crate::base::units::{count, counted, duration, honest_percent_text, percent};
use crate::report::{cost_sum_words, cost_words};
use crate::tui::app::context::Context;
use crate::tui::compute::picture::Picture;
use ratatui::style::Style;
use ratatui::text::{Line, Span};
use std::time::Duration;

/// Least width of a screen with room for how far to trust it, columns.
const ROOMY_COLUMNS: usize = 80;
/// Most columns of the name of a folder or file.
const CLOCK_PLACE: usize = 24;
/// Columns of the target's name where there is little room.
const SHORT_TARGET: usize = 16;
/// Columns of the target's name where there is least room for it, and where there is hardly any.
const LEAST_TARGET: usize = 8;
const START_OF_TARGET: usize = 4;

/// Age from which on a live picture is an alarm.
const OLD: Duration = Duration::from_secs(5);

/// Part that the header goes without where it is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Saving {
    /// The words ` of a CPU` after the shares of the cost.
    CostUnit,
    /// Text in brackets after the target's name.
    TargetDetail,
    /// The rate of the event.
    Rate,
    /// The share of complete stacks if all are complete.
    AllComplete,
    /// The number of threads.
    Threads,
    /// The two parts of the cost, of which there is a sum.
    CostParts,
    /// The date of what is shown of a folder or by the clock.
    ClockDate,
    /// The name of that folder or file.
    ClockPlace,
    /// The end of a long name of the target.
    TargetEnd,
    /// Length of the recording.
    Length,
    /// All but the start of the target's name.
    TargetMiddle,
    /// The share of lost samples if none was lost.
    NothingLost,
    /// The name of this program.
    Program,
    /// The word after the number of notes.
    NotesWord,
    /// All but the first characters of the target's name.
    TargetRest,
    /// From when to when that is.
    Clock,
    /// The target.
    Target,
    /// The cost of `prof` itself.
    Cost,
    /// The share of complete stacks.
    Stacks,
    /// The share of lost samples.
    Lost,
    /// Whether a live recording goes on, and how old the picture is.
    State,
}

/// The savings in their order, the first first.
fn savings(columns: usize, is_live: bool) -> Vec<Saving> {
    let mut all = vec![
        Saving::CostUnit,
        Saving::TargetDetail,
        Saving::Rate,
        Saving::AllComplete,
        Saving::Threads,
        Saving::CostParts,
        Saving::ClockDate,
        Saving::TargetEnd,
        Saving::ClockPlace,
        Saving::Length,
        Saving::TargetMiddle,
        Saving::NothingLost,
    ];
    // For a file, data quality matters most; for a live recording, its overhead.
    let trust = match is_live {
        true => [Saving::Stacks, Saving::Cost, Saving::Lost],
        false => [Saving::Cost, Saving::Stacks, Saving::Lost],
    };
    // A small screen says at least what it is about.
    if columns < ROOMY_COLUMNS {
        all.push(Saving::Clock);
        all.extend(trust);
        all.extend([Saving::State, Saving::Target]);
    } else {
        all.extend([Saving::Program, Saving::NotesWord, Saving::TargetRest, Saving::Clock, Saving::Target]);
        all.extend(trust);
        all.push(Saving::State);
    }
    all
}

/// All that the header says where there is room.
struct HeaderParts<'t> {
    theme: &'t Theme,
    heading: String,
    /// Whether the heading is the name of this program, not that of the view.
    is_program: bool,
    /// The number of notes, with a word after it and without.
    notes: [String; 2],
    target: String,
    threads: String,
    length: String,
    /// The folder or file, the date and the times of what is shown of it by the clock.
    clock: [String; 3],
    state: String,
    age: String,
    age_style: Style,
    event: String,
    rate: String,
    stacks: String,
    is_all_complete: bool,
    lost: String,
    is_nothing_lost: bool,
    /// In decreasing length.
    cost: [String; 3],
}

impl<'t> HeaderParts<'t> {
    fn of(context: &Context, picture: &Picture, theme: &'t Theme, columns: usize) -> Self {
        let (heading, is_program) = heading(context);
        let notes = match picture.notes.len() {
            0 => [String::new(), String::new()],
            n => [format!("! {} ", counted(n as u64, "note")), format!("! {} ", count(n as u64))],
        };
        let room = columns.saturating_sub(heading.len() + notes[0].len() + 2);
        let meta = &picture.recording.profile.meta;
        let target = if meta.target.is_empty() { "unknown target" } else { &meta.target };
        let quality = &picture.quality;
        let complete = quality.complete_percent();
        let lost = percent(quality.lost, quality.lost.saturating_add(quality.samples));
        let cost = cost_words(&picture.recording).unwrap_or_default();
        // The shares only.
        let shares = cost.split_once(',').map_or(&*cost, |(shares, _)| shares).to_owned();
        let brief = shares.trim_end_matches(" of a CPU").to_owned();
        let sum = cost_sum_words(&picture.recording).unwrap_or_else(|| brief.clone());
        let [length, state, age] = live_words(context, picture)
            .unwrap_or_else(|| [duration(picture.duration_ns), String::new(), String::new()]);
        HeaderParts {
            theme,
            heading,
            is_program,
            notes,
            target: safe_text::terminal(target).into_owned(),
            threads: match picture.thread_count {
                0 => String::new(),
                threads => counted(threads, "thread"),
            },
            length,
            clock: picture.recording.clock_part.as_ref().map_or_else(Default::default, |part| {
                let [place, date, times] = part.pieces();
                [theme.fit(&place, CLOCK_PLACE), date, times]
            }),
            state,
            age,
            age_style: match age_of(context, picture) {
                Some(age) if age > OLD => theme.alarm(),
                _ => Style::new(),
            },
            event: theme.fit(&picture.event.title, room),
            rate: picture.event.rate.clone(),
            stacks: complete.map_or(String::new(), |share| format!("stacks {}", honest_percent_text(share))),
            is_all_complete: complete.is_none_or(|share| share >= 99.95),
            lost: match quality.lost {
                _ if !picture.recording.profile.losses_known() => String::new(),
                0 => "lost 0".to_owned(),
                _ => format!("lost {}", honest_percent_text(lost)),
            },
            is_nothing_lost: quality.lost == 0,
            cost: [shares, brief, sum],
        }
    }

    /// The left end of the header with these savings, and `target_columns` columns for the target.
    fn spans(&self, made: &[Saving], target_columns: usize) -> Vec<Span<'static>> {
        let has = |saving: Saving| !made.contains(&saving);
        let target = match has(Saving::TargetDetail) {
            true => &self.target,
            false => self.target.split(" (").next().unwrap_or(&self.target),
        };
        let when = |is_said: bool, text: &str| if is_said { text.to_owned() } else { String::new() };
        let rate = when(has(Saving::Rate), &self.rate);
        let is_of_stacks = has(Saving::Stacks) && (has(Saving::AllComplete) || !self.is_all_complete);
        let is_of_losses = has(Saving::Lost) && (has(Saving::NothingLost) || !self.is_nothing_lost);
        let cost = match (has(Saving::CostParts), has(Saving::CostUnit)) {
            (true, true) => 0,
            (true, false) => 1,
            (false, _) => 2,
        };
        let plain = Style::new();
        let has_clock = has(Saving::Clock);
        let clock_gaps = [has(Saving::ClockPlace), has(Saving::ClockPlace) || has(Saving::ClockDate)]
            .map(|follows| if follows { " " } else { "  " });
        let has_heading = has(Saving::Program) || !self.is_program;
        let of_target = if has_heading { plain } else { self.theme.heading() };
        let parts = [
            ("  ", when(has(Saving::Target), &self.theme.fit(target, target_columns)), of_target),
            ("  ", when(has(Saving::Threads), &self.threads), plain),
            ("  ", when(has(Saving::Length), &self.length), plain),
            ("  ", when(has_clock && has(Saving::ClockPlace), &self.clock[0]), plain),
            (clock_gaps[0], when(has_clock && has(Saving::ClockDate), &self.clock[1]), plain),
            (clock_gaps[1], when(has_clock, &self.clock[2]), plain),
            ("  ", when(has(Saving::State), &self.state), plain),
            (" ", when(has(Saving::State), &self.age), self.age_style),
            ("  ", format!("{}{rate}", self.event), plain),
            ("  ", when(is_of_stacks, &self.stacks), plain),
            ("  ", when(is_of_losses, &self.lost), plain),
            ("  ", when(has(Saving::Cost), &self.cost[cost]), plain),
        ];
        let heading = when(has_heading, &self.heading);
        let mut spans = vec![Span::styled(heading, self.theme.heading())];
        for (gap, text, style) in parts.into_iter().filter(|(_, text, _)| !text.is_empty()) {
            // The heading ends with a space, too.
            spans.push(Span::raw(if spans.len() == 1 { " " } else { gap }));
            spans.push(Span::styled(text, style));
        }
        spans
    }

    /// The right end of the header with these savings.
    fn notes(&self, made: &[Saving]) -> Span<'static> {
        let is_brief = made.contains(&Saving::NotesWord);
        Span::styled(self.notes[usize::from(is_brief)].clone(), self.theme.note())
    }

    /// Returns as much of the header as fits into a screen of `columns` columns.
    fn fitting(&self, columns: usize, is_live: bool) -> Line<'static> {
        let fits = |made: &[Saving], target: usize| {
            let used = self.spans(made, target).iter().map(Span::width).sum::<usize>();
            used + self.notes(made).width() < columns
        };
        let widest = |made: &[Saving], from: usize, to: usize| {
            (from..=to).rev().find(|target| fits(made, *target)).unwrap_or(from)
        };
        let most = (columns / 3).max(LEAST_TARGET);
        let (mut made, mut target) = (Vec::new(), most);
        for saving in savings(columns, is_live) {
            if fits(&made, target) {
                break;
            }
            match saving {
                Saving::TargetEnd => target = target.min(SHORT_TARGET),
                Saving::TargetMiddle => target = target.min(LEAST_TARGET),
                Saving::TargetRest => target = target.min(START_OF_TARGET),
                _ => made.push(saving),
            }
        }
        // A name that can be read comes before what was left out first.
        if !made.contains(&Saving::Target) {
            target = widest(&made, target, SHORT_TARGET.clamp(target, most));
        }
        for at in (0..made.len()).rev() {
            let saving = made.remove(at);
            if !fits(&made, target) {
                made.insert(at, saving);
            }
        }
        let target = widest(&made, target, most);
        both_ends(self.spans(&made, target), self.notes(&made), columns)
    }
}

/// The header of `picture` on a screen of `columns` columns.
pub(crate) fn header(context: &Context, picture: &Picture, theme: &Theme, columns: usize) -> Line<'static> {
    HeaderParts::of(context, picture, theme, columns).fitting(columns, context.live.is_some())
}

/// The start of the header, and whether it is the name of this program: it names the open view when there is no line of tabs.
fn heading(context: &Context) -> (String, bool) {
    let has_tabs = context.areas().is_some_and(|areas| areas.tabs.is_some());
    match has_tabs {
        true => (" prof ".to_owned(), true),
        false => (format!(" {} {} ", context.tab.digit(), context.tab.name()), false),
    }
}

/// Returns the clock of a live recording, its state, and the age of the picture.
fn live_words(context: &Context, picture: &Picture) -> Option<[String; 3]> {
    let live = context.live.as_ref()?;
    let seconds = live.status.elapsed.as_secs();
    let clock = format!("{:02}:{:02}", seconds / 60, seconds % 60);
    let state = match (&live.ended, live.is_frozen) {
        (Some(_), _) => "ENDED",
        (None, true) => "FROZEN",
        (None, false) => "LIVE",
    };
    let start_ns = picture.recording.profile.meta.start_mono_ns;
    let age = match age_of(context, picture) {
        // The recording was cleared, and this picture is from before.
        _ if live.cleared_start_ns == Some(start_ns) => "(before Ctrl-R)".to_owned(),
        Some(age) => format!("{} s ago", age.as_secs()),
        None => String::new(),
    };
    Some([clock, state.to_owned(), age])
}

/// Age of the picture, if it is more than two refresh intervals and at least two seconds.
fn age_of(context: &Context, picture: &Picture) -> Option<Duration> {
    let live = context.live.as_ref().filter(|live| live.ended.is_none() && !live.is_frozen)?;
    let shown = Duration::from_nanos(picture.duration_ns);
    let age = live.status.elapsed.saturating_sub(shown);
    (age > (live.refresh * 2).max(Duration::from_secs(2))).then_some(age)
}
