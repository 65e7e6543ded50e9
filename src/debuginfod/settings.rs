//! What the environment says of servers, limits and the cache, by the names that elfutils has given them.

use crate::base::failure::{Failure, status};
use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

/// A server that has not answered for so long is not waited for. elfutils waits 90 s, for each file again.
const DEFAULT_PATIENCE: Duration = Duration::from_secs(10);
/// Longest download of one file.
const DEFAULT_LONGEST: Duration = Duration::from_secs(600);
/// Largest file that is taken, bytes: that of Chromium is 3 GB.
const DEFAULT_LARGEST: u64 = 4 << 30;
/// Servers that are asked.
const MOST_SERVERS: usize = 16;

/// Servers, limits and cache.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Settings {
    /// Addresses, without a slash at the end. Foreign text.
    pub(crate) servers: Vec<String>,
    /// Folder of what was had; `None`: nothing is kept for the next time.
    pub(crate) cache: Option<PathBuf>,
    /// The longest time without any byte.
    pub(crate) patience: Duration,
    /// The longest download.
    pub(crate) longest: Duration,
    /// The largest file, bytes.
    pub(crate) largest: u64,
}

impl Settings {
    /// Reads the settings from the environment of this process.
    ///
    /// # Errors
    ///
    /// When it names no server, or something that is no number where one is wanted.
    pub(crate) fn of_environment() -> Result<Self, Failure> {
        Self::of(|name| std::env::var_os(name))
    }

    /// Reads the settings from an environment: `variable` gives values by name.
    pub(super) fn of(variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, Failure> {
        let text = |name: &str| {
            let value = variable(name).map(|value| value.to_string_lossy().into_owned());
            value.map(|value| value.trim().to_owned()).filter(|value| !value.is_empty())
        };
        let number = |name: &str| match text(name).map(|value| (value.parse::<u64>(), value)) {
            None => Ok(None),
            // As in elfutils: no limit.
            Some((Ok(0), _)) => Ok(None),
            Some((Ok(number), _)) => Ok(Some(number)),
            Some((Err(_), value)) => {
                Err(Failure::new(status::USAGE, format!("{name} is not a number: `{value}`")))
            }
        };
        let words = text("DEBUGINFOD_URLS").unwrap_or_default();
        let servers = words.split_whitespace().filter(|word| {
            // Marks of elfutils, `ima:enforcing`, stand between the addresses.
            word.starts_with("http://") || word.starts_with("https://")
        });
        let servers: Vec<String> =
            servers.take(MOST_SERVERS).map(|server| server.trim_end_matches('/').to_owned()).collect();
        if servers.is_empty() {
            return Err(Failure::new(
                status::FAILED,
                "--debuginfod needs a server, and DEBUGINFOD_URLS names none",
            )
            .hint("distributions name theirs in their documentation:  export DEBUGINFOD_URLS=https://…"));
        }
        let folder = |name: &str| variable(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let cache = folder("DEBUGINFOD_CACHE_PATH")
            .or_else(|| folder("XDG_CACHE_HOME").map(|cache| cache.join("debuginfod_client")))
            .or_else(|| folder("HOME").map(|home| home.join(".cache/debuginfod_client")));
        Ok(Settings {
            servers,
            cache,
            patience: number("DEBUGINFOD_TIMEOUT")?.map_or(DEFAULT_PATIENCE, Duration::from_secs),
            longest: number("DEBUGINFOD_MAXTIME")?.map_or(DEFAULT_LONGEST, Duration::from_secs),
            largest: number("DEBUGINFOD_MAXSIZE")?.unwrap_or(DEFAULT_LARGEST),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(variables: &[(&str, &str)]) -> Result<Settings, Failure> {
        Settings::of(|name| {
            let found = variables.iter().find(|(other, _)| *other == name);
            found.map(|(_, value)| OsString::from(value))
        })
    }

    #[test]
    fn servers_limits_and_cache_are_those_of_the_environment() {
        let urls = ("DEBUGINFOD_URLS", " ima:enforcing https://a.example/ file:///x http://b.example:8002 ");
        let found = settings(&[urls, ("HOME", "/home/u"), ("DEBUGINFOD_TIMEOUT", "3")]).expect("settings");
        assert_eq!(found.servers, ["https://a.example", "http://b.example:8002"]);
        assert_eq!(found.cache, Some(PathBuf::from("/home/u/.cache/debuginfod_client")));
        assert_eq!((found.patience, found.largest), (Duration::from_secs(3), DEFAULT_LARGEST));
        let found = settings(&[urls, ("HOME", "/h"), ("XDG_CACHE_HOME", "/c"), ("DEBUGINFOD_MAXSIZE", "9")]);
        let found = found.expect("settings");
        assert_eq!((found.cache, found.largest), (Some(PathBuf::from("/c/debuginfod_client")), 9));
        let found = settings(&[urls, ("XDG_CACHE_HOME", "/c"), ("DEBUGINFOD_CACHE_PATH", "/d")]);
        assert_eq!(found.expect("settings").cache, Some(PathBuf::from("/d")));
    }

    #[test]
    fn what_is_missing_or_wrong_is_said() {
        let failure = settings(&[]).expect_err("no server");
        assert!(failure.message.contains("DEBUGINFOD_URLS"), "{failure}");
        let wrong = [("DEBUGINFOD_URLS", "http://a"), ("DEBUGINFOD_TIMEOUT", "soon")];
        assert_eq!(
            settings(&wrong).expect_err("no number").message,
            "DEBUGINFOD_TIMEOUT is not a number: `soon`"
        );
    }
}
