//! Formats of other tools, a file or a folder each, and what they have in common. Formats with single samples take them
//! in the order of time from `in_time`; formats with merged stacks take them from the groups of the selection. Formats of prof's
//! own (SVG, HTML, folded stacks) are outside.

pub(super) mod callgrind;
mod columns;
pub(super) mod firefox;
pub(super) mod gzip;
mod in_time;
pub(super) mod json;
mod json_text;
mod label_parts;
pub(super) mod perf_script;
pub(super) mod perfetto;
pub(crate) mod pprof;
pub(super) mod speedscope;
pub(super) mod stacks;
#[cfg(test)]
mod tests;
