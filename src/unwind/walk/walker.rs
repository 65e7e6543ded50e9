//! The walk: from an interrupted thread's registers and memory to its stack.
//!
//! Takes the same steps as the kernel's walker, so that one can check the other, and beyond them those
//! that only full DWARF evaluation can take. Input: registers, a map of modules, and memory; no process.

use super::full_step::{StepError, full_step};
use super::leaf_code;
use super::memory::{Memory, MemoryError};
use super::module_map::{MappedModule, ModuleCode, ModuleMap};
use super::registers::{CallerFrame, CallerRegisters, FrameRegisters, FrameState};
use super::stack::{End, FoundBy, FrameAddress, MAX_WALKED_FRAMES, Stack};
use super::stack_ends::StackEnds;
use super::stack_piece::{Growth, MAX_JUMPS_DOWN, StackPiece};
use crate::elf::Architecture;
use crate::unwind::rule::{RaKind, RbpKind, Rule, RuleKind, SAVED_RBP_BYTES};

/// Walks from `start` towards the root. Of a stack with more than `max_frames` frames half as many from each end
/// are kept.
///
/// Tables are used first. Where their rule is not enough (a [`Rule::USER`] row, or a register that rules do
/// not carry along), the walk starts again with full evaluation of every frame, which keeps all callee-saved
/// registers.
pub fn walk(start: &FrameState, modules: &impl ModuleMap, memory: &impl Memory, max_frames: usize) -> Stack {
    let piece = StackPiece::from(0);
    let kept = start.general;
    let mut walker =
        Walker { modules, memory, is_full: false, needs_full: false, is_last: false, piece, kept };
    let stack = walker.run(start, max_frames);
    if !walker.needs_full {
        return stack;
    }
    let mut walker =
        Walker { modules, memory, is_full: true, needs_full: false, is_last: false, piece, kept };
    let full = walker.run(start, max_frames);
    let depth = |stack: &Stack| stack.frames.len() + stack.left_out;
    if depth(&full) >= depth(&stack) { full } else { stack }
}

struct Walker<'a, M, R> {
    modules: &'a M,
    memory: &'a R,
    /// Evaluate every frame's raw entry where there is one.
    is_full: bool,
    /// Set where full evaluation would have got further.
    needs_full: bool,
    /// Set where the frame above is known to be the root.
    is_last: bool,
    piece: StackPiece,
    /// The registers of the last frame of which all were known.
    kept: FrameRegisters,
}

/// The frame above, and how it was found.
type FoundCaller = (CallerFrame, FoundBy);

impl<'m, M: ModuleMap, R: Memory> Walker<'m, M, R> {
    fn run(&mut self, start: &FrameState, max_frames: usize) -> Stack {
        let mut state = *start;
        let mut found_by = FoundBy::Leaf;
        self.piece = StackPiece::from(state.stack_pointer().unwrap_or(0));
        let mut frames = StackEnds::new(max_frames);
        let mut walked = 0;
        let mut module = self.modules.find(state.lookup_address());
        let end = loop {
            if walked == MAX_WALKED_FRAMES {
                break End::TooDeep;
            }
            if let Some((generated, caller)) = self.modules.generated(&state) {
                walked = MAX_WALKED_FRAMES.min(walked + generated.len().max(1));
                push_generated(&mut frames, generated, state.is_return_address, found_by);
                found_by = FoundBy::Cfi;
                match caller {
                    Ok(caller) => state = caller,
                    Err(end) => break end,
                }
                module = self.modules.find(state.lookup_address());
                if module.is_none() {
                    break End::UnknownMapping { address: state.pc };
                }
                continue;
            }
            walked += 1;
            frames.push(state.frame(found_by));
            let (callee_pc, is_caller) = (state.pc, state.is_return_address);
            match self.step(&state, module) {
                Ok((caller, by)) => {
                    state.become_caller(caller);
                    found_by = by;
                }
                Err(end) => break end,
            }
            // A caller that is not in code is not a frame.
            if state.pc == 0 && state.is_return_address {
                let is_root = is_caller && is_marked_root(&state);
                break if is_root { End::Complete } else { End::BadUnwindInfo { pc: callee_pc } };
            }
            if self.is_last {
                frames.push(FrameAddress {
                    is_return_address: true,
                    frame_pointer: None,
                    ..state.frame(found_by)
                });
                break End::Complete;
            }
            module = self.modules.find(state.lookup_address());
            if module.is_none() {
                break End::UnknownMapping { address: state.pc };
            }
        };
        let (frames, left_out) = frames.into_parts();
        Stack { frames, left_out, end }
    }

    /// The frame above `state`, whose code is in `module`.
    fn step(&mut self, state: &FrameState, module: Option<MappedModule<'_>>) -> Result<FoundCaller, End> {
        let address = state.lookup_address();
        let Some(module) = module else {
            return Err(End::UnknownMapping { address: state.pc });
        };
        let own = address.wrapping_sub(module.bias);
        let rule = match module.code {
            ModuleCode::Leaf => return self.leaf_step(state),
            ModuleCode::Table(table) => table.lookup(own),
            ModuleCode::NotLoaded => return Err(End::TableNotLoaded { pc: state.pc }),
            ModuleCode::Jit => {
                let jit_end = End::JitEnd { pc: state.pc };
                return self.frame_pointer_step(state, false).map_err(|_| jit_end);
            }
        };
        match rule.kind {
            RuleKind::Stop => Err(End::Complete),
            RuleKind::None => Err(End::NoUnwindInfo { pc: state.pc }),
            RuleKind::Signal => self.signal_step(state),
            RuleKind::FramePointer => self.frame_pointer_step(state, false),
            RuleKind::FramePointerRoot => self.frame_pointer_step(state, true),
            RuleKind::User => self.full_step(state, own, module.bias),
            RuleKind::NewThread => self.new_thread_step(state),
            // The file's own entry is wrong there.
            RuleKind::Landing => self.landing_step(state, rule),
            RuleKind::GoCall => self.go_call_step(state, rule),
            RuleKind::Goroutine => {
                self.goroutine_step(state, rule, module.bias).ok_or(End::NoUnwindInfo { pc: state.pc })
            }
            _ if matches!(rule.ra_kind, RaKind::Jump | RaKind::Last) => self.rule_step(state, rule),
            _ if self.is_full && self.modules.cfi(address).is_some_and(|cfi| cfi.has_entry(own)) => {
                self.full_step(state, own, module.bias)
            }
            _ => self.rule_step(state, rule),
        }
    }

    fn rule_step(&mut self, state: &FrameState, rule: Rule) -> Result<FoundCaller, End> {
        let by_record = state.is_sp_hidden && rule.cfa_reg == state.architecture.stack_pointer();
        let cfa = if by_record { self.cfa_by_record(state, rule)? } else { self.cfa(state, rule)? };
        let rsp = self.register(state, state.architecture.stack_pointer())?;
        let return_address = match rule.ra_kind {
            RaKind::AtCfa | RaKind::Jump | RaKind::Last => self.read(cfa.wrapping_sub(8))?,
            RaKind::Offset => self.read(cfa.wrapping_add_signed(i64::from(rule.aux)))?,
            RaKind::NextToRbp => self.read(cfa.wrapping_add_signed(i64::from(rule.rbp_off) + 8))?,
            RaKind::InReg => self.register(state, rule.aux_reg)?,
        };
        let growth = match (rule.ra_kind, rule.kind, rule.cfa_reg) {
            (RaKind::InReg, ..) => Growth::MayStay,
            // From the stack pointer a caller on another stack cannot be found.
            (_, RuleKind::Reg, base) if base == state.architecture.stack_pointer() => Growth::Grows,
            // Memory full of zeros is no root.
            _ if return_address == 0 => Growth::Grows,
            _ => Growth::MayJumpDown,
        };
        self.piece.check_growth(state, rsp, cfa, growth)?;
        let rbp = match rule.rbp_kind {
            RbpKind::Same => state.frame_pointer(),
            RbpKind::AtCfa => Some(self.read(cfa.wrapping_add_signed(i64::from(rule.rbp_off)))?),
            RbpKind::AtRbp => {
                let rbp = self.register(state, state.architecture.frame_pointer())?;
                Some(self.read(rbp.wrapping_add_signed(i64::from(rule.rbp_off)))?)
            }
            RbpKind::Lost => None,
        };
        let found_by = if by_record { FoundBy::FramePointer } else { FoundBy::Cfi };
        let mut caller = state.caller_of(return_address, cfa, rbp);
        caller.is_return_address = rule.ra_kind != RaKind::Jump || return_address == 0;
        self.is_last = rule.ra_kind == RaKind::Last;
        if by_record && self.modules.find(caller.lookup_address()).is_none() {
            return Err(End::BadFramePointer { pc: state.pc });
        }
        Ok((caller, found_by))
    }

    /// The CFA of a frame whose stack pointer is hidden: the frame pointer points to its frame record, and
    /// the rule says where in the frame that is.
    fn cfa_by_record(&self, state: &FrameState, rule: Rule) -> Result<u64, End> {
        let has_record = rule.kind == RuleKind::Reg
            && rule.rbp_kind == RbpKind::AtCfa
            && rule.ra_kind == RaKind::NextToRbp;
        let record = state.frame_pointer().filter(|record| {
            has_record && record.is_multiple_of(8) && state.stack_pointer().is_some_and(|sp| *record >= sp)
        });
        let record = record.ok_or(End::BadFramePointer { pc: state.pc })?;
        Ok(record.wrapping_sub(i64::from(rule.rbp_off).cast_unsigned()))
    }

    /// Around the system call that starts a thread: zero is what only the new one gets from it.
    fn new_thread_step(&mut self, state: &FrameState) -> Result<FoundCaller, End> {
        if self.register(state, 0)? == 0 { Err(End::Complete) } else { self.leaf_step(state) }
    }

    fn leaf_step(&mut self, state: &FrameState) -> Result<FoundCaller, End> {
        let rsp = self.register(state, state.architecture.stack_pointer())?;
        let return_address = self.read(rsp)?;
        Ok((state.caller_of(return_address, rsp.wrapping_add(8), state.frame_pointer()), FoundBy::Cfi))
    }

    fn cfa(&mut self, state: &FrameState, rule: Rule) -> Result<u64, End> {
        let is_carried = rule.cfa_reg == state.architecture.frame_pointer();
        let kept = self.kept.get(rule.cfa_reg);
        let base = match state.register(rule.cfa_reg).or(kept) {
            Some(base) if rule.is_base_kept && !is_carried => base,
            _ => self.register(state, rule.cfa_reg)?,
        };
        let base = base.wrapping_add_signed(i64::from(rule.cfa_off));
        let added = i64::from(rule.aux);
        match rule.kind {
            RuleKind::Deref => Ok(self.read(base)?.wrapping_add_signed(added)),
            RuleKind::DerefIndex => {
                let index = self.register(state, rule.aux_reg)?;
                Ok(self.read(base.wrapping_add(index.wrapping_mul(8)))?.wrapping_add_signed(added))
            }
            RuleKind::Plt => {
                // The exact address counts: a linkage table entry is never a caller.
                let is_pushed = (state.pc & 15) as i64 >= added;
                Ok(if is_pushed { base.wrapping_add(8) } else { base })
            }
            _ => Ok(base),
        }
    }

    /// CFA = rbp + 16. Without unwind information rbp may be anything, so it has to look like a frame
    /// pointer: aligned, not below the stack pointer, and with a return address into code above it.
    ///
    /// `is_root_marked`: Go's runtime, where rbp leads from one stack to another, a few times, and is zero at a root.
    fn frame_pointer_step(&mut self, state: &FrameState, is_root_marked: bool) -> Result<FoundCaller, End> {
        let bad = End::BadFramePointer { pc: state.pc };
        let Some(rsp) = state.stack_pointer() else { return Err(bad) };
        if let Some(caller) = self.step_by_code(state, rsp, state.frame_pointer()) {
            return Ok(caller);
        }
        let Some(rbp) = state.frame_pointer() else { return Err(bad) };
        if is_root_marked && rbp == 0 && state.is_return_address {
            return Err(End::Complete);
        }
        if !rbp.is_multiple_of(8) || rbp == 0 {
            return Err(bad);
        }
        if rbp < rsp {
            if !is_root_marked || self.piece.jumps_down >= MAX_JUMPS_DOWN {
                return Err(bad);
            }
            self.piece.jumps_down += 1;
        }
        let saved_rbp = self.read(rbp)?;
        let return_address = self.read(rbp.wrapping_add(8))?;
        let mut caller = state.caller_of(return_address, rbp.wrapping_add(16), Some(saved_rbp));
        caller.is_sp_hidden = !state.architecture.frame_record_tells_stack_pointer();
        if caller.pc == 0 || self.modules.find(caller.lookup_address()).is_none() {
            return Err(bad);
        }
        Ok((caller, FoundBy::FramePointer))
    }

    /// The caller of interrupted code whose next instructions say where the return address is. Needs memory that
    /// holds the code.
    fn step_by_code(&self, state: &FrameState, rsp: u64, rbp: Option<u64>) -> Option<FoundCaller> {
        if state.is_return_address || state.architecture != Architecture::X86_64 {
            return None;
        }
        let mut code = [0; leaf_code::CODE_BYTES];
        let start = state.pc.wrapping_sub(leaf_code::BYTES_BEFORE);
        for (place, distance) in code.chunks_exact_mut(8).zip([0u64, 8]) {
            let address = start.wrapping_add(distance);
            place.copy_from_slice(&self.memory.read(address).ok()?.to_le_bytes());
        }
        let top = self.memory.read(rsp).ok()?;
        let distance = leaf_code::return_distance(&code, Some(top) == rbp)?;
        let return_address = self.memory.read(rsp.wrapping_add(distance)).ok()?;
        let caller_rbp = if distance == 8 { Some(top) } else { rbp };
        let caller = state.caller_of(return_address, rsp.wrapping_add(distance + 8), caller_rbp);
        self.modules.find(caller.lookup_address())?;
        Some((caller, FoundBy::FramePointer))
    }

    /// The kernel's signal frame is at the stack pointer; its registers are all that the interrupted code had.
    fn signal_step(&mut self, state: &FrameState) -> Result<FoundCaller, End> {
        let architecture = state.architecture;
        if state.is_sp_hidden {
            return Err(End::BadFramePointer { pc: state.pc });
        }
        let context = self.register(state, architecture.stack_pointer())?;
        let mut general = FrameRegisters::default();
        for number in 0..architecture.register_count() {
            let offset = architecture.signal_frame_offset(number);
            general.set(number, Some(self.read(context.wrapping_add(offset))?));
        }
        let pc = self.read(context.wrapping_add(architecture.signal_frame_pc_offset()))?;
        self.piece.low = general.get(architecture.stack_pointer()).unwrap_or(0);
        self.kept = general;
        let registers = CallerRegisters::Whole(Box::new(general));
        // What says that the stack pointer is hidden was looked at above.
        Ok((CallerFrame { pc, is_return_address: false, is_sp_hidden: false, registers }, FoundBy::Signal))
    }

    /// libgcc is about to go on in the frame that catches an exception, and has overwritten what it has saved of its
    /// caller.
    fn landing_step(&mut self, state: &FrameState, rule: Rule) -> Result<FoundCaller, End> {
        let rsp = self.register(state, state.architecture.stack_pointer())?;
        let context = rsp.wrapping_add_signed(i64::from(rule.cfa_off));
        let saved_rbp = self.read(context.wrapping_sub(SAVED_RBP_BYTES))?;
        let cfa = self.read(context)?;
        let landing_pad = self.read(context.wrapping_add(8))?;
        let rbp = self.read(saved_rbp)?;
        self.piece.check_growth(state, rsp, cfa, Growth::Grows)?;
        let mut caller = state.caller_of(landing_pad, cfa, Some(rbp));
        caller.is_return_address = landing_pad == 0;
        Ok((caller, FoundBy::Cfi))
    }

    /// Go's runtime has called C on the thread's own stack, and noted there where the goroutine's is.
    fn go_call_step(&mut self, state: &FrameState, rule: Rule) -> Result<FoundCaller, End> {
        let unknown = End::NoUnwindInfo { pc: state.pc };
        let rsp = self.register(state, state.architecture.stack_pointer())?;
        let g = self.read(rsp.wrapping_add_signed(i64::from(rule.aux)))?;
        let depth = self.read(rsp.wrapping_add_signed(i64::from(rule.cfa_off)))?;
        let place = if g == 0 {
            depth
        } else {
            let stack_end = self.memory.read(g.wrapping_add_signed(i64::from(rule.rbp_off)));
            stack_end.map_err(|_| unknown)?.wrapping_sub(depth)
        };
        let return_address = self.memory.read(place).map_err(|_| unknown)?;
        let rsp = place.wrapping_add(8);
        let caller = state.caller_of(return_address, rsp, state.frame_pointer());
        self.enter_goroutine(caller).ok_or(unknown)
    }

    /// Go's runtime works on the thread's own stack for a goroutine, which its data lead to; `None` if it has none (any
    /// more), or the data are not there.
    fn goroutine_step(&mut self, state: &FrameState, rule: Rule, bias: u64) -> Option<FoundCaller> {
        let read = |address: u64| self.memory.read(address).ok().filter(|word| *word != 0);
        let m_of_g = 8 * u64::from(rule.cfa_reg);
        let thread_pointer = state.thread_pointer.filter(|address| *address != 0)?;
        let offset = 0u64.wrapping_add_signed(i64::from(rule.cfa_off));
        let offset = match rule.rbp_kind {
            RbpKind::AtCfa => self.memory.read(bias.wrapping_add(offset)).ok()?,
            _ => offset,
        };
        let g = read(thread_pointer.wrapping_add(offset))?;
        let m = read(g.wrapping_add(m_of_g))?;
        let goroutine = read(m.wrapping_add_signed(i64::from(rule.rbp_off)))?;
        if read(goroutine.wrapping_add(m_of_g))? != m {
            return None;
        }
        let buffer = goroutine.wrapping_add_signed(i64::from(rule.aux));
        let rsp = read(buffer)?;
        let saved_pc = self.memory.read(buffer.wrapping_add(8)).ok()?;
        let (pc, rsp, rbp) = if rule.ra_kind == RaKind::Offset {
            let rbp = self.memory.read(buffer.wrapping_add(8 * u64::from(rule.aux_reg))).ok()?;
            (saved_pc, rsp, Some(rbp))
        } else {
            (read(rsp)?, rsp.wrapping_add(8), state.frame_pointer())
        };
        self.enter_goroutine(state.caller_of(pc, rsp, rbp))
    }

    /// A goroutine's frame, on the goroutine's own stack; `None` where it leads to no code.
    fn enter_goroutine(&mut self, caller: CallerFrame) -> Option<FoundCaller> {
        let CallerRegisters::Carried { stack_pointer, .. } = caller.registers else { return None };
        self.piece.low = Some(stack_pointer).filter(|_| caller.pc != 0)?;
        Some((caller, FoundBy::Cfi))
    }

    fn full_step(&mut self, state: &FrameState, own: u64, bias: u64) -> Result<FoundCaller, End> {
        self.needs_full = !self.is_full;
        let Some(cfi) = self.modules.cfi(state.lookup_address()) else {
            return Err(End::NotExpressible { pc: state.pc });
        };
        let step = full_step(cfi, own, bias, state, self.memory).map_err(|error| match error {
            StepError::Root => End::Complete,
            StepError::NoEntry => End::NoUnwindInfo { pc: state.pc },
            StepError::Bad => End::BadUnwindInfo { pc: state.pc },
            StepError::Memory(address, error) => memory_end(address, error),
        })?;
        let cfa = step.general.get(state.architecture.stack_pointer());
        let is_return_address = !step.is_signal_frame;
        if step.is_signal_frame {
            self.piece.low = cfa.unwrap_or(0);
            self.kept = *step.general;
        }
        let registers = CallerRegisters::Whole(step.general);
        let caller = CallerFrame { pc: step.pc, is_return_address, is_sp_hidden: false, registers };
        if step.is_signal_frame {
            return Ok((caller, FoundBy::Signal));
        }
        let (Some(rsp), Some(cfa)) = (state.stack_pointer(), cfa) else {
            return Err(End::BadUnwindInfo { pc: state.pc });
        };
        let growth = match step.is_return_in_register {
            true => Growth::MayStay,
            false if caller.pc == 0 => Growth::Grows,
            false => Growth::MayJumpDown,
        };
        self.piece.check_growth(state, rsp, cfa, growth)?;
        Ok((caller, FoundBy::Cfi))
    }

    fn register(&mut self, state: &FrameState, number: u8) -> Result<u64, End> {
        state.register(number).ok_or_else(|| {
            self.needs_full = !self.is_full;
            End::BadUnwindInfo { pc: state.pc }
        })
    }

    fn read(&self, address: u64) -> Result<u64, End> {
        self.memory.read(address).map_err(|error| memory_end(address, error))
    }
}

/// Adds frames of code that a runtime has generated; `is_return_address` and `found_by` are of the first of them.
fn push_generated(
    frames: &mut StackEnds<FrameAddress>,
    generated: Vec<(u64, [u64; 2])>,
    is_return_address: bool,
    found_by: FoundBy,
) {
    for (index, (address, note)) in generated.into_iter().enumerate() {
        frames.push(FrameAddress {
            address,
            is_return_address: index > 0 || is_return_address,
            found_by: if index > 0 { FoundBy::Cfi } else { found_by },
            frame_pointer: None,
            note: Some(note),
        });
    }
}

/// Whether the zero return address in `caller` marks a root, as that of some threads' first frame: where a call can
/// have pushed it (with the stack pointer aligned to 16), and where the frame pointer is zero too (as the ABIs want it of
/// the outermost frame). Not below the function that was interrupted; elsewhere it is some other word, found by a
/// rule that is wrong.
fn is_marked_root(caller: &FrameState) -> bool {
    let is_call = caller.stack_pointer().is_some_and(|cfa| cfa.is_multiple_of(16));
    is_call && caller.frame_pointer() == Some(0)
}

fn memory_end(address: u64, error: MemoryError) -> End {
    match error {
        MemoryError::Unreadable => End::StackUnreadable { address },
        MemoryError::OutsideCopy => End::CopyTooShort { address },
    }
}
