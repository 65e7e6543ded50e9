//! Kernel addresses: where the kernel and its modules were loaded, and their symbols if the same kernel runs here at
//! the same address. Frames have addresses relative to the start of the kernel, as in recordings of `prof`.

use super::record::MmapRecord;
use crate::base::safe_text;
use crate::import::intake::cut_name;
use crate::import::module_kinds::{KERNEL, classify};
use crate::profile::{
    FoundBy, Frame, FrameFlags, FrameId, FrameSpace, Function, Location, Module, ModuleKind, Profile,
};
use crate::symbols::KernelSymbols;
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;
use std::fs::File;

/// Load alignment of the kernel: the address bits below are the same at every boot.
const LOAD_ALIGNMENT: u64 = 2 << 20;

/// perf's name for the kernel.
pub(super) const PERF_KERNEL: &[u8] = b"[kernel.kallsyms]";

/// A part of the kernel.
#[derive(Debug, Clone)]
struct KernelPart {
    end: u64,
    name: String,
    kind: ModuleKind,
}

/// The kernel of a file.
#[derive(Debug, Default)]
pub(super) struct PerfKernel {
    parts: BTreeMap<u64, KernelPart>,
    /// Start of its code.
    start: Option<u64>,
    list: Option<File>,
    symbols: Option<KernelSymbols>,
    are_symbols_loaded: bool,
    frames: FxHashMap<(u64, bool), FrameId>,
    release: String,
    build_id: Vec<u8>,
}

impl PerfKernel {
    /// A kernel whose symbols are looked up in `list`, an open `/proc/kallsyms`, if that is of the same kernel.
    pub(super) fn new(list: Option<File>) -> Self {
        PerfKernel { list, ..PerfKernel::default() }
    }

    /// Sets the release, and the build ID if known.
    pub(super) fn identify(&mut self, release: &str, build_id: &[u8]) {
        (self.release, self.build_id) = (release.to_owned(), build_id.to_vec());
    }

    pub(super) fn map(&mut self, record: &MmapRecord<'_>) {
        let path = safe_text::from_bytes(record.path);
        let (name, kind, _) = classify(&path);
        if record.path.starts_with(PERF_KERNEL) && record.start > 0 {
            self.start = Some(record.start);
        }
        let name = match kind {
            ModuleKind::KernelModule if !name.starts_with('[') => {
                let file = name.rsplit('/').next().unwrap_or(name);
                format!("[{}]", file.split(".ko").next().unwrap_or(file))
            }
            ModuleKind::KernelModule => name.to_owned(),
            _ => KERNEL.to_owned(),
        };
        let kind = if kind == ModuleKind::KernelModule { kind } else { ModuleKind::Kernel };
        let end = record.start.saturating_add(record.length);
        self.parts.insert(record.start, KernelPart { end, name, kind });
        self.frames.clear();
    }

    /// The frame for a kernel address.
    pub(super) fn frame(&mut self, profile: &mut Profile, address: u64, is_return_address: bool) -> FrameId {
        if let Some(frame) = self.frames.get(&(address, is_return_address)) {
            return *frame;
        }
        let part = self.parts.range(..=address).next_back().filter(|(_, part)| address < part.end);
        let (name, kind, relative) = match part {
            Some((start, part)) if part.kind == ModuleKind::KernelModule => {
                (part.name.as_str(), part.kind, address - start)
            }
            _ => {
                let relative =
                    self.start.map_or(address % LOAD_ALIGNMENT, |start| address.wrapping_sub(start));
                (KERNEL, ModuleKind::Kernel, relative)
            }
        };
        let path = profile.tables.intern_string(cut_name(name));
        let module = profile.tables.intern_module(Module { path, kind, ..Module::default() });
        let flags = FrameFlags {
            is_return_address,
            space: FrameSpace::Kernel,
            found_by: FoundBy::KernelWalk,
            ..FrameFlags::default()
        };
        let frame = profile.tables.intern_frame(Frame { module, address: relative, flags });
        self.frames.insert((address, is_return_address), frame);
        self.name(profile, frame, address - u64::from(is_return_address && address > 0));
        frame
    }

    fn name(&mut self, profile: &mut Profile, frame: FrameId, address: u64) {
        if !std::mem::replace(&mut self.are_symbols_loaded, true) {
            self.symbols = self.load();
        }
        let Some(symbol) = self.symbols.as_ref().and_then(|symbols| symbols.lookup(address)) else { return };
        let name = profile.tables.intern_string(cut_name(symbol.name));
        let function = profile.symbols.intern_function(Function { name, raw_name: name });
        profile.symbols.set_locations(frame, vec![Location { function, ..Location::default() }]);
    }

    /// Loads the symbols of the running kernel, if it is the one of the file.
    fn load(&mut self) -> Option<KernelSymbols> {
        let start = self.start?;
        let running = rustix::system::uname();
        if self.release.is_empty() || running.release().to_string_lossy() != self.release {
            return None;
        }
        let is_other = |running: Vec<u8>| !self.build_id.is_empty() && running != self.build_id;
        if running_build_id().is_some_and(is_other) {
            return None;
        }
        let symbols = KernelSymbols::load_from(self.list.take()?).ok()?;
        // perf records the address of `_text`, which may be slightly below `_stext`.
        let shift = symbols.stext()?.checked_sub(start)?;
        (shift < LOAD_ALIGNMENT / 2).then_some(symbols)
    }
}

/// Build ID of the running kernel.
fn running_build_id() -> Option<Vec<u8>> {
    const NOTE: &[u8] = b"\x04\0\0\0\x14\0\0\0\x03\0\0\0GNU\0";
    let notes = std::fs::read("/sys/kernel/notes").ok()?;
    let at = notes.windows(NOTE.len()).position(|window| window == NOTE)? + NOTE.len();
    notes.get(at..at + 20).map(<[u8]>::to_vec)
}
