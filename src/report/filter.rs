//! Which samples count, and which labels of their stacks: filter options made ready to use.

use super::label::{Label, Labels};
use super::options::{FilterOptions, Space, TimeRange};
use crate::failure::Failure;
use crate::profile::{Sample, Tables};
use regex::{Regex, RegexBuilder};

/// Most memory that one compiled pattern may take, bytes.
const PATTERN_BYTES: usize = 4 << 20;

/// Compiles the value of `option`.
///
/// # Errors
///
/// A usage failure that names the option and what is wrong with the pattern.
pub(super) fn pattern(option: &str, text: &str) -> Result<Regex, Failure> {
    RegexBuilder::new(text).size_limit(PATTERN_BYTES).build().map_err(|error| {
        let why = match &error {
            regex::Error::Syntax(text) => {
                text.lines().last().unwrap_or_default().trim_start_matches("error: ")
            }
            _ => "the expression is too big",
        };
        Failure::usage(format!("`{option} {text}` is not a regular expression: {why}"))
            .hint(format!("for the text itself:  {option} '{}'", regex::escape(text)))
    })
}

/// Decides which samples count. Decisions that need only the sample are made first, once for each task;
/// those about names are made once for each label.
#[derive(Debug)]
pub(super) struct SampleFilter {
    keep_task: Vec<bool>,
    cpus: Vec<u16>,
    time: TimeRange,
}

impl SampleFilter {
    pub(super) fn new(options: &FilterOptions, tables: &Tables) -> Result<Self, Failure> {
        let thread = options.thread.as_deref().map(|text| pattern("--thread", text)).transpose()?;
        let keep_task = (tables.tasks().iter())
            .map(|task| {
                (options.pids.is_empty() || options.pids.contains(&task.pid))
                    && (options.tids.is_empty() || options.tids.contains(&task.tid))
                    && thread.as_ref().is_none_or(|re| re.is_match(tables.string(task.comm)))
            })
            .collect();
        Ok(SampleFilter { keep_task, cpus: options.cpus.clone(), time: options.time })
    }

    pub(super) fn keeps(&self, sample: &Sample) -> bool {
        self.keep_task.get(sample.task.index()).copied().unwrap_or(false)
            && (self.cpus.is_empty() || self.cpus.contains(&sample.cpu))
            && self.time.contains(sample.time_ns)
    }
}

/// What the name filters say of one label.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Verdict {
    pub(super) is_focus: bool,
    pub(super) is_ignored: bool,
    pub(super) is_hidden: bool,
}

/// The name filters, with their verdict on every label.
#[derive(Debug)]
pub(super) struct LabelFilter {
    verdicts: Vec<Verdict>,
    pub(super) has_focus: bool,
    pub(super) space: Space,
}

impl LabelFilter {
    pub(super) fn new(options: &FilterOptions, labels: &Labels) -> Result<Self, Failure> {
        let compile =
            |option, text: &Option<String>| text.as_deref().map(|text| pattern(option, text)).transpose();
        let focus = compile("--focus", &options.focus)?;
        let ignore = compile("--ignore", &options.ignore)?;
        let hide = compile("--hide", &options.hide)?;
        let says = |re: &Option<Regex>, label: &Label| re.as_ref().is_some_and(|re| label.matches(re));
        let verdicts = (labels.iter())
            .map(|label| Verdict {
                is_focus: says(&focus, label),
                is_ignored: says(&ignore, label),
                is_hidden: says(&hide, label),
            })
            .collect();
        Ok(LabelFilter { verdicts, has_focus: focus.is_some(), space: options.space })
    }

    pub(super) fn verdict(&self, label: super::label::LabelId) -> Verdict {
        self.verdicts.get(label.index()).copied().unwrap_or_default()
    }
}

/// The filters in force, in the words of the command line; `None` when there are none.
pub(super) fn description(options: &FilterOptions) -> Option<String> {
    let mut words = Vec::new();
    let patterns = [
        ("--focus", &options.focus),
        ("--ignore", &options.ignore),
        ("--hide", &options.hide),
        ("--thread", &options.thread),
    ];
    for (option, pattern) in patterns {
        words.extend(pattern.as_ref().map(|pattern| format!("{option} {pattern}")));
    }
    let mut list = |option: &str, numbers: Vec<String>| {
        if !numbers.is_empty() {
            words.push(format!("{option} {}", numbers.join(",")));
        }
    };
    list("--pid", options.pids.iter().map(u32::to_string).collect());
    list("--tid", options.tids.iter().map(u32::to_string).collect());
    list("--cpu", options.cpus.iter().map(u16::to_string).collect());
    if options.time != TimeRange::default() {
        let end = |ns: Option<u64>| ns.map_or(String::new(), |ns| format!("{}s", ns as f64 / 1e9));
        words.push(format!("--time {}..{}", end(options.time.from_ns), end(options.time.to_ns)));
    }
    match options.space {
        Space::All => {}
        Space::User => words.push("--user".to_owned()),
        Space::Kernel => words.push("--kernel".to_owned()),
    }
    (!words.is_empty()).then(|| words.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bad_pattern_is_a_usage_error_with_a_way_out() {
        let failure = pattern("--focus", "operator(").unwrap_err();
        assert_eq!(failure.status, 2);
        assert_eq!(failure.message, "`--focus operator(` is not a regular expression: unclosed group");
        assert_eq!(failure.hints, [r"for the text itself:  --focus 'operator\('"]);
    }

    #[test]
    fn a_huge_pattern_is_refused() {
        assert!(pattern("--hide", "(a{1000}){1000}").unwrap_err().message.ends_with("too big"));
    }

    #[test]
    fn filters_are_described_as_typed() {
        let options = FilterOptions {
            focus: Some("parse".into()),
            tids: vec![7, 8],
            time: TimeRange { from_ns: Some(2_500_000_000), to_ns: None },
            ..FilterOptions::default()
        };
        assert_eq!(description(&options).unwrap(), "--focus parse --tid 7,8 --time 2.5s..");
        assert_eq!(description(&FilterOptions::default()), None);
    }
}
