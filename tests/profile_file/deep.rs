//! What a file may cost who exports it.

use prof::internals::profile::{
    End, EventInfo, EventKind, Frame, FrameFlags, Meta, Module, Profile, Sample, StackId, Task, Writer,
};
use std::io::Read;

/// Frames of each chain.
const DEPTH: u32 = 4_000;

/// Its folded stacks are 16 million frames, and no memory has to hold them.
#[test]
fn a_small_deep_file_is_exported_in_little_memory() {
    let mut profile = Profile::new(Meta::default());
    let event = EventInfo {
        kind: EventKind::ON_CPU,
        sampling: "a rule".into(),
        period: 1_001_001,
        ..EventInfo::default()
    };
    let event = profile.add_event(event);
    let module = profile.tables.intern_module(Module::default());
    let task = profile.tables.intern_task(Task { pid: 7, tid: 7, ..Task::default() });
    for chain in 0..4u64 {
        let tables = &mut profile.tables;
        let frames: Vec<_> = (0..DEPTH)
            .map(|depth| {
                let address = chain << 32 | u64::from(depth) << 8;
                tables.intern_frame(Frame { module, address, flags: FrameFlags::default() })
            })
            .collect();
        // Each part of it from the root on is a row of its own, one after the other.
        let whole = tables.intern_stack_of(frames).unwrap();
        for id in whole.0 + 1 - DEPTH..=whole.0 {
            let sample = Sample { task, stack: Some(StackId(id)), weight: 1_001_001, ..Sample::default() };
            profile.events[event.index()].push(sample);
        }
    }
    profile.end = Some(End::default());
    let mut writer = Writer::new(Vec::new(), &profile.meta).unwrap();
    writer.flush(&mut profile, false).unwrap();
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("deep");
    let bytes = writer.into_inner();
    assert!(bytes.len() < 100_000, "{} bytes", bytes.len());
    std::fs::write(&file, bytes).unwrap();
    for (format, most_kb) in [("folded", 150_000), ("svg", 300_000)] {
        let mut prof = std::process::Command::new(env!("CARGO_BIN_EXE_prof"));
        prof.args(["export", "--format", format, "-o", "-"]).arg(&file);
        prof.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::inherit());
        let mut child = prof.spawn().unwrap();
        let mut output = child.stdout.take().unwrap();
        let (mut peak_kb, mut bytes) = (0, 0);
        let mut buffer = vec![0; 1 << 20];
        while let Ok(read @ 1..) = output.read(&mut buffer) {
            bytes += read;
            let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap_or_default();
            let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
            let peak = peak.and_then(|text| text.split_whitespace().next()?.parse().ok());
            peak_kb = peak.unwrap_or(0).max(peak_kb);
        }
        assert!(child.wait().unwrap().success());
        assert!(bytes > 100_000, "{format}: {bytes} bytes");
        assert!((1_000..most_kb).contains(&peak_kb), "{format}: {peak_kb} kB for {bytes} bytes");
    }
}
