//! What /proc tells about processes. Processes vanish at any time: a missing file is an answer.

use crate::base::opener;
use crate::record::kernel::sideband::CodeMapping;
use std::fs::{self, File};
use std::io::{self, Read};
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::path::PathBuf;

/// Most bytes read of one file of /proc: a process with 65,530 mappings (the kernel's limit) of long
/// names stays below.
const MAX_BYTES: u64 = 64 << 20;

fn read(pid: u32, name: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    open(pid, name)?.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Opens a file of a process for reading.
///
/// # Errors
///
/// When it is not there, or may not be read.
pub(crate) fn open(pid: u32, name: &str) -> io::Result<File> {
    opener::process_file(pid, name)
}

/// The root folder of a process, or this one's where the process is gone.
pub(crate) fn root_of(pid: u32) -> PathBuf {
    let root = PathBuf::from(format!("/proc/{pid}/root"));
    if opener::folder(&root).is_ok() { root } else { PathBuf::from("/") }
}

/// The thread under which /proc shows what a process has: one that lives, or the first one where none does.
pub(crate) fn thread_to_read(pid: u32) -> u32 {
    live_thread(pid).unwrap_or(pid)
}

/// A thread of the process that has not ended: the process itself, unless its first thread has ended before
/// the others. /proc shows what such a process has mapped only under a thread that lives.
pub(crate) fn live_thread(pid: u32) -> Option<u32> {
    match state(pid) {
        Some(true) => return Some(pid),
        // Its first thread is shown for as long as it has others.
        None => return None,
        Some(false) => {}
    }
    match threads(pid) {
        Ok(threads) => threads.into_iter().find(|&tid| is_alive(tid)),
        Err(error) => (!is_gone(&error)).then_some(pid),
    }
}

/// Whether a file of /proc is missing because its process is. Anything else, such as too many open files, says nothing
/// of the process.
fn is_gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ESRCH))
}

/// Whether the thread runs or waits: it exists and is no zombie. One that cannot be asked counts as alive.
pub(crate) fn is_alive(tid: u32) -> bool {
    state(tid).unwrap_or(false)
}

/// Whether the thread is no zombie; `None` if there is none.
fn state(tid: u32) -> Option<bool> {
    let stat = match read(tid, "stat") {
        Ok(stat) => stat,
        Err(error) => return (!is_gone(&error)).then_some(true),
    };
    // The name, in parentheses, may hold anything; the state is after the last one.
    let state = stat.iter().rposition(|&byte| byte == b')').and_then(|end| stat.get(end + 2));
    Some(!matches!(state, Some(b'Z' | b'X') | None))
}

/// Name of a process or, by its thread id, of a thread.
pub(crate) fn comm(pid: u32) -> io::Result<String> {
    let bytes = read(pid, "comm")?;
    Ok(String::from_utf8_lossy(bytes.strip_suffix(b"\n").unwrap_or(&bytes)).into_owned())
}

/// Whether a Java machine was started without the option that makes its compilers keep frame pointers. Its interpreter
/// keeps them always; one that never compiles therefore does. True where the options cannot be read.
pub(crate) fn java_lacks_frame_pointers(pid: u32) -> bool {
    let has_option = |name: &str| {
        let text = read(pid, name).unwrap_or_default();
        let is_one = |word: &[u8]| word.ends_with(b"-XX:+PreserveFramePointer") || word.ends_with(b"-Xint");
        // In variables such as JAVA_TOOL_OPTIONS they are separated by spaces.
        text.split(|byte| *byte == 0 || *byte == b' ' || *byte == b'=').any(is_one)
    };
    !has_option("cmdline") && !has_option("environ")
}

/// A field of /proc/PID/status.
fn status_field(pid: u32, name: &str) -> io::Result<Option<String>> {
    let bytes = read(pid, "status")?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(text
        .lines()
        .find_map(|line| line.strip_prefix(name)?.strip_prefix(':'))
        .map(|value| value.trim().to_owned()))
}

/// Whether a process has one thread and has never used much of its stack. What other threads have used is not known.
pub(crate) fn has_small_stacks(pid: u32) -> bool {
    const MOST_KIB: u64 = 256;
    let number = |name| -> Option<u64> {
        status_field(pid, name).ok()??.split_ascii_whitespace().next()?.parse().ok()
    };
    number("Threads") == Some(1) && number("VmStk").is_some_and(|kib| kib <= MOST_KIB)
}

/// Process id that a thread belongs to.
pub(crate) fn process_of_thread(tid: u32) -> io::Result<Option<u32>> {
    Ok(status_field(tid, "Tgid")?.and_then(|value| value.parse().ok()))
}

/// Number of a process in the PID namespace that it is in itself.
pub(crate) fn innermost_number(pid: u32) -> Option<u32> {
    status_field(pid, "NSpid").ok()??.split_ascii_whitespace().next_back()?.parse().ok()
}

/// Address of the list of robust locks that a thread has named to the kernel: the C library's, in what it keeps of the thread.
pub(crate) fn robust_list(tid: u32) -> Option<u64> {
    opener::robust_list(tid).ok().filter(|&list| list != 0)
}

/// The arguments of a process as it has them now, each ended by a NUL.
pub(crate) fn command_line(pid: u32) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    // What a title needs; some command lines are megabytes.
    open(pid, "cmdline")?.take(4096).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// File name of the executable.
pub(crate) fn executable_name(pid: u32) -> Option<String> {
    let place = opener::process_place(pid, "exe").ok()?;
    let target = fs::read_link(format!("/proc/self/fd/{}", place.as_raw_fd())).ok()?;
    Some(target.file_name()?.to_string_lossy().trim_end_matches(" (deleted)").to_owned())
}

/// All process ids, in ascending order.
pub(crate) fn processes() -> io::Result<Vec<u32>> {
    opener::list_processes()
}

/// All thread ids of a process.
pub(crate) fn threads(pid: u32) -> io::Result<Vec<u32>> {
    opener::list_threads(pid)
}

/// The parent of a process.
pub(crate) fn parent(pid: u32) -> Option<u32> {
    stat_field(&read(pid, "stat").ok()?, 4)?.try_into().ok()
}

/// CPU time that the kernel's books have of a process or thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct CpuTime {
    /// Time in its own code, ns.
    pub(crate) user_ns: u64,
    /// Time in the kernel, ns.
    pub(crate) system_ns: u64,
    /// Time in their own code of children that have ended, with their children, ns.
    pub(crate) children_user_ns: u64,
    /// Time of the same children in the kernel, ns.
    pub(crate) children_system_ns: u64,
}

impl CpuTime {
    fn each(&self, other: &CpuTime, with: impl Fn(u64, u64) -> u64) -> CpuTime {
        CpuTime {
            user_ns: with(self.user_ns, other.user_ns),
            system_ns: with(self.system_ns, other.system_ns),
            children_user_ns: with(self.children_user_ns, other.children_user_ns),
            children_system_ns: with(self.children_system_ns, other.children_system_ns),
        }
    }

    /// Returns the time that was added since `before`.
    pub(crate) fn since(&self, before: &CpuTime) -> CpuTime {
        self.each(before, u64::saturating_sub)
    }

    /// Returns the sum of both times.
    pub(crate) fn plus(&self, other: &CpuTime) -> CpuTime {
        self.each(other, u64::saturating_add)
    }

    /// The part that a sampler sees, ns.
    pub(crate) fn sampled_ns(&self, has_children: bool, user_only: bool) -> u64 {
        let children = if has_children { (self.children_user_ns, self.children_system_ns) } else { (0, 0) };
        let system_ns = if user_only { 0 } else { self.system_ns.saturating_add(children.1) };
        self.user_ns.saturating_add(children.0).saturating_add(system_ns)
    }
}

/// CPU time of all threads of a process, also of one that has ended and was not waited for. To a tick.
pub(crate) fn cpu_time(pid: u32) -> Option<CpuTime> {
    parse_cpu_time(&read(pid, "stat").ok()?)
}

/// CPU time of a thread.
pub(crate) fn cpu_time_of_thread(tid: u32) -> Option<CpuTime> {
    // The file of a thread has its own times only under its process.
    let stat = read(tid, &format!("task/{tid}/stat")).ok()?;
    let time = parse_cpu_time(&stat)?;
    Some(CpuTime { children_user_ns: 0, children_system_ns: 0, ..time })
}

fn parse_cpu_time(stat: &[u8]) -> Option<CpuTime> {
    let ns_per_tick = 1_000_000_000 / rustix::param::clock_ticks_per_second();
    let field = |number| stat_field(stat, number)?.checked_mul(ns_per_tick);
    Some(CpuTime {
        user_ns: field(14)?,
        system_ns: field(15)?,
        children_user_ns: field(16)?,
        children_system_ns: field(17)?,
    })
}

/// Flag of the kernel's own processes (include/linux/sched.h).
const PF_KTHREAD: u64 = 0x0020_0000;

/// Whether a process is the kernel's own.
pub(crate) fn is_of_kernel(pid: u32) -> bool {
    let flags = read(pid, "stat").ok().and_then(|text| stat_field(&text, 9));
    flags.is_some_and(|flags| flags & PF_KTHREAD != 0)
}

/// Whether a process was stopped, by a signal or a debugger, and does nothing until it is continued.
pub(crate) fn is_stopped(pid: u32) -> bool {
    let Ok(text) = read(pid, "stat") else { return false };
    matches!(stat_text(&text, 3), Some("T" | "t"))
}

/// Facts that a list of processes shows of one process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ProcessLoad {
    /// Start of the process, ticks since boot: with its number the process is meant, and no later one.
    pub(crate) start_ticks: u64,
    /// CPU time of all its threads so far.
    pub(crate) cpu: CpuTime,
    /// Number of threads.
    pub(crate) threads: u64,
}

/// The load of a process of user space that runs; `None` of one that has ended, and of the kernel's own.
pub(crate) fn load(pid: u32) -> Option<ProcessLoad> {
    parse_load(&read(pid, "stat").ok()?)
}

fn parse_load(stat: &[u8]) -> Option<ProcessLoad> {
    let end = stat.iter().rposition(|&byte| byte == b')')?;
    let is_over = matches!(stat.get(end + 2), Some(b'Z' | b'X') | None);
    let is_of_kernel = stat_field(stat, 9)? & PF_KTHREAD != 0;
    (!is_over && !is_of_kernel).then_some(ProcessLoad {
        start_ticks: stat_field(stat, 22)?,
        cpu: parse_cpu_time(stat)?,
        threads: stat_field(stat, 20)?,
    })
}

/// The field of /proc/PID/stat with the number that proc(5) gives it, from 3 on.
fn stat_text(text: &[u8], number: usize) -> Option<&str> {
    // The second field is a name in brackets, which may hold anything.
    let after_name = text.iter().rposition(|&byte| byte == b')')?;
    let fields = std::str::from_utf8(&text[after_name + 1..]).ok()?;
    fields.split_ascii_whitespace().nth(number.checked_sub(3)?)
}

/// The same of a field that is a number.
fn stat_field(text: &[u8], number: usize) -> Option<u64> {
    stat_text(text, number)?.parse().ok()
}

/// Memory of a process that is of no file, bytes; `None` when it is gone.
pub(crate) fn anonymous_bytes(pid: u32) -> Option<u64> {
    let status = String::from_utf8(read(pid, "status").ok()?).ok()?;
    let field = status.lines().find_map(|line| line.strip_prefix("RssAnon:"))?;
    field.trim().strip_suffix(" kB")?.trim().parse::<u64>().ok().map(|kilobytes| kilobytes * 1024)
}

/// The text of /proc/PID/maps.
pub(crate) fn mappings_text(pid: u32) -> io::Result<Vec<u8>> {
    read(pid, "maps")
}

/// The executable mappings of a process, in ascending order.
pub(crate) fn code_mappings(pid: u32) -> io::Result<Vec<CodeMapping>> {
    let bytes = read(thread_to_read(pid), "maps")?;
    Ok(parse_maps(&bytes))
}

/// Executable mappings in the text of /proc/PID/maps (proc_pid_maps(5)). Lines of another form are skipped.
pub(crate) fn parse_maps(text: &[u8]) -> Vec<CodeMapping> {
    text.split(|&byte| byte == b'\n').filter_map(parse_maps_line).collect()
}

/// The mapping that holds an address; `None` if there is none or the process is gone.
pub(crate) fn mapping_around(pid: u32, address: u64) -> Option<Range<u64>> {
    let text = read(pid, "maps").ok()?;
    text.split(|&byte| byte == b'\n').find_map(|line| {
        let range = std::str::from_utf8(line.split(|&byte| byte == b' ').next()?).ok()?;
        let (start, end) = range.split_once('-')?;
        let range = u64::from_str_radix(start, 16).ok()?..u64::from_str_radix(end, 16).ok()?;
        range.contains(&address).then_some(range)
    })
}

fn parse_maps_line(line: &[u8]) -> Option<CodeMapping> {
    let line = String::from_utf8_lossy(line);
    let mut rest = &*line;
    let mut field = || {
        let (field, after) = rest.split_once(' ').unwrap_or((rest, ""));
        rest = after;
        field
    };
    let (range, protection, offset, device, inode) = (field(), field(), field(), field(), field());
    if protection.as_bytes().get(2) != Some(&b'x') {
        return None;
    }
    let (start, end) = range.split_once('-')?;
    let (major, minor) = device.split_once(':')?;
    let mapping = CodeMapping {
        start: u64::from_str_radix(start, 16).ok()?,
        end: u64::from_str_radix(end, 16).ok()?,
        file_offset: u64::from_str_radix(offset, 16).ok()?,
        device: (u32::from_str_radix(major, 16).ok()?, u32::from_str_radix(minor, 16).ok()?),
        inode: inode.parse().ok()?,
        path: rest.trim_start_matches(' ').to_owned(),
    };
    (mapping.start < mapping.end).then_some(mapping)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_executable_lines_become_mappings() {
        let text = b"55d0c0000000-55d0c0001000 r--p 00000000 fe:01 42                         /bin/a b\n\
                     55d0c0001000-55d0c0003000 r-xp 00001000 fe:01 42                         /bin/a b\n\
                     7f0000000000-7f0000001000 rwxp 00000000 00:00 0 \n\
                     7ffd1000-7ffd3000 r-xp 00000000 00:00 0                          [vdso]\n\
                     garbage\n\
                     9-1 r-xp 0 0:0 0\n";
        let mappings = parse_maps(text);
        let names: Vec<&str> = mappings.iter().map(|mapping| &*mapping.path).collect();
        assert_eq!(names, ["/bin/a b", "", "[vdso]"]);
        assert_eq!((mappings[0].file_offset, mappings[0].inode), (0x1000, 42));
        assert_eq!(mappings[0].device, (0xfe, 1));
    }

    #[test]
    fn cpu_times_are_those_of_the_books() {
        let stat = b"7 (a) b) S 1 1 1 0 -1 4194560 1 2 3 4 50 60 7 8 20 0 1 0 4242 0 0";
        let time = parse_cpu_time(stat).expect("all fields");
        let tick_ns = 1_000_000_000 / rustix::param::clock_ticks_per_second();
        assert_eq!((time.user_ns, time.system_ns), (50 * tick_ns, 60 * tick_ns));
        assert_eq!((time.children_user_ns, time.children_system_ns), (7 * tick_ns, 8 * tick_ns));
        assert_eq!(time.sampled_ns(true, true), 57 * tick_ns);
        assert_eq!((parse_cpu_time(b"7 (a"), cpu_time(u32::MAX)), (None, None));
        assert!(cpu_time(std::process::id()).is_some());
    }

    #[test]
    fn processes_that_have_ended_and_those_of_the_kernel_have_no_load() {
        let stat = |state: &str, flags: u64| {
            format!("7 (a) b) {state} 1 1 1 0 -1 {flags} 1 2 3 4 50 60 7 8 20 0 3 0 4242 0 0").into_bytes()
        };
        let load = parse_load(&stat("S", 0x0040_0100)).expect("it runs");
        assert_eq!((load.start_ticks, load.threads), (4242, 3));
        assert_eq!(parse_load(&stat("Z", 0x0040_0100)), None);
        assert_eq!(parse_load(&stat("I", PF_KTHREAD)), None);
        assert_eq!((parse_load(b"7 (a"), parse_load(b""), self::load(u32::MAX)), (None, None, None));
    }

    #[test]
    fn only_a_file_that_is_not_there_means_that_a_process_is_gone() {
        let pid = std::process::id();
        assert_eq!((is_alive(pid), live_thread(pid)), (true, Some(pid)));
        assert_eq!((is_alive(u32::MAX), live_thread(u32::MAX)), (false, None));
        let means_gone = |code| is_gone(&io::Error::from_raw_os_error(code));
        assert!(means_gone(libc::ENOENT) && means_gone(libc::ESRCH));
        assert!(
            [libc::EMFILE, libc::ENFILE, libc::EACCES, libc::ENOMEM].iter().all(|&code| !means_gone(code))
        );
    }

    #[test]
    fn own_process_has_code_threads_and_a_name() {
        let pid = std::process::id();
        assert!(code_mappings(pid).expect("own maps").iter().any(|m| m.path == "[vdso]"));
        assert!(threads(pid).expect("own threads").contains(&pid));
        assert!(!comm(pid).expect("own name").is_empty());
        assert_eq!(process_of_thread(pid).expect("own status"), Some(pid));
        assert!(!has_small_stacks(pid), "tests run in threads");
    }

    #[test]
    fn a_process_of_one_thread_has_a_small_stack_until_it_uses_more() {
        let mut child = std::process::Command::new("sleep").arg("60").spawn().expect("`sleep` can be run");
        let pid = child.id();
        // Until its exec it is this process's image.
        let has = (0..1000).any(|_| {
            std::thread::sleep(std::time::Duration::from_millis(1));
            comm(pid).is_ok_and(|name| name == "sleep") && has_small_stacks(pid)
        });
        child.kill().expect("own child");
        child.wait().expect("own child");
        assert!(has);
        assert!(!has_small_stacks(pid), "it is gone");
    }

    proptest::proptest! {
        #[test]
        fn any_text_parses_without_panic(text in proptest::collection::vec(proptest::num::u8::ANY, 0..400)) {
            for mapping in parse_maps(&text) {
                proptest::prop_assert!(mapping.start < mapping.end);
            }
        }
    }
}
