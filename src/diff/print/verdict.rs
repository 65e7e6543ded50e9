//! The verdicts of the gate as lines of text.

use crate::base::safe_text;
use crate::base::safe_text::wrapped;
use crate::diff::gate::verdicts::{GateOutcome, GateVerdict};

/// Lines for all verdicts, at most `width` columns wide. Safe to print.
pub(crate) fn lines(verdicts: &[GateVerdict], width: usize) -> Vec<String> {
    let mut lines = Vec::new();
    for verdict in verdicts {
        let rule = safe_text::shell_line([verdict.rule.as_str()]);
        let outcome = match verdict.outcome {
            GateOutcome::Pass => "PASS",
            GateOutcome::Tripped => "FAIL",
            GateOutcome::TooLittle => "TOO LITTLE DATA",
        };
        let text = safe_text::message(&format!("--fail-on {rule}  {outcome} ({})", verdict.why)).into_owned();
        let needed = verdict.needed.as_ref().map(|needed| format!("needed: {needed}"));
        for (at, part) in [Some(text), needed].into_iter().flatten().enumerate() {
            for (line, text) in wrapped(&part, width.saturating_sub(6).max(20)).iter().enumerate() {
                lines.push(format!("{}  {text}", if at + line == 0 { "gate" } else { "    " }));
            }
        }
    }
    lines
}
