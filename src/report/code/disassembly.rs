//! Code bytes as instructions in text.

use super::code_map::is_x86;
use crate::profile::Profile;
use crate::profile::code::function_code::FunctionCode;
use crate::report::naming::name;
use iced_x86::{
    Decoder, DecoderOptions, Formatter, GasFormatter, Instruction, IntelFormatter, SymbolResolver,
    SymbolResult,
};
use rustc_hash::FxHashMap;

/// Syntax of instructions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum AsmSyntax {
    /// `mov rax, [rdi]`.
    #[default]
    Intel,
    /// `mov (%rdi), %rax`.
    Att,
}

/// An instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AsmLine {
    /// The module's own address.
    pub(crate) address: u64,
    /// Length, bytes.
    pub(crate) size: u32,
    /// Text of the instruction. Has names from outside in it.
    pub(crate) text: String,
}

/// Names of what an instruction leads to: places in the function as `+0x12`, functions by their names.
struct BranchNames {
    start: u64,
    size: u64,
    names: FxHashMap<u64, String>,
}

impl SymbolResolver for BranchNames {
    fn symbol(
        &mut self,
        instruction: &Instruction,
        _operand: u32,
        _instruction_operand: Option<u32>,
        address: u64,
        _address_size: u32,
    ) -> Option<SymbolResult<'_>> {
        // Other numbers mean no code.
        (instruction.is_call_near() || instruction.is_jmp_short_or_near() || is_conditional(instruction))
            .then_some(())?;
        (instruction.near_branch_target() == address).then_some(())?;
        let offset = address.wrapping_sub(self.start);
        let text = match self.names.get(&address) {
            Some(name) => name.clone(),
            None if offset < self.size => format!("+{offset:#x}"),
            None => return None,
        };
        Some(SymbolResult::with_string(address, text))
    }
}

fn is_conditional(instruction: &Instruction) -> bool {
    instruction.is_jcc_short_or_near()
        || instruction.is_jcx_short()
        || instruction.is_loop()
        || instruction.is_loopcc()
}

/// The instructions of `code`. Code of another processor is written in words, without a meaning.
pub(crate) fn disassemble(profile: &Profile, code: &FunctionCode, syntax: AsmSyntax) -> Vec<AsmLine> {
    if !is_x86(profile) {
        return words(code);
    }
    let target = |target: &crate::profile::code::function_code::CallTarget| {
        let function = profile.symbols.function(target.function);
        (target.address, name::short(profile.tables.string(function.name)))
    };
    let names = code.targets.iter().map(target).collect();
    let resolver = Box::new(BranchNames { start: code.start, size: code.size, names });
    let mut formatter: Box<dyn Formatter> = match syntax {
        AsmSyntax::Intel => Box::new(IntelFormatter::with_options(Some(resolver), None)),
        AsmSyntax::Att => Box::new(GasFormatter::with_options(Some(resolver), None)),
    };
    let options = formatter.options_mut();
    options.set_hex_prefix("0x");
    options.set_hex_suffix("");
    options.set_uppercase_hex(false);
    options.set_branch_leading_zeros(false);
    options.set_show_branch_size(false);
    options.set_space_after_operand_separator(syntax == AsmSyntax::Intel);
    let mut decoder = Decoder::with_ip(64, &code.bytes, code.address, DecoderOptions::NONE);
    let mut instruction = Instruction::default();
    let mut lines = Vec::new();
    while decoder.can_decode() {
        decoder.decode_out(&mut instruction);
        let mut text = String::new();
        formatter.format(&instruction, &mut text);
        lines.push(AsmLine { address: instruction.ip(), size: instruction.len() as u32, text });
    }
    lines
}

/// Code of a processor for which there is no disassembler.
fn words(code: &FunctionCode) -> Vec<AsmLine> {
    let word = |(address, bytes): (u64, &[u8])| {
        let mut four = [0; 4];
        four[..bytes.len()].copy_from_slice(bytes);
        let text = format!(".inst {:#010x}", u32::from_le_bytes(four));
        AsmLine { address, size: bytes.len() as u32, text }
    };
    (code.address..).step_by(4).zip(code.bytes.chunks(4)).map(word).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::code::function_code::CallTarget;
    use crate::profile::{Function, Meta};

    fn texts(profile: &Profile, code: &FunctionCode, syntax: AsmSyntax) -> Vec<String> {
        disassemble(profile, code, syntax).into_iter().map(|line| line.text).collect()
    }

    #[test]
    fn branches_lead_to_names_and_offsets() {
        let mut profile = Profile::new(Meta::default());
        let name = profile.tables.intern_string("ns::callee(int)");
        let function = profile.symbols.intern_function(Function { name, raw_name: name });
        // mov rax, [rdi+0x20]; call +0x100; jne start; jmp elsewhere; half an instruction
        let bytes = vec![
            0x48, 0x8b, 0x47, 0x20, 0xe8, 0x00, 0x01, 0x00, 0x00, 0x75, 0xf5, 0xe9, 0x00, 0x20, 0x00, 0x00,
            0x48,
        ];
        let code = FunctionCode {
            start: 0x1000,
            size: 0x20,
            address: 0x1000,
            bytes,
            targets: vec![CallTarget { address: 0x1109, function }],
            ..FunctionCode::default()
        };
        assert_eq!(
            texts(&profile, &code, AsmSyntax::Intel),
            ["mov rax, [rdi+0x20]", "call ns::callee", "jne +0x0", "jmp 0x3010", "(bad)"]
        );
        assert_eq!(
            texts(&profile, &code, AsmSyntax::Att),
            ["mov 0x20(%rdi),%rax", "call ns::callee", "jne +0x0", "jmp 0x3010", "(bad)"]
        );
    }

    #[test]
    fn other_processors_have_words() {
        let meta = Meta { arch: "aarch64".to_owned(), ..Meta::default() };
        let code = FunctionCode { bytes: vec![0xc0, 0x03, 0x5f, 0xd6, 1], ..FunctionCode::default() };
        let texts = texts(&Profile::new(meta), &code, AsmSyntax::Intel);
        assert_eq!(texts, [".inst 0xd65f03c0", ".inst 0x00000001"]);
    }
}
