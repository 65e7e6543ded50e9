//! The words themselves, tool by tool.

use crate::base::failure::Failure;

/// Word of another tool, and the answer to it.
pub(super) struct Foreign {
    /// The word, with its other forms.
    pub(super) words: &'static [&'static str],
    /// Text on what prof has in its place, or why it has nothing.
    answer: &'static str,
    /// Hints on what to type; `{}` is the value that was given.
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
pub(super) const PERF_COMMANDS: [Foreign; 11] = [
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
    word(&["evlist"], "prof info lists the events of a recording", &["prof info"]),
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
pub(super) const PERF_REPORT: [Foreign; 25] = [
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
    word(
        &["--show-nr-samples", "--show-total-period"],
        "all numbers of a row are in the output for programs",
        &["prof report --tsv", "the order by samples:  --sort count"],
    ),
    word(&["-t", "--field-separator"], "fields are separated by tabs with --tsv", &["prof report --tsv"]),
    word(
        &["--hierarchy"],
        "prof has a view for each level",
        &["--by process, --by thread, --by module", "callers above what they call:  prof report --tree"],
    ),
    word(
        &["--group", "--group-sort-idx", "--skip-empty"],
        "each event is shown by itself",
        &["which there are:  prof info", "one of them:  prof report -e EVENT"],
    ),
    word(
        &["--inline", "--demangle", "--source", "-q", "--quiet", "-v", "--verbose", "-f", "--force"],
        "a report needs no such option, and its notes say what it could not do",
        &["leave it out"],
    ),
    word(&["--no-demangle"], "names can be shown as they are in the symbol table", &["--names raw"]),
    word(
        &["-l", "--print-line", "--full-source-path", "-P", "--full-paths"],
        "lines are shown with their files",
        &["prof annotate FUNCTION", "a row for each line:  prof report --by line"],
    ),
    word(
        &["--no-source", "--asm-raw"],
        "prof annotate shows both source and machine code, as far as they are there",
        &["prof annotate FUNCTION"],
    ),
];

/// Options of perf annotate, besides those of [`PERF_REPORT`].
pub(super) const PERF_ANNOTATE: [Foreign; 8] = [
    word(&["-s", "--symbol"], "the function is named without an option", &["prof annotate '{}'"]),
    word(
        &["-M", "--disassembler-style"],
        "the syntax of instructions is an option of its own",
        &["prof annotate FUNCTION --intel", "prof annotate FUNCTION --att"],
    ),
    word(
        &["--no-source", "--asm-raw"],
        "instructions alone are shown with --asm",
        &["prof annotate FUNCTION --asm"],
    ),
    word(
        &["--prefix", "--prefix-strip"],
        "source files are found by the ends of their paths",
        &["prof annotate FUNCTION --source-dir DIR"],
    ),
    word(
        &["--objdump", "--addr2line", "--skip-missing", "--ignore-vmlinux"],
        "code and line numbers are in the recording, and prof disassembles them itself",
        &["leave it out"],
    ),
    word(
        &["--percent-type"],
        "percentages are of the whole recording; with --relative, of what the filters keep",
        &["prof annotate FUNCTION --relative"],
    ),
    word(
        &["--data-type", "--type-stat", "--insn-stat", "--code-with-type"],
        "prof does not sample data addresses",
        &["cost by instruction:  prof annotate FUNCTION --asm"],
    ),
    word(
        &["--print-line", "-l", "--full-paths", "-P"],
        "lines are shown with their files",
        &["prof annotate FUNCTION", "source lines alone:  prof annotate FUNCTION --source"],
    ),
];

/// Options of perf diff, besides those of [`PERF_REPORT`].
pub(super) const PERF_DIFF: [Foreign; 6] = [
    word(
        &["-c", "--compute"],
        "each row has its difference and its relative change; the unit of both sides is chosen by --per, the order by --sort",
        &["as shares of the total:  --per share", "by relative change:  --sort change"],
    ),
    word(
        &["-b", "--baseline-only", "--baseline"],
        "the first recording is the base; what only one of both has is marked as new or gone",
        &["prof diff BASE NEW"],
    ),
    word(
        &["-p", "--period", "-F", "--formula"],
        "the values of both sides are in the output for programs",
        &["prof diff BASE NEW --tsv", "prof diff BASE NEW --json"],
    ),
    word(&["--order"], "the order is chosen by --sort", &["--sort self|total|change|p"]),
    word(&["--stream", "--cycles-hist"], "prof does not sample branches", &["call paths:  --tree"]),
    word(&["-C", "--comms"], "threads are chosen by --thread, a regular expression", &["--thread '^{}$'"]),
];

/// Options of perf record.
pub(super) const PERF_RECORD: [Foreign; 11] = [
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

/// Options of pprof.
pub(super) const PPROF: [Foreign; 28] = [
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
    word(&["flat"], "the order is chosen by --sort", &["prof report --sort self"]),
    word(&["peek"], "that is the report's --peek", &["prof report --peek '{}'"]),
    word(&["focus"], "that is the report's --focus", &["prof report --focus '{}'"]),
    word(&["ignore"], "that is the report's --ignore", &["prof report --ignore '{}'"]),
    word(&["hide"], "that is the report's --hide", &["prof report --hide '{}'"]),
    word(&["show"], "that is the report's --show", &["prof report --show '{}'"]),
    word(
        &["show_from", "prune_from", "noinlines", "no_inlines"],
        "stacks are changed by other options",
        &[
            "only what a function calls:  --focus REGEX",
            "without functions:  --hide REGEX",
            "without inlined ones:  --no-inline",
        ],
    ),
    word(
        &["tagfocus"],
        "samples are chosen by a label with --label, by their thread with --thread",
        &["prof report --label KEY=REGEX", "threads:  --thread REGEX", "processes:  --process REGEX"],
    ),
    word(
        &["tagignore", "tagshow", "taghide", "tagroot", "tagleaf", "tags"],
        "labels of samples are neither shown nor frames; --label chooses samples by them",
        &["the keys:  prof info", "prof report --label KEY=REGEX"],
    ),
    word(&["relative_percentages"], "percentages are of the whole; --relative changes that", &["--relative"]),
    word(&["nodecount"], "the number of rows is chosen by -n", &["-n {}"]),
    word(&["nodefraction", "edgefraction"], "small rows are left out by --min-pct", &["--min-pct 0.5"]),
    word(
        &["functions", "filefunctions", "files", "lines", "addresses", "granularity"],
        "--by chooses what the rows of a report are",
        &["--by function|line|address|module|thread|process"],
    ),
    word(
        &["sample_index", "inuse_space", "inuse_objects", "alloc_space", "alloc_objects", "contentions"],
        "what is counted is chosen by its event",
        &["which there are:  prof info", "one of them:  prof report -e EVENT"],
    ),
    word(
        &["total_delay", "mean_delay", "mean"],
        "waits are shown with --off-cpu: time, number and the longest",
        &["prof report --off-cpu"],
    ),
    word(
        &["unit", "divide_by", "compact_labels", "trim", "trim_path", "drop_negative", "normalize"],
        "a report needs no such setting",
        &["leave it out", "exact numbers:  prof report --tsv"],
    ),
    word(
        &["seconds", "timeout"],
        "the length of a recording is chosen as it starts",
        &["prof record -d {}s -p PID"],
    ),
    word(
        &["symbolize", "tools", "buildid"],
        "names are in the recording",
        &["names that it lacks:  prof symbolize FILE"],
    ),
    word(&["callgrind"], "prof exports this format", &["prof export -o callgrind.out --format callgrind"]),
];

/// Keys by which perf sorts, and what makes rows of them.
pub(super) const SORT_KEYS: [(&[&str], &str); 9] = [
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

impl Foreign {
    /// The failure that starts with `start` and says what prof has, for the value that was given.
    pub(super) fn failure(&self, start: &str, value: &str) -> Failure {
        let value = if value.is_empty() { "NAME" } else { value };
        let failure = Failure::usage(format!("{start}: {}", self.answer));
        self.hints.iter().fold(failure, |failure, hint| failure.hint(hint.replace("{}", value)))
    }
}
