//! A thread: its samples and markers, then the tables that they refer to.

use super::tables::{ThreadTables, WAITING};
use crate::profile::{TaskId, Unit};
use crate::report::export::tools::in_time::TimedSample;
use crate::report::export::tools::json_text::{array_of, push_ms, push_number, string};
use crate::report::export::tools::stacks::{FrameTexts, named, waker_words};
use crate::report::naming::style::NameStyle;
use crate::report::query::selection::Selection;
use rustc_hash::FxHashMap;
use std::io::{self, Write};

/// The schema of wait markers: their fields and how to display them.
pub(super) const SCHEMA: &str = r#"{"name":"Wait","display":["marker-chart","marker-table","timeline-overview"],
"chartLabel":"{marker.data.reason}","tooltipLabel":"waits: {marker.data.reason}","tableLabel":"{marker.data.reason}",
"description":"The thread did not run.","fields":[
{"key":"reason","label":"Reason","format":"unique-string","searchable":true},
{"key":"waker","label":"Woken by","format":"unique-string","searchable":true},
{"key":"weight","label":"Weighted as","format":"duration"}]}"#;

/// Writes one thread.
pub(super) struct ThreadWriter<'m, 's, 'p> {
    selection: &'s Selection<'p>,
    texts: FrameTexts<'s, 'p>,
    tables: ThreadTables<'s, 'p>,
    has_wait_samples: bool,
    moments: &'m [TimedSample],
    /// The stack of each group, without and with the reason as its leaf.
    stacks: FxHashMap<(u32, bool), Option<u32>>,
}

impl<'m, 's, 'p> ThreadWriter<'m, 's, 'p> {
    /// A writer for one thread with `moments`, which are in the order of time.
    pub(super) fn new(
        selection: &'s Selection<'p>,
        names: NameStyle,
        has_wait_samples: bool,
        moments: &'m [TimedSample],
    ) -> Self {
        let texts = FrameTexts::new(selection, names);
        let (tables, stacks) = (ThreadTables::new(texts), FxHashMap::default());
        ThreadWriter { selection, texts, tables, has_wait_samples, moments, stacks }
    }

    /// Writes the thread of `task`.
    ///
    /// # Errors
    ///
    /// Returns the errors of `out`.
    pub(super) fn write(mut self, task: TaskId, out: &mut dyn Write) -> io::Result<()> {
        let profile = self.selection.profile;
        let row = profile.tables.task(task);
        let [name, process] = [row.comm, row.process].map(|name| string(&named(profile.tables.string(name))));
        let (pid, tid) = (row.pid, row.tid);
        let is_main = pid == tid;
        let unique = if row.generation == 0 { String::new() } else { format!(".{}", row.generation) };
        write!(out, "\n{{\"name\":{name},\"isMainThread\":{is_main},\"processType\":\"default\",")?;
        writeln!(out, "\"processName\":{process},\"pid\":\"{pid}\",\"tid\":\"{tid}{unique}\",")?;
        let time = profile.thread_times.iter().find(|time| {
            let other = profile.tables.task(time.task);
            (other.pid, other.tid, other.generation) == (pid, tid, row.generation)
        });
        let mut from = Vec::new();
        push_ms(&mut from, time.map_or(0, |time| time.from_ns));
        let mut to = Vec::new();
        match time.filter(|time| time.has_ended) {
            Some(time) => push_ms(&mut to, time.to_ns),
            None => to.extend_from_slice(b"null"),
        }
        let [from, to] = [from, to].map(|ms| String::from_utf8_lossy(&ms).into_owned());
        write!(out, "\"processStartupTime\":0,\"processShutdownTime\":null,\"registerTime\":{from},")?;
        writeln!(out, "\"unregisterTime\":{to},\"pausedRanges\":[],\"showMarkersInTimeline\":true,")?;
        self.resolve_stacks();
        self.samples(out)?;
        self.markers(out)?;
        self.tables.write(out)?;
        out.write_all(b"}")
    }

    /// Looks up the stacks of all groups, in group order, in which consecutive stacks have much in common.
    fn resolve_stacks(&mut self) {
        let mut groups: Vec<u32> = self.moments.iter().map(|moment| moment.group).collect();
        groups.sort_unstable();
        groups.dedup();
        for group in groups {
            let path = self.selection.path_of(group as usize);
            let code = self.texts.without_reason(&path);
            let stack = self.tables.stack(code);
            self.stacks.insert((group, false), stack);
            let with_reason = if self.has_wait_samples { self.tables.stack(&path) } else { stack };
            self.stacks.insert((group, true), with_reason);
        }
    }

    fn stack(&self, moment: &TimedSample, with_reason: bool) -> Option<u32> {
        self.stacks.get(&(moment.group, with_reason)).copied().flatten()
    }

    fn samples(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let unit = self.selection.shown.unit;
        let has_waits = self.has_wait_samples;
        let rows: Vec<&TimedSample> =
            self.moments.iter().filter(|moment| has_waits || !moment.is_wait).collect();
        let stacks: Vec<Option<u32>> = rows.iter().map(|moment| self.stack(moment, moment.is_wait)).collect();
        let weight_type = match unit {
            Unit::Nanoseconds => "tracing-ms",
            Unit::Bytes => "bytes",
            Unit::Count | Unit::Other(_) => "samples",
        };
        write!(out, "\"samples\":{{\"length\":{},\"weightType\":\"{weight_type}\",\"stack\":", rows.len())?;
        let mut buffer = Vec::new();
        array_of(
            out,
            stacks,
            |stack, text| match stack {
                Some(stack) => push_number(text, stack.into()),
                None => text.extend_from_slice(b"null"),
            },
            &mut buffer,
        )?;
        out.write_all(b",\"timeDeltas\":")?;
        let mut before_ns = 0;
        let delta = |moment: &&TimedSample, text: &mut Vec<u8>| {
            push_ms(text, moment.time_ns - std::mem::replace(&mut before_ns, moment.time_ns));
        };
        array_of(out, &rows, delta, &mut buffer)?;
        out.write_all(b",\"weight\":")?;
        let weight = |moment: &&TimedSample, text: &mut Vec<u8>| match unit {
            Unit::Nanoseconds => push_ms(text, moment.weight),
            _ => push_number(text, moment.weight),
        };
        array_of(out, &rows, weight, &mut buffer)?;
        out.write_all(b",\"threadCPUDelta\":")?;
        let cpu_us = |moment: &&TimedSample, text: &mut Vec<u8>| match unit {
            Unit::Nanoseconds if !moment.is_wait => push_number(text, moment.weight / 1000),
            Unit::Nanoseconds => push_number(text, 0),
            _ => text.extend_from_slice(b"null"),
        };
        array_of(out, &rows, cpu_us, &mut buffer)?;
        out.write_all(b"},\n")
    }

    fn markers(&mut self, out: &mut dyn Write) -> io::Result<()> {
        let rows: Vec<&TimedSample> = self.moments.iter().filter(|moment| moment.is_wait).collect();
        let words: Vec<(u32, Option<u32>, Option<u32>)> =
            rows.iter().map(|moment| self.marker_strings(moment)).collect();
        let mut buffer = Vec::new();
        write!(out, "\"markers\":{{\"length\":{},\"category\":", rows.len())?;
        array_of(out, &rows, |_, text| push_number(text, WAITING), &mut buffer)?;
        out.write_all(b",\"name\":")?;
        array_of(out, &words, |(reason, ..), text| push_number(text, (*reason).into()), &mut buffer)?;
        out.write_all(b",\"startTime\":")?;
        array_of(out, &rows, |moment, text| push_ms(text, moment.time_ns), &mut buffer)?;
        out.write_all(b",\"endTime\":")?;
        let end = |moment: &&TimedSample, text: &mut Vec<u8>| {
            push_ms(text, moment.time_ns.saturating_add(moment.length_ns))
        };
        array_of(out, &rows, end, &mut buffer)?;
        // 1 means interval.
        out.write_all(b",\"phase\":")?;
        array_of(out, &rows, |_, text| push_number(text, 1), &mut buffer)?;
        out.write_all(b",\"data\":")?;
        array_of(
            out,
            rows.iter().zip(&words),
            |(moment, words), text| push_data(text, moment, *words),
            &mut buffer,
        )?;
        out.write_all(b"},\n")
    }

    /// The reason, the waker and the stack of a wait.
    fn marker_strings(&mut self, moment: &TimedSample) -> (u32, Option<u32>, Option<u32>) {
        let reason = moment.activity(self.selection).reason().map_or("", |reason| reason.label());
        let reason = self.tables.string(reason.to_owned());
        let wait = moment.sample(self.selection).and_then(|sample| sample.wait);
        let waker = wait.and_then(|wait| waker_words(&self.selection.profile.tables, &wait.waker));
        let waker = waker.map(|waker| self.tables.string(waker));
        (reason, waker, self.stack(moment, false))
    }
}

fn push_data(
    text: &mut Vec<u8>,
    moment: &TimedSample,
    (reason, waker, stack): (u32, Option<u32>, Option<u32>),
) {
    text.extend_from_slice(b"{\"type\":\"Wait\",\"reason\":");
    push_number(text, reason.into());
    if let Some(waker) = waker {
        text.extend_from_slice(b",\"waker\":");
        push_number(text, waker.into());
    }
    if moment.weight != moment.length_ns {
        text.extend_from_slice(b",\"weight\":");
        push_ms(text, moment.weight);
    }
    if let Some(stack) = stack {
        text.extend_from_slice(b",\"cause\":{\"stack\":");
        push_number(text, stack.into());
        text.push(b'}');
    }
    text.push(b'}');
}
