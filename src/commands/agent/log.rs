//! What the agent says of itself: lines on standard error, which the journal of the system keeps.

use crate::base::safe_text;
use std::io::{self, Write};

/// Says something.
pub(super) fn say(words: &str) {
    // If it is closed, there is no one to hear it.
    let _ = writeln!(io::stderr().lock(), "prof agent: {}", safe_text::message(words));
}
