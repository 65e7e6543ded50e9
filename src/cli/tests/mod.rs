use super::*;
use crate::record::{CallGraph, Output, Rate, RecordOptions, Sampler, Target, WaitOptions};
use crate::report::{
    ExportFormat, Format, Grouping, Input, LabelPattern, Metric, NameStyle, ReportDestination, ReportOptions,
    ReportView, SortKey, Space, ThreadFilter, TimeRange,
};
use std::time::Duration;

mod compare;
mod screens;

pub(super) fn parsed(line: &str) -> Result<Request, Stop> {
    parse(line.split(' ').map(OsString::from))
}

pub(super) fn recorded(line: &str) -> RecordOptions {
    match parsed(line) {
        Ok(Request::Record(options)) => options,
        other => panic!("{line}: {other:?}"),
    }
}

pub(super) fn reported(line: &str) -> ReportOptions {
    match parsed(line) {
        Ok(Request::Report(options)) => options,
        other => panic!("{line}: {other:?}"),
    }
}

/// Exit status and text of a command line that is refused.
pub(super) fn refused(line: &str) -> (u8, String) {
    match parsed(line) {
        Err(Stop::Shown(error)) => (error.exit_code() as u8, error.to_string()),
        Err(Stop::Failed(failure)) => (failure.status, failure.message),
        Ok(request) => panic!("{line}: {request:?}"),
    }
}

fn words(text: &str) -> Vec<OsString> {
    text.split(' ').map(OsString::from).collect()
}

#[test]
fn the_definition_is_consistent() {
    command().debug_assert();
}

#[test]
fn without_a_verb_there_is_an_overview_of_a_dozen_lines() {
    let Ok(Request::Choose(Choose { typed, instead: Instead::Print(text) })) = parsed("prof") else {
        panic!("no overview")
    };
    assert!(typed.is_empty());
    assert!((9..=13).contains(&text.lines().count()));
    assert_eq!(text.lines().filter(|line| line.starts_with("  prof ")).count(), 6);
}

#[test]
fn a_live_view_without_a_target_asks_for_one_and_keeps_what_was_typed() {
    let Ok(Request::Choose(choose)) = parsed("prof top --off-cpu -F 99") else { panic!("no question") };
    assert_eq!(choose.typed, ["top", "--off-cpu", "-F", "99"]);
    assert!(matches!(&choose.instead, Instead::Refuse(failure) if failure.message == "nothing to record"));
    // What makes no sense with any target is said at once.
    assert!(parsed("prof live -e nothing").is_err());
}

#[test]
fn record_has_defaults_from_one_place() {
    let expected = RecordOptions {
        target: Target::Pids(vec![1, 2]),
        events: vec![Sampler::Clock, Sampler::Waits(WaitOptions::default())],
        ..RecordOptions::default()
    };
    assert_eq!(recorded("prof record -p 1,2"), expected);
}

#[test]
fn every_target_can_be_named() {
    assert_eq!(recorded("prof record -t 7").target, Target::Tids(vec![7]));
    assert_eq!(recorded("prof record --name ^post").target, Target::Name("^post".into()));
    assert_eq!(recorded("prof record -a").target, Target::System);
    assert_eq!(recorded("prof record ls -l --help").target, Target::Launch(words("ls -l --help")));
    assert_eq!(recorded("prof record -F 49 -- ls -p 3").target, Target::Launch(words("ls -p 3")));
}

#[test]
fn a_command_with_a_target_is_the_timer() {
    let options = recorded("prof record -p 5 -- sleep 30");
    assert_eq!(options.target, Target::Pids(vec![5]));
    assert_eq!(options.timer, Some(words("sleep 30")));
    assert_eq!(recorded("prof record -a sleep 3").timer, Some(words("sleep 3")));
}

#[test]
fn record_options_are_translated() {
    let options = recorded(
        "prof record -g -e cpu -F max -d 1m30s -D 0.5 --call-graph fp --user-only --no-children \
         -o out.data -f -v --table-budget 1GiB -p 1",
    );
    assert_eq!(options.rate, Rate::Max);
    assert_eq!(options.duration, Some(Duration::from_secs(90)));
    assert_eq!(options.delay, Some(Duration::from_millis(500)));
    assert_eq!(options.call_graph, CallGraph::FramePointer);
    assert!(options.user_only && options.verbose && !options.quiet);
    assert_eq!(options.output, Output::File { path: "out.data".into(), force: true });
    assert_eq!(options.table_budget_bytes, 1 << 30);
    assert_eq!(recorded("prof record -o - -a").output, Output::Stdout);
}

/// Detail 1 of the promises: every wait is recorded, with its reason, its place and its waker.
#[test]
fn processes_have_their_waits_recorded_unless_told_otherwise() {
    for line in ["prof record -p 1", "prof record -t 1", "prof record --name x", "prof record ls"] {
        let options = recorded(line);
        assert!(options.on_cpu());
        assert_eq!(options.waits(), Some(&WaitOptions::default()), "{line}");
    }
    assert_eq!(recorded("prof record -a").waits(), None);
    assert_eq!(recorded("prof record -a -e cpu,off").waits(), Some(&WaitOptions::default()));
    let options = recorded("prof record -e cpu -p 1");
    assert!(options.on_cpu() && options.waits().is_none());
    let options = recorded("prof record -e off --min-block 20us --max-overhead 0.5% -p 1");
    assert!(!options.on_cpu());
    let waits = options.waits().expect("asked for");
    assert_eq!((waits.min_block, waits.max_overhead_ppm), (Duration::from_micros(20), 5_000));
    assert_eq!(
        recorded("prof record --max-overhead 0 ls").waits().map(|waits| waits.max_overhead_ppm),
        Some(0)
    );
}

#[test]
fn a_command_may_be_run_as_another_user() {
    assert_eq!(recorded("prof record ls").run_as, None);
    assert_eq!(recorded("prof record --run-as 7 ls").run_as.as_deref(), Some("7"));
    assert_eq!(recorded("prof record --run-as me -p 1 sleep 1").run_as.as_deref(), Some("me"));
    let (status, text) = refused("prof record --run-as me -p 1");
    assert!(status == 2 && text.contains("there is no command to run"), "{text}");
}

#[test]
fn what_cannot_be_recorded_is_refused_with_a_reason() {
    for (line, expected) in [
        ("prof record", "nothing to record"),
        ("prof record -e cycels -p 1", "no such event; known events are cpu, off,"),
        ("prof record -c 0 -e cycles ls", "how many events make a sample"),
        ("prof record -c 9 -p 1", "-e names none"),
        (
            "prof record -e page-faults -c 5 -F 99 ls",
            "-F and -c both say how often -e page-faults is sampled",
        ),
        (
            "prof record --user-only -e cs:k -p 1",
            "--user-only leaves nothing to record of `context-switches:k`",
        ),
        ("prof record --max-overhead 101% -p 1", "must be from 0% to 100%"),
        ("prof record --max-overhead much -p 1", "write a percentage"),
        ("prof record --min-block soon -p 1", "write 30s"),
        ("prof record --min-block 5 -p 1", "write the unit"),
        ("prof record -F 0 -p 1", "samples per second"),
        ("prof record -d 0 -p 1", "must be longer than 0"),
        ("prof record -d 1e300 -p 1", "write 30s"),
        ("prof record -d soon -p 1", "write 30s"),
        ("prof record -p 0", "`0` is not a process id"),
        ("prof record -p 1 -a", "cannot be used with"),
        ("prof record --name ( ls", "not a regular expression: unclosed group"),
        ("prof record --table-budget 1kB -a", "at least 1MiB"),
        ("prof record -q -v -a", "cannot be used with"),
        ("prof record --frequncy 9 ls", "--frequency"),
    ] {
        let (status, text) = refused(line);
        assert_eq!(status, 2, "{line}");
        assert!(text.contains(expected), "{line}: {text}");
    }
}

#[test]
fn ids_may_be_separated_by_whatever_pgrep_prints() {
    let pids = |text: &str| {
        let Ok(Request::Record(options)) = parse(["prof", "record", "-p", text].map(OsString::from)) else {
            panic!("{text:?}")
        };
        options.target
    };
    for text in ["21,22", "21 22", "21\n22\n", " 21, 22 ", "21\t22,"] {
        assert_eq!(pids(text), Target::Pids(vec![21, 22]), "{text:?}");
    }
    assert_eq!(recorded("prof record -t 3,3 -t 3").target, Target::Tids(vec![3]), "one thread is one");
    assert_eq!(recorded("prof record -p 1 -p 2,3").target, Target::Pids(vec![1, 2, 3]));
    let threads = reported("prof report --pid 1,2 --pid 3").common.filter.threads;
    assert_eq!(threads, [ThreadFilter::OfProcesses(vec![1, 2, 3])]);
    let Ok(Request::Live(options)) = parse(["prof", "tui", "-p", "21\n22"].map(OsString::from)) else {
        panic!("not live")
    };
    assert_eq!(options.record.target, Target::Pids(vec![21, 22]));
}

/// Message and hints of a command line that is refused.
fn explained(line: &[&str]) -> String {
    match parse(line.iter().map(OsString::from)) {
        Err(Stop::Shown(error)) => error.to_string(),
        Err(Stop::Failed(failure)) => [&[failure.message], &failure.hints[..]].concat().join("\n"),
        Ok(request) => panic!("{line:?}: {request:?}"),
    }
}

#[test]
fn what_a_shell_makes_of_pgrep_is_explained() {
    for verb in ["record", "live", "top"] {
        // Two numbers without quotes: the second one would be a command.
        let text = explained(&["prof", verb, "-p", "21", "22", "23"]);
        assert!(text.contains("`22` looks like another process id"), "{text}");
        assert!(text.contains("-p 21,22,23") && text.contains("\"$(pgrep "), "{text}");
        let text = explained(&["prof", verb, "-t", "21", "22"]);
        assert!(text.contains("`22` looks like another thread id") && text.contains("-t 21,22"), "{text}");
    }
    let text = explained(&["prof", "tui", "-p", "21", "22"]);
    assert!(text.contains("`22` looks like another process id") && text.contains("-p 21,22"), "{text}");
    // A number alone, where no other target or command is.
    let own = std::process::id().to_string();
    for line in [&["prof", "record", &own][..], &["prof", "record", "-a", &own], &["prof", "live", &own]] {
        let text = explained(line);
        assert!(text.contains(&format!("`{own}` is a running process, not a command")), "{text}");
        assert!(text.contains(&format!("prof {} -p {own}", line[1])), "{text}");
    }
    // No process of that name: nothing, or nothing between quotes.
    for line in
        [&["prof", "record", "-p"][..], &["prof", "record", "-p", ""], &["prof", "tui", "-p", "-d", "1s"]]
    {
        let text = explained(line);
        assert!(text.contains("no process id") && text.contains("pgrep"), "{line:?}: {text}");
    }
    // A program of that name can still be started.
    assert_eq!(recorded("prof record -p 1 ./22").timer, Some(words("./22")));
}

#[test]
fn a_name_where_an_id_belongs_points_to_the_option_for_names() {
    let text = explained(&["prof", "record", "-p", "no-such-process"]);
    assert!(text.contains("`no-such-process` is not a process id"), "{text}");
    assert!(text.contains("--name '^no-such-process$' (no process has that name)"), "{text}");
    assert!(explained(&["prof", "record", "-t", "abc"]).contains("`abc` is not a thread id"));
}

#[test]
fn a_second_profile_and_a_slip_are_told_apart() {
    let text = explained(&["prof", "report", "a.data", "b.data"]);
    assert!(text.contains("takes one profile") && text.contains("`b.data`"), "{text}");
    let Ok(Request::Tui(options)) = parse(["prof", "tui", "a.data", "b.data"].map(OsString::from)) else {
        panic!("two profiles are compared")
    };
    let file = |name: &str| Input::File(name.into());
    assert_eq!((options.base, options.common.input), (Some(file("a.data")), file("b.data")));
    assert!(explained(&["prof", "tui", "a.data", "b.data", "c.data"]).contains("c.data"));
    assert!(explained(&["prof", "tui", "a.data", "b.data", "-p", "1"]).contains("cannot be used with"));
    assert!(explained(&["prof", "recrod", "ls"]).contains("'record'"), "a slip is still one");
}

#[test]
fn rows_of_locks_are_refused_where_there_are_none() {
    for line in [
        "prof report --by holder",
        "prof diff --by holder a.data b.data",
        "prof tui --by waiter a.data",
        "prof bench --by holder --base a --new b",
    ] {
        let (status, message) = refused(line);
        assert!(status == 2 && message.contains("is about waits for locks"), "{line}: {status} {message}");
    }
}

#[test]
fn numbers_that_cannot_be_are_refused_in_words() {
    for (line, expected) in [
        ("prof record -p -1", "`-1` is not a process id"),
        ("prof record -d -1 -p 1", "write 30s"),
        ("prof record -D -1s -p 1", "write 30s"),
        ("prof record -F -5 -p 1", "samples per second"),
        ("prof report -n -1", "write a number of rows"),
        ("prof report -n abc", "write a number of rows"),
        // What runs here now says nothing of a recording.
        ("prof report --pid abc", "`abc` is not a process id; recorded processes: prof report --by process"),
        ("prof report --cpu x", "write CPU numbers"),
        ("prof report --min-pct -1", "from 0 to 100"),
        ("prof report --label =held", "write KEY, or KEY=REGEX for its value"),
        ("prof report --label gil=(", "not a regular expression"),
        ("prof doctor -p abc", "`abc` is not a process id"),
    ] {
        let (status, text) = refused(line);
        assert_eq!(status, 2, "{line}");
        assert!(text.contains(expected), "{line}: {text}");
        assert!(!text.contains("'-- -") && !text.contains("invalid digit"), "{line}: {text}");
    }
}

#[test]
fn children_that_are_there_already_are_recorded_when_asked_for() {
    use crate::record::Children;
    assert_eq!(recorded("prof record -p 1").children, Children::New);
    assert_eq!(recorded("prof record -p 1 --children").children, Children::All);
    assert_eq!(recorded("prof record -p 1 --no-children").children, Children::None);
    assert_eq!(refused("prof record -p 1 --children --no-children").0, 2);
    let Ok(Request::Live(options)) = parsed("prof live --children -p 7") else { panic!("not live") };
    assert_eq!(options.record.children, Children::All);
}

#[test]
fn options_behind_the_command_are_noticed() {
    let stray = |line: &str| recorded(line).stray_options;
    assert_eq!(stray("prof record ./busy 0.1 -o out.data"), ["-o out.data"]);
    assert_eq!(stray("prof record ./busy -d 10s"), ["-d 10s"]);
    assert_eq!(stray("prof record ./busy -F 99 --user-only"), ["-F 99", "--user-only"]);
    assert_eq!(stray("prof record -p 5 sleep 10 -d 5s"), ["-d 5s"]);
    assert_eq!(stray("prof record ./busy --duration=10s"), ["--duration=10s"]);
    // What may well be meant for the command, or was said to be.
    for line in [
        "prof record gcc -o x x.c",
        "prof record ls -d -p",
        "prof record -- ./busy 0.1 -o out.data",
        "prof record grep -e cpu-clock -F 9 --quiet",
        "prof record ./busy",
    ] {
        assert_eq!(stray(line), [""; 0], "{line}");
    }
}

#[test]
fn standard_output_can_be_named_by_its_file() {
    assert_eq!(recorded("prof record -o /dev/stdout -a").output, Output::Stdout);
    let Ok(Request::Export(options)) = parsed("prof export -o /dev/stdout --format svg") else {
        panic!("no export")
    };
    assert_eq!(options.destination, ReportDestination::Stdout);
}

#[test]
fn a_misspelt_verb_gets_a_suggestion() {
    let (status, text) = refused("prof recrod ls");
    assert_eq!(status, 2);
    assert!(text.contains("'record'"), "{text}");
}

#[test]
fn help_starts_with_examples() {
    for line in ["prof --help", "prof record --help", "prof report -h", "prof help export", "prof info -h"] {
        let (status, text) = refused(line);
        assert_eq!(status, 0, "{line}");
        let examples = text.find("Examples:").unwrap_or_else(|| panic!("{line}: {text}"));
        let usage = text.find("Usage:").unwrap_or_else(|| panic!("{line}: {text}"));
        assert!(examples < usage, "{line}");
    }
    let (_, text) = refused("prof record --help");
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains("[default: 999 for processes, threads and commands, 99 for -a]"), "{text}");
    assert!(text.contains("[default: 256MiB]"), "{text}");
}

#[test]
fn a_report_without_options_is_the_default() {
    assert_eq!(reported("prof report"), ReportOptions::default());
    let options = reported("prof report --flat --on-cpu");
    assert_eq!((options.view, options.common.metric), (ReportView::Flat, Some(Metric::ON_CPU)));
}

#[test]
fn report_options_are_translated() {
    let options = reported(
        "prof report old.data --bottom-up --focus a --ignore b --hide c --thread d --pid 1,2 --tid 3 --cpu 0 \
         --time 2s..5s --user --by line --no-inline --names raw --sort total -n 0 --min-pct 2.5% --tsv",
    );
    assert_eq!(options.view, ReportView::BottomUp);
    assert_eq!(options.format, Format::Tsv);
    assert_eq!((options.sort, options.rows, options.min_percent), (SortKey::TotalWeight, Some(0), Some(2.5)));
    let common = options.common;
    assert_eq!(common.input, Input::File("old.data".into()));
    assert_eq!((common.grouping, common.inline, common.names), (Grouping::Line, false, Some(NameStyle::Raw)));
    let filter = common.filter;
    assert_eq!(filter.focus.as_deref(), Some("a"));
    assert_eq!(filter.ignore.as_deref(), Some("b"));
    assert_eq!(filter.hide.as_deref(), Some("c"));
    let [named, pids, tids] =
        [ThreadFilter::named("d"), ThreadFilter::OfProcesses(vec![1, 2]), ThreadFilter::Ids(vec![3])];
    assert_eq!((filter.threads, filter.cpus), (vec![named, pids, tids], vec![0]));
    let range = TimeRange { from_ns: Some(2_000_000_000), to_ns: Some(5_000_000_000) };
    assert_eq!((filter.time, filter.space), (range, Space::User));
}

#[test]
fn a_filter_that_is_given_several_times_means_any_of_them() {
    let filter = reported(
        "prof report --module libz --module ^libc --focus a --focus (?i)B|C --thread w1 --thread w2 --process x --process y \
         --ignore i --ignore j --hide h --hide k --show s --show t",
    )
    .common
    .filter;
    let of = |pattern: &Option<String>| pattern.clone().unwrap();
    assert_eq!((of(&filter.module), of(&filter.focus)), ("libz|^libc".into(), "a|(?:(?i)B|C)".into()));
    assert_eq!(
        (of(&filter.ignore), of(&filter.hide), of(&filter.show)),
        ("i|j".into(), "h|k".into(), "s|t".into())
    );
    let label =
        |key: &str, value: Option<&str>| LabelPattern { key: key.into(), value: value.map(Into::into) };
    let labels = reported("prof report --label gil=^held$ --label tenant --label a=b=c").common.filter.labels;
    assert_eq!(labels, [label("gil", Some("^held$")), label("tenant", None), label("a", Some("b=c"))]);
    let processes = ThreadFilter::OfProcessesMatching("x|y".into());
    assert_eq!(filter.threads, [ThreadFilter::named("w1|w2"), processes]);
    // Each is checked for itself: two halves are no whole.
    assert!(parsed("prof report --focus (a --focus b)").is_err());
}

#[test]
fn the_time_that_is_shown_can_be_chosen() {
    let metric = |line: &str| reported(line).common.metric;
    assert_eq!(metric("prof report"), None);
    assert_eq!(metric("prof report --off-cpu"), Some(Metric::OFF_CPU));
    assert_eq!(metric("prof report --wall --tree"), Some(Metric::WALL));
    assert!(reported("prof report --off-cpu --idle").common.filter.idle);
    let Ok(Request::Export(options)) = parsed("prof export -o a.svg --wall --idle") else {
        panic!("no export")
    };
    assert_eq!(
        (options.options.common.metric, options.options.common.filter.idle),
        (Some(Metric::WALL), true)
    );
    for line in ["prof report --off-cpu --on-cpu", "prof export -o a.svg --wall --off-cpu"] {
        assert_eq!(refused(line).0, 2, "{line}");
    }
}

#[test]
fn inputs_can_be_named_as_perf_does_or_piped() {
    assert_eq!(reported("prof report -i x").common.input, Input::File("x".into()));
    assert_eq!(reported("prof report -").common.input, Input::Stdin);
    assert_eq!(refused("prof report -i x y").0, 2);
}

#[test]
fn views_formats_and_spaces_exclude_each_other() {
    for line in ["prof report --tree --flat", "prof report --json --tsv", "prof report --user --kernel"] {
        assert_eq!(refused(line).0, 2, "{line}");
    }
    for line in ["prof report --time 5s..2s", "prof report --time 5s", "prof report --min-pct nan"] {
        assert_eq!(refused(line).0, 2, "{line}");
    }
}

#[test]
fn the_ending_decides_the_export_format() {
    let exported = |line: &str| match parsed(line) {
        Ok(Request::Export(options)) => options,
        other => panic!("{line}: {other:?}"),
    };
    assert_eq!(exported("prof export -o a.SVG").format, ExportFormat::SVG);
    assert_eq!(exported("prof export -o a.folded --count").format, ExportFormat::FOLDED);
    let forced = exported("prof export x.data -f -o a.txt --format folded");
    assert_eq!(forced.destination, ReportDestination::File { path: "a.txt".into(), force: true });
    assert_eq!(exported("prof export -o - --format svg").destination, ReportDestination::Stdout);
    let (status, text) = refused("prof export -o a.png");
    assert_eq!((status, text.as_str()), (2, "cannot tell the format of `a.png` from its ending"));
    assert_eq!(refused("prof export -o -").0, 2);
    assert_eq!(refused("prof export").0, 2);
}

#[test]
fn completions_are_scripts_for_the_shell() {
    for shell in ["bash", "zsh", "fish"] {
        let Ok(Request::Completions(script)) = parsed(&format!("prof completions {shell}")) else {
            panic!("no script for {shell}");
        };
        assert!(script.contains("--call-graph") || script.contains("call-graph"), "{shell}");
    }
    assert_eq!(refused("prof completions cmd").0, 2);
}
