//! The call paths that carry most, a line for each.

use super::page::{HEADING, Page, push_line};
use crate::base::fit::fit_name;
use crate::base::safe_text;
use crate::base::units::{percent, percent_text};
use crate::report::model::label::{Label, LabelId};
use crate::report::model::label_kind::LabelKind;
use crate::report::naming::code::{Code, is_own};
use crate::report::naming::name::module_file;
use crate::report::naming::style::NameStyle;
use crate::report::query::selection::Selection;
use crate::report::views::heaviest_paths;
use rustc_hash::{FxHashMap, FxHashSet};
use std::cmp::Reverse;

/// Paths under the table.
const MOST_PATHS: usize = 5;
/// Paths that are shown when all are light.
const MOST_LIGHT_PATHS: usize = 3;
/// Share of all, in percent, below which a path is not worth a line among heavier ones.
const MIN_PATH_PERCENT: f64 = 1.0;
/// Paths that are looked at for those that carry most.
const MOST_CANDIDATES: usize = 1000;
/// A part that is cut to less than this says nothing.
const MIN_NAME_COLUMNS: usize = 6;

/// Marks functions that are left out.
const GAP: &str = "…";

pub(super) fn heaviest_paths(out: &mut String, selection: &Selection<'_>, page: &Page) {
    let share = |weight| percent(weight, selection.base().weight);
    let mut paths = shown_paths(selection);
    let heavy = paths.partition_point(|(_, weight)| share(*weight) >= MIN_PATH_PERCENT);
    paths.truncate(if heavy > 0 { heavy.min(MOST_PATHS) } else { MOST_LIGHT_PATHS });
    if paths.is_empty() {
        return;
    }
    push_line(out, &page.styled(HEADING, "HEAVIEST PATHS"));
    let labels: Vec<Vec<&Label>> = (paths.iter())
        .map(|(path, _)| path.iter().map(|label| selection.labels.get(*label)).collect())
        .collect();
    for (line, (_, weight)) in lines(&labels, page).iter().zip(&paths) {
        push_line(out, &format!("{:>7}  {line}", percent_text(share(*weight))));
    }
}

/// The lines of `paths`, leaf first. Different paths have different lines, as far as there is room.
fn lines(paths: &[Vec<&Label>], page: &Page) -> Vec<String> {
    let room = page.width.saturating_sub(9);
    let mut words: Vec<Vec<Word>> = paths.iter().map(|path| path_words(path, page)).collect();
    add_modules(&mut words, paths, page);
    let mut lines: Vec<String> = words.iter().map(|words| line(words, None, room, page)).collect();
    for at in 0..lines.len() {
        let same: Vec<usize> = (0..lines.len()).filter(|other| lines[*other] == lines[at]).collect();
        for &path in same.iter().filter(|_| same.len() > 1) {
            let other = if path == at { same[1] } else { at };
            let differs = words[path].iter().zip(&words[other]).position(|(a, b)| a.name != b.name);
            lines[path] = line(&words[path], differs, room, page);
        }
    }
    lines
}

/// Where paths have the same names, those of which the modules differ say the module, too.
fn add_modules(words: &mut [Vec<Word>], paths: &[Vec<&Label>], page: &Page) {
    let has_same_names = |a: usize, b: usize, words: &[Vec<Word>]| {
        words[a].len() == words[b].len() && words[a].iter().zip(&words[b]).all(|(a, b)| a.name == b.name)
    };
    let mut marks = Vec::new();
    for (a, path) in paths.iter().enumerate() {
        for b in (0..paths.len()).filter(|b| *b != a && has_same_names(a, *b, words)) {
            marks
                .extend(path.iter().zip(&paths[b]).position(|(a, b)| a.module != b.module).map(|at| (a, at)));
        }
    }
    marks.sort_unstable();
    marks.dedup();
    for (path, at) in marks {
        let module = page.safe(module_file(&paths[path][at].module)).into_owned();
        words[path][at].name.push_str(&format!(" ({module})"));
    }
}

/// A function of a path.
#[derive(Debug, PartialEq, Eq)]
struct Word {
    name: String,
    /// The program's own, which says more than those of the C library and of languages' runtimes.
    is_own: bool,
}

fn path_words(path: &[&Label], page: &Page) -> Vec<Word> {
    // Paths are an overview: their names are short whatever the table's are.
    let style = if page.names == NameStyle::Full { NameStyle::Short } else { page.names };
    let mut words = Vec::new();
    for (index, label) in path.iter().enumerate() {
        if index > 0 && label.kind == LabelKind::Cut {
            words.push(Word { name: "[truncated]".to_owned(), is_own: true });
            break;
        }
        let (module, name) = (label.module.as_str(), label.name.as_str());
        let is_own = is_own(Code { kind: label.kind, module, name, file: "", is_inlined: false });
        words.push(Word { name: page.safe(&label.text(style)).into_owned(), is_own });
    }
    words
}

/// The leaf and its callers in at most `room` columns. Where not all have room, those between the leaf and the program's own
/// functions go first, then those at the root; `must` is one that has to be seen.
fn line(words: &[Word], must: Option<usize>, room: usize, page: &Page) -> String {
    let whole = words.iter().map(|word| word.name.as_str()).collect::<Vec<_>>().join(" < ");
    if safe_text::width(&whole) <= room {
        return whole;
    }
    let Some((leaf, callers)) = words.split_first() else { return whole };
    let most = (page.width / 2).max(MIN_NAME_COLUMNS);
    let mut line = fit_name(&leaf.name, most.min(room)).into_owned();
    // The way to the program's own code, unless there is none.
    let mut skipped = callers.iter().position(|word| word.is_own).unwrap_or(0);
    if must.is_some_and(|must| must > 0) {
        skipped = must.map_or(0, |must| must - 1);
    }
    if skipped > 0 {
        line.push_str(&format!(" < {GAP}"));
    }
    for (index, word) in callers.iter().enumerate().skip(skipped) {
        let is_last = index + 1 == callers.len();
        // What is left out after it has to be said, too.
        let end = if is_last { 0 } else { " < ".len() + 1 };
        let left = room.saturating_sub(safe_text::width(&line) + " < ".len() + end);
        let is_first = index == skipped;
        let name = fit_name(&word.name, if is_first { left.min(most) } else { left });
        if left < MIN_NAME_COLUMNS || (!is_first && name.len() < word.name.len()) {
            line.push_str(&format!(" < {GAP}"));
            break;
        }
        line.push_str(&format!(" < {name}"));
    }
    line
}

/// The paths that carry most, heaviest first: their labels, the leaf first, as they are shown, and their weights.
fn shown_paths(selection: &Selection<'_>) -> Vec<(Vec<LabelId>, u64)> {
    let mut numbers: FxHashMap<Vec<LabelId>, usize> = FxHashMap::default();
    let mut shown: Vec<(Vec<LabelId>, u64)> = Vec::new();
    let candidates = heaviest_paths::heaviest_paths(selection, MOST_CANDIDATES);
    for (mut path, weight) in candidates.into_iter().filter(|(path, _)| path.len() > 1) {
        path.reverse();
        // A function that calls itself, by others or not, is written once, where it is nearest to the leaf.
        let mut seen = FxHashSet::default();
        path.retain(|label| seen.insert(*label));
        leave_out_way_to_sleep(&mut path, selection);
        match numbers.get(&path) {
            Some(number) => shown[*number].1 = shown[*number].1.saturating_add(weight),
            None => {
                numbers.insert(path.clone(), shown.len());
                shown.push((path, weight));
            }
        }
    }
    shown.sort_by_key(|(_, weight)| Reverse(*weight));
    shown
}

/// How the kernel puts a thread to sleep says less than the reason that stands before it: of waits that the program made,
/// those frames are left out.
fn leave_out_way_to_sleep(path: &mut Vec<LabelId>, selection: &Selection<'_>) {
    let kind = |label: &LabelId| selection.labels.get(*label).kind;
    let is_wait = path.first().is_some_and(|label| matches!(kind(label), LabelKind::Wait(_)));
    let kernel = path.iter().skip(1).take_while(|label| kind(label) == LabelKind::Kernel).count();
    let is_programs = path.get(1 + kernel).is_some_and(|label| kind(label) != LabelKind::Cut);
    if is_wait && is_programs {
        path.drain(1..=kernel);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PAGE: Page =
        Page { width: 80, cut_names: true, color: false, names: NameStyle::Short, is_ascii: false };

    fn words(names: &[&str]) -> Vec<Word> {
        // As those of the C library begin.
        names.iter().map(|name| Word { name: (*name).to_owned(), is_own: !name.starts_with("__") }).collect()
    }

    #[test]
    fn a_path_that_is_too_long_keeps_the_programs_own_functions() {
        let path = words(&[
            "[condvar]",
            "__futex_abstimed_wait_common64",
            "__pthread_cond_wait_common",
            "queue_pop",
            "worker_loop",
            "a_function_with_a_name_that_is_quite_long",
            "main",
        ]);
        assert_eq!(line(&path, None, 71, &PAGE), "[condvar] < … < queue_pop < worker_loop < …");
        assert_eq!(
            line(&path[..4], None, 90, &PAGE),
            "[condvar] < __futex_abstimed_wait_common64 < __pthread_cond_wait_common < queue_pop"
        );
        assert!(safe_text::width(&line(&path, None, 30, &PAGE)) <= 30);
    }

    #[test]
    fn functions_of_one_name_in_different_modules_say_which() {
        let label = |name: &str, module: &str| {
            let mut label = Label::for_tests(name, LabelKind::Program);
            label.module = module.to_owned();
            label
        };
        let path = |module| vec![label("spin", module), label("main", "/usr/bin/x")];
        let paths = [path("/usr/lib/h1.so"), path("/usr/lib/h2.so")];
        let paths: Vec<Vec<&Label>> = paths.iter().map(|path| path.iter().collect()).collect();
        assert_eq!(lines(&paths, &PAGE), ["spin (h1.so) < main", "spin (h2.so) < main"]);
    }

    #[test]
    fn different_paths_have_different_lines() {
        let label = |name: &str| Label::for_tests(name, LabelKind::Program);
        let common =
            ["leaf_of_both", "step_number_one", "step_number_two", "step_number_three", "step_number_four"];
        let path = |last: &str| {
            let names = common.iter().copied().chain([last, "main"]);
            names.map(label).collect::<Vec<_>>()
        };
        let paths = [path("called_by_the_first_one"), path("called_by_the_second_one"), path("main")];
        let paths: Vec<Vec<&Label>> = paths.iter().map(|path| path.iter().collect()).collect();
        let lines = lines(&paths, &PAGE);
        assert!(lines[0].contains("first") && lines[1].contains("second"), "{lines:?}");
        assert!(lines.iter().all(|line| safe_text::width(line) <= 71), "{lines:?}");
    }
}
