//! Columns of samples, of names and of labels: from rows with the ids of the file to the fields of a chunk.

use crate::profile::event::{EventId, HeapBlock, Sample};
use crate::profile::file::bounds::{MAX_LABELS, MAX_LOCATIONS, MAX_ROWS};
use crate::profile::file::rows::coding::{NoveltyCoder, PlaceCoder, squeeze};
use crate::profile::file::rows::schema;
use crate::profile::merged::Merged;
use crate::profile::rows::{LabelSet, LabelSetId, StringId};
use crate::profile::symbols::Location;
use crate::profile::wait::Wait;

/// The coders of the columns of names.
#[derive(Debug, Default)]
pub(in crate::profile::file) struct SymbolCoders {
    frames: NoveltyCoder,
    functions: NoveltyCoder,
    pub(in crate::profile::file) places: PlaceCoder,
}

impl SymbolCoders {
    /// As many of the rows as fit into a chunk, at least one, and how many these are. `ids` gives locations the ids of the
    /// file.
    pub(in crate::profile::file) fn chunk(
        &mut self,
        rows: &[(u32, &[Location])],
        ids: impl Fn(&Location) -> Location,
    ) -> (schema::Symbols, usize) {
        let mut chunk = schema::Symbols::default();
        let (mut counts, mut inlined) = (Vec::new(), Vec::new());
        for &(frame, locations) in rows {
            let locations = &locations[locations.len().saturating_sub(MAX_LOCATIONS)..];
            if counts.len() == MAX_ROWS || chunk.function.len() + locations.len() > MAX_ROWS {
                break;
            }
            chunk.frame.push(self.frames.encode(frame));
            counts.push(locations.len() as u32);
            for (place, location) in locations.iter().map(&ids).enumerate() {
                let (file, line) = self.places.encode(&location);
                chunk.function.push(self.functions.encode(location.function.0));
                chunk.file.push(file);
                chunk.line.push(line);
                inlined.push(u32::from(location.is_inlined != (place + 1 < locations.len())));
            }
        }
        chunk.rows = counts.len() as u32;
        chunk.locations = chunk.function.len() as u32;
        chunk.frame = squeeze(chunk.frame, 0);
        chunk.location_count = squeeze(counts, 1);
        chunk.function = squeeze(chunk.function, 0);
        chunk.file = squeeze(chunk.file, 0);
        chunk.line = squeeze(chunk.line, 0);
        chunk.inlined_unlike_place = squeeze(inlined, 0);
        let taken = chunk.rows as usize;
        (chunk, taken)
    }
}

/// The columns of some samples.
pub(in crate::profile::file) fn samples_chunk(
    event: EventId,
    period: u64,
    stacks: &mut NoveltyCoder,
    samples: impl ExactSizeIterator<Item = Sample> + Clone,
) -> schema::Samples {
    let stack = |sample: Sample| stacks.encode(sample.stack.map_or(0, |stack| stack.0.saturating_add(1)));
    let labels = |sample: Sample| sample.labels.map_or(0, |set: LabelSetId| set.0.saturating_add(1));
    let times_us: Vec<u64> = samples.clone().map(|sample| sample.time_ns / 1000).collect();
    let mut steps: Vec<i64> =
        times_us.windows(2).map(|pair| pair[1].wrapping_sub(pair[0]).cast_signed()).collect();
    let step = usual(&steps).max(0);
    steps.iter_mut().for_each(|delta| *delta -= step);
    let time = times_us.first().map(|_| 0).into_iter().chain(steps).collect();
    let mut chunk = schema::Samples {
        event: event.0,
        rows: samples.len() as u32,
        time_first_us: times_us.first().copied().unwrap_or(0),
        time_step_us: step.cast_unsigned(),
        time: squeeze(time, 0),
        task: squeeze(samples.clone().map(|sample| sample.task.0).collect(), 0),
        stack: squeeze(samples.clone().map(stack).collect(), 0),
        weight: squeeze(samples.clone().map(|sample| sample.weight).collect(), period),
        cpu: squeeze(samples.clone().map(|sample| u32::from(sample.cpu)).collect(), 0),
        outcome: squeeze(samples.clone().map(|sample| u32::from(sample.outcome.code())).collect(), 0),
        labels: squeeze(samples.clone().map(labels).collect(), 0),
        ..schema::Samples::default()
    };
    add_blocks(&mut chunk, samples);
    chunk
}

/// As many of the sets as fit into a chunk, at least one, and how many these are. `string` gives strings the ids of the file.
pub(in crate::profile::file) fn label_sets_chunk(
    first_id: usize,
    sets: &[LabelSet],
    string: impl Fn(StringId) -> u32,
) -> (schema::LabelSets, usize) {
    let mut chunk = schema::LabelSets { first_id: first_id as u32, ..Default::default() };
    let mut counts = Vec::new();
    for set in sets {
        let labels = &set[..set.len().min(MAX_LABELS)];
        if counts.len() == MAX_ROWS || chunk.key.len() + labels.len() > MAX_ROWS {
            break;
        }
        counts.push(labels.len() as u32);
        chunk.key.extend(labels.iter().map(|(key, _)| string(*key)));
        chunk.value.extend(labels.iter().map(|(_, value)| string(*value)));
    }
    let taken = counts.len();
    (chunk.rows, chunk.labels) = (taken as u32, chunk.key.len() as u32);
    chunk.label_count = squeeze(counts, 1);
    chunk.key = squeeze(chunk.key, 0);
    chunk.value = squeeze(chunk.value, 0);
    (chunk, taken)
}

/// Adds what is known of waits to the columns of their samples.
pub(in crate::profile::file) fn add_waits(
    chunk: &mut schema::Samples,
    waits: &[Wait],
    stacks: &mut NoveltyCoder,
) {
    let stack = |wait: &Wait| stacks.encode(wait.waker.stack.map_or(0, |stack| stack.0.saturating_add(1)));
    let task = |wait: &Wait| wait.waker.task.map_or(0, |task| task.0.saturating_add(1));
    chunk.are_waits = !waits.is_empty();
    chunk.duration = squeeze(waits.iter().map(|wait| wait.duration_ns).collect(), 0);
    chunk.reason = squeeze(waits.iter().map(|wait| u32::from(wait.reason.code())).collect(), 0);
    chunk.waker_kind = squeeze(waits.iter().map(|wait| u32::from(wait.waker.kind.code())).collect(), 0);
    chunk.waker_task = squeeze(waits.iter().map(task).collect(), 0);
    chunk.waker_stack = squeeze(waits.iter().map(stack).collect(), 0);
}

/// Adds what rows that are several observations come to.
pub(in crate::profile::file) fn add_merged(
    chunk: &mut schema::Samples,
    samples: impl Iterator<Item = Sample>,
) {
    let merged: Vec<Merged> = samples.map(|sample| sample.merged.unwrap_or_default()).collect();
    let column = |of: fn(&Merged) -> u64| squeeze(merged.iter().map(of).collect(), 0);
    chunk.merged_samples = column(|merged| merged.samples);
    chunk.merged_count_thousandths = column(|merged| merged.count_thousandths);
    chunk.merged_variance = column(|merged| merged.variance_us2);
    chunk.merged_span = column(|merged| merged.span_ns);
}

/// Adds what is known of blocks of memory. A lifetime is one more than it is, so that 0 is one without an end.
fn add_blocks(chunk: &mut schema::Samples, samples: impl Iterator<Item = Sample>) {
    let blocks: Vec<HeapBlock> = samples.map(|sample| sample.block.unwrap_or_default()).collect();
    let lifetime =
        |block: &HeapBlock| block.lifetime_ns.map_or(0, |lifetime_ns| lifetime_ns.saturating_add(1));
    chunk.block_size = squeeze(blocks.iter().map(|block| block.size).collect(), 0);
    chunk.block_lifetime = squeeze(blocks.iter().map(lifetime).collect(), 0);
}

/// The median, 0 of nothing.
fn usual(values: &[i64]) -> i64 {
    let mut values = values.to_vec();
    let middle = values.len() / 2;
    if values.is_empty() { 0 } else { *values.select_nth_unstable(middle).1 }
}
