//! The house in numbers: which files import each other in circles, how many files a folder has, how long files and functions
//! are, in Rust and in C, which names mean several things.
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

/// A function with more lines than this is two things.
const MOST_FUNCTION_LINES: usize = 60;

/// Functions that may be longer, by the end of the path of their file, and why.
const LONGER_FUNCTIONS: &[(&str, &str, &str)] = &[
    (
        "bpf/c/walk/unwind.bpf.h",
        "step_rule",
        "the verifier checks it once, as a function of its own; parts of it would be more such",
    ),
    (
        "file/rows/records.rs",
        "from",
        "a line for each field of a recording, twice, so that none can be forgotten",
    ),
    ("file/tests/steps.rs", "apply", "an arm for each kind of step"),
    ("tests/table/oracle.rs", "every_rule_says_what_gimli_says", "an arm for each kind of rule"),
    ("report/tests/fixture.rs", "ingest", "a recording, sample by sample"),
    (
        "names/complete/tests.rs",
        "frames_are_named_by_the_very_file_that_was_recorded",
        "one file after another at one path",
    ),
    (
        "tui/tests/one_model.rs",
        "callers_and_callees_have_the_numbers_of_peek",
        "a table next to another, column by column",
    ),
    (
        "tui/tests/one_model.rs",
        "every_box_has_the_numbers_of_the_tree_of_the_report",
        "a tree next to another, node by node",
    ),
    ("diff/tests/simulation.rs", "simulated", "a program of two builds, number by number"),
    (
        "tests/html_page.rs",
        "the_keyboard_and_the_search_work",
        "one session: each step begins where the one before ended",
    ),
    ("tests/html_page.rs", "an_svg_keeps_its_controls_on_the_screen", "one session, as above"),
    ("live/terminal/live.rs", "drive", "one session, as above"),
    ("live/terminal/screens.rs", "turn_back", "one session, as above"),
    (
        "live/targets/accounts.rs",
        "a_live_view_has_the_times_of_the_kernels_own_books_at_any_moment",
        "one session, as above",
    ),
    ("walker/text.rs", "take_line", "an arm for each kind of line"),
];

/// Items, methods and constants that tests and benches see. The fewer, the more of the program can be changed without a look at
/// them. `Tab` (`tui/views/tabs.rs`), which a macro makes, is one more. Two are for all fuzz targets together (`fuzzing/mod.rs`), and
/// one for the test of damaged files, which shares their hostile process (`fuzzing/hostile.rs`).
const MOST_PUBLIC: usize = 257;

/// Names of types and aliases that mean different things in different rooms.
const MOST_DOUBLED: usize = 8;

/// Files that hold code, by their endings.
const SOURCES: [&str; 5] = ["rs", "c", "h", "js", "css"];

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
    /// Structs, enums, traits and aliases.
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
            syn::Item::Type(item) => Some((&item.vis, &item.attrs, Some(&item.ident))),
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
            visit::visit_item_fn(self, function);
        }
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        if !is_for_tests(&function.attrs) {
            self.public += usize::from(is_public(&function.vis, &function.attrs));
            visit::visit_impl_item_fn(self, function);
        }
    }

    fn visit_impl_item_const(&mut self, constant: &'ast syn::ImplItemConst) {
        if !is_for_tests(&constant.attrs) {
            self.public += usize::from(is_public(&constant.vis, &constant.attrs));
            visit::visit_impl_item_const(self, constant);
        }
    }
}

/// The lines of every function with a body, those of tests included.
#[derive(Default)]
struct FunctionLines(Vec<(String, usize)>);

impl FunctionLines {
    fn add(&mut self, name: &syn::Ident, body: &impl Spanned) {
        let lines = body.span().end().line - body.span().start().line + 1;
        self.0.push((name.to_string(), lines));
    }
}

impl<'ast> Visit<'ast> for FunctionLines {
    fn visit_item_fn(&mut self, function: &'ast syn::ItemFn) {
        self.add(&function.sig.ident, function);
        visit::visit_item_fn(self, function);
    }

    fn visit_impl_item_fn(&mut self, function: &'ast syn::ImplItemFn) {
        self.add(&function.sig.ident, function);
        visit::visit_impl_item_fn(self, function);
    }

    fn visit_trait_item_fn(&mut self, function: &'ast syn::TraitItemFn) {
        self.add(&function.sig.ident, function);
        visit::visit_trait_item_fn(self, function);
    }
}

/// The lines of every function of C, from its first line to the brace that ends it, as clang-format lays it out.
fn functions_of_c(text: &str) -> Vec<(String, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (open, _) in lines.iter().enumerate().filter(|(_, line)| **line == "{") {
        let ends_before =
            |line: &&&str| line.is_empty() || line.ends_with(['/', ';', '}']) || line.starts_with('#');
        let head = lines[..open].iter().rev().take_while(|line| !ends_before(line)).count();
        let Some(body) = lines[open..].iter().position(|line| *line == "}") else { continue };
        let head_text = lines[open - head..open].join(" ");
        // `BPF_PROG(name, …)` and `name(…)`, perhaps behind `SEC("…")`.
        let head_text = head_text.rsplit_once("\") int ").map_or(head_text.as_str(), |(_, text)| text);
        let call = head_text.replace("BPF_PROG(", "").replace("BPF_KPROBE(", "");
        let name = call.split(['(', ',']).next().unwrap_or_default();
        let name = name.rsplit([' ', '*']).next().unwrap_or_default();
        found.push((name.to_owned(), head + body + 1));
    }
    found
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
    let lines = lines_of_files();
    for file in lines.keys() {
        *folders.entry(file.rsplit_once('/').map_or("", |(folder, _)| folder)).or_default() += 1;
    }
    let most = folders.iter().max_by_key(|(_, files)| **files).unwrap();
    println!("{} folders, the fullest is {} with {} files", folders.len(), most.0, most.1);
    let full: Vec<_> = folders.iter().filter(|(_, files)| **files > MOST_FILES).collect();
    assert!(full.is_empty(), "more than {MOST_FILES} files: {full:?}");
}

/// Fixtures are programs of one file each; all code elsewhere in tests and benches is counted as in `src`.
#[test]
fn no_folder_of_tests_has_too_many_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut folders = vec![root.join("tests"), root.join("benches")];
    let mut full = Vec::new();
    while let Some(folder) = folders.pop() {
        let entries = || fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        let files = entries().filter(|path| is_source(path)).count();
        if files > MOST_FILES && !folder.ends_with("fixtures") {
            full.push((folder.clone(), files));
        }
        folders.extend(entries().filter(|path| path.is_dir()));
    }
    assert!(full.is_empty(), "more than {MOST_FILES} files: {full:?}");
}

fn is_source(path: &Path) -> bool {
    path.extension().is_some_and(|ending| SOURCES.map(OsStr::new).contains(&ending))
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
            } else if is_source(&path) {
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
    let long: Vec<_> = lines.iter().filter(|(_, lines)| **lines > MOST_LINES).collect();
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
fn functions_of_c_are_found() {
    let text = "static int one(void)\n{\n\treturn 1;\n}\n\n/* Two. */\nSEC(\"a\")\nint BPF_PROG(two, int a,\n\t     int b)\n{\n}\n";
    let found = functions_of_c(text);
    assert_eq!(found, [("one".to_owned(), 4), ("two".to_owned(), 5)]);
}

/// Of tests and benches, too.
#[test]
fn no_function_is_long() {
    let mut all: Vec<(String, String, usize)> = Vec::new();
    for path in ["src", "tests", "benches"].into_iter().flat_map(sources_below) {
        let text = fs::read_to_string(&path).unwrap();
        let found = match path.extension().and_then(OsStr::to_str) {
            Some("rs") => {
                let mut found = FunctionLines::default();
                found.visit_file(&syn::parse_file(&text).unwrap());
                found.0
            }
            Some("c" | "h") => functions_of_c(&text),
            _ => Vec::new(),
        };
        let file = path.to_str().unwrap().to_owned();
        all.extend(found.into_iter().map(|(name, lines)| (file.clone(), name, lines)));
    }
    let mut long: Vec<_> = all.iter().filter(|(.., lines)| *lines > MOST_FUNCTION_LINES).collect();
    long.sort_by_key(|(.., lines)| std::cmp::Reverse(*lines));
    println!("{} functions, {} of more than {MOST_FUNCTION_LINES} lines", all.len(), long.len());
    let is_of = |known: &(&str, &str, &str), (file, name, _): &(String, String, usize)| {
        file.ends_with(known.0) && name == known.1
    };
    for function in &long {
        let reason = LONGER_FUNCTIONS.iter().find(|known| is_of(known, function));
        println!(
            "  {} lines  {}  {}  {}",
            function.2,
            function.1,
            function.0,
            reason.map_or("", |known| known.2)
        );
    }
    for known in LONGER_FUNCTIONS {
        assert!(long.iter().any(|function| is_of(known, function)), "{} needs no exception", known.1);
    }
    long.retain(|function| !LONGER_FUNCTIONS.iter().any(|known| is_of(known, function)));
    assert!(long.is_empty(), "functions of more than {MOST_FUNCTION_LINES} lines: {long:?}");
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

/// All files with code below a folder of the project, but for fixtures, which are programs of their own.
fn sources_below(folder: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join(folder)];
    while let Some(folder) = folders.pop() {
        for path in fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()) {
            if path.is_dir() && !path.ends_with("fixtures") {
                folders.push(path);
            } else if is_source(&path) {
                found.push(path);
            }
        }
    }
    found
}

#[test]
fn every_promise_has_tests_that_exist_and_name_it() {
    /// The promises of docs/promises.md.
    const PROMISES: usize = 25;
    // The tests, each with the promises that its comment names.
    let mut tests: BTreeMap<String, String> = BTreeMap::new();
    let is_rust = |path: &PathBuf| path.extension() == Some(OsStr::new("rs"));
    for path in ["src", "tests"].into_iter().flat_map(sources_below).filter(is_rust) {
        let text = fs::read_to_string(path).unwrap();
        let parts: Vec<&str> = text.split("#[test]").collect();
        for pair in parts.windows(2) {
            let Some((name, _)) = pair[1].split_once("fn ").and_then(|(_, rest)| rest.split_once('(')) else {
                continue;
            };
            let above = pair[0].trim_end().lines().rev().map(str::trim_start);
            let comment = above.take_while(|line| line.starts_with("///") || line.starts_with("#["));
            tests.entry(name.to_owned()).or_default().extend(comment.flat_map(|line| [line, "\n"]));
        }
    }
    let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs/promises.md");
    let page = fs::read_to_string(page).unwrap();
    let rows: Vec<&str> = page.lines().filter(|line| line.starts_with("| ") && line.contains('`')).collect();
    assert_eq!(rows.len(), PROMISES);
    for (number, row) in (1..).zip(rows) {
        let named: Vec<&str> = row.rsplit_once(" | `").unwrap().1.split('`').step_by(2).collect();
        let line = format!("/// Detail {number} of the promises: ");
        let is_told = |name: &&&str| tests.get(**name).is_some_and(|comment| comment.contains(&line));
        let missing: Vec<&&str> = named.iter().filter(|name| !is_told(name)).collect();
        assert!(named.len() > 1 && missing.is_empty(), "{missing:?} in `{row}` have no line `{line}…`");
    }
}
