//! Instructions of BPF programs as numbers, for the checks of the compiled object.

/// The compiled object.
pub(super) const OBJECT: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/prof.bpf.o"));

/// Bytes of an instruction; a number of 64 bits takes two of them.
pub(super) const INSTRUCTION_BYTES: usize = 8;

/// One instruction, as `struct bpf_insn`.
#[derive(Debug, Clone, Copy)]
pub(super) struct Instruction {
    pub(super) code: u8,
    pub(super) destination: usize,
    pub(super) source: usize,
    pub(super) offset: i16,
    pub(super) number: i32,
}

impl Instruction {
    /// The instruction with this number.
    pub(super) fn at(code: &[u8], index: usize) -> Self {
        let bytes = &code[INSTRUCTION_BYTES * index..INSTRUCTION_BYTES * (index + 1)];
        Instruction {
            code: bytes[0],
            destination: usize::from(bytes[1] & 15),
            source: usize::from(bytes[1] >> 4),
            offset: i16::from_le_bytes([bytes[2], bytes[3]]),
            number: i32::from_le_bytes([bytes[4], bytes[5], bytes[6], bytes[7]]),
        }
    }

    /// All instructions of a piece of code, the second halves of numbers of 64 bits included.
    pub(super) fn all(code: &[u8]) -> impl Iterator<Item = Self> {
        (0..code.len() / INSTRUCTION_BYTES).map(|index| Instruction::at(code, index))
    }

    /// Kind of the instruction: loads, stores, arithmetic, jumps.
    pub(super) fn class(self) -> u8 {
        self.code & 7
    }

    pub(super) fn is_jump(self) -> bool {
        self.class() >= 5 && self.class() <= 6 && !self.is_call() && !self.is_exit()
    }

    pub(super) fn always_jumps(self) -> bool {
        self.code == 0x05
    }

    pub(super) fn is_call(self) -> bool {
        self.code == 0x85
    }

    /// A call of a function of the object.
    pub(super) fn is_own_call(self) -> bool {
        self.is_call() && self.source == 1
    }

    pub(super) fn is_exit(self) -> bool {
        self.code == 0x95
    }

    pub(super) fn is_wide(self) -> bool {
        self.code == 0x18
    }

    /// Number of the instruction after this one, which has the number `index`.
    pub(super) fn after(self, index: usize) -> usize {
        index + if self.is_wide() { 2 } else { 1 }
    }

    /// Number of the instruction to which this one jumps.
    pub(super) fn target(self, index: usize) -> usize {
        (index as i64 + 1 + i64::from(self.offset)) as usize
    }
}
