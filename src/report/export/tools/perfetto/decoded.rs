//! Decodes the output again, for tests.

use super::messages::Packet;
use prost::Message;
use std::collections::BTreeMap;
use std::fmt::Write;

#[derive(Clone, PartialEq, prost::Message)]
struct WholeTrace {
    #[prost(message, repeated, tag = "1")]
    packets: Vec<Packet>,
}

/// Number of samples, the sum of their weights, and the time in slices by name, ns.
pub(in crate::report::export::tools) fn sums(bytes: &[u8]) -> (u64, u64, BTreeMap<String, u64>) {
    let trace = WholeTrace::decode(bytes).unwrap();
    let (mut samples, mut weight) = (0, 0);
    let mut slices: BTreeMap<String, u64> = BTreeMap::new();
    let mut open: BTreeMap<u64, (String, u64)> = BTreeMap::new();
    let mut names: BTreeMap<u64, String> = BTreeMap::new();
    for packet in trace.packets {
        for name in packet.interned.iter().flat_map(|interned| &interned.event_names) {
            names.insert(name.id, name.name.clone());
        }
        if let Some(sample) = &packet.perf_sample {
            samples += 1;
            weight = sample.timebase_count;
        }
        let Some(event) = packet.track_event else { continue };
        let time = packet.timestamp.unwrap();
        if event.kind == 1 {
            assert!(open.insert(event.track, (names[&event.name].clone(), time)).is_none(), "nested");
        } else {
            let (name, from) = open.remove(&event.track).unwrap();
            *slices.entry(name).or_default() += time - from;
        }
    }
    assert!(open.is_empty());
    (samples, weight, slices)
}

/// The whole trace as text.
pub(in crate::report::export::tools) fn text(bytes: &[u8]) -> String {
    let trace = WholeTrace::decode(bytes).unwrap();
    let mut out = String::new();
    for packet in trace.packets {
        let head = packet.timestamp.map_or(String::new(), |time| format!(" {time}"));
        write!(out, "packet{head} flags {}", packet.sequence_flags).unwrap();
        let parts = [
            packet.defaults.map(|part| format!("{part:?}")),
            packet.clock_snapshot.map(|part| format!("{part:?}")),
            packet.track.map(|part| format!("{part:?}")),
            packet.track_event.map(|part| format!("{part:?}")),
            packet.perf_sample.map(|part| format!("{part:?}")),
        ];
        parts.into_iter().flatten().for_each(|part| write!(out, " {part}").unwrap());
        out.push('\n');
        let Some(interned) = packet.interned else { continue };
        let names = [&interned.categories, &interned.event_names, &interned.annotation_names];
        names.into_iter().flatten().for_each(|name| writeln!(out, "  {} {}", name.id, name.name).unwrap());
        let strings = [
            &interned.function_names,
            &interned.build_ids,
            &interned.mapping_paths,
            &interned.source_paths,
            &interned.annotation_texts,
        ];
        for text in strings.into_iter().flatten() {
            writeln!(out, "  {} {:?}", text.id, String::from_utf8_lossy(&text.text)).unwrap();
        }
        interned.mappings.iter().for_each(|part| writeln!(out, "  {part:?}").unwrap());
        interned.frames.iter().for_each(|part| writeln!(out, "  {part:?}").unwrap());
        interned.callstacks.iter().for_each(|part| writeln!(out, "  {part:?}").unwrap());
    }
    out
}
