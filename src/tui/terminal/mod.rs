//! The terminal itself: taking and restoring it, writing to it, reading from it. It handles bytes and events, and is
//! independent of profiles.

pub(crate) mod editor;
pub(crate) mod events;
pub(crate) mod guard;
pub(crate) mod suspend;
pub(crate) mod translator;
pub(crate) mod tty;
