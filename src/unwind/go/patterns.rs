//! Rules for Go's code. Its `.debug_frame` does not say where stacks end or change: the runtime's functions for that are
//! known by name, and their frame pointers lead over the change (`runtime/asm_amd64.s`). Where it is stripped, Go's own
//! table of functions says the same.

use super::pclntab::GoTable;
use super::runtime::{call_rules, calls_of, goroutine_offsets};
use crate::unwind::code::function_starts::for_each_function;
use crate::unwind::code::patterns::{KnownCode, add_signal_returns, find};
use crate::unwind::code::vfork;
use crate::unwind::elf::image::{ElfImage, Segment};
use crate::unwind::elf::limits::Limits;
use crate::unwind::rule::{GoroutineOffsets, RBP, RSP, Rule};
use crate::unwind::table::compile::{Span, with_go_frame_pointer};

/// `mov %rsp, %r12`: functions of Go's runtime that call C on the thread's own stack keep theirs so.
const KEEP_STACK: [u8; 3] = [0x49, 0x89, 0xe4];
/// `mov %r12, %rsp`: they are back on it.
const RESTORE_STACK: [u8; 3] = [0x4c, 0x89, 0xe4];
/// `mov (%rbx), %rsp`: `gogo` goes on with another goroutine.
const RESUME_STACK: [u8; 3] = [0x48, 0x8b, 0x23];
/// `mov 0x38(%r14), %rsp`: `mcall` leaves the goroutine for the scheduler's stack.
const SCHEDULER_STACK: [u8; 4] = [0x49, 0x8b, 0x66, 0x38];
/// `mov 0x38(%rbx), %rsp`: `morestack` does, to move the goroutine's.
const GROWING_STACK: [u8; 4] = [0x48, 0x8b, 0x63, 0x38];
/// `push %rbp`: `systemstack` has a frame since Go 1.21.
const PUSH_FRAME_POINTER: u8 = 0x55;
/// `mov %rbx, %rsp`: `systemstack` without a frame goes over to the thread's own stack.
const SYSTEM_STACK: [u8; 3] = [0x48, 0x89, 0xdc];
/// `mov 0x38(%rax), %rsp`: it is back on the goroutine's.
const GOROUTINE_STACK: [u8; 4] = [0x48, 0x8b, 0x60, 0x38];

/// Functions of Go's runtime that do other things to stacks than call and return.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum GoFunctionKind {
    /// A stack begins in it.
    Root,
    /// It runs another function on another stack; its frame pointer leads back.
    StackSwitch,
    /// The same; only the runtime's data lead back where it has no frame.
    SystemStack,
    /// The same for C; what it notes on its stack leads back where it has no frame.
    CallC,
    /// It calls C on the thread's own stack, with a frame of its own (`nanotime1`, `sys_linux_amd64.s`).
    CallOnSystemStack,
    /// The same without a frame (`race_amd64.s`).
    RaceCall,
    /// It goes on with a goroutine that was put aside: nothing called what it jumps to.
    Resume,
    /// It puts the goroutine aside, and runs the scheduler on the thread's own stack, to which no one returns.
    PutAside,
    /// It has the goroutine's stack moved, which where it is now only the runtime's data tell.
    MoveStack,
    /// It does that, on the thread's own stack, or puts the goroutine aside.
    NewStack,
    /// It puts the goroutine aside, and goes on to others.
    LeaveGoroutine,
    /// Signal handlers return to it.
    SignalReturn,
    /// It keeps its return address in a register while parent and child run on one stack.
    Vfork,
}

fn go_function_kind(name: &[u8]) -> Option<GoFunctionKind> {
    Some(match name {
        b"runtime.goexit" | b"runtime.mstart" | b"runtime.rt0_go" | b"_rt0_amd64_linux" | b"_rt0_amd64" => {
            GoFunctionKind::Root
        }
        b"runtime.systemstack" => GoFunctionKind::SystemStack,
        b"runtime.asmcgocall" => GoFunctionKind::CallC,
        b"runtime.cgocallback" | b"runtime.switchToCrashStack0" => GoFunctionKind::StackSwitch,
        b"runtime.nanotime1" | b"runtime.walltime" | b"time.now" | b"runtime.vgetrandom1" => {
            GoFunctionKind::CallOnSystemStack
        }
        b"racecall" | b"runtime.racecall" | b"runtime.asancall" | b"runtime.msancall" => {
            GoFunctionKind::RaceCall
        }
        b"gogo" | b"runtime.gogo" => GoFunctionKind::Resume,
        b"runtime.mcall" => GoFunctionKind::PutAside,
        b"runtime.morestack" => GoFunctionKind::MoveStack,
        b"runtime.newstack" => GoFunctionKind::NewStack,
        b"runtime.gopreempt_m" | b"runtime.goschedImpl" | b"runtime.preemptPark" => {
            GoFunctionKind::LeaveGoroutine
        }
        b"runtime.sigreturn__sigaction" | b"runtime.sigreturn" => GoFunctionKind::SignalReturn,
        b"syscall.rawVforkSyscall" => GoFunctionKind::Vfork,
        _ => return None,
    })
}

/// Calls by which `newstack` puts a goroutine aside: to wait for another thread, or to let others run.
const LEAVING_CALLS: usize = 2;
/// Its caller, `morestack`, begins the thread's own stack. Go's functions keep frame pointers.
const LAST_IN_NEWSTACK: Rule = Rule::reg(RBP, 16).with_rbp_at_rbp(0).with_last_caller();
/// Functions that change stacks are shorter.
const MAX_SWITCH_BYTES: u64 = 512;
/// Longer `newstack`s are none; it has some three thousand bytes.
const MAX_NEWSTACK_BYTES: u64 = 16_384;

/// A function of Go's runtime: what it does, its start and its end.
type GoFunction = (GoFunctionKind, u64, u64);

fn of_kind(functions: &[GoFunction], wanted: GoFunctionKind) -> impl Iterator<Item = (u64, u64)> + '_ {
    functions.iter().filter(move |(kind, ..)| *kind == wanted).map(|&(_, start, end)| (start, end))
}

/// Where the goroutine is found that the runtime works for. Only where it is also known behind which calls it does not
/// any more.
fn goroutine(image: &ElfImage, functions: &[GoFunction], limits: &Limits) -> Option<GoroutineOffsets> {
    let code = |kind, max_bytes: u64| {
        of_kind(functions, kind).filter_map(move |(start, end)| {
            let size = end.checked_sub(start)?.min(max_bytes);
            Some((start, image.read_address(start, size, limits).ok()?))
        })
    };
    let left: Vec<u64> = of_kind(functions, GoFunctionKind::LeaveGoroutine).map(|(start, _)| start).collect();
    code(GoFunctionKind::NewStack, MAX_NEWSTACK_BYTES)
        .find(|(start, newstack)| calls_of(newstack, *start, &left).len() >= LEAVING_CALLS)?;
    code(GoFunctionKind::SystemStack, MAX_SWITCH_BYTES).find_map(|(start, systemstack)| {
        code(GoFunctionKind::MoveStack, MAX_SWITCH_BYTES)
            .find_map(|(_, morestack)| goroutine_offsets(start, &systemstack, &morestack))
    })
}

/// The code of a function behind one pattern up to the end of the next occurrence of another (to the function's end,
/// if that is empty).
fn between(
    image: &ElfImage,
    start: u64,
    end: u64,
    first: &[u8],
    last: &[u8],
    limits: &Limits,
) -> Option<(u64, u64)> {
    /// Longer functions are none of those asked for.
    const MAX_BYTES: u64 = 4096;
    let bytes = image.read_address(start, end.checked_sub(start)?.min(MAX_BYTES), limits).ok()?;
    let from = find(&bytes, first)? + first.len();
    let to = if last.is_empty() { bytes.len() } else { from + find(&bytes[from..], last)? + last.len() };
    Some((start + from as u64, start + to as u64))
}

impl KnownCode {
    /// Rules of the functions that the runtime has for other things than calls and returns. `table` is Go's own of all
    /// functions, where symbols may be missing.
    pub(crate) fn add_go(
        &mut self,
        image: &ElfImage,
        code: &[Segment],
        table: Option<&GoTable>,
        limits: &Limits,
    ) {
        let mut functions = Vec::new();
        let mut add = |name: &[u8], start: u64, size: u64| {
            let name = name.strip_suffix(b".abi0").unwrap_or(name);
            let name = name.strip_suffix(b".abiinternal").unwrap_or(name);
            if let Some(kind) = go_function_kind(name) {
                functions.push((kind, start, start.saturating_add(size.max(1))));
            }
        };
        match table {
            Some(table) => table.functions().for_each(|function| {
                add(table.name(&function).unwrap_or(&[]), function.start, function.end - function.start);
            }),
            None => {
                _ = for_each_function(image, limits, |symbol| add(symbol.name, symbol.address, symbol.size));
            }
        }
        let goroutine = goroutine(image, &functions, limits);
        let left: Vec<u64> =
            of_kind(&functions, GoFunctionKind::LeaveGoroutine).map(|(start, _)| start).collect();
        let mut has_signal_return = false;
        for (kind, start, end) in functions {
            let (start, end, rule) = match kind {
                GoFunctionKind::Root => (start, end, Rule::STOP),
                GoFunctionKind::StackSwitch => (start, end, Rule::FRAME_POINTER_ROOT),
                GoFunctionKind::SystemStack => {
                    let first = image.read_address(start, 1, limits).unwrap_or_default();
                    if first == [PUSH_FRAME_POINTER] {
                        self.overrides.push(Span { start, end, rule: Rule::FRAME_POINTER_ROOT });
                        continue;
                    }
                    let switched = between(image, start, end, &SYSTEM_STACK, &GOROUTINE_STACK, limits);
                    // By frame pointer its caller would be left out.
                    let rule = goroutine.map_or(Rule::NONE, Rule::goroutine_return);
                    switched.map_or((start, end, Rule::NONE), |(from, to)| (from, to, rule))
                }
                GoFunctionKind::CallC => {
                    let size = end.saturating_sub(start).min(MAX_SWITCH_BYTES);
                    let code = image.read_address(start, size, limits).unwrap_or_default();
                    if code.first() == Some(&PUSH_FRAME_POINTER) {
                        self.overrides.push(Span { start, end, rule: Rule::FRAME_POINTER_ROOT });
                        continue;
                    }
                    let rules = call_rules(&code).unwrap_or_else(|| vec![(0, code.len(), Rule::NONE)]);
                    self.overrides.extend(rules.iter().map(|&(from, to, rule)| Span {
                        start: start + from as u64,
                        end: start + to as u64,
                        rule,
                    }));
                    continue;
                }
                GoFunctionKind::LeaveGoroutine => continue,
                GoFunctionKind::Vfork => {
                    let size = end.saturating_sub(start).min(MAX_SWITCH_BYTES);
                    let code = image.read_address(start, size, limits).unwrap_or_default();
                    self.overrides.extend(vfork::go_call(start, &code));
                    continue;
                }
                GoFunctionKind::NewStack => {
                    // SamplesAt these calls the thread works for no one, then for another goroutine.
                    let size = end.saturating_sub(start).min(MAX_NEWSTACK_BYTES);
                    let code = image.read_address(start, size, limits).unwrap_or_default();
                    let calls = calls_of(&code, start, &left);
                    self.overrides.extend(calls.iter().map(|&behind| Span {
                        start: behind - 1,
                        end: behind,
                        rule: LAST_IN_NEWSTACK,
                    }));
                    continue;
                }
                GoFunctionKind::SignalReturn => {
                    has_signal_return = true;
                    // Handlers return to the first byte, and return addresses are looked up one byte before.
                    (start.saturating_sub(1), end, Rule::SIGNAL)
                }
                GoFunctionKind::CallOnSystemStack | GoFunctionKind::RaceCall => {
                    let Some(switched) = between(image, start, end, &KEEP_STACK, &RESTORE_STACK, limits)
                    else {
                        continue;
                    };
                    // Without a frame of its own the caller cannot be told: walking on would leave it out.
                    let is_framed = kind == GoFunctionKind::CallOnSystemStack;
                    let rule = if is_framed { Rule::FRAME_POINTER_ROOT } else { Rule::FRAME_POINTER };
                    (switched.0, switched.1, rule)
                }
                GoFunctionKind::Resume => {
                    let Some(switched) = between(image, start, end, &RESUME_STACK, &[], limits) else {
                        continue;
                    };
                    (switched.0, end, Rule::STOP)
                }
                GoFunctionKind::PutAside => match between(image, start, end, &SCHEDULER_STACK, &[], limits) {
                    Some(switched) => (switched.0, end, Rule::STOP),
                    None => (start, end, Rule::FRAME_POINTER_ROOT),
                },
                GoFunctionKind::MoveStack => {
                    let switched = between(image, start, end, &GROWING_STACK, &[], limits);
                    match (switched, goroutine) {
                        (Some(switched), Some(offsets)) => (switched.0, end, Rule::goroutine(offsets)),
                        // What comes behind it would look like a whole stack.
                        _ => (switched.map_or(start, |switched| switched.0), end, Rule::NONE),
                    }
                }
            };
            self.overrides.push(Span { start, end, rule });
        }
        if !has_signal_return {
            for segment in code {
                add_signal_returns(&mut self.overrides, image, segment.address, segment.end(), limits);
            }
        }
    }

    /// Rules from Go's own table of functions.
    pub(crate) fn add_go_depths(&mut self, table: &GoTable, limits: &Limits) {
        let mut depths = Vec::new();
        // Damaged functions may share one long list, of which nothing gets a rule.
        let mut seen = 0;
        for function in table.functions() {
            depths.clear();
            table.add_depths(&function, &mut depths);
            seen += depths.len();
            if seen > limits.max_rows {
                return;
            }
            for (index, &(start, depth)) in depths.iter().enumerate() {
                let end = depths.get(index + 1).map_or(function.end, |(next, _)| *next).min(function.end);
                let Some(cfa) = depth.and_then(|depth| depth.checked_add(8)) else { continue };
                self.fills.push(Span { start, end, rule: with_go_frame_pointer(Rule::reg(RSP, cfa)) });
            }
        }
    }
}
