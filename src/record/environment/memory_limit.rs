//! The limit on the memory of the control group that this process is in: past it the kernel kills, without a word.

use std::path::{Path, PathBuf};

/// Memory that a recording of a small program takes at first, bytes: BPF maps and rings count, too.
const USUAL_BYTES: u64 = 80 << 20;

/// Folders of control groups of version 2, and of those of version 1 that limit memory; each with the names of the files for the
/// limit and for what is used.
const PLACES: [(&str, [&str; 2]); 2] = [
    ("/sys/fs/cgroup", ["memory.max", "memory.current"]),
    ("/sys/fs/cgroup/memory", ["memory.limit_in_bytes", "memory.usage_in_bytes"]),
];

/// Warning for when there is too little room for a recording.
pub(crate) fn notice() -> Option<String> {
    text(room_of_groups()?)
}

/// Bytes that this machine and the control groups around this process have left, as far as is known.
pub(crate) fn free_bytes() -> Option<u64> {
    let facts = std::fs::read_to_string("/proc/meminfo").ok()?;
    let available = available_in(&facts)?;
    Some(room_of_groups().map_or(available, |room| room.min(available)))
}

/// Memory that can be used without swapping by the text of /proc/meminfo, bytes.
fn available_in(facts: &str) -> Option<u64> {
    let value = facts.lines().find_map(|line| line.strip_prefix("MemAvailable:"))?;
    value.trim().strip_suffix(" kB")?.parse::<u64>().ok()?.checked_mul(1 << 10)
}

fn room_of_groups() -> Option<u64> {
    let groups = std::fs::read_to_string("/proc/self/cgroup").ok()?;
    let room = paths(&groups).into_iter().filter_map(|(at, path)| {
        let (root, files) = PLACES[at];
        room_in(Path::new(root), &path, files)
    });
    room.min()
}

fn text(room: u64) -> Option<String> {
    (room < USUAL_BYTES).then(|| {
        format!(
            "the memory limit of prof's own container or service leaves {} MiB, but a recording takes about {} MiB: the \
             kernel may kill it; raise the limit",
            room >> 20,
            USUAL_BYTES >> 20
        )
    })
}

/// The groups of this process that limit memory, by the text of /proc/self/cgroup: which of [`PLACES`], and the path there.
fn paths(groups: &str) -> Vec<(usize, PathBuf)> {
    let of_line = |line: &str| {
        let (_, rest) = line.split_once(':')?;
        let (controllers, path) = rest.split_once(':')?;
        let at = match controllers {
            "" => 0,
            _ if controllers.split(',').any(|controller| controller == "memory") => 1,
            _ => return None,
        };
        Some((at, PathBuf::from(path.trim_start_matches('/'))))
    };
    groups.lines().filter_map(of_line).collect()
}

/// Memory that the limits of a group and of those around it leave, bytes; `None` without a limit.
fn room_in(root: &Path, path: &Path, [limit, used]: [&str; 2]) -> Option<u64> {
    let number = |path: PathBuf| std::fs::read_to_string(path).ok()?.trim().parse::<u64>().ok();
    let rooms = path.ancestors().filter_map(|group| {
        let limit = number(root.join(group).join(limit))?;
        Some(limit.saturating_sub(number(root.join(group).join(used)).unwrap_or(0)))
    });
    rooms.min()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn the_groups_that_limit_memory_are_found() {
        let groups = "9:name=systemd:/\n4:memory:/a/b\n3:cpu,cpuacct:/c\n0::/user.slice/x\n";
        assert_eq!(paths(groups), [(1, PathBuf::from("a/b")), (0, PathBuf::from("user.slice/x"))]);
    }

    #[test]
    fn what_is_free_is_read_from_meminfo() {
        let facts = "MemTotal:       24617280 kB\nMemFree:          999 kB\nMemAvailable:   2048 kB\n";
        assert_eq!((available_in(facts), available_in("MemFree: 1 kB\n")), (Some(2 << 20), None));
    }

    #[test]
    fn the_tightest_of_the_groups_around_counts() {
        let root = tempfile::tempdir().expect("temporary folder");
        let files = ["memory.max", "memory.current"];
        let set = |group: &str, max: &str, current: &str| {
            let folder = root.path().join(group);
            fs::create_dir_all(&folder).expect("own folder");
            fs::write(folder.join(files[0]), max).expect("own folder");
            fs::write(folder.join(files[1]), current).expect("own folder");
        };
        set("a", "104857600\n", "52428800\n");
        set("a/b", "max\n", "10\n");
        let room = room_in(root.path(), Path::new("a/b"), files);
        assert_eq!(room, Some(50 << 20));
        assert!(text(50 << 20).is_some_and(|text| text.contains("leaves 50 MiB")));
        assert_eq!(text(1 << 30), None);
        assert_eq!(room_in(root.path(), Path::new("other"), files), None);
    }
}
