//! Chains of waits: what a thread waited for, as what the threads did meanwhile that ended its waits, back to code that ran or to
//! something outside of the program. The waits are those of waiting time. Nothing is printed here.

mod builder;
pub(crate) mod only_chains;
mod timelines;

#[cfg(test)]
mod tests;
