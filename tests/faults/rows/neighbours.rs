//! Recorders next to others, of prof and of peers, and recorders that come and go.

use super::storage::{needs, works};
use crate::fault::{Fault, How, Outcome};
use crate::recorder::{Recorder, samples};
use crate::target::Target;
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Rate of all that sample one target, Hz.
const HZ: u64 = 999;
/// Two samplers of one thread differ by less, percent: each sees the same time at other points, and the thread comes and goes.
const MOST_APART: u64 = 5;
/// Peers are ready after this time at most, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(120);

pub(super) fn rows() -> Vec<Fault> {
    vec![
        Fault {
            number: "32",
            name: "ten recorders of one target, perf and bpftrace",
            holds: "each accounts for its own samples, and all count the same",
            tests: &[],
            how: How::Injected { short: Some(3), long: 10, run: side_by_side },
        },
        Fault {
            number: "37",
            name: "attaching and detaching again and again",
            holds: "the target works on, with gaps as without prof",
            tests: &[],
            how: How::Injected { short: Some(3), long: 100, run: cycles },
        },
    ]
}

fn side_by_side(count: u64) -> Outcome {
    let mut outcome = Outcome { faults: count, ..Outcome::default() };
    let target = Target::start(2);
    let pid = target.pid().to_string();
    let recorders: Vec<Recorder> = (0..count).map(|_| Recorder::start(&["-p", &pid, "-d", "2s"])).collect();
    for recorder in recorders {
        let ended = recorder.end(&mut outcome);
        outcome.expect(ended.status.success(), || format!("one of them fails: `{}`", ended.said.trim()));
        let facts = ended.count(&mut outcome).unwrap_or_default();
        outcome.expect(samples(&facts) > 0, || "one of them has no samples".to_owned());
    }
    target.finish(&mut outcome);
    with_peers(&mut outcome);
    outcome
}

/// A program that begins to work when it is told to, and works for some seconds.
struct Worker(Child);

impl Worker {
    fn stopped() -> Worker {
        let script = "kill -STOP $$; i=0; while [ $i -lt 3000000 ]; do i=$((i + 1)); done";
        let child = Command::new("sh").args(["-c", script]).stdin(Stdio::null()).spawn();
        let worker = Worker(child.expect("sh can be run"));
        let is_stopped = |stat: String| stat.rsplit(')').next().is_some_and(|rest| rest.starts_with(" T"));
        until("the worker stops", || {
            fs::read_to_string(format!("/proc/{}/stat", worker.pid())).is_ok_and(is_stopped)
        });
        worker
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }

    /// Has it work, until it ends.
    fn work(mut self) {
        kill_process(Pid::from_child(&self.0), Signal::CONT).expect("own child");
        assert!(self.0.wait().expect("own child").success(), "it works to its end");
    }
}

#[track_caller]
fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what} within {} s", PATIENCE.as_secs());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// perf and bpftrace sample the same program at the same rate as prof does, from its first step to its last.
fn with_peers(outcome: &mut Outcome) {
    if !needs("perf", outcome) || !needs("bpftrace", outcome) {
        return;
    }
    outcome.faults += 2;
    let worker = Worker::stopped();
    let pid = worker.pid().to_string();
    let rate = HZ.to_string();
    let mut recorder = Recorder::start(&["-p", &pid, "-F", &rate, "-e", "cpu"]);
    recorder.wait_until_it_records();
    let (perf, bpftrace) = (Perf::start(&pid, &recorder), Bpftrace::start(&pid));
    worker.work();
    let ended = recorder.end(outcome);
    let facts = ended.count(outcome).unwrap_or_default();
    let ours = samples(&facts);
    let counts = [("perf", perf.samples()), ("bpftrace", bpftrace.samples())];
    for (peer, count) in counts {
        let is_near = ours.abs_diff(count) * 100 <= ours.max(count) * MOST_APART;
        outcome.expect(ours > 0 && is_near, || format!("{ours} samples, and {count} of {peer}"));
    }
    let [(_, perf), (_, bpftrace)] = counts;
    outcome.note = format!("{ours} samples, {perf} of perf and {bpftrace} of bpftrace next to it");
}

struct Perf(Child);

impl Perf {
    /// `perf record` of this process. Its file lies next to that of a recorder.
    fn start(pid: &str, next_to: &Recorder) -> Perf {
        let mut command = Command::new("perf");
        command.args(["record", "-e", "cpu-clock", "-F", &HZ.to_string(), "-p", pid, "-o"]);
        command.arg(next_to.folder.path().join("perf.data"));
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn();
        let perf = Perf(child.expect("perf can be run"));
        // It enables its events as soon as it has mapped them.
        let maps = format!("/proc/{}/maps", perf.0.id());
        until("perf records", || fs::read_to_string(&maps).is_ok_and(|maps| maps.contains("[perf_event]")));
        std::thread::sleep(Duration::from_secs(1));
        perf
    }

    /// The number that it says at its end: `[ perf record: Captured and wrote 0.147 MB FILE (393 samples) ]`.
    fn samples(self) -> u64 {
        let output = self.0.wait_with_output().expect("own child");
        let said = String::from_utf8_lossy(&output.stderr);
        let number =
            said.rsplit_once(" samples)").and_then(|(before, _)| before.rsplit('(').next()?.parse().ok());
        number.unwrap_or(0)
    }
}

struct Bpftrace {
    child: Child,
    said: BufReader<std::process::ChildStdout>,
}

impl Bpftrace {
    fn start(pid: &str) -> Bpftrace {
        let script = format!(
            "profile:hz:{HZ} /pid == {pid}/ {{ @samples = count(); }} interval:ms:50 {{ printf(\"ready\\n\"); }}"
        );
        let child = Command::new("bpftrace")
            .args(["-e", &script])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let mut child = child.expect("bpftrace can be run");
        let mut said = BufReader::new(child.stdout.take().expect("it is piped"));
        let mut line = String::new();
        while line != "ready\n" {
            line.clear();
            assert!(said.read_line(&mut line).expect("a pipe") > 0, "bpftrace attaches its probes");
        }
        Bpftrace { child, said }
    }

    /// What it prints when it is interrupted: `@samples: 394`.
    fn samples(mut self) -> u64 {
        kill_process(Pid::from_child(&self.child), Signal::INT).expect("own child");
        let lines = self.said.lines().map_while(Result::ok);
        let number = lines.filter_map(|line| line.strip_prefix("@samples: ")?.parse().ok()).last();
        self.child.wait().expect("own child");
        number.unwrap_or(0)
    }
}

/// So many recordings, one after the other, of a target whose gaps over times as long without them, in turns with them, are the
/// baseline.
fn cycles(count: u64) -> Outcome {
    let mut outcome = Outcome { faults: count, ..Outcome::default() };
    let mut target = Target::start(4);
    let (mut with, mut without) = (Vec::new(), Vec::new());
    for _ in 0..count {
        let begun = Instant::now();
        target.longest_gap_since();
        works(&target, &mut outcome);
        let length = begun.elapsed();
        with.push(target.longest_gap_since());
        std::thread::sleep(length);
        without.push(target.longest_gap_since());
    }
    target.finish(&mut outcome);
    let [middle, middle_without] = [&mut with, &mut without].map(|gaps| {
        gaps.sort_unstable();
        gaps[gaps.len() / 2]
    });
    // A recorder works, too, and the machine has few CPUs: while it attaches, the target may wait for its turn as it does for that
    // of any program, some slices of the scheduler. A few windows tell nothing.
    let is_judged = count >= 20;
    let most = middle_without * 2 + Duration::from_millis(20);
    outcome.expect(!is_judged || middle <= most, || {
        format!("longest gaps of the target are {middle:?} with prof, {middle_without:?} without")
    });
    let ms = |time: Option<&Duration>| time.map_or(0, Duration::as_millis);
    outcome.note = format!(
        "longest gap of the target in the time of a recording: median {} ms, without prof {} ms; of all {} ms, without {} ms",
        middle.as_millis(),
        middle_without.as_millis(),
        ms(with.last()),
        ms(without.last())
    );
    outcome
}
