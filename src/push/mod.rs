//! Sends recordings to servers of profiles: Grafana Pyroscope (push.v1, the Connect protocol over POST) and what takes OTLP
//! profiles over HTTP. What of a recording is sent, and in which bytes, is decided in [`crate::report`] (series); here is where it
//! goes (`target`), the one request (`request`, `client`), what its answer means (`reply`) and of which series (`named`), when it
//! is tried again (`pace`), a recording on its way (`shipment`), recordings that wait in a folder (`buffer`, `pusher`), and `prof push` (`verb`).
//!
//! Everything that is sent is counted, and so is everything that is not, with the reason ([`counts::PushCounts`]).

// Without a client nothing is sent.
#[cfg_attr(not(feature = "push"), allow(dead_code))]
mod answer_date;
pub(crate) mod buffer;
#[cfg(feature = "push")]
mod client;
pub(crate) mod counts;
pub(crate) mod fetch;
#[cfg_attr(not(feature = "push"), allow(dead_code))]
mod named;
#[cfg_attr(not(feature = "push"), allow(dead_code))]
mod pace;
pub(crate) mod pusher;
#[cfg_attr(not(feature = "push"), allow(dead_code))]
mod reply;
#[cfg_attr(not(feature = "push"), allow(dead_code))]
mod request;
#[cfg_attr(not(feature = "push"), allow(dead_code))]
mod shipment;
pub(crate) mod target;
#[cfg(test)]
mod tests;
pub(crate) mod verb;
