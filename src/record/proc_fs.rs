//! What /proc tells about processes. Processes vanish at any time: a missing file is an answer.

use super::sideband::CodeMapping;
use std::fs;
use std::io::{self, Read};
use std::path::PathBuf;

/// Most bytes read of one file of /proc: a process with 65,530 mappings (the kernel's limit) of long
/// names stays below.
const MAX_BYTES: u64 = 64 << 20;

fn read(pid: u32, name: &str) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    fs::File::open(path(pid, name))?.take(MAX_BYTES).read_to_end(&mut bytes)?;
    Ok(bytes)
}

/// Path of a file of a process.
pub(super) fn path(pid: u32, name: &str) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}/{name}"))
}

/// A thread of the process that has not ended: the process itself, unless its first thread has ended before
/// the others. /proc shows what such a process has mapped only under a thread that lives.
pub(super) fn live_thread(pid: u32) -> Option<u32> {
    if is_alive(pid) {
        return Some(pid);
    }
    threads(pid).ok()?.into_iter().find(|&tid| is_alive(tid))
}

/// Whether the thread runs or waits: it exists and is no zombie.
pub(super) fn is_alive(tid: u32) -> bool {
    let Ok(stat) = read(tid, "stat") else { return false };
    // The name, in parentheses, may hold anything; the state is behind the last one.
    let state = stat.iter().rposition(|&byte| byte == b')').and_then(|end| stat.get(end + 2));
    !matches!(state, Some(b'Z' | b'X') | None)
}

/// Name of a process or, by its thread id, of a thread.
pub(super) fn comm(pid: u32) -> io::Result<String> {
    let bytes = read(pid, "comm")?;
    Ok(String::from_utf8_lossy(bytes.strip_suffix(b"\n").unwrap_or(&bytes)).into_owned())
}

/// Whether a Java machine was started without the option that makes its compilers keep frame pointers. Its interpreter
/// keeps them always; one that never compiles therefore does. True where the options cannot be read.
pub(super) fn java_lacks_frame_pointers(pid: u32) -> bool {
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

/// Process id that a thread belongs to.
pub(super) fn process_of_thread(tid: u32) -> io::Result<Option<u32>> {
    Ok(status_field(tid, "Tgid")?.and_then(|value| value.parse().ok()))
}

/// File name of the executable.
pub(super) fn executable_name(pid: u32) -> Option<String> {
    let target = fs::read_link(path(pid, "exe")).ok()?;
    Some(target.file_name()?.to_string_lossy().trim_end_matches(" (deleted)").to_owned())
}

/// All process ids, in ascending order.
pub(super) fn processes() -> io::Result<Vec<u32>> {
    let mut pids: Vec<u32> =
        fs::read_dir("/proc")?.filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok()).collect();
    pids.sort_unstable();
    Ok(pids)
}

/// All thread ids of a process.
pub(super) fn threads(pid: u32) -> io::Result<Vec<u32>> {
    Ok(fs::read_dir(path(pid, "task"))?
        .filter_map(|entry| entry.ok()?.file_name().to_str()?.parse().ok())
        .collect())
}

/// The executable mappings of a process, in ascending order.
pub(super) fn code_mappings(pid: u32) -> io::Result<Vec<CodeMapping>> {
    let bytes = read(live_thread(pid).unwrap_or(pid), "maps")?;
    Ok(parse_maps(&bytes))
}

/// Executable mappings in the text of /proc/PID/maps (proc_pid_maps(5)). Lines of another form are
/// passed over.
pub fn parse_maps(text: &[u8]) -> Vec<CodeMapping> {
    text.split(|&byte| byte == b'\n').filter_map(parse_maps_line).collect()
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
    fn own_process_has_code_threads_and_a_name() {
        let pid = std::process::id();
        assert!(code_mappings(pid).expect("own maps").iter().any(|m| m.path == "[vdso]"));
        assert!(threads(pid).expect("own threads").contains(&pid));
        assert!(!comm(pid).expect("own name").is_empty());
        assert_eq!(process_of_thread(pid).expect("own status"), Some(pid));
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
