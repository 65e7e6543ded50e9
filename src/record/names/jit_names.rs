//! Names of generated code from the jitdump of its process, by the time of each sample.
//!
//! Code is freed and its addresses are reused. Where the dump shows that, each piece of code has frames of its own:
//! rows of the profile that differ in their module. The dump may be late, since runtimes buffer their writes: a frame
//! is named once the dump is known beyond the frame's last sample, or at the end, and only if all its samples were in
//! one piece of code.

use super::dumps::{JitDumps, PendingDump};
use super::symbolize::{Named, store};
use crate::profile::{Frame, FrameId, Module, Profile, counter};
use crate::record::modules::ModuleFiles;
use crate::record::names::dump_of::DumpOf;
use crate::record::process::mappings::Process;
use crate::symbols::{JitDump, JitName, ResolvedLocation};
use std::time::Duration;

/// Time for all that is left of dumps when the recording is over.
const LAST_PATIENCE: Duration = Duration::from_secs(10);
/// Most frames that wait for their names.
const MOST_FRAMES: usize = 200_000;
/// Time in ns after its first sample when a frame in a live view gets its name, if nothing contradicts it.
const SHOWN_AFTER_NS: u64 = 500_000_000;

/// The location for a name from a dump.
pub(super) fn location(name: &JitName<'_>) -> ResolvedLocation {
    ResolvedLocation {
        name: name.readable.to_owned(),
        raw_name: name.name.to_owned(),
        file: name.file.map(str::to_owned),
        line: name.line,
        is_inlined: false,
    }
}

impl Process {
    /// Looks for a dump among the mappings if they have changed since the last search.
    fn find_dump(&mut self, files: &ModuleFiles, dumps: &mut JitDumps) -> Option<DumpOf> {
        if self.jit_dump.is_some() || self.dump_sought_ns == Some(self.changed_ns()) {
            return self.jit_dump;
        }
        self.dump_sought_ns = Some(self.changed_ns());
        let file = self.mappings().iter().map(|mapping| mapping.file).find(|&id| files.is_jit_dump(id))?;
        let owner = self.perf_map.as_ref()?.owner();
        dumps.open(file, files, owner.uid);
        let is_own = dumps.get(file)?.pid() == owner.pid;
        // For a process forked before the recording, the part of the parent's code that it has is unknown.
        let until_ns = if is_own { Some(u64::MAX) } else { self.forked_ns };
        self.jit_dump = until_ns.map(|until_ns| DumpOf { file, until_ns });
        self.jit_dump
    }
}

impl JitDumps {
    /// The frame of generated code in a process that writes a dump, for the instruction at the address and time `at`,
    /// ns: `frame` itself as long as its address has always been the same code.
    pub(crate) fn frame(
        &mut self,
        process: &mut Process,
        files: &ModuleFiles,
        profile: &mut Profile,
        (address, time_ns): (u64, u64),
        frame: Frame,
    ) -> Option<FrameId> {
        let DumpOf { file, until_ns } = process.find_dump(files, self)?;
        let time_ns = time_ns.min(until_ns);
        let dump = self.get(file)?;
        let is_certain = dump.known_until_ns() > time_ns;
        let name = dump.lookup(address, time_ns, time_ns);
        let tables = &mut profile.tables;
        let mut module = frame.module;
        if let Some(reuse) = name.map(|name| name.reuse).filter(|&reuse| reuse > 0) {
            let row = tables.module(module).clone();
            module = tables.intern_module(Module { build_id: reuse.to_le_bytes().to_vec(), ..row });
        }
        let id = tables.intern_frame(Frame { module, ..frame });
        if !profile.symbols.locations(id).is_empty() {
            return Some(id);
        }
        match name.filter(|_| is_certain).map(|name| location(&name)) {
            Some(location) if !self.pending.contains_key(&id) => {
                self.name(profile, vec![(id, vec![location])]);
            }
            _ if self.pending.len() < MOST_FRAMES => {
                let new = PendingDump { dump: file, address, first_ns: time_ns, last_ns: time_ns };
                let pending = self.pending.entry(id).or_insert(new);
                pending.first_ns = pending.first_ns.min(time_ns);
                pending.last_ns = pending.last_ns.max(time_ns);
            }
            _ => {}
        }
        Some(id)
    }

    /// Reads what was added to the dumps, and names frames from it.
    pub(crate) fn name_new(&mut self, profile: &mut Profile, now_ns: u64) {
        if self.dumps.is_empty() {
            return;
        }
        self.read();
        let is_watched = self.is_watched;
        self.name_pending(profile, |dump, pending| {
            dump.known_until_ns() > pending.last_ns
                || (is_watched && now_ns.saturating_sub(pending.first_ns) > SHOWN_AFTER_NS)
        });
    }

    /// Names all frames that can be named by now, because the rows are about to be dropped.
    pub(crate) fn name_rows(&mut self, profile: &mut Profile) {
        self.read();
        self.name_pending(profile, |_, _| true);
    }

    /// Names all frames that can be named, because the recording is over.
    pub(super) fn finish(&mut self, profile: &mut Profile) {
        self.read_all(LAST_PATIENCE);
        self.name_pending(profile, |_, _| true);
        let unnamed = self.pending.drain().filter(|(_, pending)| pending.first_ns < pending.last_ns).count();
        profile.count(counter::JIT_NAME_UNCERTAIN, unnamed as u64);
    }

    fn name_pending(&mut self, profile: &mut Profile, is_ripe: impl Fn(&JitDump, &PendingDump) -> bool) {
        let mut pending = std::mem::take(&mut self.pending);
        let mut named: Named = Vec::new();
        pending.retain(|id, pending| {
            let Some(dump) = self.get(pending.dump).filter(|dump| is_ripe(dump, pending)) else {
                return true;
            };
            let Some(name) = dump.lookup(pending.address, pending.first_ns, pending.last_ns) else {
                return true;
            };
            named.push((*id, vec![location(&name)]));
            false
        });
        self.pending = pending;
        self.name(profile, named);
    }

    fn name(&mut self, profile: &mut Profile, named: Named) {
        if self.is_watched {
            self.named.extend(named.iter().map(|(id, _)| *id));
        }
        store(profile, named);
    }
}
