//! Cleans up what killed recorders left next to a name before the next recording takes it.
//!
//! Only profiles are touched that belong to the user and that no living recorder has locked. A recording that was put aside gets
//! its name back unless a newer recording has it.

use super::placed::{is_at, take_turn};
use crate::base::own_file;
use crate::profile::Glance;
use crate::profile::lock::{self, Sibling, with_ending};
use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::SystemTime;

/// Cleans up next to `path`; with `keeps_old` a previous recording is kept. Returns what the user should know.
pub(super) fn clean_up(path: &Path, keeps_old: bool) -> Vec<String> {
    let found = lock::siblings(path);
    if found.is_empty() {
        return Vec::new();
    }
    let Some(_turn) = take_turn(path) else { return Vec::new() };
    let mut notices = Vec::new();
    for (left, kind) in found {
        let Some(file) = lock::open_regular(&left).filter(|file| is_left_over(file, &left)) else { continue };
        let notice = match kind {
            Sibling::Unfinished => remove_unfinished(&file, &left),
            Sibling::Aside => restore(&file, &left, path, keeps_old),
        };
        notices.extend(notice);
    }
    notices
}

/// Whether the file is the user's own and no living recorder needs it.
fn is_left_over(file: &File, path: &Path) -> bool {
    let is_own = file.metadata().is_ok_and(|facts| own_file::is_owner(facts.uid()));
    is_own && lock::is_left(file) && is_at(file, path)
}

/// Removes a recording that had not begun. One that was being saved is left to the user.
fn remove_unfinished(file: &File, left: &Path) -> Option<String> {
    let is_empty = file.metadata().is_ok_and(|facts| facts.len() == 0);
    match Glance::at(file) {
        Some(glance) if glance.has_samples => Some(format!(
            "`{}` is part of a recording that was being saved when prof was killed",
            left.display()
        )),
        glance if glance.is_some() || is_empty => {
            let _ = fs::remove_file(left);
            None
        }
        _ => None,
    }
}

/// Gives a recording that was put aside its name back, unless a newer one has it.
fn restore(file: &File, aside: &Path, path: &Path, keeps_old: bool) -> Option<String> {
    Glance::at(file)?;
    if is_at(file, path) {
        // It has both names.
        let _ = fs::remove_file(aside);
        return None;
    }
    let is_back = match fs::symlink_metadata(path) {
        Err(_) => own_file::rename_new(aside, path).is_ok(),
        Ok(_) if is_without_samples(path) => fs::rename(aside, path).is_ok(),
        Ok(_) => {
            finish_replacing(file, aside, path, keeps_old);
            false
        }
    };
    is_back.then(|| {
        let (aside, path) = (aside.display(), path.display());
        format!("restored `{path}` from `{aside}`, where a killed recorder had left it")
    })
}

/// Whether `path` is a recording that was killed before it had samples.
fn is_without_samples(path: &Path) -> bool {
    lock::open_regular(path).is_some_and(|file| {
        is_left_over(&file, path) && Glance::at(&file).is_some_and(|glance| !glance.has_samples)
    })
}

/// Does what the killed recorder would have done next: a newer recording has the name.
fn finish_replacing(file: &File, aside: &Path, path: &Path, keeps_old: bool) {
    let changed = |path: &Path| fs::symlink_metadata(path).and_then(|facts| facts.modified()).ok();
    let is_older_than =
        |newer: Option<SystemTime>| file.metadata().and_then(|facts| facts.modified()).ok() < newer;
    if !is_older_than(changed(path)) {
        return;
    }
    let kept = with_ending(path, "old");
    match keeps_old {
        false => drop(fs::remove_file(aside)),
        true if !is_older_than(changed(&kept)) => drop(fs::rename(aside, kept)),
        true => {}
    }
}
