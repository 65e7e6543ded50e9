//! Words of perf and pprof that prof does not have, and what to write instead. Those with the same meaning are options of
//! their own, or other names of them; the parser's guesses at similar words are no help here. No option of prof is defined here.

mod words;

use crate::base::failure::Failure;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;
use words::{Foreign, PERF_ANNOTATE, PERF_COMMANDS, PERF_DIFF, PERF_RECORD, PERF_REPORT, PPROF, SORT_KEYS};

/// Answer to a word of another tool, instead of the parser's own words, if `error` is about one.
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
            let (own, others): (&[Foreign], &[Foreign]) = match verb {
                "record" | "live" | "top" => (&PERF_RECORD, &[]),
                "report" | "export" | "tui" => (&PERF_REPORT, &[]),
                "annotate" => (&PERF_ANNOTATE, &PERF_REPORT),
                "diff" => (&PERF_DIFF, &PERF_REPORT),
                _ => return None,
            };
            let typed = context(ContextKind::InvalidArg);
            let found = own.iter().chain(others).find(|foreign| foreign.words.contains(&typed))?;
            Some(found.failure(&format!("`{typed}` is perf's"), &value_of(arguments, typed)))
        }
        ErrorKind::InvalidValue if context(ContextKind::InvalidArg).starts_with("--sort") => {
            of_sort_keys(context(ContextKind::InvalidValue))
        }
        _ => None,
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

/// Answer to words of pprof that the parser would take for something else: `-hide=RE` for `-h`.
pub(super) fn mistaken(arguments: &[OsString]) -> Option<Failure> {
    let verb = arguments.get(1)?.to_str()?;
    // Other verbs may be followed by a command with words of its own.
    let is_read = verb.starts_with('-') || ["report", "export", "info", "annotate"].contains(&verb);
    is_read.then(|| of_pprof(arguments)).flatten()
}

/// `prof -top`, `prof report -list=RE`: options of pprof stand where prof has a command or an option.
fn of_pprof(arguments: &[OsString]) -> Option<Failure> {
    let is_reader =
        |word: &OsString| ["report", "tui", "export", "info", "annotate"].iter().any(|verb| word == verb);
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
        assert_eq!(parsed("prof annotate main --stdio").unwrap(), parsed("prof annotate main").unwrap());
        assert_eq!(refused("prof record --call-graph dwarf,much -a").0, 2);
        assert_eq!(refused("prof record --call-graph fp,8 -a").0, 2);
    }

    /// Command lines with words of perf and pprof, and what the answers to them contain.
    const OTHER_WORDS: &[(&str, &str)] = &[
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
        ("prof report --by label", "--by label:KEY"),
        ("prof report --show-nr-samples", "--tsv"),
        ("prof report -t ,", "--tsv"),
        ("prof report --hierarchy", "--by process"),
        ("prof report --no-demangle", "--names raw"),
        ("prof annotate -l main", "prof annotate FUNCTION"),
        ("prof annotate -s main", "prof annotate 'main'"),
        ("prof annotate --symbol=main", "prof annotate 'main'"),
        ("prof annotate main -M intel", "--intel"),
        ("prof annotate main --no-source", "--asm"),
        ("prof annotate main --prefix=/src", "--source-dir"),
        ("prof annotate main --objdump=objdump", "disassembles"),
        ("prof annotate main --percent-type=local-period", "--relative"),
        ("prof annotate main --data-type", "--asm"),
        ("prof annotate main --dsos=libc", "--module 'libc'"),
        ("prof diff -c ratio", "--sort change"),
        ("prof diff --compute=wdiff a b", "--per share"),
        ("prof diff --baseline a b", "prof diff BASE NEW"),
        ("prof diff -b", "prof diff BASE NEW"),
        ("prof diff --period a b", "--tsv"),
        ("prof diff --stream a b", "--tree"),
        ("prof diff -C git a b", "--thread '^git$'"),
        ("prof diff --symbols=main a b", "--focus 'main'"),
        ("prof evlist", "prof info"),
        ("prof report -peek=hash", "prof report --peek 'hash'"),
        ("prof report -show=hash", "--show 'hash'"),
        ("prof report -hide=hash", "--hide 'hash'"),
        ("prof report -ignore=hash", "--ignore 'hash'"),
        ("prof report -focus hash", "--focus 'hash'"),
        ("prof report -relative_percentages", "--relative"),
        ("prof report -nodecount=20", "-n 20"),
        ("prof report -lines", "--by function|line"),
        ("prof -sample_index=alloc_space x.pb.gz", "-e EVENT"),
        ("prof -tagfocus=x", "--label"),
        ("prof --focus x", "that is the report's --focus"),
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
    ];

    #[test]
    fn other_words_of_perf_and_pprof_are_answered_with_those_of_prof() {
        for (line, answer) in OTHER_WORDS {
            let hints = match parsed(line) {
                Err(Stop::Failed(failure)) => failure.hints.join("\n"),
                _ => String::new(),
            };
            let (status, text) = refused(line);
            let text = format!("{text}\n{hints}");
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
