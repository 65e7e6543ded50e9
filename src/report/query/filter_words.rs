//! The filters in force in words, one by one.

use crate::report::naming::name;
use crate::report::naming::thread_class::thread_name;
use crate::report::options::{
    FilterOptions, LabelPattern, NamePattern, PathStep, Space, StackFilter, ThreadFilter, ThreadKey,
    ThreadSplit, TimeRange,
};

/// One of the filters in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FilterPart {
    /// `--focus`.
    Focus,
    /// `--ignore`.
    Ignore,
    /// `--hide`.
    Hide,
    /// `--show`.
    Show,
    /// `--module`.
    Module,
    /// A filter on threads, by its number.
    Thread(usize),
    /// `--cpu`.
    Cpus,
    /// `--label`.
    Labels,
    /// `--time`.
    Time,
    /// `--user`, `--kernel`.
    Space,
    /// A step that is applied to the stacks, by its number.
    Stack(usize),
}

impl FilterPart {
    /// Takes the filter out of `options`, from which it comes.
    pub(crate) fn remove(self, options: &mut FilterOptions) {
        match self {
            FilterPart::Focus => options.focus = None,
            FilterPart::Ignore => options.ignore = None,
            FilterPart::Hide => options.hide = None,
            FilterPart::Show => options.show = None,
            FilterPart::Module => options.module = None,
            FilterPart::Thread(at) if at < options.threads.len() => drop(options.threads.remove(at)),
            FilterPart::Cpus => options.cpus.clear(),
            FilterPart::Labels => options.labels.clear(),
            FilterPart::Time => options.time = TimeRange::default(),
            FilterPart::Space => options.space = Space::All,
            FilterPart::Stack(at) if at < options.stacks.len() => drop(options.stacks.remove(at)),
            FilterPart::Thread(_) | FilterPart::Stack(_) => {}
        }
    }
}

/// The filters in force, each in the words of the command line, or in brackets where it has none for it. Foreign text.
pub(crate) fn filter_parts(options: &FilterOptions) -> Vec<(FilterPart, String)> {
    let mut parts = Vec::new();
    let patterns = [
        (FilterPart::Focus, "--focus", &options.focus),
        (FilterPart::Ignore, "--ignore", &options.ignore),
        (FilterPart::Hide, "--hide", &options.hide),
        (FilterPart::Show, "--show", &options.show),
        (FilterPart::Module, "--module", &options.module),
    ];
    for (part, option, pattern) in patterns {
        parts.extend(pattern.as_ref().map(|pattern| (part, format!("{option} {pattern}"))));
    }
    let threads = options.threads.iter().enumerate();
    parts.extend(threads.map(|(at, filter)| (FilterPart::Thread(at), thread_words(filter))));
    if !options.cpus.is_empty() {
        parts.push((FilterPart::Cpus, list_words("--cpu", &options.cpus)));
    }
    if !options.labels.is_empty() {
        let words: Vec<String> = options.labels.iter().map(label_words).collect();
        parts.push((FilterPart::Labels, words.join(" ")));
    }
    if options.time != TimeRange::default() {
        let end = |ns: Option<u64>| ns.map_or(String::new(), |ns| format!("{}s", ns as f64 / 1e9));
        let words = format!("--time {}..{}", end(options.time.from_ns), end(options.time.to_ns));
        parts.push((FilterPart::Time, words));
    }
    match options.space {
        Space::All => {}
        Space::User => parts.push((FilterPart::Space, "--user".to_owned())),
        Space::Kernel => parts.push((FilterPart::Space, "--kernel".to_owned())),
    }
    let stacks = options.stacks.iter().enumerate();
    parts.extend(stacks.map(|(at, filter)| (FilterPart::Stack(at), stack_words(filter))));
    // More than what is shown by default is no filter: `--idle` needs no words.
    parts
}

/// The filters in force, in the words of the command line; `None` when there are none.
pub(crate) fn description(options: &FilterOptions) -> Option<String> {
    let words: Vec<String> = filter_parts(options).into_iter().map(|(_, words)| words).collect();
    (!words.is_empty()).then(|| words.join(" "))
}

fn label_words(wanted: &LabelPattern) -> String {
    match &wanted.value {
        None => format!("--label {}", wanted.key),
        Some(value) => format!("--label {}={value}", wanted.key),
    }
}

fn list_words<T: ToString>(option: &str, numbers: &[T]) -> String {
    let numbers: Vec<String> = numbers.iter().map(T::to_string).collect();
    format!("{option} {}", numbers.join(","))
}

/// A filter on threads in the words of the command line, or in others where it has none for it.
fn thread_words(filter: &ThreadFilter) -> String {
    match filter {
        ThreadFilter::OfProcesses(pids) => list_words("--pid", pids),
        ThreadFilter::Ids(tids) => list_words("--tid", tids),
        ThreadFilter::Matching(NamePattern { text, threads: ThreadSplit::Name }) => {
            format!("--thread {text}")
        }
        ThreadFilter::OfProcessesMatching(text) => format!("--process {text}"),
        ThreadFilter::Row(ThreadKey { process, pid: Some(pid), .. }) => {
            format!("(only process {pid}, {process})")
        }
        ThreadFilter::Row(ThreadKey { thread, process, tid, pid: None }) => {
            format!("(only thread {} of {process})", thread_name(thread, *tid))
        }
        ThreadFilter::Classes(names) => format!("(only threads {})", names.join(", ")),
        ThreadFilter::Matching(pattern) => format!("(only threads with a match of {})", pattern.text),
    }
}

/// A stack filter in words: the command line has none for it.
fn stack_words(filter: &StackFilter) -> String {
    match filter {
        StackFilter::Focus(key) => format!("(only with {})", key.name()),
        StackFilter::Drop(key) => format!("(without {})", key.name()),
        StackFilter::Matching(pattern) => format!("(only with a match of {})", pattern.text),
        StackFilter::CollapseFunction(key) => format!("({} with all it calls)", key.name()),
        StackFilter::CollapseModule(module) => format!("({} as one)", name::module_file(module)),
        StackFilter::CollapseRecursion(key) => format!("({} without recursion)", key.name()),
        StackFilter::Under(paths) => format!("(only in {})", path_words(paths, " > ")),
        StackFilter::EndingIn(paths) => format!("(only ending in {})", path_words(paths, " < ")),
    }
}

fn path_words(paths: &[Vec<PathStep>], step: &str) -> String {
    let words =
        |path: &Vec<PathStep>| path.iter().map(|step| step.label.name()).collect::<Vec<_>>().join(step);
    paths.iter().map(words).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::LabelKey;

    #[test]
    fn filters_are_described_as_typed() {
        let options = FilterOptions {
            focus: Some("parse".into()),
            threads: vec![ThreadFilter::Ids(vec![7, 8])],
            time: TimeRange { from_ns: Some(2_500_000_000), to_ns: None },
            ..FilterOptions::default()
        };
        assert_eq!(description(&options).unwrap(), "--focus parse --tid 7,8 --time 2.5s..");
        assert_eq!(description(&FilterOptions::default()), None);
        let labels = [("gil", Some("held")), ("tenant", None)]
            .map(|(key, value)| LabelPattern { key: key.into(), value: value.map(str::to_owned) });
        let options = FilterOptions { labels: labels.into(), ..FilterOptions::default() };
        assert_eq!(description(&options).unwrap(), "--label gil=held --label tenant");
        let key = LabelKey::function("parse", "/x");
        let stacks = vec![StackFilter::Focus(key.clone()), StackFilter::CollapseRecursion(key)];
        let options = FilterOptions { stacks, ..FilterOptions::default() };
        assert_eq!(description(&options).unwrap(), "(only with parse) (parse without recursion)");
    }

    #[test]
    fn each_filter_can_be_taken_out() {
        let stacks = ["parse", "sort"].map(|name| StackFilter::Focus(LabelKey::function(name, "/x")));
        let options = FilterOptions {
            focus: Some("a".into()),
            ignore: Some("b".into()),
            hide: Some("c".into()),
            show: Some("d".into()),
            module: Some("e".into()),
            threads: vec![ThreadFilter::named("f"), ThreadFilter::Ids(vec![7])],
            cpus: vec![1],
            labels: vec![LabelPattern { key: "gil".into(), value: None }],
            time: TimeRange { from_ns: Some(1), to_ns: None },
            space: Space::User,
            stacks: stacks.to_vec(),
            ..FilterOptions::default()
        };
        let parts = filter_parts(&options);
        assert_eq!(parts.len(), 13, "{parts:?}");
        for (at, (part, _)) in parts.iter().enumerate() {
            let mut others = options.clone();
            part.remove(&mut others);
            let left: Vec<String> = filter_parts(&others).into_iter().map(|(_, words)| words).collect();
            let mut wanted: Vec<String> = parts.iter().map(|(_, words)| words.clone()).collect();
            wanted.remove(at);
            assert_eq!(left, wanted);
        }
    }
}
