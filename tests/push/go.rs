//! Programs in Go that profiles are sent to, each built once into the folder of the tests' own files. Their modules are pinned; a
//! machine that cannot have these, or no Go that is new enough, skips the tests.

use crate::support::skip;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

/// The toolchain that the modules ask for, as a module.
const TOOLCHAIN: &str = "golang.org/toolchain@v0.0.1-go1.26.0.linux-amd64";
/// The first version that gets toolchains by itself.
const KNOWS_TOOLCHAINS: u32 = 21;

/// Held while a program is built.
static BUILDING: Mutex<()> = Mutex::new(());

fn tests_folder() -> PathBuf {
    Path::new(env!("CARGO_TARGET_TMPDIR")).join("push-go")
}

/// Runs a command of Go; what it printed, or the last line of why it did not work.
fn go(program: &Path, folder: &Path, arguments: &[&str]) -> Result<String, String> {
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder);
    // Modules are read-only otherwise, and cannot be removed.
    command.env("GOFLAGS", "-modcacherw").env("GOPATH", tests_folder().join("go")).env_remove("GOROOT");
    command.env("GOCACHE", tests_folder().join("cache")).env_remove("GOTOOLCHAIN");
    let output = command.output().map_err(|error| error.to_string())?;
    let [out, said] = [output.stdout, output.stderr].map(|text| String::from_utf8_lossy(&text).into_owned());
    if output.status.success() { Ok(out) } else { Err(said.lines().last().unwrap_or_default().to_owned()) }
}

/// The second number of the version of Go.
fn minor(version: &str) -> Option<u32> {
    let (_, rest) = version.split_once("go1.")?;
    rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
}

/// A Go that gets the toolchain that modules ask for. Distributions have older ones, which can get modules all the same.
fn new_go() -> Result<PathBuf, String> {
    // Where no module is: an old Go does not read new ones.
    let (installed, folder) = (PathBuf::from("go"), tests_folder());
    let version = go(&installed, &folder, &["version"])?;
    if minor(&version).is_some_and(|minor| minor >= KNOWS_TOOLCHAINS) {
        return Ok(installed);
    }
    let module = go(&installed, &folder, &["mod", "download", "-json", TOOLCHAIN])?;
    let module: serde_json::Value = serde_json::from_str(&module).map_err(|error| error.to_string())?;
    let root = PathBuf::from(module["Dir"].as_str().ok_or("no folder of the toolchain")?);
    // Modules have no programs.
    for folder in ["bin", "pkg/tool/linux_amd64"] {
        for entry in fs::read_dir(root.join(folder)).map_err(|error| error.to_string())? {
            let path = entry.map_err(|error| error.to_string())?.path();
            fs::set_permissions(path, fs::Permissions::from_mode(0o755))
                .map_err(|error| error.to_string())?;
        }
    }
    Ok(root.join("bin/go"))
}

/// A program of `tests/fixtures`; `None`, after saying so, where it cannot be built.
pub(crate) fn program(name: &str) -> Option<PathBuf> {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name);
    let folder = tests_folder();
    fs::create_dir_all(&folder).unwrap();
    let built = folder.join(name);
    let newest = ["main.go", "go.mod", "go.sum"]
        .map(|file| fs::metadata(source.join(file)).unwrap().modified().unwrap());
    let is_current = |built: &fs::Metadata| newest.iter().all(|source| built.modified().unwrap() > *source);
    let is_built = || fs::metadata(&built).is_ok_and(|built| is_current(&built));
    if is_built() {
        return Some(built);
    }
    // Tests that want the same program wait for one build.
    let _one_at_a_time = BUILDING.lock().unwrap_or_else(PoisonError::into_inner);
    if is_built() {
        return Some(built);
    }
    // Another run of the tests may do the same.
    let unfinished = tempfile::tempdir_in(&folder).unwrap();
    let fresh = unfinished.path().join(name);
    let built_now = new_go().and_then(|program| {
        let options = [
            "build",
            "-mod=readonly",
            "-buildvcs=false",
            "-ldflags=-s -w",
            "-o",
            fresh.to_str().unwrap(),
            ".",
        ];
        go(&program, &source, &options)
    });
    match built_now {
        Ok(_) => {
            fs::rename(fresh, &built).unwrap();
            Some(built)
        }
        Err(why) => skip(&format!("{name} cannot be built: {why}")),
    }
}
