//! Kernel addresses as frames that do not tell where the kernel was loaded.

use crate::base::{pace, privilege};
use crate::profile::{FoundBy, Frame, FrameFlags, FrameId, FrameSpace, Module, ModuleKind, Tables};
use crate::symbols::KernelSymbols;
use rustc_hash::FxHashMap;
use std::fs::File;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// The kernel is loaded at a multiple of this (CONFIG_PHYSICAL_ALIGN): the bits below are the same at
/// every boot.
const LOAD_ALIGNMENT: u64 = 2 << 20;

/// Names of the kernel's addresses.
#[derive(Debug)]
enum KernelNameCache {
    Wanted(File),
    Loading(JoinHandle<Option<KernelSymbols>>),
    Loaded(Option<KernelSymbols>),
}

/// CPU time that reading the names takes.
#[derive(Debug, Default)]
struct LoadCost {
    /// The thread that reads them, while it does; else 0.
    tid: AtomicU64,
    /// CPU time that the thread has used in all once it is done, ns.
    used_ns: AtomicU64,
}

impl LoadCost {
    /// Time that a thread of this process has had on a CPU, ns, by its schedstat; 0 when it is gone.
    fn of_thread(tid: u64) -> u64 {
        let text = std::fs::read_to_string(format!("/proc/self/task/{tid}/schedstat")).unwrap_or_default();
        text.split(' ').next().and_then(|ns| ns.parse().ok()).unwrap_or(0)
    }

    /// Counts what `work` takes on this thread.
    fn count<T>(&self, work: impl FnOnce() -> T) -> T {
        let tid = rustix::thread::gettid().as_raw_nonzero().get() as u64;
        self.tid.store(tid, Ordering::Relaxed);
        let result = work();
        self.used_ns.store(Self::of_thread(tid), Ordering::Relaxed);
        self.tid.store(0, Ordering::Release);
        result
    }

    fn so_far(&self) -> u64 {
        match self.tid.load(Ordering::Acquire) {
            0 => self.used_ns.load(Ordering::Relaxed),
            tid => Self::of_thread(tid).max(self.used_ns.load(Ordering::Relaxed)),
        }
    }
}

/// Frames of kernel addresses.
#[derive(Debug)]
pub(crate) struct KernelFrames {
    names: KernelNameCache,
    cost: Arc<LoadCost>,
    frames: FxHashMap<(u64, bool), FrameId>,
    addresses: FxHashMap<FrameId, u64>,
}

/// Reads the kernel's symbols from the opened list, unless that was taken already.
fn load_from(list: &Mutex<Option<File>>) -> Option<KernelSymbols> {
    let list = list.lock().unwrap_or_else(PoisonError::into_inner).take()?;
    KernelSymbols::load_from(list).ok()
}

impl KernelFrames {
    /// Returns the frames of a recording with kernel frames, or without any.
    pub(crate) fn new(are_recorded: bool) -> Self {
        // Opened now: later this process may not have the right to see addresses.
        let list = if are_recorded { KernelSymbols::open().ok() } else { None };
        let names = list.map_or(KernelNameCache::Loaded(None), KernelNameCache::Wanted);
        KernelFrames {
            names,
            cost: Arc::default(),
            frames: FxHashMap::default(),
            addresses: FxHashMap::default(),
        }
    }

    /// Starts to read the kernel's symbols on another thread, if they will be needed. It takes a CPU for some time: not
    /// before the first samples are taken.
    pub(crate) fn start_loading(&mut self) {
        if let KernelNameCache::Wanted(_) = self.names
            && let KernelNameCache::Wanted(list) =
                std::mem::replace(&mut self.names, KernelNameCache::Loaded(None))
        {
            let cost = Arc::clone(&self.cost);
            let list = Arc::new(Mutex::new(Some(list)));
            let taken = Arc::clone(&list);
            let load = move || {
                pace::be_ordinary();
                privilege::keep_watching().ok()?;
                load_from(&taken)
            };
            let thread = std::thread::Builder::new().spawn(move || cost.count(load));
            self.names = match thread {
                Ok(thread) => KernelNameCache::Loading(thread),
                // There is no thread to be had, and it is read here.
                Err(_) => KernelNameCache::Loaded(load_from(&list)),
            };
        }
    }

    /// CPU time that reading the names has taken so far, ns: the same for the shortest recording and the longest.
    pub(crate) fn load_cost_ns(&self) -> u64 {
        self.cost.so_far()
    }

    /// The kernel's symbols; `None` when they are hidden (kernel.kptr_restrict) or not readable.
    pub(crate) fn symbols(&mut self) -> Option<&KernelSymbols> {
        self.start_loading();
        if let KernelNameCache::Loading(_) = self.names
            && let KernelNameCache::Loading(thread) =
                std::mem::replace(&mut self.names, KernelNameCache::Loaded(None))
        {
            self.names = KernelNameCache::Loaded(thread.join().ok().flatten());
        }
        match &self.names {
            KernelNameCache::Loaded(symbols) => symbols.as_ref(),
            KernelNameCache::Wanted(_) | KernelNameCache::Loading(_) => None,
        }
    }

    /// The frame of a kernel address; return addresses are those of callers.
    pub(crate) fn frame(&mut self, address: u64, is_return_address: bool, tables: &mut Tables) -> FrameId {
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
            ..FrameFlags::default()
        };
        let frame = tables.intern_frame(Frame { module, address: relative, flags });
        self.frames.insert((address, is_return_address), frame);
        self.addresses.insert(frame, lookup);
        frame
    }

    /// The frames of a tracepoint, without those of the kernel's functions that call programs there, which come first. Where
    /// names are hidden, all of them.
    pub(crate) fn before_tracing<'k>(&mut self, kernel: &'k [u64]) -> &'k [u64] {
        const TRACING: [&str; 4] = ["bpf_prog_", "bpf_trace_run", "__bpf_trace_", "__traceiter_"];
        let Some(symbols) = self.symbols() else { return kernel };
        let is_tracing = |address: &u64| {
            let name = symbols.lookup(address.saturating_sub(1)).map(|symbol| symbol.name);
            name.is_some_and(|name| TRACING.iter().any(|start| name.starts_with(start)))
        };
        &kernel[kernel.iter().take_while(|address| is_tracing(address)).count()..]
    }

    /// Forgets all frames but those that `kept` gives another number.
    pub(crate) fn forget_rows(&mut self, kept: &FxHashMap<FrameId, FrameId>) {
        self.frames = FxHashMap::default();
        let addresses = std::mem::take(&mut self.addresses);
        let kept = kept.iter().filter_map(|(old, new)| Some((*new, *addresses.get(old)?)));
        self.addresses = kept.collect();
    }

    /// The name of the function of a frame.
    pub(crate) fn name(&mut self, frame: FrameId) -> Option<String> {
        let address = *self.addresses.get(&frame)?;
        Some(self.symbols()?.lookup(address)?.name.to_owned())
    }
}
