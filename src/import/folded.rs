//! Folded stacks: `comm;root;…;leaf WEIGHT`, as written by FlameGraph's scripts, inferno, async-profiler and `prof
//! export`.
//!
//! Kernel frames end in `_[k]`, inlined ones in `_[i]`, and generated code in `_[j]`. The text does not say what the
//! weights are, and has no modules, threads or times.

use super::error::ImportError;
use super::event_kinds::counted;
use super::importer::{FirstElement, FoldedUnit, ImportOptions, Importer};
use super::intake::{Intake, Observation};
use super::lines::TextLines;
use super::module_kinds::{GENERATED, KERNEL};
use super::named_frames::{FramePlace, NamedFrames, NamedLocation};
use super::source::ImportSource;
use crate::base::safe_text;
use crate::base::units::counted as some;
use crate::profile::{EventId, EventKind, FrameId, Reason, TaskId, Unit};
use rustc_hash::FxHashMap;

/// The import format.
#[derive(Debug)]
pub(super) struct FoldedStacks;

impl Importer for FoldedStacks {
    fn name(&self) -> &'static str {
        "folded"
    }

    fn title(&self) -> &'static str {
        "folded stacks"
    }

    fn recognises(&self, head: &[u8]) -> bool {
        let whole = head.rsplitn(2, |&byte| byte == b'\n').last().unwrap_or_default();
        // The weight of a long first line may be beyond the head.
        let lines = if whole.is_empty() { head } else { whole };
        let mut lines = lines.split(|&byte| byte == b'\n').filter(|line| !is_passed_over(line)).peekable();
        !head.contains(&0)
            && lines.peek().is_some()
            && (whole.is_empty() && head.contains(&b';') || lines.all(|line| split(line).is_some()))
    }

    fn read(
        &self,
        source: ImportSource,
        intake: &mut Intake<'_>,
        options: &ImportOptions,
    ) -> Result<(), ImportError> {
        let mut lines = TextLines::new(source.unpacked()?);
        let mut reader = FoldedReader::new(intake, *options);
        let mut is_ended = true;
        while let Some(line) = lines.next_line() {
            is_ended = line.is_ended || is_passed_over(line.text);
            reader.line(line.text)?;
        }
        let bad = reader.bad_lines;
        if !is_ended {
            // Some tools write none after the last line, so the line counts. `main 12` that is cut to `main 1` looks no
            // different.
            intake.note("the last line has no newline: if the text is cut there, its weight is too low");
        }
        intake.note("folded stacks have no times, no threads of their own and no modules");
        if options.unit != FoldedUnit::Samples {
            intake.note("the number of samples is not known: each distinct stack counts as one");
        }
        if bad > 0 {
            intake.note(format!("{} no stack with a weight: left out", some(bad, "line")));
        }
        if lines.cut > 0 {
            intake.note(format!("{} too long: the rest of them is left out", some(lines.cut, "line")));
        }
        if let Some(problem) = &lines.problem {
            intake.note(format!("the file ends early: {problem}"));
        }
        Ok(())
    }
}

/// Whether a line is empty or a comment.
fn is_passed_over(line: &[u8]) -> bool {
    let line = line.trim_ascii();
    line.is_empty() || line.starts_with(b"#")
}

/// The stack and the weight of a line; fractional weights are rounded.
fn split(line: &[u8]) -> Option<(&[u8], u64)> {
    let line = line.trim_ascii_end();
    let space = line.iter().rposition(|&byte| byte == b' ' || byte == b'\t')?;
    let weight = std::str::from_utf8(&line[space + 1..]).ok()?;
    let weight = match weight.parse::<u64>() {
        Ok(weight) => weight,
        Err(_) if weight.bytes().all(|byte| byte.is_ascii_digit() || byte == b'.') => {
            weight.parse::<f64>().ok().filter(|weight| *weight < u64::MAX as f64)?.round() as u64
        }
        Err(_) => return None,
    };
    let stack = line[..space].trim_ascii();
    (!stack.is_empty()).then_some((stack, weight))
}

struct FoldedReader<'i, 'w> {
    intake: &'i mut Intake<'w>,
    options: ImportOptions,
    event: EventId,
    frames: NamedFrames,
    /// Frames by the text of an element and of those inlined into it.
    known: FxHashMap<Vec<u8>, FrameId>,
    tasks: FxHashMap<Vec<u8>, TaskId>,
    bad_lines: u64,
}

impl<'i, 'w> FoldedReader<'i, 'w> {
    fn new(intake: &'i mut Intake<'w>, options: ImportOptions) -> Self {
        let kind = match options.unit {
            FoldedUnit::Samples => counted("samples"),
            FoldedUnit::Time { .. } => EventKind::ON_CPU,
            FoldedUnit::Bytes => EventKind { unit: Unit::Bytes, ..counted("bytes") },
        };
        let period = u64::from(options.unit == FoldedUnit::Samples);
        let event = intake.event(kind, "as the file says", period);
        FoldedReader {
            intake,
            options,
            event,
            frames: NamedFrames::default(),
            known: FxHashMap::default(),
            tasks: FxHashMap::default(),
            bad_lines: 0,
        }
    }

    fn line(&mut self, line: &[u8]) -> Result<(), ImportError> {
        if is_passed_over(line) {
            return Ok(());
        }
        let Some((stack, weight)) = split(line) else {
            self.bad_lines += 1;
            return Ok(());
        };
        let (thread, stack) = match (self.options.first, stack.iter().position(|&byte| byte == b';')) {
            (FirstElement::Function, _) => (&b""[..], stack),
            (FirstElement::Thread, Some(end)) => (&stack[..end], &stack[end + 1..]),
            (FirstElement::Thread, None) => (stack, &b""[..]),
        };
        let task = self.task(thread);
        let frames = self.stack(stack);
        let stack = self.intake.stack(&frames);
        let (weight, samples) = match self.options.unit {
            FoldedUnit::Samples => (weight, weight),
            FoldedUnit::Time { unit_ns } => (weight.saturating_mul(unit_ns), 1),
            FoldedUnit::Bytes => (weight, 1),
        };
        if samples == 0 {
            return Ok(());
        }
        let reason = Reason::Other;
        let seen = Observation { time_ns: None, task, stack, weight, cpu: 0, samples, reason };
        self.intake.push(self.event, &seen)
    }

    /// The task of a thread: `comm`, or `comm (tid 7)`.
    fn task(&mut self, thread: &[u8]) -> TaskId {
        if let Some(task) = self.tasks.get(thread) {
            return *task;
        }
        let name = safe_text::from_bytes(thread);
        let with_tid = name.strip_suffix(')').and_then(|name| name.rsplit_once(" (tid "));
        let with_tid = with_tid.and_then(|(name, tid)| Some((name, tid.parse::<u32>().ok()?)));
        let (comm, tid) = with_tid.unwrap_or((&name, 0));
        // Without a thread id, each name is a different thread.
        let generation = if tid == 0 { self.tasks.len() as u32 } else { 0 };
        let comm = if comm.is_empty() { "[thread not known]" } else { comm };
        let task = self.intake.task((0, tid), generation, comm, comm);
        self.tasks.insert(thread.to_vec(), task);
        task
    }

    /// The frames of a stack's elements, root first.
    fn stack(&mut self, stack: &[u8]) -> Vec<FrameId> {
        let mut frames = Vec::new();
        let elements: Vec<&[u8]> =
            stack.split(|&byte| byte == b';').filter(|element| !element.is_empty()).collect();
        let mut at = 0;
        while at < elements.len() {
            let inlined = elements[at + 1..].iter().take_while(|element| element.ends_with(b"_[i]")).count();
            let group = &elements[at..=at + inlined];
            let key = group.join(&b';');
            let frame = match self.known.get(&key) {
                Some(frame) => *frame,
                None => {
                    let frame = self.frame(group);
                    self.known.insert(key, frame);
                    frame
                }
            };
            frames.push(frame);
            at += 1 + inlined;
        }
        frames
    }

    /// The frame of a function and those inlined into it.
    fn frame(&mut self, group: &[&[u8]]) -> FrameId {
        let module = match group[0] {
            function if function.ends_with(b"_[k]") => KERNEL,
            function if function.ends_with(b"_[j]") => GENERATED,
            _ => "",
        };
        let functions: Vec<NamedLocation> = (0..group.len())
            .rev()
            .map(|at| {
                let bare =
                    [&b"_[k]"[..], b"_[j]", b"_[i]"].iter().find_map(|end| group[at].strip_suffix(*end));
                NamedLocation::named(&safe_text::from_bytes(bare.unwrap_or(group[at])), at > 0)
            })
            .collect();
        let profile = &mut self.intake.profile;
        let (module, space) = self.frames.module(profile, module, &[]);
        self.frames.frame(profile, FramePlace { module, space, address: None }, &functions)
    }
}
