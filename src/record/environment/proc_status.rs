//! Fields of /proc/self/status.

/// The value of a field of /proc/self/status, with its colon.
pub(crate) fn status_field(name: &str) -> Option<String> {
    let text = std::fs::read_to_string("/proc/self/status").ok()?;
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::to_owned)
}
