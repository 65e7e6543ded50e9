//! Rules for arm64 code without entries, from its instructions: the vdso, musl, hand-written functions.
//!
//! From a function's first instruction, where nothing is saved, the stack pointer's distance from the CFA is
//! kept up along all paths, and where the caller's x29 and the return address are. A function with an
//! instruction that may change one of these in another way, or where two paths disagree, is left alone.
//!
//! Encodings: Arm Architecture Reference Manual for A-profile, C4.1.

use crate::elf::Architecture;
use crate::unwind::rule::Rule;
use crate::unwind::table::span::Span;

const SP: u32 = Architecture::Aarch64.stack_pointer() as u32;
const FP: u32 = Architecture::Aarch64.frame_pointer() as u32;
const LINK: u32 = 30;
/// A larger frame is taken for a misread instruction; in bytes.
const MAX_DEPTH: i32 = 1 << 28;

/// Place of the value that a register had at the function's start.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kept {
    InRegister,
    /// In memory, this many bytes below the CFA.
    Below(i32),
}

/// State before an instruction runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct PrologueState {
    /// Bytes from the stack pointer up to the CFA.
    depth: i32,
    frame_pointer: Kept,
    link: Kept,
}

impl PrologueState {
    const ENTRY: Self = Self { depth: 0, frame_pointer: Kept::InRegister, link: Kept::InRegister };

    fn rule(self) -> Option<Rule> {
        let rule = Rule::reg(SP as u8, self.depth);
        match (self.frame_pointer, self.link) {
            (Kept::InRegister, Kept::InRegister) => rule.with_ra_in_register(LINK as u8),
            (Kept::Below(at), Kept::InRegister) => rule.with_rbp_at_cfa(-at).with_ra_in_register(LINK as u8),
            (Kept::InRegister, Kept::Below(at)) => rule.with_ra_at(-i64::from(at)),
            (Kept::Below(at), Kept::Below(link)) if link == at - 8 => {
                Some(rule.with_frame_record_at_cfa(-at))
            }
            (Kept::Below(at), Kept::Below(link)) => rule.with_rbp_at_cfa(-at).with_ra_at(-i64::from(link)),
        }
    }

    fn kept(&mut self, register: u32) -> Option<&mut Kept> {
        match register {
            FP => Some(&mut self.frame_pointer),
            LINK => Some(&mut self.link),
            _ => None,
        }
    }

    /// Moves the stack pointer. `None`: to where no frame is.
    fn sink(&mut self, bytes: i32) -> Option<()> {
        self.depth = self.depth.checked_add(bytes).filter(|depth| (0..MAX_DEPTH).contains(depth))?;
        // A value below the stack pointer is there until the next signal only.
        let is_below = |kept| matches!(kept, Kept::Below(at) if at > self.depth);
        (!is_below(self.frame_pointer) && !is_below(self.link)).then_some(())
    }

    /// A register is stored at this many bytes above the stack pointer.
    fn store(&mut self, register: u32, offset: i32) -> Option<()> {
        let below = self.depth.checked_sub(offset)?;
        // Nothing of the caller's is overwritten: then the CFA would not be what it is taken for.
        if below < 8 && (register == FP || register == LINK) {
            return None;
        }
        if let Some(kept) = self.kept(register)
            && *kept == Kept::InRegister
        {
            *kept = Kept::Below(below);
            return Some(());
        }
        // What was kept there is gone.
        let is_lost = [self.frame_pointer, self.link].contains(&Kept::Below(below));
        (!is_lost).then_some(())
    }

    /// A register is loaded from this many bytes above the stack pointer.
    fn load(&mut self, register: u32, offset: i32) -> Option<()> {
        let below = self.depth.checked_sub(offset)?;
        let Some(kept) = self.kept(register) else { return Some(()) };
        match *kept {
            Kept::InRegister => None,
            Kept::Below(at) => {
                if at == below {
                    *kept = Kept::InRegister;
                }
                Some(())
            }
        }
    }

    /// A register gets a value of which nothing is known.
    fn overwrite(&mut self, register: u32) -> Option<()> {
        let is_lost = self.kept(register).is_some_and(|kept| *kept == Kept::InRegister);
        (!is_lost).then_some(())
    }

    /// The state after an instruction that does not jump. `None`: what it does to the stack is not known.
    fn after(mut self, word: u32) -> Option<Self> {
        let (rd, rn) = (word & 31, word >> 5 & 31);
        // nop, bti, and signing of x30, which stays the return address.
        if word & 0xffff_f01f == 0xd503_201f {
            return Some(self);
        }
        // add, sub (immediate, 64 bits)
        if word & 0xbf80_0000 == 0x9100_0000 {
            let value = (word >> 10 & 0xfff) << if word & 1 << 22 != 0 { 12 } else { 0 };
            let value = i32::try_from(value).ok()?;
            if rd == SP {
                self = (rn == SP).then_some(self)?;
                self.sink(if word & 1 << 30 != 0 { value } else { -value })?;
            } else {
                self.overwrite(rd)?;
            }
            return Some(self);
        }
        // load and store of pairs, then of single registers
        if word & 0x3a00_0000 == 0x2800_0000 {
            return self.after_pair(word);
        }
        if word & 0x3a00_0000 == 0x3800_0000 {
            return self.after_single(word);
        }
        if may_write_stack_pointer(word) {
            return None;
        }
        // The destination is in the lowest bits wherever there is one; memory instructions may have more.
        let fields = [rd, rn, word >> 10 & 31, word >> 16 & 31];
        for register in &fields[..if is_memory(word) { 4 } else { 1 }] {
            self.overwrite(*register)?;
        }
        Some(self)
    }

    fn after_pair(self, word: u32) -> Option<Self> {
        let (first, second, base) = (word & 31, word >> 10 & 31, word >> 5 & 31);
        let (is_vector, size) = (word & 1 << 26 != 0, word >> 30);
        let scale = if is_vector { 4 << size } else { [4, 4, 8, 8][size as usize] };
        let offset = sign_extended(word >> 15 & 0x7f, 7) * scale;
        let (is_load, mode) = (word & 1 << 22 != 0, word >> 23 & 3);
        let is_64 = !is_vector && size == 2;
        self.access(base, offset, mode, |state, at| {
            if is_vector {
                return Some(());
            }
            for (register, at) in [(first, at), (second, at.map(|at| at + scale))] {
                state.register_access(register, at.filter(|_| is_64), is_load)?;
            }
            Some(())
        })
    }

    fn after_single(self, word: u32) -> Option<Self> {
        let (register, base) = (word & 31, word >> 5 & 31);
        let is_vector = word & 1 << 26 != 0;
        let size = word >> 30;
        let has_unsigned_offset = word & 1 << 24 != 0;
        let is_register_offset = !has_unsigned_offset && word & 1 << 21 != 0;
        let (offset, mode) = if has_unsigned_offset {
            ((word >> 10 & 0xfff) as i32 * (1 << size), 2)
        } else if is_register_offset && word >> 10 & 1 == 1 {
            // ldraa, ldrab: they may write back.
            return None;
        } else if is_register_offset {
            // Also the atomic ones, which write to the lowest field: as a load from somewhere.
            (0, 0)
        } else {
            let mode = match word >> 10 & 3 {
                1 => 1,
                3 => 3,
                _ => 2,
            };
            (sign_extended(word >> 12 & 0x1ff, 9), mode)
        };
        let is_store = word >> 22 & 3 == 0 && !(is_register_offset && word >> 10 & 3 == 0);
        let is_known = size == 3 && !is_register_offset;
        self.access(base, offset, mode, |state, at| {
            if is_vector {
                return Some(());
            }
            state.register_access(register, at.filter(|_| is_known), !is_store)
        })
    }

    /// A register is stored to or loaded from memory, at this many bytes above the stack pointer if that is
    /// known.
    fn register_access(&mut self, register: u32, at: Option<i32>, is_load: bool) -> Option<()> {
        match (at, is_load) {
            (Some(at), true) => self.load(register, at),
            (Some(at), false) => self.store(register, at),
            (None, true) => self.overwrite(register),
            (None, false) => Some(()),
        }
    }

    /// An access with its base register. Modes: 0 and 2 keep the base, 1 adds to it after, 3 before.
    fn access(
        mut self,
        base: u32,
        offset: i32,
        mode: u32,
        registers: impl FnOnce(&mut Self, Option<i32>) -> Option<()>,
    ) -> Option<Self> {
        if base != SP {
            if mode & 1 == 1 {
                self.overwrite(base)?;
            }
            registers(&mut self, None)?;
            return Some(self);
        }
        if mode == 3 {
            self.sink(-offset)?;
        }
        registers(&mut self, Some(if mode == 2 { offset } else { 0 }).filter(|_| mode != 0))?;
        if mode == 1 {
            self.sink(-offset)?;
        }
        Some(self)
    }
}

/// Memory instructions other than plain loads and stores: exclusive, atomic, of vectors, of memory ranges.
fn is_memory(word: u32) -> bool {
    word & 0x0a00_0000 == 0x0800_0000
}

/// Instructions besides add, sub, load and store whose register 31 is the stack pointer. Of those that set the flags (cmp, cmn,
/// tst) it is the zero register.
fn may_write_stack_pointer(word: u32) -> bool {
    let (rd, rn) = (word & 31, word >> 5 & 31);
    let writes_rd = word & 0x3f20_0000 == 0x0b20_0000 // add, sub (extended register)
        || (word & 0x1f80_0000 == 0x1200_0000 && word >> 29 & 3 != 3) // and, orr, eor (immediate)
        || word & 0x1f80_0000 == 0x1180_0000 // addg, subg
        || word & 0xffe0_fc00 == 0x9ac0_1000 // irg
        || word >> 24 == 0x04; // addvl, addpl
    (writes_rd && rd == SP) || (is_memory(word) && rn == SP && word & 1 << 23 != 0)
}

fn sign_extended(value: u32, bits: u32) -> i32 {
    (value << (32 - bits)) as i32 >> (32 - bits)
}

/// Place where control may go after an instruction.
enum PrologueStep {
    /// Only on, with the registers changed as the instruction says.
    On,
    /// On, after a call.
    Call,
    /// To an instruction this many words away, or on.
    Branch(i32),
    /// To an instruction this many words away.
    Jump(i32),
    /// Out of the function, or to where it is not known.
    Away,
}

fn next(word: u32) -> PrologueStep {
    let is = |mask: u32, value: u32| word & mask == value;
    if is(0xfc00_0000, 0x9400_0000) || is(0xffff_fc1f, 0xd63f_0000) || is(0xfeff_f800, 0xd63f_0800) {
        return PrologueStep::Call;
    }
    if is(0xfc00_0000, 0x1400_0000) {
        return PrologueStep::Jump(sign_extended(word & 0x3ff_ffff, 26));
    }
    if is(0xff00_0000, 0x5400_0000) || is(0x7e00_0000, 0x3400_0000) {
        return PrologueStep::Branch(sign_extended(word >> 5 & 0x7_ffff, 19));
    }
    if is(0x7e00_0000, 0x3600_0000) {
        return PrologueStep::Branch(sign_extended(word >> 5 & 0x3fff, 14));
    }
    // Other branches to a register (returns among them), brk, hlt, and what is no instruction.
    let is_system_call = is(0xffe0_001f, 0xd400_0001);
    let is_away = is(0xfe00_0000, 0xd600_0000) || is(0xff00_0000, 0xd400_0000) || is(0xffff_0000, 0);
    if is_away && !is_system_call { PrologueStep::Away } else { PrologueStep::On }
}

/// The rules of a function's instructions, as far as they are reached; `None` where it does something to
/// its stack that is not understood.
pub(crate) fn analyze(start: u64, words: &[u32]) -> Option<Vec<Span>> {
    let mut states: Vec<Option<PrologueState>> = vec![None; words.len()];
    let mut waiting = vec![(0usize, PrologueState::ENTRY)];
    while let Some((index, state)) = waiting.pop() {
        let Some(known) = states.get_mut(index) else { continue };
        match known {
            Some(known) if *known == state => continue,
            Some(_) => return None,
            None => *known = Some(state),
        }
        let word = words[index];
        let target = |distance: i32| index.checked_add_signed(distance as isize);
        match next(word) {
            PrologueStep::On => waiting.push((index + 1, state.after(word)?)),
            PrologueStep::Call => {
                let mut after = state;
                after.overwrite(LINK)?;
                waiting.push((index + 1, after));
            }
            PrologueStep::Branch(distance) => {
                waiting.push((index + 1, state));
                waiting.extend(target(distance).map(|index| (index, state)));
            }
            PrologueStep::Jump(distance) => waiting.extend(target(distance).map(|index| (index, state))),
            PrologueStep::Away => {}
        }
    }
    let mut spans: Vec<Span> = Vec::new();
    for (index, state) in states.iter().enumerate() {
        let Some(rule) = state.and_then(PrologueState::rule) else { continue };
        let address = start + 4 * index as u64;
        match spans.last_mut() {
            Some(last) if last.end == address && last.rule == rule => last.end += 4,
            _ => spans.push(Span { start: address, end: address + 4, rule }),
        }
    }
    Some(spans)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RETURN: u32 = 0xd65f_03c0;

    /// As in the kernel's `__kernel_clock_gettime`: `paciasp; tst w2, #0x60; cmp x0, w2, uxtw; autiasp; ret`.
    #[test]
    fn comparisons_do_not_write_the_stack_pointer() {
        let words = [0xd503_233f, 0x721b_045f, 0xeb22_401f, 0xd503_23bf, RETURN];
        let rule = PrologueState::ENTRY.rule().unwrap();
        assert_eq!(analyze(0x2d0, &words), Some(vec![Span { start: 0x2d0, end: 0x2e4, rule }]));
    }

    /// `and sp, x1, #-16` and `add sp, x1, w2, uxtw`.
    #[test]
    fn a_function_that_sets_its_stack_pointer_is_left_alone() {
        for word in [0x927c_ec3f, 0x8b22_403f] {
            assert_eq!(analyze(0, &[word, RETURN]), None, "{word:x}");
        }
    }
}
