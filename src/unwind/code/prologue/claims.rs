//! Rules that several functions claim for the same code, made one list of spans without overlaps.

use crate::unwind::rule::{RaKind, Rule};
use crate::unwind::table::span::Span;
use rayon::prelude::*;

/// Spans without overlaps: where several rules are claimed for an address, none holds.
pub(super) fn disjoint(mut spans: Vec<Span>) -> Vec<Span> {
    spans.par_sort_unstable_by_key(|span| (span.start, span.end));
    let mut merged: Vec<Span> = Vec::with_capacity(spans.len());
    let mut rest = &spans[..];
    while let [first, ..] = rest {
        let mut end = first.end;
        let is_apart = |span: &Span| {
            let is_apart = span.start >= end;
            end = end.max(span.end);
            is_apart
        };
        let count = 1 + rest[1..].iter().position(is_apart).unwrap_or(rest.len() - 1);
        let (overlapping, others) = rest.split_at(count);
        rest = others;
        match overlapping {
            [alone] => add_merged(&mut merged, *alone),
            _ => add_agreed(&mut merged, overlapping),
        }
    }
    merged
}

fn add_merged(merged: &mut Vec<Span>, span: Span) {
    match merged.last_mut() {
        Some(last) if last.end == span.start && last.rule == span.rule => last.end = span.end,
        _ => merged.push(span),
    }
}

/// Rule that several claims have in common: the one that all make; without the caller's rbp where they agree on all else.
fn agreed(claimed: &[(Rule, u32)]) -> Option<Rule> {
    let (&(first, _), others) = claimed.split_first()?;
    if others.is_empty() {
        return Some(first);
    }
    let weaker = |rule: Rule| Rule { is_base_kept: false, ..rule.with_rbp_lost() };
    let is_same = others.iter().all(|&(rule, _)| weaker(rule) == weaker(first));
    (is_same && first.ra_kind == RaKind::AtCfa).then(|| weaker(first))
}

/// Adds what overlapping spans agree on.
fn add_agreed(merged: &mut Vec<Span>, spans: &[Span]) {
    let mut edges: Vec<(u64, bool, Rule)> = Vec::with_capacity(2 * spans.len());
    for span in spans {
        edges.push((span.start, true, span.rule));
        edges.push((span.end, false, span.rule));
    }
    edges.sort_unstable_by_key(|&(address, is_start, _)| (address, is_start));
    // The rules claimed at the present address, and how often.
    let mut claimed: Vec<(Rule, u32)> = Vec::new();
    let mut from = 0;
    for (address, is_start, rule) in edges {
        if let Some(rule) = agreed(&claimed)
            && from < address
        {
            add_merged(merged, Span { start: from, end: address, rule });
        }
        from = address;
        let index = claimed.iter().position(|(other, _)| *other == rule);
        match (index, is_start) {
            (Some(index), true) => claimed[index].1 += 1,
            (None, true) => claimed.push((rule, 1)),
            (Some(index), false) => {
                claimed[index].1 -= 1;
                if claimed[index].1 == 0 {
                    claimed.swap_remove(index);
                }
            }
            // Every end has its start before it.
            (None, false) => {}
        }
    }
}

/// The first spans, and of the others what lies between them. Both ascending, without overlaps.
pub(super) fn with_priority(first: Vec<Span>, others: &[Span]) -> Vec<Span> {
    let mut all = Vec::with_capacity(first.len() + others.len());
    let mut rest = others.iter().copied().peekable();
    let mut from = 0;
    let end = Span { start: u64::MAX, end: u64::MAX, rule: Rule::NONE };
    for span in first.into_iter().chain([end]) {
        while let Some(other) = rest.peek().copied().filter(|other| other.start < span.start) {
            let (start, end) = (other.start.max(from), other.end.min(span.start));
            if start < end {
                all.push(Span { start, end, rule: other.rule });
            }
            if other.end > span.start {
                break;
            }
            rest.next();
        }
        from = span.end;
        if span.start < span.end {
            all.push(span);
        }
    }
    all
}
