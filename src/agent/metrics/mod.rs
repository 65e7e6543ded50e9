//! What the agent says of itself: counters and gauges in the text format of Prometheus, and a server of them for this host.

mod page;
mod patient;
mod registry;
mod server;

pub(crate) use patient::PatientServer;
pub(crate) use registry::{AgentMetrics, CounterValue, MetricName};
