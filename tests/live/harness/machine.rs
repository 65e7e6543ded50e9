//! What this machine allows: who may run live tests, which tools are there, and whose turn it is.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// So many tests record at a time: they mostly sleep, and what they assert holds on a busy machine.
const SIDE_BY_SIDE: usize = 2;

/// Places that are free, and tests that want all of them.
static PLACES: Mutex<(usize, usize)> = Mutex::new((SIDE_BY_SIDE, 0));
static GIVEN_BACK: Condvar = Condvar::new();

/// Held while a test records.
pub(crate) struct Turn {
    places: usize,
}

impl Drop for Turn {
    fn drop(&mut self) {
        places().0 += self.places;
        GIVEN_BACK.notify_all();
    }
}

fn places() -> MutexGuard<'static, (usize, usize)> {
    // Nothing in between can panic; a test that failed gives its place back all the same.
    PLACES.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Waits until this test may record beside others; `None`, after saying why, where no recording is possible.
pub(crate) fn turn() -> Option<Turn> {
    records_here()?;
    let free = GIVEN_BACK.wait_while(places(), |(free, wanting_all)| *free == 0 || *wanting_all > 0);
    free.unwrap_or_else(PoisonError::into_inner).0 -= 1;
    Some(Turn { places: 1 })
}

/// The same for a test that others would disturb: it looks for its target by name, or counts what the whole test program takes.
pub(crate) fn turn_alone() -> Option<Turn> {
    records_here()?;
    let mut wanted = places();
    wanted.1 += 1;
    let free = GIVEN_BACK.wait_while(wanted, |(free, _)| *free < SIDE_BY_SIDE);
    let mut free = free.unwrap_or_else(PoisonError::into_inner);
    *free = (0, free.1 - 1);
    Some(Turn { places: SIDE_BY_SIDE })
}

/// Whether recordings are possible; says why if not.
fn records_here() -> Option<()> {
    if !rustix::process::geteuid().is_root() {
        return skip("live tests need root");
    }
    if !Path::new("/sys/kernel/btf/vmlinux").exists() {
        return skip("live tests need a kernel with BTF (/sys/kernel/btf/vmlinux)");
    }
    Some(())
}

/// Whether there are more threads that want to run than processors.
pub(crate) struct Crowd {
    begun: Instant,
    waited: Duration,
}

impl Crowd {
    /// From now on.
    pub(crate) fn watch() -> Crowd {
        Crowd { begun: Instant::now(), waited: waited_for_cpus() }
    }

    /// Since then some had to wait for more than half of the time.
    pub(crate) fn is_busy(&self) -> bool {
        waited_for_cpus().saturating_sub(self.waited) > self.begun.elapsed() / 2
    }
}

/// How long threads have waited for a CPU while there was none for them, since the machine has booted; nothing where the
/// kernel does not count it.
fn waited_for_cpus() -> Duration {
    let text = fs::read_to_string("/proc/pressure/cpu").unwrap_or_default();
    let total = text.lines().next().and_then(|line| line.rsplit_once("total=")?.1.parse().ok());
    Duration::from_micros(total.unwrap_or(0))
}

pub(crate) use crate::support::skip;

/// The full path of a tool in `PATH`.
pub(crate) fn tool(name: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|folder| folder.join(name)).find(|file| is_executable(file))
}

/// As [`tool`], and says that the test is skipped when it is missing.
pub(crate) fn tool_or_skip(name: &str) -> Option<PathBuf> {
    tool(name).or_else(|| skip(&format!("{name} is not installed")))
}

fn is_executable(file: &Path) -> bool {
    use std::os::unix::fs::PermissionsExt;
    fs::metadata(file).is_ok_and(|meta| meta.is_file() && meta.permissions().mode() & 0o111 != 0)
}

/// User and group number of an account.
pub(crate) fn account(name: &str) -> Option<(u32, u32)> {
    let passwd = fs::read_to_string("/etc/passwd").ok()?;
    passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        (fields.next()? == name).then_some(())?;
        Some((fields.nth(1)?.parse().ok()?, fields.next()?.parse().ok()?))
    })
}

/// A copy of `program` that every user can reach and run, in `folder` (which is opened to all).
pub(crate) fn copy_for_everyone(program: &Path, folder: &Path) -> PathBuf {
    use std::os::unix::fs::PermissionsExt;
    let copy = folder.join(program.file_name().expect("a program has a file name"));
    // By another process: a file that this one has open for writing is open in each child that another test starts meanwhile,
    // and cannot be executed until that calls exec.
    let copied = std::process::Command::new("cp").args([program, &copy]).status();
    assert!(copied.is_ok_and(|status| status.success()), "the copy of a program can be written");
    for path in [folder, &copy] {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).expect("own files can be opened to all");
    }
    copy
}

/// CLOCK_MONOTONIC, ns.
pub(crate) fn now_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Time that a hypervisor takes from this machine's CPUs. A program that runs then has neither run, by its own clocks, nor
/// waited.
pub(crate) struct StolenTime {
    before_ns: u64,
}

impl StolenTime {
    /// From now on.
    pub(crate) fn watch() -> StolenTime {
        StolenTime { before_ns: stolen_ns() }
    }

    /// What may have been taken until now, ns.
    pub(crate) fn most_ns(&self) -> u64 {
        /// So much may be taken without a tick of it being counted, where anything ever is.
        const LEAST_NS: u64 = 5_000_000;
        let now_ns = stolen_ns();
        if now_ns == 0 { 0 } else { now_ns - self.before_ns + LEAST_NS }
    }
}

/// What was taken since the machine was started, ns, to 10 ms for each CPU.
fn stolen_ns() -> u64 {
    const TICK_NS: u64 = 10_000_000;
    let stat = fs::read_to_string("/proc/stat").expect("/proc/stat can be read");
    let stolen = stat.lines().next().and_then(|all| all.split_whitespace().nth(8)?.parse::<u64>().ok());
    stolen.unwrap_or(0) * TICK_NS
}
