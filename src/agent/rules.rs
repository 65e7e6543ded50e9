//! Rules that change labels: a small part of the relabelling of Prometheus, with its names and its meaning.
//!
//! The values of `source_labels` are joined by `separator`; `regex` must match all of it. `replace` writes `replacement`, in which
//! `$1` and `${name}` are groups, to `target_label`, and removes that label if the result is empty; it does nothing without a match.
//! `keep` and `drop` decide on the process; `labeldrop` removes the labels whose names match.

use regex::{Regex, RegexBuilder};
use std::collections::BTreeMap;

/// Labels by their names. Those that begin with two underscores are facts, which no server gets.
pub(crate) type LabelMap = BTreeMap<String, String>;

/// Most bytes of a regular expression of a rule, and of its replacement.
const MOST_TEXT_BYTES: usize = 4096;

/// Most bytes of memory of a compiled expression.
const MOST_REGEX_BYTES: usize = 1 << 20;

/// Most bytes of a value that a rule writes.
const MOST_VALUE_BYTES: usize = 4096;

/// Start of the names of facts that are variables of the process's environment.
pub(crate) const ENV_PREFIX: &str = "__env_";

/// The other facts.
pub(crate) const FACTS: [&str; 12] = [
    "__exe",
    "__comm",
    "__cmdline",
    "__cgroup",
    "__unit",
    "__container_id",
    "__container",
    "__pod",
    "__namespace",
    "__pod_uid",
    "__host",
    "__service",
];

/// Start of the names that rules may write and that are not sent.
pub(crate) const TEMPORARY_PREFIX: &str = "__tmp";

/// The label that a rule writes where it names none.
pub(crate) const DEFAULT_TARGET: &str = "service_name";

/// What a rule does with a match.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum RelabelAction {
    /// Writes a label.
    #[default]
    Replace,
    /// Leaves out processes that do not match.
    Keep,
    /// Leaves out processes that match.
    Drop,
    /// Removes the labels whose names match.
    LabelDrop,
}

/// A rule as it is written. `None` is the default of Prometheus.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct RuleText {
    /// Labels whose values are joined.
    pub(crate) source_labels: Vec<String>,
    /// Text between the values; `;` by default.
    pub(crate) separator: Option<String>,
    /// Expression that has to match the whole; `(.*)` by default.
    pub(crate) regex: Option<String>,
    /// Label that is written; `service_name` by default, where Prometheus has no default.
    pub(crate) target_label: Option<String>,
    /// What is written; `$1` by default.
    pub(crate) replacement: Option<String>,
    /// What is done.
    pub(crate) action: RelabelAction,
}

/// A rule that can be applied.
#[derive(Debug, Clone)]
pub(crate) struct RelabelRule {
    text: RuleText,
    regex: Regex,
}

impl RelabelRule {
    /// Compiles a rule.
    ///
    /// # Errors
    ///
    /// The key that is wrong, and why.
    pub(crate) fn compile(text: RuleText) -> Result<Self, (&'static str, String)> {
        let pattern = text.regex.as_deref().unwrap_or("(.*)");
        for (key, value) in [("regex", Some(pattern)), ("replacement", text.replacement.as_deref())] {
            if value.is_some_and(|value| value.len() > MOST_TEXT_BYTES) {
                return Err((key, format!("it has more than {MOST_TEXT_BYTES} bytes")));
            }
        }
        let is_one_word = |name: &String| is_label_name(name) || name.starts_with(ENV_PREFIX);
        if let Some(name) = text.source_labels.iter().find(|name| !is_one_word(name)) {
            return Err(("source_labels", format!("`{name}` is no name of a label")));
        }
        let is_known = |name: &String| {
            let is_open = [ENV_PREFIX, TEMPORARY_PREFIX].iter().any(|prefix| name.starts_with(prefix));
            !name.starts_with("__") || is_open || FACTS.contains(&name.as_str())
        };
        // A rule that keeps what has such a label would leave out all that runs.
        if let Some(name) = text.source_labels.iter().find(|name| !is_known(name)) {
            let facts = FACTS.join(", ");
            return Err((
                "source_labels",
                format!("`{name}` is no fact: {facts}, {ENV_PREFIX}NAME, {TEMPORARY_PREFIX}NAME"),
            ));
        }
        if text.action == RelabelAction::Replace {
            check_target(text.target_label.as_deref().unwrap_or(DEFAULT_TARGET))
                .map_err(|why| ("target_label", why))?;
        } else if text.target_label.is_some() || text.replacement.is_some() {
            let key = if text.target_label.is_some() { "target_label" } else { "replacement" };
            return Err((key, "only the action replace writes a label".to_owned()));
        }
        if text.action == RelabelAction::LabelDrop && !text.source_labels.is_empty() {
            return Err(("source_labels", "labeldrop matches names of labels, not values".to_owned()));
        }
        // As in Prometheus: a dot matches line breaks, and the end is that of the text.
        let whole = format!("^(?s:{})$", with_ascii_classes(pattern));
        let regex = RegexBuilder::new(&whole).size_limit(MOST_REGEX_BYTES).build().map_err(|error| {
            let why = match Regex::new(pattern) {
                Err(own) => own.to_string(),
                Ok(_) => error.to_string(),
            };
            ("regex", why.lines().last().unwrap_or_default().trim().trim_start_matches("error: ").to_owned())
        })?;
        Ok(RelabelRule { text, regex })
    }

    /// The label that this rule writes for a server, if it does.
    pub(crate) fn target(&self) -> Option<&str> {
        let target = self.text.target_label.as_deref().unwrap_or(DEFAULT_TARGET);
        (self.text.action == RelabelAction::Replace && !target.starts_with("__")).then_some(target)
    }

    /// Changes labels; false if the process is left out.
    fn apply(&self, labels: &mut LabelMap) -> bool {
        if self.text.action == RelabelAction::LabelDrop {
            labels.retain(|name, _| !self.regex.is_match(name));
            return true;
        }
        let values = self.text.source_labels.iter().map(|name| labels.get(name).map_or("", String::as_str));
        let value = values.collect::<Vec<_>>().join(self.text.separator.as_deref().unwrap_or(";"));
        match self.text.action {
            RelabelAction::Keep => self.regex.is_match(&value),
            RelabelAction::Drop => !self.regex.is_match(&value),
            RelabelAction::Replace | RelabelAction::LabelDrop => {
                self.replace(&value, labels);
                true
            }
        }
    }

    fn replace(&self, value: &str, labels: &mut LabelMap) {
        let Some(groups) = self.regex.captures(value) else { return };
        let mut written = String::new();
        groups.expand(self.text.replacement.as_deref().unwrap_or("$1"), &mut written);
        let target = self.text.target_label.as_deref().unwrap_or(DEFAULT_TARGET);
        if written.is_empty() {
            labels.remove(target);
        } else {
            labels.insert(target.to_owned(), cut(&written, MOST_VALUE_BYTES).to_owned());
        }
    }
}

/// Rules in the order in which they are applied.
#[derive(Debug, Clone, Default)]
pub(crate) struct RelabelRules {
    rules: Vec<RelabelRule>,
}

impl RelabelRules {
    /// These rules, in this order.
    pub(crate) fn new(rules: Vec<RelabelRule>) -> Self {
        RelabelRules { rules }
    }

    /// Changes labels; false if the process is left out, and then the labels mean nothing.
    #[must_use]
    pub(crate) fn apply(&self, labels: &mut LabelMap) -> bool {
        self.rules.iter().all(|rule| rule.apply(labels))
    }

    /// The rules, in their order.
    pub(crate) fn all(&self) -> &[RelabelRule] {
        &self.rules
    }

    /// Names of the labels that the rules write for a server.
    pub(crate) fn targets(&self) -> impl Iterator<Item = &str> {
        self.rules.iter().filter_map(RelabelRule::target)
    }

    /// Whether a process may be left out.
    pub(crate) fn may_leave_out(&self) -> bool {
        let leaves_out =
            |rule: &RelabelRule| matches!(rule.text.action, RelabelAction::Keep | RelabelAction::Drop);
        self.rules.iter().any(leaves_out)
    }

    /// Whether a rule may write or remove the label of this name.
    pub(crate) fn may_change(&self, name: &str) -> bool {
        self.rules.iter().any(|rule| match rule.text.action {
            RelabelAction::Replace => rule.target() == Some(name),
            RelabelAction::LabelDrop => rule.regex.is_match(name),
            RelabelAction::Keep | RelabelAction::Drop => false,
        })
    }

    /// Names of the variables that the rules look at: no other variable leaves the environment of a process.
    pub(crate) fn variables(&self) -> impl Iterator<Item = &str> {
        let sources = self.rules.iter().flat_map(|rule| &rule.text.source_labels);
        sources.filter_map(|name| name.strip_prefix(ENV_PREFIX))
    }
}

impl PartialEq for RelabelRules {
    fn eq(&self, other: &Self) -> bool {
        let texts = |rules: &Self| rules.rules.iter().map(|rule| rule.text.clone()).collect::<Vec<_>>();
        texts(self) == texts(other)
    }
}

/// `pattern` with the classes `\d`, `\w`, `\s` and the boundary `\b` as those of Prometheus: of ASCII alone.
fn with_ascii_classes(pattern: &str) -> String {
    let mut out = String::with_capacity(pattern.len());
    let mut letters = pattern.chars();
    while let Some(letter) = letters.next() {
        if letter != '\\' {
            out.push(letter);
            continue;
        }
        // Classes may be nested.
        match letters.next() {
            Some('d') => out.push_str("[0-9]"),
            Some('D') => out.push_str("[^0-9]"),
            Some('w') => out.push_str("[0-9A-Za-z_]"),
            Some('W') => out.push_str("[^0-9A-Za-z_]"),
            Some('s') => out.push_str(r"[\t\n\f\r ]"),
            Some('S') => out.push_str(r"[^\t\n\f\r ]"),
            Some('b') => out.push_str(r"(?-u:\b)"),
            Some(other) => out.extend(['\\', other]),
            None => out.push('\\'),
        }
    }
    out
}

/// The longest start of `text` with at most `most` bytes.
pub(crate) fn cut(text: &str, most: usize) -> &str {
    let end = (0..=most.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    &text[..end]
}

/// Whether this is a name that servers of profiles take: letters, digits, underscores and dots.
pub(crate) fn is_label_name(name: &str) -> bool {
    let is_first = |byte: u8| byte.is_ascii_alphabetic() || byte == b'_';
    let is_one = |byte: u8| is_first(byte) || byte.is_ascii_digit() || byte == b'.';
    name.len() <= 128 && name.bytes().next().is_some_and(is_first) && name.bytes().all(is_one)
}

/// Refuses names that no series may have: what is made up for each process, and facts.
pub(crate) fn check_target(name: &str) -> Result<(), String> {
    if !is_label_name(name) {
        return Err(format!(
            "`{name}` is no name of a label: letters, digits, `_` and `.`, not a digit first"
        ));
    }
    if name.starts_with("__") && !name.starts_with(TEMPORARY_PREFIX) {
        return Err(format!(
            "`{name}` cannot be written: names with `__` are facts, but those that begin with `__tmp`"
        ));
    }
    if ["pid", "tid", "process.pid", "thread.id"].contains(&name) {
        return Err(format!("`{name}` would make a series for each process"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn rule(
        sources: &[&str],
        regex: Option<&str>,
        target: Option<&str>,
        replacement: Option<&str>,
    ) -> RuleText {
        RuleText {
            source_labels: sources.iter().map(|&name| name.to_owned()).collect(),
            separator: None,
            regex: regex.map(str::to_owned),
            target_label: target.map(str::to_owned),
            replacement: replacement.map(str::to_owned),
            action: RelabelAction::Replace,
        }
    }

    fn act(action: RelabelAction, sources: &[&str], regex: &str) -> RuleText {
        RuleText { action, ..rule(sources, Some(regex), None, None) }
    }

    /// The labels after the rules, as text; `None` if the process is left out.
    fn applied(rules: Vec<RuleText>, labels: &[(&str, &str)]) -> Option<String> {
        let rules = rules.into_iter().map(|rule| RelabelRule::compile(rule).unwrap()).collect();
        let mut map = labels.iter().map(|&(name, value)| (name.to_owned(), value.to_owned())).collect();
        let is_kept = RelabelRules::new(rules).apply(&mut map);
        is_kept
            .then(|| map.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join(" "))
    }

    const ABC: [(&str, &str); 3] = [("a", "foo"), ("b", "bar"), ("c", "baz")];

    #[test]
    fn replace_writes_groups_of_joined_values() {
        let one = |rule| applied(vec![rule], &ABC).unwrap();
        assert_eq!(
            one(rule(&["a"], Some("f(.*)"), Some("d"), Some("ch${1}-ch${1}"))),
            "a=foo b=bar c=baz d=choo-choo"
        );
        assert_eq!(
            one(rule(&["a", "b"], Some("f(.*);(.*)r"), Some("a"), Some("b${1}${2}m"))),
            "a=boobam b=bar c=baz"
        );
        // The default writes the whole value; the default target is the name of the service.
        assert_eq!(one(rule(&["a", "b"], None, None, None)), "a=foo b=bar c=baz service_name=foo;bar");
        let joined = RuleText { separator: Some("/".to_owned()), ..rule(&["a", "c"], None, Some("d"), None) };
        assert_eq!(one(joined), "a=foo b=bar c=baz d=foo/baz");
        // A name that is not there is empty text.
        assert_eq!(one(rule(&["a", "x"], None, Some("d"), None)), "a=foo b=bar c=baz d=foo;");
        // Without sources: a label for all.
        assert_eq!(one(rule(&[], None, Some("d"), Some("e"))), "a=foo b=bar c=baz d=e");
        // `$1x` is a group of that name, which is not there; `$$` is a sign.
        assert_eq!(one(rule(&["a"], Some("f(.*)"), Some("d"), Some("$1x-$$"))), "a=foo b=bar c=baz d=-$");
        let named = rule(&["a"], Some("f(?P<rest>.*)"), Some("d"), Some("${rest}"));
        assert_eq!(one(named), "a=foo b=bar c=baz d=oo");
    }

    #[test]
    fn expressions_match_the_whole() {
        let one = |rule| applied(vec![rule], &ABC).unwrap();
        assert_eq!(one(rule(&["a"], Some("o+"), Some("d"), Some("x"))), "a=foo b=bar c=baz");
        assert_eq!(one(rule(&["a"], Some("fo|oo"), Some("d"), Some("x"))), "a=foo b=bar c=baz");
        assert_eq!(one(rule(&["a"], Some("x|foo"), Some("d"), Some("x"))), "a=foo b=bar c=baz d=x");
        let two_lines = applied(vec![rule(&["a"], Some("f.*"), Some("d"), Some("x"))], &[("a", "f\no\n")]);
        assert_eq!(two_lines.as_deref(), Some("a=f\no\n d=x"));
    }

    #[test]
    fn classes_are_those_of_ascii_as_in_prometheus() {
        let has = |regex, value| {
            applied(vec![rule(&["a"], Some(regex), Some("b"), Some("x"))], &[("a", value)])
                .is_some_and(|labels| labels.ends_with("b=x"))
        };
        for (regex, taken, refused) in [
            (r"\w+", "a_1", "é"),
            (r"[\w.-]+", "a.b-1", "é"),
            (r"\d", "7", "٧"),
            (r"\D", "é", "7"),
            (r"\W", "é", "a"),
            (r"[\W\d]+", "7é", "a"),
            (r"a\sb", "a b", "a\u{a0}b"),
            (r"a\b.", "aé", "ab"),
            (r"\\w", r"\w", "a"),
            (r"\p{Greek}", "α", "a"),
        ] {
            assert!(has(regex, taken) && !has(regex, refused), "{regex}");
        }
    }

    #[test]
    fn an_empty_result_removes_the_label() {
        let rules = vec![rule(&["a"], Some("f(x?).*"), Some("b"), Some("$1"))];
        assert_eq!(applied(rules, &ABC).as_deref(), Some("a=foo c=baz"));
    }

    #[test]
    fn keep_and_drop_decide_in_order() {
        use RelabelAction::{Drop, Keep};
        let kept = |rules| applied(rules, &ABC).is_some();
        assert!(kept(vec![act(Keep, &["a"], "foo")]));
        assert!(!kept(vec![act(Keep, &["a"], "fo")]));
        assert!(!kept(vec![act(Drop, &["a"], ".*o.*")]));
        assert!(kept(vec![act(Drop, &["a"], "o")]));
        assert!(kept(vec![act(Keep, &["x"], "")]), "a label that is not there is empty");
        let written_before = vec![rule(&["a"], None, Some("d"), None), act(Drop, &["d"], "foo")];
        assert!(!kept(written_before));
    }

    #[test]
    fn labeldrop_removes_by_name() {
        let rules = vec![act(RelabelAction::LabelDrop, &[], "(a|c.*)")];
        assert_eq!(applied(rules, &[("a", "1"), ("ca", "2"), ("bc", "3")]).as_deref(), Some("bc=3"));
    }

    #[test]
    fn facts_that_there_are_not_are_refused() {
        for name in FACTS.iter().chain(&["__env_TIER", "__tmp_a", "team"]) {
            assert!(RelabelRule::compile(rule(&[name], None, None, None)).is_ok(), "{name}");
        }
        for name in ["__conatiner", "__name__", "__Exe"] {
            let (key, why) = RelabelRule::compile(rule(&["__exe", name], None, None, None)).expect_err(name);
            assert!(
                key == "source_labels" && why.starts_with(&format!("`{name}` is no fact: __exe, ")),
                "{why}"
            );
        }
    }

    #[test]
    fn rules_that_mean_nothing_are_refused() {
        let why = |rule| RelabelRule::compile(rule).map(|_| ()).unwrap_err();
        assert_eq!(why(rule(&["a"], Some("("), None, None)).0, "regex");
        assert!(why(rule(&["a"], Some("("), None, None)).1.contains("unclosed group"));
        assert_eq!(why(rule(&["a"], Some("(a{1000}){1000}"), None, None)).0, "regex");
        assert_eq!(why(rule(&["a b"], None, None, None)).0, "source_labels");
        for target in ["1a", "a-b", "${1}", "__exe", "pid", ""] {
            assert_eq!(why(rule(&["a"], None, Some(target), None)).0, "target_label", "{target}");
        }
        assert_eq!(
            why(RuleText { action: RelabelAction::Keep, ..rule(&["a"], None, Some("b"), None) }).0,
            "target_label"
        );
        assert_eq!(why(act(RelabelAction::LabelDrop, &["a"], "b")).0, "source_labels");
        assert_eq!(why(rule(&["a"], None, None, Some(&"x".repeat(5000)))).0, "replacement");
    }

    #[test]
    fn only_variables_that_rules_name_are_looked_at() {
        let rule = RelabelRule::compile(rule(&["__env_TIER", "__exe"], None, Some("__tmp_a"), None)).unwrap();
        let rules = RelabelRules::new(vec![rule]);
        assert_eq!(rules.variables().collect::<Vec<_>>(), ["TIER"]);
        assert_eq!(rules.targets().count(), 0);
    }

    #[test]
    fn long_values_are_cut_at_a_character() {
        assert_eq!(cut("aé", 2), "a");
        assert_eq!(cut("aé", 3), "aé");
        let long = "é".repeat(5000);
        let shown = applied(vec![rule(&["a"], None, Some("a"), None)], &[("a", &long)]).unwrap();
        assert_eq!(shown.len(), "a=".len() + MOST_VALUE_BYTES);
    }

    proptest! {
        #[test]
        fn any_rule_and_value_are_taken(regex in "\\PC{0,20}", replacement in "\\PC{0,20}", value in "\\PC{0,40}") {
            let text = rule(&["a"], Some(&regex), Some("b"), Some(&replacement));
            if let Ok(rule) = RelabelRule::compile(text) {
                let mut labels = LabelMap::from([("a".to_owned(), value)]);
                prop_assert!(RelabelRules::new(vec![rule]).apply(&mut labels));
            }
        }
    }
}
