//! How loops are laid out, checked on the compiled object: Linux 6.1 refuses a program in which an instruction that is no jump,
//! such as a call, leads to one that it leads back to ("back-edge"). Later kernels do not.

use super::instruction::{INSTRUCTION_BYTES, Instruction, OBJECT};
use object::read::elf::ElfFile64;
use object::{Object, ObjectSection, ObjectSymbol, SymbolKind};

/// How far the search is with an instruction.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Seen {
    Not,
    /// On the way to where the search is.
    OnTheWay,
    Done,
}

/// The instructions after the one at `index`, and whether it may lead back to them.
fn successors(code: &[u8], index: usize) -> Vec<(usize, bool)> {
    let instruction = Instruction::at(code, index);
    let (after, target) = (instruction.after(index), instruction.target(index));
    match instruction.is_jump() {
        _ if instruction.is_exit() => Vec::new(),
        true if instruction.always_jumps() => vec![(target, true)],
        true => vec![(after, true), (target, true)],
        false => vec![(after, false)],
    }
}

/// Places where an instruction that is no jump leads back, in the order of the kernel's search: depth first.
fn refused(code: &[u8]) -> Vec<usize> {
    let mut seen = vec![Seen::Not; code.len() / INSTRUCTION_BYTES];
    let mut found = Vec::new();
    let mut way = vec![(0, 0)];
    seen[0] = Seen::OnTheWay;
    while let Some((index, taken)) = way.last_mut() {
        let index = *index;
        let Some(&(next, may_lead_back)) = successors(code, index).get(*taken) else {
            seen[index] = Seen::Done;
            way.pop();
            continue;
        };
        *taken += 1;
        match seen.get(next) {
            Some(Seen::Not) => {
                seen[next] = Seen::OnTheWay;
                way.push((next, 0));
            }
            Some(Seen::OnTheWay) if !may_lead_back => found.push(index),
            _ => {}
        }
    }
    found
}

#[test]
fn loops_are_laid_out_as_linux_6_1_accepts_them() {
    let elf = ElfFile64::<object::Endianness>::parse(OBJECT).unwrap();
    let mut functions = 0;
    for symbol in elf.symbols().filter(|symbol| symbol.kind() == SymbolKind::Text) {
        let name = symbol.name().unwrap();
        let Some(section) = symbol.section_index() else { continue };
        let code = elf.section_by_index(section).unwrap().data().unwrap();
        let start = symbol.address() as usize;
        let Some(code) = code.get(start..start + symbol.size() as usize).filter(|code| !code.is_empty())
        else {
            continue;
        };
        functions += 1;
        let refused = refused(code);
        assert!(
            refused.is_empty(),
            "{name} leads back at instructions {refused:?} without a jump: unroll the loop there"
        );
    }
    assert!(functions > 20, "only {functions} functions were found");
}

#[test]
fn a_call_in_front_of_its_loop_is_found() {
    // r1 = 0; goto +1; call 5; r1 += 1; if r1 < 3 goto -3; exit
    let code = [
        [0xb7, 1, 0, 0, 0, 0, 0, 0],
        [0x05, 0, 1, 0, 0, 0, 0, 0],
        [0x85, 0, 0, 0, 5, 0, 0, 0],
        [0x07, 1, 0, 0, 1, 0, 0, 0],
        [0xa5, 1, 0xfd, 0xff, 3, 0, 0, 0],
        [0x95, 0, 0, 0, 0, 0, 0, 0],
    ];
    assert_eq!(refused(&code.concat()), [2]);
}
