//! Allocators of a process: their functions, by the symbol tables of its files, and whether they sample blocks themselves. Workers read
//! the files.

use super::functions::{AllocatorFunction, FunctionKind};
use super::inject::image::SamplerImage;
use crate::base::deadline::Deadline;
use crate::elf::ElfImage;
use crate::record::modules::{ModuleFile, ModuleFiles};
use crate::record::probes::allocator_probes;
use crate::record::process::mappings::Process;
use crate::record::workers::{self, JobKind, JobUrgency, WorkerJob};
use crate::unwind::Limits;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Time for the symbol tables of one file.
const PATIENCE: Duration = Duration::from_secs(5);
/// Most functions of one file: more are not those of an allocator.
const MOST_FUNCTIONS: usize = 64;

/// What a file has that allocates.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FoundAllocator {
    /// Path of the file. Foreign text.
    pub(super) path: String,
    /// An address of its code in the process.
    pub(super) code_at: u64,
    /// It says by probes which blocks it samples.
    pub(super) samples_itself: bool,
    /// Functions of its allocator, with process addresses.
    pub(super) functions: Vec<AllocatorFunction>,
}

/// What a worker says of a file.
#[derive(Debug, Default, Serialize, Deserialize)]
struct FileAllocator {
    samples_itself: bool,
    /// With addresses in the file.
    functions: Vec<AllocatorFunction>,
}

/// The allocators of a process; only those that sample blocks themselves, if there are some: a block would count twice. `None` where its
/// files could not be read in time, and none of the others has one: that may be otherwise a moment later.
pub(super) fn find(process: &Process, files: &ModuleFiles) -> Option<Vec<FoundAllocator>> {
    let mut seen = Vec::new();
    let mut found = Vec::new();
    let mut is_whole = !process.mappings().is_empty();
    for mapped in process.mappings() {
        if seen.contains(&(mapped.file, mapped.bias)) {
            continue;
        }
        seen.push((mapped.file, mapped.bias));
        if files.is_generated(mapped.file) || mapped.file == ModuleFiles::GENERATED {
            continue;
        }
        let file = files.get(mapped.file);
        // A sampler that is left of an earlier recording has such probes, too.
        if SamplerImage::is_mapped_as(&file.path) {
            continue;
        }
        let Some(FileAllocator { samples_itself, mut functions }) = allocator_of(file) else {
            is_whole = false;
            continue;
        };
        for function in &mut functions {
            function.address = function.address.wrapping_add(mapped.bias);
            if function.stand_in != 0 {
                function.stand_in = function.stand_in.wrapping_add(mapped.bias);
            }
        }
        // A static program that frees nothing has no function for that.
        let allocates = |kind| matches!(kind, FunctionKind::Malloc | FunctionKind::AlignedMalloc);
        if samples_itself || functions.iter().any(|function| allocates(function.kind)) {
            let (path, code_at) = (file.path.clone(), mapped.start);
            found.push(FoundAllocator { path, code_at, samples_itself, functions });
        }
    }
    if found.iter().any(|found| found.samples_itself) {
        found.retain(|found| found.samples_itself);
    }
    (is_whole || !found.is_empty()).then_some(found)
}

/// Has a worker read the symbol tables of a file; `None` where the file is not open, or the worker does not come back.
fn allocator_of(module: &ModuleFile) -> Option<FileAllocator> {
    if module.vdso.is_some() {
        return Some(FileAllocator::default());
    }
    let file = module.file.as_ref()?;
    if !workers::is_running() {
        return Some(read(Arc::clone(file)));
    }
    let deadline = Deadline::after(PATIENCE, &Arc::default());
    let descriptors = [file.as_fd()];
    let job = WorkerJob {
        kind: JobKind::Allocators,
        urgency: JobUrgency::Ordinary,
        part: 0,
        body: module.path.as_bytes(),
        descriptors: &descriptors,
    };
    let answer =
        workers::take(module.reader_lane(), &deadline).and_then(|mut worker| worker.work(&job, &deadline));
    answer.ok().and_then(|answer| postcard::from_bytes(&answer).ok())
}

/// Reads symbol tables in a worker.
pub(crate) fn work(descriptors: Vec<OwnedFd>) -> Vec<u8> {
    let file = descriptors.into_iter().next().map(|file| Arc::new(File::from(file)));
    file.and_then(|file| postcard::to_stdvec(&read(file)).ok()).unwrap_or_default()
}

fn read(file: Arc<File>) -> FileAllocator {
    let Ok(image) = ElfImage::open_shared(&file, &Limits::default().elf) else {
        return FileAllocator::default();
    };
    FileAllocator { samples_itself: allocator_probes::are_declared(&image), functions: functions_of(&image) }
}

fn functions_of(image: &ElfImage) -> Vec<AllocatorFunction> {
    let code: Vec<_> =
        image.sections().iter().filter(|section| section.is_code()).map(|code| code.range()).collect();
    let mut functions: Vec<AllocatorFunction> = Vec::new();
    for table in [b".dynsym".as_slice(), b".symtab"] {
        // A file without that table has the other one.
        let _ = image.visit_symbols(table, |name, symbol| {
            let Some(kind) = FunctionKind::of_name(name) else { return };
            let (address, size) = (symbol.address, symbol.size);
            let function = AllocatorFunction { kind, name: name.to_owned(), address, size, stand_in: 0 };
            if let Some(known) = functions.iter_mut().find(|known| known.address == address) {
                // An operator that is `malloc` under another name does not throw.
                if known.kind.stand_in().is_some() && kind.stand_in().is_none() {
                    *known = function;
                }
                return;
            }
            let is_code = code.iter().any(|range| range.contains(&address));
            if is_code && functions.len() < MOST_FUNCTIONS {
                functions.push(function);
            }
        });
    }
    functions.sort_by_key(|function| function.address);
    for index in 0..functions.len() {
        let Some(kind) = functions[index].kind.stand_in() else { continue };
        let stand_in = functions.iter().find(|function| function.kind == kind);
        functions[index].stand_in = stand_in.map_or(0, |function| function.address);
    }
    functions
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_allocator_of_the_c_library_is_found_in_its_file() {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("it is there");
        let path = maps.lines().find_map(|line| {
            Some(line.get(line.find('/')?..)?.to_owned()).filter(|path| path.contains("/libc.so"))
        });
        let Some(path) = path else { return println!("skipped: this program has no C library of its own") };
        let FileAllocator { samples_itself, functions } =
            read(Arc::new(File::open(path).expect("it can be opened")));
        assert!(!samples_itself, "the probes of glibc are others");
        for kind in [FunctionKind::Malloc, FunctionKind::Free, FunctionKind::Realloc, FunctionKind::Calloc] {
            assert!(functions.iter().any(|function| function.kind == kind), "{kind:?} of {functions:?}");
        }
        assert!(functions.windows(2).all(|pair| pair[0].address < pair[1].address));
    }
}
