//! The text of `perf script`, with any fields of `-F`, and of `prof export --format perf-script`: a head line per event, then a
//! line per frame, leaf first, then an empty line. Inlined frames come before the one they are inlined into, with `(inlined)` in
//! place of the module. The profile that is filled is the intake's.

mod frame_line;
mod head_line;

use super::error::ImportError;
use super::event_kinds::{is_clock, of_perf};
use super::importer::{ImportOptions, Importer};
use super::intake::{Intake, Observation};
use super::lines::TextLines;
use super::module_kinds::GENERATED;
use super::named_frames::{FramePlace, NamedFrames, NamedLocation};
use super::source::ImportSource;
use crate::base::safe_text;
use crate::base::units::counted;
use crate::profile::{EventId, FrameId, FrameSpace, Reason, TaskId};
use frame_line::FrameLine;
use head_line::HeadLine;
use rustc_hash::FxHashMap;

/// The import format.
#[derive(Debug)]
pub(super) struct PerfScriptInput;

/// Most lines of an event that are kept.
const MAX_LINES: usize = 1 << 16;

impl Importer for PerfScriptInput {
    fn name(&self) -> &'static str {
        "perf-script"
    }

    fn title(&self) -> &'static str {
        "perf script text"
    }

    fn recognises(&self, head: &[u8]) -> bool {
        let mut lines = head.split(|&byte| byte == b'\n');
        // With --header, comments come before the first event.
        let first = lines.by_ref().find(|line| !line.trim_ascii().is_empty() && !line.starts_with(b"#"));
        let Some(first) = first.filter(|_| !head.contains(&0)) else { return false };
        let head_line = HeadLine::parse(first);
        let next = lines.next().unwrap_or_default();
        let is_frame = next.first().is_some_and(u8::is_ascii_whitespace) && FrameLine::parse(next).is_some();
        head_line.is_some_and(|line| is_frame || (line.pid.is_some() && line.event.is_some()))
    }

    fn read(
        &self,
        source: ImportSource,
        intake: &mut Intake<'_>,
        _options: &ImportOptions,
    ) -> Result<(), ImportError> {
        let mut lines = TextLines::new(source.unpacked()?);
        let mut reader = ScriptReader::new(intake);
        let mut is_ended = true;
        while let Some(line) = lines.next_line() {
            is_ended = line.is_ended;
            // A frame or a weight that is cut is another one, and perf ends all of its lines.
            if is_ended {
                reader.line(line.text)?;
            }
        }
        let is_cut_in_event = reader.is_in_event();
        reader.end_event()?;
        let (bad_lines, without_period) = (reader.bad_lines, reader.without_period);
        if bad_lines > 0 {
            let lines = counted(bad_lines, "line");
            intake.note(format!("{lines} not as perf script writes them: left out"));
        }
        match (is_ended, is_cut_in_event) {
            (false, true) => intake.note(
                "the text is cut inside its last line, which is left out: the last stack may lack frames",
            ),
            (false, false) => intake.note("the text is cut inside its last line, which is left out"),
            (true, true) => intake.note(
                "no empty line follows the last event: if the text is cut there, the stack lacks frames",
            ),
            (true, false) => {}
        }
        if without_period > 0 {
            intake.note("the text has no periods: each sample weighs 1 (perf script -F +period)");
        }
        if lines.cut > 0 {
            intake.note(format!("{} too long: the rest of them is left out", counted(lines.cut, "line")));
        }
        if let Some(problem) = &lines.problem {
            intake.note(format!("the file ends early: {problem}"));
        }
        Ok(())
    }
}

/// The event whose lines are being read.
#[derive(Debug)]
struct OpenEvent {
    event: EventId,
    task: TaskId,
    time_ns: Option<u64>,
    cpu: u16,
    weight: u64,
    is_wait: bool,
    /// Frames, leaf first.
    frames: Vec<FrameId>,
    /// Lines of functions that are inlined into the next frame.
    inlined: Vec<u8>,
    /// Reason of the wait, if the first frame line gives it.
    reason: Option<Reason>,
    lines: usize,
}

struct ScriptReader<'i, 'w> {
    intake: &'i mut Intake<'w>,
    open: Option<OpenEvent>,
    frames: NamedFrames,
    /// Frames by their lines.
    known: FxHashMap<Vec<u8>, FrameId>,
    events: FxHashMap<(Vec<u8>, bool), EventId>,
    /// Name of each process: that of its first thread.
    processes: FxHashMap<u32, String>,
    tasks: FxHashMap<(Vec<u8>, u32, u32), TaskId>,
    /// Whether an empty line ended an event.
    has_empty_lines: bool,
    bad_lines: u64,
    without_period: u64,
}

impl<'i, 'w> ScriptReader<'i, 'w> {
    fn new(intake: &'i mut Intake<'w>) -> Self {
        ScriptReader {
            intake,
            open: None,
            frames: NamedFrames::default(),
            known: FxHashMap::default(),
            events: FxHashMap::default(),
            processes: FxHashMap::default(),
            tasks: FxHashMap::default(),
            has_empty_lines: false,
            bad_lines: 0,
            without_period: 0,
        }
    }

    fn line(&mut self, line: &[u8]) -> Result<(), ImportError> {
        if line.trim_ascii().is_empty() {
            self.has_empty_lines |= self.open.is_some();
            return self.end_event();
        }
        if self.open.is_some() && line.first().is_some_and(u8::is_ascii_whitespace) {
            self.frame_line(line);
            return Ok(());
        }
        self.end_event()?;
        if line.starts_with(b"#") {
            return Ok(());
        }
        match HeadLine::parse(line) {
            Some(head) => self.begin_event(&head),
            None => self.bad_lines += 1,
        }
        Ok(())
    }

    /// Whether the event being read has lines for frames and was not ended by an empty line, as others are.
    fn is_in_event(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.lines > 0 || self.has_empty_lines)
    }

    fn begin_event(&mut self, head: &HeadLine<'_>) {
        let name = head.event.unwrap_or(b"samples");
        let has_period = head.period.is_some();
        let key = (name.to_vec(), has_period);
        let event = match self.events.get(&key) {
            Some(event) => *event,
            None => {
                let name = safe_text::from_bytes(name);
                let period = u64::from(!is_clock(&name));
                let event = self.intake.event(of_perf(&name, has_period), &name, period);
                self.events.insert(key, event);
                event
            }
        };
        self.without_period += u64::from(!has_period);
        let task = self.task(head);
        let is_wait = self.intake.profile.events[event.index()].has_waits();
        let cpu = head.cpu.unwrap_or(0);
        let mut open = OpenEvent {
            event,
            task,
            time_ns: head.time_ns,
            cpu,
            weight: head.period.unwrap_or(1),
            is_wait,
            frames: Vec::new(),
            inlined: Vec::new(),
            reason: None,
            lines: 0,
        };
        // Without a callchain, the only frame is on the same line.
        if let Some(frame) = FrameLine::parse(head.rest) {
            open.frames.push(self.frame(head.rest, &[frame]));
        }
        self.open = Some(open);
    }

    fn task(&mut self, head: &HeadLine<'_>) -> TaskId {
        let pid = head.pid.unwrap_or(0);
        let tid = head.tid.unwrap_or(pid);
        let key = (head.comm.to_vec(), pid, tid);
        if let Some(task) = self.tasks.get(&key) {
            return *task;
        }
        let comm = safe_text::from_bytes(head.comm);
        if pid == tid {
            // The process is named after its first thread; earlier tasks keep the name they had.
            self.processes.insert(pid, comm.clone());
        }
        let process = self.processes.entry(pid).or_insert_with(|| comm.clone()).clone();
        let generation = if tid == 0 { self.tasks.len() as u32 } else { 0 };
        let task = self.intake.task((pid, tid), generation, &comm, &process);
        self.tasks.insert(key, task);
        task
    }

    fn frame_line(&mut self, line: &[u8]) {
        let Some(mut open) = self.open.take() else { return };
        open.lines += 1;
        if open.lines <= MAX_LINES {
            self.add_line(&mut open, line);
        }
        self.open = Some(open);
    }

    fn add_line(&mut self, open: &mut OpenEvent, line: &[u8]) {
        let is_first = open.frames.is_empty() && open.inlined.is_empty() && open.reason.is_none();
        if open.inlined.is_empty()
            && let Some(frame) = self.known.get(line)
            && !(is_first && open.is_wait)
        {
            open.frames.push(*frame);
            return;
        }
        let Some(frame) = FrameLine::parse(line) else {
            self.bad_lines += u64::from(!FrameLine::is_source_line(line));
            return;
        };
        if is_first && open.is_wait {
            open.reason = reason_of(frame.name);
            if open.reason.is_some() {
                return;
            }
        }
        if frame.is_inlined {
            open.inlined.extend_from_slice(line);
            open.inlined.push(b'\n');
            return;
        }
        let mut lines = std::mem::take(&mut open.inlined);
        lines.extend_from_slice(line);
        if let Some(frame) = self.known.get(&lines) {
            open.frames.push(*frame);
            return;
        }
        let group: Vec<FrameLine<'_>> =
            lines.split(|&byte| byte == b'\n').filter_map(FrameLine::parse).collect();
        let frame = self.frame(&lines, &group);
        open.frames.push(frame);
    }

    /// The frame of these lines, innermost function first.
    fn frame(&mut self, lines: &[u8], group: &[FrameLine<'_>]) -> FrameId {
        if let Some(frame) = self.known.get(lines) {
            return *frame;
        }
        let last = &group[group.len() - 1];
        let module_name = safe_text::from_bytes(last.module);
        let profile = &mut self.intake.profile;
        let (module, space) = self.frames.module(profile, &module_name, &[]);
        // An address this high without a module can only be in the kernel.
        let is_high = last.module.is_empty() && last.address.is_some_and(|address| address >= 1 << 63);
        let space = if is_high { FrameSpace::Kernel } else { space };
        let mut functions: Vec<NamedLocation> = (group.iter())
            .map(|frame| NamedLocation::named(&safe_text::from_bytes(frame.name), frame.is_inlined))
            .collect();
        let mut address = last.address;
        match last.unnamed(&module_name) {
            // Only its offset in the module is known: an unnamed frame is shown as that.
            Some(Some(offset)) => {
                address = Some(offset);
                functions.clear();
            }
            Some(None) if module_name == GENERATED => functions.clear(),
            Some(None) => {
                for function in &mut functions {
                    function.raw_name.clear();
                }
            }
            None => {}
        }
        let frame = self.frames.frame(profile, FramePlace { module, space, address }, &functions);
        self.known.insert(lines.to_vec(), frame);
        frame
    }

    fn end_event(&mut self) -> Result<(), ImportError> {
        let Some(mut open) = self.open.take() else { return Ok(()) };
        open.frames.reverse();
        let stack = self.intake.stack(&open.frames);
        let seen = Observation {
            time_ns: open.time_ns,
            task: open.task,
            stack,
            weight: open.weight,
            cpu: open.cpu,
            samples: 1,
            reason: open.reason.unwrap_or_default(),
        };
        self.intake.push(open.event, &seen)
    }
}

/// The reason of a wait from the leaf frame: `[lock]`.
fn reason_of(name: &[u8]) -> Option<Reason> {
    let word = name.strip_prefix(b"[")?.strip_suffix(b"]")?;
    Reason::ALL.into_iter().find(|reason| reason.label().as_bytes() == word)
}
