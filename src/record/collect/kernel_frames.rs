//! Kernel addresses as frames that do not tell where the kernel was loaded.

use crate::base::privilege;
use crate::profile::{FoundBy, Frame, FrameFlags, FrameId, FrameSpace, Module, ModuleKind, Tables};
use crate::symbols::KernelSymbols;
use rustc_hash::FxHashMap;
use std::thread::JoinHandle;

/// The kernel is loaded at a multiple of this (CONFIG_PHYSICAL_ALIGN): the bits below are the same at
/// every boot.
const LOAD_ALIGNMENT: u64 = 2 << 20;

/// Names of the kernel's addresses.
#[derive(Debug)]
enum Names {
    Wanted,
    Loading(JoinHandle<Option<KernelSymbols>>),
    Loaded(Option<KernelSymbols>),
}

/// Frames of kernel addresses.
#[derive(Debug)]
pub struct KernelFrames {
    names: Names,
    frames: FxHashMap<(u64, bool), FrameId>,
    addresses: FxHashMap<FrameId, u64>,
}

impl KernelFrames {
    /// For a recording with kernel frames, or without any.
    pub fn new(are_recorded: bool) -> Self {
        let names = if are_recorded { Names::Wanted } else { Names::Loaded(None) };
        KernelFrames { names, frames: FxHashMap::default(), addresses: FxHashMap::default() }
    }

    /// Starts to read the kernel's symbols on another thread, if they will be needed. It takes a CPU for some time: not
    /// before the first samples are taken.
    pub fn start_loading(&mut self) {
        if let Names::Wanted = self.names {
            self.names = Names::Loading(std::thread::spawn(|| {
                let list = KernelSymbols::open().ok()?;
                privilege::keep_watching().ok()?;
                KernelSymbols::load_from(list).ok()
            }));
        }
    }

    /// The kernel's symbols; `None` when they are hidden (kernel.kptr_restrict) or not readable.
    pub fn symbols(&mut self) -> Option<&KernelSymbols> {
        self.start_loading();
        if let Names::Loading(_) = self.names
            && let Names::Loading(thread) = std::mem::replace(&mut self.names, Names::Loaded(None))
        {
            self.names = Names::Loaded(thread.join().ok().flatten());
        }
        match &self.names {
            Names::Loaded(symbols) => symbols.as_ref(),
            Names::Wanted | Names::Loading(_) => None,
        }
    }

    /// The frame of a kernel address; return addresses are those of callers.
    pub fn frame(&mut self, address: u64, is_return_address: bool, tables: &mut Tables) -> FrameId {
        if let Some(&frame) = self.frames.get(&(address, is_return_address)) {
            return frame;
        }
        let lookup = address.saturating_sub(u64::from(is_return_address));
        let (name, kind, relative) = match self.symbols() {
            Some(symbols) => {
                let module = symbols.lookup(lookup).and_then(|symbol| symbol.module);
                match module {
                    Some(name) => {
                        let base = symbols.module_start(name).unwrap_or(0);
                        (name.to_owned(), ModuleKind::KernelModule, address.wrapping_sub(base))
                    }
                    None => {
                        let base = symbols.stext().unwrap_or(0);
                        ("[kernel]".to_owned(), ModuleKind::Kernel, address.wrapping_sub(base))
                    }
                }
            }
            None => ("[kernel]".to_owned(), ModuleKind::Kernel, address % LOAD_ALIGNMENT),
        };
        let path = tables.intern_string(&name);
        let module = tables.intern_module(Module { path, kind, ..Module::default() });
        let flags = FrameFlags {
            is_return_address,
            space: FrameSpace::Kernel,
            found_by: if is_return_address { FoundBy::KernelWalk } else { FoundBy::Leaf },
        };
        let frame = tables.intern_frame(Frame { module, address: relative, flags });
        self.frames.insert((address, is_return_address), frame);
        self.addresses.insert(frame, lookup);
        frame
    }

    /// Forgets all frames but those that `kept` gives another number.
    pub(crate) fn forget_rows(&mut self, kept: &FxHashMap<FrameId, FrameId>) {
        self.frames = FxHashMap::default();
        let addresses = std::mem::take(&mut self.addresses);
        let kept = kept.iter().filter_map(|(old, new)| Some((*new, *addresses.get(old)?)));
        self.addresses = kept.collect();
    }

    /// The name of the function that a frame stands for.
    pub(crate) fn name(&mut self, frame: FrameId) -> Option<String> {
        let address = *self.addresses.get(&frame)?;
        Some(self.symbols()?.lookup(address)?.name.to_owned())
    }
}
