//! Makes the cases under `cases/` again: `UPDATE=1 cargo test --test walker recorded`.
//!
//! Each program is stopped again and again until its stack has the shape that is wanted; then gdb says what its
//! frames are. A machine that lacks a program or gdb keeps the case it has.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use prof::internals::unwind::rule::{RBP, RSP};
use prof::internals::unwind::{Page, Row, Rule, RuleKind, Stack, Table, walk};

use crate::case::{Case, Image, ImageState, Mapping, Piece};
use crate::process::{Process, Stopped};
use crate::text::Recorded;

/// What is recorded.
pub(crate) struct Recording {
    name: &'static str,
    about: &'static str,
    /// The program and its arguments; `{shapes}` and `{musl}` are `shapes.c`, compiled by cc and musl-gcc, `{go}` is a
    /// Go program.
    command: &'static [&'static str],
    /// Whether gdb knows how to unwind such code. Where it does not, `wanted` compares all names.
    has_oracle: bool,
    wanted: fn(&Seen) -> bool,
}

/// A stack that may be the wanted one.
struct Seen {
    stack: Stack,
    names: Vec<String>,
    leaf_rule: Rule,
}

impl Seen {
    fn has(&self, name: &str) -> bool {
        self.names.iter().any(|seen| seen.contains(name))
    }
}

const PYTHON: &str = "def f(n): return sorted([g(n), n], key=lambda k: f(k - 1) if k > 0 else 0)\ndef g(n): return sum(range(n))\nwhile True: f(12)";

const RECORDINGS: &[Recording] = &[
    Recording {
        name: "recursion",
        about: "1,000 frames of one function",
        command: &["{shapes}", "recursion"],
        has_oracle: true,
        wanted: |seen| seen.names.first().is_some_and(|name| name == "spin"),
    },
    Recording {
        name: "plt",
        about: "a linkage table entry that has not or just pushed its slot",
        command: &["{shapes}", "plt"],
        has_oracle: true,
        wanted: |seen| seen.leaf_rule.kind == RuleKind::Plt,
    },
    Recording {
        name: "realigned",
        about: "a realigned frame, whose CFA is found through a saved pointer",
        command: &["{shapes}", "realigned"],
        has_oracle: true,
        wanted: |seen| seen.has("realigned"),
    },
    Recording {
        name: "vfork",
        about: "inside vfork, whose return address is in rdi",
        command: &["{shapes}", "vfork"],
        has_oracle: true,
        wanted: |seen| seen.names.first().is_some_and(|name| name.contains("vfork")),
    },
    Recording {
        name: "signal",
        about: "a signal handler over the function that it interrupted",
        command: &["{shapes}", "signal"],
        has_oracle: true,
        wanted: |seen| seen.has("on_signal"),
    },
    Recording {
        name: "altstack",
        about: "a signal handler on a stack of its own",
        command: &["{shapes}", "altstack"],
        has_oracle: true,
        wanted: |seen| seen.has("on_signal"),
    },
    Recording {
        name: "generated",
        about: "code without a file, which keeps a frame pointer",
        command: &["{shapes}", "generated"],
        has_oracle: false,
        wanted: |seen| {
            let names: Vec<&str> = seen.names.iter().map(String::as_str).collect();
            names == ["spin", "?", "main", "__libc_init_first", "__libc_start_main", "_start"]
        },
    },
    Recording {
        name: "musl",
        about: "a static program of musl, which has no unwind information",
        command: &["{musl}", "sort"],
        has_oracle: false,
        wanted: |seen| {
            let names: Vec<&str> = seen.names.iter().map(String::as_str).collect();
            let start = ["spin", "compare", "trinkle"];
            names.len() == 7 && names.starts_with(&start) && names[4] == "main"
        },
    },
    Recording {
        name: "go",
        about: "a goroutine",
        command: &["{go}"],
        has_oracle: true,
        wanted: |seen| seen.has("main.down"),
    },
    Recording {
        name: "go-morestack",
        about: "a goroutine whose stack is moved, on the thread's own stack",
        command: &["{go}", "grow"],
        has_oracle: false,
        wanted: |seen| {
            let names: Vec<&str> = seen.names.iter().map(String::as_str).collect();
            let moves = names.iter().position(|name| *name == "runtime.copystack");
            let Some(rest) = moves.and_then(|at| names[at..].strip_prefix(MOVING_STACK)) else {
                return false;
            };
            let callers = rest.iter().skip_while(|name| **name == "main.grow");
            rest.first() == Some(&"main.grow")
                && callers.copied().eq(["main.main", "runtime.main", "runtime.goexit.abi0"])
        },
    },
    Recording {
        name: "python",
        about: "the interpreter, deep in calls",
        command: &["/usr/bin/python3", "-S", "-c", PYTHON],
        has_oracle: true,
        wanted: |seen| seen.names.len() > 40,
    },
    Recording {
        name: "clang",
        about: "a compiler of large shared libraries",
        command: &["/usr/bin/clang", "-cc1", "-O2", "-emit-obj", "-o", "/dev/null", "{source}"],
        has_oracle: true,
        wanted: |seen| seen.names.len() > 30,
    },
    Recording {
        name: "openssl",
        about: "hand-written code whose CFA is in a general register",
        command: &["/usr/bin/openssl", "speed", "-seconds", "20", "rsa2048"],
        has_oracle: true,
        wanted: |seen| ![RSP, RBP].contains(&seen.leaf_rule.cfa_reg) && seen.leaf_rule.kind == RuleKind::Reg,
    },
    Recording {
        name: "openssl-deref",
        about: "hand-written code whose CFA is in memory",
        command: &["/usr/bin/openssl", "speed", "-seconds", "20", "rsa2048"],
        has_oracle: true,
        wanted: |seen| seen.leaf_rule.kind == RuleKind::Deref,
    },
];

/// From the function that moves a stack to the function that had no room.
const MOVING_STACK: &[&str] = &["runtime.copystack", "runtime.newstack", "runtime.morestack.abi0"];

const GO: &str = "package main

import (
\t\"os\"
\t\"runtime\"
)

var sink int

//go:noinline
func down(depth int) int {
\tif depth == 0 {
\t\tfor {
\t\t\tsink++
\t\t}
\t}
\treturn down(depth-1) + depth
}

//go:noinline
func grow(depth int) int {
\tvar room [256]byte
\troom[depth%256] = 1
\tif depth == 0 {
\t\treturn 1
\t}
\treturn grow(depth-1) + int(room[0])
}

func init() {
\truntime.LockOSThread()
}

func main() {
\t// The garbage collector makes the stack small again.
\tfor len(os.Args) > 1 {
\t\tsink += grow(400)
\t\truntime.GC()
\t}
\tdown(20)
}
";

/// How often a program is stopped in search of the wanted stack.
const TRIES: u32 = 3000;

/// Records what this machine can; says what it cannot.
pub(crate) fn record_all(cases: &Path) {
    let folder = tempfile::tempdir().unwrap();
    let only = std::env::var("PROF_RECORD").unwrap_or_default();
    for recording in RECORDINGS.iter().filter(|recording| recording.name.contains(&only)) {
        match record(recording, folder.path()) {
            Ok(recorded) => {
                std::fs::write(cases.join(format!("{}.case", recording.name)), recorded.to_text()).unwrap();
            }
            Err(reason) => eprintln!("not recorded: {}: {reason}", recording.name),
        }
    }
}

/// Kills the program however recording ends.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

fn record(recording: &Recording, folder: &Path) -> Result<Recorded, String> {
    let arguments: Result<Vec<String>, String> =
        recording.command.iter().map(|argument| argument_of(argument, folder)).collect();
    let arguments = arguments?;
    // An empty environment and a short path: stacks hold both.
    let child = Command::new(&arguments[0])
        .args(&arguments[1..])
        .env_clear()
        .current_dir("/")
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn();
    let running = Running(child.map_err(|error| format!("{}: {error}", arguments[0]))?);
    std::thread::sleep(Duration::from_millis(400));
    let pid = running.0.id();
    let process = Process::read(pid);
    for attempt in 0..TRIES {
        let mut stopped = Stopped::stop(pid);
        // Interrupts like some instructions better than others.
        for _ in 0..attempt % 20 {
            stopped = stopped.step();
        }
        process.words.borrow_mut().clear();
        let stack = walk(&stopped.state, &process, &process, prof::internals::bpf::MAX_USER_FRAMES);
        let names = stack.frames.iter().map(|frame| process.name(frame.lookup_address())).collect();
        let leaf = process.locate(stopped.state.lookup_address());
        let leaf_rule = leaf.map_or(Rule::NONE, |(module, own)| process.modules[module].table.lookup(own));
        let seen = Seen { stack, names, leaf_rule };
        if !(recording.wanted)(&seen) {
            if attempt == TRIES - 1 {
                return Err(format!("not seen in {TRIES} stops, but {:?}", seen.names));
            }
            stopped.release(false);
            std::thread::sleep(Duration::from_micros(300 + 137 * u64::from(attempt % 11)));
            continue;
        }
        let addresses: Vec<u64> = seen.stack.frames.iter().map(|frame| frame.address).collect();
        let case = cut(&process, &stopped, &seen.stack);
        stopped.release(true);
        let counters = if recording.has_oracle { gdb(pid)? } else { addresses };
        // Frames behind a call are named by it, others by themselves.
        let name = |pc: u64, index: usize| {
            let frame = seen.stack.frames.get(index).filter(|frame| frame.address == pc);
            process.name(frame.map_or(pc.wrapping_sub(1), |frame| frame.lookup_address()))
        };
        let frames = counters.iter().zip(0..).map(|(&pc, index)| (pc, name(pc, index))).collect();
        let source = if recording.has_oracle { "by gdb" } else { "as the program calls them" };
        let about = format!("{}; frames {source}", recording.about);
        let (case, image_names) = case;
        return Ok(Recorded { about, case, image_names, outcome: 1, frames });
    }
    Err(format!("not seen in {TRIES} stops"))
}

fn argument_of(argument: &str, folder: &Path) -> Result<String, String> {
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/walker/host/shapes.c");
    let program = |name: &str, command: &[&str], source: &Path| {
        let program = folder.join(name);
        let mut compiler = Command::new(command[0]);
        compiler.args(&command[1..]).arg("-o").arg(&program).arg(source);
        compiler.env("GOCACHE", folder.join("cache"));
        match compiler.output() {
            Ok(output) if output.status.success() => Ok(program.display().to_string()),
            Ok(output) => Err(String::from_utf8_lossy(&output.stderr).into_owned()),
            Err(error) => Err(format!("{}: {error}", command[0])),
        }
    };
    match argument {
        "{shapes}" => {
            program("shapes", &["cc", "-O2", "-fomit-frame-pointer", "-Wl,-z,lazy"], Path::new(source))
        }
        "{musl}" => program("musl", &["musl-gcc", "-O2", "-static"], Path::new(source)),
        "{go}" => {
            let source = folder.join("go.go");
            std::fs::write(&source, GO).map_err(|error| error.to_string())?;
            program("go", &["go", "build"], &source)
        }
        "{source}" => {
            // Enough functions to be busy for seconds.
            let function = |n: u32| {
                format!(
                    "int f{n}(int a,int*b){{for(int i=0;i<a;i++)b[i]+=b[a-i]*{n}+(b[i]>>3);return b[0];}}\n"
                )
            };
            let path = folder.join("source.c");
            std::fs::write(&path, (0..4000).map(function).collect::<String>())
                .map_err(|error| error.to_string())?;
            Ok(path.display().to_string())
        }
        other => Ok(other.to_owned()),
    }
}

/// The frames of a stopped process, by gdb.
fn gdb(pid: u32) -> Result<Vec<u64>, String> {
    const FRAMES: &str = "python
frame = gdb.newest_frame()
while frame is not None:
    if frame.type() != gdb.INLINE_FRAME:
        print('pc %x' % frame.pc())
    frame = frame.older()
";
    let script = tempfile::NamedTempFile::new().map_err(|error| error.to_string())?;
    let settings = "set debuginfod enabled off\nset backtrace past-main on\nset backtrace past-entry on\n";
    std::fs::write(script.path(), format!("{settings}{FRAMES}")).map_err(|error| error.to_string())?;
    let output = Command::new("gdb")
        .args(["-nx", "-batch", "-p", &pid.to_string(), "-x"])
        .arg(script.path())
        .output()
        .map_err(|error| format!("gdb: {error}"))?;
    let said = String::from_utf8_lossy(&output.stdout);
    let counters: Vec<u64> =
        said.lines().filter_map(|line| u64::from_str_radix(line.strip_prefix("pc ")?, 16).ok()).collect();
    // Below a root whose return address is 0 gdb has one more frame.
    let counters: Vec<u64> = counters.into_iter().take_while(|pc| *pc != 0).collect();
    if counters.is_empty() { Err(String::from_utf8_lossy(&output.stderr).into_owned()) } else { Ok(counters) }
}

/// The case of a walk that has just been done: what it has read, and the tables around what it has looked up.
fn cut(process: &Process, stopped: &Stopped, stack: &Stack) -> (Case, Vec<String>) {
    let mut looked_up: BTreeMap<usize, BTreeSet<u64>> = BTreeMap::new();
    for frame in &stack.frames {
        if let Some((module, own)) = process.locate(frame.lookup_address()) {
            looked_up.entry(module).or_default().insert(own);
        }
    }
    let (mut images, mut names) = (Vec::new(), Vec::new());
    for (number, module) in process.modules.iter().enumerate() {
        let addresses = looked_up.remove(&number);
        let state = if addresses.is_some() { ImageState::Ready } else { ImageState::NotLoaded };
        images.push(Image {
            state,
            table: addresses.map_or_else(Table::default, |at| cut_table(&module.table, &at)),
        });
        let name = module.path.file_name().map(|name| name.to_string_lossy().into_owned());
        names.push(name.unwrap_or_default());
    }
    images.push(Image { state: ImageState::Generated, table: Table::default() });
    names.push("[generated]".into());
    let generated = images.len() - 1;
    let mappings = process.code.iter().map(|area| {
        let image = area.module.unwrap_or(generated) as u32;
        Mapping { start: area.start, end: area.end, bias: area.bias, image }
    });
    let mut registers = stopped.registers.general.to_vec();
    registers.push(stopped.registers.rip);
    let case = Case {
        registers,
        is_return: stopped.state.is_return_address,
        has_few_registers: false,
        images,
        mappings: mappings.collect(),
        memory: cut_memory(process),
        uprobes: None,
        thread_pointer: stopped.state.thread_pointer,
    };
    (case, names)
}

/// The rows that hold at `addresses` and their neighbours.
fn cut_table(table: &Table, addresses: &BTreeSet<u64>) -> Table {
    let mut kept: BTreeMap<u64, BTreeSet<usize>> = BTreeMap::new();
    for &own in addresses {
        let page = own >> 16;
        let Some(rows) = rows_of(table, page) else { continue };
        let hit = rows.partition_point(|row| row.pc_low <= own as u16).saturating_sub(1);
        let around = [0, hit.saturating_sub(1), hit, hit + 1];
        kept.entry(page).or_default().extend(around.into_iter().filter(|row| *row < rows.len()));
    }
    let (Some((&first_page, _)), Some((&last_page, _))) = (kept.first_key_value(), kept.last_key_value())
    else {
        return Table::default();
    };
    let mut cut = Table { first_page, ..Table::default() };
    for page in first_page..=last_page {
        let first = cut.rows.len() as u32;
        let rows = rows_of(table, page).unwrap_or_default();
        for &row in kept.get(&page).into_iter().flatten() {
            let Row { pc_low, rule } = rows[row];
            let rule = table.rules[usize::from(rule)];
            let known = cut.rules.iter().position(|known| *known == rule);
            let rule = known.unwrap_or_else(|| {
                cut.rules.push(rule);
                cut.rules.len() - 1
            });
            cut.rows.push(Row { pc_low, rule: rule as u16 });
        }
        cut.pages.push(Page { first, count: cut.rows.len() as u32 - first });
    }
    cut
}

fn rows_of(table: &Table, page: u64) -> Option<&[Row]> {
    let page = table.pages.get(page.checked_sub(table.first_page)? as usize)?;
    table.rows.get(page.first as usize..)?.get(..page.count as usize)
}

/// The pages with the words that were read, and the pages behind them, which a read of more may reach.
fn cut_memory(process: &Process) -> Vec<Piece> {
    const PAGE: u64 = 4096;
    let words = process.words.borrow();
    let pages: BTreeSet<u64> =
        words.keys().flat_map(|address| [address & !(PAGE - 1), (address & !(PAGE - 1)) + PAGE]).collect();
    let mut memory: Vec<Piece> = Vec::new();
    for page in pages.into_iter().filter(|page| process.is_readable(*page)) {
        match memory.last_mut() {
            Some(piece) if piece.start + piece.bytes.len() as u64 == page => {
                piece.bytes.resize(piece.bytes.len() + PAGE as usize, 0);
            }
            _ => memory.push(Piece { start: page, bytes: vec![0; PAGE as usize] }),
        }
    }
    for (&address, word) in words.iter() {
        let piece = memory.iter_mut().rev().find(|piece| piece.start <= address);
        let place = piece.and_then(|piece| {
            let at = (address - piece.start) as usize;
            piece.bytes.get_mut(at..at + 8)
        });
        if let Some(place) = place {
            place.copy_from_slice(&word.to_le_bytes());
        }
    }
    memory
}
