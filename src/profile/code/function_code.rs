//! Code bytes of one function, and which source line and which inlined function each of its instructions belongs to.

use crate::profile::rows::{ModuleId, StringId};
use crate::profile::symbols::{FunctionId, Location};
use serde::{Deserialize, Serialize};

/// Code of a function, or a part of it around its samples.
///
/// Invariant: `address >= start`, `address + bytes.len() <= start + size`; runs are in order of `offset`, the first is at 0; a call's
/// parent has a smaller number than the call.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct FunctionCode {
    /// The module that it is in.
    pub(crate) module: ModuleId,
    /// The function that owns the code.
    pub(crate) function: FunctionId,
    /// Address of the function's first byte: the module's own, as those of frames are.
    pub(crate) start: u64,
    /// Length of the function, bytes.
    pub(crate) size: u64,
    /// Address of the first of `bytes`, where an instruction begins.
    pub(crate) address: u64,
    /// The code.
    pub(crate) bytes: Vec<u8>,
    /// Offsets at which the line or the inlined function changes; empty when neither is known.
    pub(crate) runs: Vec<CodeRun>,
    /// Calls that were inlined into it.
    pub(crate) inlined: Vec<InlinedCall>,
    /// Functions that it calls or jumps to directly, by their addresses.
    pub(crate) targets: Vec<CallTarget>,
}

/// Instructions of one line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct CodeRun {
    /// Start of the run, bytes from the start of the code. The run ends where the next one starts.
    pub(crate) offset: u32,
    /// 0: the function's own code; else the number of an inlined call plus 1.
    pub(crate) call: u32,
    /// Source file of the innermost function; the empty string when unknown.
    pub(crate) file: StringId,
    /// Line in `file`, 0 when unknown.
    pub(crate) line: u32,
}

/// A call that the compiler replaced by the code of what is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct InlinedCall {
    /// Function that is called.
    pub(crate) function: FunctionId,
    /// 0: by the function that owns the code; else by the inlined call of this number plus 1.
    pub(crate) parent: u32,
    /// File of the call.
    pub(crate) file: StringId,
    /// Line in `file`, 0 when unknown.
    pub(crate) line: u32,
}

/// A function that is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
pub(crate) struct CallTarget {
    /// Address of the function in its module.
    pub(crate) address: u64,
    /// The function.
    pub(crate) function: FunctionId,
}

impl FunctionCode {
    /// The address after the last byte.
    pub(crate) fn end(&self) -> u64 {
        self.address.saturating_add(self.bytes.len() as u64)
    }

    /// Whether the byte at `address` is kept.
    pub(crate) fn contains(&self, address: u64) -> bool {
        (self.address..self.end()).contains(&address)
    }

    /// The functions at `address`, as a frame there has them: the innermost inlined one first, the owner of the code last.
    pub(crate) fn locations_at(&self, address: u64) -> Vec<Location> {
        let offset = address.saturating_sub(self.address);
        let after = self.runs.partition_point(|run| u64::from(run.offset) <= offset);
        let run = after.checked_sub(1).map(|at| self.runs[at]).unwrap_or_default();
        let (mut call, mut file, mut line) = (run.call, run.file, run.line);
        let mut locations = Vec::new();
        while let Some(inlined) = call.checked_sub(1).and_then(|at| self.inlined.get(at as usize)) {
            locations.push(Location { function: inlined.function, file, line, is_inlined: true });
            (file, line) = (inlined.file, inlined.line);
            // Smaller each time: it ends.
            call = inlined.parent.min(call - 1);
        }
        locations.push(Location { function: self.function, file, line, is_inlined: false });
        locations
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_the_chain_of_its_run() {
        let (a, b) = (StringId(1), StringId(2));
        let code = FunctionCode {
            function: FunctionId(7),
            start: 0x100,
            size: 8,
            address: 0x100,
            bytes: vec![0x90; 8],
            runs: vec![
                CodeRun { offset: 0, call: 0, file: a, line: 10 },
                CodeRun { offset: 2, call: 2, file: b, line: 33 },
                CodeRun { offset: 5, call: 0, file: a, line: 12 },
            ],
            inlined: vec![
                InlinedCall { function: FunctionId(8), parent: 0, file: a, line: 11 },
                InlinedCall { function: FunctionId(9), parent: 1, file: b, line: 22 },
            ],
            ..FunctionCode::default()
        };
        let chain = |address| -> Vec<(u32, u32, u32, bool)> {
            let locations = code.locations_at(address);
            locations.iter().map(|at| (at.function.0, at.file.0, at.line, at.is_inlined)).collect()
        };
        assert_eq!(chain(0x101), [(7, 1, 10, false)]);
        assert_eq!(chain(0x104), [(9, 2, 33, true), (8, 2, 22, true), (7, 1, 11, false)]);
        assert_eq!(chain(0x107), [(7, 1, 12, false)]);
        assert!(code.contains(0x107) && !code.contains(0x108));
    }

    #[test]
    fn parents_that_go_round_end() {
        let call = InlinedCall { parent: 2, ..InlinedCall::default() };
        let code = FunctionCode {
            runs: vec![CodeRun { call: 2, ..CodeRun::default() }],
            inlined: vec![call, call],
            ..FunctionCode::default()
        };
        assert_eq!(code.locations_at(0).len(), 3);
    }
}
