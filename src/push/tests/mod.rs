//! Sending, with a server in this process, and with one that only pretends.

mod folder;
mod partial;
mod servers;
mod shipments;

use crate::profile::Writer;
use crate::report::tests::fixture::{Build, PERIOD_NS};
use crate::report::{Analysis, SeriesBatch, SeriesOptions};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// A recording that has just ended, with this number of different stacks of three services.
pub(super) fn recording(stacks: usize) -> Analysis {
    let mut build = Build::new();
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap().as_nanos() as u64;
    build.meta().start_unix_ns = now - 10_000_000_000;
    build.meta().hostname = "here".to_owned();
    let tasks = ["a", "b", "c"].map(|name| build.task(u32::from(name.as_bytes()[0]), 1, name, name));
    for number in 0..stacks {
        let function = format!("/bin/app:a_function_with_a_name_of_its_own_{number}");
        build.add(tasks[number % 3], 1, &["/bin/app:main", &function]);
    }
    build.finish()
}

pub(super) fn batch(stacks: usize) -> SeriesBatch {
    SeriesBatch::of(&recording(stacks), &SeriesOptions::default()).unwrap()
}

/// Writes a recording to a file.
pub(super) fn write(path: &Path, stacks: usize) {
    let mut profile = recording(stacks).into_recording().profile;
    let mut writer = Writer::new(Vec::new(), &profile.meta).unwrap();
    writer.flush(&mut profile, true).unwrap();
    std::fs::write(path, writer.into_inner()).unwrap();
}

/// Running time of such a recording, ns.
pub(super) fn running_ns(stacks: usize) -> u64 {
    stacks as u64 * PERIOD_NS
}
