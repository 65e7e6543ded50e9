//! How far the functions of interpreters in a profile can be trusted.

use super::contents::{Profile, counter};
use super::rows::ModuleKind;
use crate::base::units::{honest_percent_text, percent};
use std::collections::BTreeSet;

impl Profile {
    /// Returns how far the functions of interpreters can be trusted, in words: `python 3.11 99.9% placed, 100% named`. Of
    /// samples of threads that an interpreter knows, those whose functions are where they belong in the stack, and of
    /// these functions those that have names. `None` where no interpreter was recorded.
    pub(crate) fn interpreter_words(&self) -> Option<String> {
        let modules = self.tables.modules().iter();
        let runtimes: BTreeSet<&str> = (modules.filter(|module| module.kind == ModuleKind::Runtime))
            .map(|module| self.tables.string(module.path))
            .collect();
        let count = |name| self.counter(name);
        let samples = count(counter::INTERPRETER_SAMPLES);
        if runtimes.is_empty() || samples == 0 {
            return None;
        }
        let share = |bad: u64, all: u64| honest_percent_text(percent(all.saturating_sub(bad), all.max(1)));
        let placed = share(count(counter::INTERPRETER_MISMATCHES), samples);
        let frames = count(counter::INTERPRETER_FRAMES);
        let named = share(count(counter::INTERPRETER_FRAMES_UNREAD), frames);
        let runtimes = Vec::from_iter(runtimes).join(", ");
        Some(format!("{runtimes} {placed} placed, {named} named"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Meta, Module};

    #[test]
    fn trust_in_interpreters_is_said_where_one_was_recorded() {
        let mut profile = Profile::new(Meta::default());
        profile.count(counter::INTERPRETER_SAMPLES, 200);
        assert_eq!(profile.interpreter_words(), None);
        let path = profile.tables.intern_string("python 3.11");
        profile.tables.intern_module(Module { path, kind: ModuleKind::Runtime, ..Module::default() });
        profile.count(counter::INTERPRETER_MISMATCHES, 1);
        profile.count(counter::INTERPRETER_FRAMES, 1_000);
        assert_eq!(profile.interpreter_words().as_deref(), Some("python 3.11 99.5% placed, 100.0% named"));
    }
}
