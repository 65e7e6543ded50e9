//! Turns the addresses of a sample into frames.

use super::kernel::PerfKernel;
use super::module_files::MappedFiles;
use super::processes::AddressSpace;
use super::record::MISC_KERNEL;
use super::sorter::KeptSample;
use crate::profile::{FoundBy, Frame, FrameFlags, FrameId, FrameSpace, Module, Profile};

/// Start of the context markers in a callchain, which are not addresses.
const FIRST_MARK: u64 = -4095i64 as u64;
const MARK_KERNEL: u64 = -128i64 as u64;
const MARK_USER: u64 = -512i64 as u64;

/// Start of kernel addresses.
const FIRST_KERNEL_ADDRESS: u64 = 1 << 63;

/// An address of a stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct ChainAddress {
    pub(super) address: u64,
    pub(super) is_kernel: bool,
    pub(super) is_return_address: bool,
    pub(super) found_by: FoundBy,
}

impl ChainAddress {
    /// An address of a chain that the kernel has walked.
    fn walked(address: u64, is_kernel: bool, is_return_address: bool) -> Self {
        let found_by = if is_return_address { FoundBy::FramePointer } else { FoundBy::Leaf };
        ChainAddress { address, is_kernel, is_return_address, found_by }
    }
}

/// The addresses of a sample, leaf first. Without a callchain it is the instruction pointer.
pub(super) fn addresses(sample: &KeptSample, chain: &[u64], list: &mut Vec<ChainAddress>) {
    list.clear();
    let mut is_kernel = sample.mode == MISC_KERNEL;
    // The first address of each space is an instruction pointer; the others are return addresses.
    let (mut has_kernel, mut has_user) = (false, false);
    for &word in chain {
        if word >= FIRST_MARK {
            match word {
                MARK_KERNEL => is_kernel = true,
                MARK_USER => is_kernel = false,
                _ => {}
            }
            continue;
        }
        if word == 0 {
            continue;
        }
        let has = if is_kernel { &mut has_kernel } else { &mut has_user };
        let is_return_address = std::mem::replace(has, true);
        list.push(ChainAddress::walked(word, is_kernel, is_return_address));
    }
    if list.is_empty() && sample.ip > 0 {
        let is_kernel = is_kernel || sample.ip >= FIRST_KERNEL_ADDRESS;
        has_user = !is_kernel;
        list.push(ChainAddress::walked(sample.ip, is_kernel, false));
    }
    // The leaf of a user stack that was copied to be unwound later.
    if let Some(address) = sample.user_ip.filter(|address| !has_user && *address > 0) {
        list.push(ChainAddress::walked(address, false, false));
    }
}

/// The frame for an address of the process `pid`.
pub(super) fn frame(
    profile: &mut Profile,
    files: &mut MappedFiles,
    kernel: &mut PerfKernel,
    space: &mut AddressSpace,
    pid: u32,
    at: ChainAddress,
) -> FrameId {
    if at.is_kernel {
        return kernel.frame(profile, at.address, at.is_return_address);
    }
    let key = (at.address, at.is_return_address, at.found_by);
    if let Some(frame) = space.frames.get(&key) {
        return *frame;
    }
    // A call may be the last instruction of a mapping.
    let inside = at.address - u64::from(at.is_return_address);
    let (module, address) = match space.mapping(inside) {
        Some(mapping) => {
            let (module, address) = files.place(&mut profile.tables, pid, &mapping, inside);
            (module, address.wrapping_add(u64::from(at.is_return_address)))
        }
        None => (profile.tables.intern_module(Module::default()), at.address),
    };
    let flags = FrameFlags {
        is_return_address: at.is_return_address,
        space: FrameSpace::User,
        found_by: at.found_by,
        ..FrameFlags::default()
    };
    let frame = profile.tables.intern_frame(Frame { module, address, flags });
    space.frames.insert(key, frame);
    frame
}
