//! Short names that are not mistaken for each other: functions whose short names would be equal show what they differ in.

use super::name;
use super::shape::Shape;
use crate::report::model::label_kind::LabelKind;
use rayon::prelude::*;
use rustc_hash::FxHashMap;

/// With more labels than this their names are made on all cores.
const MANY_LABELS: usize = 2_000;

/// A name to be shortened.
#[derive(Debug, Clone, Copy)]
pub(crate) struct FullName<'n> {
    /// Kind of the thing that has the name.
    pub(crate) kind: LabelKind,
    /// The name. Foreign text.
    pub(crate) name: &'n str,
    /// Whether the name is an address, which stays as it is.
    pub(crate) is_address: bool,
}

/// The short names of `labels`, in their order.
pub(crate) fn of(labels: &[FullName<'_>]) -> Vec<String> {
    let one = |label: &FullName<'_>| match label.kind {
        LabelKind::Program | LabelKind::Library | LabelKind::Jit if !label.is_address => {
            name::short_of(label.kind, label.name)
        }
        _ => label.name.to_owned(),
    };
    let mut shorts: Vec<String> = if labels.len() > MANY_LABELS {
        labels.par_iter().map(one).collect()
    } else {
        labels.iter().map(one).collect()
    };
    let mut by_short: FxHashMap<&str, Vec<usize>> = FxHashMap::default();
    for (at, short) in shorts.iter().enumerate() {
        by_short.entry(short).or_default().push(at);
    }
    let is_ambiguous = |same: &Vec<usize>| same.iter().any(|at| labels[*at].name != labels[same[0]].name);
    let ambiguous: Vec<Vec<usize>> = by_short.into_values().filter(is_ambiguous).collect();
    for same in ambiguous {
        let names: Vec<&str> = same.iter().map(|at| labels[*at].name).collect();
        for (at, apart) in same.iter().zip(distinct(&names)) {
            shorts[*at] = apart;
        }
    }
    shorts
}

/// Texts for names with one short form, each its own unless the names are equal: the short form with the types in which they
/// differ, else with all types, else with the arguments, else the whole names.
fn distinct(names: &[&str]) -> Vec<String> {
    let shapes: Option<Vec<Shape>> = names.iter().map(|name| Shape::of(name)).collect();
    let whole = || names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let Some(shapes) = shapes else { return whole() };
    let with_types = |list: &dyn Fn(&Shape, usize) -> String| {
        shapes.iter().map(|shape| shape.with(|at| list(shape, at))).collect::<Vec<_>>()
    };
    let differing = differing_types(&shapes);
    let with_arguments = |texts: Vec<String>| {
        texts
            .iter()
            .zip(&shapes)
            .map(|(text, shape)| format!("{text}{}", shape.arguments()))
            .collect::<Vec<_>>()
    };
    let candidates = [
        with_types(&|shape, at| types_text(&shapes, &differing, shape, at)),
        with_arguments(with_types(&|_, _| "..".to_owned())),
        with_types(&|shape, at| shape.generics()[at].clone()),
        with_arguments(with_types(&|shape, at| shape.generics()[at].clone())),
    ];
    candidates.into_iter().find(|texts| are_apart(names, texts)).unwrap_or_else(whole)
}

/// Whether texts are equal only where the names are.
fn are_apart(names: &[&str], texts: &[String]) -> bool {
    let mut name_of: FxHashMap<&str, &str> = FxHashMap::default();
    texts.iter().zip(names).all(|(text, name)| *name_of.entry(text).or_insert(name) == *name)
}

/// Returns, for each list of types, which of its places differ; `None` where lists have different lengths.
fn differing_types(shapes: &[Shape]) -> Vec<Option<Vec<bool>>> {
    (0..shapes[0].generics().len())
        .map(|at| {
            let lists: Option<Vec<Vec<&str>>> =
                shapes.iter().map(|shape| shape.generics().get(at).map(|list| split_types(list))).collect();
            let lists = lists?;
            let places = lists[0].len();
            lists.iter().all(|list| list.len() == places).then(|| {
                (0..places).map(|place| lists.iter().any(|list| list[place] != lists[0][place])).collect()
            })
        })
        .collect()
}

/// The list number `at` of `shape` with what differs in it: `.., false`.
fn types_text(shapes: &[Shape], differing: &[Option<Vec<bool>>], shape: &Shape, at: usize) -> String {
    let list = &shape.generics()[at];
    let Some(Some(differs)) = differing.get(at) else {
        let is_same = shapes.iter().all(|other| other.generics().get(at) == Some(list));
        return if is_same { "..".to_owned() } else { list.clone() };
    };
    let mut texts: Vec<String> = Vec::new();
    for (place, text) in split_types(list).into_iter().enumerate() {
        if differs[place] {
            texts.push(name::short(text));
        } else if texts.last().is_none_or(|last| last != "..") {
            texts.push("..".to_owned());
        }
    }
    texts.join(", ")
}

/// The types of a list, which may have brackets of their own.
fn split_types(list: &str) -> Vec<&str> {
    let mut depth = 0usize;
    let mut start = 0;
    let mut types = Vec::new();
    let mut previous = ' ';
    for (at, c) in list.char_indices() {
        match c {
            '<' | '(' | '[' | '{' => depth += 1,
            '>' if previous == '-' => {}
            '>' | ')' | ']' | '}' => depth = depth.saturating_sub(1),
            ',' if depth == 0 => {
                types.push(list[start..at].trim());
                start = at + 1;
            }
            _ => {}
        }
        previous = c;
    }
    types.push(list[start..].trim());
    types
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn labels<'n>(names: &[&'n str]) -> Vec<FullName<'n>> {
        let label = |name: &&'n str| FullName { kind: LabelKind::Program, name, is_address: false };
        names.iter().map(label).collect()
    }

    /// Detail 17 of the promises: names are readable and distinct.
    #[test]
    fn functions_of_one_short_name_show_what_they_differ_in() {
        let cases: [(&[&str], &[&str]); 7] = [
            (
                &[
                    "v8::JsonStringifier::Serialize_<false>(Handle<Object>)",
                    "v8::JsonStringifier::Serialize_<true>(Handle<Object>)",
                    "main",
                ],
                &["JsonStringifier::Serialize_<false>", "JsonStringifier::Serialize_<true>", "main"],
            ),
            (
                &[
                    "std::map<std::string, int, std::less<int> >::find(int)",
                    "std::map<std::string, long, std::less<int> >::find(int)",
                ],
                &["map<.., int, ..>::find", "map<.., long, ..>::find"],
            ),
            (&["a::f(int)", "a::f(char const*)"], &["a::f(int)", "a::f(char const*)"]),
            (&["x::a::f", "y::a::f"], &["x::a::f", "y::a::f"]),
            (&["f(int) [clone .cold]", "f(int)"], &["f.cold", "f"]),
            (&["V<int>::f()", "V<int, char>::f()"], &["V<int>::f", "V<int, char>::f"]),
            (&["a::f<int>(int)", "a::f<int>(int)"], &["a::f<..>", "a::f<..>"]),
        ];
        for (names, expected) in cases {
            assert_eq!(of(&labels(names)), expected);
        }
    }

    #[test]
    fn methods_of_generated_code_are_told_apart_too() {
        let names = ["void java.util.A.sort(int[])", "void java.util.A.sort(long[])", "void B.sort(int[])"];
        let labels: Vec<FullName<'_>> =
            names.iter().map(|name| FullName { kind: LabelKind::Jit, name, is_address: false }).collect();
        let shorts = of(&labels);
        assert_eq!(shorts[2], "B.sort");
        assert_ne!(shorts[0], shorts[1]);
    }

    proptest! {
        #[test]
        fn no_two_names_have_one_text(names in proptest::collection::btree_set("(a::)?[fg](<[ab](, [ab])?>)?(\\([ab]\\))?( \\[clone \\.[xy]\\])?", 1..12)) {
            let names: Vec<&str> = names.iter().map(String::as_str).collect();
            let shorts = of(&labels(&names));
            let distinct: std::collections::BTreeSet<&String> = shorts.iter().collect();
            prop_assert_eq!(distinct.len(), names.len(), "{:?} {:?}", names, shorts);
        }
    }
}
