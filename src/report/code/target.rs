//! Resolves what the user typed to a function: by name, pattern, or address.

use crate::base::failure::{Failure, status};
use crate::base::units::{percent, percent_text};
use crate::profile::{FrameId, Profile};
use crate::report::model::label::{Label, LabelId, module_text};
use crate::report::model::label_key::address_text;
use crate::report::naming::name::{module_file, module_stem};
use crate::report::naming::nearest::nearest_hint;
use crate::report::naming::style::NameStyle;
use crate::report::query::selection::Selection;
use crate::report::views::function_table::{FunctionRow, FunctionTable};
use regex::Regex;
use std::cmp::Reverse;

/// Functions that are listed.
const MOST_LISTED: usize = 10;

/// The function of `selection` (by function) that `wanted` means.
///
/// # Errors
///
/// Status 3 when there is none, with the nearest names, or when there are several, with their shares.
pub(crate) fn find(
    selection: &Selection<'_>,
    table: &FunctionTable,
    wanted: &str,
) -> Result<LabelId, Failure> {
    let labels = &selection.labels;
    let rows: Vec<&FunctionRow> =
        table.rows.iter().filter(|row| labels.get(row.label).kind.is_code()).collect();
    let matching = |is: &dyn Fn(&Label) -> bool| -> Vec<&FunctionRow> {
        rows.iter().copied().filter(|row| is(labels.get(row.label))).collect()
    };
    let mut found = matching(&|label| label.name == wanted || label.raw_name == wanted);
    // A name that was copied from lines of a terminal has line breaks where it has blanks.
    let on_one_line = wanted.split_whitespace().collect::<Vec<_>>().join(" ");
    let wanted = on_one_line.as_str();
    if found.is_empty() {
        found = matching(&|label| {
            label.name == wanted || label.raw_name == wanted || label.name_in(NameStyle::Short) == wanted
        });
    }
    if found.is_empty()
        && let Some((module, address)) = place(wanted)
    {
        found = of_address(selection, &rows, module, address);
    }
    if found.is_empty()
        && let Ok(pattern) = Regex::new(wanted)
    {
        found = matching(&|label| label.matches(&pattern));
    }
    match found[..] {
        [] => Err(nothing(selection, &rows, wanted)),
        [only] => Ok(only.label),
        _ => Err(several(selection, found, wanted)),
    }
}

/// `MODULE+0xADDRESS`.
fn place(text: &str) -> Option<(&str, u64)> {
    let (module, address) = text.rsplit_once("+0x")?;
    Some((module, u64::from_str_radix(address, 16).ok()?))
}

/// The function with code or a sample at an address.
fn of_address<'r>(
    selection: &Selection<'_>,
    rows: &[&'r FunctionRow],
    module: &str,
    address: u64,
) -> Vec<&'r FunctionRow> {
    let profile = selection.profile;
    let path = |id| {
        let row = profile.tables.module(id);
        module_text(profile, row.path, row.kind)
    };
    let is_module = |path: &str| path == module || module_file(path) == module;
    let code = profile.code.iter().find(|code| code.contains(address) && is_module(&path(code.module)));
    let of_code = code.map(|code| (code.function, path(code.module)));
    let of_frame = || {
        let at = profile
            .tables
            .frames()
            .iter()
            .position(|frame| frame.lookup_address() == address && is_module(&path(frame.module)))?;
        let owner = profile.symbols.locations(FrameId(at as u32)).last()?;
        Some((owner.function, path(profile.tables.frames()[at].module)))
    };
    let Some((function, path)) = of_code.or_else(of_frame) else { return Vec::new() };
    let name = profile.tables.string(profile.symbols.function(function).name);
    let is_it = |row: &&&FunctionRow| {
        let label = selection.labels.get(row.label);
        label.name == name && label.module == path
    };
    rows.iter().filter(is_it).copied().collect()
}

/// Error that several functions match, with the largest of them.
fn several(selection: &Selection<'_>, mut found: Vec<&FunctionRow>, wanted: &str) -> Failure {
    found.sort_by_key(|row| Reverse((row.own.weight, row.total.weight)));
    let message = format!("`{wanted}` matches {} functions", found.len());
    let mut failure = Failure::new(status::NO_MATCH, message);
    for row in found.iter().take(MOST_LISTED) {
        failure = failure.hint(line(selection, row));
    }
    if let Some(more) = found.len().checked_sub(MOST_LISTED).filter(|more| *more > 0) {
        failure = failure.hint(format!("... and {more} more"));
    }
    failure.hint("name one in full, or by an address in it:  prof annotate MODULE+0xADDRESS")
}

/// `self 12.0%  total 15.1%  NAME  MODULE+0xADDRESS`.
fn line(selection: &Selection<'_>, row: &FunctionRow) -> String {
    let label = selection.labels.get(row.label);
    let share = |weight| percent_text(percent(weight, selection.total.weight));
    let place = address_of(selection.profile, label).unwrap_or_else(|| module_stem(&label.module).to_owned());
    format!(
        "self {:>5}  total {:>5}  {}  {place}",
        share(row.own.weight),
        share(row.total.weight),
        label.name_in(NameStyle::Full)
    )
}

/// A place in the function of `label`.
fn address_of(profile: &Profile, label: &Label) -> Option<String> {
    let at = profile.tables.frames().iter().enumerate().position(|(at, frame)| {
        let owner = profile.symbols.locations(FrameId(at as u32)).last();
        let name = owner.map(|owner| profile.tables.string(profile.symbols.function(owner.function).name));
        let module = profile.tables.module(frame.module);
        name == Some(&label.name) && module_text(profile, module.path, module.kind) == label.module
    })?;
    Some(address_text(&label.module, profile.tables.frames()[at].lookup_address()))
}

/// Error that no function matches, with the names most like `wanted`.
fn nothing(selection: &Selection<'_>, rows: &[&FunctionRow], wanted: &str) -> Failure {
    let failure = Failure::new(status::NO_MATCH, format!("no function in a sample matches `{wanted}`"));
    let names = rows.iter().map(|row| selection.labels.get(row.label).name_in(NameStyle::Short));
    failure.hint(nearest_hint(names, wanted))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::options::{CommonOptions, SortKey};
    use crate::report::tests::fixture::ingest;

    fn found(wanted: &str) -> Result<String, Failure> {
        let recording = ingest();
        let selection = recording.select(&CommonOptions::default()).unwrap();
        let table = FunctionTable::new(&selection, SortKey::default());
        find(&selection, &table, wanted).map(|label| selection.labels.get(label).name.clone())
    }

    #[test]
    fn an_exact_name_is_taken_though_a_pattern_would_match_more() {
        assert_eq!(found("parse_record").unwrap(), "parse_record");
        assert_eq!(found("rse_rec..d$").unwrap(), "parse_record");
    }

    #[test]
    fn several_are_listed_with_their_shares() {
        let failure = found("a").unwrap_err();
        assert_eq!(failure.status, 3);
        assert!(failure.message.starts_with("`a` matches ") && failure.hints.len() > 2, "{failure}");
        assert!(failure.hints[0].starts_with("self "), "{failure}");
    }

    #[test]
    fn a_name_that_is_not_there_brings_the_nearest() {
        let failure = found("parse_recrod").unwrap_err();
        assert_eq!(failure.status, 3);
        assert!(failure.hints[0].starts_with("the nearest names:  parse_record"), "{failure}");
        let failure = found("(").unwrap_err();
        assert_eq!(failure.hints, ["to see the names:  prof report -n 0"]);
    }
}
