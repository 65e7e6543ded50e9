//! Words of perf and pprof that prof does not have, and what to write instead. Those with the same meaning are options of
//! their own, or other names of them; the parser's guesses at similar words are no help here.

use crate::base::failure::Failure;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;

/// What to say of a word of another tool.
struct Foreign {
    /// The word, with its other forms.
    words: &'static [&'static str],
    /// What prof has in its place, or why it has nothing.
    answer: &'static str,
    /// What to type; `{}` is the value that was given.
    hints: &'static [&'static str],
}

const fn word(
    words: &'static [&'static str],
    answer: &'static str,
    hints: &'static [&'static str],
) -> Foreign {
    Foreign { words, answer, hints }
}

/// Commands of perf.
const PERF_COMMANDS: [Foreign; 10] = [
    word(
        &["script"],
        "prof exports the samples one by one",
        &["prof export -o samples.txt --format perf-script", "merged stacks:  prof export -o out.folded"],
    ),
    word(
        &["stat"],
        "prof samples events, each of them with -c 1, and its report adds them up",
        &["prof record -e page-faults -c 1 CMD, then prof report -e page-faults"],
    ),
    word(&["list"], "the help of record lists the events", &["prof help record"]),
    word(
        &["archive", "buildid-cache", "buildid-list", "inject"],
        "a recording contains its names and can be read on any machine",
        &["names that it lacks:  prof symbolize FILE", "its modules:  prof info"],
    ),
    word(
        &["sched"],
        "time spent waiting for a CPU is recorded by default",
        &["by thread:  prof report --threads", "by place:  prof report --off-cpu"],
    ),
    word(
        &["lock", "kwork"],
        "time spent waiting for locks is recorded by default, with the thread that ended each wait",
        &["prof report --off-cpu"],
    ),
    word(
        &["mem", "c2c"],
        "prof does not sample data addresses",
        &["where caches are missed:  prof record -e cache-misses CMD"],
    ),
    word(&["trace"], "prof shows where system calls block, not each call", &["prof report --off-cpu"]),
    word(&["probe", "ftrace"], "this version has no probes", &["the events:  prof help record"]),
    word(&["timechart"], "the timeline is a view of prof tui", &["prof tui, then 4"]),
];

/// Options of perf report, and of perf script and annotate where they mean the same.
const PERF_REPORT: [Foreign; 17] = [
    word(
        &["-g", "--call-graph", "-G", "--inverted", "--max-stack"],
        "prof has views for call graphs",
        &[
            "callers above what they call:  prof report --tree",
            "functions above their callers:  prof report --bottom-up",
        ],
    ),
    word(
        &["--comm", "--comms", "-c"],
        "threads are chosen by --thread, a regular expression",
        &["--thread '^{}$'"],
    ),
    word(
        &["--dso", "--dsos", "-d"],
        "modules are chosen by --module, a regular expression; it keeps all samples that pass through them",
        &["--module '{}'", "a row for each module:  --by module"],
    ),
    word(
        &["--symbol-filter", "--symbols", "-S"],
        "functions are chosen by --focus, which keeps all samples that pass through them, and by --show, which hides others",
        &["--focus '{}'", "with callers and callees:  --peek '{}'"],
    ),
    word(
        &["--parent", "-p", "--exclude-other", "-x", "--ignore-callees"],
        "callers are chosen by --focus, a regular expression",
        &["--focus REGEX", "callers of one function:  --peek REGEX"],
    ),
    word(
        &["-F", "--fields"],
        "the columns are those that the screen has room for; all of them are in the output for programs",
        &["prof report --tsv", "prof report --json"],
    ),
    word(
        &["-s"],
        "rows are chosen by --by, their order by --sort",
        &["--by function|line|address|module|thread|process", "--sort self|total|count"],
    ),
    word(&["--header", "--header-only", "-I"], "prof info describes the recording", &["prof info"]),
    word(
        &["-k", "--vmlinux", "--kallsyms", "-m", "--modules", "--symfs"],
        "kernel names are saved in the recording",
        &["names that it lacks:  prof symbolize FILE"],
    ),
    word(
        &["-T"],
        "prof has a view for threads",
        &["prof report --threads", "each for itself:  prof report --threads each"],
    ),
    word(
        &["--tasks", "--stats", "--stat"],
        "what is in a recording is shown by prof info",
        &["prof info", "prof report --threads"],
    ),
    word(&["--tui", "--gtk"], "prof tui is the interactive view", &["prof tui"]),
    word(
        &["--percentage"],
        "percentages are of the whole recording; with --relative, of what the filters keep",
        &["--relative"],
    ),
    word(
        &["-D", "--dump-raw-trace"],
        "prof exports the samples one by one",
        &["prof export -o samples.txt --format perf-script"],
    ),
    word(
        &["-U", "--hide-unresolved"],
        "code without names is never left out",
        &["one function instead of it:  --hide '^0x|\\+0x'"],
    ),
    word(
        &["-w", "--column-widths"],
        "columns are as wide as the screen allows",
        &["COLUMNS and lines in full:  prof report | cat"],
    ),
    word(&["-C", "--cpu-list"], "CPUs are chosen by --cpu", &["--cpu {}"]),
];

/// Options of perf record.
const PERF_RECORD: [Foreign; 11] = [
    word(
        &["--strict-freq"],
        "a rate that the kernel does not allow is lowered, and the recording says so",
        &["leave it out; the highest rate:  -F max"],
    ),
    word(
        &["-m", "--mmap-pages"],
        "prof sizes its buffers itself and reports lost samples",
        &["leave it out"],
    ),
    word(
        &["-b", "--branch-any", "-j", "--branch-filter"],
        "prof does not sample branches; its stacks do not need them",
        &["leave it out"],
    ),
    word(
        &["--per-thread", "-i", "--no-inherit"],
        "threads are always distinguished",
        &["without child processes:  --no-children", "threads:  prof report --threads each"],
    ),
    word(&["--all-user"], "that is --user-only", &["--user-only"]),
    word(
        &["--all-kernel"],
        "prof records both, and the report can show the kernel alone",
        &["prof report --kernel"],
    ),
    word(&["-C", "--cpu"], "all CPUs are recorded, and the report chooses", &["prof report --cpu {}"]),
    word(&["-u", "--uid"], "processes are chosen by -p, --name or -a", &["-p \"$(pgrep -d, -u {})\""]),
    word(&["--off-cpu"], "waits are recorded with -e off, and by default", &["-e cpu,off"]),
    word(
        &[
            "-W",
            "--weight",
            "--data",
            "--phys-data",
            "-R",
            "-T",
            "--timestamp",
            "-s",
            "--stat",
            "-P",
            "--period",
        ],
        "time, period and thread of every sample are always kept",
        &["leave it out"],
    ),
    word(
        &["-z", "--compression-level", "-N", "--no-buildid-cache", "-B", "--no-buildid"],
        "recordings are compressed, with names and build IDs in them",
        &["leave it out"],
    ),
];

/// What pprof shows a profile as.
const PPROF: [Foreign; 9] = [
    word(&["top", "text", "topN"], "that is the report", &["prof report"]),
    word(
        &["list", "disasm", "weblist"],
        "prof annotate shows source and machine code",
        &["prof annotate '{}'"],
    ),
    word(
        &["http", "web", "gv"],
        "prof tui is the interactive view; for a browser, export a flame graph",
        &["prof tui", "prof export -o flame.svg"],
    ),
    word(&["svg", "png", "pdf", "gif", "ps", "dot"], "prof exports pictures", &["prof export -o flame.svg"]),
    word(
        &["tree"],
        "that is the report's --tree",
        &["prof report --tree", "callers and callees:  prof report --peek REGEX"],
    ),
    word(&["traces", "raw"], "prof exports stacks", &["prof export -o out.folded"]),
    word(&["proto"], "prof exports this format", &["prof export -o out.pb.gz --format pprof"]),
    word(&["base", "diff_base"], "prof diff compares recordings", &["prof diff BASE NEW"]),
    word(&["cum"], "the order is chosen by --sort", &["prof report --sort total"]),
];

/// What perf sorts by, and what makes rows of it.
const SORT_KEYS: [(&[&str], &str); 9] = [
    (&["comm"], "threads by name:  prof report --threads"),
    (&["tid", "thread"], "each thread:  --by thread"),
    (&["pid", "process"], "processes:  --by process"),
    (&["dso", "module"], "modules:  --by module"),
    (&["srcline", "srcfile", "line"], "source lines:  --by line"),
    (&["symbol", "sym", "function"], "functions:  --by function (this is the default)"),
    (&["parent", "symbol_from", "symbol_to"], "callers:  prof report --bottom-up"),
    (&["overhead", "overhead_children", "sample", "period"], "the order:  --sort self, total or count"),
    (&["cpu", "socket", "time"], "a part of the recording:  --cpu N, --time 2s..5s"),
];

/// What to say instead of the parser's own words of a word of another tool, if `error` is about one.
pub(super) fn explain(arguments: &[OsString], error: &clap::Error) -> Option<Failure> {
    let context = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    };
    if let Some(failure) = of_pprof(arguments) {
        return Some(failure);
    }
    let verb = arguments.get(1)?.to_str()?;
    match error.kind() {
        ErrorKind::InvalidSubcommand => {
            let typed = context(ContextKind::InvalidSubcommand);
            let found = PERF_COMMANDS.iter().find(|foreign| foreign.words.contains(&typed))?;
            Some(found.failure(&format!("prof has no `{typed}`"), ""))
        }
        ErrorKind::UnknownArgument => {
            let table: &[Foreign] = match verb {
                "record" | "live" | "top" => &PERF_RECORD,
                "report" | "export" | "tui" | "annotate" => &PERF_REPORT,
                _ => return None,
            };
            let typed = context(ContextKind::InvalidArg);
            let found = table.iter().find(|foreign| foreign.words.contains(&typed))?;
            Some(found.failure(&format!("`{typed}` is perf's"), &value_of(arguments, typed)))
        }
        ErrorKind::InvalidValue if context(ContextKind::InvalidArg).starts_with("--sort") => {
            of_sort_keys(context(ContextKind::InvalidValue))
        }
        _ => None,
    }
}

impl Foreign {
    fn failure(&self, start: &str, value: &str) -> Failure {
        let value = if value.is_empty() { "NAME" } else { value };
        let failure = Failure::usage(format!("{start}: {}", self.answer));
        self.hints.iter().fold(failure, |failure, hint| failure.hint(hint.replace("{}", value)))
    }
}

/// The value of an option, after it or after its `=`.
fn value_of(arguments: &[OsString], option: &str) -> String {
    let words: Vec<_> = arguments.iter().map(|word| word.to_string_lossy()).collect();
    for (at, word) in words.iter().enumerate() {
        if let Some(value) = word.strip_prefix(option).and_then(|rest| rest.strip_prefix('=')) {
            return value.to_owned();
        }
        if word == option {
            return words
                .get(at + 1)
                .filter(|next| !next.starts_with('-'))
                .map_or(String::new(), |next| next.to_string());
        }
    }
    String::new()
}

/// `prof -top`, `prof report -list=RE`: options of pprof stand where prof has a command or an option.
fn of_pprof(arguments: &[OsString]) -> Option<Failure> {
    let is_reader = |word: &OsString| ["report", "tui", "export", "info"].iter().any(|verb| word == verb);
    let skipped = 1 + usize::from(arguments.get(1).is_some_and(is_reader));
    for (at, word) in arguments.iter().enumerate().skip(skipped).take_while(|(_, word)| *word != "--") {
        // One dash and several letters: nothing of prof is written so.
        let Some(word) = word.to_str().and_then(|word| word.strip_prefix('-')) else { continue };
        let word = if skipped == 1 { word.trim_start_matches('-') } else { word };
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        let Some(found) = PPROF.iter().find(|foreign| foreign.words.contains(&name)) else { continue };
        let next = arguments.get(at + 1).and_then(|next| next.to_str()).filter(|next| !next.starts_with('-'));
        let value = if value.is_empty() { next.unwrap_or("") } else { value };
        return Some(found.failure(&format!("`-{name}` is pprof's"), value));
    }
    None
}

/// `--sort comm,dso,symbol`: perf makes rows of what prof chooses one of.
fn of_sort_keys(keys: &str) -> Option<Failure> {
    let known: Vec<&str> = (keys.split(','))
        .filter_map(|key| SORT_KEYS.iter().find(|(words, _)| words.contains(&key)))
        .map(|(_, hint)| *hint)
        .collect();
    if known.is_empty() {
        return None;
    }
    let failure = Failure::usage(format!(
        "`--sort {keys}` is perf's: rows are of one kind, chosen by --by; --sort is their order"
    ));
    Some(known.into_iter().fold(failure, |failure, hint| failure.hint(hint)))
}

/// `--threads class` as `--threads=class`, which is how the parser takes a value that may be left out: what follows a bare
/// `--threads` of prof report is the recording.
pub(super) fn with_joined_threads(arguments: Vec<OsString>) -> Vec<OsString> {
    if arguments.get(1).is_none_or(|verb| verb != "report") {
        return arguments;
    }
    let mut joined: Vec<OsString> = Vec::with_capacity(arguments.len());
    for word in arguments {
        let is_value = ["class", "each", "none"].iter().any(|value| word == *value);
        match joined.last_mut().filter(|last| is_value && *last == "--threads") {
            Some(last) => {
                last.push("=");
                last.push(word);
            }
            None => joined.push(word),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use crate::cli::Stop;
    use crate::cli::tests::{parsed, recorded, refused, reported};
    use crate::report::{Input, ReportView, SortKey, ThreadFilter, ThreadSplit};

    #[test]
    fn threads_of_a_report_are_divided_as_asked_for() {
        let of = |line: &str| {
            let options = reported(line);
            (options.view, options.common.threads, options.common.input)
        };
        let file = |name: &str| Input::File(name.into());
        let threads = |split| (ReportView::Threads, Some(split), Input::default());
        assert_eq!(of("prof report --threads"), threads(ThreadSplit::Class));
        assert_eq!(of("prof report --threads each"), threads(ThreadSplit::Each));
        assert_eq!(of("prof report --threads=none"), threads(ThreadSplit::None));
        assert_eq!(of("prof report --threads --by process"), threads(ThreadSplit::None));
        assert_eq!(of("prof report --threads --by thread"), threads(ThreadSplit::Each));
        let of_file = (ReportView::Threads, Some(ThreadSplit::Class), file("x.data"));
        assert_eq!(of("prof report --threads x.data"), of_file);
        let tree = (ReportView::Tree, Some(ThreadSplit::Class), Input::default());
        assert_eq!(of("prof report --tree --threads"), tree);
        assert_eq!(refused("prof report --flat --threads").0, 2);
        assert_eq!(refused("prof report --threads=some").0, 2);
    }

    #[test]
    fn words_of_perf_with_the_same_meaning_are_taken() {
        let plain = reported("prof report");
        assert_eq!(reported("prof report --stdio --no-children"), plain);
        assert_eq!(reported("prof report --children").sort, SortKey::TotalWeight);
        assert_eq!(reported("prof report --percent-limit 2").min_percent, Some(2.0));
        let plain = recorded("prof record --call-graph dwarf -F 99 -a");
        assert_eq!(recorded("prof record -g --call-graph dwarf,65528 --freq 99 --all-cpus"), plain);
        assert_eq!(refused("prof record --call-graph dwarf,much -a").0, 2);
        assert_eq!(refused("prof record --call-graph fp,8 -a").0, 2);
    }

    #[test]
    fn other_words_of_perf_and_pprof_are_answered_with_those_of_prof() {
        for (line, answer) in [
            ("prof report -g", "prof has views for call graphs"),
            ("prof report --dso libc", "--module"),
            ("prof report --comm=x", "--thread"),
            ("prof report --symbol-filter=foo", "--focus"),
            ("prof report -F overhead", "columns"),
            ("prof report --header", "prof info"),
            ("prof report -k vmlinux", "saved in the recording"),
            ("prof report -T", "prof has a view for threads"),
            ("prof report --sort comm,dso,symbol", "--by"),
            ("prof report -top", "that is the report"),
            ("prof report --by label", "no labels"),
            ("prof script", "export"),
            ("prof stat", "-c 1"),
            ("prof list", "help of record"),
            ("prof archive", "any machine"),
            ("prof sched", "waiting for a CPU"),
            ("prof mem", "does not sample"),
            ("prof -top", "that is the report"),
            ("prof -list=foo", "prof annotate"),
            ("prof -http=:8080", "export"),
            ("prof --web", "export"),
            ("prof record --strict-freq true", "lowered"),
            ("prof record -m 128 true", "buffers"),
            ("prof record -b true", "branches"),
            ("prof record --per-thread true", "distinguished"),
        ] {
            let (status, text) = refused(line);
            assert_eq!(status, 2, "{line}");
            assert!(text.contains(answer) && !text.contains("similar"), "{line}: {text}");
        }
        let Err(Stop::Failed(failure)) = parsed("prof report --comm nginx") else { panic!("not refused") };
        assert_eq!(failure.hints, ["--thread '^nginx$'"]);
        let Err(Stop::Failed(failure)) = parsed("prof report --list main") else { return };
        panic!("two dashes and a word of prof report are no word of pprof: {failure}");
    }

    #[test]
    fn filters_on_modules_processes_and_shown_functions_are_translated() {
        let filter =
            reported("prof report --module libc --process nginx --show ^main --relative").common.filter;
        assert_eq!((filter.module.as_deref(), filter.show.as_deref()), (Some("libc"), Some("^main")));
        assert_eq!(filter.threads, [ThreadFilter::OfProcessesMatching("nginx".into())]);
        assert!(filter.relative);
    }
}
