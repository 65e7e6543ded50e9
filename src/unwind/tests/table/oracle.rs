//! Every rule against gimli's evaluation of the same entry.

use super::*;
use crate::unwind::rule::RaKind;
use gimli::{
    BaseAddresses, CallFrameInstruction, CfaRule, EhFrame, EhFrameHdr, EndianSlice, EvaluationResult,
    FrameDescriptionEntry, LittleEndian, Location, RegisterRule, UnwindContext, UnwindExpression,
    UnwindSection, UnwindTableRow, Value, X86_64,
};

type Slice<'a> = EndianSlice<'a, LittleEndian>;

/// Registers with values that no two rules confuse.
fn register(number: u16, pc: u64) -> u64 {
    match number {
        16 => pc,
        _ => 0x7f00_0000_0000 + u64::from(number) * 0x1_0001_0010,
    }
}

/// Memory in which every address holds something else.
fn memory(address: u64) -> u64 {
    address.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17)
}

/// Step to the caller by a rule or a row.
#[derive(Debug, PartialEq, Eq)]
enum Step {
    Root,
    Caller { cfa: u64, return_address: u64, rbp: u64 },
}

fn step_of_rule(rule: Rule, pc: u64) -> Step {
    let base = register(rule.cfa_reg.into(), pc).wrapping_add_signed(rule.cfa_off.into());
    let aux = i64::from(rule.aux);
    let cfa = match rule.kind {
        RuleKind::Stop => return Step::Root,
        RuleKind::Reg => base,
        RuleKind::Deref => memory(base).wrapping_add_signed(aux),
        RuleKind::DerefIndex => {
            memory(base.wrapping_add(8 * register(rule.aux_reg.into(), pc))).wrapping_add_signed(aux)
        }
        RuleKind::Plt => base + if (pc & 15) as i64 >= aux { 8 } else { 0 },
        RuleKind::Signal => {
            let rsp = register(7, pc);
            return Step::Caller {
                cfa: memory(rsp + 160),
                return_address: memory(rsp + 168),
                rbp: memory(rsp + 120),
            };
        }
        other => panic!("{other:?} at {pc:#x} says nothing"),
    };
    let return_address = match rule.ra_kind {
        RaKind::AtCfa | RaKind::Jump | RaKind::Last => memory(cfa.wrapping_sub(8)),
        RaKind::InReg => register(rule.aux_reg.into(), pc),
        RaKind::Offset => memory(cfa.wrapping_add_signed(aux)),
        RaKind::NextToRbp => memory(cfa.wrapping_add_signed(i64::from(rule.rbp_off) + 8)),
    };
    let rbp = match rule.rbp_kind {
        RbpKind::Same => register(6, pc),
        RbpKind::AtCfa => memory(cfa.wrapping_add_signed(rule.rbp_off.into())),
        RbpKind::AtRbp => memory(register(6, pc).wrapping_add_signed(rule.rbp_off.into())),
        RbpKind::Lost => panic!("no entry says that rbp is lost"),
    };
    Step::Caller { cfa, return_address, rbp }
}

struct Oracle<'a> {
    section: EhFrame<Slice<'a>>,
    encoding: gimli::Encoding,
    pc: u64,
}

impl Oracle<'_> {
    fn step(&self, row: &UnwindTableRow<usize>) -> Step {
        if row.register(X86_64::RA) == Some(RegisterRule::Undefined) {
            return Step::Root;
        }
        let cfa = match row.cfa() {
            CfaRule::RegisterAndOffset { register: base, offset } => {
                register(base.0, self.pc).wrapping_add_signed(*offset)
            }
            CfaRule::Expression(expression) => self.evaluate(*expression, None),
        };
        let return_address = self.restore(row.register(X86_64::RA).unwrap(), 16, cfa);
        let rbp = match row.register(X86_64::RBP) {
            None => register(6, self.pc),
            // The popped-rbp epilogue: a slot below rsp is not one.
            Some(RegisterRule::Offset(offset)) if is_below_rsp(row.cfa(), offset) => register(6, self.pc),
            Some(rule) => self.restore(rule, 6, cfa),
        };
        Step::Caller { cfa, return_address, rbp }
    }

    fn restore(&self, rule: RegisterRule<usize>, number: u16, cfa: u64) -> u64 {
        match rule {
            RegisterRule::Undefined | RegisterRule::SameValue => register(number, self.pc),
            RegisterRule::Offset(offset) => memory(cfa.wrapping_add_signed(offset)),
            RegisterRule::ValOffset(offset) => cfa.wrapping_add_signed(offset),
            RegisterRule::Register(other) => register(other.0, self.pc),
            RegisterRule::Expression(expression) => memory(self.evaluate(expression, Some(cfa))),
            RegisterRule::ValExpression(expression) => self.evaluate(expression, Some(cfa)),
            other => panic!("unexpected rule {other:?}"),
        }
    }

    fn evaluate(&self, expression: UnwindExpression<usize>, initial: Option<u64>) -> u64 {
        let mut evaluation = expression.get(&self.section).unwrap().evaluation(self.encoding);
        if let Some(initial) = initial {
            evaluation.set_initial_value(initial);
        }
        let mut result = evaluation.evaluate().unwrap();
        loop {
            result = match result {
                EvaluationResult::Complete => break,
                EvaluationResult::RequiresRegister { register: wanted, .. } => {
                    evaluation.resume_with_register(Value::Generic(register(wanted.0, self.pc))).unwrap()
                }
                EvaluationResult::RequiresMemory { address, size: 8, .. } => {
                    evaluation.resume_with_memory(Value::Generic(memory(address))).unwrap()
                }
                other => panic!("unexpected request {other:?}"),
            };
        }
        match evaluation.as_result()[0].location {
            Location::Address { address } => address,
            ref other => panic!("unexpected location {other:?}"),
        }
    }
}

fn is_below_rsp(cfa: &CfaRule<usize>, saved: i64) -> bool {
    matches!(cfa, CfaRule::RegisterAndOffset { register: X86_64::RSP, offset } if offset + saved < 0)
}

/// Result of comparing some addresses.
#[derive(Debug, Default, Clone, Copy)]
struct Counts {
    same: usize,
    user: usize,
    none: usize,
}

#[test]
fn every_rule_says_what_gimli_says() {
    let files = files();
    let is_chosen = std::env::var_os("PROF_UNWIND_FILES").is_some();
    assert!(is_chosen || files.len() >= LEAST_FILES, "only {} ELF files found: {files:?}", files.len());
    let (mut all, mut rows) = (0, 0);
    for path in files {
        let bytes = std::fs::read(&path).unwrap();
        let object = object::File::parse(&bytes[..]).unwrap();
        let (Some(eh), Some(hdr)) =
            (object.section_by_name(".eh_frame"), object.section_by_name(".eh_frame_hdr"))
        else {
            println!("{}: no .eh_frame_hdr, skipped", path.display());
            continue;
        };
        let mut bases = BaseAddresses::default().set_eh_frame(eh.address()).set_eh_frame_hdr(hdr.address());
        if let Some(text) = object.section_by_name(".text") {
            bases = bases.set_text(text.address());
        }
        let mut section = EhFrame::new(eh.data().unwrap(), LittleEndian);
        section.set_address_size(8);
        let header = EhFrameHdr::new(hdr.data().unwrap(), LittleEndian).parse(&bases, 8).unwrap();
        let lookup = header.table().unwrap();
        let table = table_of(&path);
        let boundaries = boundaries(&table);
        let compare = |pcs: &[u64]| {
            let mut counts = Counts::default();
            let mut context = UnwindContext::new();
            for &pc in pcs {
                let found = lookup.fde_for_address(&section, &bases, pc, EhFrame::cie_from_offset);
                let Ok(fde) = found else {
                    counts.none += 1;
                    continue;
                };
                // Linkers leave entries at address 0 for functions that they dropped.
                if fde.initial_address() == 0 {
                    continue;
                }
                // Entries that gimli cannot read to their end (libgcrypt has some, which go on from an expression with
                // a register) are left out by the table too, and their instructions followed.
                if !is_whole(&fde, &section, &bases) {
                    counts.none += 1;
                    continue;
                }
                // What libgcc's entries say of the functions that go on where an exception is caught is wrong.
                if catches_exceptions(&fde, &section, &bases) {
                    counts.none += 1;
                    continue;
                }
                let row = fde.unwind_info_for_address(&section, &bases, &mut context, pc).unwrap();
                let rule = table.lookup(pc);
                if rule == Rule::USER {
                    counts.user += 1;
                    continue;
                }
                assert_ne!(rule.kind, RuleKind::None, "{}: nothing at {pc:#x}", path.display());
                let oracle = Oracle { section, encoding: fde.cie().encoding(), pc };
                let (ours, theirs) = (step_of_rule(rule, pc), oracle.step(row));
                // Where a stack that makecontext has made begins; the entry does not know that.
                if ours == Step::Root && theirs != Step::Root && is_start_context(&object, &fde) {
                    counts.none += 1;
                    continue;
                }
                assert_eq!(ours, theirs, "{} at {pc:#x}: {rule:?} for {row:?}", path.display());
                counts.same += 1;
            }
            counts
        };
        let sum = |a: Counts, b: Counts| Counts {
            same: a.same + b.same,
            user: a.user + b.user,
            none: a.none + b.none,
        };
        let Counts { same, user, none } =
            boundaries.par_chunks(8192).map(compare).reduce(Counts::default, sum);
        println!(
            "{}: {} rows, {} rules; {same} addresses agree, {user} need user space, {none} without entry",
            path.display(),
            table.rows.len(),
            table.rules.len(),
        );
        assert!(same > 0, "{}: nothing compared", path.display());
        assert!(user * 100 <= same + user, "{}: {user} of {same} need user space", path.display());
        all += same;
        rows += table.rows.len();
    }
    println!("{all} addresses around {rows} rows agree");
}

/// Whether a function is glibc's `__start_context`: `[endbr64]; mov %rbx, %rsp`, at which no caller's word is.
fn is_start_context(object: &object::File<'_>, fde: &FrameDescriptionEntry<Slice<'_>>) -> bool {
    let text = object.section_by_name(".text").unwrap();
    let code = text.data_range(fde.initial_address(), 7).ok().flatten().unwrap_or(&[]);
    code.strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa]).unwrap_or(code).starts_with(&[0x48, 0x89, 0xdc])
}

/// Whether a function ends by `mov %rcx, %rsp; pop %rcx; jmp *%rcx`.
fn catches_exceptions(
    fde: &FrameDescriptionEntry<Slice<'_>>,
    section: &EhFrame<Slice<'_>>,
    bases: &BaseAddresses,
) -> bool {
    let mut context = UnwindContext::new();
    let mut rows = fde.rows(section, bases, &mut context).unwrap();
    while let Ok(Some(row)) = rows.next_row() {
        if matches!(row.cfa(), CfaRule::RegisterAndOffset { register: X86_64::RCX, offset: 8 }) {
            return true;
        }
    }
    false
}

fn is_whole(
    fde: &FrameDescriptionEntry<Slice<'_>>,
    section: &EhFrame<Slice<'_>>,
    bases: &BaseAddresses,
) -> bool {
    // Only entries with expressions are at issue; reading all of them again for each address would take too long.
    let mut instructions = fde.instructions(section, bases);
    let mut after_expression = false;
    while let Ok(Some(instruction)) = instructions.next() {
        match instruction {
            CallFrameInstruction::DefCfaExpression { .. } => after_expression = true,
            CallFrameInstruction::DefCfa { .. } => after_expression = false,
            CallFrameInstruction::DefCfaRegister { .. } | CallFrameInstruction::DefCfaOffset { .. }
                if after_expression =>
            {
                return false;
            }
            _ => {}
        }
    }
    true
}
