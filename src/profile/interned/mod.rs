//! Rows in order of insertion with dense ids, of which equal ones share one: for values of any kind, and for stacks. What the
//! rows mean does not belong here.

mod intern_set;
mod stack_set;

pub(super) use intern_set::InternSet;
pub(super) use stack_set::StackSet;
