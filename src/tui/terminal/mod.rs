//! The terminal itself: taken and given back, written to, read from. It knows bytes and events, and nothing of a profile.

pub(crate) mod events;
pub(crate) mod guard;
pub(crate) mod suspend;
pub(crate) mod translator;
pub(crate) mod tty;
