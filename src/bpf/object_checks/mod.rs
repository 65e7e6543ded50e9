//! What must hold of the compiled BPF object, checked on its instructions: what may be called where (`call_rules`), how loops
//! are laid out (`loop_rules`), how much stack is taken (`stack_rules`).

mod call_rules;
mod instruction;
mod loop_rules;
mod stack_rules;
