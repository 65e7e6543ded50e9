//! The programs of sampled blocks of memory: room for what they send, and the probes that they run at.

use super::perf_event;
use crate::bpf::{OpenProfSkel, ProfSkel, prof_block_place};
use libbpf_rs::{MapCore, MapFlags, libbpf_sys};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

/// Room for sampled blocks, bytes: some 30,000.
const BLOCK_RING_BYTES: u32 = 8 << 20;
/// Room for copies of their stacks, bytes: some 120.
const BLOCK_RESCUE_RING_BYTES: u32 = 8 << 20;

/// Makes room for sampled blocks, which may take this share of a CPU (ppm; 0: no limit), and for copies of their stacks unless waits
/// have theirs in the same ring; where blocks are not sampled, none of the programs for them is loaded.
pub(super) fn configure_blocks(
    open: &mut OpenProfSkel<'_>,
    overhead_ppm: Option<u32>,
    has_copies: bool,
) -> libbpf_rs::Result<()> {
    open.progs.on_block_allocated.set_autoload(overhead_ppm.is_some());
    open.progs.on_block_freed.set_autoload(overhead_ppm.is_some());
    let Some(overhead_ppm) = overhead_ppm else { return Ok(()) };
    open.maps.blocks.set_max_entries(BLOCK_RING_BYTES)?;
    if has_copies {
        open.maps.wait_rescue_ring.set_max_entries(BLOCK_RESCUE_RING_BYTES)?;
    }
    if let Some(rodata) = open.maps.rodata_data.as_deref_mut() {
        rodata.block_wake_bytes = BLOCK_RING_BYTES / 4;
        rodata.block_overhead_ppm = overhead_ppm;
    }
    Ok(())
}

/// The programs of blocks, at the probes that they run at.
#[derive(Debug, Default)]
pub(crate) struct BlockPrograms {
    /// In the order of their attachment.
    links: Vec<BlockLink>,
}

/// A program that runs at a probe, until this is dropped.
#[derive(Debug)]
struct BlockLink {
    _link: OwnedFd,
    _event: OwnedFd,
}

impl BlockPrograms {
    /// Has the program of blocks that begin, or end, run at the probe of an event; `place` is where a program says itself which blocks it
    /// samples, with the number of that place.
    ///
    /// Takes no rights: the event is open.
    ///
    /// # Errors
    ///
    /// As of attaching it.
    pub(crate) fn attach(
        &mut self,
        skeleton: &ProfSkel<'_>,
        is_end: bool,
        event: OwnedFd,
        place: Option<(u32, &prof_block_place)>,
    ) -> anyhow::Result<()> {
        let program = match is_end {
            true => &skeleton.progs.on_block_freed,
            false => &skeleton.progs.on_block_allocated,
        };
        // None at the probes of prof's own sampler.
        let mut cookie = 0;
        if let Some((number, place)) = place {
            let places = &skeleton.maps.block_places;
            places.update(&number.to_ne_bytes(), bytes_of(place), MapFlags::ANY)?;
            cookie = u64::from(number) + 1;
        }
        let link = link_to(program.as_fd(), event.as_fd(), cookie)?;
        perf_event::enable(&event)?;
        self.links.push(BlockLink { _link: link, _event: event });
        Ok(())
    }

    /// Has none of them run any more: ends last, since a block whose end is missed looks as if it were live.
    pub(super) fn stop(&mut self) {
        self.links.drain(..).rev().for_each(drop);
    }
}

/// Links a program to the event of a probe. libbpf tries first whether the kernel can do so, which takes rights that the recorder has
/// given up by the time a command stands at its entry point.
fn link_to(program: BorrowedFd<'_>, event: BorrowedFd<'_>, cookie: u64) -> io::Result<OwnedFd> {
    let mut options = libbpf_sys::bpf_link_create_opts {
        sz: size_of::<libbpf_sys::bpf_link_create_opts>() as libbpf_sys::size_t,
        ..Default::default()
    };
    options.__bindgen_anon_1.perf_event.bpf_cookie = cookie;
    let (program, event) = (program.as_raw_fd(), event.as_raw_fd());
    // SAFETY: both descriptors are open, and the options are a structure whose `sz` is its size.
    let link = unsafe {
        libbpf_sys::bpf_link_create(program, event, libbpf_sys::BPF_PERF_EVENT, &raw const options)
    };
    if link < 0 {
        return Err(io::Error::from_raw_os_error(-link));
    }
    // SAFETY: the call just returned this descriptor, which no one else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(link) })
}

fn bytes_of(place: &prof_block_place) -> &[u8] {
    // SAFETY: prof_block_place is made of integers without padding (its size is asserted), and is borrowed for as long as its bytes.
    unsafe {
        std::slice::from_raw_parts(std::ptr::from_ref(place).cast::<u8>(), size_of::<prof_block_place>())
    }
}
