//! Maps addresses to instructions, using the code in the recording.

use crate::profile::code::function_code::FunctionCode;
use crate::profile::{ModuleId, Profile};
use iced_x86::{Decoder, DecoderOptions, Instruction};

/// Parts that overlap an address and are looked at.
const MOST_OVERLAPS: usize = 16;

/// The instructions of all code of a profile.
#[derive(Debug, Clone, Default)]
pub(crate) struct CodeMap {
    /// Parts by module, then by address.
    parts: Vec<MappedPart>,
}

#[derive(Debug, Clone)]
struct MappedPart {
    module: ModuleId,
    address: u64,
    end: u64,
    /// Start of its function.
    function_start: u64,
    /// Starts of instructions.
    starts: Vec<u64>,
}

impl CodeMap {
    /// Builds the map of the code of `profile`.
    pub(crate) fn of(profile: &Profile) -> Self {
        let is_x86 = is_x86(profile);
        let part = |code: &FunctionCode| MappedPart {
            module: code.module,
            address: code.address,
            end: code.end(),
            function_start: code.start,
            starts: instruction_starts(code, is_x86),
        };
        let mut parts: Vec<MappedPart> = profile.code.iter().map(part).collect();
        parts.sort_by_key(|part| (part.module, part.address, part.end));
        CodeMap { parts }
    }

    /// Returns the start of the instruction around an address of a module, and its function; `None` for code that is not kept.
    pub(crate) fn find(&self, module: ModuleId, address: u64) -> Option<(u64, u64)> {
        let after = self.parts.partition_point(|part| (part.module, part.address) <= (module, address));
        let mut near = self.parts[..after].iter().rev().take(MOST_OVERLAPS);
        let part = near.find(|part| part.module == module && address < part.end)?;
        let after = part.starts.partition_point(|start| *start <= address);
        Some((part.starts.get(after.checked_sub(1)?).copied()?, part.function_start))
    }
}

/// Whether the code in a profile is that of x86-64.
pub(crate) fn is_x86(profile: &Profile) -> bool {
    !matches!(profile.meta.arch.as_str(), "aarch64" | "arm64")
}

/// Returns the starts of the instructions of `code`.
fn instruction_starts(code: &FunctionCode, is_x86: bool) -> Vec<u64> {
    if !is_x86 {
        return (code.address..code.end()).step_by(4).collect();
    }
    let mut decoder = Decoder::with_ip(64, &code.bytes, code.address, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let mut starts = Vec::new();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        starts.push(instruction.ip());
    }
    starts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Meta;

    #[test]
    fn a_return_address_belongs_to_the_call_before_it() {
        let mut profile = Profile::new(Meta::default());
        // push rbp; call; nop; ret
        let bytes = vec![0x55, 0xe8, 0, 0, 0, 0, 0x90, 0xc3];
        profile.code.push(FunctionCode {
            start: 0x100,
            size: 8,
            address: 0x100,
            bytes,
            ..FunctionCode::default()
        });
        let map = CodeMap::of(&profile);
        // The call returns to 0x106; that is looked up one byte before.
        assert_eq!(map.find(ModuleId(0), 0x105), Some((0x101, 0x100)));
        assert_eq!(map.find(ModuleId(0), 0x107), Some((0x107, 0x100)));
        assert_eq!(map.find(ModuleId(0), 0x108), None);
        assert_eq!(map.find(ModuleId(1), 0x105), None);
    }
}
