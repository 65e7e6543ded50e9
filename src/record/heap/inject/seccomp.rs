//! Filters of system calls (seccomp) that a stopped thread is under: whether they let the calls through by which the sampler is mapped.
//! A filter may end the process for a call that it does not expect, so it is asked before.

use super::registers::ask;
use crate::base::privilege;
use libc::sock_filter;
use serde::{Deserialize, Serialize};
use std::io;

/// Most filters of one thread that are read: there are a few, each by another program that has started the next.
const MOST_FILTERS: u64 = 64;
/// Most instructions of a filter (BPF_MAXINSNS).
const MOST_INSTRUCTIONS: usize = 4096;
const PTRACE_SECCOMP_GET_FILTER: i64 = 0x420c;
const AUDIT_ARCH_X86_64: u32 = 0xc000_003e;
/// Bytes of `struct seccomp_data`.
const DATA_BYTES: u32 = 64;

/// An instruction of a filter, as in `struct sock_filter`.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct FilterStep {
    code: u16,
    jt: u8,
    jf: u8,
    k: u32,
}

/// A filter: a program of classic BPF.
pub(super) type CallFilter = Vec<FilterStep>;

/// A system call that is to be made.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
pub(super) struct SystemCall {
    #[serde(skip)]
    pub(super) name: &'static str,
    pub(super) number: i64,
    pub(super) arguments: [u64; 6],
}

/// The first of `calls`, by its number in the list, that not all of `filters` let through.
pub(super) fn refused(filters: &[CallFilter], calls: &[SystemCall]) -> Option<usize> {
    calls.iter().position(|call| !filters.iter().all(|filter| lets_through(filter, call)))
}

/// Reads the filters of a stopped thread. It takes CAP_SYS_ADMIN, and a process that is under none itself.
///
/// # Errors
///
/// When they cannot be read.
pub(super) fn filters(tid: i32) -> io::Result<Vec<CallFilter>> {
    privilege::as_administrator(|| filters_as_administrator(tid))
}

fn filters_as_administrator(tid: i32) -> io::Result<Vec<CallFilter>> {
    let mut found = Vec::new();
    for index in 0..MOST_FILTERS {
        let length = match ask(PTRACE_SECCOMP_GET_FILTER, tid, index, 0) {
            Ok(length) => usize::try_from(length).unwrap_or(usize::MAX),
            Err(error) if error.raw_os_error() == Some(libc::ENOENT) => return Ok(found),
            Err(error) => return Err(error),
        };
        // The kernel writes all of it, and takes none that is longer.
        if length > MOST_INSTRUCTIONS {
            return Err(io::Error::other("one is too long"));
        }
        let mut filter = vec![sock_filter { code: 0, jt: 0, jf: 0, k: 0 }; length];
        let place = filter.as_mut_ptr().expose_provenance() as u64;
        ask(PTRACE_SECCOMP_GET_FILTER, tid, index, place)?;
        let step = |sock_filter { code, jt, jf, k }| FilterStep { code, jt, jf, k };
        found.push(filter.into_iter().map(step).collect());
    }
    Err(io::Error::other("there are too many"))
}

/// A filter whose instructions are these bytes, as in `struct sock_filter`.
#[cfg(feature = "testing")]
pub(super) fn filter_of(bytes: &[u8]) -> CallFilter {
    let step = |step: &[u8; 8]| FilterStep {
        code: u16::from_le_bytes([step[0], step[1]]),
        jt: step[2],
        jf: step[3],
        k: u32::from_le_bytes([step[4], step[5], step[6], step[7]]),
    };
    bytes.as_chunks::<8>().0.iter().map(step).collect()
}

/// A word of `struct seccomp_data`: number, architecture, instruction pointer, arguments.
fn word(call: &SystemCall, offset: u32) -> Option<u32> {
    let half = |value: u64| if offset.is_multiple_of(8) { value as u32 } else { (value >> 32) as u32 };
    match offset {
        0 => u32::try_from(call.number).ok(),
        4 => Some(AUDIT_ARCH_X86_64),
        // Where the call is made from: in code of a file.
        8 | 12 => Some(half(0x7f00_0000_0000)),
        16..DATA_BYTES if offset.is_multiple_of(4) => {
            call.arguments.get((offset as usize - 16) / 8).map(|argument| half(*argument))
        }
        _ => None,
    }
}

/// Whether a filter lets a call through. One that does what no filter may does not.
fn lets_through(filter: &[FilterStep], call: &SystemCall) -> bool {
    const ALLOW: u32 = 0x7fff_0000;
    const LOG: u32 = 0x7ffc_0000;
    const ACTION: u32 = 0xffff_0000;
    verdict(filter, call).is_some_and(|verdict| matches!(verdict & ACTION, ALLOW | LOG))
}

/// What a filter returns.
fn verdict(filter: &[FilterStep], call: &SystemCall) -> Option<u32> {
    let (mut a, mut x, mut memory) = (0_u32, 0_u32, [0_u32; 16]);
    let mut at = 0;
    // Jumps lead forward only, so that each instruction runs once at most.
    loop {
        let &FilterStep { code, jt, jf, k } = filter.get(at)?;
        at += 1;
        let code = u32::from(code);
        let operand = if code & libc::BPF_X == 0 { k } else { x };
        match code & 0x07 {
            libc::BPF_LD => a = load(code, k, &memory, call)?,
            libc::BPF_LDX => x = load(code, k, &memory, call)?,
            libc::BPF_ST => *memory.get_mut(k as usize)? = a,
            libc::BPF_STX => *memory.get_mut(k as usize)? = x,
            libc::BPF_ALU => a = calculated(code & 0xf0, a, operand)?,
            libc::BPF_JMP if code & 0xf0 == libc::BPF_JA => at = at.checked_add(k as usize)?,
            libc::BPF_JMP => {
                let holds = match code & 0xf0 {
                    libc::BPF_JEQ => a == operand,
                    libc::BPF_JGT => a > operand,
                    libc::BPF_JGE => a >= operand,
                    libc::BPF_JSET => a & operand != 0,
                    _ => return None,
                };
                at += usize::from(if holds { jt } else { jf });
            }
            libc::BPF_RET => return Some(if code & 0x18 == libc::BPF_A { a } else { k }),
            // BPF_MISC: from one register to the other.
            _ if code & 0xf8 == libc::BPF_TXA => a = x,
            _ => x = a,
        }
    }
}

fn load(code: u32, k: u32, memory: &[u32; 16], call: &SystemCall) -> Option<u32> {
    match code & 0xe0 {
        libc::BPF_IMM => Some(k),
        libc::BPF_ABS => word(call, k),
        libc::BPF_MEM => memory.get(k as usize).copied(),
        libc::BPF_LEN => Some(DATA_BYTES),
        _ => None,
    }
}

fn calculated(operation: u32, a: u32, operand: u32) -> Option<u32> {
    Some(match operation {
        libc::BPF_ADD => a.wrapping_add(operand),
        libc::BPF_SUB => a.wrapping_sub(operand),
        libc::BPF_MUL => a.wrapping_mul(operand),
        libc::BPF_DIV => a.checked_div(operand)?,
        libc::BPF_OR => a | operand,
        libc::BPF_AND => a & operand,
        libc::BPF_XOR => a ^ operand,
        libc::BPF_LSH => a.checked_shl(operand)?,
        libc::BPF_RSH => a.checked_shr(operand)?,
        libc::BPF_NEG => a.wrapping_neg(),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOW: u32 = libc::SECCOMP_RET_ALLOW;
    const ERRNO: u32 = libc::SECCOMP_RET_ERRNO | 1;

    fn step(code: u32, k: u32) -> FilterStep {
        jump(code, k, 0, 0)
    }

    fn jump(code: u32, k: u32, jt: u8, jf: u8) -> FilterStep {
        FilterStep { code: code as u16, jt, jf, k }
    }

    fn call(number: i64, first: u64) -> SystemCall {
        SystemCall { name: "a call", number, arguments: [first, 0, 0, 0, 0, 0] }
    }

    const LOAD: u32 = libc::BPF_LD | libc::BPF_W | libc::BPF_ABS;
    const IS: u32 = libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K;
    const RETURN: u32 = libc::BPF_RET | libc::BPF_K;

    /// As those of containers: only x86-64, a list of calls, and one call only with some arguments.
    fn of_container() -> Vec<FilterStep> {
        vec![
            step(LOAD, 4),
            jump(IS, AUDIT_ARCH_X86_64, 0, 8),
            step(LOAD, 0),
            jump(libc::BPF_JMP | libc::BPF_JGE | libc::BPF_K, 0x4000_0000, 6, 0),
            jump(IS, libc::SYS_memfd_create as u32, 4, 0),
            jump(IS, libc::SYS_personality as u32, 0, 4),
            step(LOAD, 16),
            step(libc::BPF_ALU | libc::BPF_AND | libc::BPF_K, 0xffff_fff7),
            jump(IS, 0, 0, 1),
            step(RETURN, ALLOW),
            step(RETURN, ERRNO),
        ]
    }

    #[test]
    fn a_filter_says_which_calls_it_lets_through() {
        let filter = of_container();
        assert!(lets_through(&filter, &call(libc::SYS_memfd_create, 7)));
        assert!(!lets_through(&filter, &call(libc::SYS_ptrace, 7)));
        assert!(lets_through(&filter, &call(libc::SYS_personality, 8)));
        assert!(!lets_through(&filter, &call(libc::SYS_personality, 9)), "by its argument");
    }

    #[test]
    fn one_that_no_kernel_would_take_lets_nothing_through() {
        let endless = vec![step(libc::BPF_JMP | libc::BPF_JA, u32::MAX)];
        let unreadable = vec![step(LOAD, 66), step(RETURN, ALLOW)];
        let without_end = vec![step(libc::BPF_LD | libc::BPF_IMM, 1)];
        let divided = vec![step(libc::BPF_ALU | libc::BPF_DIV | libc::BPF_K, 0), step(RETURN, ALLOW)];
        for filter in [Vec::new(), endless, unreadable, without_end, divided] {
            assert!(!lets_through(&filter, &call(0, 0)), "{} instructions", filter.len());
        }
    }

    #[test]
    fn registers_and_memory_are_kept() {
        let filter = vec![
            step(libc::BPF_LD | libc::BPF_IMM, 5),
            step(libc::BPF_ST, 3),
            step(libc::BPF_MISC | libc::BPF_TAX, 0),
            step(libc::BPF_LD | libc::BPF_IMM, 0),
            step(libc::BPF_LD | libc::BPF_MEM, 3),
            step(libc::BPF_ALU | libc::BPF_ADD | libc::BPF_X, 0),
            step(libc::BPF_RET | libc::BPF_A, 0),
        ];
        assert_eq!(verdict(&filter, &call(0, 0)), Some(10));
    }
}
