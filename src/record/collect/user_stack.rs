//! The user part of a stack: marked addresses become frames of modules, as far as they can be trusted.

use super::call_check::{CallChecks, CallPlace};
use crate::bpf::{LEAF_FRAMES, MarkedAddress, SampleEvent, outcome};
use crate::profile::{
    FoundBy, Frame, FrameFlags, FrameId, FrameSpace, Module, ModuleKind, Outcome, Profile, Tables, counter,
};
use crate::record::interpreters::{Interpreters, LoopPart};
use crate::record::modules::ModuleFiles;
use crate::record::names::dumps::JitDumps;
use crate::record::process::mappings::{Mapped, Process, is_vsyscall};
use crate::record::process::table::Processes;
use crate::symbols::PerfMapSource;
use crate::unwind::rule::RuleKind;
use std::sync::Arc;

/// A process is read again after an unknown address, but not more often than this, ns.
const REREAD_INTERVAL_NS: u64 = 100_000_000;

/// Mark of the leaf in the keys of the frame cache; an unused bit of marked addresses.
const LEAF: u64 = 1 << 61;

/// Rest of the user part of a stack once its frames were looked at.
#[derive(Debug)]
pub(in crate::record) struct Trusted {
    /// Outcome of the walk, as far as it can be believed.
    pub(in crate::record) outcome: Outcome,
    /// Some frames were found by frame pointers.
    pub(super) by_frame_pointer: bool,
    /// Addresses of the sample that were looked at, from the leaf on.
    pub(super) count: usize,
    /// Frames left out of the middle of these.
    pub(super) left_out: u32,
}

/// A sample, and what its addresses are looked up in.
pub(in crate::record) struct UserStack<'c> {
    pub(super) sample: &'c SampleEvent,
    pub(super) profile: &'c mut Profile,
    pub(super) processes: &'c mut Processes,
    pub(super) files: &'c mut ModuleFiles,
    pub(super) calls: &'c mut CallChecks,
    pub(super) dumps: &'c mut JitDumps,
    pub(super) interpreters: &'c Interpreters,
}

impl UserStack<'_> {
    /// Puts the frames into `path`, leaf first, as far as they can be trusted. `outcome` is that of the walk.
    pub(in crate::record) fn resolve(&mut self, mut outcome: Outcome, path: &mut Vec<FrameId>) -> Trusted {
        let sample = self.sample;
        let (mut count, mut left_out) = (sample.user.len(), sample.left_out);
        if outcome == Outcome::TooDeep && left_out > 0 {
            // The last frames of such a walk say nothing about the root.
            (count, left_out) = (LEAF_FRAMES.min(count), 0);
        }
        let user = &sample.user[..count];
        let (mut by_frame_pointer, mut callee_is_generated) = (false, false);
        for (index, &raw) in user.iter().enumerate() {
            if index == LEAF_FRAMES && left_out > 0 {
                path.push(self.left_out_frame(left_out));
                callee_is_generated = false;
                if outcome == Outcome::Complete {
                    outcome = Outcome::MiddleLeftOut;
                }
            }
            let (is_leaf, is_by_fp) = (index == 0, MarkedAddress(raw).is_by_frame_pointer());
            by_frame_pointer |= is_by_fp;
            let (frame, is_known) = self.frame(raw, is_leaf);
            if !is_known && index + 1 == count && !is_leaf {
                // An address outside all code is no caller: the step that led here was wrong.
                outcome = match (outcome, is_by_fp) {
                    (_, true) => Outcome::NoUnwindInfo,
                    (Outcome::UnknownMapping, false) => Outcome::BadUnwindInfo,
                    (other, false) => other,
                };
                continue;
            }
            let is_wrong = |stack: &mut Self| {
                (callee_is_generated && stack.lacks_frame_pointers())
                    || callee_of(user, index, left_out).is_some_and(|callee| !stack.call_agrees(callee, raw))
            };
            if is_by_fp && is_wrong(self) {
                // rbp belongs to some frame further up: those between would be left out.
                outcome = if callee_is_generated { Outcome::JitEnd } else { Outcome::NoUnwindInfo };
                break;
            }
            let tables = &self.profile.tables;
            callee_is_generated = tables.module(tables.frame(frame).module).kind == ModuleKind::Jit;
            path.push(frame);
        }
        Trusted { outcome, by_frame_pointer, count, left_out }
    }

    /// The frame in place of `count` frames left out; its address is their number.
    fn left_out_frame(&mut self, count: u32) -> FrameId {
        let profile = &mut *self.profile;
        profile.count(counter::STACKS_CUT, 1);
        profile.count(counter::FRAMES_LEFT_OUT, u64::from(count));
        profile.frame_left_out(count)
    }

    /// Whether the call before the return address in the frame `caller` may have led to the frame `callee`.
    fn call_agrees(&mut self, callee: u64, caller: u64) -> bool {
        let sample = self.sample;
        let Some(process) = self.processes.at(sample.tgid, sample.time_ns) else { return true };
        if !self.files.wants_tables() {
            return true;
        }
        let place = |raw: u64| {
            let marked = MarkedAddress(raw);
            let mapped = process.find(marked.lookup(), sample.time_ns)?;
            Some(CallPlace { file: mapped.file, address: marked.address().wrapping_sub(mapped.bias) })
        };
        let (Some(callee), Some(caller)) = (place(callee), place(caller)) else { return true };
        self.calls.agrees(callee, caller, self.files)
    }

    fn lacks_frame_pointers(&self) -> bool {
        let process = self.processes.at(self.sample.tgid, self.sample.time_ns);
        process.is_some_and(|process| process.lacks_frame_pointers)
    }

    /// The frame of a marked user address, and whether it lies in known code.
    fn frame(&mut self, raw: u64, is_leaf: bool) -> (FrameId, bool) {
        let sample = self.sample;
        let key = if is_leaf { raw | LEAF } else { raw };
        let marked = MarkedAddress(raw);
        let (address, lookup, is_return_address) = (marked.address(), marked.lookup(), marked.is_return());
        let flags = FrameFlags {
            is_return_address,
            space: FrameSpace::User,
            found_by: match (is_leaf, marked.is_by_frame_pointer()) {
                (true, _) => FoundBy::Leaf,
                (false, true) => FoundBy::FramePointer,
                (false, false) => FoundBy::Cfi,
            },
            ..FrameFlags::default()
        };
        let tables = &mut self.profile.tables;
        let process = self.processes.at_or_read(sample.tgid, sample.time_ns, self.files);
        let is_present = process.is_present(sample.time_ns);
        if is_present && let Some(&(frame, file)) = process.frames.get(&key) {
            self.files.hit(file, sample.time_ns);
            return (frame, true);
        }
        let Some(&mapped) = process.find(lookup, sample.time_ns) else {
            let is_known = is_vsyscall(lookup);
            return (unmapped_frame(tables, sample.tgid, is_known, address, flags), is_known);
        };
        let is_generated = self.files.is_generated(mapped.file);
        // Names of generated code are by its addresses.
        let address = if is_generated { address } else { address.wrapping_sub(mapped.bias) };
        // A signal handler returns to the first instruction of the code that ends it: nothing called that.
        let is_signal_return = is_return_address
            && !is_generated
            && (self.files.get(mapped.file).table.table())
                .is_some_and(|table| table.lookup(lookup.wrapping_sub(mapped.bias)).kind == RuleKind::Signal);
        let loop_part = self.interpreters.loop_part(mapped.file, lookup.wrapping_sub(mapped.bias));
        let flags = FrameFlags {
            is_return_address: is_return_address && !is_signal_return,
            is_interpreter: self.files.get(mapped.file).is_in_loop || loop_part.is_some(),
            is_inner_loop: loop_part == Some(LoopPart::Inner),
            ..flags
        };
        let module = self.files.profile_module(mapped.file, sample.tgid, tables);
        let frame = Frame { module, address, flags };
        self.files.hit(mapped.file, sample.time_ns);
        if is_generated {
            note_generated_code(process, sample.tgid, self.files);
            let at = (lookup, sample.time_ns);
            if let Some(frame) = self.dumps.frame(process, self.files, self.profile, at, frame) {
                // What is there may be other code the next time.
                return (frame, true);
            }
        }
        let frame = self.profile.tables.intern_frame(frame);
        if is_present && let Some(process) = self.processes.at_mut(sample.tgid, sample.time_ns) {
            process.frames.insert(key, (frame, mapped.file));
        }
        (frame, true)
    }
}

/// The frame that the one at `index` has called; `None` for the leaf, and where frames are left out between.
fn callee_of(user: &[u64], index: usize, left_out: u32) -> Option<u64> {
    let is_after_gap = index == LEAF_FRAMES && left_out > 0;
    index.checked_sub(1).filter(|_| !is_after_gap).and_then(|callee| user.get(callee).copied())
}

/// A frame at an address where nothing is mapped that is known; `is_vsyscall`: the kernel's page of system calls.
fn unmapped_frame(
    tables: &mut Tables,
    pid: u32,
    is_vsyscall: bool,
    address: u64,
    flags: FrameFlags,
) -> FrameId {
    let path = tables.intern_string(if is_vsyscall { "[vsyscall]" } else { "[unknown]" });
    let kind = ModuleKind::Unknown;
    let module = tables.intern_module(Module { path, kind, instance: pid, ..Module::default() });
    let address = if is_vsyscall { address & 0xfff } else { address };
    tables.intern_frame(Frame { module, address, flags })
}

/// Notes what there is to know of a process that runs generated code, the first time that it does.
fn note_generated_code(process: &mut Process, pid: u32, files: &mut ModuleFiles) {
    if process.perf_map.is_none() {
        process.perf_map = PerfMapSource::of(pid).ok().map(Arc::new);
        let is_java = |mapping: &Mapped| files.get(mapping.file).path.ends_with("/libjvm.so");
        process.lacks_frame_pointers =
            process.mappings().iter().any(is_java) && files.java_lacks_frame_pointers(pid);
    }
}

/// The address of a sample that no known mapping holds, if it has one and the process may be looked at again.
pub(super) fn unknown_address(process: &Process, sample: &SampleEvent) -> Option<u64> {
    if process.has_ended {
        return None; // its number may be another's by now
    }
    let is_due = sample.time_ns.saturating_sub(process.reread_ns) >= REREAD_INTERVAL_NS;
    // What is mapped now says nothing about a program that exec has replaced.
    if !is_due
        || sample.time_ns < process.exec_ns
        || (process.mappings().is_empty() && sample.user.is_empty())
    {
        return None;
    }
    let raw = match sample.outcome {
        outcome::UNKNOWN_MAPPING => sample.user.last(),
        _ => sample.user.first(),
    };
    let address = MarkedAddress(*raw?).lookup();
    (process.find(address, sample.time_ns).is_none() && !is_vsyscall(address)).then_some(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frame_after_a_gap_has_not_called_the_one_before_it() {
        let user: Vec<u64> = (0..2 * LEAF_FRAMES as u64).collect();
        let callee = |index| callee_of(&user, index, 7);
        assert_eq!((callee(0), callee(1)), (None, Some(user[0])));
        assert_eq!(callee(LEAF_FRAMES), None);
        assert_eq!(callee(LEAF_FRAMES + 1), Some(user[LEAF_FRAMES]));
        assert_eq!(callee_of(&user, LEAF_FRAMES, 0), Some(user[LEAF_FRAMES - 1]));
    }
}
