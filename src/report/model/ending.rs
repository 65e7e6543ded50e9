//! How a recording ended, and its command, in a few words.

use crate::base::units;
use crate::profile::Profile;

/// `duration reached`, `target ended`, `command killed by SIGSEGV`, `command exited with 3`; `None` for a file without its end.
/// The reason of a file is foreign text.
pub(crate) fn words(profile: &Profile) -> Option<String> {
    let end = profile.end.as_ref()?;
    let command = match (end.command_signal, end.command_status) {
        (Some(signal), _) => Some(format!("command killed by {}", units::signal(signal))),
        (None, Some(status)) if status != 0 => Some(format!("command exited with {status}")),
        _ => None,
    };
    // Also says what else ended the recording first, if anything did.
    match command {
        Some(command) if end.is_of_command() => Some(command),
        Some(command) => Some(format!("{}, {command}", end.reason)),
        None => Some(end.reason.clone()),
    }
    .filter(|words| !words.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{End, Meta};

    #[test]
    fn what_became_of_the_command_is_said_unless_all_went_well() {
        let words_of = |reason: &str, command_status, command_signal| {
            let mut profile = Profile::new(Meta::default());
            profile.end =
                Some(End { reason: reason.to_owned(), command_status, command_signal, ..End::default() });
            words(&profile).unwrap_or_default()
        };
        assert_eq!(words_of("command ended", Some(0), None), "command ended");
        assert_eq!(words_of("command ended", Some(3), None), "command exited with 3");
        assert_eq!(words_of("command ended", Some(139), Some(11)), "command killed by SIGSEGV");
        assert_eq!(words_of("interrupted", Some(130), Some(2)), "interrupted, command killed by SIGINT");
        assert_eq!(words_of("target ended", None, None), "target ended");
        assert_eq!(words(&Profile::new(Meta::default())), None);
    }
}
