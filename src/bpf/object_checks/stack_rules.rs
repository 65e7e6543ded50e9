//! How much stack the programs take, checked on the compiled object: before private stacks (Linux 6.13), all functions in a
//! chain of calls have 512 bytes together.

use super::instruction::{INSTRUCTION_BYTES, Instruction, OBJECT};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, ObjectSymbol, RelocationTarget, SymbolKind};
use std::collections::{BTreeMap, BTreeSet};

/// `MAX_BPF_STACK` of include/linux/filter.h, bytes.
const MOST_BYTES: u32 = 512;
/// The register of the frame: of the end of the function's stack.
const FRAME: usize = 10;

/// A place in the code: section and byte offset.
type At = (usize, u64);

/// A function: what it takes, and calls.
#[derive(Debug)]
struct Function {
    name: String,
    /// Bytes of its stack.
    bytes: u32,
    /// Functions that it calls, or has a helper call.
    callees: BTreeSet<At>,
}

/// Bytes of stack that the function with these instructions takes.
fn stack_bytes(code: &[u8]) -> u32 {
    let mut most = 0;
    let mut copied = None;
    for instruction in Instruction::all(code) {
        let Instruction { destination, source, offset, number, .. } = instruction;
        let reached = match (instruction.class(), instruction.code) {
            (1, _) if source == FRAME => i32::from(offset),
            (2 | 3, _) if destination == FRAME => i32::from(offset),
            (_, 0x07) if copied == Some(destination) => number,
            _ => 0,
        };
        copied = (instruction.code == 0xbf && source == FRAME).then_some(destination);
        most = most.max(reached.min(0).unsigned_abs());
    }
    most
}

/// All functions of the object, by place.
fn functions() -> BTreeMap<At, Function> {
    let elf = ElfFile64::<object::Endianness>::parse(OBJECT).unwrap();
    let mut functions = BTreeMap::new();
    for symbol in elf.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.size() > 0) {
        let section = elf.section_by_index(symbol.section_index().unwrap()).unwrap();
        let (start, end) = (symbol.address(), symbol.address() + symbol.size());
        let data = section.data().unwrap();
        let mut callees = BTreeSet::new();
        let relocations: BTreeMap<_, _> = section.relocations().collect();
        for at in (start..end).step_by(INSTRUCTION_BYTES) {
            let instruction = Instruction::at(data, at as usize / INSTRUCTION_BYTES);
            let (number, is_call) = (instruction.number, instruction.is_own_call());
            let next = i64::from(number) + 1;
            let target = relocations.get(&at).map(|relocation| relocation.target());
            let callee = match target {
                Some(RelocationTarget::Symbol(index)) => {
                    let target = elf.symbol_by_index(index).unwrap();
                    let added = if is_call { next as u64 * 8 } else { number as u64 };
                    target.section_index().map(|section| (section.0, target.address() + added))
                }
                // Within the section.
                _ => is_call.then(|| (section.index().0, (at as i64 + 8 * next) as u64)),
            };
            callees.extend(callee);
        }
        let name = symbol.name().unwrap().to_owned();
        let bytes = stack_bytes(&data[start as usize..end as usize]);
        functions.insert((section.index().0, start), Function { name, bytes, callees });
    }
    functions
}

/// The most that a function and those that it calls take, and their names.
fn deepest(functions: &BTreeMap<At, Function>, at: At) -> (u32, String) {
    let Some(function) = functions.get(&at) else { return (0, String::new()) };
    let (below, names) =
        function.callees.iter().map(|&callee| deepest(functions, callee)).max().unwrap_or_default();
    // The verifier counts by 32.
    let bytes = function.bytes.max(1).next_multiple_of(32);
    (bytes + below, format!("{} {bytes}, {names}", function.name))
}

#[test]
fn all_functions_in_a_chain_of_calls_share_512_bytes_of_stack() {
    let functions = functions();
    let mut most = 0;
    for &at in functions.keys() {
        let (bytes, names) = deepest(&functions, at);
        assert!(bytes <= MOST_BYTES, "{bytes} bytes of stack: {names}");
        most = most.max(bytes);
    }
    assert!(most > 400, "calls are not followed: at most {most} bytes");
}
