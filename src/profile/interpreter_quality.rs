//! How far the functions of interpreters in a profile can be trusted.

use super::contents::{Profile, counter};
use super::rows::ModuleKind;
use crate::base::units::{honest_percent_text, percent};
use std::collections::BTreeSet;

/// Beginning of the names of runtimes that keep their frames apart from the native ones.
const SIDE_LISTS: [&str; 4] = ["python ", "ruby ", "php ", "perl "];

impl Profile {
    /// Returns how far the functions of interpreters can be trusted, in words: `python 3.11 99.9% placed, 100% named`. Of
    /// samples of threads that an interpreter knows, those whose functions are where they belong in the stack, and of
    /// these functions those that have names; of functions that have native frames, those that have names. `None` where no
    /// runtime was recorded.
    pub(crate) fn interpreter_words(&self) -> Option<String> {
        let modules = self.tables.modules().iter();
        let runtimes: BTreeSet<&str> = (modules.filter(|module| module.kind == ModuleKind::Runtime))
            .map(|module| self.tables.string(module.path))
            .collect();
        let count = |name| self.counter(name);
        let share = |bad: u64, all: u64| honest_percent_text(percent(all.saturating_sub(bad), all.max(1)));
        // The functions of all others stand on the native stack.
        let (interpreters, managed): (Vec<&str>, Vec<&str>) =
            runtimes.into_iter().partition(|runtime| SIDE_LISTS.iter().any(|list| runtime.starts_with(list)));
        let mut words = Vec::new();
        let samples = count(counter::INTERPRETER_SAMPLES);
        if !interpreters.is_empty() && samples > 0 {
            let placed = share(count(counter::INTERPRETER_MISMATCHES), samples);
            let frames = count(counter::INTERPRETER_FRAMES);
            let named = share(count(counter::INTERPRETER_FRAMES_UNREAD), frames);
            let unread = count(counter::INTERPRETER_SAMPLES_UNREAD);
            let read = match unread {
                0 => String::new(),
                _ => format!("{} read, ", share(unread, samples + unread)),
            };
            words.push(format!("{} {read}{placed} placed, {named} named", interpreters.join(", ")));
        }
        let frames = count(counter::MANAGED_FRAMES);
        if !managed.is_empty() && frames > 0 {
            let named = share(count(counter::MANAGED_FRAMES_UNREAD), frames);
            words.push(format!("{} {named} named", managed.join(", ")));
        }
        (!words.is_empty()).then(|| words.join("   "))
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
        let path = profile.tables.intern_string("node 20.20");
        profile.tables.intern_module(Module { path, kind: ModuleKind::Runtime, ..Module::default() });
        profile.count(counter::MANAGED_FRAMES, 1_000);
        profile.count(counter::MANAGED_FRAMES_UNREAD, 10);
        let words = "python 3.11 99.5% placed, 100.0% named   node 20.20 99.0% named";
        assert_eq!(profile.interpreter_words().as_deref(), Some(words));
    }
}
