//! What goes into following a function, and what comes of it.

use super::abstract_state::Callees;
use super::never_return::NeverReturn;
use crate::unwind::code::bytes::CodeSections;
use crate::unwind::table::sequence::Sequences;
use crate::unwind::table::span::Span;
use rustc_hash::FxHashSet;
use std::collections::BTreeSet;

/// Result of following a function.
#[derive(Debug, Default)]
pub(crate) struct FunctionAnalysis {
    /// Rules by address: ascending, without overlaps.
    pub(crate) spans: Vec<Span>,
    /// Functions that it calls or jumps to.
    pub(crate) calls: Vec<u64>,
    /// Other code addresses that it takes.
    pub(crate) taken: Vec<u64>,
    /// Instructions visited.
    pub(crate) visits: usize,
    /// Whether the function is certain, and returns.
    pub(crate) returns: bool,
    /// Whether the function is certain, and takes its arguments off the stack when it returns (`ret n`).
    pub(super) takes_arguments: bool,
    /// Something on the way says that the function does not begin so, or that what follows a call is not its own.
    pub(super) is_contradicted: bool,
    /// No way leads back to the caller.
    pub(super) never_returns: bool,
    /// The address after the instructions that follow its first one without a gap.
    pub(super) runs_to: u64,
}

/// Facts of the rest of a module that bear on its code without entries.
#[derive(Debug, Default)]
pub(crate) struct ModuleFacts<'a> {
    /// The entries that there are.
    pub(crate) entries: Option<&'a Sequences>,
    pub(in crate::unwind::code) never_return: NeverReturn,
    /// The module is linked for fixed addresses: instructions may have them as plain numbers.
    pub(crate) has_fixed_addresses: bool,
}

/// Facts known of the module around a function.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Surroundings<'a> {
    /// Code without entries.
    pub(crate) code: &'a CodeSections<'a>,
    /// The function starts that are certain: nothing flows into them.
    pub(crate) certain: &'a BTreeSet<u64>,
    /// The other ones that are known.
    pub(crate) taken: &'a BTreeSet<u64>,
    pub(crate) callees: Callees,
    pub(crate) facts: &'a ModuleFacts<'a>,
    /// Functions without names that never return.
    pub(super) never_return: &'a FxHashSet<u64>,
    /// The function was followed before, and did not make sense: where a function may begin after a call, it ends.
    pub(super) is_repeated: bool,
}
