//! Columns of samples: from the fields of a chunk to times, waits, merged observations and labels.

use super::budget::{Budget, row_bytes};
use super::checks::{Damage, below, column, narrow};
use crate::profile::event::HeapBlock;
use crate::profile::file::rows::coding::NoveltyCoder;
use crate::profile::file::rows::schema;
use crate::profile::merged::Merged;
use crate::profile::rows::{LabelSetId, StackId, TaskId};
use crate::profile::wait::{Reason, Wait, Waker, WakerKind};

/// The columns that only waits have.
pub(super) fn waits(
    chunk: &schema::Samples,
    rows: usize,
    task_count: usize,
    stack_count: usize,
    stacks: &mut NoveltyCoder,
) -> Result<Vec<Wait>, Damage> {
    let durations = column(&chunk.duration, rows, 0, "duration")?;
    let reasons = column(&chunk.reason, rows, 0, "reason")?;
    let kinds = column(&chunk.waker_kind, rows, 0, "kind of waker")?;
    let tasks = column(&chunk.waker_task, rows, 0, "waker")?;
    let codes = column(&chunk.waker_stack, rows, 0, "waker's stack")?;
    let wait = |row| {
        let task = match tasks.get(row) {
            0 => None,
            id => Some(TaskId(below(id - 1, task_count, "task")?)),
        };
        let stack = match stacks.decode(codes.get(row)) {
            0 => None,
            id => Some(StackId(below(id - 1, stack_count, "stack")?)),
        };
        let kind = WakerKind::from_code(narrow(kinds.get(row), "kind of waker")?);
        let reason = Reason::from_code(narrow(reasons.get(row), "reason")?);
        Ok(Wait { duration_ns: durations.get(row), reason, waker: Waker { kind, task, stack } })
    };
    (0..rows).map(wait).collect()
}

/// Statistics of rows that are several observations in one.
pub(super) fn merged(chunk: &schema::Samples, rows: usize) -> Result<Vec<Merged>, Damage> {
    let samples = column(&chunk.merged_samples, rows, 0, "number of samples")?;
    let counts = column(&chunk.merged_count_thousandths, rows, 0, "count")?;
    let variances = column(&chunk.merged_variance, rows, 0, "variance")?;
    let spans = column(&chunk.merged_span, rows, 0, "span")?;
    let merged = |row| Merged {
        samples: samples.get(row),
        count_thousandths: counts.get(row),
        variance_us2: variances.get(row),
        span_ns: spans.get(row),
    };
    Ok((0..rows).map(merged).collect())
}

/// Blocks of memory; nothing where no row is one.
pub(super) fn blocks(
    chunk: &schema::Samples,
    rows: usize,
    memory: &mut Budget,
) -> Result<Vec<HeapBlock>, Damage> {
    if chunk.block_size.is_empty() {
        return Ok(Vec::new());
    }
    memory.spend(rows, row_bytes::BLOCK)?;
    let sizes = column(&chunk.block_size, rows, 0, "size")?;
    let lifetimes = column(&chunk.block_lifetime, rows, 0, "lifetime")?;
    let block = |row| HeapBlock { size: sizes.get(row), lifetime_ns: lifetimes.get(row).checked_sub(1) };
    Ok((0..rows).map(block).collect())
}

/// The sets of labels that samples have, of which there are `set_count`; nothing where no sample has one.
pub(super) fn label_sets(
    chunk: &schema::Samples,
    rows: usize,
    set_count: usize,
    memory: &mut Budget,
) -> Result<Vec<Option<LabelSetId>>, Damage> {
    if chunk.labels.is_empty() {
        return Ok(Vec::new());
    }
    memory.spend(rows, row_bytes::SAMPLE_LABELS)?;
    let set = |code| match code {
        0 => Ok(None),
        id => below(id - 1, set_count, "set of labels").map(|id| Some(LabelSetId(id))),
    };
    column(&chunk.labels, rows, 0, "labels")?.iter(rows).map(set).collect()
}

/// Times in ns: the first, then each a step and a difference after the one before.
pub(super) fn times_ns(
    first_us: u64,
    step_us: u64,
    differences: impl Iterator<Item = i64>,
) -> Result<Vec<u64>, Damage> {
    let mut next_us = Some(first_us);
    let times = differences.map(|difference| {
        let time_us = next_us.and_then(|next_us| next_us.checked_add_signed(difference));
        next_us = time_us.and_then(|time_us| time_us.checked_add(step_us));
        time_us?.checked_mul(1000)
    });
    times.collect::<Option<_>>().ok_or_else(|| Damage("a time is out of range".into()))
}
