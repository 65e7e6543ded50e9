//! A process whose allocator's functions jump to the sampler: from finding a place for it to the bytes as they were.

use super::examiner::Examiner;
use super::image::{self, SamplerImage};
use super::mapped_file::open_mapped;
use super::memory_map::MemoryMap;
use super::patched_function::{Kit, PatchedFunction, moved_to};
use super::prologue::{JUMP_BYTES, jump};
use super::stopped::{StoppedProcess, TakenCode, open_memory};
use super::{refusal, stub};
use crate::base::failure::io_words;
use crate::record::heap::functions::{AllocatorFunction, FunctionKind};
use crate::record::interpreters::process_memory::ProcessMemory;
use crate::record::process::written::write_memory;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::{Duration, Instant};

/// Number of attempts to find all threads outside of the instructions that are replaced, and the time between them.
const ATTEMPTS: usize = 50;
const PAUSE: Duration = Duration::from_millis(2);

/// The instruction int3.
const TRAP: u8 = 0xcc;
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
    /// The longest time for which the process was stopped.
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
        let mut stops = Stops { pid, longest: Duration::ZERO };
        let mut why = String::new();
        for _ in 0..ATTEMPTS {
            let kit = Kit { image: &image, examination: examiner.begin() };
            let patched = Patch::placed(&mut stops, &kit, functions)
                .and_then(|patch| patch.activate(&mut stops, &kit, mean));
            match patched {
                Ok(patch) => return Ok(Patch { stopped: stops.longest, ..patch }),
                Err(Failed::ForNow(reason)) => why = reason,
                Err(Failed::ForGood(reason)) => return Err(reason),
            }
            std::thread::sleep(PAUSE);
        }
        Err(why)
    }

    /// Has samplers in place for all functions, to which nothing jumps yet. The process goes on, but for where it maps one.
    fn placed(stops: &mut Stops, kit: &Kit<'_>, functions: &[AllocatorFunction]) -> Result<Self, Failed> {
        let (pid, memory) = (stops.pid, open_memory(stops.pid)?);
        let map = MemoryMap::read(pid)?;
        if map.samplers().any(|range| has_listeners(&memory, range.start)) {
            return Err("another recording samples its heap".into());
        }
        if map.samplers().any(|range| is_in_use(&memory, kit.image, range.start)) {
            stops.stop(|process| take_back(process, kit.image))?;
        }
        let mut patch = Patch { pid, samplers: Vec::new(), skipped: Vec::new(), stopped: Duration::ZERO };
        for near in groups(functions) {
            match patch.place(stops, kit, &memory, &near) {
                Ok(sampler) => patch.samplers.push(sampler),
                Err(Failed::ForGood(why)) => {
                    let names: Vec<&str> = near.iter().map(|function| function.name.as_str()).collect();
                    patch.skipped.push(format!("{}: {why}", names.join(", ")));
                }
                Err(for_now) => return Err(for_now),
            }
        }
        patch.samplers.retain(|sampler| !sampler.functions.is_empty());
        match patch.samplers.is_empty() {
            true => {
                let why = patch.skipped.first().map_or_else(String::new, |why| format!(": {why}"));
                Err(Failed::ForGood(format!("none of its allocator's functions can be patched{why}")))
            }
            false => Ok(patch),
        }
    }

    /// Finds, or has the process map, a sampler for functions that are near each other.
    fn place(
        &mut self,
        stops: &mut Stops,
        kit: &Kit<'_>,
        memory: &ProcessMemory,
        functions: &[&AllocatorFunction],
    ) -> Result<PlacedSampler, Failed> {
        let map = MemoryMap::read(self.pid)?;
        let (wanted, why) = with_hooks(functions, &map);
        self.skipped.extend(why);
        for at in map.samplers().map(|range| range.start) {
            let (patched, why) = moved_to(memory, kit, &wanted, at)?;
            if !patched.is_empty() && has_bytes(memory, at, &file_bytes(kit.image, &patched)) {
                let Ok(file) = stops.stop(|process| Ok(open_mapped(process, &map, at)?)) else { continue };
                self.skipped.extend(why);
                return Ok(PlacedSampler { at, functions: patched, file });
            }
        }
        let addresses: Vec<u64> = wanted.iter().map(|(function, _)| function.address).collect();
        let at =
            map.place_near(&addresses, image::MAPPED_BYTES).ok_or("there is no room near its allocator")?;
        let (patched, why) = moved_to(memory, kit, &wanted, at)?;
        let file = stops.stop(|process| map_sampler(process, kit, &map, at))?;
        file.write_all_at(&file_bytes(kit.image, &patched), 0)?;
        self.skipped.extend(why);
        Ok(PlacedSampler { at, functions: patched, file })
    }

    /// Writes the jumps, if all is as it was when it was looked at.
    fn activate(self, stops: &mut Stops, kit: &Kit<'_>, mean: u64) -> Result<Self, Failed> {
        let image = kit.image;
        let mut taken: Vec<TakenCode> = (self.functions())
            .map(|(at, function)| {
                let moved_at = at + image.displaced(function.number);
                let PatchedFunction { address, moved, .. } = function;
                let instructions = moved.offsets.iter();
                TakenCode {
                    range: *address..address + moved.length as u64,
                    instructions: instructions
                        .map(|(was, is)| (*was as u64, moved_at + *is as u64))
                        .collect(),
                }
            })
            .collect();
        taken.sort_by_key(|taken| taken.range.start);
        stops.stop(|process| {
            let (map, memory) = (process.map()?, process.memory());
            let is_as_it_was = self.samplers.iter().all(|PlacedSampler { at, functions, .. }| {
                let is_same = |function: &PatchedFunction| {
                    is_code(&map, function.address) && has_bytes(memory, function.address, &function.code)
                };
                is_there(&map, *at)
                    && has_bytes(memory, *at, &file_bytes(image, functions))
                    && functions.iter().all(is_same)
            });
            if !is_as_it_was {
                return Err(Failed::ForNow("what it has mapped changes all the time".to_owned()));
            }
            process.leave(&taken).map_err(Failed::ForNow)?;
            for sampler in &self.samplers {
                process.write_data(sampler.at + image::MEAN_AT, &mean.to_ne_bytes())?;
            }
            for (at, function) in self.functions() {
                let hook = at + image.hook(function.number);
                let jump = jump(function.address, hook).ok_or("the sampler is too far away")?;
                process.write_code(function.address, &jump)?;
            }
            Ok(())
        })?;
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
            write_memory(self.pid, sampler.at + image::MEAN_AT, &mean.max(1).to_ne_bytes())?;
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

/// The times for which a process is stopped.
#[derive(Debug)]
struct Stops {
    pid: u32,
    longest: Duration,
}

impl Stops {
    /// Does `work` while all threads of the process are stopped.
    fn stop<T>(&mut self, work: impl FnOnce(&mut StoppedProcess) -> Result<T, Failed>) -> Result<T, Failed> {
        let begun = Instant::now();
        let mut process = StoppedProcess::stop(self.pid)?;
        let done = match process.is_64_bit()? {
            true => work(&mut process),
            false => Err("it runs 32-bit code".into()),
        };
        drop(process);
        self.longest = self.longest.max(begun.elapsed());
        done
    }
}

/// Whether these bytes are at an address.
fn has_bytes(memory: &ProcessMemory, at: u64, bytes: &[u8]) -> bool {
    let mut there = vec![0; bytes.len()];
    memory.read_all(at, &mut there).is_ok() && there == bytes
}

/// Whether the bytes of a jump at an address are code of a file.
fn is_code(map: &MemoryMap, address: u64) -> bool {
    map.at(address).is_some_and(|range| {
        range.is_executable && range.inode != 0 && address + JUMP_BYTES as u64 <= range.end
    })
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
        let is_code = is_code(map, function.address);
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

/// Has the process map the file of a sampler at `at`, where there is room. Returns the file.
fn map_sampler(
    process: &mut StoppedProcess,
    Kit { image, examination }: &Kit<'_>,
    map: &MemoryMap,
    at: u64,
) -> Result<File, Failed> {
    // The end of code is filled up to a whole page: with zeros, and by some linkers with traps.
    let fillings = [[0; stub::MOST_BYTES], [TRAP; stub::MOST_BYTES]];
    let filling = |place: u64| fillings.iter().find(|bytes| has_bytes(process.memory(), place, &bytes[..]));
    let mut places = map.code().map(|range| range.end - stub::MOST_BYTES as u64);
    let place = places.find_map(|place| Some((place, filling(place)?)));
    let (place, filling) = place.ok_or("it has no room for code to map the sampler")?;
    let code_bytes = image.code_bytes();
    if let Some(why) = process.filters_refuse(&stub::system_calls(at, code_bytes), examination) {
        return Err(Failed::ForGood(why));
    }
    let results = process.run(place, |back| stub::code(at, code_bytes, back), stub::CALLS);
    // After an error the thread may still be there; what is left of it harms nothing.
    let results = results?;
    process.write_code(place, filling)?;
    match results[..] {
        [file, ..] if file < 0 => Err(call_error("memfd_create", file)),
        [_, size, ..] if size < 0 => Err(call_error("ftruncate", size)),
        [_, _, code, data, own, wiped, _]
            if wiped == 0
                && code == at.cast_signed()
                && data == (at + image::DATA_AT).cast_signed()
                && own == (at + image::OWN_DATA_AT).cast_signed() =>
        {
            Ok(open_mapped(process, &process.map()?, at)?)
        }
        // Something else has come there since its map was read.
        [_, _, code, data, own, ..] if code.min(data).min(own) == -i64::from(libc::EEXIST) => {
            Err(Failed::ForNow("there is no room near its allocator".to_owned()))
        }
        [_, _, code, data, own, ..] if code.min(data).min(own) < 0 => {
            Err(call_error("mmap", code.min(data).min(own)))
        }
        [_, _, _, _, _, wiped, _] if wiped < 0 => Err(call_error("madvise", wiped)),
        _ => Err("its system calls did something else".into()),
    }
}

fn call_error(call: &str, result: i64) -> Failed {
    let error = std::io::Error::from_raw_os_error(i32::try_from(-result).unwrap_or(libc::EIO));
    Failed::ForGood(format!("{call} failed in it: {error}"))
}

/// Whether someone listens to the probes of a sampler.
fn has_listeners(memory: &ProcessMemory, at: u64) -> bool {
    let mut count = [0; 2];
    memory.read_all(at + image::SEMAPHORE_AT, &mut count).is_ok() && count != [0; 2]
}

/// Whether functions jump to a sampler that a prof which was killed has left, or it follows blocks.
fn is_in_use(memory: &ProcessMemory, image: &SamplerImage, at: u64) -> bool {
    let is_empty = has_bytes(memory, at + image::BITS_AT, &[0; image::BITS_BYTES]);
    !is_empty || (0..image::HOOKS).any(|number| left_jump(memory, image, at, number).is_some())
}

/// Gives functions their own instructions back that a prof which was killed has left jumping to its sampler.
fn take_back(process: &StoppedProcess, image: &SamplerImage) -> Result<(), Failed> {
    for range in process.map()?.samplers() {
        for number in 0..image::HOOKS {
            let left = left_jump(process.memory(), image, range.start, number);
            let Some((address, original)) = left else { continue };
            process.write_code(address, &original)?;
        }
        clear_set(process, range.start)?;
    }
    Ok(())
}

/// The function that jumps to a hook, and the bytes in whose place the jump is, by the note next to its moved instructions.
fn left_jump(
    memory: &ProcessMemory,
    image: &SamplerImage,
    at: u64,
    number: usize,
) -> Option<(u64, [u8; JUMP_BYTES])> {
    let mut note = [0; image::NOTE_BYTES];
    memory.read_all(at + image.displaced(number) + image::DISPLACED_BYTES, &mut note).ok()?;
    let (address, original) = (note.first_chunk()?, note[8..].first_chunk()?);
    let address = u64::from_ne_bytes(*address);
    let mut now = [0; JUMP_BYTES];
    memory.read_all(address, &mut now).ok()?;
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
