//! Verbs for many hosts and long times: `prof agent` and `prof push`.

pub(super) mod agent;
pub(super) mod push;
