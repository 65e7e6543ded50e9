//! The names that are most like one that is not there.

use std::cmp::Reverse;

/// Names that are compared, and their length, bytes.
const MOST_COMPARED: usize = 20_000;
const MOST_NAME_BYTES: usize = 128;

/// Names that are listed.
const MOST_NEAR: usize = 5;

/// Likeness from which on a name is near; 1000 is the same.
const LEAST_LIKENESS: u32 = 750;

/// Hint for when no function matches: which of `names` are most like `wanted`, a name or a regular expression, else how to
/// see them all. Foreign text.
pub(crate) fn nearest_hint<'n>(names: impl Iterator<Item = &'n str>, wanted: &str) -> String {
    match nearest(names, wanted)[..] {
        [] => "to see the names:  prof report -n 0".to_owned(),
        ref near => format!("the nearest names:  {}", near.join(", ")),
    }
}

/// The names most like `wanted`, the most alike first; none if none is near. Foreign text.
pub(crate) fn nearest<'n>(names: impl Iterator<Item = &'n str>, wanted: &str) -> Vec<&'n str> {
    let wanted = wanted.trim_start_matches('^').trim_end_matches('$').to_lowercase();
    if wanted.is_empty() || wanted.len() > MOST_NAME_BYTES {
        return Vec::new();
    }
    let likeness = |name: &str| {
        let name = name.to_lowercase();
        let last = name.rsplit("::").next().unwrap_or(&name).to_owned();
        let compared = [name, last].into_iter().filter(|name| name.len() <= MOST_NAME_BYTES);
        let best = compared.map(|name| strsim::jaro_winkler(&name, &wanted)).fold(0.0, f64::max);
        (best * 1000.0) as u32
    };
    let mut near: Vec<(u32, &str)> = names
        .take(MOST_COMPARED)
        .map(|name| (likeness(name), name))
        .filter(|(like, _)| *like > LEAST_LIKENESS)
        .collect();
    near.sort_by_key(|(like, name)| (Reverse(*like), *name));
    // A function may be in several modules.
    near.dedup();
    near.into_iter().take(MOST_NEAR).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_names_are_those_with_few_other_letters() {
        let names = ["core::hash::finish", "parse_record", "parse_record", "push", "main"];
        let near = |wanted: &str| nearest(names.into_iter(), wanted);
        assert_eq!(near("parse_recrod")[0], "parse_record");
        assert_eq!(near("^Finsih$"), ["core::hash::finish"]);
        assert_eq!(near("xyz"), [""; 0]);
        assert_eq!(near(""), [""; 0]);
        assert_eq!(near("parse_record"), ["parse_record"], "each once");
        assert_eq!(nearest_hint(names.into_iter(), "("), "to see the names:  prof report -n 0");
    }
}
