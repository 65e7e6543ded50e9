//! The file that says what `prof agent` does: TOML, in which every key is known, every value has limits, and what is wrong is refused
//! with its line, its key and what is allowed.

mod change;
mod check;
mod destination;
mod file;
mod read;
mod refusal;
mod settings;
mod values;

pub(crate) use change::change_between;
pub(crate) use settings::{
    AgentConfig, AgentEvent, BUFFER_WAITING, BUFFER_WINDOWS, DestinationProtocol, KubeletSettings,
    ListenAddress, PushDestination,
};

#[cfg(test)]
mod tests;
