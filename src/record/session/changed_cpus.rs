//! CPUs that come online or go while they are recorded.

use super::Session;
use crate::record::environment::machine::online_cpus;
use crate::record::environment::namespaces::monotonic_ns;

impl Session<'_> {
    /// Samples CPUs that have come online, if it is time to look for them; those that have gone are given up.
    pub(super) fn look_at_cpus(&mut self) {
        let now_ns = monotonic_ns();
        // Before the recording begins there are no samplers yet: the first look after that finds what has changed.
        let has_begun = self.collector.profile.meta.start_mono_ns > 0;
        if !has_begun || self.stop_ns.is_some() || !self.cpus.is_due(now_ns) {
            return;
        }
        // What cannot be read now can be later.
        let Ok(online) = online_cpus() else { return };
        let kernel = &self.kernel;
        let changes = self.cpus.look(&online, now_ns, |cpu| kernel.enabled_ns(cpu));
        for cpu in changes.gone {
            self.kernel.forget_cpu(cpu);
            self.drain.exchange(cpu, None);
        }
        let mut has_new = false;
        for cpu in changes.came {
            match self.kernel.add_cpu(cpu) {
                Ok(sideband) => {
                    has_new = true;
                    self.cpus.is_sampled(cpu, monotonic_ns());
                    if sideband.is_some() {
                        self.drain.exchange(cpu, sideband);
                    }
                }
                // It may have gone again, or there may be room for it later: the next look tries again.
                Err(error) => {
                    self.kernel.forget_cpu(cpu);
                    self.notices.extend(self.cpus.is_refused(cpu, &error));
                }
            }
        }
        if has_new {
            let meta = &mut self.collector.profile.meta;
            meta.cpus = meta.cpus.max(self.cpus.count() as u32);
            // What was mapped on it before its side-band was there.
            self.read_mappings_again(monotonic_ns());
        }
    }
}
