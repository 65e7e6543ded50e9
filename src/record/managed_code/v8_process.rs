//! V8 in one process: how its memory is laid out, what the kernel side has to know of it, and its functions.

use super::native_place::{ManagedName, NativePlace};
use super::v8_code_cache::V8CodeCache;
use super::v8_file::{V8Builtin, V8File};
use super::v8_functions::{V8Functions, V8KnownFunction, named, v8_check};
use crate::bpf::{ManagedFrame, number, prof_managed, prof_v8};
use crate::record::interpreters::function_names::{FunctionNames, RunFunction};
use crate::record::interpreters::known_code::RunPlace;
use crate::record::interpreters::process_memory::ProcessMemory;
use crate::record::interpreters::seen_codes::SeenCodes;
use crate::record::modules::FileId;
use crate::runtimes::TargetMemory;
use crate::runtimes::v8::{V8Code, V8CodeKind, V8FrameWords, V8Inlined, V8Layout};
use crate::unwind::{FrameAddress, Memory as _, StackCopy};
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// Frames that are remembered of a process.
const MOST_FRAMES: usize = 100_000;
/// A frame is looked at again when it was last looked at this long ago, ns.
const LOOK_INTERVAL_NS: u64 = 1_000_000_000;
/// A version is shorter, bytes.
const MAX_VERSION_BYTES: u64 = 32;

/// What the functions of a frame depend on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct V8FrameKey {
    address: u64,
    is_leaf: bool,
    /// Of the note; 0 without one.
    shared: u64,
    check: u32,
    position: Option<u32>,
    /// Of the code object; 0 for the interpreter.
    generation: u32,
}

/// V8 in a process, whose functions can be read.
#[derive(Debug)]
pub(crate) struct V8Process {
    file_id: FileId,
    bias: u64,
    file: Arc<V8File>,
    layout: Arc<V8Layout>,
    descriptor: prof_managed,
    /// Name and version, once they were read.
    runtime: Option<String>,
    /// `None` until it is wanted, or where it cannot be opened.
    memory: Option<ProcessMemory>,
    functions: V8Functions,
    seen: SeenCodes,
    codes: V8CodeCache,
    /// Functions of the first compiler's code, by the number of the code: that says nothing of them itself.
    owners: FxHashMap<u32, (u64, u32)>,
    /// Functions of frames, innermost first, and when they were last looked at, ns.
    frames: FxHashMap<V8FrameKey, (u64, Vec<RunPlace>)>,
}

impl V8Process {
    /// Looks for V8 in the memory of a process that has mapped `file` with a bias. The error is a sentence for the user.
    pub(super) fn find(pid: u32, file_id: FileId, bias: u64, file: &Arc<V8File>) -> Result<Self, String> {
        let memory = ProcessMemory::open(pid).map_err(|error| {
            format!(
                "memory of pid {pid} cannot be read: {error}: its JavaScript functions are not known; run prof as root or as \
                 the user of the process"
            )
        })?;
        let layout = V8Layout::find(&memory, file.symbols(bias))?;
        let descriptor = descriptor(&layout, bias, file).ok_or_else(|| {
            "JavaScript functions have no names: offsets of this V8 that the kernel side has no room for"
                .to_owned()
        })?;
        Ok(V8Process {
            file_id,
            bias,
            file: Arc::clone(file),
            layout: Arc::new(layout),
            descriptor,
            runtime: None,
            memory: Some(memory),
            functions: V8Functions::default(),
            seen: SeenCodes::default(),
            codes: V8CodeCache::default(),
            owners: FxHashMap::default(),
            frames: FxHashMap::default(),
        })
    }

    pub(super) fn forked(&self) -> Self {
        V8Process {
            file_id: self.file_id,
            bias: self.bias,
            file: Arc::clone(&self.file),
            layout: Arc::clone(&self.layout),
            descriptor: self.descriptor,
            runtime: self.runtime.clone(),
            memory: None,
            functions: self.functions.clone(),
            seen: SeenCodes::default(),
            codes: V8CodeCache::default(),
            owners: FxHashMap::default(),
            frames: FxHashMap::default(),
        }
    }

    /// Forgets functions, because they get new numbers.
    pub(super) fn forget_functions(&mut self) {
        self.functions = V8Functions::default();
        self.frames = FxHashMap::default();
    }

    /// Takes the number of frames that may have the name of a function whose memory they use.
    pub(super) fn take_uncertain(&mut self) -> u64 {
        self.seen.take_uncertain()
    }

    pub(super) fn file(&self) -> FileId {
        self.file_id
    }

    pub(super) fn descriptor(&self) -> prof_managed {
        self.descriptor
    }

    /// Name and version of the runtime: those of Node.js, or of V8 where it is another program.
    pub(super) fn runtime(&mut self, pid: u32) -> &str {
        if self.runtime.is_none() {
            self.open(pid);
            let node = self.memory.as_ref().and_then(|memory| self.node_version(memory));
            self.runtime = Some(match (node, self.layout.version) {
                (Some(version), _) => format!("node {version}"),
                (None, Some((major, minor))) => format!("v8 {major}.{minor}"),
                (None, None) => "v8".to_owned(),
            });
        }
        self.runtime.as_deref().unwrap_or_default()
    }

    /// Returns the version, and where the offsets are from.
    pub(super) fn describe(&mut self, pid: u32) -> String {
        let builtins = if self.file.has_builtins() {
            ""
        } else {
            "; interpreted functions have no names: its symbol table is stripped"
        };
        let sizes = match self.layout.bytecode_sizes() {
            0 => "; functions of its first compiler have no lines: its table of bytecodes is not exported",
            _ => "",
        };
        format!("{}: offsets from its v8dbg symbols{builtins}{sizes}", self.runtime(pid))
    }

    /// The version of Node.js: the text that its metadata begins with, as C++ keeps it: address and length.
    fn node_version(&self, memory: &impl TargetMemory) -> Option<String> {
        let place = self.file.node_metadata?.wrapping_add(self.bias);
        let (text, length) = (memory.u64(place)?, memory.u64(place.checked_add(8)?)?);
        let bytes =
            memory.range(text, length, MAX_VERSION_BYTES as usize).filter(|bytes| !bytes.is_empty())?;
        let text = String::from_utf8(bytes).ok()?;
        let mut numbers = text.split('.').map(|number| number.parse::<u32>().ok());
        let (major, minor) = (numbers.next()??, numbers.next()??);
        Some(format!("{major}.{minor}"))
    }

    fn open(&mut self, pid: u32) {
        if self.memory.is_none() {
            self.memory = ProcessMemory::open(pid).ok();
        }
    }

    /// What the kernel side would have noted of a frame in a copy of its stack. Functions move, and this one may have moved
    /// since: it counts only if it has the bytecodes that its frame has, or else (by its mark) the code that runs there.
    pub(super) fn note(
        &self,
        in_file: Option<(FileId, u64)>,
        frame: &FrameAddress,
        stack: &StackCopy<'_>,
    ) -> Option<ManagedFrame> {
        let is_interpreter = match in_file {
            Some((file, bias)) => {
                let builtin = self.file.builtin_at(frame.lookup_address().wrapping_sub(bias));
                let runs = matches!(builtin, Some(V8Builtin::Interpreter | V8Builtin::Entry));
                if file != self.file_id || !runs {
                    return None;
                }
                true
            }
            None => false,
        };
        let words = V8StackWords { stack, memory: self.memory.as_ref()? };
        let found = self.layout.frame.frame_words(&words, frame.frame_pointer?)?;
        if is_interpreter && !found.has_own_bytecodes(&words, &self.layout, frame.frame_pointer?) {
            return None;
        }
        Some(ManagedFrame {
            frame: 0,
            code: found.shared,
            position: found.position(),
            check: v8_check(found.identity),
            mark: LATE,
        })
    }

    /// What runs in a native frame.
    fn running(
        &mut self,
        place: &NativePlace,
        note: Option<&ManagedFrame>,
    ) -> Result<V8Running, ManagedName> {
        if let Some(address) = place.in_file {
            return match self.file.builtin_at(address) {
                Some(V8Builtin::Interpreter) if note.is_some() => {
                    Ok(V8Running::Bytecodes { is_starting: false })
                }
                Some(V8Builtin::Entry) if note.is_some() => {
                    Ok(V8Running::Bytecodes { is_starting: place.is_leaf })
                }
                _ => Err(ManagedName::Native),
            };
        }
        let memory = self.memory.as_ref().ok_or(ManagedName::Unread)?;
        match self.codes.at(memory, &self.layout, place.address, place.time_ns) {
            Some((code, generation)) => Ok(V8Running::Code { code, generation }),
            None if note.is_some_and(|note| note.mark != LATE) => Ok(V8Running::Gone),
            // Code of a regular expression, of WebAssembly, or a stub.
            None => Err(ManagedName::Native),
        }
    }

    /// Puts the functions of a native frame into `out`, innermost first.
    pub(super) fn functions(
        &mut self,
        pid: u32,
        place: NativePlace,
        note: Option<&ManagedFrame>,
        names: &mut FunctionNames,
        out: &mut Vec<RunPlace>,
    ) -> ManagedName {
        self.open(pid);
        if let Some(note) = note.filter(|note| note.mark != LATE) {
            self.seen.limit_to(MOST_FRAMES);
            self.seen.note(note.code, note.check, note.mark != FROM_MEMORY);
        }
        let running = match self.running(&place, note) {
            Ok(running) => running,
            Err(name) => return name,
        };
        let key = V8FrameKey {
            address: place.address,
            is_leaf: place.is_leaf,
            shared: note.map_or(0, |note| note.code),
            check: note.map_or(0, |note| note.check),
            position: note.and_then(|note| note.position).filter(|_| running.is_interpreted()),
            generation: running.generation(),
        };
        let is_fresh = |looked_ns: u64| place.time_ns.saturating_sub(looked_ns) < LOOK_INTERVAL_NS;
        if let Some((_, places)) = self.frames.get(&key).filter(|(looked_ns, _)| is_fresh(*looked_ns)) {
            out.extend(places);
            return ManagedName::Functions;
        }
        let Some(memory) = &self.memory else { return ManagedName::Unread };
        let mut naming = V8Naming {
            memory,
            layout: &self.layout,
            functions: &mut self.functions,
            owners: &mut self.owners,
            time_ns: place.time_ns,
            names,
        };
        // What was known is still right: the kernel side has seen the same.
        let known = || self.frames.get(&key).map(|(_, places)| places.clone());
        let Some(places) = naming.places(&running, note, &place).or_else(known) else {
            return ManagedName::Unread;
        };
        out.extend(&places);
        if self.frames.len() >= MOST_FRAMES {
            self.frames.clear();
        }
        self.frames.insert(key, (place.time_ns, places));
        ManagedName::Functions
    }
}

/// What runs in a native frame.
enum V8Running {
    /// Bytecodes, of a function that may not have come to its first one.
    Bytecodes { is_starting: bool },
    /// A code object, which has a number.
    Code { code: V8Code, generation: u32 },
    /// Code that is gone by now, or that this V8 does not describe: its frame, or that of its caller, tells the function.
    Gone,
}

impl V8Running {
    fn is_interpreted(&self) -> bool {
        match self {
            V8Running::Bytecodes { .. } => true,
            V8Running::Code { code, .. } => code.kind == V8CodeKind::Interpreted,
            V8Running::Gone => false,
        }
    }

    /// The number of the code; 0 where there is none.
    fn generation(&self) -> u32 {
        match self {
            V8Running::Code { generation, .. } => *generation,
            V8Running::Bytecodes { .. } | V8Running::Gone => 0,
        }
    }
}

/// Mark of a note that was not made at the time of its sample.
const LATE: u8 = 1;
/// Mark of a note whose check is from the kernel side's memory.
const FROM_MEMORY: u8 = number::PROF_V8_FROM_MEMORY as u8;

/// The stack as it was copied, and all other memory as it is now.
struct V8StackWords<'w> {
    stack: &'w StackCopy<'w>,
    memory: &'w ProcessMemory,
}

impl TargetMemory for V8StackWords<'_> {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        match <&mut [u8; 8]>::try_from(&mut *bytes)
            .map(|word| self.stack.read(address).map(|read| (word, read)))
        {
            Ok(Ok((word, read))) => {
                *word = read.to_ne_bytes();
                true
            }
            _ => self.memory.read(address, bytes),
        }
    }
}

/// What names of functions are read from.
struct V8Naming<'n, M> {
    memory: &'n M,
    layout: &'n V8Layout,
    functions: &'n mut V8Functions,
    owners: &'n mut FxHashMap<u32, (u64, u32)>,
    time_ns: u64,
    names: &'n mut FunctionNames,
}

impl<M: TargetMemory> V8Naming<'_, M> {
    /// The function of a note, if it is still there.
    fn noted(&mut self, note: &ManagedFrame) -> Option<&V8KnownFunction> {
        let key = (note.code, note.check);
        self.functions.get(self.memory, self.layout, key, self.time_ns, self.names)
    }

    /// The functions of a frame, innermost first.
    fn places(
        &mut self,
        running: &V8Running,
        note: Option<&ManagedFrame>,
        place: &NativePlace,
    ) -> Option<Vec<RunPlace>> {
        match (running, note) {
            (V8Running::Bytecodes { is_starting }, note) => self.interpreted(note?, *is_starting),
            (V8Running::Code { code, generation }, Some(note)) => {
                self.compiled(note, (code, *generation), place)
            }
            (V8Running::Code { code, generation }, None) => self.starting(code, *generation),
            (V8Running::Gone, note) => self.noted(note?).map(|known| vec![at_line(known, None)]),
        }
    }

    /// An interpreted frame, whose function `is_starting`: it has not come to its first bytecode.
    fn interpreted(&mut self, note: &ManagedFrame, is_starting: bool) -> Option<Vec<RunPlace>> {
        let (memory, layout) = (self.memory, self.layout);
        let known = self.noted(note)?;
        let words = V8FrameWords {
            function: 0,
            shared: note.code,
            identity: known.function.identity,
            bytecode_offset: note.position.map_or(1, |position| u64::from(position) << 32),
        };
        let line = match is_starting {
            true => known.function.line,
            false => known.function.interpreted_line(memory, layout, &words),
        };
        Some(vec![at_line(known, line)])
    }

    /// A frame of compiled code, which has a number.
    fn compiled(
        &mut self,
        note: &ManagedFrame,
        (code, generation): (&V8Code, u32),
        place: &NativePlace,
    ) -> Option<Vec<RunPlace>> {
        let (memory, layout) = (self.memory, self.layout);
        if code.kind == V8CodeKind::Interpreted {
            return self.interpreted(note, false);
        }
        match code.is_of(memory, layout, note.code) {
            Some(true) => {}
            // The function has not made its frame yet, or has left it, and the one noted is its caller, whose place in its
            // code is not known here.
            Some(false) if place.is_leaf && note.mark != LATE => {
                let mut places = self.starting(code, generation).unwrap_or_default();
                places.extend(self.noted(note).map(|caller| RunPlace { function: caller.number, line: 0 }));
                return Some(places).filter(|places| !places.is_empty());
            }
            _ if note.mark == LATE => return None,
            // The frame was that of the function, whatever there is of its code by now.
            _ => return self.noted(note).map(|known| vec![at_line(known, None)]),
        }
        if code.kind == V8CodeKind::Baseline {
            if self.owners.len() >= MOST_FRAMES {
                self.owners.clear();
            }
            self.owners.insert(generation, (note.code, note.check));
        }
        let known = self.noted(note)?;
        if code.kind == V8CodeKind::Baseline {
            let line = known.function.baseline_line(memory, layout, code, place.address);
            return Some(vec![at_line(known, line)]);
        }
        let own = known.clone();
        let Some(inlined) = V8Inlined::at(memory, layout, code, place.address) else {
            return Some(vec![at_line(&own, None)]);
        };
        let mut places = Vec::with_capacity(inlined.len());
        for inner in inlined {
            let line = |known: &V8KnownFunction| {
                inner.source_offset.and_then(|at| known.function.line_of_source(memory, layout, at))
            };
            let known = match inner.shared {
                None => Some(&own),
                Some(shared) => self.functions.now(memory, layout, shared, self.time_ns, self.names),
            };
            // Without its name, the function that it is inlined into has the time.
            let Some(known) = known else { continue };
            let mut at = at_line(known, line(known));
            if inner.shared.is_some() {
                let function = RunFunction { is_inlined: true, ..named(&known.function) };
                at.function = self.names.number(function);
            }
            places.push(at);
        }
        Some(places)
    }

    /// The function of code that has no frame yet, or no more.
    fn starting(&mut self, code: &V8Code, generation: u32) -> Option<Vec<RunPlace>> {
        let (memory, layout) = (self.memory, self.layout);
        let known = match code.kind {
            V8CodeKind::Baseline => {
                let owner = *self.owners.get(&generation)?;
                self.functions.get(memory, layout, owner, self.time_ns, self.names)?
            }
            _ => {
                let owner = code.owner(memory, layout)?;
                self.functions.now(memory, layout, owner, self.time_ns, self.names)?
            }
        };
        Some(vec![at_line(known, known.function.line)])
    }
}

/// A place in a function: at the line where it begins, where no other is known.
fn at_line(known: &V8KnownFunction, line: Option<u32>) -> RunPlace {
    RunPlace { function: known.number, line: line.or(known.function.line).unwrap_or(0) }
}

/// What the kernel side has to know of a layout; `None` if a number is larger than it has room for.
fn descriptor(layout: &V8Layout, bias: u64, file: &V8File) -> Option<prof_managed> {
    let frame = &layout.frame;
    let identity_off = frame.script.min(frame.number);
    let bytes = frame.script.max(frame.number).checked_add(8)?.checked_sub(identity_off)?;
    if u64::from(bytes) > number::PROF_V8_IDENTITY_BYTES {
        return None;
    }
    let v8 = prof_v8 {
        code_start: file.builtin_code.start.wrapping_add(bias),
        code_bytes: file.builtin_code.end - file.builtin_code.start,
        number_mask: frame.number_mask,
        context_off: frame.context,
        function_off: frame.function,
        bytecode_offset_off: frame.bytecode_offset,
        shared_off: frame.shared,
        identity_off,
        identity_bytes: bytes as u8,
        script_word: (frame.script - identity_off) as u8,
        number_word: (frame.number - identity_off) as u8,
        ..prof_v8::default()
    };
    Some(prof_managed { kind: number::PROF_MANAGED_V8 as u8, v8, ..prof_managed::default() })
}
