//! Everything that is known of the probes of a recording before programs are loaded: where they are, what a hit costs, and what the
//! user should know of that.

use super::files::{ProbedFile, ProcessFiles};
use super::price::Prices;
use super::programs::ProbePrograms;
use super::site::search::{self, Site};
use super::spec::{ProbePlace, ProbeSpec};
use super::tracepoint;
use super::weight::WeightPlace;
use crate::base::failure::{Failure, status};
use crate::base::{safe_text, units};
use crate::bpf::MAX_PROBES;
use crate::profile::EventKind;
use crate::record::environment::kernel_release::KernelRelease;
use crate::record::options::{Children, RecordOptions, Target};
use crate::record::process::proc_fs;
use crate::record::target::launch::Child;
use crate::record::target::search::FoundTarget;
use std::fs::File;
use std::sync::Arc;

/// Most probes of a recording: samples have a byte for the number of their event.
const MOST_PROBES: usize = 64;
/// Files are probed for each process apart up to so many.
const MOST_PROCESSES: usize = 64;
/// The first Linux that tells tracepoints apart for one program.
const TELLS_APART: KernelRelease = KernelRelease::new(6, 10, 0);

/// The probes of a recording.
#[derive(Debug)]
pub(crate) struct ProbePlan {
    /// An event of the profile for each probe: its kind, and the rule by which it is sampled, for people.
    pub(crate) events: Vec<(EventKind, String)>,
    /// All places, by number.
    pub(super) places: Vec<PlannedPlace>,
    /// What the programs have to know.
    pub(crate) programs: ProbePrograms,
    /// What the user should know.
    pub(crate) notices: Vec<String>,
}

/// One place that is probed.
#[derive(Debug)]
pub(super) struct PlannedPlace {
    /// Index among the probes.
    pub(super) probe: usize,
    pub(super) what: PlaceToAttach,
    pub(super) weight: WeightPlace,
    /// What a hit costs before a program runs, ns; 0 where that is not known.
    pub(super) hit_ns: u64,
}

/// How a place is probed.
#[derive(Debug)]
pub(super) enum PlaceToAttach {
    Instruction {
        file: Arc<File>,
        path: String,
        offset: u64,
        semaphore_offset: u64,
        /// Only in these processes; `None`: in all.
        pids: Option<Vec<u32>>,
    },
    Tracepoint(String),
    SystemCalls,
}

/// What is recorded.
#[derive(Debug, Clone, Copy)]
struct Whom<'a> {
    options: &'a RecordOptions,
    launched: Option<&'a Child>,
    /// Processes that are there; `None`: all.
    pids: Option<&'a [u32]>,
}

impl ProbePlan {
    /// Looks all probes up; `None` if there are none.
    ///
    /// # Errors
    ///
    /// A [`Failure`] that says which one cannot be recorded, and why.
    pub(crate) fn make(
        options: &RecordOptions,
        found: &FoundTarget,
        launched: Option<&Child>,
    ) -> Result<Option<Self>, Failure> {
        let specs: Vec<(&ProbeSpec, u32)> = options.probes().collect();
        let Some((_, overhead_ppm)) = specs.first().copied() else { return Ok(None) };
        if specs.len() > MOST_PROBES {
            let what =
                format!("{} probes are more than the {MOST_PROBES} that a recording can have", specs.len());
            return Err(Failure::usage(what));
        }
        let pids = processes(options, found, launched);
        let whom = Whom { options, launched, pids: pids.as_deref() };
        let mut plan = ProbePlan {
            events: Vec::new(),
            places: Vec::new(),
            programs: ProbePrograms::new(overhead_ppm, !options.user_only),
            notices: Vec::new(),
        };
        let has_files = specs.iter().any(|(spec, _)| spec.module().is_some());
        let mapped = if has_files { ProcessFiles::now() } else { ProcessFiles::default() };
        let mut prices = Prices::default();
        for (spec, _) in specs {
            plan.add(spec, whom, &mapped, &mut prices).map_err(|why| failure(spec, &why))?;
        }
        plan.check_tracepoints()?;
        if plan.places.len() > MAX_PROBES {
            let what = format!("the probes are at {} places, and {MAX_PROBES} can be", plan.places.len());
            return Err(Failure::new(status::FAILED, what).hint("record fewer of them at once"));
        }
        Ok(Some(plan))
    }

    fn add(
        &mut self,
        spec: &ProbeSpec,
        whom: Whom<'_>,
        mapped: &ProcessFiles,
        prices: &mut Prices,
    ) -> Result<(), String> {
        let probe = self.events.len();
        let Some(module) = spec.module() else { return self.add_of_kernel(spec, probe) };
        let program = whom.launched.map(|child| child.program.as_path());
        let files = mapped.named(module, whom.pids, program)?;
        let mut failures = Vec::new();
        for file in &files {
            match search::find(spec, &file.file) {
                Ok(sites) => self.add_sites(spec, probe, file, sites, whom, prices),
                Err(why) => failures.push(format!("`{}`: {why}", safe_text::terminal(&file.path))),
            }
        }
        if !self.places.iter().any(|place| place.probe == probe) {
            return Err(failures.join("; "));
        }
        self.notices.extend(failures.into_iter().map(|why| format!("{}: {why}", spec.kind.name)));
        self.programs.has_instructions = true;
        self.events.push((spec.kind.clone(), format!("each, stacks are {}", self.share())));
        Ok(())
    }

    /// Adds what is in the kernel, and no place in a file.
    fn add_of_kernel(&mut self, spec: &ProbeSpec, probe: usize) -> Result<(), String> {
        let number = self.places.len() as u32;
        let mut weight = WeightPlace::default();
        let what = match &spec.place {
            ProbePlace::Tracepoint { name } => {
                weight = tracepoint::look_up(name, spec.weight)?;
                self.programs.add_tracepoint(number, spec.weight.map_or(0, |weight| weight.argument));
                self.notices.push(format!(
                    "{}: each hit, of any process, runs a BPF program; stacks of the recorded ones are {}",
                    spec.kind.name,
                    self.share()
                ));
                PlaceToAttach::Tracepoint(name.clone())
            }
            ProbePlace::SystemCalls => {
                self.programs.system_calls = Some(number);
                PlaceToAttach::SystemCalls
            }
            ProbePlace::Function { .. } | ProbePlace::Declared { .. } => return Ok(()),
        };
        self.places.push(PlannedPlace { probe, what, weight, hit_ns: 0 });
        self.events.push((spec.kind.clone(), format!("each, stacks are {}", self.share())));
        Ok(())
    }

    fn add_sites(
        &mut self,
        spec: &ProbeSpec,
        probe: usize,
        file: &ProbedFile,
        sites: Vec<Site>,
        whom: Whom<'_>,
        prices: &mut Prices,
    ) {
        let name = &spec.kind.name;
        let pids = whom.processes_to_probe(file);
        let path = safe_text::terminal(&file.path).into_owned();
        for (index, site) in sites.iter().enumerate() {
            let price = prices.of(site.class);
            // Of many places of one name, the first is described.
            if index == 0 {
                let at = described(spec, site, sites.len(), &path);
                let price = priced(site, price, prices);
                self.notices.push(format!("{name} is {at}: {price}"));
            }
        }
        self.notices.extend(whom.said_of_others(file, pids.is_some()).map(|said| format!("{name}: {said}")));
        let is_running = matches!(whom.options.target, Target::Pids(_) | Target::Tids(_) | Target::Name(_));
        if is_running && file.targets.is_empty() {
            self.notices.push(format!("{name}: no recorded process has mapped `{path}` yet"));
        }
        self.places.extend(sites.into_iter().map(|site| PlannedPlace {
            probe,
            what: PlaceToAttach::Instruction {
                file: Arc::clone(&file.file),
                path: path.clone(),
                offset: site.file_offset,
                semaphore_offset: site.semaphore_offset,
                pids: pids.clone(),
            },
            weight: site.weight,
            hit_ns: prices.of(site.class).unwrap_or(0),
        }));
    }

    /// What stacks may take, for people.
    pub(super) fn share(&self) -> String {
        match self.programs.overhead_ppm {
            0 => "all taken (--max-overhead 0)".to_owned(),
            ppm => format!("taken within {}% of each CPU's time", f64::from(ppm) / 1e4),
        }
    }

    /// Older kernels tell a program nothing of the tracepoint that it runs at.
    fn check_tracepoints(&mut self) -> Result<(), Failure> {
        let release = rustix::system::uname().release().to_string_lossy().into_owned();
        self.programs.tells_apart =
            KernelRelease::in_text(&release).is_some_and(|version| version >= TELLS_APART);
        if self.programs.tells_apart || self.programs.tracepoints <= 1 {
            return Ok(());
        }
        let what =
            format!("several tracepoints in one recording need Linux {TELLS_APART}, and this is {release}");
        Err(Failure::new(status::FAILED, what).hint("record one of them at a time"))
    }
}

impl Whom<'_> {
    /// The processes in which a file is probed; `None`: in all that use it.
    ///
    /// A probe in a file is hit by whoever runs its code. So where others use the file, it is probed in the recorded processes
    /// alone, at the price that children which are started later are not.
    fn processes_to_probe(&self, file: &ProbedFile) -> Option<Vec<u32>> {
        let pids = self.pids.filter(|pids| !pids.is_empty() && pids.len() <= MOST_PROCESSES)?;
        let is_shared = file.others > 0 && self.options.children != Children::All;
        (is_shared || self.options.children == Children::None).then(|| pids.to_vec())
    }

    /// What other processes have to do with a file that is probed.
    fn said_of_others(&self, file: &ProbedFile, is_apart: bool) -> Option<String> {
        let others = match file.others {
            0 => return None,
            others => units::counted(others as u64, "other process"),
        };
        match (is_apart, self.options.children) {
            _ if self.pids.is_none() => None,
            (true, Children::None) => None,
            (true, _) => Some(format!(
                "the file is shared with {others}: it is probed in what is recorded now, not in children that are started later \
                 (--children probes those too, at the price that all who use the file are slowed down)"
            )),
            (false, _) => Some(format!("the file is shared with {others}, whose hits cost as much")),
        }
    }
}

/// The processes of a target, the command that is about to be started among them; `None` of the whole machine.
fn processes(options: &RecordOptions, found: &FoundTarget, launched: Option<&Child>) -> Option<Vec<u32>> {
    match options.target {
        Target::System => None,
        Target::Launch(_) => Some(launched.map(|child| child.pid).into_iter().collect()),
        Target::Tids(ref tids) => {
            let mut pids: Vec<u32> =
                tids.iter().filter_map(|tid| proc_fs::process_of_thread(*tid).ok().flatten()).collect();
            pids.sort_unstable();
            pids.dedup();
            Some(pids)
        }
        Target::Pids(_) | Target::Name(_) => Some(found.pids.clone()),
    }
}

/// Where a probe is, in words; it may have `count` places in all.
fn described(spec: &ProbeSpec, site: &Site, count: usize, path: &str) -> String {
    let at = match (spec.is_declared(), site.function_offset) {
        (true, _) => "in ".to_owned(),
        (false, 0) => "at the beginning of the function in ".to_owned(),
        (false, offset) => format!("at +{offset:#x} of the function in "),
    };
    match count {
        1 => format!("{at}`{path}`"),
        count => format!("{at}`{path}` and {} there", units::counted(count as u64 - 1, "more place")),
    }
}

/// What a hit costs, in words.
fn priced(site: &Site, price: Option<u64>, prices: &mut Prices) -> String {
    let text = safe_text::terminal(&site.text);
    let costs = match price {
        Some(ns) => format!("a hit costs {} (`{text}`, {})", units::duration(ns), site.class.word()),
        None => format!("what a hit costs is not known here (`{text}`)"),
    };
    let Some((class, text)) = &site.instead_of else { return costs };
    let text = safe_text::terminal(text);
    match prices.of(*class) {
        Some(ns) if Some(ns) > price => {
            format!("{costs}, rather than {} (`{text}`, {})", units::duration(ns), class.word())
        }
        _ => format!("{costs}, rather than at `{text}`, which kernels from 6.18 on replace"),
    }
}

fn failure(spec: &ProbeSpec, why: &str) -> Failure {
    Failure::new(status::FAILED, format!("cannot probe {}: {why}", safe_text::terminal(&spec.kind.name)))
}
