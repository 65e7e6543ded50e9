//! The house in numbers: which files import each other in circles, how many files a folder has, how long files and functions
//! are.
//! `cargo test --test house -- --nocapture` prints them.

#![allow(
    clippy::unwrap_used,
    clippy::print_stdout,
    reason = "a test fails by panicking and prints what it has counted"
)]

use petgraph::algo::tarjan_scc;
use petgraph::graphmap::DiGraphMap;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use syn::spanned::Spanned;
use syn::visit::{self, Visit};

/// A folder with more source files than this is two rooms.
const MOST_FILES: usize = 14;

/// A file with more lines than this is two things.
const MOST_LINES: usize = 500;

/// Files that may be longer, and why.
const LONGER_FILES: [(&str, &str); 1] = [(
    "bpf/c/prof.h",
    "the one header that C and Rust share: all numbers and layouts that both must agree on",
)];

/// Items that tests and benches see. The fewer, the more of the program can be changed without a look at them.
const MOST_PUBLIC: usize = 247;

/// Type names that mean different things in different rooms.
const MOST_DOUBLED: usize = 8;

/// A path to a module: `crate`, `report`, `views`.
type ModulePath = Vec<String>;

/// All source files of the library, by the path of their module, relative to `src`.
fn files() -> BTreeMap<ModulePath, String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = BTreeMap::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|ending| ending == "rs") {
                let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
                found.insert(module_of(&name), name);
            }
        }
    }
    found.remove(&module_of("main.rs"));
    found
}

fn module_of(file: &str) -> ModulePath {
    let parts = file.trim_end_matches(".rs").split('/').map(str::to_owned);
    let mut path = vec!["crate".to_owned()];
    path.extend(parts.filter(|part| part != "mod" && part != "lib"));
    path
}

/// What one file says of others, its tests left out.
#[derive(Default)]
struct Mentions {
    paths: Vec<ModulePath>,
    test_modules: Vec<String>,
    long_functions: Vec<(String, usize)>,
    /// Structs, enums and traits.
    types: Vec<String>,
    /// Items and methods that other crates see: the tests and benches.
    public: usize,
}

fn is_for_tests(attributes: &[syn::Attribute]) -> bool {
    attributes.iter().any(|attribute| match &attribute.meta {
        syn::Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        syn::Meta::Path(path) => path.is_ident("test"),
        syn::Meta::NameValue(_) => false,
    })
}

fn is_public(visibility: &syn::Visibility, attributes: &[syn::Attribute]) -> bool {
    matches!(visibility, syn::Visibility::Public(_)) && !is_for_tests(attributes)
}

impl Mentions {
    fn add_tree(&mut self, before: &ModulePath, tree: &syn::UseTree) {
        let with = |name: &syn::Ident| [before.clone(), vec![name.to_string()]].concat();
        match tree {
            syn::UseTree::Path(path) => self.add_tree(&with(&path.ident), &path.tree),
            syn::UseTree::Name(name) => self.paths.push(with(&name.ident)),
            syn::UseTree::Rename(name) => self.paths.push(with(&name.ident)),
            syn::UseTree::Glob(_) => self.paths.push(before.clone()),
            syn::UseTree::Group(group) => group.items.iter().for_each(|tree| self.add_tree(before, tree)),
        }
    }

    fn add_function(&mut self, name: &syn::Ident, body: &impl Spanned) {
        let lines = body.span().end().line - body.span().start().line + 1;
        self.long_functions.push((name.to_string(), lines));
    }
}

impl<'ast> Visit<'ast> for Mentions {
    fn visit_item_mod(&mut self, module: &'ast syn::ItemMod) {
        match (is_for_tests(&module.attrs), &module.content) {
            (true, None) => self.test_modules.push(module.ident.to_string()),
            (true, Some(_)) => {}
            (false, _) => visit::visit_item_mod(self, module),
        }
    }

    fn visit_item(&mut self, item: &'ast syn::Item) {
        let named = match item {
            syn::Item::Struct(item) => Some((&item.vis, &item.attrs, Some(&item.ident))),
            syn::Item::Enum(item) => Some((&item.vis, &item.attrs, Some(&item.ident))),
            syn::Item::Trait(item) => Some((&item.vis, &item.attrs, Some(&item.ident))),
            syn::Item::Fn(item) => Some((&item.vis, &item.attrs, None)),
            syn::Item::Const(item) => Some((&item.vis, &item.attrs, None)),
            _ => None,
        };
        if let Some((visibility, attributes, name)) = named.filter(|named| !is_for_tests(named.1)) {
            self.public += usize::from(is_public(visibility, attributes));
            self.types.extend(name.map(syn::Ident::to_string));
        }
        visit::visit_item(self, item);
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        if !is_for_tests(&item.attrs) {
            self.add_tree(&Vec::new(), &item.tree);
        }
    }

    fn visit_visibility(&mut self, _: &'ast syn::Visibility) {
        // `pub(in crate::report)` needs nothing of what it names.
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        // One name alone is a variable, or was imported.
        if path.segments.len() > 1 {
            self.paths.push(path.segments.iter().map(|segment| segment.ident.to_string()).collect());
        }
        visit::visit_path(self, path);
    }

    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        if !is_for_tests(&function.attrs) {
            self.add_function(&function.sig.ident, function);
            visit::visit_item_fn(self, function);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_for_tests(&function.attrs) {
            self.public += usize::from(is_public(&function.vis, &function.attrs));
            self.add_function(&function.sig.ident, function);
            visit::visit_impl_item_fn(self, function);
        }
    }
}

/// The whole path of what `path` means in `module`; `None` for what is not of this crate.
fn resolve(path: &[String], module: &[String], known: &BTreeMap<ModulePath, String>) -> Option<ModulePath> {
    let first = path.first()?;
    match first.as_str() {
        "crate" => Some(path.to_vec()),
        "self" => Some([module, &path[1..]].concat()),
        "super" => {
            let up = path.iter().take_while(|part| *part == "super").count();
            Some([module.get(..module.len().checked_sub(up)?)?, &path[up..]].concat())
        }
        _ => {
            let child = [module, &path[..1]].concat();
            known.contains_key(&child).then(|| [module, path].concat())
        }
    }
}

/// The file that holds what `path` means.
fn file_of<'f>(path: &[String], known: &'f BTreeMap<ModulePath, String>) -> Option<&'f str> {
    (1..=path.len()).rev().find_map(|length| known.get(&path[..length])).map(String::as_str)
}

/// What every file says of others, by file; files of tests are left out.
fn mentions(known: &BTreeMap<ModulePath, String>) -> BTreeMap<&str, (ModulePath, Mentions)> {
    let read = |(module, file): (&ModulePath, &'_ String)| {
        let path: PathBuf = Path::new(env!("CARGO_MANIFEST_DIR")).join("src").join(file);
        let mut mentions = Mentions::default();
        mentions.visit_file(&syn::parse_file(&fs::read_to_string(path).unwrap()).unwrap());
        (module.clone(), mentions)
    };
    let all: Vec<_> = known.iter().map(|entry| (entry.1.as_str(), read(entry))).collect();
    let of_tests: BTreeSet<ModulePath> = all
        .iter()
        .flat_map(|(_, (module, found))| {
            found.test_modules.iter().map(|name| [module.clone(), vec![name.clone()]].concat())
        })
        .collect();
    let is_test = |module: &ModulePath| (1..=module.len()).any(|length| of_tests.contains(&module[..length]));
    all.into_iter().filter(|(_, (module, _))| !is_test(module)).collect()
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let known = files();
    let mentions = mentions(&known);
    let mut imports: DiGraphMap<&str, ()> = DiGraphMap::new();
    for (&file, (module, found)) in &mentions {
        let targets = found.paths.iter().filter_map(|path| resolve(path, module, &known));
        for target in targets.filter_map(|path| file_of(&path, &known)) {
            if target != file && mentions.contains_key(target) {
                imports.add_edge(file, target, ());
            }
        }
    }
    let circles: Vec<Vec<&str>> =
        tarjan_scc(&imports).into_iter().filter(|circle| circle.len() > 1).collect();
    println!("{} files, {} circles", mentions.len(), circles.len());
    assert!(circles.is_empty(), "these import each other in a circle: {circles:?}");
}

/// Top-level folder of a source file; `None` for the files next to these folders.
fn room_of(file: &str) -> Option<&str> {
    file.split_once('/').map(|(room, _)| room)
}

#[test]
fn no_rooms_use_each_other_in_a_circle() {
    let known = files();
    let mentions = mentions(&known);
    let mut uses: DiGraphMap<&str, ()> = DiGraphMap::new();
    for (&file, (module, found)) in &mentions {
        let targets = found.paths.iter().filter_map(|path| resolve(path, module, &known));
        for target in targets.filter_map(|path| file_of(&path, &known)) {
            if let (Some(user), Some(used)) = (room_of(file), room_of(target))
                && user != used
            {
                uses.add_edge(user, used, ());
            }
        }
    }
    let circles: Vec<Vec<&str>> = tarjan_scc(&uses).into_iter().filter(|circle| circle.len() > 1).collect();
    println!("{} rooms, {} circles", uses.node_count(), circles.len());
    assert!(circles.is_empty(), "these rooms use each other in a circle: {circles:?}");
    let of_base: Vec<&str> = uses.neighbors("base").collect();
    assert!(of_base.is_empty(), "base may use no other room: {of_base:?}");
}

#[test]
fn no_folder_has_too_many_files() {
    let mut folders: BTreeMap<&str, usize> = BTreeMap::new();
    let known = files();
    for file in known.values() {
        *folders.entry(file.rsplit_once('/').map_or("", |(folder, _)| folder)).or_default() += 1;
    }
    let most = folders.iter().max_by_key(|(_, files)| **files).unwrap();
    println!("{} folders, the fullest is {} with {} files", folders.len(), most.0, most.1);
    let full: Vec<_> = folders.iter().filter(|(_, files)| **files > MOST_FILES).collect();
    assert!(full.is_empty(), "more than {MOST_FILES} files: {full:?}");
}

/// Fixtures are programs of one file each; all that is in Rust elsewhere in tests and benches is counted as in `src`.
#[test]
fn no_folder_of_tests_has_too_many_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join("tests"), root.join("benches")];
    let mut full = Vec::new();
    while let Some(folder) = folders.pop() {
        let entries = || fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        let files = entries().filter(|path| path.extension() == Some(OsStr::new("rs"))).count();
        if files > MOST_FILES {
            full.push((folder.clone(), files));
        }
        folders.extend(entries().filter(|path| path.is_dir()));
    }
    assert!(full.is_empty(), "more than {MOST_FILES} files: {full:?}");
}

/// The lines of every file of sources, C and tests included, by its path relative to `src`.
fn lines_of_files() -> BTreeMap<String, usize> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = BTreeMap::new();
    let mut folders = vec![root.clone()];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path
                .extension()
                .is_some_and(|ending| ["rs", "c", "h", "js", "css"].map(OsStr::new).contains(&ending))
            {
                let name = path.strip_prefix(&root).unwrap().to_str().unwrap().to_owned();
                found.insert(name, fs::read_to_string(path).unwrap().lines().count());
            }
        }
    }
    found
}

#[test]
fn no_file_is_long() {
    let lines = lines_of_files();
    let most = lines.iter().max_by_key(|(_, lines)| **lines).unwrap();
    println!("{} files of sources, the longest is {} with {} lines", lines.len(), most.0, most.1);
    for (file, reason) in LONGER_FILES {
        assert!(
            lines.get(file).is_some_and(|lines| *lines > MOST_LINES),
            "{file} is short enough: remove it from LONGER_FILES"
        );
        println!("  {} lines  {file}: {reason}", lines[file]);
    }
    let is_exception = |file: &str| LONGER_FILES.iter().any(|(exception, _)| *exception == file);
    let long: Vec<_> =
        lines.iter().filter(|(file, lines)| **lines > MOST_LINES && !is_exception(file)).collect();
    assert!(long.is_empty(), "more than {MOST_LINES} lines: {long:?}");
}

/// The folders in the tree of docs/architecture.md, relative to `src`, and what the tree says of each.
fn folders_of_the_docs() -> BTreeMap<String, String> {
    let page = include_str!("../docs/architecture.md");
    let tree = page.split_once("\nsrc/\n").and_then(|(_, rest)| rest.split_once("```")).unwrap().0;
    let mut path: Vec<&str> = Vec::new();
    let mut found = BTreeMap::new();
    for line in tree.lines() {
        let (name, said) = line.trim_start().split_once(' ').unwrap_or((line.trim_start(), ""));
        // Further right the text of the line before goes on.
        let depth = (line.len() - line.trim_start().len()) / 2;
        if name.ends_with('/') && depth <= path.len() + 1 {
            path.truncate(depth - 1);
            path.push(name.trim_end_matches('/'));
            found.insert(path.join("/"), said.trim().to_owned());
        }
    }
    found
}

/// All folders with sources of the program, relative to `src`, and those around them; not folders of tests.
fn folders_of_the_sources() -> BTreeSet<String> {
    let known = files();
    let of_rust = mentions(&known);
    let lines = lines_of_files();
    let of_others = lines.keys().map(String::as_str).filter(|file| !file.ends_with(".rs"));
    let mut found = BTreeSet::new();
    for mut path in of_rust.keys().copied().chain(of_others) {
        while let Some((folder, _)) = path.rsplit_once('/') {
            found.insert(folder.to_owned());
            path = folder;
        }
    }
    found
}

#[test]
fn the_tree_of_the_docs_is_that_of_the_sources() {
    let documented = folders_of_the_docs();
    let folders = folders_of_the_sources();
    println!("{} folders with sources", folders.len());
    let gone: Vec<_> = documented.keys().filter(|folder| !folders.contains(*folder)).collect();
    assert!(
        gone.is_empty(),
        "docs/architecture.md has these folders, but src has no sources there: {gone:?}"
    );
    let missing: Vec<_> = folders.iter().filter(|folder| !documented.contains_key(*folder)).collect();
    assert!(missing.is_empty(), "the tree in docs/architecture.md lacks these folders: {missing:?}");
    let unsaid: Vec<_> = documented.iter().filter(|(_, said)| said.is_empty()).collect();
    assert!(
        unsaid.is_empty(),
        "the tree in docs/architecture.md has no description of these folders: {unsaid:?}"
    );
}

#[test]
fn no_function_is_long() {
    let known = files();
    let mentions = mentions(&known);
    let all = || {
        mentions.iter().flat_map(|(file, (_, found))| found.long_functions.iter().map(move |one| (file, one)))
    };
    let mut long: Vec<_> = all().filter(|(_, (_, lines))| *lines > 60).collect();
    long.sort_by_key(|(_, (_, lines))| std::cmp::Reverse(*lines));
    println!("{} functions, {} of more than 60 lines", all().count(), long.len());
    for (file, (name, lines)) in &long {
        println!("  {lines} lines  {name}  {file}");
    }
    assert!(long.is_empty(), "functions of more than 60 lines: {long:?}");
}

#[test]
fn few_items_are_public_and_few_names_mean_two_things() {
    let known = files();
    let mentions = mentions(&known);
    let public: usize = mentions.values().map(|(_, found)| found.public).sum();
    println!("{public} public items");
    let mut files_of: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (file, (_, found)) in &mentions {
        found.types.iter().for_each(|name| files_of.entry(name).or_default().push(file));
    }
    let doubled: Vec<_> = files_of.into_iter().filter(|(_, files)| files.len() > 1).collect();
    println!("{} names of several types", doubled.len());
    for (name, files) in &doubled {
        println!("  {name}  {}", files.join(" "));
    }
    assert!(public <= MOST_PUBLIC, "{public} public items: pub(crate) is enough for what no test uses");
    assert!(doubled.len() <= MOST_DOUBLED, "{} names of several types", doubled.len());
}

/// All files with Rust in them below a folder of the project.
fn rust_below(folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension() == Some(OsStr::new("rs")) {
                found.push(path);
            }
        }
    }
    found
}

#[test]
fn every_promise_has_tests_that_exist() {
    /// The promises of docs/promises.md.
    const PROMISES: usize = 25;
    let mut tests = BTreeSet::new();
    for path in ["src", "tests"].into_iter().flat_map(rust_below) {
        let text = fs::read_to_string(path).unwrap();
        let after =
            text.split("#[test]").skip(1).filter_map(|after| after.split_once("fn ")?.1.split_once('('));
        tests.extend(after.map(|(name, _)| name.to_owned()));
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/promises.md");
    let page = fs::read_to_string(page).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ") && line.contains('`')).collect();
    assert_eq!(rows.len(), PROMISES);
    for row in rows {
        let named: Vec<&str> = row.rsplit_once(" | `").unwrap().1.split('`').step_by(2).collect();
        let missing: Vec<&&str> = named.iter().filter(|name| !tests.contains(**name)).collect();
        assert!(named.len() > 1 && missing.is_empty(), "{missing:?} in `{row}`");
    }
}
