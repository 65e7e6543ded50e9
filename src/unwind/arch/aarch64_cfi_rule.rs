//! From one evaluated row of call frame information to a [`Rule`], on arm64.
//!
//! A function saves x29 and the return address side by side, mostly; where it has not yet, or need not,
//! the return address is in x30. What a rule cannot say becomes [`Rule::USER`].

use crate::elf::Architecture;
use crate::unwind::rule::Rule;
use crate::unwind::table::cfi_row::CfiRow;
use gimli::{AArch64, CfaRule, RegisterRule};

/// Distance of the return address from the saved x29 in a frame record, in bytes.
const RECORD_WORD: i64 = 8;

/// The rule of a row.
///
/// `is_signal_frame` is the CIE's `S` augmentation. Such entries describe the kernel's frame in several
/// ways, none of them with all registers: full evaluation takes the step, unless the code is recognised.
pub(crate) fn rule_of_row(row: &CfiRow, is_signal_frame: bool) -> Rule {
    let return_address = row.register(AArch64::X30);
    if return_address == Some(RegisterRule::Undefined) {
        return Rule::STOP;
    }
    if is_signal_frame {
        return Rule::USER;
    }
    cfa(row)
        .and_then(|rule| with_saved(rule, return_address, row.register(AArch64::X29)))
        .unwrap_or(Rule::USER)
}

fn cfa(row: &CfiRow) -> Option<Rule> {
    let CfaRule::RegisterAndOffset { register, offset } = row.cfa() else { return None };
    Some(Rule::reg(general_register(register.0)?, i32::try_from(*offset).ok()?))
}

fn with_saved(
    rule: Rule,
    return_address: Option<RegisterRule<usize>>,
    frame_pointer: Option<RegisterRule<usize>>,
) -> Option<Rule> {
    let saved_at = match frame_pointer {
        // Callee-saved by the ABI, so "no rule" means unchanged.
        None | Some(RegisterRule::SameValue | RegisterRule::Undefined) => None,
        Some(RegisterRule::Offset(offset)) => Some(offset),
        Some(_) => return None,
    };
    let rule = match saved_at {
        Some(offset) => rule.with_rbp_at_cfa(i32::try_from(offset).ok()?),
        None => rule,
    };
    match return_address {
        None | Some(RegisterRule::SameValue) => {
            rule.with_ra_in_register(Architecture::Aarch64.link_register()?)
        }
        Some(RegisterRule::Register(register)) => rule.with_ra_in_register(general_register(register.0)?),
        // It lies in the frame. Entries that say otherwise describe a buffer (longjmp), or are wrong.
        Some(RegisterRule::Offset(0..)) => None,
        Some(RegisterRule::Offset(offset)) => match saved_at {
            Some(saved_at) if saved_at.checked_add(RECORD_WORD) == Some(offset) => {
                Some(rule.with_frame_record_at_cfa(i32::try_from(saved_at).ok()?))
            }
            // Too far for `with_ra_at`, which has 16 bits.
            None if offset < i64::from(i16::MIN) => {
                let next_to = offset.checked_sub(RECORD_WORD)?;
                Some(rule.with_ra_next_to_rbp(i32::try_from(next_to).ok()?))
            }
            _ => rule.with_ra_at(offset),
        },
        Some(_) => None,
    }
}

fn general_register(number: u16) -> Option<u8> {
    u8::try_from(number).ok().filter(|&number| number < Architecture::Aarch64.register_count())
}
