//! One step by full evaluation of a module's own entries: any rule, any expression, all registers.

use super::memory::{Memory, MemoryError};
use super::registers::{FrameRegisters, FrameState};
use crate::elf::Architecture;
use crate::unwind::table::cfi::CfiSections;
use crate::unwind::table::cfi_entry::{Bytes, EntryIn, EntryOffsets, parse_fde};
use gimli::{
    BaseAddresses, CfaRule, EvaluationResult, Location, Piece, Register, RegisterRule, UnwindContext,
    UnwindExpression, UnwindSection, UnwindTableRow, Value,
};

/// Operations that one expression may execute. Real ones have a dozen.
const MAX_ITERATIONS: u32 = 1000;

/// A larger entry is not evaluated: each step executes all its instructions. The largest real ones have
/// a few kilobytes.
const MAX_ENTRY_BYTES: usize = 1 << 20;

/// Why a step failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum StepError {
    /// The return address is undefined.
    Root,
    /// No entry covers the address.
    NoEntry,
    /// The entry cannot be read, or needs a register that is lost.
    Bad,
    /// Memory at an address cannot be read.
    Memory(u64, MemoryError),
}

impl From<gimli::Error> for StepError {
    fn from(_: gimli::Error) -> Self {
        Self::Bad
    }
}

/// A step that succeeded.
#[derive(Debug)]
pub(crate) struct FullStep {
    /// The address that the frame returns to, or that a signal has interrupted.
    pub(super) pc: u64,
    /// Registers of the frame above.
    pub(super) general: Box<FrameRegisters>,
    pub(crate) is_signal_frame: bool,
    pub(super) is_return_in_register: bool,
}

/// Steps from the frame in `state` to its caller. `own` is the module's own address of the frame.
pub(crate) fn full_step(
    cfi: &CfiSections,
    own: u64,
    bias: u64,
    state: &FrameState,
    memory: &impl Memory,
) -> Result<FullStep, StepError> {
    let entry = cfi.entry_at(own).ok_or(StepError::NoEntry)?;
    match entry.section {
        EntryIn::EhFrame => StepOutcome { section: &cfi.eh_frame(), bases: cfi.bases(), bias, state, memory }
            .run(entry.offsets, own),
        EntryIn::DebugFrame => {
            StepOutcome { section: &cfi.debug_frame(), bases: cfi.bases(), bias, state, memory }
                .run(entry.offsets, own)
        }
    }
}

struct StepOutcome<'s, S, M> {
    section: &'s S,
    bases: &'s BaseAddresses,
    bias: u64,
    state: &'s FrameState,
    memory: &'s M,
}

impl<'a, S: UnwindSection<Bytes<'a>>, M: Memory> StepOutcome<'_, S, M> {
    fn run(&self, offsets: EntryOffsets, own: u64) -> Result<FullStep, StepError> {
        let fde = parse_fde(self.section, self.bases, offsets)?;
        if fde.entry_len().saturating_add(fde.cie().entry_len()) > MAX_ENTRY_BYTES {
            return Err(StepError::Bad);
        }
        let encoding = fde.cie().encoding();
        let mut context = UnwindContext::new();
        let row = fde.unwind_info_for_address(self.section, self.bases, &mut context, own)?;
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register, offset } => {
                self.register(*register)?.wrapping_add_signed(*offset)
            }
            CfaRule::Expression(expression) => self.evaluate(expression, encoding, None)?,
        };
        let mut return_rule = row.register(self.architecture().return_address());
        if return_rule == Some(RegisterRule::Undefined) {
            return Err(StepError::Root);
        }
        // Nothing is said of a return address that has stayed where the call put it.
        if let (None | Some(RegisterRule::SameValue), Some(link)) =
            (&return_rule, self.architecture().link_register())
        {
            return_rule = Some(RegisterRule::Register(Register(link.into())));
        }
        if let (Architecture::Aarch64, Some(RegisterRule::Offset(0..)), false) =
            (self.architecture(), &return_rule, fde.is_signal_trampoline())
        {
            // As in `cfi_rule_aarch64`: not in its own frame.
            return Err(StepError::Bad);
        }
        let is_return_in_register = matches!(return_rule, Some(RegisterRule::Register(_)));
        let pc = self.restore(return_rule.ok_or(StepError::Bad)?, cfa, encoding)?.ok_or(StepError::Bad)?;
        let is_signal_frame = fde.is_signal_trampoline();
        let mut general = self.general_registers(row, cfa, encoding);
        let mut signature_mask = 0;
        if !is_signal_frame {
            signature_mask = self.state.signature_mask;
            // The call has overwritten it.
            if let Some(link) = self.architecture().link_register() {
                general.set(link, None);
            }
        }
        let (pc, general) = (pc & !signature_mask, Box::new(general));
        Ok(FullStep { pc, general, is_signal_frame, is_return_in_register })
    }

    /// The caller's registers. One that cannot be restored is lost; that is no reason to stop.
    fn general_registers(
        &self,
        row: &UnwindTableRow<usize>,
        cfa: u64,
        encoding: gimli::Encoding,
    ) -> FrameRegisters {
        let architecture = self.architecture();
        let rule_of = |number: u8| match row.register(Register(number.into())) {
            Some(rule) => {
                let same = self.state.register(number);
                if rule == RegisterRule::SameValue {
                    same
                } else {
                    self.restore(rule, cfa, encoding).ok().flatten()
                }
            }
            None if number == architecture.stack_pointer() => Some(cfa),
            None if architecture.link_register() == Some(number) => None,
            // Not just those that the calling convention makes a function keep: an entry that needs another one was
            // written for callees that leave it alone.
            None => self.state.register(number),
        };
        let mut general = FrameRegisters::default();
        for number in 0..architecture.register_count() {
            general.set(number, rule_of(number));
        }
        general
    }

    fn architecture(&self) -> Architecture {
        self.state.architecture
    }

    fn restore(
        &self,
        rule: RegisterRule<usize>,
        cfa: u64,
        encoding: gimli::Encoding,
    ) -> Result<Option<u64>, StepError> {
        Ok(match rule {
            RegisterRule::Offset(offset) => Some(self.read(cfa.wrapping_add_signed(offset))?),
            RegisterRule::ValOffset(offset) => Some(cfa.wrapping_add_signed(offset)),
            RegisterRule::Register(register) => Some(self.register(register)?),
            RegisterRule::Expression(expression) => {
                Some(self.read(self.evaluate(&expression, encoding, Some(cfa))?)?)
            }
            RegisterRule::ValExpression(expression) => {
                Some(self.evaluate(&expression, encoding, Some(cfa))?)
            }
            RegisterRule::Constant(value) => Some(value),
            _ => None,
        })
    }

    fn evaluate(
        &self,
        expression: &UnwindExpression<usize>,
        encoding: gimli::Encoding,
        initial: Option<u64>,
    ) -> Result<u64, StepError> {
        let mut evaluation = expression.get(self.section)?.evaluation(encoding);
        evaluation.set_max_iterations(MAX_ITERATIONS);
        if let Some(initial) = initial {
            evaluation.set_initial_value(initial);
        }
        let mut result = evaluation.evaluate()?;
        loop {
            result = match result {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register, .. } => {
                    evaluation.resume_with_register(Value::Generic(self.register(register)?))?
                }
                EvaluationResult::RequiresMemory { address, size, space: None, .. }
                    if (1..=8).contains(&size) =>
                {
                    let word = self.read(address)?;
                    let kept = word & (u64::MAX >> (64 - 8 * u32::from(size)));
                    evaluation.resume_with_memory(Value::Generic(kept))?
                }
                EvaluationResult::RequiresRelocatedAddress(address) => {
                    evaluation.resume_with_relocated_address(address.wrapping_add(self.bias))?
                }
                _ => return Err(StepError::Bad),
            };
        }
        match evaluation.as_result() {
            [Piece { location: Location::Address { address }, .. }] => Ok(*address),
            _ => Err(StepError::Bad),
        }
    }

    fn register(&self, register: Register) -> Result<u64, StepError> {
        let architecture = self.architecture();
        if architecture.link_register().is_none() && register == architecture.return_address() {
            return Ok(self.state.pc);
        }
        let is_hidden = self.state.is_sp_hidden && register.0 == u16::from(architecture.stack_pointer());
        if is_hidden {
            return Err(StepError::Bad);
        }
        u8::try_from(register.0).ok().and_then(|number| self.state.register(number)).ok_or(StepError::Bad)
    }

    fn read(&self, address: u64) -> Result<u64, StepError> {
        self.memory.read(address).map_err(|error| StepError::Memory(address, error))
    }
}
