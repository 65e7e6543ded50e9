//! Names for a recording to a file: looked up during the recording, so that a recorder that is killed leaves a file
//! with names, and little is left to do at the end.

use super::code::save;
use super::known_names::KnownNames;
use super::lookup::{Answer, Names, Urgency};
use super::sources;
use super::symbolize::{self, Named, UserFrames, kernel_location};
use crate::profile::{FrameId, FrameSpace, Location, ModuleId, Profile, WriteError, Writer};
use crate::record::collect::collector::Collector;
use crate::record::modules::{FileId, ModuleFiles};
use std::io::Write;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

/// A frame has its name in the file this long after its first sample, unless reading the names takes longer or the recording is in windows.
const LONGEST_WAIT: Duration = Duration::from_secs(8);
/// Time limit for the names left at the end.
const LAST_PATIENCE: Duration = Duration::from_secs(10);
/// Interval of checks for a request of the user to stop.
const STEP: Duration = Duration::from_millis(20);

/// Names of the frames of one recording.
#[derive(Debug)]
pub(crate) struct Naming {
    /// Names and frames still to be looked up, by the frame ids of the file.
    names: Names,
    answers: Receiver<Answer>,
    /// Number of the collector's frames whose names are known or asked for.
    frames: usize,
    /// Names of windows before; `None` for a recording into one file, which asks for each once.
    known: Option<KnownNames>,
    /// Why the last names are missing.
    cut_short: Option<CutShort>,
    /// Time that it took to find the code that is kept.
    code_took: Duration,
    /// Time limit for the names that are left at the end, of the recording or of a window.
    patience: Duration,
}

/// Why available names are missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CutShort {
    /// The user asked to stop.
    Asked,
    /// Looking them up took too long.
    Late,
}

impl Naming {
    /// Makes the names of a recording without frames. Debug files are looked for in `folders`, too.
    pub(crate) fn new(folders: &[PathBuf]) -> Self {
        let (sender, answers) = channel();
        let sender = Mutex::new(sender);
        let deliver = Arc::new(move |answer| {
            // The recording may have ended without them.
            let _ = sender.lock().unwrap_or_else(PoisonError::into_inner).send(answer);
        });
        let names = Names::to_be_written(deliver, LONGEST_WAIT, folders);
        Naming {
            names,
            answers,
            frames: 0,
            known: None,
            cut_short: None,
            code_took: Duration::ZERO,
            patience: LAST_PATIENCE,
        }
    }

    /// Of a recording in windows of this length: what takes long to name must not take the time of the next window.
    pub(crate) fn in_windows(mut self, length: Option<Duration>) -> Self {
        if let Some(length) = length {
            self.patience = (length / 4).min(LAST_PATIENCE);
            self.names.expect_windows(length);
            self.known = Some(KnownNames::default());
        }
        self
    }

    /// Why available names are missing, if they are.
    pub(crate) fn cut_short(&self) -> Option<CutShort> {
        self.cut_short
    }

    /// Messages about what could not be read of files, for `-v`.
    pub(crate) fn problems(&self) -> &[String] {
        self.names.problems()
    }

    /// Messages about maps of generated code that were not read.
    pub(crate) fn refused(&self) -> &[String] {
        self.names.refused()
    }

    /// Returns the time that it took to find the code that is kept, for `-v`.
    pub(crate) fn code_took(&self) -> Duration {
        self.code_took
    }

    /// Number of files that could not be read in full.
    pub(crate) fn unread_files(&self) -> u64 {
        self.names.unread_files()
    }

    /// Enters the names that have arrived, and asks for the names of new frames. The names entered reach the file with
    /// the next flush.
    ///
    /// # Errors
    ///
    /// Fails when the file cannot be written.
    pub(crate) fn look<W: Write>(
        &mut self,
        collector: &mut Collector,
        writer: &mut Writer<W>,
    ) -> Result<(), WriteError> {
        self.take_answers(&mut collector.profile, writer)?;
        self.add_new(collector, writer);
        self.names.look_up(Urgency::Whenever);
        Ok(())
    }

    /// Starts again, because the collector got new rows.
    pub(crate) fn reset(&mut self) {
        self.frames = 0;
    }

    /// Starts again for the next window: the collector has new rows, and the file of before is complete.
    pub(crate) fn begin_window(&mut self, files: &ModuleFiles) {
        // Lookups that are late go on: the code of their frames will be there again.
        self.cut_short = None;
        self.frames = 0;
        self.names.begin_window(files);
    }

    /// Enters the names of all frames, as far as they are available. `is_asked` tells whether to stop early; `progress`
    /// is called with the number of files done and the number of all files.
    ///
    /// # Errors
    ///
    /// Fails when the file cannot be written.
    pub(crate) fn finish<W: Write>(
        &mut self,
        collector: &mut Collector,
        writer: &mut Writer<W>,
        is_asked: impl Fn() -> bool,
        progress: impl Fn(usize, usize),
    ) -> Result<(), WriteError> {
        collector.dumps.finish(&mut collector.profile);
        self.take_answers(&mut collector.profile, writer)?;
        self.add_new(collector, writer);
        let deadline = Instant::now() + self.patience;
        self.names.look_up(Urgency::Last);
        while self.names.is_awaited() {
            if let Ok(answer) = self.answers.recv_timeout(STEP) {
                self.enter(answer, &mut collector.profile, writer)?;
            }
            // Frames that were added while others were looked up; no more names of generated code will come.
            self.names.look_up(Urgency::Now);
            let (done, total) = self.names.progress();
            progress(done, total);
            self.cut_short = match () {
                () if is_asked() => Some(CutShort::Asked),
                () if Instant::now() >= deadline => Some(CutShort::Late),
                () => continue,
            };
            if self.known.is_none() {
                // Threads that are still busy end with this process, which may go on beside a command.
                self.names.stop();
            }
            break;
        }
        self.note_modules(collector);
        Ok(())
    }

    /// Adds the code of the most sampled functions to the profile, and with `with_sources` the lines of its source
    /// files. `file_bytes` is the size of the file so far. To be called once all names are there.
    pub(crate) fn save_code(
        &mut self,
        collector: &mut Collector,
        file_bytes: u64,
        with_sources: bool,
        is_asked: impl Fn() -> bool,
    ) {
        if self.cut_short.is_some() {
            return;
        }
        let begun = Instant::now();
        save::save(collector, &mut self.names, file_bytes, &is_asked);
        self.code_took = begun.elapsed();
        if with_sources {
            sources::keep(&mut collector.profile);
        }
    }

    /// Enters the sources of the names of modules.
    fn note_modules(&self, collector: &mut Collector) {
        for index in 0..collector.profile.tables.modules().len() {
            let module = ModuleId(index as u32);
            if let Some(notes) = collector.files.of_row(module).and_then(|file| self.names.notes(file)) {
                collector.profile.module_notes.insert(module, notes.clone());
            }
        }
    }

    fn take_answers<W: Write>(
        &mut self,
        profile: &mut Profile,
        writer: &mut Writer<W>,
    ) -> Result<(), WriteError> {
        while let Ok(answer) = self.answers.try_recv() {
            self.enter(answer, profile, writer)?;
        }
        Ok(())
    }

    fn enter<W: Write>(
        &mut self,
        answer: Answer,
        profile: &mut Profile,
        writer: &mut Writer<W>,
    ) -> Result<(), WriteError> {
        let mut former: Vec<(FrameId, Vec<Location>)> = Vec::new();
        if let (Some(known), Some(file)) = (&mut self.known, answer.file()) {
            for (address, names) in self.names.answered(&answer) {
                known.insert(file, address, names.iter().map(Into::into));
            }
        }
        for (id, locations) in self.names.take(answer) {
            let locations = symbolize::interned(profile, &locations);
            match writer.frame_of(id) {
                // Named by a dump, which is more exact than a map.
                Some(frame) if profile.symbols.is_named(frame) => {}
                Some(frame) => profile.symbols.set_locations(frame, locations),
                None => former.push((id, locations)),
            }
        }
        if former.is_empty() { Ok(()) } else { writer.name_former(profile, &former) }
    }

    /// Asks for the names of new frames, and enters those that are known at once.
    fn add_new<W: Write>(&mut self, collector: &mut Collector, writer: &Writer<W>) {
        let from = std::mem::replace(&mut self.frames, collector.profile.tables.frames().len());
        let in_file = |frames: Vec<(u64, FrameId)>| {
            frames.into_iter().map(|(address, frame)| (address, writer.frame_id(frame))).collect()
        };
        let UserFrames { by_file, generated } =
            UserFrames::of(&collector.profile.tables, &collector.files, from);
        for (file, mut frames) in by_file {
            if let Some(known) = &mut self.known {
                frames = name_known(known, file, frames, &mut collector.profile);
            }
            if frames.is_empty() {
                continue;
            }
            self.names.add_file(file, collector.files.get(file).without_table(), in_file(frames));
        }
        for (pid, mut frames) in generated {
            // Frames that a dump has named need no map.
            frames.retain(|(_, frame)| !collector.profile.symbols.is_named(*frame));
            let map = collector.processes.get(pid).and_then(|process| process.perf_map.clone());
            self.names.add_generated(pid, map, in_file(frames));
        }
        let new = (from..self.frames).map(|index| FrameId(index as u32));
        let is_of_kernel =
            |frame: &FrameId| collector.profile.tables.frame(*frame).flags.space == FrameSpace::Kernel;
        let kernel: Vec<FrameId> = new.filter(is_of_kernel).collect();
        let of_kernel = (kernel.into_iter())
            .filter_map(|frame| Some((frame, vec![kernel_location(&collector.kernel.name(frame)?)])));
        let tables = &collector.profile.tables;
        let of_interpreters = (from..self.frames)
            .map(|index| FrameId(index as u32))
            .filter_map(|id| Some((id, vec![collector.interpreters.name(tables.frame(id), tables)?])));
        let named: Named = of_kernel.chain(of_interpreters).collect();
        symbolize::store(&mut collector.profile, named);
    }
}

/// Names the frames of a file that were named before; returns the others.
fn name_known(
    known: &mut KnownNames,
    file: FileId,
    frames: Vec<(u64, FrameId)>,
    profile: &mut Profile,
) -> Vec<(u64, FrameId)> {
    let mut others = Vec::new();
    for (address, frame) in frames {
        match known.get(file, address) {
            Some(names) => {
                let locations = symbolize::interned(profile, names);
                if !locations.is_empty() {
                    profile.symbols.set_locations(frame, locations);
                }
            }
            None => others.push((address, frame)),
        }
    }
    others
}
