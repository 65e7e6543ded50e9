//! A `--fail-on` rule as it is typed: `total>+5%`, `^parse>+10%`, `self:ZSTD_.*>+10%`.

use crate::diff::side::RowValue;
use std::fmt;

/// Subject of a rule: what must not grow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum RuleSubject {
    /// Everything that passes the filters.
    Total,
    /// Each function whose name matches.
    Functions {
        /// The regular expression.
        pattern: String,
        /// Whether the self or the total value must not grow.
        value: RowValue,
    },
}

/// Rule on what must not grow, and by how much.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct GateRule {
    text: String,
    /// Subject that must not grow.
    pub(crate) subject: RuleSubject,
    /// Growth that counts, as a part of the base; `None` for the value of `--min`.
    pub(crate) least: Option<f64>,
}

/// Limit of what is accepted as growth, percent.
const MOST_PERCENT: f64 = 1e6;

impl GateRule {
    /// Parses a rule.
    ///
    /// # Errors
    ///
    /// Returns what is wrong with the rule, for the command line parser.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let form = || "write 'total>+5%', 'REGEX>+10%' or 'self:REGEX>+10%'".to_owned();
        // A regular expression can contain `>`, too: `operator>`. The limit follows the last one.
        let (subject, least) = match text.rsplit_once('>') {
            Some((subject, limit)) => match percent(limit) {
                Some(least) => (subject, Some(least?)),
                None if limit.trim().is_empty() => return Err(form()),
                // `total>+x%` is no name: a limit that was mistyped.
                None if limit.trim().ends_with('%') || subject.trim() == "total" => {
                    return Err(format!("`{}` is no percentage; {}", limit.trim(), form()));
                }
                None => (text, None),
            },
            None => (text, None),
        };
        let subject = subject.trim();
        if subject.is_empty() {
            return Err(form());
        }
        let functions = |pattern: &str, value| match regex::Regex::new(pattern) {
            Ok(_) if pattern.is_empty() => Err(form()),
            Ok(_) => Ok(RuleSubject::Functions { pattern: pattern.to_owned(), value }),
            Err(_) => Err(format!("`{pattern}` is not a regular expression; {}", form())),
        };
        let subject = match (subject, subject.strip_prefix("self:"), subject.strip_prefix("total:")) {
            ("total", ..) => RuleSubject::Total,
            (_, Some(pattern), _) => functions(pattern, RowValue::Own)?,
            (.., Some(pattern)) => functions(pattern, RowValue::Total)?,
            (pattern, ..) => functions(pattern, RowValue::Total)?,
        };
        Ok(GateRule { text: text.to_owned(), subject, least })
    }
}

impl fmt::Display for GateRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

/// The part of 1 that `+5%` is; `None` for what is not a percentage.
fn percent(text: &str) -> Option<Result<f64, String>> {
    let text = text.trim();
    let number = text.strip_suffix('%')?.trim_end();
    let percent: f64 = number.strip_prefix('+').unwrap_or(number).trim().parse().ok()?;
    Some(match percent {
        p if (0.0..=MOST_PERCENT).contains(&p) => Ok(p / 100.0),
        _ => Err("only growth trips a gate: write a percentage of 0 and more, such as >+5%".to_owned()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn functions(pattern: &str, value: RowValue) -> RuleSubject {
        RuleSubject::Functions { pattern: pattern.to_owned(), value }
    }

    #[test]
    fn rules_are_read_as_they_are_typed() {
        for (text, subject, least) in [
            ("total>+5%", RuleSubject::Total, Some(0.05)),
            (" total > 2.5 % ", RuleSubject::Total, Some(0.025)),
            ("total", RuleSubject::Total, None),
            ("^parse>+10%", functions("^parse", RowValue::Total), Some(0.1)),
            ("self:ZSTD_.*>+10%", functions("ZSTD_.*", RowValue::Own), Some(0.1)),
            ("total:main>0%", functions("main", RowValue::Total), Some(0.0)),
            ("operator>>+3%", functions("operator>", RowValue::Total), Some(0.03)),
            ("self:a->b", functions("a->b", RowValue::Own), None),
            ("^total$", functions("^total$", RowValue::Total), None),
        ] {
            let rule = GateRule::parse(text).unwrap();
            assert_eq!((&rule.subject, rule.least), (&subject, least), "{text}");
        }
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        for (text, start) in [
            ("", "write"),
            (">+5%", "write"),
            ("total>", "write"),
            ("self:>+5%", "write"),
            ("total>-5%", "only growth"),
            ("total>+NaN%", "only growth"),
            ("total>+1e99%", "only growth"),
            ("total>+x%", "`+x%` is no percentage"),
            ("total>+5", "`+5` is no percentage"),
            ("^parse>ten%", "`ten%` is no percentage"),
            ("a(>+5%", "`a(` is not a regular expression"),
        ] {
            let error = GateRule::parse(text).expect_err(text);
            assert!(error.starts_with(start), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_is_too_odd(text in "\\PC{0,40}") {
            let _ = GateRule::parse(&text);
        }
    }
}
