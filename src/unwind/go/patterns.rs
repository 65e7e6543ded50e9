//! Rules for Go's code. Its `.debug_frame` does not say where stacks end or change: the runtime's functions for that are
//! known by name, and their frame pointers lead over the change (`runtime/asm_amd64.s`). Where it is stripped, Go's own
//! table of functions says the same.

use super::pclntab::GoTable;
use super::runtime::{call_rules, calls_of, goroutine_offsets};
use crate::elf::{ElfImage, Segment};
use crate::unwind::code::function_starts::for_each_function;
use crate::unwind::code::known::{KnownCode, find};
use crate::unwind::code::patterns::add_signal_returns;
use crate::unwind::code::vfork;
use crate::unwind::limits::Limits;
use crate::unwind::rule::{GoroutineOffsets, RBP, RSP, Rule};
use crate::unwind::table::compile::with_go_frame_pointer;
use crate::unwind::table::span::Span;

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
    /// A stack begins in the function.
    Root,
    /// The function runs another one on another stack; its frame pointer leads back.
    StackSwitch,
    /// The same; only the runtime's data lead back where it has no frame.
    SystemStack,
    /// The same for C; what it notes on its stack leads back where it has no frame.
    CallC,
    /// The function calls C on the thread's own stack, with a frame of its own (`nanotime1`, `sys_linux_amd64.s`).
    CallOnSystemStack,
    /// The same without a frame (`race_amd64.s`).
    RaceCall,
    /// The function goes on with a goroutine that was put aside: nothing called what it jumps to.
    Resume,
    /// The function puts the goroutine aside, and runs the scheduler on the thread's own stack, to which no one returns.
    PutAside,
    /// The function has the goroutine's stack moved: only the runtime's data tell where that stack is now.
    MoveStack,
    /// The function moves the goroutine's stack, itself on the thread's own stack, or puts the goroutine aside.
    NewStack,
    /// The function puts the goroutine aside, and goes on to others.
    LeaveGoroutine,
    /// Signal handlers return to the function.
    SignalReturn,
    /// The function keeps its return address in a register while parent and child run on one stack.
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
/// Rule at these calls: the caller of `newstack`, `morestack`, begins the thread's own stack. Go's functions keep frame
/// pointers.
const LAST_IN_NEWSTACK: Rule = Rule::reg(RBP, 16).with_rbp_at_rbp(0).with_last_caller();
/// Functions that change stacks are shorter.
const MAX_SWITCH_BYTES: u64 = 512;
/// Longer `newstack`s are none; it has some three thousand bytes.
const MAX_NEWSTACK_BYTES: u64 = 16_384;

/// A function of Go's runtime: what it does, its start and its end.
type KnownFunction = (GoFunctionKind, u64, u64);

fn of_kind(functions: &[KnownFunction], wanted: GoFunctionKind) -> impl Iterator<Item = (u64, u64)> + '_ {
    functions.iter().filter(move |(kind, ..)| *kind == wanted).map(|&(_, start, end)| (start, end))
}

/// Where the goroutine is found that the runtime works for. Only where it is also known after which calls it does not
/// any more.
fn goroutine(image: &ElfImage, functions: &[KnownFunction]) -> Option<GoroutineOffsets> {
    let code = |kind, max_bytes: u64| {
        of_kind(functions, kind).filter_map(move |(start, end)| {
            let size = end.checked_sub(start)?.min(max_bytes);
            Some((start, image.read_address(start, size).ok()?))
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

/// The code of a function after one pattern up to the end of the next occurrence of another (to the function's end,
/// if that is empty).
fn between(image: &ElfImage, start: u64, end: u64, first: &[u8], last: &[u8]) -> Option<(u64, u64)> {
    /// Longer functions are none of those asked for.
    const MAX_BYTES: u64 = 4096;
    let bytes = image.read_address(start, end.checked_sub(start)?.min(MAX_BYTES)).ok()?;
    let from = find(&bytes, first)? + first.len();
    let to = if last.is_empty() { bytes.len() } else { from + find(&bytes[from..], last)? + last.len() };
    Some((start + from as u64, start + to as u64))
}

/// The functions of the runtime that are known by name.
fn known_functions(image: &ElfImage, table: Option<&GoTable>, limits: &Limits) -> Vec<KnownFunction> {
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
    functions
}

/// A program's Go runtime.
struct GoRuntime<'i> {
    image: &'i ElfImage,
    goroutine: Option<GoroutineOffsets>,
    /// Addresses of functions that leave their goroutine.
    left: Vec<u64>,
}

impl GoRuntime<'_> {
    /// Adds the rules of a function from `start` to `end` to `rules`.
    fn add_rules(&self, kind: GoFunctionKind, start: u64, end: u64, rules: &mut Vec<Span>) {
        match kind {
            GoFunctionKind::LeaveGoroutine => {}
            GoFunctionKind::CallC => self.add_call_of_c(start, end, rules),
            GoFunctionKind::Vfork => {
                rules.extend(vfork::go_call(start, &self.code(start, end, MAX_SWITCH_BYTES)));
            }
            GoFunctionKind::NewStack => {
                // After these calls the thread works for no one, then for another goroutine.
                let code = self.code(start, end, MAX_NEWSTACK_BYTES);
                let calls = calls_of(&code, start, &self.left);
                let last = |&after: &u64| Span { start: after - 1, end: after, rule: LAST_IN_NEWSTACK };
                rules.extend(calls.iter().map(last));
            }
            _ => {
                let rule = self.rule(kind, start, end);
                rules.extend(rule.map(|(start, end, rule)| Span { start, end, rule }));
            }
        }
    }

    /// The rule of a function that has one, and where it begins and ends.
    fn rule(&self, kind: GoFunctionKind, start: u64, end: u64) -> Option<(u64, u64, Rule)> {
        let between = |first: &[u8], last: &[u8]| between(self.image, start, end, first, last);
        Some(match kind {
            GoFunctionKind::Root => (start, end, Rule::STOP),
            GoFunctionKind::StackSwitch => (start, end, Rule::FRAME_POINTER_ROOT),
            GoFunctionKind::SystemStack if self.pushes_frame_pointer(start) => {
                (start, end, Rule::FRAME_POINTER_ROOT)
            }
            GoFunctionKind::SystemStack => {
                // By frame pointer its caller would be left out.
                let rule = self.goroutine.map_or(Rule::NONE, Rule::goroutine_return);
                let switched = between(&SYSTEM_STACK, &GOROUTINE_STACK);
                switched.map_or((start, end, Rule::NONE), |(from, to)| (from, to, rule))
            }
            // Handlers return to the first byte, and return addresses are looked up one byte before.
            GoFunctionKind::SignalReturn => (start.saturating_sub(1), end, Rule::SIGNAL),
            GoFunctionKind::CallOnSystemStack | GoFunctionKind::RaceCall => {
                let (from, to) = between(&KEEP_STACK, &RESTORE_STACK)?;
                // Without a frame of its own the caller is not known: walking on would leave it out.
                let is_framed = kind == GoFunctionKind::CallOnSystemStack;
                (from, to, if is_framed { Rule::FRAME_POINTER_ROOT } else { Rule::FRAME_POINTER })
            }
            GoFunctionKind::Resume => (between(&RESUME_STACK, &[])?.0, end, Rule::STOP),
            GoFunctionKind::PutAside => match between(&SCHEDULER_STACK, &[]) {
                Some((from, _)) => (from, end, Rule::STOP),
                None => (start, end, Rule::FRAME_POINTER_ROOT),
            },
            GoFunctionKind::MoveStack => match (between(&GROWING_STACK, &[]), self.goroutine) {
                (Some((from, _)), Some(offsets)) => (from, end, Rule::goroutine(offsets)),
                // What comes after it would look like a whole stack.
                (switched, _) => (switched.map_or(start, |(from, _)| from), end, Rule::NONE),
            },
            GoFunctionKind::LeaveGoroutine
            | GoFunctionKind::CallC
            | GoFunctionKind::Vfork
            | GoFunctionKind::NewStack => return None,
        })
    }

    fn add_call_of_c(&self, start: u64, end: u64, rules: &mut Vec<Span>) {
        let code = self.code(start, end, MAX_SWITCH_BYTES);
        if code.first() == Some(&PUSH_FRAME_POINTER) {
            rules.push(Span { start, end, rule: Rule::FRAME_POINTER_ROOT });
            return;
        }
        let found = call_rules(&code).unwrap_or_else(|| vec![(0, code.len(), Rule::NONE)]);
        let span = |(from, to, rule): (usize, usize, Rule)| Span {
            start: start + from as u64,
            end: start + to as u64,
            rule,
        };
        rules.extend(found.into_iter().map(span));
    }

    fn pushes_frame_pointer(&self, start: u64) -> bool {
        self.image.read_address(start, 1).unwrap_or_default() == [PUSH_FRAME_POINTER]
    }

    /// The first bytes of a function, `most` of them.
    fn code(&self, start: u64, end: u64, most: u64) -> Vec<u8> {
        self.image.read_address(start, end.saturating_sub(start).min(most)).unwrap_or_default().to_vec()
    }
}

impl KnownCode {
    /// Rules of runtime functions that neither call nor return in the usual way. `table` is Go's own function table,
    /// for binaries without symbols.
    pub(crate) fn add_go(
        &mut self,
        image: &ElfImage,
        code: &[Segment],
        table: Option<&GoTable>,
        limits: &Limits,
    ) {
        let functions = known_functions(image, table, limits);
        let runtime = GoRuntime {
            image,
            goroutine: goroutine(image, &functions),
            left: of_kind(&functions, GoFunctionKind::LeaveGoroutine).map(|(start, _)| start).collect(),
        };
        for &(kind, start, end) in &functions {
            runtime.add_rules(kind, start, end, &mut self.overrides);
        }
        if of_kind(&functions, GoFunctionKind::SignalReturn).next().is_none() {
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
