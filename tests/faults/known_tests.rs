//! Names of the tests of this project, from their sources.

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::Path;

/// All functions that are marked as tests, below `src` and `tests`.
pub(crate) fn all() -> BTreeSet<String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut found = BTreeSet::new();
    let mut folders = vec![root.join("src"), root.join("tests")];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension() == Some(OsStr::new("rs")) {
                let text = fs::read_to_string(path).unwrap();
                let after_marks = text.split("#[test]").skip(1);
                let names = after_marks.filter_map(|part| part.split_once("fn ")?.1.split_once('('));
                found.extend(names.map(|(name, _)| name.to_owned()));
            }
        }
    }
    found
}
