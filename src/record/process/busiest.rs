//! The processes of this machine by the CPU time that they use, for a list to choose from.

use super::proc_fs::{self, ProcessLoad};
use rustc_hash::FxHashMap;
use std::time::Instant;

/// A running process of user space.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct BusyProcess {
    /// Process id, in the PID namespace of `prof`.
    pub(crate) pid: u32,
    /// CPU time since the look before, as a share of one CPU in percent; `None` at the first look at it.
    pub(crate) cpu_percent: Option<f64>,
    /// CPU time in its whole life, ns.
    pub(crate) cpu_ns: u64,
    /// Number of threads.
    pub(crate) threads: u64,
    /// Command line, or the process's name in brackets where there is none. Any characters.
    pub(crate) command: String,
}

/// Looks at all processes again and again.
#[derive(Debug, Default)]
pub(crate) struct ProcessWatch {
    before: FxHashMap<u32, ProcessLoad>,
    looked: Option<Instant>,
}

impl ProcessWatch {
    /// All processes but this one and those of the kernel, the busiest since the last look first; without a last look, those
    /// that have used most CPU time.
    ///
    /// # Errors
    ///
    /// When /proc cannot be read.
    pub(crate) fn look(&mut self) -> std::io::Result<Vec<BusyProcess>> {
        let (now, own) = (Instant::now(), std::process::id());
        let others = proc_fs::processes()?.into_iter().filter(|pid| *pid != own);
        let found = others.filter_map(|pid| Some((pid, proc_fs::load(pid)?))).collect();
        let passed_ns = self.looked.map(|looked| now.duration_since(looked).as_nanos());
        self.looked = Some(now);
        Ok(self.update(found, passed_ns.unwrap_or(0), command_of))
    }

    /// The list of what was `found`, `passed_ns` after the look before, 0 if there was none.
    fn update(
        &mut self,
        found: Vec<(u32, ProcessLoad)>,
        passed_ns: u128,
        command_of: impl Fn(u32) -> String,
    ) -> Vec<BusyProcess> {
        let before = std::mem::take(&mut self.before);
        let row = |&(pid, load): &(u32, ProcessLoad)| {
            // A number may be another process's by now.
            let before = before.get(&pid).filter(|before| before.start_ticks == load.start_ticks);
            let used_ns = before.map(|before| own_ns(load.cpu.since(&before.cpu)));
            BusyProcess {
                pid,
                cpu_percent: used_ns
                    .filter(|_| passed_ns > 0)
                    .map(|used_ns| used_ns as f64 / passed_ns as f64 * 100.0),
                cpu_ns: own_ns(load.cpu),
                threads: load.threads,
                command: command_of(pid),
            }
        };
        let mut rows: Vec<BusyProcess> = found.iter().map(row).collect();
        let share = |row: &BusyProcess| row.cpu_percent.unwrap_or(0.0);
        rows.sort_by(|one, other| {
            let busier = share(other).total_cmp(&share(one)).then(other.cpu_ns.cmp(&one.cpu_ns));
            busier.then(one.pid.cmp(&other.pid))
        });
        self.before = found.into_iter().collect();
        rows
    }
}

/// Without that of children.
fn own_ns(cpu: proc_fs::CpuTime) -> u64 {
    cpu.user_ns.saturating_add(cpu.system_ns)
}

fn command_of(pid: u32) -> String {
    let line = proc_fs::command_line(pid).unwrap_or_default();
    let text = String::from_utf8_lossy(&line);
    let words = text.split('\0').map(str::trim).filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ");
    if words.is_empty() { format!("[{}]", proc_fs::comm(pid).unwrap_or_default()) } else { words }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proc_fs::CpuTime;

    fn load(start_ticks: u64, user_ns: u64) -> ProcessLoad {
        ProcessLoad { start_ticks, cpu: CpuTime { user_ns, ..CpuTime::default() }, threads: 1 }
    }

    #[test]
    fn the_busiest_since_the_last_look_come_first() {
        let mut watch = ProcessWatch::default();
        let first = vec![(1, load(10, 5_000)), (2, load(20, 9_000)), (3, load(30, 100))];
        let pids = |rows: &[BusyProcess]| rows.iter().map(|row| row.pid).collect::<Vec<_>>();
        let name = |pid: u32| format!("command {pid}");
        let rows = watch.update(first, 0, name);
        assert_eq!(pids(&rows), [2, 1, 3], "by what they have used in their lives");
        assert!(rows.iter().all(|row| row.cpu_percent.is_none()), "{rows:?}");

        // The number 3 is another process's now, and 4 is new.
        let second = vec![(1, load(10, 5_500)), (2, load(20, 9_000)), (3, load(31, 800)), (4, load(40, 10))];
        let rows = watch.update(second, 1_000, name);
        assert_eq!(pids(&rows), [1, 2, 3, 4]);
        let shares: Vec<Option<f64>> = rows.iter().map(|row| row.cpu_percent).collect();
        assert_eq!(shares, [Some(50.0), Some(0.0), None, None]);
        assert_eq!(rows[3].command, "command 4");
    }

    #[test]
    fn this_machines_processes_are_found_without_this_one() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("sleep starts");
        let rows = ProcessWatch::default().look().expect("/proc can be read");
        child.kill().and_then(|()| child.wait()).expect("it ends");
        let sleep = rows.iter().find(|row| row.pid == child.id()).expect("it is in the list");
        assert!(sleep.threads == 1 && sleep.command.contains("sleep"), "{sleep:?}");
        assert!(rows.iter().all(|row| row.pid != std::process::id()));
    }
}
