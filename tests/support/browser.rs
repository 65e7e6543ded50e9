//! A recording that is made here, and what `prof export` writes of it.

use super::demo_profile::Demo;
use prof::internals::profile::{
    EventInfo, EventKind, FoundBy, Frame, FrameFlags, FrameId, FrameSpace, Function, Location, Module,
    ModuleKind, Outcome, Profile, Reason, Sample, Task, TaskId, Wait, Waker, Writer,
};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

pub(crate) const WIDE: &str = "日本語の関数名がとても長い名前空間::👩‍👩‍👧‍👦の家族::メソッド";

/// Every function is a frame of its own.
pub(crate) fn frame(profile: &mut Profile, path: &str, name: &str) -> FrameId {
    let (kind, space) = match path {
        "[kernel]" => (ModuleKind::Kernel, FrameSpace::Kernel),
        _ => (ModuleKind::Elf, FrameSpace::User),
    };
    let text = profile.tables.intern_string(path);
    let module =
        profile.tables.intern_module(Module { path: text, build_id: vec![7; 20], kind, instance: 0 });
    let address = name.bytes().fold(0x40_1000, |sum: u64, byte| sum * 31 % 0xff_ffff + u64::from(byte));
    let flags =
        FrameFlags { is_return_address: true, space, found_by: FoundBy::Cfi, ..FrameFlags::default() };
    let frame = profile.tables.intern_frame(Frame { module, address, flags });
    let name = profile.tables.intern_string(name);
    let file = profile.tables.intern_string("/src/ingest.c");
    let function = profile.symbols.intern_function(Function { name, raw_name: name });
    profile.symbols.set_locations(frame, vec![Location { function, file, line: 7, is_inlined: false }]);
    frame
}

/// 120 samples of three threads, and three waits for a lock.
pub(crate) fn recording() -> Profile {
    let mut demo = Demo::new(5);
    let process = demo.profile.tables.intern_string("ingest");
    let workers = ["worker-1", "worker-2"].map(|name| {
        let comm = demo.profile.tables.intern_string(name);
        let tid = 4400 + u32::from(name.as_bytes()[7]);
        demo.profile.tables.intern_task(Task { pid: 4312, tid, generation: 0, comm, process })
    });
    let waits = demo.profile.add_event(EventInfo {
        kind: EventKind::OFF_CPU,
        sampling: "every wait of 1 us and more".into(),
        min_duration_ns: 1_000,
        ..EventInfo::default()
    });
    demo.finish();
    if let Some(end) = &mut demo.profile.end {
        end.duration_ns = 2_000_000_000;
    }
    let bin = "/usr/bin/ingest";
    let mut add = |task: TaskId, samples: usize, path: &[(&str, &str)]| {
        let frames: Vec<FrameId> =
            path.iter().map(|(module, name)| frame(&mut demo.profile, module, name)).collect();
        let stack = demo.profile.tables.intern_stack_of(frames);
        demo.task = task;
        (0..samples).for_each(|_| demo.sample(stack));
        stack
    };
    add(workers[0], 60, &[(bin, "main"), (bin, "run"), (bin, "hash")]);
    add(workers[1], 20, &[(bin, "main"), (bin, "run"), (bin, "hash")]);
    add(workers[0], 30, &[(bin, "main"), (bin, "run"), (bin, WIDE)]);
    add(TaskId(0), 10, &[(bin, "main"), (bin, "walk"), (bin, "walk"), (bin, "walk")]);
    let lock = [
        (bin, "main"),
        (bin, "run"),
        ("/usr/lib/libc.so.6", "pthread_mutex_lock"),
        ("[kernel]", "futex_wait"),
    ];
    let stack = add(workers[0], 0, &lock);
    for number in 0..3u64 {
        let wait = Wait { duration_ns: 40_000_000, reason: Reason::Lock, waker: Waker::default() };
        demo.profile.events[waits.index()].push(Sample {
            time_ns: number * 50_000_000,
            task: workers[0],
            stack,
            weight: 40_000_000,
            cpu: 0,
            outcome: Outcome::Complete,
            wait: Some(wait),
            merged: None,
            block: None,
            labels: None,
        });
    }
    demo.profile
}

/// Writes `profile`, exports it, and returns the page.
pub(crate) fn exported(profile: Profile, folder: &Path) -> PathBuf {
    exported_as(profile, folder, "page.html")
}

pub(crate) fn exported_as(mut profile: Profile, folder: &Path, name: &str) -> PathBuf {
    let (data, page) = (folder.join("made.data"), folder.join(name));
    let mut writer = Writer::new(Vec::new(), &profile.meta).unwrap();
    writer.flush(&mut profile, true).unwrap();
    fs::write(&data, writer.into_inner()).unwrap();
    let output = Command::new(env!("CARGO_BIN_EXE_prof"))
        .args(["export".as_ref(), "-f".as_ref(), data.as_os_str(), "-o".as_ref(), page.as_os_str()])
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    page
}
