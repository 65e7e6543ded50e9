//! Builds the programs in `tests/fixtures` with the command that each one's first comment gives.

use crate::harness::machine::{skip, tool};
use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, PoisonError};

static BUILT: Mutex<Option<HashMap<String, PathBuf>>> = Mutex::new(None);

/// Compilers that a build command may name. All but the first may be missing.
const COMPILERS: [&str; 5] = ["cc", "g++", "go", "musl-gcc", "rustc"];

/// Names the folder that fixtures are built in, where it is not the usual one: two runs at a time would write into programs
/// that the other one starts.
pub(crate) const FOLDER: &str = "PROF_TEST_FIXTURES";

/// The program of this name, which `build` makes, once per run.
pub(crate) fn once(program_name: &str, build: impl FnOnce(&Path)) -> PathBuf {
    let mut built = BUILT.lock().unwrap_or_else(PoisonError::into_inner);
    let built = built.get_or_insert_with(HashMap::new);
    if let Some(program) = built.get(program_name) {
        return program.clone();
    }
    let usual = || Path::new(env!("CARGO_TARGET_TMPDIR")).join("fixtures");
    let folder = std::env::var_os(FOLDER).map_or_else(usual, PathBuf::from);
    fs::create_dir_all(&folder).expect("the target folder is writable");
    let program = folder.join(program_name);
    build(&program);
    built.insert(program_name.to_owned(), program.clone());
    program
}

/// Folder of the sources.
pub(crate) fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures")
}

/// The program made from `tests/fixtures/<name>.*`, built at most once per run; `None`, after saying so,
/// if its compiler is not installed.
pub(crate) fn build(name: &str) -> Option<PathBuf> {
    build_as(name, name, None)
}

/// As [`build`], by the compiler that the distribution packages, which is mostly older than one from elsewhere.
pub(crate) fn build_by_distribution(name: &str, compiler: &str) -> Option<PathBuf> {
    // Where Debian, Fedora and Arch put Go.
    let folders =
        fs::read_dir("/usr/lib").into_iter().flatten().flatten().map(|entry| entry.path().join("bin"));
    let mut found: Vec<PathBuf> = folders.filter(|folder| folder.join(compiler).is_file()).collect();
    found.sort();
    let Some(folder) = found.first() else {
        return skip(&format!(
            "the distribution's {compiler} is not installed, which builds the fixture {name}"
        ));
    };
    build_as(name, &format!("{name}-by-distribution"), Some(folder))
}

/// Builds a fixture as `program_name`, with the compilers in `folder` first.
fn build_as(name: &str, program_name: &str, folder_of_compiler: Option<&Path>) -> Option<PathBuf> {
    let command = build_command(name);
    let words: Vec<&str> = command.split_whitespace().collect();
    for compiler in COMPILERS {
        if folder_of_compiler.is_none() && words.contains(&compiler) && tool(compiler).is_none() {
            return skip(&format!("{compiler} is not installed, which builds the fixture {name}"));
        }
    }
    Some(once(program_name, |program| {
        let path = std::env::var("PATH").unwrap_or_default();
        let path = folder_of_compiler.map_or(path.clone(), |first| format!("{}:{path}", first.display()));
        let output = Command::new("sh")
            .args(["-ec", &command])
            .current_dir(sources())
            .env("OUT", program)
            .env("PATH", path)
            .output()
            .expect("sh can be run");
        assert!(
            output.status.success(),
            "fixture {name} does not build with `{command}`:\n{}",
            String::from_utf8_lossy(&output.stderr)
        );
    }))
}

fn build_command(name: &str) -> String {
    for extension in ["c", "cpp", "go", "S", "rs"] {
        let source = sources().join(format!("{name}.{extension}"));
        let Ok(text) = fs::read_to_string(&source) else { continue };
        let command = text.lines().find_map(|line| line.split_once("build: "));
        return command.expect("a fixture says how it is built").1.to_owned();
    }
    panic!("no fixture is called {name}");
}
