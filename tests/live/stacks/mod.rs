//! Stacks of real programs and of fixtures whose truth is known, and the names of their frames.

mod counters;
mod debug_information;
mod fixtures_recorded;
mod generated_code;
mod languages;
mod layouts;
mod mappings;
mod oracle;
mod probes;
mod real_programs;
mod shapes;
mod system_calls;
