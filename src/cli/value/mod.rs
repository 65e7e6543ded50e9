//! Values of options: text to numbers, durations, sizes and choices. Messages complete the parser's
//! own `invalid value 'X' for '-d <TIME>': …`.

mod time;

use crate::diff::{DiffFormat, DiffSort, Per};
use crate::import::{FirstElement, FoldedUnit, ImportFormat};
use crate::profile::{EventKind, GOROUTINE_LABEL, RuntimeFrames};
use crate::record::{self, CallGraph, PerfCounter, ProbeSpec, Rate};
use crate::report::{
    ColorWhen, ExportFormat, Grouping, LabelPattern, Metric, NameStyle, SortKey, ThreadSplit,
};
use clap::builder::{PossibleValue, PossibleValuesParser, TypedValueParser};
use std::ffi::OsStr;
use std::path::Path;
pub(super) use time::{
    TimePart, duration, duration_with_unit, keep, positive_duration, time_part, time_range, window,
};

/// Smallest budget for unwind tables: one mid-sized library has some.
const SMALLEST_BUDGET_BYTES: u64 = 1 << 20;

/// A parser of how stacks are walked. In perf the size of stack copies follows `dwarf`, which prof does not make.
#[derive(Debug, Clone)]
pub(super) struct CallGraphParser;

impl TypedValueParser for CallGraphParser {
    type Value = CallGraph;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<CallGraph, clap::Error> {
        let is_size = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let size = value.to_str().and_then(|text| text.strip_prefix("dwarf,"));
        let value = if size.is_some_and(is_size) { OsStr::new("dwarf") } else { value };
        call_graph_words().parse_ref(command, argument, value)
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = clap::builder::PossibleValue> + '_>> {
        Some(Box::new(["auto", "dwarf", "fp"].into_iter().map(clap::builder::PossibleValue::new)))
    }
}

/// A parser that takes one word of `choices`.
fn choice<T: Copy + Send + Sync + 'static>(
    choices: &'static [(&'static str, T)],
) -> impl TypedValueParser<Value = T> {
    let words = PossibleValuesParser::new(choices.iter().map(|(word, _)| *word));
    words.try_map(move |word| {
        let found = choices.iter().find(|(known, _)| *known == word);
        found.map(|(_, value)| *value).ok_or("unknown word")
    })
}

fn call_graph_words() -> impl TypedValueParser<Value = CallGraph> {
    choice(&[("auto", CallGraph::Auto), ("dwarf", CallGraph::Dwarf), ("fp", CallGraph::FramePointer)])
}

/// What rows are, if they are values of labels: `goroutine`, or the key of others after this.
const BY_LABEL: &str = "label:";

/// A word for what rows are, or `label:KEY`.
pub(super) fn grouping() -> impl TypedValueParser<Value = Grouping> {
    GroupingParser
}

#[derive(Debug, Clone, Copy)]
struct GroupingParser;

impl TypedValueParser for GroupingParser {
    type Value = Grouping;

    fn parse_ref(
        &self,
        command: &clap::Command,
        argument: Option<&clap::Arg>,
        value: &OsStr,
    ) -> Result<Grouping, clap::Error> {
        let key = value.to_str().and_then(|word| word.strip_prefix(BY_LABEL)).filter(|key| !key.is_empty());
        match key {
            // Typed once, and needed until the program ends.
            Some(key) => Ok(Grouping::Label(Box::leak(key.to_owned().into_boxed_str()))),
            None => grouping_words().parse_ref(command, argument, value),
        }
    }

    fn possible_values(&self) -> Option<Box<dyn Iterator<Item = PossibleValue> + '_>> {
        let words = Vec::from_iter(grouping_words().possible_values()?);
        Some(Box::new(words.into_iter().chain([PossibleValue::new("label:KEY")])))
    }
}

fn grouping_words() -> impl TypedValueParser<Value = Grouping> {
    choice(&[
        ("function", Grouping::Function),
        ("line", Grouping::Line),
        ("address", Grouping::Address),
        ("module", Grouping::Module),
        ("thread", Grouping::Thread),
        ("process", Grouping::Process),
        ("holder", Grouping::Holder),
        ("waiter", Grouping::Waiter),
        (GOROUTINE_LABEL, Grouping::Label(GOROUTINE_LABEL)),
    ])
}

pub(super) fn thread_split() -> impl TypedValueParser<Value = ThreadSplit> {
    choice(&[("class", ThreadSplit::Class), ("each", ThreadSplit::Each), ("none", ThreadSplit::None)])
}

pub(super) fn sort_key() -> impl TypedValueParser<Value = SortKey> {
    choice(&[("self", SortKey::SelfWeight), ("total", SortKey::TotalWeight), ("count", SortKey::Count)])
}

pub(super) fn diff_sort() -> impl TypedValueParser<Value = DiffSort> {
    choice(&[
        ("self", DiffSort::Own),
        ("total", DiffSort::Total),
        ("change", DiffSort::Change),
        ("p", DiffSort::P),
    ])
}

pub(super) fn diff_format() -> impl TypedValueParser<Value = DiffFormat> {
    choice(&DiffFormat::ALL)
}

/// Parses the divisor of the values of a comparison.
pub(super) fn per(text: &str) -> Result<Per, String> {
    let count =
        |text: &str| match text.trim().parse::<f64>() {
            Ok(count) if count.is_finite() && count > 0.0 => Ok(count),
            _ => Err("write run, second, share, or the work that each run did, such as 1000 or 1000,1200"
                .to_owned()),
        };
    match text {
        "run" => Ok(Per::Run),
        "second" => Ok(Per::Second),
        "share" => Ok(Per::Share),
        text => match text.split_once(',') {
            Some((base, new)) => Ok(Per::Work([count(base)?, count(new)?])),
            None => count(text).map(|count| Per::Work([count, count])),
        },
    }
}

pub(super) fn runtime_frames() -> impl TypedValueParser<Value = RuntimeFrames> {
    choice(&[("folded", RuntimeFrames::Folded), ("full", RuntimeFrames::Full), ("off", RuntimeFrames::Off)])
}

pub(super) fn name_style() -> impl TypedValueParser<Value = NameStyle> {
    choice(&[("short", NameStyle::Short), ("full", NameStyle::Full), ("raw", NameStyle::Raw)])
}

pub(super) fn color_when() -> impl TypedValueParser<Value = ColorWhen> {
    choice(&[("auto", ColorWhen::Auto), ("always", ColorWhen::Always), ("never", ColorWhen::Never)])
}

pub(super) fn export_format() -> impl TypedValueParser<Value = ExportFormat> {
    let words = PossibleValuesParser::new(ExportFormat::ALL.map(ExportFormat::name));
    words.try_map(|word| {
        ExportFormat::ALL.into_iter().find(|format| format.name() == word).ok_or("unknown word")
    })
}

pub(super) fn import_format() -> impl TypedValueParser<Value = ImportFormat> {
    let words = PossibleValuesParser::new(ImportFormat::ALL.map(ImportFormat::name));
    words.try_map(|word| {
        ImportFormat::ALL.into_iter().find(|format| format.name() == word).ok_or("unknown word")
    })
}

pub(super) fn folded_unit() -> impl TypedValueParser<Value = FoldedUnit> {
    choice(&[
        ("samples", FoldedUnit::Samples),
        ("ns", FoldedUnit::Time { unit_ns: 1 }),
        ("us", FoldedUnit::Time { unit_ns: 1_000 }),
        ("ms", FoldedUnit::Time { unit_ns: 1_000_000 }),
        ("s", FoldedUnit::Time { unit_ns: 1_000_000_000 }),
        ("bytes", FoldedUnit::Bytes),
    ])
}

pub(super) fn first_element() -> impl TypedValueParser<Value = FirstElement> {
    choice(&[("thread", FirstElement::Thread), ("function", FirstElement::Function)])
}

pub(super) fn shell() -> impl TypedValueParser<Value = clap_complete::Shell> {
    use clap_complete::Shell;
    choice(&[("bash", Shell::Bash), ("zsh", Shell::Zsh), ("fish", Shell::Fish)])
}

/// The ids in one argument: `pgrep` and `pidof` print several, in lines or between blanks.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ids(Vec<u32>);

/// The ids of all arguments of an option.
pub(super) fn all_ids(arguments: Vec<Ids>) -> Vec<u32> {
    let mut known = std::collections::HashSet::new();
    arguments.into_iter().flat_map(|ids| ids.0).filter(|id| known.insert(*id)).collect()
}

/// Process ids. A name points to the option that takes one.
pub(super) fn pids(text: &str) -> Result<Ids, String> {
    ids(text).map_err(|problem| match problem {
        IdProblem::Word(word) if word.starts_with(|letter: char| letter.is_alphabetic()) => {
            let processes = match record::count_named(&word) {
                0 => "no process has that name".to_owned(),
                1 => "1 process".to_owned(),
                count => format!("{} processes", crate::base::units::count(count as u64)),
            };
            format!(
                "`{word}` is not a process id; by name: --name '^{}$' ({processes})",
                regex::escape(&word).replace("\\-", "-")
            )
        }
        problem => problem.text("process"),
    })
}

/// Ids of processes that were recorded: what runs here now is another matter.
pub(super) fn recorded_pids(text: &str) -> Result<Ids, String> {
    ids(text).map_err(|problem| match problem {
        IdProblem::Word(word) => {
            format!("`{word}` is not a process id; recorded processes: prof report --by process")
        }
        problem => problem.text("process"),
    })
}

/// One process id.
pub(super) fn one_pid(text: &str) -> Result<u32, String> {
    match pids(text)?.0.as_slice() {
        [pid] => Ok(*pid),
        _ => Err("one process id only".to_owned()),
    }
}

/// Thread ids.
pub(super) fn tids(text: &str) -> Result<Ids, String> {
    ids(text).map_err(|problem| problem.text("thread"))
}

/// Why a text holds no ids.
enum IdProblem {
    /// A word that is none.
    Word(String),
    /// There is nothing in it.
    Nothing,
}

impl IdProblem {
    fn text(&self, noun: &str) -> String {
        match self {
            IdProblem::Word(word) => format!("`{word}` is not a {noun} id"),
            IdProblem::Nothing => {
                format!("no {noun} id in it: the command that should print it, such as pgrep, found none")
            }
        }
    }
}

fn ids(text: &str) -> Result<Ids, IdProblem> {
    let words = text.split(|letter: char| letter == ',' || letter.is_whitespace());
    let ids = words.filter(|word| !word.is_empty()).map(|word| match word.parse::<u32>() {
        Ok(id) if id > 0 => Ok(id),
        _ => Err(IdProblem::Word(word.to_owned())),
    });
    let ids = ids.collect::<Result<Vec<u32>, _>>()?;
    if ids.is_empty() { Err(IdProblem::Nothing) } else { Ok(Ids(ids)) }
}

/// The number of a CPU.
pub(super) fn cpu(text: &str) -> Result<u16, String> {
    text.trim().parse().map_err(|_| "write CPU numbers, such as 0,3".to_owned())
}

/// A number of rows.
pub(super) fn rows(text: &str) -> Result<usize, String> {
    text.parse().map_err(|_| "write a number of rows, 0 for all".to_owned())
}

/// Whether a file is standard output.
pub(super) fn is_stdout(path: &Path) -> bool {
    path.as_os_str() == "-" || path == Path::new("/dev/stdout")
}

/// A sampling rate in Hz, or `max`.
pub(super) fn rate(text: &str) -> Result<Rate, String> {
    if text == "max" {
        return Ok(Rate::Max);
    }
    match text.parse::<u32>() {
        Ok(hz) if hz > 0 => Ok(Rate::Hz(hz)),
        _ => Err("write samples per second, such as 999, or max".to_owned()),
    }
}

/// The same, kept as text.
pub(super) fn rate_text(text: &str) -> Result<String, String> {
    rate(text).map(|_| text.to_owned())
}

/// A word of `-e` of the commands that record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum EventName {
    Cpu,
    Off,
    Lock,
    Heap,
    Counter(PerfCounter),
    Probe(ProbeSpec),
}

impl EventName {
    /// The word itself.
    pub(super) fn word(&self) -> &str {
        match self {
            EventName::Cpu => "cpu",
            EventName::Off => "off",
            EventName::Lock => EventKind::LOCK_NAME,
            EventName::Heap => EventKind::HEAP_NAME,
            EventName::Counter(counter) => &counter.kind.name,
            EventName::Probe(probe) => &probe.kind.name,
        }
    }

    /// Metric that shows the event.
    pub(super) fn metric(&self) -> Metric {
        match self {
            EventName::Cpu => Metric::ON_CPU,
            EventName::Off => Metric::OFF_CPU,
            EventName::Lock => Metric::of_kind(&EventKind::LOCK),
            EventName::Heap => Metric::HEAP,
            EventName::Counter(counter) => Metric::of_kind(&counter.kind),
            EventName::Probe(probe) => Metric::of_kind(&probe.kind),
        }
    }

    /// The counter, if it is one.
    pub(super) fn counter(&self) -> Option<&PerfCounter> {
        match self {
            EventName::Counter(counter) => Some(counter),
            EventName::Cpu | EventName::Off | EventName::Lock | EventName::Heap | EventName::Probe(_) => None,
        }
    }
}

/// One such word.
pub(super) fn event(text: &str) -> Result<EventName, String> {
    match text {
        // perf has two clocks for it.
        "cpu" | "cpu-clock" | "task-clock" => Ok(EventName::Cpu),
        "off" => Ok(EventName::Off),
        EventKind::LOCK_NAME => Ok(EventName::Lock),
        EventKind::HEAP_NAME => Ok(EventName::Heap),
        EventKind::SYSTEM_CALLS_NAME => Ok(EventName::Probe(ProbeSpec::system_calls())),
        probe if ProbeSpec::is_meant(probe) => ProbeSpec::parse(probe).map(EventName::Probe),
        other => PerfCounter::parse(other).map(EventName::Counter),
    }
}

/// The metric of an event of a recording, which may be one that this version cannot record.
pub(super) fn shown_event(text: &str) -> Result<Metric, std::convert::Infallible> {
    Ok(event(text).map_or_else(|_| Metric::named(text), |word| word.metric()))
}

/// How many events make a sample.
pub(super) fn period(text: &str) -> Result<u64, String> {
    match text.parse() {
        Ok(period) if period > 0 => Ok(period),
        _ => Err("write how many events make a sample, such as 1 or 100000".to_owned()),
    }
}

/// A share of each CPU's time, `2%`, in millionths; 0: no limit.
pub(super) fn overhead_ppm(text: &str) -> Result<u32, String> {
    let form = || "write a percentage such as 2% or 0.5%; 0 for no limit".to_owned();
    let number = text.trim().trim_end_matches('%').trim_end();
    let percent: f64 = number.parse().map_err(|_| form())?;
    if !(0.0..=100.0).contains(&percent) {
        return Err("must be from 0% to 100%".to_owned());
    }
    Ok((percent * 10_000.0).round() as u32)
}

/// A size such as `256MiB`.
pub(super) fn budget_bytes(text: &str) -> Result<u64, String> {
    let size: bytesize::ByteSize =
        text.parse().map_err(|_| "write a size such as 256MiB or 1GB".to_owned())?;
    if size.as_u64() < SMALLEST_BUDGET_BYTES {
        return Err("must be at least 1MiB".to_owned());
    }
    Ok(size.as_u64())
}

/// The size as [`budget_bytes`] reads it.
pub(super) fn budget_text(bytes: u64) -> String {
    if bytes.is_multiple_of(1 << 20) { format!("{}MiB", bytes >> 20) } else { bytes.to_string() }
}

/// A share in percent.
pub(super) fn percent(text: &str) -> Result<f64, String> {
    match text.trim_end_matches('%').parse::<f64>() {
        Ok(percent) if (0.0..=100.0).contains(&percent) => Ok(percent),
        _ => Err("write a number from 0 to 100".to_owned()),
    }
}

/// A regular expression, kept as text.
pub(super) fn pattern(text: &str) -> Result<String, String> {
    match regex::Regex::new(text) {
        Ok(_) => Ok(text.to_owned()),
        Err(regex::Error::Syntax(message)) => {
            let why = message.lines().last().unwrap_or_default().trim_start_matches("error: ");
            Err(format!(
                "not a regular expression: {why}; for the text itself write '{}'",
                regex::escape(text)
            ))
        }
        Err(_) => Err("the regular expression is too big".to_owned()),
    }
}

/// `KEY` or `KEY=REGEX`.
pub(super) fn label_pattern(text: &str) -> Result<LabelPattern, String> {
    let (key, value) = text.split_once('=').map_or((text, None), |(key, value)| (key, Some(value)));
    if key.is_empty() {
        return Err("write KEY, or KEY=REGEX for its value, such as gil=held".to_owned());
    }
    Ok(LabelPattern { key: key.to_owned(), value: value.map(pattern).transpose()? })
}

/// One regular expression that matches what any of `patterns` matches; `None` of none.
pub(super) fn any_of(patterns: Vec<String>) -> Option<String> {
    // A flag such as `(?i)` means all that follows it.
    let apart = |pattern: String| if pattern.contains("(?") { format!("(?:{pattern})") } else { pattern };
    match patterns.len() {
        0 | 1 => patterns.into_iter().next(),
        _ => Some(patterns.into_iter().map(apart).collect::<Vec<_>>().join("|")),
    }
}
