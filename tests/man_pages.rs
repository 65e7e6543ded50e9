//! The manual pages under `man/` are what the command line's definition and the hand-written sections give.
//!
//! `UPDATE=1 cargo test --test man_pages` (or `make man`) writes them again. The sections in `man/sections`
//! are roff: `<page>.roff` for one page, `_end.roff` for the end of all of them. A line `@capabilities@` in them is replaced with the list
//! of `prof::internals::record::CAPABILITIES`, which README.md has, too.

use clap_mangen::Man;
use prof::internals::record::{CAPABILITIES, Capability};
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("man")
}

/// The hand-written sections of a page, or nothing.
fn section(name: &str) -> String {
    let text = fs::read_to_string(folder().join("sections").join(format!("{name}.roff"))).unwrap_or_default();
    // Comments are for editors of the sections.
    let lines = text.lines().filter(|line| !line.starts_with(".\\\""));
    lines
        .map(|line| if line == "@capabilities@" { capabilities_roff() } else { format!("{line}\n") })
        .collect()
}

/// The capabilities that a recording uses, as a list of a manual page.
fn capabilities_roff() -> String {
    let item = |capability: &Capability| {
        let Capability { name, buys, without, .. } = capability;
        format!(".TP\n.B {name}\n{buys}; without it, {without}\n")
    };
    CAPABILITIES.iter().map(item).collect()
}

/// The same as a table of README.md, with the lines around it.
fn capabilities_table() -> String {
    let row = |capability: &Capability| {
        let Capability { name, buys, without, .. } = capability;
        format!("| {name} | {buys} | {without} |\n")
    };
    let rows: String = CAPABILITIES.iter().map(row).collect();
    format!(
        "{TABLE_BEGINS}\n\n| capability | what it buys | without it |\n| --- | --- | --- |\n{rows}\n{TABLE_ENDS}"
    )
}

const TABLE_BEGINS: &str = "<!-- capabilities: `make man` writes this table -->";
const TABLE_ENDS: &str = "<!-- end of capabilities -->";

/// The forms of a command, `man/sections/<page>.synopsis`, one a line: what clap writes by itself lists every option,
/// without their values.
fn synopsis(name: &str) -> String {
    let path = folder().join("sections").join(format!("{name}.synopsis"));
    let forms = fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    let lines: Vec<String> = forms.lines().map(|line| line.replace('-', "\\-")).collect();
    format!(".SH SYNOPSIS\n.nf\n{}\n.fi\n", lines.join("\n"))
}

fn page(command: &clap::Command, name: &str) -> Vec<u8> {
    let title = name.to_uppercase();
    // Building the root gave each subcommand its full name (`prof record`) and page name (`prof-record`).
    let man = Man::new(command.clone())
        .title(title)
        .section("1")
        .manual("prof manual")
        .source(format!("prof {}", env!("CARGO_PKG_VERSION")));
    let mut text = Vec::new();
    man.render_title(&mut text).expect("writing to memory does not fail");
    man.render_name_section(&mut text).expect("writing to memory does not fail");
    text.extend_from_slice(synopsis(name).as_bytes());
    man.render_description_section(&mut text).expect("writing to memory does not fail");
    man.render_options_section(&mut text).expect("writing to memory does not fail");
    if command.has_subcommands() {
        man.render_subcommands_section(&mut text).expect("writing to memory does not fail");
    }
    text.extend_from_slice(section(name).as_bytes());
    text.extend_from_slice(section("_end").as_bytes());
    text
}

/// All pages by file name.
fn pages() -> BTreeMap<String, Vec<u8>> {
    // `prof help` needs no page of its own.
    let mut root = prof::internals::cli::command().disable_help_subcommand(true);
    root.build();
    let mut pages = BTreeMap::from([("prof.1".to_owned(), page(&root, "prof"))]);
    for command in root.get_subcommands().filter(|command| !command.is_hide_set()) {
        let name = format!("prof-{}", command.get_name());
        pages.insert(format!("{name}.1"), page(command, &name));
    }
    pages
}

fn checked_in() -> BTreeMap<String, Vec<u8>> {
    let files = fs::read_dir(folder()).expect("man/ is part of the repository").flatten();
    let pages = files.filter(|file| file.path().extension().is_some_and(|extension| extension == "1"));
    pages
        .map(|file| {
            let text = fs::read(file.path()).expect("man/ is readable");
            (file.file_name().to_string_lossy().into_owned(), text)
        })
        .collect()
}

#[test]
fn manual_pages_are_up_to_date() {
    let pages = pages();
    if std::env::var_os("UPDATE").is_some() {
        for stale in checked_in().keys().filter(|name| !pages.contains_key(*name)) {
            fs::remove_file(folder().join(stale)).expect("man/ is writable");
        }
        for (name, text) in &pages {
            fs::write(folder().join(name), text).expect("man/ is writable");
        }
    }
    let checked_in = checked_in();
    for (name, text) in &pages {
        let same = checked_in.get(name).is_some_and(|old| old == text);
        assert!(same, "man/{name} is out of date: run `make man`");
    }
    for name in checked_in.keys() {
        assert!(pages.contains_key(name), "man/{name} belongs to no command: run `make man`");
    }
}

#[test]
fn the_readme_has_the_list_of_capabilities() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("README.md");
    let text = fs::read_to_string(&path).expect("README.md is part of the repository");
    let (before, rest) = text.split_once(TABLE_BEGINS).expect("the table has a beginning");
    let (_, after) = rest.split_once(TABLE_ENDS).expect("the table has an end");
    let wanted = format!("{before}{}{after}", capabilities_table());
    if std::env::var_os("UPDATE").is_some() {
        fs::write(&path, &wanted).expect("README.md is writable");
    }
    let now = fs::read_to_string(&path).expect("README.md is part of the repository");
    assert!(now == wanted, "the capabilities in README.md are out of date: run `make man`");
}

#[test]
fn every_page_has_the_sections_that_users_look_for() {
    for (name, text) in pages() {
        let text = String::from_utf8_lossy(&text).into_owned();
        let expected: &[&str] = match name.as_str() {
            "prof-record.1" => &["EXAMPLES", "EXIT STATUS", "FILES", "OVERHEAD", "CAVEATS"],
            _ => &["EXAMPLES", "EXIT STATUS"],
        };
        for section in expected {
            let heading = |line: &str| line.trim_start_matches(".SH ").trim_matches('"') == *section;
            assert!(text.lines().any(heading), "{name} has no section {section}");
        }
    }
}
