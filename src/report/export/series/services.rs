//! Which service a sample is of: by the labels that it was recorded with, by those of its process, or by the name of its
//! process.

use super::options::LONGEST_VALUE;
use crate::base::safe_text;
use crate::profile::{LabelSetId, ModuleKind, OUTSIDE, Outcome, Profile, TaskId};
use crate::report::naming::name::module_file;
use rustc_hash::{FxHashMap, FxHashSet};

/// Length at which the kernel cuts names of processes, bytes.
const COMM_BYTES: usize = 15;
/// Name of the service that the kernel's own threads are.
const KERNEL: &str = "kernel";
/// Name of the service of processes that have no name.
const UNKNOWN: &str = "unknown";

/// A service, and where its processes run: values of the keys that were asked for, empty where they are not known.
pub(super) type ServiceValues = Vec<String>;

/// The services of a recording.
#[derive(Debug)]
pub(super) struct ServicesOf<'p> {
    profile: &'p Profile,
    /// Service of everything, if one was asked for.
    service: Option<&'p str>,
    /// The labels of a process, where one of its samples has some of the keys.
    of_process: FxHashMap<u32, LabelSetId>,
    /// Processes without any user code: the kernel's threads.
    of_kernel: FxHashSet<u32>,
    /// Names of programs by what the kernel leaves of them, where it cuts them.
    programs: FxHashMap<&'p str, &'p str>,
    known: FxHashMap<(TaskId, Option<LabelSetId>), (ServiceValues, String)>,
    keys: Vec<&'p str>,
}

impl<'p> ServicesOf<'p> {
    /// Those that the labels with these `keys` tell apart, the first of which is the name.
    pub(super) fn new(profile: &'p Profile, service: Option<&'p str>, keys: Vec<&'p str>) -> Self {
        let tables = &profile.tables;
        let sets = (0..tables.label_sets().len() as u32).map(LabelSetId);
        let has_keys: Vec<bool> =
            sets.map(|set| tables.labels(set).any(|(key, _)| keys.contains(&key))).collect();
        let (mut of_process, mut of_kernel) = (FxHashMap::default(), FxHashSet::default());
        let mut has_user = FxHashSet::default();
        for sample in profile.events.iter().flat_map(|event| event.samples()) {
            let pid = tables.task(sample.task).pid;
            if let Some(set) = sample.labels.filter(|set| has_keys[set.index()]) {
                of_process.entry(pid).or_insert(set);
            }
            let is_kernel = sample.outcome == Outcome::NoUserStack && sample.stack.is_some();
            if is_kernel {
                of_kernel.insert(pid)
            } else {
                has_user.insert(pid)
            };
        }
        of_kernel.retain(|pid| !has_user.contains(pid) && !of_process.contains_key(pid));
        ServicesOf {
            profile,
            service,
            of_process,
            of_kernel,
            programs: programs(profile),
            known: FxHashMap::default(),
            keys,
        }
    }

    /// The service of a sample of this thread with these labels, and the name of its program.
    pub(super) fn of(&mut self, task: TaskId, labels: Option<LabelSetId>) -> (ServiceValues, String) {
        if let Some(known) = self.known.get(&(task, labels)) {
            return known.clone();
        }
        let service = self.find(task, labels);
        self.known.insert((task, labels), service.clone());
        service
    }

    fn find(&self, task: TaskId, labels: Option<LabelSetId>) -> (ServiceValues, String) {
        let tables = &self.profile.tables;
        let row = tables.task(task);
        let of_process = self.of_process.get(&row.pid).copied();
        let value = |key: &str| {
            let of_set = |set| tables.labels(set).find(|(other, value)| *other == key && !value.is_empty());
            let found = labels.and_then(of_set).or_else(|| of_process.and_then(of_set));
            found.map(|(_, value)| value_of(value)).unwrap_or_default()
        };
        let program = self.program(tables.string(row.process), row.pid);
        let mut values: Vec<String> = self.keys.iter().copied().map(value).collect();
        if let Some(service) = self.service {
            values[0] = service.to_owned();
        } else if values[0].is_empty() {
            values[0] = value_of(&program);
        }
        (values, program)
    }

    /// Name of a program by that of its process. Never empty.
    fn program(&self, process: &str, pid: u32) -> String {
        let name = match process.trim() {
            _ if self.of_kernel.contains(&pid) => KERNEL,
            "" | OUTSIDE => UNKNOWN,
            name => self.programs.get(name).copied().unwrap_or(name),
        };
        name.to_owned()
    }
}

/// Files of programs whose names the kernel cuts, by what is left; none where several have the same beginning.
fn programs(profile: &Profile) -> FxHashMap<&str, &str> {
    let tables = &profile.tables;
    let mut found: FxHashMap<&str, Option<&str>> = FxHashMap::default();
    for module in tables.modules().iter().filter(|module| module.kind == ModuleKind::Elf) {
        let file = module_file(tables.string(module.path));
        let Some(start) = file.get(..COMM_BYTES).filter(|_| file.len() > COMM_BYTES && !file.contains(".so"))
        else {
            continue;
        };
        let known = found.entry(start).or_insert(Some(file));
        *known = known.filter(|known| *known == file);
    }
    found.into_iter().filter_map(|(start, file)| Some((start, file?))).collect()
}

/// Foreign text as the value of a label: visible characters, and no more than servers take.
pub(super) fn value_of(text: &str) -> String {
    let safe = safe_text::message(text.trim());
    let end = (0..=safe.len().min(LONGEST_VALUE)).rev().find(|&end| safe.is_char_boundary(end));
    safe[..end.unwrap_or(0)].to_owned()
}
