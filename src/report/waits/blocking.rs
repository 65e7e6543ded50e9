//! How a thread came to block: the functions between its root and the blocking call, and whether programs use that
//! call to wait for work.

use super::calls::{WaitingCall, is_one_of, ruby_wait};
use crate::profile::{FrameId, FrameSpace, ModuleId, Profile, Reason, StackId, StringId, is_kernel_lock};
use crate::report::model::label::{code_kind, module_text};
use crate::report::model::label_kind::LabelKind;
use crate::report::naming::code::{Code, is_c_library, is_own};
use crate::report::naming::machinery::{is_own_extension, is_ruby, is_ruby_file};
use crate::report::naming::name::module_stem;
use rustc_hash::FxHashMap;

/// Calls that wait for the next client.
const ACCEPTS: [&str; 7] =
    ["accept", "accept4", "__libc_accept", "__libc_accept4", "inet_csk_accept", "unix_accept", "do_accept"];

/// Calls that wait for a signal or a message from any sender.
const SIGNALS: [&str; 13] = [
    "sigwait",
    "__sigwait",
    "sigwaitinfo",
    "__sigwaitinfo",
    "sigtimedwait",
    "__sigtimedwait",
    "do_sigtimedwait",
    "pause",
    "__pause",
    "sigsuspend",
    "__sigsuspend",
    "mq_receive",
    "mq_timedreceive",
];

/// Calls that wait for an answer to a request, or for what comes through one connection: they do it with `poll`
/// where there is a limit on the time.
const ANSWERS: [&str; 45] = [
    "PQexec",
    "PQexecParams",
    "PQexecPrepared",
    "PQgetResult",
    "PQconnectdb",
    "PQconnectdbParams",
    "PQsetdbLogin",
    "mysql_real_connect",
    "mysql_real_query",
    "mysql_send_query",
    "mysql_read_query_result",
    "mysql_stmt_execute",
    "mysql_store_result",
    "mysql_ping",
    "redisGetReply",
    "redisConnect",
    "redisConnectWithTimeout",
    "_mongoc_socket_wait",
    "ldap_result",
    "curl_easy_perform",
    "getaddrinfo",
    "getnameinfo",
    "gethostbyname_r",
    "gethostbyaddr_r",
    "__res_context_send",
    "res_nsend",
    "SSL_read",
    "SSL_read_ex",
    "SSL_connect",
    "SSL_do_handshake",
    "gnutls_record_recv",
    "gnutls_handshake",
    "_XReply",
    "xcb_wait_for_reply",
    "wl_display_roundtrip_queue",
    "dbus_connection_send_with_reply_and_block",
    "sd_bus_call",
    "g_dbus_connection_call_sync",
    "grpc_completion_queue_pluck",
    "sock_connect",
    "sock_recv",
    "sock_recv_guts",
    "sock_recv_into",
    "sock_send",
    "sock_sendall",
];

/// Node waits for a command that it runs (`execSync`) with an event loop of its own; the names of C++ have arguments after them.
const ANSWERING: &str = "node::SyncProcessRunner::";

/// Functions that run an event loop, some of which wait themselves. One that runs inside of another is no thread's top loop.
const LOOP_ENTRIES: [&str; 7] = [
    "uv_run",
    "g_main_context_iterate",
    "g_main_context_iterate_unlocked",
    "event_base_loop",
    "ev_run",
    "aeProcessEvents",
    "sd_event_run",
];

/// Functions of event loops that wait themselves, and do nothing else in between.
const LOOPS: [&str; 21] = [
    "uv__io_poll",
    "uv__run_timers",
    "ngx_epoll_process_events",
    "ngx_poll_process_events",
    "aeApiPoll",
    "epoll_dispatch",
    "poll_dispatch",
    "select_dispatch",
    "epoll_poll",
    "g_main_context_poll",
    "g_main_context_poll_unlocked",
    "runtime.findRunnable",
    "runtime.findrunnable",
    "runtime.stopm",
    "runtime.sysmon",
    "runtime.templateThread",
    "runtime.stoplockedm",
    "runtime.netpoll",
    "sd_event_wait",
    "wl_event_loop_dispatch",
    "xcb_wait_for_event",
];

/// Interpreters, by how the names of their files begin.
const INTERPRETERS: [&str; 6] = ["python", "libpython", "perl", "libperl", "ruby", "libruby"];

/// The function of an interpreter that runs the program's own, by name.
const EVALUATORS: [&str; 6] = [
    "_PyEval_EvalFrameDefault",
    "PyEval_EvalFrameEx",
    "Perl_runops_standard",
    "Perl_runops_debug",
    "vm_exec_core",
    "rb_vm_exec",
];

/// Facts that the functions of one frame tell.
#[derive(Debug, Clone, Copy, Default)]
struct FrameFacts {
    is_kernel: bool,
    is_own: bool,
    /// An interpreter's function: it may be any function of the program that it runs.
    is_interpreter: bool,
    /// The interpreter's function that runs those of the program.
    is_evaluator: bool,
    /// A function of the kernel that waits for a lock.
    is_kernel_lock: bool,
    waiting: WaitingCall,
    accepts: bool,
    awaits_signal: bool,
    awaits_answer: bool,
    is_loop: bool,
    enters_loop: bool,
    starts_kernel_thread: bool,
    schedules: bool,
    /// A function of the C library.
    is_c_library: bool,
    /// A function that an interpreter runs.
    is_run: bool,
    /// What a function of Ruby waits for.
    waits_for: Option<Reason>,
}

impl FrameFacts {
    /// Whether a frame is part of the call that blocks: until the first function of the program's own. What is known to wait is
    /// part of it, whosever code it is: a runtime's monitors.
    fn is_in_call(&self) -> bool {
        !self.is_own || self.waiting.is_any()
    }

    /// Whether it is the function that waits for an interpreter's lock, where `call` is what it and those that it called say
    /// of the wait, and all of these are the C library's. CPython has conditions for nothing else; that function is not
    /// exported, so that it often has no name.
    fn is_gil_of(&self, call: WaitingCall) -> bool {
        self.is_interpreter && !self.is_run && !self.waiting.is_any() && call.is_condition && !call.locks
    }
}

/// Facts that a stack tells of the wait at its end.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Blocking {
    /// The stack without its kernel frames; `None` when there are no others.
    pub(crate) user: Option<StackId>,
    /// Frames of the program's own code.
    pub(crate) own_frames: u32,
    /// Place where the program's own code calls something else.
    pub(super) call_site: Option<CallSite>,
    /// The outermost frame of the program's own: the thread's main function.
    pub(crate) entry: Option<FrameId>,
    /// The innermost function that is no C library's is an event loop's, which runs in no other one.
    pub(super) in_loop: bool,
    /// A kernel thread whose main function waits.
    pub(super) is_kernel_loop: bool,
    /// Kind of the call that blocks.
    waiting: WaitingCall,
    /// Whether the wait is inside of a lock of the kernel.
    is_kernel_lock: bool,
    /// Whether the wait is for the lock of an interpreter.
    is_gil: bool,
    accepts: bool,
    awaits_signal: bool,
    awaits_answer: bool,
}

impl Blocking {
    /// Notes whether the wait is for the lock of an interpreter, by the next user frame outwards; `is_library_call`: all so far
    /// are the C library's.
    fn note_gil(&mut self, facts: FrameFacts, is_call: bool, is_library_call: &mut bool) {
        if facts.is_kernel {
            return;
        }
        let call = self.waiting.and(facts.waiting);
        self.is_gil |= is_call && (call.is_gil || *is_library_call && facts.is_gil_of(call));
        *is_library_call &= facts.is_c_library;
    }

    /// Returns the reason that a wait for `reason` is judged by: a wait for work that timed out is like one that another
    /// thread ended.
    pub(super) fn judged_as(&self, reason: Reason) -> Reason {
        match reason {
            Reason::Sleep if self.waiting.parks => Reason::Condvar,
            reason => reason,
        }
    }

    /// Whether the call is one with which programs wait for work, by any caller.
    pub(super) fn may_be_idle(&self, reason: Reason) -> bool {
        match reason {
            _ if self.awaits_answer => false,
            Reason::Poll => true,
            Reason::Sleep => !self.waiting.locks,
            Reason::Condvar | Reason::Futex => self.waiting.parks && !self.waiting.locks,
            Reason::Network => self.accepts,
            Reason::Pipe | Reason::Other => self.accepts || self.awaits_signal || self.is_kernel_loop,
            _ => false,
        }
    }
}

/// Place where a program's own code calls something else: the stack up to the innermost frame of its own. The program that
/// an interpreter runs calls what the interpreter itself has made of C: there it is the stack above the function that
/// runs the program, and the function of its own that makes the call, since the way between them varies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct CallSite {
    pub(crate) stack: StackId,
    /// Function that the program which an interpreter runs calls.
    pub(super) builtin: Option<FunctionKey>,
}

impl CallSite {
    /// A stack whose innermost frame is the program's own is its own site.
    pub(crate) fn at(stack: StackId) -> Self {
        CallSite { stack, builtin: None }
    }
}

/// A function: its name, or where it has none an address in it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub(crate) struct FunctionKey {
    module: ModuleId,
    name: StringId,
    address: u64,
}

impl FunctionKey {
    /// Orders functions in the same way whatever the order of the samples was.
    pub(crate) fn order_key<'p>(&self, profile: &'p Profile) -> (&'p str, &'p str, u64) {
        let path = profile.tables.module(self.module).path;
        (profile.tables.string(path), profile.tables.string(self.name), self.address)
    }
}

/// Reads stacks; what was learned of a frame is kept.
#[derive(Debug)]
pub(crate) struct BlockingCalls<'p> {
    profile: &'p Profile,
    of_frame: Vec<Option<FrameFacts>>,
    of_stack: FxHashMap<StackId, Blocking>,
}

impl<'p> BlockingCalls<'p> {
    pub(crate) fn new(profile: &'p Profile) -> Self {
        let of_frame = vec![None; profile.tables.frames().len()];
        BlockingCalls { profile, of_frame, of_stack: FxHashMap::default() }
    }

    /// Returns the key of the function that `frame` is in.
    pub(crate) fn function(&self, frame: FrameId) -> FunctionKey {
        let row = self.profile.tables.frame(frame);
        let owner = self.profile.symbols.locations(frame).last();
        let name = owner.map_or(StringId(0), |owner| self.profile.symbols.function(owner.function).name);
        FunctionKey { module: row.module, name, address: if name == StringId(0) { row.address } else { 0 } }
    }

    /// Returns the facts that `stack` tells of the wait at its end.
    pub(crate) fn of(&mut self, stack: StackId) -> Blocking {
        if let Some(known) = self.of_stack.get(&stack) {
            return *known;
        }
        let blocking = self.read(stack);
        self.of_stack.insert(stack, blocking);
        blocking
    }

    /// Returns the reason of a wait that was recorded as one for a lock: a futex has many uses, and who calls it says
    /// which. A condition variable that takes its lock again waits for a lock, and so does a lock that is made of a
    /// condition variable.
    pub(super) fn of_lock(&mut self, stack: StackId) -> Reason {
        let blocking = self.of(stack);
        match blocking.waiting {
            _ if blocking.is_kernel_lock => Reason::Lock,
            _ if blocking.is_gil => Reason::Gil,
            WaitingCall { may_be_other: true, .. } => Reason::Futex,
            WaitingCall { locks: true, .. } => Reason::Lock,
            WaitingCall { is_condition: true, .. } => Reason::Condvar,
            _ => Reason::Futex,
        }
    }

    /// The lock that a wait is for which a timer ended, and which was recorded as a sleep for that; `None` for other sleeps.
    pub(super) fn rechecked_lock(&mut self, stack: StackId) -> Option<Reason> {
        // Only the call that blocks says it: there is no need to read the rest of the stack.
        let mut at = Some(stack);
        let mut call = WaitingCall::default();
        while let Some(id) = at {
            let row = self.profile.tables.stack(id);
            let facts = self.frame(row.frame);
            call = call.and(facts.waiting);
            if call.is_gil || facts.is_gil_of(call) {
                return Some(Reason::Gil);
            }
            if facts.waiting.is_rechecked {
                return Some(Reason::Lock);
            }
            at = row.parent.filter(|_| facts.is_in_call());
        }
        None
    }

    /// What a wait in `poll` is for, where it is not for a file. The first thread of Ruby sleeps so and waits for its children:
    /// a signal may have to end it.
    pub(super) fn polls_for(&mut self, stack: StackId) -> Option<Reason> {
        let mut at = Some(stack);
        while let Some(id) = at {
            let row = self.profile.tables.stack(id);
            let facts = self.frame(row.frame);
            if facts.is_run || facts.waits_for.is_some() {
                return facts.waits_for;
            }
            at = row.parent.filter(|_| !facts.is_own || facts.is_interpreter);
        }
        None
    }

    /// `stack` without its kernel frames.
    pub(super) fn user_part(&self, stack: StackId) -> Option<StackId> {
        let tables = &self.profile.tables;
        let mut at = Some(stack);
        while let Some(id) = at {
            let row = tables.stack(id);
            if tables.frame(row.frame).flags.space == FrameSpace::User {
                return Some(id);
            }
            at = row.parent;
        }
        None
    }

    /// Frames of the program's own code, but for those of an interpreter, inside of the outer `frames` of `stack`.
    pub(super) fn own_frames_below(&mut self, stack: StackId, frames: usize) -> usize {
        let inner: Vec<FrameId> = self.profile.tables.stack_frames(stack).collect();
        let inner = &inner[..inner.len().saturating_sub(frames)];
        let facts = inner.iter().map(|frame| self.frame(*frame));
        facts.filter(|facts| facts.is_own && !facts.is_interpreter).count()
    }

    fn read(&mut self, stack: StackId) -> Blocking {
        let mut blocking = Blocking { user: self.user_part(stack), ..Blocking::default() };
        // Until the first function of the program's own is passed, the frames belong to the call that blocks.
        let mut is_call = true;
        let mut kernel_functions = 0;
        let mut loops = 0;
        // All user frames so far are an interpreter's, or those of what it calls.
        let mut is_builtin = true;
        let mut innermost_own: Option<FrameId> = None;
        let mut is_library_call = true;
        let mut at = Some(stack);
        while let Some(id) = at {
            let row = self.profile.tables.stack(id);
            at = row.parent;
            let facts = self.frame(row.frame);
            blocking.awaits_answer |= facts.awaits_answer;
            loops += u32::from(facts.enters_loop);
            blocking.is_kernel_lock |= facts.is_kernel_lock;
            blocking.note_gil(facts, is_call, &mut is_library_call);
            if is_call {
                blocking.waiting = blocking.waiting.and(facts.waiting);
                blocking.accepts |= facts.accepts;
                blocking.awaits_signal |= facts.awaits_signal;
                blocking.in_loop |= facts.is_loop;
            }
            if facts.is_own {
                if blocking.own_frames == 0 && blocking.user != Some(id) {
                    blocking.call_site = Some(CallSite::at(id));
                }
                is_call &= facts.is_in_call();
                blocking.own_frames += 1;
                blocking.entry = Some(row.frame);
            }
            if !facts.is_kernel {
                is_builtin &= !facts.is_own || facts.is_interpreter || facts.is_run;
                // Where the functions that an interpreter runs are known, the innermost of them calls.
                let caller = if facts.is_run { Some(id) } else { row.parent };
                if is_builtin
                    && (facts.is_evaluator || facts.is_run)
                    && let (Some(frame), Some(stack)) = (innermost_own, caller)
                {
                    blocking.call_site = Some(CallSite { stack, builtin: Some(self.function(frame)) });
                }
                is_builtin &= !facts.is_evaluator && !facts.is_run;
                if facts.is_own {
                    innermost_own = innermost_own.or(Some(row.frame));
                }
            }
            if facts.schedules {
                kernel_functions = 0;
            } else if facts.starts_kernel_thread {
                blocking.is_kernel_loop = blocking.user.is_none() && kernel_functions <= 1;
            } else {
                kernel_functions += 1;
            }
        }
        blocking.in_loop &= loops <= 1;
        blocking
    }

    fn frame(&mut self, frame: FrameId) -> FrameFacts {
        if let Some(Some(known)) = self.of_frame.get(frame.index()) {
            return *known;
        }
        let facts = self.read_frame(frame);
        if let Some(known) = self.of_frame.get_mut(frame.index()) {
            *known = Some(facts);
        }
        facts
    }

    fn read_frame(&self, frame: FrameId) -> FrameFacts {
        let tables = &self.profile.tables;
        let row = tables.frame(frame);
        let module = tables.module(row.module);
        let path = module_text(self.profile, module.path, module.kind);
        let kind = code_kind(module.kind, &path, row.flags.space);
        let mut facts = FrameFacts {
            is_kernel: kind == LabelKind::Kernel,
            is_run: kind == LabelKind::Interpreted,
            is_evaluator: row.flags.is_interpreter,
            ..FrameFacts::default()
        };
        let file = module_stem(&path);
        // The part of its own library that is made of C, too.
        facts.is_interpreter = !facts.is_run
            && (INTERPRETERS.iter().any(|name| file.starts_with(name)) || is_own_extension(&path));
        let locations = self.profile.symbols.locations(frame);
        let unnamed = Code { kind, module: &path, name: "", file: "", is_inlined: false };
        if locations.is_empty() {
            facts.is_own = is_own(unnamed);
        }
        for location in locations {
            let name = tables.string(self.profile.symbols.function(location.function).name);
            let file = tables.string(location.file);
            let code = Code { name, file, is_inlined: location.is_inlined, ..unnamed };
            facts.is_own |= is_own(code);
            facts.is_c_library |= is_c_library(code);
            let is_one_of = |names: &[&str]| is_one_of(name, names);
            facts.accepts |= is_one_of(&ACCEPTS);
            facts.awaits_signal |= is_one_of(&SIGNALS);
            if facts.is_kernel {
                facts.is_kernel_lock |= is_kernel_lock(name);
                facts.starts_kernel_thread |= name == "kthread";
                facts.schedules |= name.contains("schedule");
            } else {
                facts.waiting = facts.waiting.and(WaitingCall::of(name, file));
                facts.awaits_answer |= is_one_of(&ANSWERS) || name.contains(ANSWERING);
                facts.enters_loop |= is_one_of(&LOOP_ENTRIES);
                facts.is_loop |= facts.enters_loop || is_one_of(&LOOPS);
                facts.is_evaluator |= facts.is_interpreter && is_one_of(&EVALUATORS);
                if is_ruby_file(&path) || facts.is_run && is_ruby(&path) {
                    facts.waits_for = facts.waits_for.or(ruby_wait(name, facts.is_run));
                }
            }
        }
        facts
    }
}
