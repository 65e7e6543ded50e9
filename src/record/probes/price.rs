//! What a hit of a probe costs on this machine, measured: the kernel's part of it, before any program runs. A virtual machine may
//! take ten times as long as the metal below it.

use super::instruction::SiteClass;
use perf_event_open_sys::bindings::perf_event_attr;
use rustix::fs::MemfdFlags;
use rustix::mm::{MapFlags, ProtFlags, mmap, munmap};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::io::{self, Write};
use std::os::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use std::time::Instant;

/// Calls that are timed together, and how often: the fastest round counts.
const CALLS: u32 = 100;
const ROUNDS: u32 = 5;
const PAGE_BYTES: usize = 4096;

/// Prices of hits that were measured so far, ns; `None` where that was not possible.
#[derive(Debug, Default)]
pub(super) struct Prices {
    known: BTreeMap<SiteClass, Option<u64>>,
}

impl Prices {
    /// What a hit at an instruction of this class costs about, where that cannot be measured: by docs/performance.md, ns.
    pub(super) fn usual(class: SiteClass) -> u64 {
        match class {
            SiteClass::Emulated => 450,
            SiteClass::LongNop | SiteClass::Stepped | SiteClass::Unknown => 15_000,
        }
    }

    /// What a hit at an instruction of this class costs, ns.
    pub(super) fn of(&mut self, class: SiteClass) -> Option<u64> {
        *self.known.entry(class).or_insert_with(|| code(class).and_then(|code| measure(code).ok()))
    }
}

/// What a hit of a probe costs on this machine where its instruction is emulated, and where it is single-stepped, ns; `None` where
/// nothing can be probed.
pub(crate) fn hit_prices() -> Option<(u64, u64)> {
    let mut prices = Prices::default();
    Some((prices.of(SiteClass::Emulated)?, prices.of(SiteClass::Stepped)?))
}

/// What the shortest system call takes now, ns: of the fastest of some rounds.
pub(super) fn system_call_ns() -> u64 {
    let round = || {
        let start = Instant::now();
        for _ in 0..CALLS {
            // SAFETY: the call takes and changes nothing.
            unsafe { libc::syscall(libc::SYS_getppid) };
        }
        start.elapsed().as_nanos() as u64 / u64::from(CALLS)
    };
    (0..ROUNDS).map(|_| round()).min().unwrap_or(0)
}

/// A function whose first instruction is of a class.
fn code(class: SiteClass) -> Option<&'static [u8]> {
    match class {
        _ if cfg!(not(target_arch = "x86_64")) => None,
        SiteClass::Emulated => Some(&[0x90, 0xc3]),
        SiteClass::LongNop => Some(&[0x0f, 0x1f, 0x80, 0, 0, 0, 0, 0xc3]),
        SiteClass::Stepped => Some(&[0x89, 0xc0, 0xc3]),
        SiteClass::Unknown => None,
    }
}

/// Times calls of a function of this process that is probed, without a program.
fn measure(code: &[u8]) -> io::Result<u64> {
    let memory = rustix::fs::memfd_create(c"prof-probe-price", MemfdFlags::CLOEXEC)?;
    let mut file = std::fs::File::from(memory);
    file.write_all(code)?;
    file.set_len(PAGE_BYTES as u64)?;
    let page = CodePage::map(&file)?;
    let plain_ns = page.call_ns();
    let _probe = probe(&file)?;
    page.call_ns();
    Ok(page.call_ns().saturating_sub(plain_ns))
}

/// Probes the first byte of a file in this process.
fn probe(file: &std::fs::File) -> io::Result<OwnedFd> {
    let kind = std::fs::read_to_string("/sys/bus/event_source/devices/uprobe/type")?;
    let path = CString::new(format!("/proc/self/fd/{}", file.as_raw_fd()))?;
    let mut attr = perf_event_attr { size: size_of::<perf_event_attr>() as u32, ..Default::default() };
    attr.type_ = kind.trim().parse().map_err(io::Error::other)?;
    // `uprobe_path` and `probe_offset` of perf_event_attr(2).
    attr.__bindgen_anon_3.config1 = path.as_ptr() as u64;
    attr.__bindgen_anon_4.config2 = 0;
    // SAFETY: `attr` is a valid structure whose `size` field is its size, and the path that it points to outlives the call.
    let event = unsafe { perf_event_open_sys::perf_event_open(&raw mut attr, 0, -1, -1, 8) };
    if event < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call just returned this descriptor, which no one else owns.
    Ok(unsafe { OwnedFd::from_raw_fd(event) })
}

/// A page of code that is mapped in this process.
struct CodePage(*mut core::ffi::c_void);

impl CodePage {
    fn map(file: &std::fs::File) -> io::Result<Self> {
        let access = ProtFlags::READ | ProtFlags::EXEC;
        // SAFETY: a new private mapping at an address of the kernel's choice aliases nothing.
        let page =
            unsafe { mmap(std::ptr::null_mut(), PAGE_BYTES, access, MapFlags::PRIVATE, file.as_fd(), 0) }?;
        Ok(CodePage(page))
    }

    /// What a call of the function takes, ns.
    fn call_ns(&self) -> u64 {
        // SAFETY: the page begins with a function of this file that changes nothing but a register which calls may change, and
        // returns.
        let function: extern "C" fn() = unsafe { std::mem::transmute(self.0) };
        let round = || {
            let start = Instant::now();
            for _ in 0..CALLS {
                function();
            }
            start.elapsed().as_nanos() as u64 / u64::from(CALLS)
        };
        (0..ROUNDS).map(|_| round()).min().unwrap_or(0)
    }
}

impl Drop for CodePage {
    fn drop(&mut self) {
        // SAFETY: this is the mapping made in `map`, and no reference into it outlives `self`.
        let _ = unsafe { munmap(self.0, PAGE_BYTES) };
    }
}

#[cfg(all(test, target_arch = "x86_64"))]
mod tests {
    use super::*;

    #[test]
    fn single_steps_cost_more_than_emulation() {
        let mut prices = Prices::default();
        // Without the right to probe there is no price.
        let (Some(emulated), Some(stepped)) = (prices.of(SiteClass::Emulated), prices.of(SiteClass::Stepped))
        else {
            return;
        };
        assert!(emulated > 20 && emulated < stepped, "{emulated} and {stepped} ns");
        assert_eq!(prices.of(SiteClass::Unknown), None);
    }
}
