//! Names in little room, so that they can still be distinguished.

use super::safe_text;
use std::borrow::Cow;
use std::collections::BTreeMap;

/// The name of a function in at most `columns` columns. What says most is its last part, which is kept whole if it can be:
/// `…Monitor::wait`, `…quicksort.sort`; a name without parts loses its middle.
pub(crate) fn fit_name(name: &str, columns: usize) -> Cow<'_, str> {
    if safe_text::width(name) <= columns {
        return Cow::Borrowed(name);
    }
    let last = &name[last_part(name)..];
    match last.len() < name.len() && safe_text::width(last) < columns {
        true => safe_text::fit_end(name, columns),
        false => {
            let lead = if last.len() < name.len() && columns > 8 { "…" } else { "" };
            Cow::Owned(format!(
                "{lead}{}",
                safe_text::fit_middle(last, columns.saturating_sub(safe_text::width(lead)))
            ))
        }
    }
}

/// Returns the start of the last part of a qualified name; 0 for one without parts.
fn last_part(name: &str) -> usize {
    let mut depth = 0usize;
    let mut start = 0;
    // With a blank there is a file after the name.
    let (bytes, has_colons) = (name.as_bytes(), name.contains("::") || name.contains(' '));
    for (at, c) in name.char_indices() {
        match c {
            '<' | '(' | '[' | '{' => depth += 1,
            '>' | ')' | ']' | '}' => depth = depth.saturating_sub(1),
            ':' if depth == 0 && bytes.get(at + 1) == Some(&b':') => start = at + 2,
            // Of Go and Java; not `.isra.0`.
            '.' if depth == 0 && !has_colons && is_dotted_path(&name[at + 1..]) => start = at + 1,
            _ => {}
        }
    }
    if start < name.len() { start } else { 0 }
}

/// Whether what stands after a dot is a part of a path, and not what a compiler has marked a copy with.
fn is_dotted_path(rest: &str) -> bool {
    const MARKS: [&str; 6] = ["isra", "constprop", "part", "cold", "lto_priv", "llvm"];
    let is_mark = MARKS
        .iter()
        .any(|mark| rest.strip_prefix(mark).is_some_and(|rest| rest.is_empty() || rest.starts_with('.')));
    !is_mark && rest.starts_with(|c: char| c == '_' || c == '(' || c.is_alphabetic())
}

/// `texts` in at most `columns` columns each, cut by `fit`; those that differ still do, as far as there is room to show in what.
pub(crate) fn fit_apart(
    texts: &[String],
    columns: usize,
    fit: fn(&str, usize) -> Cow<'_, str>,
) -> Vec<String> {
    let mut fitted: Vec<String> = texts.iter().map(|text| fit(text, columns).into_owned()).collect();
    let mut same: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, text) in fitted.iter().enumerate() {
        same.entry(text.clone()).or_default().push(at);
    }
    for group in same.into_values().filter(|group| group.iter().any(|at| texts[*at] != texts[group[0]])) {
        let members: Vec<Vec<char>> = group.iter().map(|at| texts[*at].chars().collect()).collect();
        let distinct = || members.iter().filter(|member| **member != members[0]);
        let shared = |a: &mut dyn Iterator<Item = (&char, &char)>| a.take_while(|(a, b)| a == b).count();
        let prefix = distinct().map(|other| shared(&mut members[0].iter().zip(other))).min().unwrap_or(0);
        let suffix =
            distinct().map(|other| shared(&mut members[0].iter().rev().zip(other.iter().rev()))).min();
        for (at, member) in group.iter().zip(&members) {
            let end = member.len().saturating_sub(suffix.unwrap_or(0)).max(prefix);
            let [before, core, after] = [&member[..prefix], &member[prefix..end], &member[end..]]
                .map(|part| part.iter().collect::<String>());
            fitted[*at] = fit_around(&before, &core, &after, columns);
        }
    }
    fitted
}

/// Three parts of a text in at most `columns` columns, of which the one in the middle matters.
fn fit_around(before: &str, core: &str, after: &str, columns: usize) -> String {
    let core = safe_text::fit_middle(core, columns.saturating_sub(2).max(1));
    let left = columns.saturating_sub(safe_text::width(&core));
    let tail = safe_text::fit_tail(after, left - safe_text::width(before).min(left / 2));
    let head = safe_text::fit_middle(before, left.saturating_sub(safe_text::width(&tail)));
    format!("{head}{core}{tail}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::safe_text::{fit_middle, width};
    use proptest::prelude::*;

    #[test]
    fn a_function_keeps_the_last_part_of_its_name() {
        for (name, columns, expected) in [
            ("PlatformMonitor::wait", 30, "PlatformMonitor::wait"),
            ("PlatformMonitor::wait", 13, "…onitor::wait"),
            ("CompileBroker::compile_method.part.0", 16, "…compile….part.0"),
            ("java.util.TimSort.sort", 12, "…imSort.sort"),
            ("main.(*server).handle", 10, "…r).handle"),
            ("__futex_abstimed_wait_common64", 11, "__fut…mon64"),
            ("sort.isra.0", 8, "sort…a.0"),
            ("map<a::b, c::d>::find", 8, "…>::find"),
        ] {
            assert_eq!(fit_name(name, columns), expected, "{name}");
        }
    }

    #[test]
    fn texts_that_differ_do_so_when_they_are_cut() {
        let texts = ["compute_the_first_value_of_all", "compute_the_second_value_of_all", "other"];
        let texts = texts.map(str::to_owned);
        let fitted = fit_apart(&texts, 14, fit_middle);
        assert_eq!(fitted.iter().collect::<std::collections::BTreeSet<_>>().len(), 3, "{fitted:?}");
        assert!(fitted[0].contains("fir") && fitted[1].contains("sec"), "{fitted:?}");
        assert!(fitted.iter().all(|text| width(text) <= 14), "{fitted:?}");
        let same = [texts[0].clone(), texts[0].clone()];
        assert_eq!(fit_apart(&same, 14, fit_middle)[0], fit_middle(&texts[0], 14));
    }

    proptest! {
        #[test]
        fn fitted_names_fit(text in "[a-z:.<>_()é…]{0,40}", columns in 0usize..30) {
            prop_assert!(width(&fit_name(&text, columns)) <= columns);
            let others = [text.clone(), format!("{text}x"), format!("x{text}")];
            for fitted in fit_apart(&others, columns, fit_name) {
                prop_assert!(width(&fitted) <= columns.max(3), "{:?}", fitted);
            }
        }
    }
}
