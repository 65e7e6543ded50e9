//! Headless Chromium: it opens a copy of a page or a picture with one more script, which does what a person would.

use super::support::skip;
use serde_json::Value;
use std::fs;
use std::path::Path;
use std::process::Command;

/// Chromium with a folder for its state; `None`, after saying so, if it is not installed.
pub(crate) fn chromium(state: &Path) -> Option<Command> {
    let is_there =
        |name: &&str| Command::new(name).arg("--version").output().is_ok_and(|out| out.status.success());
    let Some(program) = ["chromium", "chromium-browser"].into_iter().find(is_there) else {
        return skip("chromium is not installed");
    };
    let mut command = Command::new("timeout");
    command.arg("--kill-after=5").arg("600").arg(program);
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
    let state = tempfile::tempdir().expect("a temporary folder can be made");
    let output = chromium(state.path())?
        .arg("--dump-dom")
        .arg(format!("file://{address}"))
        .output()
        .expect("chromium can be run");
    Some(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// Opens a copy of `page` at `hash`, and returns what `script` puts into `seen`.
pub(crate) fn seen(page: &Path, hash: &str, script: &str) -> Option<Value> {
    let text = fs::read_to_string(page).expect("the page can be read");
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
    let (before, after) = text.rsplit_once(end).expect("the page has an end");
    let before = before.replacen(start, &format!("{}{start}", element(watch)), 1);
    let copy = page.with_file_name(if is_svg { "copy.svg" } else { "copy.html" });
    fs::write(&copy, format!("{before}{}{end}{after}", element(&user))).expect("the page can be written");
    let dom = opened(&format!("{}{hash}", copy.display()))?;
    let Some((seen, _)) = dom.split_once("data-seen=\"").and_then(|(_, rest)| rest.split_once('"')) else {
        panic!("the page's scripts did not run:\n{}", dom.chars().take(3000).collect::<String>())
    };
    let seen: Value = serde_json::from_str(&percent_decode(seen)).expect("the script gives JSON");
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
    String::from_utf8(bytes).expect("the script gives UTF-8")
}
