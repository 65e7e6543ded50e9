//! Probes by which an allocator says itself which blocks it samples: `otel_memory:alloc(block, size, weight)` and
//! `otel_memory:free(block)`, a convention of OpenTelemetry ("Memory profiling", design document 00003 of its eBPF profiler).

use super::price::Prices;
use super::site::notes;
use super::site::search::{self, Site, SiteRequest};
use super::weight::WeightPlace;
use crate::base::deadline::Deadline;
use crate::bpf::prof_block_place;
use crate::elf::ElfImage;
use crate::record::workers::{JobKind, JobUrgency, LentWorker, WorkerJob};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::time::Duration;

/// The provider, and the names of its two probes.
const PROVIDER: &str = "otel_memory";
const BEGIN: &str = "alloc";
const END: &str = "free";
/// Longest time for a question about one file.
const PATIENCE: Duration = Duration::from_secs(2);

/// A place at which a program says that it has sampled a block, or that such a block is freed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct AllocatorProbe {
    pub(crate) is_end: bool,
    /// In the file, bytes.
    pub(crate) offset: u64,
    /// Of the counter that switches it on, in the file; 0: it is always on.
    pub(crate) semaphore_offset: u64,
    class: super::instruction::SiteClass,
    address: WeightPlace,
    size: WeightPlace,
    weight: WeightPlace,
}

/// Whether a file has such probes.
pub(crate) fn are_declared(image: &ElfImage) -> bool {
    let declared = notes::declared(image).unwrap_or_default();
    let has = |name: &str| declared.iter().any(|probe| probe.provider == PROVIDER && probe.name == name);
    has(BEGIN) && has(END)
}

/// The places of a file, ends first, of which `worker` reads what it takes, or this process where there is none.
///
/// # Errors
///
/// Why they cannot be used, in words.
pub(crate) fn find(file: &Arc<File>, worker: Option<&LentWorker>) -> Result<Vec<AllocatorProbe>, String> {
    let ask = |body: &[u8]| match worker {
        Some(worker) => {
            let deadline = Deadline::after(PATIENCE, &Arc::default());
            let (kind, urgency) = (JobKind::Probes, JobUrgency::First);
            let job = WorkerJob { kind, urgency, part: 0, body, descriptors: &[file.as_fd()] };
            worker.work(&job, &deadline).map_err(|end| format!("its probes could not be read: {end}"))
        }
        None => search::work_here(body, file),
    };
    let sites = |name, argument| search::ask(&SiteRequest::of_declared(PROVIDER, name, argument), file, ask);
    let addresses = sites(BEGIN, 1)?;
    let (sizes, weights) = (sites(BEGIN, 2)?, sites(BEGIN, 3)?);
    if sizes.len() != addresses.len() || weights.len() != addresses.len() {
        return Err("what was found is not possible".to_owned());
    }
    let end = |site: Site| AllocatorProbe::new(true, &site, [site.weight; 3]);
    let mut places: Vec<AllocatorProbe> = sites(END, 1)?.into_iter().map(end).collect();
    for ((address, size), weight) in addresses.into_iter().zip(sizes).zip(weights) {
        if size.file_offset != address.file_offset || weight.file_offset != address.file_offset {
            return Err("its arguments cannot be read at one instruction".to_owned());
        }
        places.push(AllocatorProbe::new(false, &address, [address.weight, size.weight, weight.weight]));
    }
    Ok(places)
}

impl AllocatorProbe {
    fn new(is_end: bool, site: &Site, [address, size, weight]: [WeightPlace; 3]) -> Self {
        let Site { file_offset: offset, semaphore_offset, class, .. } = *site;
        AllocatorProbe { is_end, offset, semaphore_offset, class, address, size, weight }
    }

    /// As the programs have it. Who asks may open no probe any more that could be measured.
    pub(crate) fn for_kernel(&self) -> prof_block_place {
        let hit_ns = Prices::usual(self.class);
        let place = |place: &WeightPlace| place.for_kernel(0, hit_ns);
        prof_block_place {
            address: place(&self.address),
            size: place(&self.size),
            weight: place(&self.weight),
        }
    }
}
