//! The search for the probes of a file: a worker looks them up, since names, notes and code of a file are foreign bytes.

use super::notes::{DeclaredProbe, declared};
use super::symbols::{FoundFunction, around, functions};
use crate::base::deadline::Deadline;
use crate::base::units::counted;
use crate::elf::{Architecture, ElfError, ElfImage, ElfLimits};
use crate::record::probes::instruction::{ChosenSite, SiteClass, SiteWish, choose};
use crate::record::probes::spec::{ProbePlace, ProbeSpec};
use crate::record::probes::weight::WeightPlace;
use crate::record::workers::{self, JobKind, JobUrgency, WorkerJob, WorkerLane};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::time::Duration;

/// Longest time for one file.
const LONGEST_READ: Duration = Duration::from_secs(20);
/// Most bytes of code of one function that are looked at.
const MAX_CODE_BYTES: u64 = 1 << 20;
/// Most places of one probe.
pub(in crate::record::probes) const MOST_SITES: usize = 64;
/// Longest text of an instruction, bytes.
const MAX_TEXT_BYTES: usize = 100;

/// What is looked for in a file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum WantedPlace {
    Function { name: String, offset: Option<u64> },
    Declared { provider: String, name: String },
}

/// A question to a worker.
#[derive(Debug, Serialize, Deserialize)]
pub(in crate::record::probes) struct SiteRequest {
    wanted: WantedPlace,
    /// Number of the argument that is the weight, from 1, and its size in bytes.
    argument: Option<(u32, u32)>,
}

impl SiteRequest {
    /// For the places of a declared probe, with an argument of it, from 1.
    pub(in crate::record::probes) fn of_declared(provider: &str, name: &str, argument: u32) -> Self {
        let wanted = WantedPlace::Declared { provider: provider.to_owned(), name: name.to_owned() };
        SiteRequest { wanted, argument: Some((argument, 8)) }
    }
}

/// A place that can be probed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::record::probes) struct Site {
    /// Place in the file, bytes.
    pub(in crate::record::probes) file_offset: u64,
    /// Place in the file of the counter that switches the probe on; 0: there is none.
    pub(in crate::record::probes) semaphore_offset: u64,
    /// Bytes from the start of the function, if that is known.
    pub(in crate::record::probes) function_offset: u64,
    pub(in crate::record::probes) class: SiteClass,
    /// Text of its instruction.
    pub(in crate::record::probes) text: String,
    /// Class and text of the instruction that was meant, if the probe was moved.
    pub(in crate::record::probes) instead_of: Option<(SiteClass, String)>,
    /// Where the weight of a hit is.
    pub(in crate::record::probes) weight: WeightPlace,
}

/// The places of a probe in a file, of which a worker has read what it takes.
///
/// # Errors
///
/// Why there is none, in words.
pub(in crate::record::probes) fn find(spec: &ProbeSpec, file: &Arc<File>) -> Result<Vec<Site>, String> {
    let wanted = match &spec.place {
        ProbePlace::Function { function, offset, .. } => {
            WantedPlace::Function { name: function.clone(), offset: *offset }
        }
        ProbePlace::Declared { provider, name, .. } => {
            WantedPlace::Declared { provider: provider.clone(), name: name.clone() }
        }
        ProbePlace::Tracepoint { .. } | ProbePlace::SystemCalls => return Ok(Vec::new()),
    };
    let argument = spec.weight.map(|weight| (weight.argument, if weight.is_half { 4 } else { 8 }));
    let request = SiteRequest { wanted, argument };
    ask(&request, file, |body| {
        if !workers::is_running() {
            return work_here(body, file);
        }
        let deadline = Deadline::after(LONGEST_READ, &Arc::default());
        let (kind, urgency) = (JobKind::Probes, JobUrgency::Ordinary);
        let job = WorkerJob { kind, urgency, part: 0, body, descriptors: &[file.as_fd()] };
        let answer =
            workers::take(WorkerLane::Slow, &deadline).and_then(|mut worker| worker.work(&job, &deadline));
        answer.map_err(|end| end.to_string())
    })
}

/// The places in a file, of which `answer` has read what it takes.
///
/// # Errors
///
/// Why there is none, in words.
pub(in crate::record::probes) fn ask(
    request: &SiteRequest,
    file: &File,
    answer: impl Fn(&[u8]) -> Result<Vec<u8>, String>,
) -> Result<Vec<Site>, String> {
    let body = postcard::to_stdvec(request).map_err(|error| error.to_string())?;
    let sites: Result<Vec<Site>, String> = postcard::from_bytes(&answer(&body)?)
        .map_err(|_| "the process that read it gave no answer".to_owned())?;
    let sites = sites?;
    let length = file.metadata().map_err(|error| error.to_string())?.len();
    let is_possible = |site: &Site| {
        site.file_offset < length && site.semaphore_offset < length && site.weight.is_possible()
    };
    if sites.is_empty() || sites.len() > MOST_SITES || !sites.iter().all(is_possible) {
        return Err("what was found is not possible".to_owned());
    }
    Ok(sites)
}

/// Looks for the places in this process, which has no workers.
pub(in crate::record::probes) fn work_here(body: &[u8], file: &File) -> Result<Vec<u8>, String> {
    let descriptor = file.as_fd().try_clone_to_owned().map_err(|error| error.to_string())?;
    Ok(work(body, vec![descriptor]))
}

/// Looks for the places in a worker.
pub(crate) fn work(body: &[u8], descriptors: Vec<OwnedFd>) -> Vec<u8> {
    let answer = match (postcard::from_bytes(body), descriptors.into_iter().next()) {
        (Ok(request), Some(file)) => sites_of(&request, &Arc::new(File::from(file))),
        _ => Err("the question was not understood".to_owned()),
    };
    postcard::to_stdvec(&answer).unwrap_or_default()
}

fn sites_of(request: &SiteRequest, file: &Arc<File>) -> Result<Vec<Site>, String> {
    let unread = |error: ElfError| format!("it cannot be read: {error}");
    let image = ElfImage::open_shared(file, &ElfLimits::default()).map_err(unread)?;
    if image.architecture() != Architecture::HOST {
        return Err("it is a program for another processor".to_owned());
    }
    sites_in(&image, request)
}

fn sites_in(image: &ElfImage, request: &SiteRequest) -> Result<Vec<Site>, String> {
    let sites = match &request.wanted {
        WantedPlace::Function { name, offset } => of_function(image, name, *offset, request.argument)?,
        WantedPlace::Declared { provider, name } => of_declared(image, provider, name, request.argument)?,
    };
    match sites.len() {
        0..=MOST_SITES => Ok(sites),
        count => Err(format!(
            "{} have this name there, more than {MOST_SITES}: name one by its whole name (nm shows it)",
            counted(count as u64, "place")
        )),
    }
}

fn of_function(
    image: &ElfImage,
    name: &str,
    offset: Option<u64>,
    argument: Option<(u32, u32)>,
) -> Result<Vec<Site>, String> {
    let known =
        functions(image, name).map_err(|error| format!("its symbol tables cannot be read: {error}"))?;
    // Next to it there may be an old version of the function, which hardly anything calls.
    if known.found.is_empty() || known.has_chosen {
        return Err(lack(name, &known));
    }
    let weight = argument.map_or(Ok(WeightPlace::default()), |(number, bytes)| {
        let register = register_of_argument(image.is_go(), number)?;
        // Half a register is an `int`, which may be negative.
        let is_signed = bytes == 4;
        Ok::<_, String>(WeightPlace { bytes, is_signed, ..WeightPlace::default() }.register(register))
    })?;
    if known.found.len() > MOST_SITES {
        let count = known.found.len();
        return Err(format!(
            "{count} functions have this name there: name one by its whole name (nm shows it)"
        ));
    }
    let sites = known.found.values().map(|function| {
        let wish = SiteWish {
            offset,
            register: weight.whole_register(),
            is_go: image.is_go(),
            is_whole: function.size > 0 && function.size <= MAX_CODE_BYTES,
        };
        site(image, function, &wish, weight, 0)
    });
    sites.collect()
}

/// Why there is no such function.
fn lack(name: &str, known: &super::symbols::FunctionSearch) -> String {
    if known.has_chosen {
        return format!(
            "`{name}` is chosen when a program starts, by what the processor can do (IFUNC): name the function that is chosen, \
             such as {name}_avx2 (perf or prof report show it)"
        );
    }
    if known.is_imported {
        return format!("it takes `{name}` from another file: name that one");
    }
    let similar = match known.similar.is_empty() {
        true => String::new(),
        false => format!("; it has {}", known.similar.join(", ")),
    };
    match known.has_all {
        true => format!("it has no function `{name}`{similar}"),
        false => format!("it exports no function `{name}`, and it is stripped: it names no others{similar}"),
    }
}

/// The DWARF number of the register that has an argument, from 1, where a function begins.
fn register_of_argument(is_go: bool, number: u32) -> Result<u32, String> {
    const C: &[u32] =
        if cfg!(target_arch = "aarch64") { &[0, 1, 2, 3, 4, 5, 6, 7] } else { &[5, 4, 1, 2, 8, 9] };
    const GO: &[u32] = if cfg!(target_arch = "aarch64") {
        &[0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
    } else {
        &[0, 3, 2, 5, 4, 8, 9, 10, 11]
    };
    let registers = if is_go { GO } else { C };
    registers.get(number as usize - 1).copied().ok_or_else(|| {
        format!("arg{number} is in memory: weights can be one of the first {} arguments", registers.len())
    })
}

fn of_declared(
    image: &ElfImage,
    provider: &str,
    name: &str,
    argument: Option<(u32, u32)>,
) -> Result<Vec<Site>, String> {
    let all = declared(image).map_err(|error| format!("its notes cannot be read: {error}"))?;
    let found: Vec<&DeclaredProbe> =
        all.iter().filter(|probe| probe.provider == provider && probe.name == name).collect();
    if found.is_empty() {
        return Err(no_declared(&all, provider, name));
    }
    if found.len() > MOST_SITES {
        return Err(format!("{provider}:{name} is at {} places, more than {MOST_SITES}", found.len()));
    }
    let place = |probe: &&DeclaredProbe| {
        let weight = match argument {
            None => WeightPlace::default(),
            Some((number, bytes)) => {
                let place = probe.argument(number)?;
                WeightPlace { bytes: place.bytes.min(bytes), ..place }
            }
        };
        let semaphore = match probe.semaphore {
            0 => 0,
            address => file_offset(image, address, false).ok_or("its semaphore is not in the file")?,
        };
        let known = around(image, probe.address).ok().flatten();
        let is_whole = known.as_ref().is_some_and(|function| function.size <= MAX_CODE_BYTES);
        let function =
            known.filter(|_| is_whole).unwrap_or(FoundFunction { address: probe.address, size: 0 });
        let offset = Some(probe.address - function.address);
        let wish = SiteWish { offset, register: weight.whole_register(), is_go: false, is_whole };
        site(image, &function, &wish, weight, semaphore)
    };
    found.iter().map(place).collect()
}

fn no_declared(all: &[DeclaredProbe], provider: &str, name: &str) -> String {
    if all.is_empty() {
        return "it declares no probes (it has no .note.stapsdt)".to_owned();
    }
    let mut names: Vec<String> =
        all.iter().map(|probe| format!("{}:{}", probe.provider, probe.name)).collect();
    names.sort();
    names.dedup();
    let count = names.len();
    names.truncate(5);
    let more = if count > names.len() { ", …" } else { "" };
    format!("it declares no probe {provider}:{name}; it has {}{more}", names.join(", "))
}

fn site(
    image: &ElfImage,
    function: &FoundFunction,
    wish: &SiteWish,
    weight: WeightPlace,
    semaphore_offset: u64,
) -> Result<Site, String> {
    let code = code_of(image, function)?;
    let ChosenSite { offset, class, mut text, instead_of } = choose(&code, wish)?;
    text.truncate(MAX_TEXT_BYTES);
    let file_offset = file_offset(image, function.address.wrapping_add(offset), true)
        .ok_or("it is not in code that the file holds")?;
    Ok(Site { file_offset, semaphore_offset, function_offset: offset, class, text, instead_of, weight })
}

/// The code of a function; of one whose size is not known, what comes after its start.
fn code_of(image: &ElfImage, function: &FoundFunction) -> Result<Vec<u8>, String> {
    let sizes = match function.size {
        0 => vec![4096, 256, 16],
        size => vec![size.min(MAX_CODE_BYTES)],
    };
    let read = sizes.into_iter().find_map(|size| image.read_address(function.address, size).ok());
    read.ok_or_else(|| "its code cannot be read".to_owned())
}

/// Where the file holds one of the module's own addresses.
fn file_offset(image: &ElfImage, address: u64, is_code: bool) -> Option<u64> {
    let segment = image.segments().iter().find(|segment| {
        segment.is_executable == is_code
            && address.checked_sub(segment.address).is_some_and(|inside| inside < segment.file_size)
    })?;
    let offset = (address - segment.address).checked_add(segment.file_offset)?;
    // A segment may claim more than there is.
    (offset < image.file_bytes()).then_some(offset)
}

/// Places in the bytes of a file of all probes that it declares, at most so many, and of a function of this name: for the fuzzer.
#[cfg(feature = "testing")]
pub(crate) fn file_offsets(bytes: Vec<u8>, limits: &ElfLimits, function: &str, most: usize) -> Vec<u64> {
    let Ok(image) = ElfImage::parse(bytes, limits) else { return Vec::new() };
    let declared = declared(&image).unwrap_or_default().into_iter().take(most);
    let declared = declared.map(|probe| WantedPlace::Declared { provider: probe.provider, name: probe.name });
    let function = WantedPlace::Function { name: function.to_owned(), offset: None };
    let requests = declared.chain([function]).map(|wanted| SiteRequest { wanted, argument: Some((1, 8)) });
    let sites = requests.filter_map(|request| sites_in(&image, &request).ok());
    sites.flatten().map(|site| site.file_offset).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn own() -> Arc<File> {
        Arc::new(File::open("/proc/self/exe").expect("it is there"))
    }

    fn libc() -> Arc<File> {
        let maps = std::fs::read_to_string("/proc/self/maps").expect("it is there");
        let path = maps.split_whitespace().find(|word| word.contains("/libc")).expect("a C library");
        Arc::new(File::open(path).expect("it is there"))
    }

    #[test]
    #[cfg(target_arch = "x86_64")]
    fn functions_of_the_c_library_have_places() {
        let find = |text: &str| find(&ProbeSpec::parse(text).expect(text), &libc());
        let sites = find("uprobe:libc:malloc/arg1").expect("it is there");
        assert!(!sites.is_empty() && sites[0].file_offset > 0);
        assert_eq!(sites[0].weight.whole_register(), Some(5));
        assert!(find("uprobe:libc:no_such").unwrap_err().contains("no function `no_such`"));
        assert!(find("uprobe:libc:malloc/arg7").unwrap_err().contains("in memory"));
        // Of glibc; musl has one for all processors.
        if let Err(why) = find("uprobe:libc:memcpy") {
            assert!(why.contains("IFUNC"), "{why}");
        }
        assert!(find("usdt:libc:no:such").is_err());
    }

    #[test]
    fn a_question_that_is_none_has_an_answer() {
        let answer: Result<Vec<Site>, String> =
            postcard::from_bytes(&work(&[7; 9], Vec::new())).expect("one");
        assert!(answer.is_err());
        let spec = ProbeSpec::parse("uprobe:x:main").expect("it is one");
        assert!(find(&spec, &own()).is_ok());
        let text = Arc::new(File::open("/proc/self/maps").expect("it is there"));
        assert!(find(&spec, &text).unwrap_err().contains("cannot be read"));
    }
}
