//! Reading the file.

use super::settings::AgentConfig;
use super::{check, file, refusal};
use crate::base::failure::{Failure, io_words, status};
use std::fs::File;
use std::io::Read;
use std::path::Path;

/// Most bytes of the file.
const MOST_BYTES: u64 = 1 << 20;

impl AgentConfig {
    /// Reads the file.
    ///
    /// # Errors
    ///
    /// When it cannot be read, or any line of it is not valid: the message names the file, the line and the key.
    pub(crate) fn read(path: &Path) -> Result<Self, Failure> {
        let shown = path.display().to_string();
        let unreadable = |why: String| {
            Failure::new(status::FAILED, format!("cannot read the configuration `{shown}`: {why}"))
                .hint("docs/fleet.md has an example, as has /usr/share/doc/prof/agent.toml of the packages")
        };
        let mut text = Vec::new();
        let file = File::open(path).map_err(|error| unreadable(io_words(&error)))?;
        file.take(MOST_BYTES + 1).read_to_end(&mut text).map_err(|error| unreadable(io_words(&error)))?;
        if text.len() as u64 > MOST_BYTES {
            return Err(unreadable(format!("it has more than {MOST_BYTES} bytes")));
        }
        let text = String::from_utf8(text).map_err(|error| {
            let good = &error.as_bytes()[..error.utf8_error().valid_up_to()];
            let line = good.iter().filter(|&&byte| byte == b'\n').count() + 1;
            unreadable(format!("line {line} is not UTF-8"))
        })?;
        Self::parse(&shown, &text)
    }

    /// Parses the text of the file that is shown as `path`.
    ///
    /// # Errors
    ///
    /// As of [`AgentConfig::read`].
    pub(crate) fn parse(path: &str, text: &str) -> Result<Self, Failure> {
        let raw: file::ConfigFile =
            toml::from_str(text).map_err(|error| refusal::ConfigRefusal::of(&error).failure(path, text))?;
        let config = check::checked(raw).map_err(|refusal| refusal.failure(path, text))?;
        Ok(AgentConfig { text: text.to_owned(), ..config })
    }
}
