//! A process whose allocator's functions jump to the sampler: from finding a place for it to the bytes as they were.

use super::examiner::Examiner;
use super::image::{self, SamplerImage};
use super::mapped_file::open_mapped;
use super::memory_map::MemoryMap;
use super::patched_function::{Kit, PatchedFunction, moved_to};
use super::prologue::{JUMP_BYTES, jump};
use super::stopped::{StoppedProcess, TakenCode, write_data};
use super::{refusal, stub};
use crate::base::failure::io_words;
use crate::record::heap::functions::{AllocatorFunction, FunctionKind};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Number of attempts to find all threads outside of the instructions that are replaced, and the time between them.
const ATTEMPTS: usize = 50;
const PAUSE: Duration = Duration::from_millis(2);

/// Functions that are farther apart than this jump to samplers of their own, bytes: one has to be within 2 GiB of all.
const GROUP_SPAN: u64 = 1 << 30;

/// A sampler in a process, and what jumps to it: functions that are near enough.
#[derive(Debug)]
struct PlacedSampler {
    /// Start of its code.
    at: u64,
    functions: Vec<PatchedFunction>,
    /// The file that is mapped there.
    file: File,
}

/// The samplers in a process: mostly one, and more where allocators are far apart, such as that of a program and the C library's.
#[derive(Debug)]
pub(crate) struct Patch {
    pid: u32,
    samplers: Vec<PlacedSampler>,
    /// Functions that are as they were, and why.
    pub(crate) skipped: Vec<String>,
    /// Time for which the process was stopped.
    pub(crate) stopped: Duration,
}

impl Patch {
    /// Number of functions that jump to the sampler.
    pub(crate) fn count(&self) -> usize {
        self.samplers.iter().map(|sampler| sampler.functions.len()).sum()
    }

    /// The files of the samplers that are mapped.
    pub(crate) fn files(&self) -> impl Iterator<Item = &File> {
        self.samplers.iter().map(|sampler| &sampler.file)
    }

    /// Puts the sampler into a process, and has `functions` jump to it; one of `mean` bytes is sampled.
    ///
    /// # Errors
    ///
    /// Why the process is left as it is.
    pub(crate) fn apply(
        pid: u32,
        functions: &[AllocatorFunction],
        mean: u64,
        examiner: &Examiner,
    ) -> Result<Self, String> {
        let image = SamplerImage::of_this_build().ok_or("there is no sampler for this processor")?;
        if let Some(why) = refusal::reason(pid) {
            return Err(why);
        }
        let mut why = String::new();
        for _ in 0..ATTEMPTS {
            let begun = Instant::now();
            let mut process = StoppedProcess::stop(pid)?;
            let kit = Kit { image: &image, examination: examiner.begin() };
            match Patch::apply_to(&mut process, (pid, &kit), functions, mean) {
                Ok(patch) => {
                    drop(process);
                    return Ok(Patch { stopped: begun.elapsed(), ..patch });
                }
                Err(Failed::ForNow(reason)) => why = reason,
                Err(Failed::ForGood(reason)) => return Err(reason),
            }
            drop(process);
            std::thread::sleep(PAUSE);
        }
        Err(why)
    }

    fn apply_to(
        process: &mut StoppedProcess,
        (pid, kit): (u32, &Kit<'_>),
        functions: &[AllocatorFunction],
        mean: u64,
    ) -> Result<Self, Failed> {
        if !process.is_64_bit()? {
            return Err(Failed::ForGood("it runs 32-bit code".to_owned()));
        }
        take_back(process, kit.image, &process.map()?)?;
        let mut patch = Patch { pid, samplers: Vec::new(), skipped: Vec::new(), stopped: Duration::ZERO };
        for near in groups(functions) {
            match patch.place(process, kit, &near) {
                Ok(sampler) => patch.samplers.push(sampler),
                Err(Failed::ForGood(why)) => {
                    let names: Vec<&str> = near.iter().map(|function| function.name.as_str()).collect();
                    patch.skipped.push(format!("{}: {why}", names.join(", ")));
                }
                Err(for_now) => return Err(for_now),
            }
        }
        patch.samplers.retain(|sampler| !sampler.functions.is_empty());
        patch.activate(process, kit.image, mean)
    }

    /// Finds, or maps, a sampler for functions that are near each other.
    fn place(
        &mut self,
        process: &mut StoppedProcess,
        kit: &Kit<'_>,
        functions: &[&AllocatorFunction],
    ) -> Result<PlacedSampler, Failed> {
        let (map, image) = (process.map()?, kit.image);
        let (wanted, why) = with_hooks(functions, &map);
        self.skipped.extend(why);
        let known = map.samplers().map(|range| range.start);
        for at in known.collect::<Vec<_>>() {
            let (patched, why) = moved_to(process, kit, &wanted, at)?;
            let bytes = file_bytes(image, &patched);
            let mut there = vec![0; bytes.len()];
            let is_same = process.read(at, &mut there).is_ok() && there == bytes;
            if is_same && !patched.is_empty() {
                let Ok(file) = open_mapped(process, &map, at) else { continue };
                self.skipped.extend(why);
                return Ok(PlacedSampler { at, functions: patched, file });
            }
        }
        let at = map_sampler(process, kit, &map, &wanted)?;
        let (patched, why) = moved_to(process, kit, &wanted, at)?;
        self.skipped.extend(why);
        let file = open_mapped(process, &process.map()?, at)?;
        file.write_all_at(&file_bytes(image, &patched), 0)?;
        Ok(PlacedSampler { at, functions: patched, file })
    }

    /// Writes the jumps. All else is in place.
    fn activate(self, process: &StoppedProcess, image: &SamplerImage, mean: u64) -> Result<Self, Failed> {
        if self.samplers.is_empty() {
            let why = self.skipped.first().map_or_else(String::new, |why| format!(": {why}"));
            return Err(Failed::ForGood(format!("none of its allocator's functions can be patched{why}")));
        }
        let taken = self.functions().map(|(at, function)| {
            let moved_at = at + image.displaced(function.number);
            let PatchedFunction { address, moved, .. } = function;
            TakenCode {
                range: *address..address + moved.length as u64,
                instructions: (moved.offsets.iter())
                    .map(|(was, is)| (*was as u64, moved_at + *is as u64))
                    .collect(),
            }
        });
        let mut taken: Vec<TakenCode> = taken.collect();
        taken.sort_by_key(|taken| taken.range.start);
        process.leave(&taken).map_err(Failed::ForNow)?;
        for sampler in &self.samplers {
            process.write_data(sampler.at + image::MEAN_AT, &mean.to_ne_bytes())?;
        }
        for (at, function) in self.functions() {
            let hook = at + image.hook(function.number);
            let jump = jump(function.address, hook).ok_or("the sampler is too far away")?;
            process.write_code(function.address, &jump)?;
        }
        Ok(self)
    }

    /// The functions, each with the start of the sampler that it jumps to.
    fn functions(&self) -> impl Iterator<Item = (u64, &PatchedFunction)> {
        self.samplers
            .iter()
            .flat_map(|sampler| sampler.functions.iter().map(|function| (sampler.at, function)))
    }

    /// Has the samplers sample one of `mean` bytes from now on. The process goes on meanwhile.
    ///
    /// # Errors
    ///
    /// When they are not there any more: it has ended, or called exec.
    pub(crate) fn set_mean(&self, mean: u64) -> std::io::Result<()> {
        let map = MemoryMap::read(self.pid)?;
        for sampler in &self.samplers {
            if !is_there(&map, sampler.at) {
                return Err(std::io::ErrorKind::NotFound.into());
            }
            write_data(self.pid, sampler.at + image::MEAN_AT, &mean.max(1).to_ne_bytes())?;
        }
        Ok(())
    }

    /// Gives the functions their own first instructions back. A sampler stays mapped, since a thread may be in it, and has
    /// nothing to do. Returns the number of blocks that it could not follow.
    ///
    /// # Errors
    ///
    /// Why they could not be given back; a process that has ended is none.
    pub(crate) fn undo(&self) -> Result<u64, String> {
        let has_any = |map: std::io::Result<MemoryMap>| {
            map.is_ok_and(|map| self.samplers.iter().any(|sampler| is_there(&map, sampler.at)))
        };
        // It has ended, or called exec; its number may be another's.
        if !has_any(MemoryMap::read(self.pid)) {
            return Ok(0);
        }
        if let Some(why) = refusal::reason(self.pid).filter(|why| why.contains("traces")) {
            return Err(why);
        }
        let process = StoppedProcess::stop(self.pid)?;
        let image = SamplerImage::of_this_build().ok_or("there is no sampler for this processor")?;
        for (at, function) in self.functions() {
            let mut now = [0; JUMP_BYTES];
            let wanted = jump(function.address, at + image.hook(function.number));
            // After exec, or dlclose, other code may be there.
            if process.read(function.address, &mut now).is_ok() && wanted == Some(now) {
                let written = process.write_code(function.address, &function.original);
                written.map_err(|error| error.to_string())?;
            }
        }
        let Ok(map) = process.map() else { return Ok(0) };
        let mut not_followed = 0;
        for sampler in self.samplers.iter().filter(|sampler| is_there(&map, sampler.at)) {
            let mut count = [0; 8];
            process
                .read(sampler.at + image::NOT_FOLLOWED_AT, &mut count)
                .map_err(|error| error.to_string())?;
            clear_set(&process, sampler.at).map_err(|error| error.to_string())?;
            not_followed += u64::from_ne_bytes(count);
        }
        Ok(not_followed)
    }
}

/// Whether a sampler is mapped at an address.
fn is_there(map: &MemoryMap, at: u64) -> bool {
    map.samplers().any(|range| range.start == at)
}

/// Why an attempt came to nothing.
enum Failed {
    /// Another one may do better.
    ForNow(String),
    ForGood(String),
}

impl From<String> for Failed {
    fn from(why: String) -> Self {
        Failed::ForGood(why)
    }
}

impl From<&str> for Failed {
    fn from(why: &str) -> Self {
        Failed::ForGood(why.to_owned())
    }
}

impl From<std::io::Error> for Failed {
    fn from(error: std::io::Error) -> Self {
        Failed::ForGood(io_words(&error))
    }
}

/// The functions in groups of those that one sampler can be near to, by address.
fn groups(functions: &[AllocatorFunction]) -> Vec<Vec<&AllocatorFunction>> {
    let mut sorted: Vec<&AllocatorFunction> = functions.iter().collect();
    sorted.sort_by_key(|function| function.address);
    let mut groups: Vec<Vec<&AllocatorFunction>> = Vec::new();
    for function in sorted {
        match groups.last_mut() {
            Some(group) if function.address - group[0].address <= GROUP_SPAN => group.push(function),
            _ => groups.push(vec![function]),
        }
    }
    groups
}

/// Gives each function that is in code of a file a hook of its kind, one for each address; with those that get none, and why.
fn with_hooks<'f>(
    functions: &[&'f AllocatorFunction],
    map: &MemoryMap,
) -> (Vec<(&'f AllocatorFunction, usize)>, Vec<String>) {
    let mut next: BTreeMap<FunctionKind, usize> = BTreeMap::new();
    let (mut wanted, mut skipped) = (Vec::<(&AllocatorFunction, usize)>::new(), Vec::new());
    for &function in functions {
        if wanted.iter().any(|(other, _)| other.address == function.address) {
            continue;
        }
        let is_code = map.at(function.address).is_some_and(|range| {
            let end = function.address + JUMP_BYTES as u64;
            range.is_executable && range.inode != 0 && end <= range.end
        });
        let used = next.entry(function.kind).or_default();
        let number = function.kind.hooks().nth(*used);
        // A jump that crosses pages might be written in part.
        let crosses = function.address % image::PAGE_BYTES > image::PAGE_BYTES - JUMP_BYTES as u64;
        match number {
            Some(number) if is_code && !crosses => {
                *used += 1;
                wanted.push((function, number));
            }
            _ if crosses => {
                skipped.push(format!("{}: its first instructions are in two pages", function.name))
            }
            _ if !is_code => skipped.push(format!("{}: it is not in code of a file", function.name)),
            _ => skipped.push(format!("{}: there are too many like it", function.name)),
        }
    }
    (wanted, skipped)
}

/// The sampler's file for these functions.
fn file_bytes(image: &SamplerImage, patched: &[PatchedFunction]) -> Vec<u8> {
    let mut bytes = image.bytes();
    for function in patched {
        let to = image.displaced(function.number) as usize;
        bytes[to..to + function.moved.bytes.len()].copy_from_slice(&function.moved.bytes);
        let note = to + image::DISPLACED_BYTES as usize;
        bytes[note..note + 8].copy_from_slice(&function.address.to_ne_bytes());
        bytes[note + 8..note + 8 + JUMP_BYTES].copy_from_slice(&function.original);
    }
    bytes
}

/// Has the process map the file of a sampler near the functions. Returns where its code is.
fn map_sampler(
    process: &mut StoppedProcess,
    Kit { image, examination }: &Kit<'_>,
    map: &MemoryMap,
    wanted: &[(&AllocatorFunction, usize)],
) -> Result<u64, Failed> {
    let addresses: Vec<u64> = wanted.iter().map(|(function, _)| function.address).collect();
    let at = map.place_near(&addresses, image::FILE_BYTES).ok_or("there is no room near its allocator")?;
    let zeros = [0; stub::MOST_BYTES];
    let is_free = |place: &u64| {
        let mut bytes = [1; stub::MOST_BYTES];
        process.read(*place, &mut bytes).is_ok() && bytes == zeros
    };
    // The end of code is filled up to a whole page.
    let places = map.code().map(|range| range.end - stub::MOST_BYTES as u64);
    let place = places.into_iter().find(is_free).ok_or("it has no room for code to map the sampler")?;
    let code_bytes = image.code_bytes();
    if let Some(why) = process.filters_refuse(&stub::system_calls(at, code_bytes), examination) {
        return Err(Failed::ForGood(why));
    }
    let results = process.run(place, |back| stub::code(at, code_bytes, back), stub::CALLS);
    process.write_code(place, &zeros)?;
    match results?[..] {
        [file, ..] if file < 0 => Err(call_error("memfd_create", file)),
        [_, size, ..] if size < 0 => Err(call_error("ftruncate", size)),
        [_, _, code, data, _] if code == at.cast_signed() && data == (at + image::DATA_AT).cast_signed() => {
            Ok(at)
        }
        [_, _, code, data, _] => Err(call_error("mmap", code.min(data))),
        _ => Err("its system calls did something else".into()),
    }
}

fn call_error(call: &str, result: i64) -> Failed {
    let error = std::io::Error::from_raw_os_error(i32::try_from(-result).unwrap_or(libc::EIO));
    Failed::ForGood(format!("{call} failed in it: {error}"))
}

/// Gives functions their own instructions back that a prof which was killed has left jumping to its sampler.
fn take_back(process: &StoppedProcess, image: &SamplerImage, map: &MemoryMap) -> Result<(), Failed> {
    for range in map.samplers() {
        for number in 0..image::HOOKS {
            let Some((address, original)) = left_jump(process, image, range.start, number) else { continue };
            process.write_code(address, &original)?;
        }
        clear_set(process, range.start)?;
    }
    Ok(())
}

/// The function that jumps to a hook, and the bytes in whose place the jump is, by the note next to its moved instructions.
fn left_jump(
    process: &StoppedProcess,
    image: &SamplerImage,
    at: u64,
    number: usize,
) -> Option<(u64, [u8; JUMP_BYTES])> {
    let mut note = [0; image::NOTE_BYTES];
    process.read(at + image.displaced(number) + image::DISPLACED_BYTES, &mut note).ok()?;
    let (address, original) = (note.first_chunk()?, note[8..].first_chunk()?);
    let address = u64::from_ne_bytes(*address);
    let mut now = [0; JUMP_BYTES];
    process.read(address, &mut now).ok()?;
    (jump(address, at + image.hook(number)) == Some(now)).then_some((address, *original))
}

/// Empties the set of blocks that are followed. Only what is in use of it is touched.
fn clear_set(process: &StoppedProcess, at: u64) -> std::io::Result<()> {
    let mut bits = vec![0; image::BITS_BYTES];
    process.read(at + image::BITS_AT, &mut bits)?;
    if bits.iter().all(|byte| *byte == 0) {
        return Ok(());
    }
    for (index, byte) in (0..).zip(&bits) {
        for bit in (0..8).filter(|bit| byte >> bit & 1 == 1) {
            let bucket = at + image::BUCKETS_AT + image::BUCKET_BYTES * (8 * index + bit);
            process.write_data(bucket, &[0; image::BUCKET_BYTES as usize])?;
        }
    }
    process.write_data(at + image::BITS_AT, &vec![0; image::BITS_BYTES])
}
