//! What is said instead of the parser's own words where these do not help: ids that a shell has split, commands and
//! profiles that belong to another version.

use super::{foreign, target};
use crate::base::failure::Failure;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use std::ffi::OsString;

/// Commands that are planned.
const TO_COME: [(&str, &str); 2] =
    [("agent", "recording for ever"), ("push", "sending profiles to a server")];

/// A better message for what the parser has refused, if there is one.
pub(super) fn explain(arguments: &[OsString], error: &clap::Error) -> Option<Failure> {
    target::explain(arguments, error)
        .or_else(|| to_come(error))
        .or_else(|| foreign::explain(arguments, error))
        .or_else(|| second_profile(arguments, error))
        .or_else(|| label_without_key(error))
}

/// A grouping by labels that does not say by which.
fn label_without_key(error: &clap::Error) -> Option<Failure> {
    let is_label = error.kind() == ErrorKind::InvalidValue
        && about(error, ContextKind::InvalidArg).starts_with("--by")
        && about(error, ContextKind::InvalidValue) == "label";
    is_label.then(|| {
        Failure::usage("--by label: of which key?")
            .hint("write the key of the labels:  --by label:KEY, such as --by label:tenant")
            .hint("keys that a recording has:  prof info")
    })
}

fn about(error: &clap::Error, kind: ContextKind) -> &str {
    match error.get(kind) {
        Some(ContextValue::String(text)) => text.as_str(),
        _ => "",
    }
}

fn to_come(error: &clap::Error) -> Option<Failure> {
    let typed = about(error, ContextKind::InvalidSubcommand);
    let (verb, what) =
        TO_COME.iter().find(|(verb, _)| error.kind() == ErrorKind::InvalidSubcommand && *verb == typed)?;
    Some(
        Failure::usage(format!("prof {verb}: {what} is not in this version"))
            .hint("available commands:  prof help"),
    )
}

/// The advice for a second profile: two are for `prof diff` and `prof tui`.
fn second_profile(arguments: &[OsString], error: &clap::Error) -> Option<Failure> {
    let verb = arguments.get(1)?.to_str().filter(|verb| ["report", "info"].contains(verb))?;
    let second = about(error, ContextKind::InvalidArg);
    let is_second = error.kind() == ErrorKind::UnknownArgument
        && !second.starts_with('-')
        && arguments[2..].iter().filter(|word| !word.to_string_lossy().starts_with('-')).count() >= 2;
    is_second.then(|| {
        Failure::usage(format!("prof {verb} takes one profile, but `{second}` is a second one"))
            .hint("to compare them:  prof diff BASE NEW")
            .hint("on the screen:    prof tui BASE NEW")
    })
}
