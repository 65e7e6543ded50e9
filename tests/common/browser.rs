//! A recording that is made here, what `prof export` writes of it, and Chromium that opens a copy with one more script.

use super::demo_profile::Demo;
use super::support::skip;
use prof::internals::profile::{
    EventInfo, EventKind, FoundBy, Frame, FrameFlags, FrameId, FrameSpace, Function, Location, Module,
    ModuleKind, Outcome, Profile, Reason, Sample, Task, TaskId, Wait, Waker, Writer,
};
use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const WIDE: &str = "日本語の関数名がとても長い名前空間::👩‍👩‍👧‍👦の家族::メソッド";

/// Every function is a frame of its own.
pub(crate) fn frame(profile: &mut Profile, path: &str, name: &str) -> FrameId {
    let (kind, space) = match path {
        "[kernel]" => (ModuleKind::Kernel, FrameSpace::Kernel),
        _ => (ModuleKind::Elf, FrameSpace::User),
    };
    let text = profile.tables.intern_string(path);
    let module =
        profile.tables.intern_module(Module { path: text, build_id: vec![7; 20], kind, instance: 0 });
    let address = name.bytes().fold(0x40_1000, |sum: u64, byte| sum * 31 % 0xff_ffff + u64::from(byte));
    let flags = FrameFlags { is_return_address: true, space, found_by: FoundBy::Cfi };
    let frame = profile.tables.intern_frame(Frame { module, address, flags });
    let name = profile.tables.intern_string(name);
    let file = profile.tables.intern_string("/src/ingest.c");
    let function = profile.symbols.intern_function(Function { name, raw_name: name });
    profile.symbols.set_locations(frame, vec![Location { function, file, line: 7, is_inlined: false }]);
    frame
}

/// 120 samples of three threads, and three waits for a lock.
pub(crate) fn recording() -> Profile {
    let mut demo = Demo::new(5);
    let process = demo.profile.tables.intern_string("ingest");
    let workers = ["worker-1", "worker-2"].map(|name| {
        let comm = demo.profile.tables.intern_string(name);
        let tid = 4400 + u32::from(name.as_bytes()[7]);
        demo.profile.tables.intern_task(Task { pid: 4312, tid, generation: 0, comm, process })
    });
    let waits = demo.profile.add_event(EventInfo {
        kind: EventKind::OFF_CPU,
        sampling: "every wait of 1 us and more".into(),
        period: 0,
    });
    demo.finish();
    if let Some(end) = &mut demo.profile.end {
        end.duration_ns = 2_000_000_000;
    }
    let bin = "/usr/bin/ingest";
    let mut add = |task: TaskId, samples: usize, path: &[(&str, &str)]| {
        let frames: Vec<FrameId> =
            path.iter().map(|(module, name)| frame(&mut demo.profile, module, name)).collect();
        let stack = demo.profile.tables.intern_stack_of(frames);
        demo.task = task;
        (0..samples).for_each(|_| demo.sample(stack));
        stack
    };
    add(workers[0], 60, &[(bin, "main"), (bin, "run"), (bin, "hash")]);
    add(workers[1], 20, &[(bin, "main"), (bin, "run"), (bin, "hash")]);
    add(workers[0], 30, &[(bin, "main"), (bin, "run"), (bin, WIDE)]);
    add(TaskId(0), 10, &[(bin, "main"), (bin, "walk"), (bin, "walk"), (bin, "walk")]);
    let lock = [
        (bin, "main"),
        (bin, "run"),
        ("/usr/lib/libc.so.6", "pthread_mutex_lock"),
        ("[kernel]", "futex_wait"),
    ];
    let stack = add(workers[0], 0, &lock);
    for number in 0..3u64 {
        let wait = Wait { duration_ns: 40_000_000, reason: Reason::Lock, waker: Waker::default() };
        demo.profile.events[waits.index()].push(Sample {
            time_ns: number * 50_000_000,
            task: workers[0],
            stack,
            weight: 40_000_000,
            cpu: 0,
            outcome: Outcome::Complete,
            wait: Some(wait),
            merged: None,
        });
    }
    demo.profile
}

/// Writes `profile`, exports it, and returns the page.
pub(crate) fn exported(profile: Profile, folder: &Path) -> PathBuf {
    exported_as(profile, folder, "page.html")
}

pub(crate) fn exported_as(mut profile: Profile, folder: &Path, name: &str) -> PathBuf {
    let (data, page) = (folder.join("made.data"), folder.join(name));
    let mut writer = Writer::new(Vec::new(), &profile.meta).unwrap();
    writer.flush(&mut profile, true).unwrap();
    fs::write(&data, writer.into_inner()).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_prof"))
        .args(["export".as_ref(), "-f".as_ref(), data.as_os_str(), "-o".as_ref(), page.as_os_str()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    page
}

fn chromium(state: &Path) -> Option<Command> {
    let is_there =
        |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|out| out.status.success());
    let Some(program) = ["chromium", "chromium-browser"].into_iter().find(is_there) else {
        return skip("chromium is not installed");
    };
    let mut command = Command::new("timeout");
    command.arg("--kill-after=5").arg("100").arg(program);
    command.args([
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        "--disable-quic",
        "--disable-dev-shm-usage",
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--window-size=1280,800",
        // Nothing but the file itself may be needed.
        "--host-resolver-rules=MAP * ~NOTFOUND",
        "--virtual-time-budget=5000",
    ]);
    command.arg(format!("--user-data-dir={}", state.display()));
    Some(command)
}

/// The document after `address`, a path with what follows it, was opened.
fn opened(address: &str) -> Option<String> {
    let state = tempfile::tempdir().unwrap();
    let output = chromium(state.path())?.arg("--dump-dom").arg(format!("file://{address}")).output().unwrap();
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Opens a copy of `page` at `hash`, and returns what `script` puts into `seen`.
pub(crate) fn seen(page: &Path, hash: &str, script: &str) -> Option<Value> {
    let text = fs::read_to_string(page).unwrap();
    let watch = "const errors = []; window.addEventListener('error', e => errors.push(e.message));";
    let user = format!(
        "window.addEventListener('load', () => setTimeout(() => {{
            const seen = {{ errors }};
            try {{ {HELPERS} {script} }} catch (error) {{ errors.push(String(error.stack)); }}
            document.documentElement.setAttribute('data-seen', encodeURIComponent(JSON.stringify(seen)));
        }}, 200));"
    );
    let is_svg = page.extension().is_some_and(|ending| ending == "svg");
    let (start, end) = if is_svg { ("<title id", "</svg>") } else { ("<meta", "</body>") };
    let element = |script: &str| format!("<script>//<![CDATA[\n{script}\n//]]>\n</script>");
    let (before, after) = text.rsplit_once(end).unwrap();
    let before = before.replacen(start, &format!("{}{start}", element(watch)), 1);
    let copy = page.with_file_name(if is_svg { "copy.svg" } else { "copy.html" });
    fs::write(&copy, format!("{before}{}{end}{after}", element(&user))).unwrap();
    let dom = opened(&format!("{}{hash}", copy.display()))?;
    let Some((seen, _)) = dom.split_once("data-seen=\"").and_then(|(_, rest)| rest.split_once('"')) else {
        panic!("the page's scripts did not run:\n{}", dom.chars().take(3000).collect::<String>())
    };
    let seen: Value = serde_json::from_str(&percent_decode(seen)).unwrap();
    assert_eq!(seen["errors"], Value::Array(Vec::new()), "scripts failed");
    Some(seen)
}

/// What a person does and sees.
const HELPERS: &str = r#"
const text = (id) => document.getElementById(id).textContent;
const press = (key) => document.getElementById("canvas").dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true, cancelable: true }));
const type = (words) => { const input = document.getElementById("search"); input.value = words; input.dispatchEvent(new Event("input")); };
const rows = () => [...document.querySelectorAll('#rows tr')].map((row) => [...row.cells].map((cell) => cell.textContent));
const names_at = (layer, depth) => { const found = []; for (let i = layer.boxes.from[depth]; i < layer.boxes.from[depth + 1]; i++) found.push([graph.name(layer, i), layer.boxes.total[i]]); return found; };
const pixels = (color) => { graph.draw(); const all = graph.context.getImageData(0, 0, graph.canvas.width, graph.canvas.height).data; let n = 0; for (let i = 0; i < all.length; i += 4) if (all[i] === color[0] && all[i + 1] === color[1] && all[i + 2] === color[2]) n++; return n; };
const choose = (id, value) => { const select = document.getElementById(id); select.value = value; select.dispatchEvent(new Event("change")); };
"#;

fn percent_decode(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let [first, tail @ ..] = rest {
        let code = tail.get(..2).and_then(|hex| std::str::from_utf8(hex).ok());
        match code.and_then(|hex| u8::from_str_radix(hex, 16).ok()).filter(|_| *first == b'%') {
            Some(byte) => {
                bytes.push(byte);
                rest = &tail[2..];
            }
            None => {
                bytes.push(*first);
                rest = tail;
            }
        }
    }
    String::from_utf8(bytes).unwrap()
}
