//! A recording with waits of every kind that views have to show.

use super::fixture::{Build, PERIOD_NS};
use crate::profile::{Meta, Reason, TaskId, Waker, WakerKind};
use crate::report::analysis::Analysis;

/// One millisecond.
pub(crate) const MS: u64 = 1_000_000;

const INGEST: &str = "/usr/bin/ingest";
const LIBC: &str = "/usr/lib/x86_64-linux-gnu/libc.so.6";

/// A stack of a thread of `ingest`: its own functions, then those of the C library, then the kernel's.
pub(crate) fn stack(own: &[&str], libc: &[&str], kernel: &[&str]) -> Vec<String> {
    let start = ["start_thread"].iter().map(|name| format!("{LIBC}:{name}"));
    (start.chain(own.iter().map(|name| format!("{INGEST}:{name}"))))
        .chain(libc.iter().map(|name| format!("{LIBC}:{name}")))
        .chain(kernel.iter().map(|name| format!("[kernel]:{name}")))
        .collect()
}

/// As text slices.
pub(crate) fn slices(stack: &[String]) -> Vec<&str> {
    stack.iter().map(String::as_str).collect()
}

/// A program with two workers, a thread that writes, and a main thread that sleeps in its loop, for ten seconds:
/// on-CPU 4.2 s, no CPU 0.5 s, blocked 5.0 s and idle 30.3 s of 40 s.
pub(crate) fn waiting() -> Analysis {
    let mut build = Build::new();
    *build.meta() = Meta {
        prof_version: "0.1.0".into(),
        command: ["prof", "record", "-e", "cpu,off", "-p", "4312"].map(String::from).to_vec(),
        start_unix_ns: 1_795_262_400_000_000_000,
        target: "ingest (pid 4312)".into(),
        target_name: "ingest".into(),
        target_pids: vec![4312],
        threads_at_start: 4,
        requested_hz: 999,
        effective_hz: 999,
        ..Meta::default()
    };
    let main = build.task(4312, 4312, "ingest", "ingest");
    let workers = [4313, 4314].map(|tid| build.task(4312, tid, "worker", "ingest"));
    let writer = build.task(4312, 4315, "writer", "ingest");
    let kernel_thread = build.task(77, 77, "jbd2/sda1-8", "jbd2/sda1-8");
    for task in workers {
        running(&mut build, task, 1_800, &["worker_main", "run_loop", "handle_batch", "compress"]);
        locks(&mut build, task, workers);
        let queue = stack(&["worker_main", "run_loop", "queue_pop"], &["pthread_cond_wait"], &["futex_wait"]);
        for number in 0..100 {
            let start_ns = number * 90 * MS;
            build.wait(task, Reason::Lock, start_ns, 61 * MS, &slices(&queue));
            let batch = stack(&["worker_main", "run_loop", "handle_batch", "compress"], &[], &[]);
            build.wait(task, Reason::NoCpu, start_ns + 61 * MS, 2_500_000, &slices(&batch));
        }
        build.thread_time(task, 1_805 * MS, 250 * MS, 7_935 * MS);
        build.short_waits(Reason::Lock, 4_000, 2 * MS);
    }
    running(&mut build, writer, 500, &["writer_main", "write_all"]);
    writes(&mut build, writer, kernel_thread);
    build.thread_time(writer, 500 * MS, 0, 9_500 * MS);
    running(&mut build, main, 40, &["main", "tick", "count_words"]);
    let sleep = stack(&["main"], &["usleep", "clock_nanosleep"], &["hrtimer_nanosleep"]);
    for number in 0..99 {
        let timer = Waker { kind: WakerKind::Interrupt, ..Waker::default() };
        let length_ns = 100 * MS;
        build.thinned_wait(
            main,
            Reason::Sleep,
            [number * 101 * MS, length_ns, length_ns],
            &slices(&sleep),
            timer,
        );
    }
    build.thread_time(main, 100 * MS, 0, 9_900 * MS);
    build.finish()
}

fn running(build: &mut Build, task: TaskId, samples: u64, own: &[&str]) {
    build.add(task, samples, &slices(&stack(own, &[], &[])));
    debug_assert_eq!(PERIOD_NS, MS);
}

/// Waits for a lock that another worker gives back.
fn locks(build: &mut Build, task: TaskId, workers: [TaskId; 2]) {
    let lock = stack(
        &["worker_main", "run_loop", "handle_batch", "pool_get"],
        &["pthread_mutex_lock", "__lll_lock_wait"],
        &["futex_wait"],
    );
    let unlock =
        stack(&["worker_main", "run_loop", "handle_batch", "pool_put"], &["pthread_mutex_unlock"], &[]);
    let release = stack(&["worker_main", "run_loop", "shutdown"], &["pthread_mutex_unlock"], &[]);
    let unlock = build.stack(&slices(&unlock));
    let release = build.stack(&slices(&release));
    let other = if task == workers[0] { workers[1] } else { workers[0] };
    for number in 0..180 {
        // Stacks of wakers are taken for some only.
        let stack = match number {
            0..10 => release,
            10..90 => unlock,
            _ => None,
        };
        let waker = Waker { kind: WakerKind::Thread, task: Some(other), stack };
        let length_ns = if number < 4 { 200 * MS } else { 5 * MS };
        build.thinned_wait(
            task,
            Reason::Lock,
            [number * 50 * MS, length_ns, length_ns],
            &slices(&lock),
            waker,
        );
    }
}

/// Writes that wait for the disk, of which only some were kept, and one for the network.
fn writes(build: &mut Build, task: TaskId, kernel_thread: TaskId) {
    let sync = stack(&["writer_main", "write_all"], &["fsync"], &["do_fsync", "jbd2_log_wait_commit"]);
    let commit = build.stack(&["[kernel]:kthread", "[kernel]:kjournald2", "[kernel]:commit_transaction"]);
    let waker = Waker { kind: WakerKind::Thread, task: Some(kernel_thread), stack: commit };
    for number in 0..100 {
        let [length_ns, weight] = if number < 50 { [10 * MS, 20 * MS] } else { [25 * MS, 25 * MS] };
        build.thinned_wait(task, Reason::Disk, [number * 100 * MS, length_ns, weight], &slices(&sync), waker);
    }
    let send = stack(&["writer_main", "write_all", "send_frame"], &["send"], &["tcp_sendmsg"]);
    let softirq = Waker { kind: WakerKind::SoftInterrupt, ..Waker::default() };
    build.thinned_wait(task, Reason::Network, [9_000 * MS, 50 * MS, 50 * MS], &slices(&send), softirq);
    let parse = stack(&["writer_main", "write_all", "parse_record"], &[], &["handle_mm_fault"]);
    build.wait(task, Reason::Fault, 9_100 * MS, 8 * MS, &slices(&parse));
    let poll = stack(&["writer_main"], &["__poll"], &["do_poll"]);
    build.wait(task, Reason::Poll, 2_000 * MS, 7_000 * MS, &slices(&poll));
}
