//! What a recorder may leave behind: BPF programs, maps and links, and processes.

use libbpf_rs::query::{LinkInfoIter, MapInfoIter, ProgInfoIter};
use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

/// An environment variable that recorders of this run have, and what they start.
pub(crate) const MARK: &str = "PROF_FAULT_SUITE";

/// The value of it.
pub(crate) fn mark() -> String {
    std::process::id().to_string()
}

/// How long the kernel may take to free what nobody holds any more.
const PATIENCE: Duration = Duration::from_secs(10);

/// What there was before.
pub(crate) struct Before(BTreeSet<(&'static str, u32)>);

impl Before {
    pub(crate) fn now() -> Self {
        Before(objects())
    }

    /// What is there now, was not then, and is held by no process: a line for each.
    pub(crate) fn left(&self) -> Vec<String> {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let new: BTreeSet<_> = objects().difference(&self.0).copied().collect();
            // Other recorders hold theirs.
            let held = if new.is_empty() { BTreeSet::new() } else { held() };
            let mut left: Vec<String> =
                new.difference(&held).map(|(kind, id)| format!("BPF {kind} {id} is left")).collect();
            left.extend(marked().into_iter().map(|process| format!("process {process} is left")));
            if left.is_empty() || Instant::now() > deadline {
                return left;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}

/// All BPF programs, maps and links of the machine.
fn objects() -> BTreeSet<(&'static str, u32)> {
    let programs = ProgInfoIter::default().map(|info| ("program", info.id));
    let maps = MapInfoIter::default().map(|info| ("map", info.id));
    let links = LinkInfoIter::default().map(|info| ("link", info.id));
    programs.chain(maps).chain(links).collect()
}

/// Those that some process has open.
fn held() -> BTreeSet<(&'static str, u32)> {
    let mut found = BTreeSet::new();
    for process in processes() {
        let folder = format!("/proc/{process}/fdinfo");
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            let Ok(text) = fs::read_to_string(entry.path()) else { continue };
            for line in text.lines() {
                let id = |name: &str| line.strip_prefix(name)?.trim().parse().ok();
                found.extend(id("prog_id:").map(|id| ("program", id)));
                found.extend(id("map_id:").map(|id| ("map", id)));
                found.extend(id("link_id:").map(|id| ("link", id)));
            }
        }
    }
    found
}

fn processes() -> Vec<u32> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect()
}

fn is_marked(process: u32) -> bool {
    let environment = fs::read(format!("/proc/{process}/environ")).unwrap_or_default();
    let wanted = format!("{MARK}={}", mark());
    environment.split(|byte| *byte == 0).any(|variable| variable == wanted.as_bytes())
}

/// Processes of recorders of this run that still run.
fn marked() -> Vec<u32> {
    processes().into_iter().filter(|process| is_marked(*process)).collect()
}
