//! Rules for code without entries, from its instructions.
//!
//! A libc without call frame information (musl) is in every stack of a program, and hand-written assembly without it
//! is the hottest code of video and number-crunching libraries. Their instructions say where the CFA is: see
//! [`abstract_state`](super::abstract_state). Functions are followed one by one, on all cores; what they call is
//! followed in the next round. Functions that are certain (symbols, targets of calls) go before those whose address
//! is only taken somewhere, and where two functions of one kind share code and disagree, nothing is claimed.

use super::abstract_state::Callees;
use super::claims::{disjoint, with_priority};
use super::control_flow::analyze_function;
use super::facts::{FunctionAnalysis, ModuleFacts, Surroundings};
use crate::unwind::code::bytes::{CodeBytes, CodeSections};
use crate::unwind::code::function_starts::FunctionStart;
use crate::unwind::table::span::Span;
use iced_x86::InstructionInfoFactory;
use rayon::prelude::*;
use rustc_hash::FxHashSet;
use std::collections::BTreeSet;

/// Visits of instructions at most, in all. One takes about 200 ns.
const MAX_VISITS: usize = 12 << 20;
/// Functions that one module's code without entries may have.
const MAX_FUNCTIONS: usize = 1 << 20;
/// Largest number of times that a function is analysed: again only where more is known of what it calls and what lies after it.
const MAX_PASSES: usize = 4;

/// Rules for the code that can be followed from the given function starts: ascending, without overlaps.
pub(crate) fn analyze(code: &[CodeBytes], starts: Vec<FunctionStart>, facts: &ModuleFacts<'_>) -> Vec<Span> {
    let (certain, taken): (Vec<_>, Vec<_>) = starts.into_iter().partition(|start| start.is_certain);
    let analyze_all = |callees| {
        let mut analysis = PrologueAnalysis {
            code: CodeSections(code),
            facts,
            callees,
            certain: BTreeSet::new(),
            taken: BTreeSet::new(),
            functions: Vec::new(),
            never_return: FxHashSet::default(),
            visits: 0,
            returning: 0,
            taking: 0,
        };
        let certain = disjoint(analysis.run(&certain)?);
        let taken = disjoint(analysis.run(&taken)?);
        Ok(with_priority(certain, &taken))
    };
    analyze_all(Callees::TakeReturnAddress)
        .or_else(|OtherConvention| analyze_all(Callees::MayTakeArguments))
        .unwrap_or_default()
}

/// Functions take their arguments off the stack, which none was taken to do.
struct OtherConvention;

/// One of this many functions that take their arguments off the stack is enough to believe it. Bytes that are no code
/// look like it now and then (libcrypto, 1 of 1,000), and V8 has 1 of 10.
const OTHER_CONVENTION_SHARE: usize = 64;

struct PrologueAnalysis<'a> {
    code: CodeSections<'a>,
    facts: &'a ModuleFacts<'a>,
    callees: Callees,
    certain: BTreeSet<u64>,
    taken: BTreeSet<u64>,
    /// Functions that were followed in this run, with the results.
    functions: Vec<(FunctionStart, FunctionAnalysis)>,
    /// Functions that never return, found by following them.
    never_return: FxHashSet<u64>,
    visits: usize,
    /// Certain functions that return, and those of them that take their arguments off the stack.
    returning: usize,
    taking: usize,
}

impl PrologueAnalysis<'_> {
    /// Follows functions, and then those that they lead to, until there are no new ones. What ran into another function,
    /// or made no sense, is followed again: perhaps a call that never returns was not known as one.
    fn run(&mut self, starts: &[FunctionStart]) -> Result<Vec<Span>, OtherConvention> {
        let mut round = self.new_ones(starts);
        let mut known = 0;
        for pass in 0..MAX_PASSES {
            self.run_pass(round, pass > 0)?;
            let before = std::mem::replace(
                &mut known,
                self.certain.len() + self.taken.len() + self.never_return.len(),
            );
            let may_differ = known > before && pass + 1 < MAX_PASSES;
            round = if may_differ { self.take_doubtful() } else { Vec::new() };
            if round.is_empty() {
                break;
            }
        }
        Ok(self.functions.drain(..).flat_map(|(_, followed)| followed.spans).collect())
    }

    fn run_pass(&mut self, mut round: Vec<FunctionStart>, is_repeated: bool) -> Result<(), OtherConvention> {
        while !round.is_empty() && self.visits < MAX_VISITS {
            let surroundings = Surroundings {
                code: &self.code,
                certain: &self.certain,
                taken: &self.taken,
                callees: self.callees,
                facts: self.facts,
                never_return: &self.never_return,
                is_repeated,
            };
            let results: Vec<FunctionAnalysis> = round
                .par_iter()
                .map_init(InstructionInfoFactory::new, |info, start| {
                    analyze_function(start, &surroundings, info)
                })
                .collect();
            self.returning += results.iter().filter(|followed| followed.returns).count();
            self.taking += results.iter().filter(|followed| followed.takes_arguments).count();
            let is_other = self.taking * OTHER_CONVENTION_SHARE > self.returning;
            if is_other && self.callees == Callees::TakeReturnAddress {
                return Err(OtherConvention);
            }
            let mut found = Vec::new();
            for (start, mut followed) in round.into_iter().zip(results) {
                self.visits += followed.visits;
                if followed.never_returns {
                    self.never_return.insert(start.address);
                }
                // What an uncertain function calls is not certain either: it may be data.
                let is_certain = start.is_certain;
                let start_at = |address| FunctionStart { address, end: None, is_certain };
                found.extend(followed.calls.drain(..).map(start_at));
                found.extend(
                    followed
                        .taken
                        .drain(..)
                        .map(|address| FunctionStart { is_certain: false, ..start_at(address) }),
                );
                self.functions.push((start, followed));
            }
            round = self.new_ones(&found);
        }
        Ok(())
    }

    /// Takes out the functions that made no sense, and those that ran on into another one.
    fn take_doubtful(&mut self) -> Vec<FunctionStart> {
        let (certain, taken) = (&self.certain, &self.taken);
        let doubtful = self.functions.extract_if(.., |(start, followed)| {
            let inside =
                start.address.saturating_add(1)..followed.runs_to.max(start.address.saturating_add(1));
            followed.is_contradicted
                || certain.range(inside.clone()).next().is_some()
                || taken.range(inside).next().is_some()
        });
        let mut starts: Vec<FunctionStart> = doubtful.map(|(start, _)| start).collect();
        starts.sort_unstable_by_key(|start| start.address);
        starts
    }

    fn new_ones(&mut self, starts: &[FunctionStart]) -> Vec<FunctionStart> {
        let mut new = Vec::new();
        for &start in starts {
            let is_full = self.certain.len() + self.taken.len() >= MAX_FUNCTIONS;
            if is_full || self.code.holder(start.address).is_none() || self.certain.contains(&start.address) {
                continue;
            }
            let is_new = if start.is_certain {
                self.certain.insert(start.address)
            } else {
                self.taken.insert(start.address)
            };
            if is_new {
                new.push(start);
            }
        }
        new
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::unwind::rule::Rule;

    const A: Rule = Rule::reg(7, 8);
    const B: Rule = Rule::reg(7, 16);

    fn span(start: u64, end: u64, rule: Rule) -> Span {
        Span { start, end, rule }
    }

    fn rules_of(bytes: &[u8], starts: &[(u64, bool)]) -> Vec<Span> {
        let code = [CodeBytes { start: 0x1000, bytes: bytes.to_vec() }];
        let start = |&(address, is_certain)| FunctionStart { address, end: None, is_certain };
        analyze(&code, starts.iter().map(start).collect(), &ModuleFacts::default())
    }

    #[test]
    fn where_functions_disagree_nothing_is_claimed() {
        let merged = disjoint(vec![span(0, 10, A), span(5, 15, A), span(12, 20, B)]);
        assert_eq!(merged, [span(0, 12, A), span(15, 20, B)]);
    }

    #[test]
    fn where_functions_disagree_about_rbp_alone_it_is_lost() {
        let merged = disjoint(vec![span(0, 10, A), span(5, 15, A.with_rbp_at_cfa(-16))]);
        let shared = span(5, 10, A.with_rbp_lost());
        assert_eq!(merged, [span(0, 5, A), shared, span(10, 15, A.with_rbp_at_cfa(-16))]);
    }

    #[test]
    fn uncertain_functions_fill_what_certain_ones_leave() {
        let all = with_priority(vec![span(10, 20, A), span(30, 40, A)], &[span(5, 35, B), span(38, 50, B)]);
        let expected = [span(5, 10, B), span(10, 20, A), span(20, 30, B), span(30, 40, A), span(40, 50, B)];
        assert_eq!(all, expected);
    }

    #[test]
    fn pushes_and_pops_move_the_cfa() {
        // push rbx; push rbp; pop rbp; pop rbx; ret
        let spans = rules_of(&[0x53, 0x55, 0x5d, 0x5b, 0xc3], &[(0x1000, true)]);
        let expected = [
            span(0x1000, 0x1001, Rule::reg(7, 8)),
            span(0x1001, 0x1002, Rule::reg(7, 16)),
            span(0x1002, 0x1003, Rule::reg(7, 24).with_rbp_at_cfa(-24)),
            span(0x1003, 0x1004, Rule::reg(7, 16)),
            span(0x1004, 0x1005, Rule::reg(7, 8)),
        ];
        assert_eq!(spans, expected);
    }

    #[test]
    fn rbp_used_for_data_is_found_where_it_was_saved() {
        // push rbp; xor ebp, ebp; pop rbp; ret
        let spans = rules_of(&[0x55, 0x31, 0xed, 0x5d, 0xc3], &[(0x1000, true)]);
        assert_eq!(spans[1], span(0x1001, 0x1004, Rule::reg(7, 16).with_rbp_at_cfa(-16)));
        assert_eq!(spans[2], span(0x1004, 0x1005, Rule::reg(7, 8)));
    }

    #[test]
    fn an_aligned_stack_is_left_by_the_saved_pointer() {
        let code = [
            0x49, 0x89, 0xe3, // mov r11, rsp
            0x48, 0x83, 0xe4, 0xe0, // and rsp, -32
            0x48, 0x83, 0xec, 0x40, // sub rsp, 64
            0x4c, 0x89, 0x5c, 0x24, 0x38, // mov [rsp+56], r11
            0x45, 0x31, 0xdb, // xor r11d, r11d
            0x48, 0x8b, 0x64, 0x24, 0x38, // mov rsp, [rsp+56]
            0xc3,
        ];
        let spans = rules_of(&code, &[(0x1000, true)]);
        let at = |address| spans.iter().find(|s| s.start <= address && address < s.end).map(|s| s.rule);
        assert_eq!(at(0x1007), Some(Rule::reg(11, 8)));
        assert_eq!(at(0x1010), Some(Rule::deref(7, 56, 8)));
        assert_eq!(at(0x1013), Some(Rule::deref(7, 56, 8)));
        assert_eq!(at(0x1018), Some(Rule::reg(7, 8)));
    }

    #[test]
    fn a_register_that_a_call_does_not_write_still_tells_the_cfa() {
        let code = [
            0x48, 0x89, 0xe1, // mov rcx, rsp
            0x48, 0x83, 0xe4, 0xf0, // and rsp, -16
            0xe8, 0x06, 0x00, 0x00, 0x00, // call 0x1012
            0x31, 0xd2, // xor edx, edx
            0x48, 0x89, 0xcc, // mov rsp, rcx
            0xc3, // ret
            0x31, 0xc0, // xor eax, eax
            0xc3, // ret
        ];
        let rule_at = |code: &[u8], address| {
            let spans = rules_of(code, &[(0x1000, true)]);
            spans.iter().find(|s| s.start <= address && address < s.end).map(|s| s.rule)
        };
        assert_eq!(rule_at(&code, 0x100b), Some(Rule::reg(2, 8).with_base_kept()), "in the function called");
        assert_eq!(rule_at(&code, 0x100c), Some(Rule::reg(2, 8)), "after the call");
        assert_eq!(rule_at(&code, 0x1011), Some(A));
        let mut writing = code;
        writing[0x13] = 0xc9; // xor ecx, ecx
        assert_eq!(rule_at(&writing, 0x100b), Some(Rule::reg(2, 8)));
        assert_eq!(rule_at(&writing, 0x100c), None);
    }

    #[test]
    fn rbp_is_found_where_it_was_pushed_not_where_another_function_has_left_it() {
        let code = [
            0x48, 0x89, 0x6c, 0x24, 0xe8, // mov [rsp-24], rbp
            0xeb, 0x00, // jmp 0x1007
            0x55, // push rbp
            0x31, 0xed, // xor ebp, ebp
            0x5d, // pop rbp
            0xc3, // ret
        ];
        let spans = rules_of(&code, &[(0x1000, true)]);
        assert_eq!(spans[1], span(0x1008, 0x100b, Rule::reg(7, 16).with_rbp_at_cfa(-16)));
    }

    #[test]
    fn where_rbp_is_overwritten_the_caller_is_still_found() {
        // xor ebp, ebp; nop; ret
        let expected = [span(0x1000, 0x1002, A), span(0x1002, 0x1004, A.with_rbp_lost())];
        assert_eq!(rules_of(&[0x31, 0xed, 0x90, 0xc3], &[(0x1000, true)]), expected);
    }

    #[test]
    fn a_frame_pointer_counts_more_than_the_stack_pointer() {
        // push rbp; mov rbp, rsp; push rbx; nop; pop rbx; pop rbp; ret
        let code = [0x55, 0x48, 0x89, 0xe5, 0x53, 0x90, 0x5b, 0x5d, 0xc3];
        let expected = [
            span(0x1000, 0x1001, Rule::reg(7, 8)),
            span(0x1001, 0x1004, Rule::reg(7, 16).with_rbp_at_cfa(-16)),
            span(0x1004, 0x1008, Rule::reg(6, 16).with_rbp_at_cfa(-16)),
            span(0x1008, 0x1009, Rule::reg(7, 8)),
        ];
        assert_eq!(rules_of(&code, &[(0x1000, true)]), expected);
    }

    #[test]
    fn where_functions_take_their_arguments_along_rsp_is_unknown_behind_calls() {
        let code = [
            0xc2, 0x10, 0x00, // ret 16
            0x90, 0x90, // nop; nop
            0x6a, 0x01, // push 1
            0x6a, 0x02, // push 2
            0xe8, 0xf2, 0xff, 0xff, 0xff, // call 0x1000
            0x90, // nop
            0xc3, // ret
        ];
        let spans = rules_of(&code, &[(0x1000, true), (0x1005, true)]);
        let at = |address| spans.iter().find(|s| s.start <= address && address < s.end).map(|s| s.rule);
        assert_eq!(at(0x1000), Some(Rule::reg(7, 8)));
        assert_eq!(at(0x1009), Some(Rule::reg(7, 24)), "the call itself");
        assert_eq!(at(0x100e), None, "after it");
        assert_eq!(at(0x100f), None);
    }

    #[test]
    fn a_way_around_a_call_says_where_rsp_is_behind_it() {
        let code = [
            0xc2, 0x10, 0x00, // ret 16
            0x90, 0x90, // nop; nop
            0x74, 0x09, // je 0x1010
            0x6a, 0x01, // push 1
            0x6a, 0x02, // push 2
            0xe8, 0xf0, 0xff, 0xff, 0xff, // call 0x1000
            0x90, // nop
            0xc3, // ret
        ];
        let spans = rules_of(&code, &[(0x1000, true), (0x1005, true)]);
        let at = |address| spans.iter().find(|s| s.start <= address && address < s.end).map(|s| s.rule);
        assert_eq!([at(0x100b), at(0x1010), at(0x1011)], [Some(Rule::reg(7, 24)), Some(A), Some(A)]);
    }

    #[test]
    fn functions_that_work_in_their_callers_frame_are_not_believed_where_that_is_usual() {
        // mov rax, [rbp-8]; ret, in a module where functions take their arguments, and in one where they do not
        let code = [0xc2, 0x10, 0x00, 0x90, 0x48, 0x8b, 0x45, 0xf8, 0xc3];
        let spans = rules_of(&code, &[(0x1000, true), (0x1004, true)]);
        assert_eq!(spans, [span(0x1000, 0x1003, A)]);
        assert_eq!(rules_of(&code[4..], &[(0x1000, true)]), [span(0x1000, 0x1005, A)]);
    }

    #[test]
    fn where_the_return_address_was_moved_nothing_is_claimed() {
        // As V8's `CallApiCallback` begins: pop rax; push rbx; push rax; push rbp; mov rbp, rsp; nop; hlt
        let code = [0x58, 0x53, 0x50, 0x55, 0x48, 0x89, 0xe5, 0x90, 0xf4];
        assert_eq!(rules_of(&code, &[(0x1000, true)]), [span(0x1000, 0x1001, A)]);
        // pop rcx; push rcx; ret: it is back where it was.
        let expected = [span(0x1000, 0x1001, A), span(0x1002, 0x1003, A)];
        assert_eq!(rules_of(&[0x59, 0x51, 0xc3], &[(0x1000, true)]), expected);
    }

    #[test]
    fn a_return_at_another_depth_makes_the_whole_function_unbelievable() {
        // push rbx; ret: this cannot be where a function starts.
        assert_eq!(rules_of(&[0x53, 0xc3], &[(0x1000, true)]), []);
    }

    /// `nop; hlt`, then a certain function: `lea -9(%rip), %rax; jmp *%rax`. Nothing else confirms the first.
    #[test]
    fn a_tail_call_by_register_makes_its_target_certain() {
        let one = [0x90, 0xf4, 0x48, 0x8d, 0x05, 0xf7, 0xff, 0xff, 0xff, 0xff, 0xe0];
        assert_eq!(rules_of(&one, &[(0x1002, true)]), [span(0x1000, 0x100b, A)]);
        let mut two = one[..9].to_vec();
        // Another address into the same register: which one is jumped to is not known.
        two.extend([0x48, 0x8d, 0x05, 0, 0, 0, 0, 0xff, 0xe0]);
        assert_eq!(rules_of(&two, &[(0x1002, true)]), [span(0x1002, 0x1012, A)]);
    }

    #[test]
    fn an_address_that_is_only_taken_counts_once_a_return_confirms_it() {
        assert_eq!(rules_of(&[0x90, 0xf4], &[(0x1000, false)]), []);
        assert_eq!(rules_of(&[0x90, 0xc3], &[(0x1000, false)]), [span(0x1000, 0x1002, A)]);
    }

    /// `sub $24, %rsp; call` of what lies after it, which is called with an empty frame, and ends in `pop %rbx; ret`.
    #[test]
    fn a_call_of_the_next_instruction_is_the_end_of_a_function() {
        let code = [0x48, 0x83, 0xec, 0x18, 0xe8, 0, 0, 0, 0, 0x53, 0x5b, 0xc3];
        let expected = [span(0x1000, 0x1004, A), span(0x1004, 0x1009, Rule::reg(7, 32))];
        let next = [span(0x1009, 0x100a, A), span(0x100a, 0x100b, B), span(0x100b, 0x100c, A)];
        assert_eq!(rules_of(&code, &[(0x1000, true)]), [&expected[..], &next].concat());
    }

    #[test]
    fn a_frame_pointer_is_believed_more_than_rsp_behind_a_call() {
        // push rbp; mov rbp, rsp; push 0; call …; leave; ret: what is called may have taken the 0 off the stack.
        let code = [0x55, 0x48, 0x89, 0xe5, 0x6a, 0, 0xe8, 0xf5, 0xff, 0xff, 0xff, 0xc9, 0xc3];
        let spans = rules_of(&code, &[(0x1000, true)]);
        let body = Rule::reg(6, 16).with_rbp_at_cfa(-16);
        assert_eq!(spans[2..], [span(0x1004, 0x100c, body), span(0x100c, 0x100d, A)]);
    }
}
