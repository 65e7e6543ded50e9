//! Threads that are judged together, and those that are not.

use super::*;

#[test]
fn threads_that_do_the_same_are_judged_the_same_whatever_their_samples_happened_to_hit() {
    // Twenty processes sleep in their loop, in a function that now and then does something else, too. By its own
    // samples alone, it would be much of the work of some, none of that of others, and of some no one would know.
    let top = "_start main run loop";
    let mut case = Case::new();
    for number in 0..20 {
        let task = case.build.task(100 + number, 100 + number, "ticker", "ticker");
        let (outside, inside) = [(9, 3), (12, 0), (8, 4), (3, 0)][number as usize % 4];
        case.runs(task, outside, &format!("{top} tick"))
            .runs(task, inside, &format!("{top} nap tick"))
            .waits(task, Reason::Sleep, 20, &format!("{top} nap @clock_nanosleep #do_nanosleep"));
    }
    assert_eq!(case.idle(), [true; 20]);
}

#[test]
fn threads_that_wait_in_different_places_are_judged_on_their_own() {
    // What one worker does in its handler is not the other's loop, though both have one name and one process.
    let mut case = Case::new();
    let (a, b) = (case.thread(1, "worker"), case.thread(2, "worker"));
    let worker = "@start_thread worker";
    case.runs(a, 100, &format!("{worker} serve handle parse"))
        .waits(a, Reason::Poll, 30, &format!("{worker} serve @poll #do_poll"))
        .waits(a, Reason::Sleep, 30, &format!("{worker} serve handle retry @usleep #do_nanosleep"))
        .runs(b, 100, &format!("{worker} tick count"))
        .waits(b, Reason::Sleep, 30, &format!("{worker} tick @usleep #do_nanosleep"));
    assert_eq!(case.idle(), [true, false, true]);
}

#[test]
fn threads_of_one_name_that_do_different_things_say_nothing_of_each_other() {
    let mut case = Case::new();
    let (main, other) = (case.thread(1, "node"), case.thread(2, "node"));
    case.runs(main, 500, "_start @main main uv_run work").waits(
        other,
        Reason::Lock,
        1,
        "@start_thread StartIoThread uv_sem_wait @sem_wait #futex_wait",
    );
    assert_eq!(case.idle(), [true]);
}

#[test]
fn a_backend_without_work_is_judged_like_others_with_the_same_stack() {
    let mut case = Case::new();
    let (busy, quiet, stuck) =
        (case.thread(1, "postgres"), case.thread(2, "postgres"), case.thread(3, "postgres"));
    let client = format!("{POSTGRES} ReadCommand secure_read WaitEventSetWait @epoll_wait #ep_poll");
    let query = format!("{POSTGRES} exec_simple_query PortalRun");
    let lock = format!("{query} heap_update ProcSleep WaitLatch WaitEventSetWait @epoll_wait #ep_poll");
    case.runs(busy, 50, &format!("{query} heap_update"))
        .runs(busy, 50, &format!("{query} index_insert"))
        .runs(busy, 50, &format!("{POSTGRES} exec_simple_query parse"))
        .waits(busy, Reason::Poll, 50, &client)
        .waits(quiet, Reason::Poll, 1, &client)
        .waits(stuck, Reason::Poll, 1, &lock);
    assert_eq!(case.idle(), [true, true, false]);
}
