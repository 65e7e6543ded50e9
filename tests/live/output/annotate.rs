//! `prof annotate`: instructions and lines against binutils and LLVM, sums against the report, and the same on a machine that has
//! neither the program nor its source.

use crate::harness::fixture;
use crate::harness::machine::{skip, tool, turn};
use crate::harness::profiler::{Recording, messages, prof, text, with_own_mounts};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use tempfile::TempDir;

/// A recording, and the folder with the program and its source.
struct Annotated {
    recording: Recording,
    folder: TempDir,
}

impl Annotated {
    fn program(&self) -> PathBuf {
        self.folder.path().join("annotated")
    }

    fn annotate(&self, arguments: &[&str]) -> std::process::Output {
        let mut command = prof();
        command.arg("annotate").args(arguments).arg("-i").arg(self.recording.file());
        command.output().expect("`timeout` can be run")
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let output = self.annotate(&[arguments, &["--json"]].concat());
        assert!(output.status.success(), "{}", messages(&output));
        serde_json::from_slice(&output.stdout).expect("it is JSON")
    }
}

/// One recording for all tests; `None`, after saying so, where it cannot be made.
fn annotated() -> Option<&'static Annotated> {
    static MADE: OnceLock<Option<Annotated>> = OnceLock::new();
    MADE.get_or_init(|| {
        let _turn = turn()?;
        if tool("g++").is_none() {
            return skip("g++ is not installed");
        }
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        let source = folder.path().join("annotated.cpp");
        std::fs::copy(fixture::sources().join("annotated.cpp"), &source).expect("it can be copied");
        let program = folder.path().join("annotated");
        // With the folder in its path, as the compiler of a user has it.
        let built = Command::new("g++").args(["-O2", "-g", "-o"]).arg(&program).arg(&source).status();
        assert!(built.expect("g++ can be run").success());
        let program_name = program.to_str().expect("its path is text").to_owned();
        let recording = Recording::with(["--embed-source", "--", &program_name, "2"]);
        Some(Annotated { recording, folder })
    })
    .as_ref()
}

fn list(value: &Value) -> &Vec<Value> {
    value.as_array().expect("a list")
}

fn string<'v>(value: &'v Value, field: &str) -> &'v str {
    value[field].as_str().expect("a text")
}

fn numbers<'v>(values: &'v Value, field: &'v str) -> impl Iterator<Item = u64> + 'v {
    list(values).iter().map(move |value| value[field].as_u64().unwrap_or(0))
}

#[test]
fn instructions_are_those_of_objdump() {
    let Some(annotated) = annotated() else { return };
    if tool("objdump").is_none() {
        skip::<()>("objdump is not installed");
        return;
    }
    for (function, syntax, theirs) in
        [("work", "--intel", "intel"), ("work", "--att", "att"), ("divide", "--att", "att")]
    {
        let json = annotated.json(&[function, syntax]);
        let code = &json["code"][0];
        let (from, length) = (code["address"].as_u64().unwrap(), code["length"].as_u64().unwrap());
        assert_eq!(code["function_bytes"].as_u64(), Some(length), "the whole function is kept");
        let output = Command::new("objdump")
            .args(["-d", "--no-show-raw-insn", "-M", theirs])
            .arg(format!("--start-address={from:#x}"))
            .arg(format!("--stop-address={:#x}", from + length))
            .arg(annotated.program())
            .output()
            .expect("objdump can be run");
        let listed = text(&output);
        let expected: Vec<(u64, &str)> = (listed.lines())
            .filter_map(|line| {
                let (address, text) = line.trim_start().split_once(":\t")?;
                Some((u64::from_str_radix(address, 16).ok()?, text.trim()))
            })
            .collect();
        let found: Vec<(u64, &str)> = (json["instructions"].as_array().unwrap().iter())
            .map(|at| (at["address"].as_u64().unwrap(), at["text"].as_str().unwrap_or("")))
            .collect();
        assert!(found.len() > 3, "{json}");
        let addresses = |all: &[(u64, &str)]| all.iter().map(|(address, _)| *address).collect::<Vec<_>>();
        assert_eq!(addresses(&found), addresses(&expected), "{listed}");
        let word = |text: &str| text.split_whitespace().next().unwrap_or("").to_owned();
        let unlike = found.iter().zip(&expected).filter(|(own, other)| word(own.1) != word(other.1));
        let unlike: Vec<_> = unlike.collect();
        // objdump writes sizes and hints (`retq`, `bnd`) into some names.
        assert!(unlike.len() * 10 <= found.len(), "{unlike:?}");
    }
}

/// Functions and lines at each address, innermost first, as LLVM has them.
fn symbolized(program: &Path, addresses: &[u64]) -> Option<BTreeMap<u64, Vec<(String, u64)>>> {
    let symbolizer = tool("llvm-symbolizer")?;
    let addresses = addresses.iter().map(|address| format!("{address:#x}"));
    let output = Command::new(symbolizer)
        .arg(format!("--obj={}", program.display()))
        .args(["--inlines", "--output-style=JSON"])
        .args(addresses)
        .output()
        .expect("llvm-symbolizer can be run");
    let all: Value = serde_json::from_slice(&output.stdout).expect("it prints JSON");
    let of_address = |answer: &Value| {
        let address = string(answer, "Address").trim_start_matches("0x");
        let frame = |frame: &Value| {
            let name = string(frame, "FunctionName").split('(').next().unwrap_or_default().to_owned();
            (name, frame["Line"].as_u64().expect("a line"))
        };
        let frames = list(&answer["Symbol"]).iter().map(frame).collect();
        (u64::from_str_radix(address, 16).expect("an address"), frames)
    };
    Some(list(&all).iter().map(of_address).collect())
}

#[test]
fn each_instruction_has_the_lines_of_llvm_symbolizer() {
    let Some(annotated) = annotated() else { return };
    let json = annotated.json(&["work"]);
    let addresses: Vec<u64> = numbers(&json["instructions"], "address").collect();
    let Some(expected) = symbolized(&annotated.program(), &addresses) else {
        skip::<()>("llvm-symbolizer is not installed");
        return;
    };
    let short = |name: &Value| name.as_str().unwrap().split('(').next().unwrap().to_owned();
    let mut inlined = 0;
    for at in json["instructions"].as_array().unwrap() {
        let mut chain = vec![("work".to_owned(), at["line"].as_u64().unwrap_or(0))];
        for step in at["inlined"].as_array().unwrap() {
            chain.push((short(&step["function"]), step["line"].as_u64().unwrap_or(0)));
        }
        chain.reverse();
        inlined = inlined.max(chain.len());
        let address = at["address"].as_u64().unwrap();
        assert_eq!(chain, expected[&address], "at {address:#x}");
    }
    assert_eq!(inlined, 3, "turn is inlined into mix, and that into work");
}

#[test]
fn costs_of_lines_add_up_to_the_report() {
    let Some(annotated) = annotated() else { return };
    for options in [&[][..], &["--no-inline"], &["--off-cpu", "--idle"]] {
        let report = annotated.recording.report_with(options);
        let rows = report.0["rows"].as_array().unwrap();
        for function in ["work", "divide", "mix", "main"] {
            let is_it = |row: &&Value| {
                row["function"].as_str().is_some_and(|name| name.split('(').next() == Some(function))
            };
            let Some(row) = rows.iter().find(is_it) else { continue };
            let name = row["function"].as_str().unwrap();
            let json = annotated.json(&[&[name][..], options].concat());
            let sum = |field| numbers(&json["lines"], field).sum::<u64>();
            assert_eq!(sum("self"), row["self"].as_u64().unwrap(), "{function} {options:?}");
            assert_eq!(sum("total"), row["total"].as_u64().unwrap(), "{function} {options:?}");
            let of_instructions = numbers(&json["instructions"], "self").sum::<u64>();
            assert_eq!(of_instructions, sum("self") + sum("inlined"), "{function} {options:?}");
        }
    }
    let work = annotated.json(&["work"]);
    let source = |line: &Value| line["source"].as_str().unwrap_or("").to_owned();
    let lines = work["lines"].as_array().unwrap();
    let mixing = lines.iter().find(|line| source(line).contains("sum = mix(sum)")).expect("it has a line");
    assert!(mixing["inlined"].as_u64() > Some(0), "{mixing}");
    let call = lines.iter().find(|line| source(line).contains("divide(sum")).expect("it has a line");
    assert!(call["total"].as_u64() > call["self"].as_u64(), "{call}");
    let is_call = |at: &&Value| at["text"].as_str().is_some_and(|text| text.starts_with("call"));
    let calls: Vec<&Value> = work["instructions"].as_array().unwrap().iter().filter(is_call).collect();
    assert!(calls.iter().any(|at| at["text"].as_str().unwrap().contains("divide")), "{calls:?}");
    assert!(calls.iter().any(|at| at["total"].as_u64() > Some(0)), "returns belong to calls: {calls:?}");
}

/// Detail 14 of the promises: a recording has its names and its code on any machine.
#[test]
fn it_is_the_same_without_the_program_and_its_source() {
    let Some(annotated) = annotated() else { return };
    let here = annotated.annotate(&["work"]);
    assert!(here.status.success(), "{}", messages(&here));
    assert!(
        text(&here).contains("sum = mix(sum);") && text(&here).contains("call divide"),
        "{}",
        text(&here)
    );
    // In a mount namespace of its own, empty file systems hide them, and all debug files.
    let script = "for hidden in \"$1\" /usr/lib/debug; do test ! -d \"$hidden\" || mount -t tmpfs none \"$hidden\" || exit; done; \
                  ! test -e \"$1/annotated\" && shift && exec \"$0\" \"$@\"";
    let file = annotated.recording.file();
    for arguments in [
        &["annotate", "work", "-i"][..],
        &["report", "-n", "0", "-i"],
        &["report", "--tree", "-i"],
        &["report", "--by", "line", "-i"],
        &["report", "--by", "address", "-i"],
        &["report", "--json", "-i"],
        &["export", "--format", "folded", "-o", "-", "-i"],
    ] {
        let there = with_own_mounts(script).arg(annotated.folder.path()).args(arguments).arg(&file).output();
        let there = there.expect("`timeout` can be run");
        let said = messages(&there);
        if said.starts_with("mount:") || said.starts_with("unshare:") {
            skip::<()>("a folder cannot be hidden here");
            return;
        }
        assert!(there.status.success(), "{arguments:?}: {said}");
        let here = prof().args(arguments).arg(&file).output().expect("prof can be run");
        assert_eq!(text(&there), text(&here), "{arguments:?}");
    }
}

#[test]
fn a_function_that_is_not_meant_clearly_is_refused_with_names() {
    let Some(annotated) = annotated() else { return };
    let missing = annotated.annotate(&["wrok"]);
    assert_eq!(missing.status.code(), Some(3));
    assert!(messages(&missing).contains("the nearest names:  ") && messages(&missing).contains("work"));
    let several = annotated.annotate(&["."]);
    assert_eq!(several.status.code(), Some(3));
    assert!(messages(&several).contains("functions") && messages(&several).contains("self "));
    let by_address = annotated.json(&["work"]);
    let address = by_address["instructions"][0]["address"].as_u64().unwrap();
    let found = annotated.json(&[&format!("annotated+{address:#x}")]);
    assert_eq!(found["function"], by_address["function"]);
}
