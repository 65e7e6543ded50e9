//! The code of the most sampled functions, for `prof annotate`: found at the end of a recording, when all names are
//! known, file by file.

use super::find::{self, FoundCodes, MOST_FUNCTION_BYTES};
use super::found::FoundCode;
use super::weights::{CodeShare, CodeWeights};
use crate::base::deadline::Deadline;
use crate::profile::{Event, ModuleId, ModuleKind, Profile, counter};
use crate::record::collect::collector::Collector;
use crate::record::modules::ModuleFile;
use crate::record::names::file_names::FileNames;
use crate::record::names::jit_names;
use crate::record::names::look::FileToRead;
use crate::record::names::lookup::Names;
use crate::record::workers::{JobUrgency, WorkerLane};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// Space for code in a recording, however small it is, bytes before compression: some thirty functions of a program in which
/// none is hot.
const LEAST_ROOM: u64 = 64 << 10;
/// The same where code is added because somebody asks for it.
const LEAST_ROOM_LATER: u64 = 1 << 20;
/// In a larger recording, one in this many of its bytes is for code.
const PART_OF_FILE: u64 = 20;
/// Approximate size of a sample in a recording, bytes.
const BYTES_OF_SAMPLE: u64 = 20;
/// Most space for code in the largest recording, bytes.
const MOST_ROOM: u64 = 8 << 20;
/// Time limit for all files together.
const PATIENCE: Duration = Duration::from_secs(2);
/// Interval of checks for a request of the user to stop.
const STEP: Duration = Duration::from_millis(20);
/// Worth of a file's addresses below which nothing of the file is kept.
const LEAST_WORTH: f64 = 0.003;

/// Adds the code of the most sampled functions to the profile. `file_bytes` is the size of the recording so far.
pub(in crate::record::names) fn save(
    collector: &mut Collector,
    names: &mut Names,
    file_bytes: u64,
    is_asked: &dyn Fn() -> bool,
) {
    let weights = weights(collector);
    let room = (file_bytes / PART_OF_FILE).clamp(LEAST_ROOM, MOST_ROOM);
    let stop = Arc::<AtomicBool>::default();
    let deadline = Deadline::after(PATIENCE, &stop);
    let worth = |addresses: &[(u64, CodeShare)]| addresses.iter().map(|(_, share)| share.worth).sum::<f64>();
    let all: f64 = weights.iter().map(|(_, addresses)| worth(addresses)).sum();
    let (sender, answers) = channel::<(ModuleId, FoundCodes)>();
    let (mut found, mut asked) = (Vec::new(), 0);
    for (module, addresses) in weights {
        let worth = worth(&addresses);
        if worth < LEAST_WORTH {
            continue;
        }
        if collector.profile.tables.module(module).kind == ModuleKind::Jit {
            found.push((module, generated(collector, module, &addresses)));
            continue;
        }
        let file = collector.files.of_row(module).and_then(|file| names.take_file(file));
        let Some((file, kept)) = file else { continue };
        // A share of the space; hot functions are kept anyway.
        let room = (room as f64 * worth / all) as u64;
        let (sender, deadline) = (sender.clone(), deadline.clone());
        let folders = names.folders();
        asked += 1;
        rayon::spawn(move || {
            let file = FileToRead {
                file: &file,
                kept,
                folders: &folders,
                urgency: JobUrgency::Ordinary,
                deadline: &deadline,
            };
            let codes = file.find_code(&addresses, room);
            // The recording may have ended without it.
            let _ = sender.send((module, codes));
        });
    }
    let end = Instant::now() + PATIENCE;
    while asked > 0 && !is_asked() && Instant::now() < end {
        if let Ok(answer) = answers.recv_timeout(STEP) {
            found.push(answer);
            asked -= 1;
        }
    }
    stop.store(true, Ordering::Relaxed);
    found.sort_by_key(|(module, _)| *module);
    for (module, FoundCodes { functions, left_out }) in found {
        functions.into_iter().for_each(|code| code.store(&mut collector.profile, module));
        collector.profile.count(counter::CODE_LEFT_OUT, left_out);
    }
}

/// A module's file, and its open file of names.
pub(crate) type OpenCode = (ModuleFile, FileNames);

/// Adds the code of the most sampled functions of `profile` that have none yet. `open` opens the file of a module, if it is the
/// recorded one. Returns the number of functions whose code was added.
pub(in crate::record::names) fn add_missing(
    profile: &mut Profile,
    open: &mut dyn FnMut(&Profile, ModuleId) -> Option<OpenCode>,
    deadline: &Deadline,
) -> u64 {
    let (mut sampled, mut waited) = (FxHashMap::default(), FxHashMap::default());
    let mut all = 0u64;
    for sample in profile.events.iter().flat_map(Event::samples) {
        let of = if sample.wait.is_some() { &mut waited } else { &mut sampled };
        let samples = sample.merged.as_ref().map_or(1, |merged| merged.samples.max(1));
        all = all.saturating_add(1);
        if let Some(stack) = sample.stack {
            let count: &mut u64 = of.entry(stack).or_default();
            *count = count.saturating_add(samples);
        }
    }
    let mut weights = CodeWeights::default();
    weights.add(&profile.tables, &sampled, &waited);
    let weights = weights.by_module();
    let worth = |addresses: &[(u64, CodeShare)]| addresses.iter().map(|(_, share)| share.worth).sum::<f64>();
    let whole: f64 = weights.iter().map(|(_, addresses)| worth(addresses)).sum();
    let room = (all.saturating_mul(BYTES_OF_SAMPLE) / PART_OF_FILE).clamp(LEAST_ROOM_LATER, MOST_ROOM);
    let known: FxHashSet<(ModuleId, u64)> =
        profile.code.iter().map(|code| (code.module, code.start)).collect();
    // What was counted as left out when others of the module were kept is not counted again.
    let counted: FxHashSet<ModuleId> = known.iter().map(|(module, _)| *module).collect();
    let mut added = 0;
    for (module, addresses) in weights {
        let worth = worth(&addresses);
        if worth < LEAST_WORTH || deadline.has_passed() {
            continue;
        }
        let Some((file, mut names)) = open(profile, module) else { continue };
        let room = (room as f64 * worth / whole) as u64;
        let FoundCodes { mut functions, left_out } =
            find::find(&mut names, &file, &addresses, room, deadline);
        functions.retain(|code| !known.contains(&(module, code.start())));
        if functions.is_empty() {
            continue;
        }
        let new = functions.len() as u64;
        added += new;
        functions.into_iter().for_each(|code| code.store(profile, module));
        if counted.contains(&module) {
            profile.uncount(counter::CODE_LEFT_OUT, new);
        } else {
            profile.count(counter::CODE_LEFT_OUT, left_out);
        }
    }
    added
}

fn weights(collector: &Collector) -> Vec<(ModuleId, Vec<(u64, CodeShare)>)> {
    let totals = &collector.totals;
    let mut weights: CodeWeights = totals.former_code.clone();
    weights.add(&collector.profile.tables, &totals.stacks, &totals.wait_stacks);
    weights.by_module()
}

/// The code that a process generated, as recorded in its dump.
fn generated(collector: &Collector, module: ModuleId, addresses: &[(u64, CodeShare)]) -> FoundCodes {
    let mut found = FoundCodes::default();
    let row = collector.profile.tables.module(module);
    let dump = (collector.processes.get(row.instance))
        .and_then(|process| process.jit_dump)
        // Who reads one on a server may wait for ever.
        .filter(|dump| collector.files.get(dump.file).reader_lane() == WorkerLane::Local)
        .and_then(|dump| collector.dumps.get(dump.file));
    let reuse = row.build_id.as_slice().try_into().map_or(0, u32::from_le_bytes);
    let mut end = 0;
    for &(address, share) in addresses {
        if address < end || share.worth < LEAST_WORTH / 10.0 {
            continue;
        }
        match dump.and_then(|dump| dump.code_at(address, reuse, MOST_FUNCTION_BYTES)) {
            Some(code) => {
                end = code.start.saturating_add(code.size);
                let chain = |offset: u64| code.name_at(offset).map(|name| jit_names::location(&name));
                let Some(owner) = chain(0) else { continue };
                let starts = find::instruction_starts(&code.bytes, code.start);
                let mut found_code =
                    FoundCode::new(code.start, code.size, code.start, code.bytes.clone(), owner);
                for start in starts {
                    let at = start - code.start;
                    // The code is at most 64 KiB.
                    found_code.add_instruction(at as u32, &Vec::from_iter(chain(at)));
                }
                found.functions.push(found_code);
            }
            None => found.left_out += u64::from(share.own > 0.0),
        }
    }
    found
}
