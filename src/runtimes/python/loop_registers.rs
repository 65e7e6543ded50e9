//! What registers and words of the stack hold at the start of the interpreter loop, followed from one instruction to
//! the next.
//!
//! Only the few values that lead to the list of frames are tracked. Of a vector register, the two lower words count:
//! compilers gather two pointers there and store them at once.

use std::ops::Range;

use iced_x86::{Instruction, Mnemonic, OpKind, Register};
use rustc_hash::FxHashMap;

/// Size of a pointer in bytes.
pub(crate) const POINTER: i64 = 8;

/// Known content of a register or of a word of the stack.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Content {
    ThreadState,
    /// Frame that the loop is entered with.
    NewFrame,
    /// Pointer that the thread state had before the window.
    OldCFrame,
    /// Head of the list that `OldCFrame` has.
    OldFrame,
    /// Stack address: distance in bytes from the stack pointer at entry, or from where it was aligned last.
    Stack(i64),
}

/// Memory operand relative to something known.
#[derive(Clone, Copy)]
struct KnownPlace {
    base: Content,
    offset: i64,
}

/// Two words next to each other, the lower one first: the lower half of a vector register, or 16 bytes of memory.
pub(crate) type WordPair = [Option<Content>; 2];

/// What is known before an instruction runs.
#[derive(Clone)]
pub(crate) struct SetupFacts {
    /// Offset of the pointer to the `_PyCFrame` in a thread state.
    pub(crate) state_frame: i64,
    /// Offset of the head of the list in a `_PyCFrame`.
    pub(crate) current_frame: i64,
    /// Stack address of the loop's own `_PyCFrame`, from the store that opens the window on.
    pub(crate) c_frame: Option<i64>,
    registers: FxHashMap<Register, Content>,
    /// Vector registers, by their widest names.
    vectors: FxHashMap<Register, WordPair>,
    /// Words spilled to the stack.
    spilled: FxHashMap<i64, Content>,
    /// Parts of the stack written before the window.
    written: Vec<Range<i64>>,
    /// Number of times that the stack pointer was aligned.
    alignments: usize,
}

/// Instructions: what they put in registers and on the stack.
impl SetupFacts {
    pub(crate) fn at_entry(state_frame: u32, current_frame: u32) -> Self {
        let registers = [
            (Register::RDI, Content::ThreadState),
            (Register::RSI, Content::NewFrame),
            (Register::RSP, Content::Stack(0)),
        ];
        Self {
            state_frame: i64::from(state_frame),
            current_frame: i64::from(current_frame),
            c_frame: None,
            registers: registers.into_iter().collect(),
            vectors: FxHashMap::default(),
            spilled: FxHashMap::default(),
            written: Vec::new(),
            alignments: 0,
        }
    }

    /// Facts about registers after an instruction other than a call, which writes to `changed`.
    pub(crate) fn run(&mut self, instruction: &Instruction, changed: &[Register]) {
        let register = instruction.op0_register();
        let has_result = instruction.op0_kind() == OpKind::Register;
        let result = self.result(instruction).filter(|_| has_result && register.is_gpr64());
        let vector = self.vector_result(instruction).filter(|_| has_result && register.is_vector_register());
        let stack_pointer = self.stack_pointer();
        for register in changed {
            self.registers.remove(register);
            self.vectors.remove(register);
        }
        match (instruction.mnemonic(), stack_pointer) {
            (Mnemonic::Push | Mnemonic::Pop | Mnemonic::Pushfq | Mnemonic::Popfq, Some(pointer)) => {
                let moved = pointer.saturating_add(i64::from(instruction.stack_pointer_increment()));
                self.registers.insert(Register::RSP, Content::Stack(moved));
                if instruction.mnemonic() == Mnemonic::Pop && register == Register::RSP {
                    self.registers.remove(&Register::RSP);
                }
            }
            (Mnemonic::And, Some(_)) if register == Register::RSP => self.align_stack(),
            _ => {}
        }
        if let Some(content) = result {
            self.registers.insert(register, content);
        }
        if let Some(pair) = vector {
            self.vectors.insert(register.full_register(), pair);
        }
        self.drop_below_stack(stack_pointer);
    }

    /// Known content that an instruction puts in its first operand, a general register of 64 bits.
    fn result(&self, instruction: &Instruction) -> Option<Content> {
        let register = instruction.op0_register();
        match (instruction.mnemonic(), instruction.op1_kind()) {
            (Mnemonic::Mov, OpKind::Register | OpKind::Memory) => self.word(instruction, 1),
            (Mnemonic::Movq | Mnemonic::Vmovq, OpKind::Register) => self.word(instruction, 1),
            (Mnemonic::Pextrq | Mnemonic::Vpextrq, OpKind::Register) => self.extracted(instruction),
            (Mnemonic::Pop, _) => self.spilled.get(&self.stack_pointer()?).copied(),
            (Mnemonic::Lea, _) => match self.operand(instruction)? {
                KnownPlace { base: Content::Stack(place), offset } => {
                    Some(Content::Stack(place.saturating_add(offset)))
                }
                KnownPlace { base, offset: 0 } => Some(base),
                _ => None,
            },
            (Mnemonic::Add | Mnemonic::Sub, kind) if !matches!(kind, OpKind::Register | OpKind::Memory) => {
                let Some(Content::Stack(place)) = self.registers.get(&register) else { return None };
                let distance = instruction.try_immediate(1).ok()?.cast_signed();
                Some(Content::Stack(match instruction.mnemonic() {
                    Mnemonic::Add => place.saturating_add(distance),
                    _ => place.saturating_sub(distance),
                }))
            }
            _ => None,
        }
    }

    /// Known words that an instruction puts in its first operand, a vector register.
    fn vector_result(&self, instruction: &Instruction) -> Option<WordPair> {
        // Forms of two operands keep a part of the first; those of three take it from the second.
        let has_three = instruction.op_count() - immediates(instruction) == 3;
        let (first, last) = if has_three { (1, 2) } else { (0, 1) };
        let is_merge = instruction.op_kind(last) == OpKind::Register;
        let kept = || self.pair(instruction, first);
        match instruction.mnemonic() {
            _ if instruction.has_op_mask() || instruction.is_broadcast() => None,
            Mnemonic::Movq | Mnemonic::Vmovq => Some([self.word(instruction, 1), None]),
            Mnemonic::Movsd | Mnemonic::Vmovsd if is_merge => Some([self.word(instruction, last), kept()[1]]),
            Mnemonic::Movsd | Mnemonic::Vmovsd => Some([self.word(instruction, last), None]),
            Mnemonic::Movlps | Mnemonic::Movlpd | Mnemonic::Vmovlps | Mnemonic::Vmovlpd => {
                Some([self.word(instruction, last), kept()[1]])
            }
            Mnemonic::Movhps | Mnemonic::Movhpd | Mnemonic::Vmovhps | Mnemonic::Vmovhpd => {
                Some([kept()[0], self.word(instruction, last)])
            }
            Mnemonic::Punpcklqdq
            | Mnemonic::Vpunpcklqdq
            | Mnemonic::Unpcklpd
            | Mnemonic::Vunpcklpd
            | Mnemonic::Movlhps
            | Mnemonic::Vmovlhps => Some([kept()[0], self.word(instruction, last)]),
            Mnemonic::Pinsrq | Mnemonic::Vpinsrq => {
                let inserted = self.word(instruction, last);
                match instruction.immediate8() & 1 {
                    0 => Some([inserted, kept()[1]]),
                    _ => Some([kept()[0], inserted]),
                }
            }
            mnemonic if is_vector_move(mnemonic) => Some(self.pair(instruction, 1)),
            _ => None,
        }
    }

    /// Known words that an instruction stores to memory, the one at the lowest address first. The store may be wider.
    pub(crate) fn stored(&self, instruction: &Instruction) -> WordPair {
        if instruction.mnemonic() == Mnemonic::Push {
            return [self.word(instruction, 0).filter(|_| instruction.op0_kind() == OpKind::Register), None];
        }
        if instruction.op0_kind() != OpKind::Memory
            || instruction.op1_kind() != OpKind::Register
            || instruction.has_op_mask()
        {
            return [None; 2];
        }
        match instruction.mnemonic() {
            Mnemonic::Mov
            | Mnemonic::Movq
            | Mnemonic::Vmovq
            | Mnemonic::Movsd
            | Mnemonic::Vmovsd
            | Mnemonic::Movlps
            | Mnemonic::Vmovlps
            | Mnemonic::Movlpd
            | Mnemonic::Vmovlpd => [self.word(instruction, 1), None],
            Mnemonic::Movhps | Mnemonic::Vmovhps | Mnemonic::Movhpd | Mnemonic::Vmovhpd => {
                [self.pair(instruction, 1)[1], None]
            }
            Mnemonic::Pextrq | Mnemonic::Vpextrq => [self.extracted(instruction), None],
            mnemonic if is_vector_move(mnemonic) => self.pair(instruction, 1),
            _ => [None; 2],
        }
    }

    /// Word of a vector register that `pextrq` takes.
    fn extracted(&self, instruction: &Instruction) -> Option<Content> {
        let [low, high] = self.pair(instruction, 1);
        if instruction.immediate8() & 1 == 0 { low } else { high }
    }

    /// Lowest word of an operand.
    fn word(&self, instruction: &Instruction, operand: u32) -> Option<Content> {
        match instruction.op_kind(operand) {
            OpKind::Register if instruction.op_register(operand).is_gpr64() => {
                self.registers.get(&instruction.op_register(operand)).copied()
            }
            _ => self.pair(instruction, operand)[0],
        }
    }

    /// Two lowest words of an operand, a vector register or memory.
    fn pair(&self, instruction: &Instruction, operand: u32) -> WordPair {
        match instruction.op_kind(operand) {
            OpKind::Register => {
                let register = instruction.op_register(operand).full_register();
                self.vectors.get(&register).copied().unwrap_or_default()
            }
            OpKind::Memory => self.operand(instruction).map_or([None; 2], |place| {
                let offset = place.offset.saturating_add(POINTER);
                [self.loaded(place), self.loaded(KnownPlace { offset, ..place })]
            }),
            _ => [None; 2],
        }
    }

    /// Memory operand of an instruction, if its address is known.
    fn operand(&self, instruction: &Instruction) -> Option<KnownPlace> {
        let is_plain =
            instruction.memory_index() == Register::None && !is_thread_local(instruction.memory_segment());
        let base = self.registers.get(&instruction.memory_base()).filter(|_| is_plain)?;
        Some(KnownPlace { base: *base, offset: instruction.memory_displacement64().cast_signed() })
    }

    /// Known content of a word of memory.
    fn loaded(&self, place: KnownPlace) -> Option<Content> {
        match place.base {
            Content::ThreadState if place.offset == self.state_frame => {
                Some(self.c_frame.map_or(Content::OldCFrame, Content::Stack))
            }
            Content::OldCFrame if place.offset == self.current_frame => Some(Content::OldFrame),
            Content::Stack(base) => self.spilled.get(&base.saturating_add(place.offset)).copied(),
            _ => None,
        }
    }
}

/// What is known as a whole.
impl SetupFacts {
    /// Keeps what `other`, an earlier state, knows too. False if only one of the two is in the window.
    pub(crate) fn meet(&mut self, other: &Self) -> bool {
        if self.alignments != other.alignments {
            self.registers.clear();
            self.vectors.clear();
            self.spilled.clear();
        }
        self.registers.retain(|register, content| other.registers.get(register) == Some(content));
        self.spilled.retain(|place, content| other.spilled.get(place) == Some(content));
        for (register, pair) in &mut self.vectors {
            let others = other.vectors.get(register).copied().unwrap_or_default();
            for (content, other) in pair.iter_mut().zip(others) {
                *content = content.filter(|content| Some(*content) == other);
            }
        }
        self.c_frame == other.c_frame
    }

    /// Forgets all but the stack pointer.
    pub(crate) fn forget(&mut self) {
        self.registers.retain(|register, _| *register == Register::RSP);
        self.vectors.clear();
        self.spilled.clear();
    }

    /// Forgets what a called function may change.
    pub(crate) fn call(&mut self) {
        let pointer = self.stack_pointer();
        self.registers.retain(|register, _| is_kept_by_calls(*register));
        self.vectors.clear();
        self.spilled.retain(|place, _| pointer.is_some_and(|pointer| *place >= pointer));
        self.forget_old_words();
    }

    /// Forgets the words of the stack that lead to the old list, as a store to an unknown address may change them: they
    /// may be part of an object whose address others know.
    pub(crate) fn forget_old_words(&mut self) {
        self.spilled.retain(|_, content| !matches!(content, Content::OldCFrame | Content::OldFrame));
    }

    /// Notes a store to the stack: what it overwrites and, in the window or before it, what it leaves there.
    pub(crate) fn write_stack(&mut self, range: &Range<i64>, stored: WordPair) {
        self.spilled.retain(|place, _| !overlaps(range, *place));
        if self.c_frame.is_none() {
            self.written.push(range.clone());
        }
        for (place, content) in [range.start, range.start.saturating_add(POINTER)].into_iter().zip(stored) {
            if let Some(content) = content
                && place.saturating_add(POINTER) <= range.end
            {
                self.spilled.insert(place, content);
            }
        }
    }

    /// True if something was stored to the word at `place` before the window.
    pub(crate) fn is_written(&self, place: i64) -> bool {
        self.written.iter().any(|written| overlaps(written, place))
    }

    /// Content of a general register.
    pub(crate) fn register(&self, register: Register) -> Option<Content> {
        self.registers.get(&register).copied()
    }

    /// General registers that hold `content`.
    pub(crate) fn holders(&self, content: Content) -> impl Iterator<Item = Register> {
        self.registers.iter().filter(move |(_, held)| **held == content).map(|(register, _)| *register)
    }

    /// Words of the stack that hold `content`: offsets in bytes from the stack pointer.
    pub(crate) fn slots(&self, content: Content) -> impl Iterator<Item = u16> {
        let pointer = self.stack_pointer();
        let held = self.spilled.iter().filter(move |(_, held)| **held == content);
        held.filter_map(move |(place, _)| u16::try_from(place.checked_sub(pointer?)?).ok())
    }

    fn stack_pointer(&self) -> Option<i64> {
        match self.registers.get(&Register::RSP) {
            Some(Content::Stack(place)) => Some(*place),
            _ => None,
        }
    }

    /// Forgets words that a rising stack pointer has passed: a signal handler may overwrite them.
    fn drop_below_stack(&mut self, before: Option<i64>) {
        let pointer = self.stack_pointer();
        if pointer > before {
            self.spilled.retain(|place, _| pointer.is_some_and(|pointer| *place >= pointer));
        }
    }

    /// Starts to count stack addresses from the stack pointer, whose distance from earlier ones is unknown now.
    fn align_stack(&mut self) {
        let is_kept = |content: &Content| !matches!(content, Content::Stack(_));
        self.registers.retain(|_, content| is_kept(content));
        for pair in self.vectors.values_mut() {
            *pair = pair.map(|content| content.filter(is_kept));
        }
        self.spilled.clear();
        self.written.clear();
        self.alignments += 1;
        self.registers.insert(Register::RSP, Content::Stack(0));
    }
}

/// True if a range of bytes has a byte of the pointer at `place`.
pub(crate) fn overlaps(range: &Range<i64>, place: i64) -> bool {
    range.start < place.saturating_add(POINTER) && range.end > place
}

pub(crate) fn is_thread_local(segment: Register) -> bool {
    matches!(segment, Register::FS | Register::GS)
}

/// Number of operands that are part of the instruction itself.
fn immediates(instruction: &Instruction) -> u32 {
    let kinds = (0..instruction.op_count()).map(|operand| instruction.op_kind(operand));
    kinds.map(|kind| u32::from(!matches!(kind, OpKind::Register | OpKind::Memory))).sum()
}

/// True for instructions that copy at least 16 bytes between vector registers and memory as they are.
fn is_vector_move(mnemonic: Mnemonic) -> bool {
    matches!(
        mnemonic,
        Mnemonic::Movdqa
            | Mnemonic::Movdqu
            | Mnemonic::Movaps
            | Mnemonic::Movups
            | Mnemonic::Movapd
            | Mnemonic::Movupd
            | Mnemonic::Vmovdqa
            | Mnemonic::Vmovdqu
            | Mnemonic::Vmovaps
            | Mnemonic::Vmovups
            | Mnemonic::Vmovapd
            | Mnemonic::Vmovupd
    )
}

/// True for registers that a called function leaves as they are.
fn is_kept_by_calls(register: Register) -> bool {
    matches!(
        register,
        Register::RBX
            | Register::RBP
            | Register::RSP
            | Register::R12
            | Register::R13
            | Register::R14
            | Register::R15
    )
}
