//! What is sent of a frame of generated code beside its address: two words, from which its functions are found.

use super::stack::JavaFrame;
use crate::runtimes::java::blob::JavaBlobKind;

/// Bits of the first word that are an address.
const ADDRESS: u64 = (1 << 56) - 1;

/// Two words beside the address of a frame: kind of its blob and address of the blob (or of the Method of an interpreted
/// frame), then the number of the compilation (or the address of the bytecode).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct JavaNote(pub(crate) [u64; 2]);

impl JavaNote {
    /// Note of a frame.
    pub(crate) fn of(frame: &JavaFrame) -> Self {
        let kind = (frame.kind as u64) << 56;
        match frame.kind {
            JavaBlobKind::Interpreter => JavaNote([kind | frame.method & ADDRESS, frame.bytecode]),
            _ => JavaNote([kind | frame.blob & ADDRESS, u64::from(frame.compile_id)]),
        }
    }

    /// Frame whose note this is, at `pc`; `None` if it is no note.
    pub(crate) fn frame(self, pc: u64) -> Option<JavaFrame> {
        let [first, second] = self.0;
        let kind = JavaBlobKind::numbered((first >> 56) as u8)?;
        let address = first & ADDRESS;
        let is_interpreted = kind == JavaBlobKind::Interpreter;
        Some(JavaFrame {
            pc,
            sp: 0,
            kind,
            blob: if is_interpreted { 0 } else { address },
            compile_id: if is_interpreted { 0 } else { u32::try_from(second).ok()? },
            method: if is_interpreted { address } else { 0 },
            bytecode: if is_interpreted { second } else { 0 },
            is_deoptimized: false,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_note_leads_back_to_its_frame() {
        let compiled = JavaFrame {
            pc: 0x7f00_0010,
            sp: 0,
            kind: JavaBlobKind::Compiled,
            blob: 0x7f00_0000,
            compile_id: 77,
            method: 0,
            bytecode: 0,
            is_deoptimized: false,
        };
        assert_eq!(JavaNote::of(&compiled).frame(compiled.pc), Some(compiled));
        let interpreted = JavaFrame {
            kind: JavaBlobKind::Interpreter,
            blob: 0,
            compile_id: 0,
            method: 0x7fff_8000,
            bytecode: 0x7fff_9003,
            ..compiled
        };
        assert_eq!(JavaNote::of(&interpreted).frame(compiled.pc), Some(interpreted));
        assert_eq!(JavaNote([0, 1]).frame(1), None);
        assert_eq!(JavaNote([u64::MAX, 1]).frame(1), None);
    }
}
