//! Finding the layout of an interpreter in a process, and checking it: what does not fit is a problem with a reason,
//! never a guess.

use super::code::RubyCode;
use super::frames::{RubyStack, stack};
use super::layout::{RubyLayout, RubyLocator, RubyOffsets, RubyPlace, RubyStackRange, RubyVersion, words_of};
use super::names;
use super::object::RubyKind;
use super::tables;
use crate::runtimes::memory::TargetMemory;
use crate::runtimes::problem::RuntimeProblem;
use crate::runtimes::python::function_accesses;
use iced_x86::{Decoder, DecoderOptions, FlowControl};

/// Cure where nothing can be done but to live without.
const NATIVE_ONLY: &str = "only native frames are shown";
/// Words of the state of the whole interpreter, and of a thread, that are looked at.
const STATE_WORDS: usize = 128;
const THREAD_WORDS: usize = 64;
/// Words of the state of a native thread.
const NATIVE_WORDS: usize = 12;
/// Attempts to read a stack that changes.
const ATTEMPTS: usize = 8;
/// Frames of a stack whose code is looked at.
const MOST_CHECKED: usize = 64;
/// Offset from the thread pointer of glibc's first block of key values, on x86-64, and the number of keys in it.
const FIRST_KEY: i64 = 0x310;
const KEYS: u64 = 32;
/// Most bytes of thread-local storage that a library is believed to have.
const MOST_LOCAL: u64 = 1 << 24;

impl RubyLayout {
    /// Finds the layout of the interpreter in a process.
    ///
    /// `symbols` gives process addresses of symbols that the interpreter's module exports; `path` is its file.
    ///
    /// # Errors
    /// A sentence of what is not known or does not fit. It is temporary if the interpreter is still starting.
    pub(crate) fn find(
        memory: &impl TargetMemory,
        symbols: &dyn Fn(&str) -> Option<u64>,
        path: &str,
    ) -> Result<Self, RuntimeProblem> {
        let Some(version) = symbols("ruby_version").and_then(|address| read_version(memory, address)) else {
            return Err(RuntimeProblem::lasting(format!(
                "ruby: version of `{path}` not found: {NATIVE_ONLY}"
            )));
        };
        let Some(offsets) = tables::offsets(version) else {
            return Err(RuntimeProblem::lasting(format!(
                "ruby {version}: unknown layout: this version is not known here (known: {}): {NATIVE_ONLY}",
                tables::KNOWN
            )));
        };
        let thread = main_thread(memory, symbols, &offsets).ok_or_else(|| {
            RuntimeProblem::temporary(format!(
                "ruby {version}: unknown layout: its main thread was not found (it is starting, or a changed build): \
                 {NATIVE_ONLY} unless a later attempt succeeds"
            ))
        })?;
        let locator = find_locator(memory, symbols, &offsets, thread).ok_or_else(|| {
            RuntimeProblem::temporary(format!(
                "ruby {version}: the place of its threads' states was not found (a C library other than glibc?): \
                 {NATIVE_ONLY} unless a later attempt succeeds"
            ))
        })?;
        let mut layout = Self {
            version,
            source: String::new(),
            locator,
            offsets,
            names: find_names(memory, symbols, &offsets),
            instruction: 0,
        };
        let frames = check_stack(memory, &layout, thread)?;
        layout.instruction = frames.instruction;
        layout.source = format!(
            "the table of ruby {}.{}, confirmed by {} frames of the main thread",
            version.major, version.minor, frames.count
        );
        Ok(layout)
    }
}

/// Version that the text at `address` names.
fn read_version(memory: &impl TargetMemory, address: u64) -> Option<RubyVersion> {
    // The text is a constant near others, of which none is shorter than a word.
    let bytes = memory.bytes::<16>(address).or_else(|| {
        let mut bytes = [0; 16];
        memory.read(address, bytes.first_chunk_mut::<6>()?).then_some(bytes)
    })?;
    let text = bytes.split(|&byte| byte == 0).next()?;
    let mut numbers = std::str::from_utf8(text).ok()?.split('.').map(|number| number.parse().ok());
    let version = RubyVersion { major: numbers.next()??, minor: numbers.next()??, teeny: numbers.next()?? };
    numbers.next().is_none().then_some(version)
}

/// Address of the main thread: the one that the interpreter's state or an exported function leads to.
fn main_thread(
    memory: &impl TargetMemory,
    symbols: &dyn Fn(&str) -> Option<u64>,
    offsets: &RubyOffsets,
) -> Option<u64> {
    let constants = |name| symbols(name).map(|address| function_accesses(memory, address).constants);
    let of_main = constants("rb_thread_main").unwrap_or_default();
    let of_main = of_main.into_iter().filter_map(|place| memory.u64(place));
    let mut of_state = constants("ruby_vm_at_exit").unwrap_or_default();
    of_state.extend(symbols("ruby_current_vm_ptr"));
    of_state.truncate(16);
    let states = of_state.into_iter().filter_map(|place| memory.u64(place));
    let in_states = states.filter_map(|state| memory.bytes::<{ 8 * STATE_WORDS }>(state));
    let in_states = in_states.flat_map(|bytes| words_of::<STATE_WORDS>(&bytes));
    of_main.chain(in_states).find(|&thread| is_thread(memory, offsets, thread))
}

/// True if a thread is at `thread`: it and its execution context point to each other.
fn is_thread(memory: &impl TargetMemory, offsets: &RubyOffsets, thread: u64) -> bool {
    context_of(memory, offsets, thread).is_some()
}

/// The execution context of the thread at `thread`; `None` if that is no thread.
fn context_of(memory: &impl TargetMemory, offsets: &RubyOffsets, thread: u64) -> Option<u64> {
    if thread == 0 || !thread.is_multiple_of(8) {
        return None;
    }
    let context = memory.u64(thread.checked_add(offsets.thread_context.into())?)?;
    let back = memory.u64(context.checked_add(offsets.context_thread.into())?)?;
    (context != 0 && back == thread && RubyStackRange::of(memory, offsets, context).is_some())
        .then_some(context)
}

/// The way from threads to their execution contexts.
fn find_locator(
    memory: &impl TargetMemory,
    symbols: &dyn Fn(&str) -> Option<u64>,
    offsets: &RubyOffsets,
    thread: u64,
) -> Option<RubyLocator> {
    let thread_pointer = thread_pointer(memory, thread)?;
    let candidates = candidates(memory, symbols, offsets);
    (0..ATTEMPTS).find_map(|_| {
        let context = context_of(memory, offsets, thread);
        let leads =
            |locator: &&RubyLocator| context.is_some() && locator.context(memory, thread_pointer) == context;
        candidates.iter().find(leads).copied()
    })
}

/// Places that may lead to execution contexts, by what functions read: the context itself, or the thread.
fn candidates(
    memory: &impl TargetMemory,
    symbols: &dyn Fn(&str) -> Option<u64>,
    offsets: &RubyOffsets,
) -> Vec<RubyLocator> {
    let mut found = Vec::new();
    for (name, context) in
        [("rb_thread_current", None), ("ruby_native_thread_p", Some(offsets.thread_context))]
    {
        let Some(address) = symbols(name) else { continue };
        let accesses = function_accesses(memory, address);
        let fixed = accesses.thread_local.iter().map(|&offset| RubyPlace::Fixed { offset });
        let others = accesses.arguments.iter().filter_map(|argument| match argument.from {
            Some(_) => key(argument.value),
            None => dynamic(memory, argument.value),
        });
        found.extend(fixed.chain(others).map(|place| RubyLocator { place, context }));
    }
    found
}

/// Place of the value of a pthread key.
fn key(key: u64) -> Option<RubyPlace> {
    // Each value follows the number of the key's generation.
    let slot = i64::try_from(key).ok().filter(|_| key < KEYS)?;
    Some(RubyPlace::Fixed { offset: FIRST_KEY + 16 * slot + 8 })
}

/// Place by the pair of module and offset at `address`, an argument of `__tls_get_addr`.
fn dynamic(memory: &impl TargetMemory, address: u64) -> Option<RubyPlace> {
    let module = memory.u64(address).filter(|module| (1..4096).contains(module))?;
    let offset = memory.u64(address.checked_add(8)?).filter(|&offset| offset < MOST_LOCAL)?;
    Some(RubyPlace::Dynamic { module, offset })
}

/// Thread pointer of the thread at `thread`: its handle in the C library, kept in it or in the state of its native thread.
/// glibc's threads begin with a pointer to themselves, and have another one after that.
fn thread_pointer(memory: &impl TargetMemory, thread: u64) -> Option<u64> {
    let is_handle = |word: &u64| {
        word.is_multiple_of(8)
            && memory.bytes::<24>(*word).is_some_and(|bytes| {
                let [own, _, again] = words_of(&bytes);
                own == *word && again == *word
            })
    };
    let words: [u64; THREAD_WORDS] = words_of(&memory.bytes::<{ 8 * THREAD_WORDS }>(thread)?);
    let in_native = |word: &u64| {
        let words: [u64; NATIVE_WORDS] = words_of(&memory.bytes::<{ 8 * NATIVE_WORDS }>(*word)?);
        words.into_iter().find(|word| *word != 0 && is_handle(word))
    };
    let used = || words.iter().filter(|&&word| word != 0 && word.is_multiple_of(8));
    used().find(|word| is_handle(word)).copied().or_else(|| used().find_map(in_native))
}

/// Address of the word that leads to names by number, which the function that gives names reads.
fn find_names(
    memory: &impl TargetMemory,
    symbols: &dyn Fn(&str) -> Option<u64>,
    offsets: &RubyOffsets,
) -> Option<u64> {
    let function = symbols("rb_id2str")?;
    let mut places = function_accesses(memory, function).constants;
    if let Some(inner) = jump_target(memory, function) {
        places.extend(function_accesses(memory, inner).constants);
    }
    places.into_iter().take(32).find(|&place| names::are_names(memory, offsets, place))
}

/// Where a short function jumps at its end.
fn jump_target(memory: &impl TargetMemory, address: u64) -> Option<u64> {
    let bytes = memory.bytes::<64>(address)?;
    let mut decoder = Decoder::with_ip(64, &bytes, address, DecoderOptions::NONE);
    let jump =
        decoder.iter().find(|instruction| instruction.flow_control() == FlowControl::UnconditionalBranch);
    jump.map(|jump| jump.near_branch_target())
}

/// What a stack that was checked has.
struct CheckedStack {
    count: usize,
    /// First word of instructions of one of its functions.
    instruction: u64,
}

/// Compares the offsets with the stack of the main thread: its list must end where its memory does, and the code of its
/// frames be readable.
fn check_stack(
    memory: &impl TargetMemory,
    layout: &RubyLayout,
    thread: u64,
) -> Result<CheckedStack, RuntimeProblem> {
    let mut has_frames = false;
    for _ in 0..ATTEMPTS {
        let Some(context) = context_of(memory, &layout.offsets, thread) else { continue };
        let stack = stack(memory, &layout.offsets, context);
        has_frames |= !stack.frames.is_empty() || !stack.is_complete;
        if let Some(checked) = checked(memory, layout, &stack) {
            return Ok(checked);
        }
    }
    let why = if has_frames {
        "unknown layout: no stack could be read to its root (a changed build, or stacks that change too fast)"
    } else {
        "no Ruby code runs yet, so the layout cannot be checked"
    };
    Err(RuntimeProblem::temporary(format!(
        "ruby {}: {why}: {NATIVE_ONLY} unless a later attempt succeeds",
        layout.version
    )))
}

/// What the stack has, if it is whole and all of its code can be read.
fn checked(memory: &impl TargetMemory, layout: &RubyLayout, stack: &RubyStack) -> Option<CheckedStack> {
    if !stack.is_complete {
        return None;
    }
    let mut instruction = None;
    let checked = stack.frames.get(..stack.frames.len().min(MOST_CHECKED))?;
    for frame in checked {
        let is_sequence = RubyKind::of(memory, frame.code)? == RubyKind::Sequence;
        if !is_sequence && layout.names.is_none() {
            continue;
        }
        let code = RubyCode::read(memory, layout, frame.code)?;
        if is_sequence {
            code.line(frame.code, frame.position)?;
            instruction = instruction.or(code.first_instruction(memory));
        }
    }
    Some(CheckedStack { count: checked.len(), instruction: instruction? })
}
