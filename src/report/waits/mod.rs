//! What a wait was: where, for what, idle or not, who ended it. The table of waits is made of these; names of calls are data here.
//! No wait is selected or printed here.

pub(crate) mod blocking;
pub(crate) mod calls;
pub(crate) mod hidden_idle;
pub(crate) mod idle;
mod idle_work;
pub(crate) mod own_code;
pub(crate) mod reasons;
pub(crate) mod site;
pub(crate) mod table;
mod tally;
pub(crate) mod waker;
