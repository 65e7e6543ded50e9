//! The search: a regular expression, the labels that match it, and how much of the time is in them.

use crate::base::units::percent;
use crate::report::{BoxOf, Label, LabelKind, NodeId};
use crate::tui::compute::picture::Picture;
use regex::{Regex, RegexBuilder};

/// Memory limit for one compiled pattern, bytes.
const PATTERN_BYTES: usize = 1 << 20;

/// A search and its matches in the picture.
#[derive(Debug, Clone)]
pub(crate) struct Search {
    /// The text as it was typed.
    pub(crate) text: String,
    pattern: Regex,
    /// Whether each label matches, by label.
    is_match: Vec<bool>,
    /// Number of matching labels in the tree that are not threads: functions, wait reasons and other frames.
    pub(crate) functions: usize,
    /// Number of matching labels in the tree that are threads.
    pub(crate) threads: usize,
    /// Share of the zoomed time with a match on the stack, percent.
    pub(crate) share_percent: f64,
}

impl Search {
    /// Compiles `text`. Case matters only if there is an upper-case letter.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with the expression.
    pub(crate) fn new(text: &str) -> Result<Self, String> {
        let pattern = RegexBuilder::new(text)
            .case_insensitive(!has_upper_case(text))
            .size_limit(PATTERN_BYTES)
            .build()
            .map_err(|error| match &error {
                regex::Error::Syntax(text) => {
                    text.lines().last().unwrap_or_default().trim_start_matches("error: ").to_owned()
                }
                _ => "the expression is too big".to_owned(),
            })?;
        Ok(Search {
            text: text.to_owned(),
            pattern,
            is_match: Vec::new(),
            functions: 0,
            threads: 0,
            share_percent: 0.0,
        })
    }

    /// The pattern, with its case rule written into it.
    pub(crate) fn pattern_text(&self) -> String {
        if has_upper_case(&self.text) { self.text.clone() } else { format!("(?i){}", self.text) }
    }

    /// Matches all labels of `picture`.
    pub(crate) fn find(&mut self, picture: &Picture) {
        self.is_match = picture.labels.iter().map(|label| label.matches(&self.pattern)).collect();
        let is_shown = |index: &usize| picture.places_of.get(*index).is_some_and(|places| *places > 0);
        let is_found = |index: &usize| self.is_match[*index] && is_shown(index);
        let is_thread: Vec<bool> = picture.labels.iter().map(|label| label.kind == LabelKind::Task).collect();
        let found = (0..self.is_match.len()).filter(is_found);
        let (threads, functions): (Vec<usize>, Vec<usize>) = found.partition(|index| is_thread[*index]);
        (self.functions, self.threads) = (functions.len(), threads.len());
    }

    /// Sums the weight of the outermost matches at or below `top`.
    pub(crate) fn measure(&mut self, picture: &Picture, top: &BoxOf) {
        let mut pending: Vec<NodeId> = match top {
            BoxOf::All => picture.tree.roots().to_vec(),
            BoxOf::Node(id) => vec![*id],
            BoxOf::Rest(ids) => ids.clone(),
        };
        let mut sum = 0u64;
        // A match above the zoom covers everything in the zoom.
        if let BoxOf::Node(id) = top
            && picture.tree.path(*id).any(|node| self.matches(node.label.index()))
        {
            sum = top.total(&picture.tree);
            pending.clear();
        }
        while let Some(id) = pending.pop() {
            let node = picture.tree.node(id);
            if self.matches(node.label.index()) {
                sum = sum.saturating_add(node.total.weight);
            } else {
                pending.extend(picture.tree.children(id));
            }
        }
        self.share_percent = percent(sum, top.total(&picture.tree));
    }

    /// Whether a label matches, which may be from another picture.
    pub(crate) fn matches_label(&self, label: &Label) -> bool {
        label.matches(&self.pattern)
    }

    /// Whether a text matches.
    pub(crate) fn matches_text(&self, text: &str) -> bool {
        self.pattern.is_match(text)
    }

    /// Whether the label with this index matches.
    pub(crate) fn matches(&self, label: usize) -> bool {
        self.is_match.get(label).copied().unwrap_or(false)
    }
}

/// Whether there is an upper-case letter outside of escapes such as `\S`.
fn has_upper_case(text: &str) -> bool {
    let mut is_escaped = false;
    text.chars().any(|c| {
        let counts = c.is_uppercase() && !is_escaped;
        is_escaped = c == '\\' && !is_escaped;
        counts
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn case_counts_with_an_upper_case_letter() {
        assert_eq!(Search::new(r"parse\S").unwrap().pattern_text(), r"(?i)parse\S");
        assert_eq!(Search::new("Parse").unwrap().pattern_text(), "Parse");
        assert!(Search::new("parse").unwrap().pattern.is_match("PARSE"));
        assert!(!Search::new("Parse").unwrap().pattern.is_match("PARSE"));
    }

    #[test]
    fn a_bad_expression_says_why() {
        assert_eq!(Search::new("(").unwrap_err(), "unclosed group");
        assert_eq!(Search::new("(a{1000}){1000}").unwrap_err(), "the expression is too big");
    }
}
