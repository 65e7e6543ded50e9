//! Titles of processes: what a server makes of its command line to say what each of its processes is for, such as
//! `postgres: checkpointer` and `nginx: worker process`.

use super::proc_fs;

/// Most characters of a title that are kept.
const MOST_CHARS: usize = 64;

/// The title of a process called `comm`, if it has one.
pub(crate) fn of(pid: u32, comm: &str) -> Option<String> {
    title(&proc_fs::command_line(pid).ok()?, comm)
}

/// A command line that begins with the name of its program, a colon and a space was hardly typed.
fn title(command_line: &[u8], comm: &str) -> Option<String> {
    let text = String::from_utf8_lossy(command_line);
    let text = text.split('\0').next()?.trim();
    let rest = text.strip_prefix(comm)?.strip_prefix(": ").filter(|_| !comm.is_empty())?;
    let what = lasting(rest);
    (!what.is_empty()).then(|| format!("{comm}: {what}").chars().take(MOST_CHARS).collect())
}

/// The part that stays for as long as the process does: not what it is doing just now, by which PostgreSQL ends its titles, nor
/// the number of a connection.
fn lasting(title: &str) -> String {
    const STATES: [&str; 9] = [
        "idle",
        "in",
        "transaction",
        "(aborted)",
        "waiting",
        "authentication",
        "startup",
        "notify",
        "active",
    ];
    let mut words: Vec<&str> = title.split_whitespace().collect();
    let is_state = |word: &str| {
        STATES.contains(&word) || (word.len() > 2 && word.bytes().all(|byte| byte.is_ascii_uppercase()))
    };
    // Of one word it is the name.
    while words.len() > 1 && words.last().is_some_and(|word| is_state(word)) {
        words.pop();
    }
    let without_port = |word: &str| match word.strip_suffix(')').and_then(|head| head.rsplit_once('(')) {
        Some((host, port)) if !host.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) => {
            host.to_owned()
        }
        _ => word.to_owned(),
    };
    words.into_iter().map(without_port).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn titles_say_what_a_process_is_for() {
        for (command_line, comm, expected) in [
            ("postgres: checkpointer ", "postgres", Some("postgres: checkpointer")),
            ("postgres: 15/main: walwriter \0\0\0", "postgres", Some("postgres: 15/main: walwriter")),
            ("postgres: bench bench [local] SELECT", "postgres", Some("postgres: bench bench [local]")),
            (
                "postgres: bench bench [local] idle in transaction",
                "postgres",
                Some("postgres: bench bench [local]"),
            ),
            ("postgres: me db 127.0.0.1(53412) idle", "postgres", Some("postgres: me db 127.0.0.1")),
            ("nginx: worker process", "nginx", Some("nginx: worker process")),
            ("gunicorn: worker [app]", "gunicorn", Some("gunicorn: worker [app]")),
            ("/usr/bin/python3\0-m\0http.server", "python3", None),
            ("sleep\x00100", "sleep", None),
            ("postgres: ", "postgres", None),
            ("", "kworker/0:1", None),
            (": x", "", None),
        ] {
            assert_eq!(title(command_line.as_bytes(), comm).as_deref(), expected, "{command_line:?}");
        }
    }
}
