//! Tests on synthetic memory: a small interpreter built of the same offsets that the code reads, and damaged ones.

mod code_objects;
mod interpreter;
mod interpreter_loops;
mod layouts;
mod loop_registers;
mod loop_setups;
mod stacks;

use super::layout::PythonLayout;
use crate::runtimes::memory::TargetMemory;

/// First address of the synthetic memory.
const START: u64 = 0x1_0000;
/// Size of the synthetic memory in bytes.
const SIZE: usize = 1 << 22;

/// A synthetic interpreter with one code object, for tests of what reads it.
pub(crate) struct SyntheticPython {
    interpreter: interpreter::Interpreter,
    pub(crate) layout: PythonLayout,
}

impl SyntheticPython {
    /// The address of the code object.
    pub(crate) const CODE: u64 = interpreter::CODES;

    pub(crate) fn new() -> Self {
        let mut interpreter = interpreter::Interpreter::new(12);
        interpreter.put_frames(1);
        let layout = interpreter.find().expect("it is whole");
        SyntheticPython { interpreter, layout }
    }

    pub(crate) fn memory(&self) -> &impl TargetMemory {
        &self.interpreter.arena
    }

    /// Puts another function where the code object is.
    pub(crate) fn replace(&mut self) {
        let place = Self::CODE + u64::from(self.layout.code.first_line);
        self.interpreter.arena.put_u32(place, 77);
    }
}

/// One mapped range; everything else cannot be read.
struct Arena(Vec<u8>);

impl Arena {
    fn new() -> Self {
        Self(vec![0; SIZE])
    }

    fn put(&mut self, address: u64, bytes: &[u8]) {
        let start = usize::try_from(address - START).unwrap();
        self.0[start..start + bytes.len()].copy_from_slice(bytes);
    }

    fn put_u64(&mut self, address: u64, value: u64) {
        self.put(address, &value.to_le_bytes());
    }

    fn put_u32(&mut self, address: u64, value: u32) {
        self.put(address, &value.to_le_bytes());
    }
}

impl TargetMemory for Arena {
    fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
        let range = address.checked_sub(START).and_then(|start| {
            let start = usize::try_from(start).ok()?;
            self.0.get(start..start.checked_add(bytes.len())?)
        });
        range.map(|range| bytes.copy_from_slice(range)).is_some()
    }
}
