//! The Go program of one process: how its memory is laid out, what the kernel side has to know of it, and the labels that
//! it has given its goroutines.

use crate::bpf::{GoroutineEvent, MOST_LABELS, goroutine_check, number, prof_goroutine_place};
use crate::profile::LabelSetId;
use crate::record::interpreters::process_memory::ProcessMemory;
use crate::record::modules::FileId;
use crate::runtimes::TargetMemory;
use crate::runtimes::go::{GoLabelForm, GoLayout, first_labels};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Labels of goroutines that are remembered of a process.
const MOST_TEXTS: usize = 50_000;

/// Go program that a process runs, as far as it is known.
#[derive(Debug, Default)]
pub(crate) enum ProcessGoroutines {
    /// The process runs none.
    #[default]
    None,
    /// Its file is mapped, but its runtime has not begun yet.
    Pending {
        /// Time at which it was first looked at, ns.
        since_ns: u64,
        /// Time of the next attempt, ns.
        next_ns: u64,
        /// Why the last attempt failed.
        why: String,
    },
    /// Its goroutines can be read.
    Ready(Box<GoProgram>),
    /// Its goroutines cannot be read; why, was said.
    Unknown(String),
}

impl ProcessGoroutines {
    /// Forgets sets of labels of the profile, because they get new numbers.
    pub(crate) fn forget_sets(&mut self) {
        if let ProcessGoroutines::Ready(program) = self {
            program.sets.clear();
        }
    }

    /// What the kernel side has to know.
    pub(crate) fn descriptor(&self) -> prof_goroutine_place {
        match self {
            ProcessGoroutines::Ready(program) => program.place,
            _ => prof_goroutine_place::default(),
        }
    }

    /// Returns the version of Go and the source of its offsets, or why its goroutines cannot be read; `None` where the
    /// process runs no Go program.
    pub(crate) fn describe(&self) -> Option<Result<String, String>> {
        match self {
            ProcessGoroutines::None => None,
            ProcessGoroutines::Ready(program) => {
                let version = if program.version.is_empty() { "?" } else { &program.version };
                Some(Ok(format!("go {version}: goroutines from type descriptors in the program")))
            }
            ProcessGoroutines::Pending { why, .. } | ProcessGoroutines::Unknown(why) => {
                Some(Err(why.clone()))
            }
        }
    }
}

/// A Go program whose goroutines can be read.
#[derive(Debug)]
pub(crate) struct GoProgram {
    /// Its file, and the difference between process addresses and those of the file.
    pub(super) file: FileId,
    pub(super) layout: Arc<GoLayout>,
    version: String,
    place: prof_goroutine_place,
    memory: ProcessMemory,
    /// Labels by address and check; `None` for those that could not be read.
    texts: FxHashMap<(u64, u64), Option<Arc<GoroutineLabels>>>,
    /// Sets of labels of samples, by number of the goroutine, address and check of its labels.
    pub(super) sets: FxHashMap<GoroutineEvent, Option<LabelSetId>>,
}

/// Labels of a goroutine: keys and values.
pub(super) type GoroutineLabels = Vec<(String, String)>;

impl GoProgram {
    /// A program of this layout. An error says why the kernel side cannot read its goroutines.
    pub(super) fn new(
        memory: ProcessMemory,
        file: FileId,
        layout: GoLayout,
        version: String,
    ) -> Result<Self, String> {
        let place = place(&layout).ok_or_else(|| {
            format!("go {version}: goroutines are not read: offsets that the kernel side has no room for")
        })?;
        Ok(GoProgram {
            file,
            layout: Arc::new(layout),
            version,
            place,
            memory,
            texts: FxHashMap::default(),
            sets: FxHashMap::default(),
        })
    }

    /// The labels that the program has given a goroutine, as they were when the kernel side looked; `None` if that is not
    /// known any more.
    pub(super) fn labels(&mut self, goroutine: &GoroutineEvent) -> Option<Arc<GoroutineLabels>> {
        if goroutine.labels == 0 || self.layout.labels.form == GoLabelForm::None {
            return Some(Arc::default());
        }
        let key = (goroutine.labels, goroutine.check);
        if let Some(known) = self.texts.get(&key) {
            return known.clone();
        }
        let found = self.read_labels(goroutine).map(Arc::new);
        if self.texts.len() >= MOST_TEXTS {
            self.texts.clear();
        }
        self.texts.insert(key, found.clone());
        found
    }

    fn read_labels(&self, goroutine: &GoroutineEvent) -> Option<GoroutineLabels> {
        let found = first_labels(&self.memory, &self.layout.labels, goroutine.labels, MOST_LABELS);
        // If what is there now has the check of the sample, it is what was read in between.
        let read = |address, bytes: &mut [u8]| self.memory.read(address, bytes);
        let check = goroutine_check(&self.place, &read, goroutine.labels)?;
        (check == goroutine.check).then_some(found)
    }
}

/// What the kernel side has to know of a layout; `None` if a number is larger than it has room for.
fn place(layout: &GoLayout) -> Option<prof_goroutine_place> {
    let thread = layout.thread;
    let short = |offset: u32| u16::try_from(offset).ok();
    let label_form = match layout.labels.form {
        GoLabelForm::None => number::PROF_LABELS_NONE,
        GoLabelForm::Map => number::PROF_LABELS_MAP,
        GoLabelForm::Pairs => number::PROF_LABELS_PAIRS,
    };
    let constants = &layout.labels.constants;
    Some(prof_goroutine_place {
        own_off: thread.goroutine,
        constants: constants.start,
        constant_bytes: constants.end.saturating_sub(constants.start),
        machine_off: short(thread.machine)?,
        current_off: short(thread.current)?,
        id_off: short(thread.id)?,
        labels_off: short(thread.labels)?,
        is_known: 1,
        label_form: label_form as u8,
        ..prof_goroutine_place::default()
    })
}
