//! Perfetto's trace, parsed with its own protobufs.

use crate::support::run_well;
use crate::tools::python_with;
use crate::{export, report, totals};
use serde_json::Value;
use std::process::Command;

/// Reads every packet, resolves every number in it as the trace processor does, and prints what it has found.
const READER: &str = r#"
import json, sys
from perfetto.protos.perfetto.trace import perfetto_trace_pb2 as pb
trace = pb.Trace()
trace.ParseFromString(open(sys.argv[1], 'rb').read())
known = {}
seen = dict(packets=0, unknown_fields=0, unresolved=0, samples=0, weight=0, decreasing=0, nested=0, slices={}, threads={}, leaves=0)
tracks, open_slices, last = {}, {}, {}
def need(kind, iid):
    if (kind, iid) not in known: seen['unresolved'] += 1
    return known.get((kind, iid))
cleared = False
for packet in trace.packet:
    seen['packets'] += 1
    cleared |= bool(packet.sequence_flags & 1)
    assert cleared and packet.trusted_packet_sequence_id == 1
    data = packet.interned_data
    for kind in ('event_categories', 'event_names', 'debug_annotation_names'):
        for entry in getattr(data, kind): known[kind, entry.iid] = entry.name
    for kind in ('function_names', 'mapping_paths', 'build_ids', 'source_paths', 'debug_annotation_string_values'):
        for entry in getattr(data, kind): known[kind, entry.iid] = entry.str
    for entry in data.mappings:
        known['mappings', entry.iid] = entry
        need('build_ids', entry.build_id)
        for path in entry.path_string_ids: need('mapping_paths', path)
    for entry in data.frames:
        known['frames', entry.iid] = entry
        need('function_names', entry.function_name_id); need('mappings', entry.mapping_id)
        if entry.source_path_iid: need('source_paths', entry.source_path_iid)
    for entry in data.callstacks:
        known['callstacks', entry.iid] = entry
        for frame in entry.frame_ids: need('frames', frame)
    if packet.HasField('track_descriptor'):
        track = packet.track_descriptor
        tracks[track.uuid] = track
        if track.HasField('thread'):
            seen['threads'][track.thread.tid] = track.thread.thread_name
            assert tracks[track.parent_uuid].process.pid == track.thread.pid
    if packet.HasField('perf_sample'):
        sample = packet.perf_sample
        seen['samples'] += 1
        assert sample.timebase_count >= seen['weight']
        seen['weight'] = sample.timebase_count
        need('callstacks', sample.callstack_iid)
    if packet.HasField('track_event'):
        event = packet.track_event
        tid = tracks[event.track_uuid].thread.tid
        if packet.timestamp < last.get(tid, 0): seen['decreasing'] += 1
        last[tid] = packet.timestamp
        if event.type == pb.TrackEvent.TYPE_SLICE_BEGIN:
            if tid in open_slices: seen['nested'] += 1
            open_slices[tid] = (need('event_names', event.name_iid), packet.timestamp)
            for category in event.category_iids: need('event_categories', category)
            if event.callstack_iid: need('callstacks', event.callstack_iid)
            for note in event.debug_annotations:
                need('debug_annotation_names', note.name_iid)
                if note.HasField('string_value_iid'): need('debug_annotation_string_values', note.string_value_iid)
        else:
            name, begun = open_slices.pop(tid)
            row = seen['slices'].setdefault(name, [0, 0])
            row[0] += 1; row[1] += packet.timestamp - begun
seen['open'] = len(open_slices)
print(json.dumps(seen))
"#;

#[test]
fn slices_and_samples_are_those_of_the_report() {
    let Some(packages) = python_with("perfetto", "0.59.1") else { return };
    let folder = tempfile::tempdir().unwrap();
    let (file, _) = export(folder.path(), "app.perfetto-trace", &[]);
    let mut python = Command::new("python3");
    python.env("PYTHONPATH", packages).args(["-c", READER]).arg(file);
    let Some(output) = run_well(&mut python) else { return };
    let seen: Value = serde_json::from_slice(&output.stdout).unwrap();
    for zero in ["unresolved", "decreasing", "nested", "open"] {
        assert_eq!(seen[zero], 0, "{zero}: {seen}");
    }
    let (on_cpu, off_cpu) = (report("--on-cpu"), report("--off-cpu"));
    assert_eq!((&seen["samples"], seen["weight"].as_u64()), (&on_cpu["samples"], on_cpu["total"].as_u64()));
    assert_eq!(seen["threads"], serde_json::json!({ "4312": "ingest", "4313": "worker" }));
    // Waits that were only counted have no time, and are no slices.
    let slices = seen["slices"].as_object().unwrap();
    let waiting = slices.iter().filter(|(name, _)| *name != "running");
    let (count, ns) = waiting.fold((0, 0), |(count, ns), (_, row)| {
        (count + row[0].as_u64().unwrap(), ns + row[1].as_u64().unwrap())
    });
    assert_eq!((count, ns), (crate::WAITS, totals(&["--off-cpu"]) - 4_321));
    assert_eq!(off_cpu["samples"].as_u64(), Some(count));
    let names: Vec<&str> = slices.keys().map(String::as_str).collect();
    assert_eq!(names, ["runnable", "running", "waiting (disk)", "waiting (net)", "waiting (pipe)"]);
    // A thread ran when it did not wait.
    let duration_ns = on_cpu["duration_ns"].as_u64().unwrap();
    assert_eq!(slices["running"][1].as_u64(), Some(duration_ns - ns));
}
