//! Readers that come from package registries, each installed once into the folder of the tests' own files.

use crate::support::{run, skip};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Installs what is at `at` in a folder called `name` by `install`, unless it is there; `None`, after saying so, when it
/// cannot be had.
pub(crate) fn installed(name: &str, at: &str, install: impl Fn(&Path) -> Vec<Command>) -> Option<PathBuf> {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    if folder.join(at).exists() {
        return Some(folder);
    }
    // Another run of the tests may do the same; a folder has its name when all is in it.
    let unfinished = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    for mut command in install(unfinished.path()) {
        let output = run(&mut command)?;
        if !output.status.success() {
            let text = String::from_utf8_lossy(&output.stderr).into_owned();
            return skip(&format!("{name} cannot be had: {}", text.lines().last().unwrap_or_default()));
        }
    }
    if !unfinished.path().join(at).exists() {
        return skip(&format!("{name} cannot be had: {at} is not in it"));
    }
    match fs::rename(unfinished.keep(), &folder) {
        Err(error) if !folder.join(at).exists() => panic!("{error}"),
        _ => Some(folder),
    }
}

/// Python with a package of a version.
pub(crate) fn python_with(package: &str, version: &str) -> Option<PathBuf> {
    let name = format!("{package}-{version}");
    let folder = installed(&name, "packages", |folder| {
        let mut venv = Command::new("python3");
        venv.args(["-m", "venv"]).arg(folder.join("venv"));
        let mut pip = Command::new(folder.join("venv/bin/python3"));
        pip.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target"]);
        pip.arg(folder.join("packages")).arg(format!("{package}=={version}"));
        vec![venv, pip]
    })?;
    Some(folder.join("packages"))
}
