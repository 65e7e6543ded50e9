//! Hostile names in every format.

use super::{FORMATS, bytes, options};
use crate::profile::{Reason, Waker, WakerKind};
use crate::report::analysis::Analysis;
use crate::report::export::tools::{perfetto, pprof};
use crate::report::options::{CommonOptions, ExportOptions};
use crate::report::tests::fixture::Build;
use crate::report::tests::hostile::hostile_names;

/// Uses every hostile name as a function, a module, a thread, a process, and in the facts.
fn hostile() -> Analysis {
    let mut build = Build::new();
    for (index, name) in hostile_names().iter().enumerate() {
        let pid = index as u32 + 1;
        let task = build.task(pid, pid, name, name);
        // The fixture's own separator cannot be in a path.
        let name = name.replace(':', "|");
        let stack = ["/bin/x:main".to_owned(), format!("/lib/{name}:{name}⇒{name}")];
        let stack: Vec<&str> = stack.iter().map(String::as_str).collect();
        build.add(task, 3, &stack);
        let waker = Waker { kind: WakerKind::Thread, task: Some(task), stack: None };
        build.thinned_wait(task, Reason::Lock, [0, 5_000_000, 6_000_000], &stack, waker);
        build.add(task, 2, &[&format!("/lib/{name}:+0x{index:x}"), "/lib/far.so:+0xffffffffffffffff"]);
    }
    let every: String = hostile_names().concat();
    let meta = build.meta();
    meta.target.clone_from(&every);
    meta.target_name.clone_from(&every);
    meta.command = hostile_names();
    meta.clock.clone_from(&every);
    meta.kernel.clone_from(&every);
    build.finish()
}

fn is_bad(c: char) -> bool {
    (c.is_control() && !"\n\t".contains(c))
        || ('\u{202a}'..='\u{202e}').contains(&c)
        || ('\u{2066}'..='\u{2069}').contains(&c)
}

fn text(recording: &Analysis, name: &str) -> String {
    let bytes = bytes(recording, name, &options(None));
    match name {
        "pprof" => pprof::decoded::strings(&bytes).join("\n"),
        "perfetto" => perfetto::decoded::text(&bytes),
        _ => String::from_utf8(bytes).unwrap(),
    }
}

#[test]
fn no_name_drives_a_terminal_or_ends_an_element() {
    let recording = hostile();
    for name in FORMATS {
        let text = text(&recording, name);
        assert_eq!(text.chars().find(|c| is_bad(*c)), None, "{name}");
        let is_json = ["speedscope", "firefox", "json"].contains(&name);
        assert!(!is_json || !text.contains("</script"), "{name}");
    }
}

#[test]
fn json_of_any_names_is_json() {
    let recording = hostile();
    for name in ["speedscope", "firefox", "json"] {
        let value: serde_json::Value = serde_json::from_str(&text(&recording, name)).unwrap();
        assert!(value.is_object(), "{name}");
    }
    let value: serde_json::Value = serde_json::from_str(&text(&recording, "json")).unwrap();
    let names: Vec<&str> =
        value["rows"].as_array().unwrap().iter().map(|row| row["thread"].as_str().unwrap()).collect();
    // Files for programs have the names unchanged.
    assert!(hostile_names().iter().all(|name| names.contains(&name.as_str())));
}

#[test]
fn every_line_of_text_formats_is_one_of_theirs() {
    let recording = hostile();
    let is_callgrind = |line: &str| {
        let starts = ["#", "version: ", "creator: ", "cmd: ", "desc: ", "positions: ", "event: ", "events: "];
        let others = ["summary: ", "totals: ", "ob=(", "fl=(", "fn=(", "cob=(", "cfi=(", "cfn=(", "calls=1 "];
        line.is_empty()
            || starts.iter().chain(&others).any(|start| line.starts_with(start))
            || line.split(' ').all(|word| !word.is_empty() && word.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let callgrind = text(&recording, "callgrind");
    assert_eq!(callgrind.lines().find(|line| !is_callgrind(line)), None);
    let script = text(&recording, "perf-script");
    let is_frame = |line: &str| line.starts_with('\t') && line.ends_with(')') && line.contains(" (");
    let is_head = |line: &str| line.ends_with(": ") && line.contains("] 0.") && !line.starts_with(['#', ' ']);
    let wrong = script.lines().find(|line| !(line.is_empty() || is_frame(line) || is_head(line)));
    assert_eq!(wrong, None);
}

#[test]
fn weights_that_cannot_be_real_do_not_stop_an_export() {
    let mut build = Build::new();
    let task = build.task(u32::MAX, u32::MAX, "t", "p");
    let stack = ["/x:main", "/x:main", "/x:+0xffffffffffffffff"];
    for _ in 0..2 {
        build.thinned_wait(task, Reason::NoCpu, [u64::MAX, u64::MAX, u64::MAX], &stack, Waker::default());
    }
    build.thread_time(task, u64::MAX, u64::MAX, u64::MAX);
    build.short_waits(Reason::Lock, u64::MAX, u64::MAX);
    build.meta().start_mono_ns = u64::MAX;
    build.meta().start_unix_ns = u64::MAX;
    let recording = build.finish();
    for name in FORMATS {
        for count in [false, true] {
            let options =
                ExportOptions { count, common: CommonOptions::default(), ..ExportOptions::default() };
            assert!(!bytes(&recording, name, &options).is_empty(), "{name}");
        }
    }
}
