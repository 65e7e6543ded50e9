//! The rule that tells idle waits from others, on the shapes of stacks of well-known programs.
//!
//! Stacks are written root first; names without a module are the program's own.

use super::fixture::Build;
use super::fixture_waits::MS;
use crate::profile::{Reason, TaskId, Wait};
use crate::report::analysis::Analysis;

mod together;

const LIBC: &str = "/usr/lib/libc.so.6";

/// The stack of `functions`: those that begin with `@` are the C library's, those with `#` the kernel's, those with `%`
/// Python's.
fn stack(functions: &str) -> Vec<String> {
    (functions.split(' '))
        .map(|name| match (name.strip_prefix('@'), name.strip_prefix('#')) {
            (Some(name), _) => format!("{LIBC}:{name}"),
            (_, Some(name)) => format!("[kernel]:{name}"),
            _ => match name.strip_prefix('%') {
                Some(name) => format!("/usr/bin/python3.11:{name}"),
                None => format!("/usr/bin/program:{name}"),
            },
        })
        .collect()
}

/// Threads of one program, and what is known of their waits.
struct Case {
    build: Build,
    waits: Vec<(TaskId, Reason, Vec<String>)>,
    next_ns: u64,
}

impl Case {
    fn new() -> Self {
        Case { build: Build::new(), waits: Vec::new(), next_ns: 0 }
    }

    fn thread(&mut self, tid: u32, name: &str) -> TaskId {
        self.build.task(100, tid, name, "program")
    }

    fn runs(&mut self, task: TaskId, samples: u64, functions: &str) -> &mut Self {
        let stack = stack(functions);
        self.build.add(task, samples, &stack.iter().map(String::as_str).collect::<Vec<_>>());
        self
    }

    /// Waits `times` times for 10 ms.
    fn waits(&mut self, task: TaskId, reason: Reason, times: u64, functions: &str) -> &mut Self {
        let stack = stack(functions);
        for _ in 0..times {
            self.next_ns += 20 * MS;
            let frames: Vec<&str> = stack.iter().map(String::as_str).collect();
            self.build.wait(task, reason, self.next_ns, 10 * MS, &frames);
        }
        self.waits.push((task, reason, stack));
        self
    }

    /// Which of the waits are idle, in the order in which they were added.
    fn idle(mut self) -> Vec<bool> {
        let stacks: Vec<_> = (self.waits.iter())
            .map(|(task, reason, stack)| {
                let frames: Vec<&str> = stack.iter().map(String::as_str).collect();
                (*task, *reason, self.build.stack(&frames))
            })
            .collect();
        let recording: Analysis = self.build.finish();
        let (idle, reasons) = (recording.idle_waits(), recording.reasons());
        let shown = |reason, stack| reasons.reason(&Wait { reason, ..Wait::default() }, stack);
        stacks
            .into_iter()
            .map(|(task, reason, stack)| idle.is_idle(task, stack, shown(reason, stack)))
            .collect()
    }
}

/// Waits in the top loop of one thread that works elsewhere.
fn is_idle(reason: Reason, wait: &str, work: &[&str]) -> bool {
    let mut case = Case::new();
    let task = case.thread(1, "program");
    work.iter().for_each(|work| {
        case.runs(task, 50, work);
    });
    case.waits(task, reason, 20, wait);
    case.idle() == [true]
}

const POSTGRES: &str = "_start @main main PostmasterMain ServerLoop BackendMain PostgresMain";

#[test]
fn a_postgres_backend_that_waits_for_its_client_is_idle() {
    let mut case = Case::new();
    let backend = case.thread(1, "postgres");
    let query = format!("{POSTGRES} exec_simple_query PortalRun ExecutorRun ExecModifyTable");
    case.runs(backend, 60, &format!("{query} heap_update"))
        .runs(backend, 30, &format!("{POSTGRES} exec_simple_query pg_parse_query"))
        .runs(backend, 5, &format!("{POSTGRES} ReadCommand pq_getbyte pq_recvbuf secure_read @recv"))
        .waits(
            backend,
            Reason::Poll,
            100,
            &format!("{POSTGRES} ReadCommand pq_getbyte pq_recvbuf secure_read WaitEventSetWait @epoll_wait #ep_poll"),
        )
        // A lock between transactions is waited for with the same system call, deep inside of a query.
        .waits(
            backend,
            Reason::Poll,
            40,
            &format!("{query} heap_update XactLockTableWait ProcSleep WaitLatch WaitEventSetWait @epoll_wait #ep_poll"),
        )
        .waits(
            backend,
            Reason::Disk,
            40,
            &format!("{POSTGRES} exec_simple_query finish_xact XLogFlush @fdatasync #do_fsync"),
        );
    assert_eq!(case.idle(), [true, false, false]);
}

#[test]
fn an_nginx_worker_that_waits_for_events_is_idle() {
    let cycle =
        "_start @main main ngx_master_process_cycle ngx_worker_process_cycle ngx_process_events_and_timers";
    let wait = format!("{cycle} ngx_epoll_process_events @epoll_wait #ep_poll");
    let handler = format!("{cycle} ngx_epoll_process_events ngx_http_wait_request_handler ngx_http_process");
    let timers = format!("{cycle} ngx_event_expire_timers");
    assert!(is_idle(Reason::Poll, &wait, &[&handler, &handler, &timers]));
    // The same by its shape alone, in a program no one knows.
    let unknown = |text: &str| text.replace("ngx_", "my_");
    assert!(is_idle(Reason::Poll, &unknown(&wait), &[&unknown(&handler)]));
    assert!(!is_idle(Reason::Disk, &format!("{handler} @pread64 #folio_wait"), &[&handler]));
}

#[test]
fn threads_of_go_that_look_for_goroutines_are_idle() {
    let work = "runtime.goexit main.main main.serve main.handle";
    for park in [
        "runtime.mcall runtime.park_m runtime.schedule runtime.findRunnable runtime.stopm runtime.notesleep runtime.futex",
        "runtime.mstart runtime.mstart1 runtime.sysmon runtime.notetsleep runtime.futexsleep runtime.futex",
    ] {
        // A program that does little but schedule works in the scheduler, too.
        let scheduler =
            "runtime.mcall runtime.park_m runtime.schedule runtime.findRunnable runtime.runqsteal";
        assert!(is_idle(Reason::Lock, &format!("{park} #futex_wait"), &[work, scheduler]), "{park}");
    }
    let netpoll = "runtime.mcall runtime.park_m runtime.schedule runtime.findRunnable runtime.netpoll runtime.epollwait";
    assert!(is_idle(Reason::Poll, netpoll, &[work]));
    assert!(!is_idle(Reason::Lock, "runtime.mcall runtime.park_m runtime.lock2 runtime.futexsleep", &[work]));
    assert!(!is_idle(
        Reason::Pipe,
        "runtime.goexit main.main main.read os.(*File).Read syscall.Syscall",
        &[work]
    ));
}

#[test]
fn node_is_idle_in_its_event_loop_and_its_pool() {
    let run = "_start @main main node::Start node::SpinEventLoop uv_run";
    let work = format!("{run} uv__io_poll uv__stream_io node::OnRead v8::Function::Call");
    assert!(is_idle(Reason::Poll, &format!("{run} uv__io_poll @epoll_pwait #ep_poll"), &[&work]));
    let pool = "@start_thread worker uv_cond_wait @pthread_cond_wait #futex_wait";
    assert!(is_idle(Reason::Lock, pool, &[]));
    assert!(is_idle(Reason::Lock, pool, &["@start_thread worker uv__fs_work"]));
}

#[test]
fn parked_threads_of_rust_executors_are_idle() {
    for park in [
        "@start_thread std::sys::thread_start tokio::runtime::blocking::pool::Inner::run \
         std::sys::sync::condvar::futex::Condvar::wait @syscall",
        "@start_thread std::sys::thread_start rayon_core::registry::WorkerThread::wait_until_cold \
         rayon_core::sleep::Sleep::sleep std::sys::sync::condvar::futex::Condvar::wait @syscall",
    ] {
        let work = "@start_thread std::sys::thread_start rayon_core::job::execute app::work";
        assert!(is_idle(Reason::Lock, park, &[work]), "{park}");
    }
    let contended =
        "@start_thread std::sys::thread_start app::run std::sys::sync::mutex::futex::Mutex::lock_contended";
    assert!(!is_idle(Reason::Lock, contended, &["@start_thread std::sys::thread_start app::run app::work"]));
}

#[test]
fn a_timed_sleep_in_the_top_loop_is_idle() {
    assert!(is_idle(
        Reason::Sleep,
        "_start main @sleep @clock_nanosleep #do_nanosleep",
        &["_start main work"]
    ));
    let python = "_start main Py_RunMain _PyEval_Vector _PyEval_EvalFrameDefault";
    let work = "_start main Py_RunMain _PyEval_Vector _PyEval_EvalFrameDefault dict_lookup";
    assert!(is_idle(Reason::Sleep, &format!("{python} time_sleep @clock_nanosleep #do_nanosleep"), &[work]));
    // Nothing else was done at all.
    assert!(is_idle(Reason::Sleep, "_start main @pause_for @clock_nanosleep #do_nanosleep", &[]));
}

#[test]
fn a_stripped_program_is_judged_by_its_call_sites() {
    let (wait, work) = ("@start +0x10 @poll #do_poll", "@start +0x20 +0x90");
    assert!(is_idle(Reason::Poll, wait, &[work]));
    // The call that waits is made by what does the work.
    assert!(!is_idle(Reason::Poll, "@start +0x20 +0x94 @poll #do_poll", &["@start +0x20 +0x94 +0xa0", work]));
}

#[test]
fn a_sleep_in_the_middle_of_work_is_not_idle() {
    let mut case = Case::new();
    let task = case.thread(1, "worker");
    let handler = "@start_thread worker run_loop handle";
    case.runs(task, 50, &format!("{handler} parse"))
        .runs(task, 50, &format!("{handler} store"))
        .waits(
            task,
            Reason::Lock,
            30,
            "@start_thread worker run_loop queue_pop @pthread_cond_wait #futex_wait",
        )
        .waits(task, Reason::Sleep, 30, &format!("{handler} retry @usleep #do_nanosleep"))
        .waits(task, Reason::Lock, 30, &format!("{handler} future_get @pthread_cond_wait #futex_wait"));
    assert_eq!(case.idle(), [true, false, false]);
}

/// A program that mostly sleeps: `main` → `handle` → `slow_disk` → `usleep`.
const SLOW_DISK: &str = "_start @main main handle slow_disk @usleep #do_nanosleep";

#[test]
fn a_sleep_deep_inside_of_a_program_that_hardly_works_is_not_idle() {
    assert!(!is_idle(Reason::Sleep, SLOW_DISK, &[]));
    // A thread whose main function sleeps itself, or by a function for it.
    assert!(is_idle(Reason::Sleep, "@start_thread ticker @usleep #do_nanosleep", &[]));
    assert!(is_idle(Reason::Sleep, "@start_thread ticker sleep_ms @usleep #do_nanosleep", &[]));
}

#[test]
fn a_command_that_was_started_for_the_recording_never_sleeps_for_nothing() {
    let idle = |is_command: bool, tid: u32| {
        let mut case = Case::new();
        let task = case.thread(tid, "program");
        let meta = case.build.meta();
        (meta.is_command, meta.target_pids) = (is_command, vec![100]);
        case.waits(task, Reason::Sleep, 20, "_start @main main @usleep #do_nanosleep").waits(
            task,
            Reason::Poll,
            20,
            "_start @main main @poll #do_poll",
        );
        case.idle()
    };
    assert_eq!(idle(false, 100), [true, true]);
    assert_eq!(idle(true, 100), [false, true], "its first thread sleeps for its own sake");
    assert_eq!(idle(true, 101), [true, true], "the others may wait for work");
}

/// Some of its waits end because no one has brought work in time.
#[test]
fn a_pool_that_waits_for_work_with_a_limit_is_idle_whoever_ends_the_wait() {
    let mut case = Case::new();
    let task = case.thread(1, "worker");
    let pop = "@start_thread worker run_loop queue_pop @pthread_cond_timedwait #futex_wait";
    case.runs(task, 50, "@start_thread worker run_loop handle parse")
        .runs(task, 50, "@start_thread worker run_loop handle store")
        .waits(task, Reason::Lock, 30, pop)
        .waits(task, Reason::Sleep, 30, pop)
        .waits(
            task,
            Reason::Sleep,
            30,
            "@start_thread worker run_loop handle @pthread_mutex_timedlock #futex_wait",
        );
    assert_eq!(case.idle(), [true, true, false], "no thread idles for a certain lock");
}

#[test]
fn a_handler_of_a_thread_that_never_waits_for_work_is_not_its_loop() {
    let worker = "@start_thread worker";
    let handler = format!("{worker} +0x10 +0x18");
    let mut case = Case::new();
    let task = case.thread(1, "worker");
    case.runs(task, 500, &format!("{worker} +0x10 +0x20 burn"))
        .waits(task, Reason::Lock, 30, &format!("{worker} +0x10 +0x28 @pthread_mutex_lock #futex_wait"))
        // Called by a function that the handler calls.
        .waits(task, Reason::Sleep, 30, &format!("{handler} pool_put @usleep #do_nanosleep"))
        .waits(task, Reason::Sleep, 30, &format!("{worker} +0x10 +0x30 @usleep #do_nanosleep"));
    assert_eq!(case.idle(), [false, false, true]);
    // The loop was seen outside of the handler.
    let mut case = Case::new();
    let task = case.thread(1, "worker");
    case.runs(task, 500, &format!("{worker} +0x10 +0x20 burn"))
        .runs(task, 10, &format!("{worker} +0x11 queue_pop"))
        .waits(task, Reason::Sleep, 30, &format!("{worker} +0x10 +0x30 @usleep #do_nanosleep"))
        .waits(task, Reason::Lock, 30, &format!("{worker} +0x10 +0x38 @pthread_cond_wait #futex_wait"));
    assert_eq!(case.idle(), [false, false]);
}

#[test]
fn what_happens_once_does_not_hide_the_loop() {
    let mut case = Case::new();
    let task = case.thread(1, "server");
    case.waits(task, Reason::Sleep, 1, "_start main @usleep #do_nanosleep")
        .runs(task, 90, "_start main serve loop handle")
        .waits(task, Reason::Poll, 100, "_start main serve loop @poll #do_poll");
    assert_eq!(case.idle(), [true, true]);
}

#[test]
fn waits_for_something_certain_are_never_idle() {
    let top = "_start main";
    for (reason, call) in [
        (Reason::Lock, "@pthread_mutex_lock @__lll_lock_wait #futex_wait"),
        (Reason::Lock, "@pthread_cond_wait @__pthread_mutex_cond_lock @__lll_lock_wait #futex_wait"),
        (Reason::Lock, "take_gil @pthread_cond_timedwait #futex_wait"),
        (Reason::Lock, "@unknown #futex_wait"),
        (Reason::Disk, "@fsync #do_fsync"),
        (Reason::Network, "@recv #tcp_recvmsg"),
        // What a worker reads from a pipe is its work.
        (Reason::Pipe, "@read #pipe_read"),
        (Reason::Fault, "#handle_mm_fault"),
        (Reason::Child, "@waitpid #do_wait"),
        (Reason::NoCpu, "@epoll_wait #ep_poll"),
        (Reason::Stopped, "@epoll_wait #ep_poll"),
        (Reason::Other, "@ioctl #sync_wait"),
        (Reason::Unknown(99), "@epoll_wait #ep_poll"),
    ] {
        assert!(!is_idle(reason, &format!("{top} {call}"), &["_start main work"]), "{reason:?} {call}");
        assert!(!is_idle(reason, &format!("{top} {call}"), &[]), "{reason:?} {call}");
    }
}

/// A client that shows pages: nearly all of its work is in what shows them, and the call that asks for them looks like the wait
/// of its loop.
#[test]
fn waits_for_an_answer_are_never_idle() {
    let work = ["_start main page render"];
    for (reason, wait) in [
        (Reason::Poll, "load PQexec PQgetResult @poll #do_poll"),
        (Reason::Poll, "load curl_easy_perform @poll #do_poll"),
        (Reason::Poll, "load @getaddrinfo @__res_context_send @poll #do_poll"),
        (Reason::Poll, "load @__GI_getaddrinfo @__GI___res_context_send @__GI___poll #do_poll"),
        (Reason::Poll, "load sock_recv_guts.isra.0 @poll #do_poll"),
        (Reason::Lock, "load grpc_completion_queue_pluck @pthread_cond_wait #futex_wait"),
        (Reason::Poll, "node::SyncProcessRunner::Spawn uv_run uv__io_poll @epoll_pwait #ep_poll"),
    ] {
        assert!(!is_idle(reason, &format!("_start main page {wait}"), &work), "{wait}");
    }
    // The same with a call of the program's own.
    assert!(is_idle(Reason::Poll, "_start main page load @poll #do_poll", &work));
}

#[test]
fn an_event_loop_inside_of_another_is_not_known_by_its_name() {
    let wait = "_start main uv_run on_request ask uv_run uv__io_poll @epoll_wait #ep_poll";
    let work = ["_start main uv_run on_request parse", "_start main uv_run on_request ask uv_run on_answer"];
    assert!(!is_idle(Reason::Poll, wait, &work));
    assert!(is_idle(Reason::Poll, "_start main uv_run uv__io_poll @epoll_wait #ep_poll", &work));
}

#[test]
fn waits_for_anybody_are_idle_in_the_top_loop() {
    for (reason, call) in [
        (Reason::Network, "@accept4 #inet_csk_accept"),
        (Reason::Pipe, "@accept #unix_accept"),
        (Reason::Other, "@sigwait #do_sigtimedwait"),
        (Reason::Lock, "@pthread_join @__futex_abstimed_wait_common64 #futex_wait"),
        (Reason::Lock, "@sem_wait #futex_wait"),
        (Reason::Poll, "@select #do_select"),
    ] {
        assert!(is_idle(reason, &format!("_start main {call}"), &["_start main work"]), "{reason:?} {call}");
    }
}

#[test]
fn kernel_threads_are_idle_in_their_main_function() {
    assert!(is_idle(Reason::Other, "#ret_from_fork #kthread #worker_thread #schedule #__schedule", &[]));
    assert!(!is_idle(
        Reason::Other,
        "#ret_from_fork #kthread #kjournald2 #commit #wait_on_buffer #schedule",
        &[]
    ));
}

#[test]
fn a_park_deep_inside_of_a_thread_without_other_stacks_is_not_idle() {
    let deep = "_start main a b c d e f g @pthread_cond_wait #futex_wait";
    assert!(!is_idle(Reason::Lock, deep, &[]));
    assert!(is_idle(Reason::Lock, "_start main a b @pthread_cond_wait #futex_wait", &[]));
}

#[test]
fn time_inside_of_the_blocking_call_is_no_work() {
    let mut case = Case::new();
    let task = case.thread(1, "ticker");
    let sleep = "_start main @clock_nanosleep #do_nanosleep";
    case.runs(task, 500, "_start main @clock_nanosleep #hrtimer_start").runs(task, 20, "_start main tick");
    case.waits(task, Reason::Sleep, 500, sleep);
    assert_eq!(case.idle(), [true]);
}

#[test]
fn the_call_that_blocks_is_no_work_whatever_it_does_inside() {
    let pop = "@start_thread worker +0x10 uv_cond_wait";
    let mut case = Case::new();
    let task = case.thread(1, "worker");
    case.runs(task, 300, &format!("{pop} @pthread_cond_wait @__pthread_mutex_unlock"))
        .waits(
            task,
            Reason::Lock,
            90,
            &format!("{pop} @pthread_cond_wait @__pthread_mutex_cond_lock #futex_wait"),
        )
        .runs(task, 20, "@start_thread worker +0x20 uv__fs_work")
        .waits(task, Reason::Lock, 300, &format!("{pop} @pthread_cond_wait @futex #futex_wait"));
    assert_eq!(case.idle(), [false, true]);
}

#[test]
fn how_long_a_wait_lasts_plays_no_part() {
    for length_ns in [1_000, 10_000_000_000] {
        let mut build = Build::new();
        let task = build.task(1, 1, "t", "t");
        let [idle, busy] = ["_start main @epoll_wait #ep_poll", "_start main @read #pipe_read"].map(stack);
        let frames = |stack: &[String]| stack.to_vec();
        for (reason, stack) in [(Reason::Poll, frames(&idle)), (Reason::Pipe, frames(&busy))] {
            let stack: Vec<&str> = stack.iter().map(String::as_str).collect();
            build.wait(task, reason, 0, length_ns, &stack);
        }
        let recording = build.finish();
        let idle = recording.idle_waits();
        assert_eq!((idle.all().count(), idle.all_but_idle().count()), (2, 1));
    }
}

#[test]
fn what_an_interpreter_does_inside_of_the_call_that_blocks_is_no_work() {
    let eval = "_start %Py_RunMain %_PyEval_Vector %_PyEval_EvalFrameDefault";
    let sleep = format!("{eval} %time_sleep @clock_nanosleep #do_nanosleep");
    let mut case = Case::new();
    let task = case.thread(1, "python3");
    case.runs(task, 50, &format!("{eval} %time_sleep %take_gil @pthread_cond_signal"))
        .runs(task, 20, eval)
        .runs(task, 20, &format!("{eval} %builtin_len"))
        .waits(task, Reason::Sleep, 90, &sleep);
    assert_eq!(case.idle(), [true]);
    // Python calls a function that it has called often on a shorter way.
    let mut case = Case::new();
    let (often, seldom) = (case.thread(1, "python3"), case.thread(2, "python3"));
    let long_way = format!("{eval} %PyObject_Vectorcall %time_sleep @clock_nanosleep #do_nanosleep");
    case.runs(often, 50, eval)
        .runs(seldom, 3, &format!("{eval} %builtin_len"))
        .runs(seldom, 50, "_start %Py_RunMain %import")
        .waits(often, Reason::Sleep, 90, &sleep)
        .waits(seldom, Reason::Sleep, 3, &long_way);
    let idle = case.idle();
    assert_eq!(idle[0], idle[1]);
}
