//! From one evaluated row of call frame information to a [`Rule`].
//!
//! What a rule cannot say becomes [`Rule::USER`]; nothing is approximated. DWARF register numbers and
//! the meaning of the rules: DWARF 5 §6.4; the signal frame: the x86-64 kernel's `struct rt_sigframe`.

use crate::elf::Architecture;
use crate::unwind::arch::aarch64_cfi_rule;
use crate::unwind::rule::{RBP, RSP, Rule, RuleKind};
use crate::unwind::table::cfi_row::CfiRow;
use gimli::{
    CfaRule, Encoding, Expression, Operation, Reader, RegisterRule, UnwindExpression, UnwindSection, X86_64,
};

/// Offset of the saved rsp from the rsp that `__restore_rt` runs with, in bytes.
const UCONTEXT_RSP: i32 = 160;
/// Offset of the saved rip from the rsp that `__restore_rt` runs with, in bytes.
const UCONTEXT_RIP: i64 = 168;
/// More operations than this in an expression are left to user space.
const MAX_OPERATIONS: usize = 16;

/// The rule of a row.
///
/// `is_signal_frame` is the CIE's `S` augmentation: this code was entered by the kernel, not by a call.
pub(crate) fn rule_of_row<R, S>(
    row: &CfiRow,
    section: &S,
    encoding: Encoding,
    architecture: Architecture,
    is_signal_frame: bool,
) -> Rule
where
    R: Reader<Offset = usize>,
    S: UnwindSection<R>,
{
    if architecture == Architecture::Aarch64 {
        return aarch64_cfi_rule::rule_of_row(row, is_signal_frame);
    }
    let return_address = row.register(X86_64::RA);
    if return_address == Some(RegisterRule::Undefined) {
        return Rule::STOP;
    }
    let terms = Terms { section, encoding, reader: std::marker::PhantomData };
    let Some(rule) = terms.cfa(row.cfa()) else { return Rule::USER };
    if is_signal_frame {
        return if terms.is_kernel_signal_frame(row, rule) { Rule::SIGNAL } else { Rule::USER };
    }
    terms
        .with_return_address(rule, return_address)
        .and_then(|rule| terms.with_rbp(rule, row.register(X86_64::RBP)))
        .unwrap_or(Rule::USER)
}

/// A value that an expression computes: registers times one or eight, plus a number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Linear {
    register: Option<u8>,
    register_times_8: Option<u8>,
    offset: i64,
}

/// Element of the symbolic stack.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Term {
    Value(Linear),
    /// \*(the value) + a number.
    Loaded(Linear, i64),
}

impl Term {
    fn number(offset: i64) -> Self {
        Self::Value(Linear { offset, ..Linear::default() })
    }

    fn as_number(self) -> Option<i64> {
        match self {
            Self::Value(Linear { register: None, register_times_8: None, offset }) => Some(offset),
            _ => None,
        }
    }

    fn plus_number(self, number: i64) -> Option<Self> {
        Some(match self {
            Self::Value(v) => Self::Value(Linear { offset: v.offset.checked_add(number)?, ..v }),
            Self::Loaded(at, added) => Self::Loaded(at, added.checked_add(number)?),
        })
    }

    fn plus(self, other: Self) -> Option<Self> {
        if let Some(number) = other.as_number() {
            return self.plus_number(number);
        }
        if let Some(number) = self.as_number() {
            return other.plus_number(number);
        }
        let (Self::Value(a), Self::Value(b)) = (self, other) else { return None };
        if (a.register.is_some() && b.register.is_some())
            || (a.register_times_8.is_some() && b.register_times_8.is_some())
        {
            return None;
        }
        Some(Self::Value(Linear {
            register: a.register.or(b.register),
            register_times_8: a.register_times_8.or(b.register_times_8),
            offset: a.offset.checked_add(b.offset)?,
        }))
    }

    fn times_8(self) -> Option<Self> {
        match self {
            Self::Value(Linear { register: Some(register), register_times_8: None, offset: 0 }) => {
                Some(Self::Value(Linear { register_times_8: Some(register), ..Linear::default() }))
            }
            _ => None,
        }
    }

    fn load(self) -> Option<Self> {
        match self {
            Self::Value(at) => Some(Self::Loaded(at, 0)),
            Self::Loaded(..) => None,
        }
    }
}

struct Terms<'a, R, S> {
    section: &'a S,
    encoding: Encoding,
    reader: std::marker::PhantomData<R>,
}

impl<R, S> Terms<'_, R, S>
where
    R: Reader<Offset = usize>,
    S: UnwindSection<R>,
{
    fn cfa(&self, rule: &CfaRule<usize>) -> Option<Rule> {
        match rule {
            CfaRule::RegisterAndOffset { register, offset } => {
                Some(Rule::reg(general_register(register.0)?, i32::try_from(*offset).ok()?))
            }
            CfaRule::Expression(expression) => {
                if let Some(rule) = self.plt(expression) {
                    return Some(rule);
                }
                match self.term(expression)? {
                    Term::Value(Linear { register: Some(register), register_times_8: None, offset }) => {
                        Some(Rule::reg(register, i32::try_from(offset).ok()?))
                    }
                    Term::Loaded(Linear { register: Some(register), register_times_8, offset }, added) => {
                        let offset = i32::try_from(offset).ok()?;
                        let added = i16::try_from(added).ok()?;
                        Some(match register_times_8 {
                            None => Rule::deref(register, offset, added),
                            Some(index) => Rule::deref_index(register, index, offset, added),
                        })
                    }
                    Term::Value(_) | Term::Loaded(..) => None,
                }
            }
        }
    }

    /// `rsp + off + ((rip & 15) >= threshold) << 3`, which linkers write for the procedure linkage table.
    fn plt(&self, expression: &UnwindExpression<usize>) -> Option<Rule> {
        use Operation::{And, Ge, Plus, RegisterOffset, Shl, UnsignedConstant};
        let operations = self.operations(expression)?;
        let [
            RegisterOffset { register: X86_64::RSP, offset, .. },
            RegisterOffset { register: X86_64::RA, offset: 0, .. },
            UnsignedConstant { value: 15 },
            And,
            UnsignedConstant { value: threshold @ 0..=15 },
            Ge,
            UnsignedConstant { value: 3 },
            Shl,
            Plus,
        ] = operations[..]
        else {
            return None;
        };
        Some(Rule::plt(i32::try_from(offset).ok()?, i16::try_from(threshold).ok()?))
    }

    fn with_return_address(&self, rule: Rule, saved: Option<RegisterRule<usize>>) -> Option<Rule> {
        match saved? {
            RegisterRule::Offset(offset) => rule.with_ra_at(offset),
            RegisterRule::Register(register) => rule.with_ra_in_register(general_register(register.0)?),
            RegisterRule::Expression(expression) => {
                let offset = self.offset_from_cfa(rule, &expression)?;
                rule.with_ra_at(i64::from(offset))
            }
            _ => None,
        }
    }

    fn with_rbp(&self, rule: Rule, saved: Option<RegisterRule<usize>>) -> Option<Rule> {
        match saved {
            // Callee-saved by the ABI, so "no rule" means unchanged. A row that declares rbp lost leaves
            // whatever rbp holds now; a later rule that needs it fails its checks.
            None | Some(RegisterRule::SameValue | RegisterRule::Undefined) => Some(rule),
            Some(RegisterRule::Offset(offset)) => {
                let offset = i32::try_from(offset).ok()?;
                let is_popped = rule.kind == RuleKind::Reg
                    && rule.cfa_reg == RSP
                    && rule.cfa_off.checked_add(offset)? < 0;
                // Compilers leave the rule in place after `pop rbp`; the slot is then below rsp, and rbp
                // itself already holds the caller's value.
                Some(if is_popped { rule } else { rule.with_rbp_at_cfa(offset) })
            }
            Some(RegisterRule::Expression(expression)) => match self.term(&expression)? {
                Term::Value(Linear { register: Some(RBP), register_times_8: None, offset }) => {
                    Some(rule.with_rbp_at_rbp(i32::try_from(offset).ok()?))
                }
                _ => Some(rule.with_rbp_at_cfa(self.offset_from_cfa(rule, &expression)?)),
            },
            Some(_) => None,
        }
    }

    /// The place that an expression names, as an offset from the CFA, where both have the same base.
    fn offset_from_cfa(&self, rule: Rule, expression: &UnwindExpression<usize>) -> Option<i32> {
        let Term::Value(Linear { register: Some(register), register_times_8: None, offset }) =
            self.term(expression)?
        else {
            return None;
        };
        if rule.kind != RuleKind::Reg || rule.cfa_reg != register {
            return None;
        }
        i32::try_from(offset.checked_sub(i64::from(rule.cfa_off))?).ok()
    }

    /// Whether the saved registers are where the kernel puts them. Other signal frames exist only on
    /// paper so far; they would go to user space.
    fn is_kernel_signal_frame(&self, row: &CfiRow, rule: Rule) -> bool {
        let Some(RegisterRule::Expression(expression)) = row.register(X86_64::RA) else { return false };
        let rip = Linear { register: Some(RSP), register_times_8: None, offset: UCONTEXT_RIP };
        rule == Rule::deref(RSP, UCONTEXT_RSP, 0) && self.term(&expression) == Some(Term::Value(rip))
    }

    fn operations(&self, expression: &UnwindExpression<usize>) -> Option<Vec<Operation<R>>> {
        let bytes: Expression<R> = expression.get(self.section).ok()?;
        let mut iter = bytes.operations(self.encoding);
        let mut operations = Vec::new();
        while let Some(operation) = iter.next().ok()? {
            if operations.len() == MAX_OPERATIONS {
                return None;
            }
            operations.push(operation);
        }
        Some(operations)
    }

    fn term(&self, expression: &UnwindExpression<usize>) -> Option<Term> {
        let mut stack: Vec<Term> = Vec::new();
        for operation in self.operations(expression)? {
            let term = match operation {
                Operation::RegisterOffset { register, offset, .. } => Term::Value(Linear {
                    register: Some(general_register(register.0)?),
                    register_times_8: None,
                    offset,
                }),
                Operation::UnsignedConstant { value } => Term::number(i64::try_from(value).ok()?),
                Operation::SignedConstant { value } => Term::number(value),
                Operation::PlusConstant { value } => stack.pop()?.plus_number(i64::try_from(value).ok()?)?,
                Operation::Plus => {
                    let top = stack.pop()?;
                    stack.pop()?.plus(top)?
                }
                Operation::Minus => {
                    let top = stack.pop()?.as_number()?;
                    stack.pop()?.plus_number(top.checked_neg()?)?
                }
                Operation::Mul => {
                    let (top, below) = (stack.pop()?, stack.pop()?);
                    if top.as_number() == Some(8) {
                        below.times_8()?
                    } else if below.as_number() == Some(8) {
                        top.times_8()?
                    } else {
                        return None;
                    }
                }
                Operation::Shl => {
                    if stack.pop()?.as_number() != Some(3) {
                        return None;
                    }
                    stack.pop()?.times_8()?
                }
                Operation::Deref { size: 8, space: false, base_type } if base_type.0 == 0 => {
                    stack.pop()?.load()?
                }
                Operation::Nop => continue,
                _ => return None,
            };
            stack.push(term);
        }
        stack.pop()
    }
}

fn general_register(number: u16) -> Option<u8> {
    u8::try_from(number).ok().filter(|&number| number < 16)
}
