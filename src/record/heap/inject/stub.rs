//! StubCode that a thread of the target runs once: it makes the file of the sampler and maps it.
//!
//! The stub leaves the thread as it was, by itself: a tracer that dies while it runs harms nothing. It saves the registers that
//! system calls change below the stack's red zone, and returns to where the thread was. Signals may come meanwhile.

use super::image::{DATA_AT, FILE_BYTES, FILE_DATA_BYTES, FILE_NAME, OWN_DATA_AT, OWN_DATA_BYTES};
use super::seccomp::SystemCall;

/// System calls of the stub.
pub(super) const CALLS: usize = 7;
/// The system calls of the stub that maps the sampler at `at`. Where the name of its file is, and which descriptor it gets, is not
/// known before.
pub(super) fn system_calls(at: u64, code_bytes: u64) -> [SystemCall; CALLS] {
    const ADDRESS: u64 = 0x7f00_0000_0000;
    const DESCRIPTOR: u64 = 3;
    let map = |at: u64, bytes: u64, protection: libc::c_int, flags: u32, offset: u64| SystemCall {
        name: "mmap",
        number: libc::SYS_mmap,
        arguments: [at, bytes, u64::from(protection.unsigned_abs()), flags.into(), DESCRIPTOR, offset],
    };
    let call =
        |name, number, first, second| SystemCall { name, number, arguments: [first, second, 0, 0, 0, 0] };
    let own = [at + OWN_DATA_AT, OWN_DATA_BYTES];
    [
        call("memfd_create", libc::SYS_memfd_create, ADDRESS, MFD_CLOEXEC.into()),
        call("ftruncate", libc::SYS_ftruncate, DESCRIPTOR, FILE_BYTES),
        map(at, code_bytes, CODE, OF_FILE, 0),
        map(at + DATA_AT, FILE_DATA_BYTES, DATA, OF_FILE, DATA_AT),
        map(own[0], own[1], DATA, OF_ITS_OWN, 0),
        SystemCall {
            name: "madvise",
            number: libc::SYS_madvise,
            arguments: [own[0], own[1], MADV_WIPEONFORK.into(), 0, 0, 0],
        },
        call("close", libc::SYS_close, DESCRIPTOR, 0),
    ]
}

/// Most bytes of a stub.
pub(super) const MOST_BYTES: usize = 256;

/// Protection of the parts.
const CODE: libc::c_int = libc::PROT_READ | libc::PROT_EXEC;
const DATA: libc::c_int = libc::PROT_READ | libc::PROT_WRITE;
/// MAP_PRIVATE | MAP_FIXED_NOREPLACE, and the same with MAP_ANONYMOUS.
const OF_FILE: u32 = 0x10_0002;
const OF_ITS_OWN: u32 = OF_FILE | 0x20;
const MADV_WIPEONFORK: u8 = 18;
const MFD_CLOEXEC: u32 = 1;

/// The stub that maps the sampler with `code_bytes` of code at `at`, and returns to `back`. It can be anywhere.
pub(super) fn code(at: u64, code_bytes: u64, back: u64) -> Vec<u8> {
    let mut code = StubCode(Vec::with_capacity(MOST_BYTES));
    // lea -128(%rsp),%rsp: what is below may be in use, too.
    code.add(&[0x48, 0x8d, 0x64, 0x24, 0x80]);
    // push back(%rip); the distance is filled in below.
    code.add(&[0xff, 0x35]);
    let to_back = code.distance();
    // pushf; push %rax %rcx %rdx %rsi %rdi %r8 %r9 %r10 %r11
    code.add(&[0x9c, 0x50, 0x51, 0x52, 0x56, 0x57, 0x41, 0x50, 0x41, 0x51, 0x41, 0x52, 0x41, 0x53]);
    // memfd_create(name, MFD_CLOEXEC): lea name(%rip),%rdi
    code.add(&[0x48, 0x8d, 0x3d]);
    let to_name = code.distance();
    code.esi(MFD_CLOEXEC);
    code.call(libc::SYS_memfd_create);
    // movslq %eax,%r8; mov %eax,%edi
    code.add(&[0x4c, 0x63, 0xc0, 0x89, 0xc7]);
    code.esi(FILE_BYTES as u32);
    code.call(libc::SYS_ftruncate);
    code.map(at, code_bytes as u32, CODE, OF_FILE, 0);
    code.map(at + DATA_AT, FILE_DATA_BYTES as u32, DATA, OF_FILE, DATA_AT as u32);
    code.map(at + OWN_DATA_AT, OWN_DATA_BYTES as u32, DATA, OF_ITS_OWN, 0);
    // madvise(%rax, %rsi, MADV_WIPEONFORK), or of nothing if it is not mapped: mov %rax,%rdi
    code.add(&[0x48, 0x89, 0xc7]);
    code.edx(MADV_WIPEONFORK);
    code.call(libc::SYS_madvise);
    // mov %r8d,%edi
    code.add(&[0x44, 0x89, 0xc7]);
    code.call(libc::SYS_close);
    // pop %r11 %r10 %r9 %r8 %rdi %rsi %rdx %rcx %rax; popf; ret $128
    code.add(&[0x41, 0x5b, 0x41, 0x5a, 0x41, 0x59, 0x41, 0x58, 0x5f, 0x5e, 0x5a, 0x59, 0x58, 0x9d]);
    code.add(&[0xc2, 0x80, 0x00]);
    code.fill(to_back);
    code.add(&back.to_le_bytes());
    code.fill(to_name);
    code.add(FILE_NAME.as_bytes());
    code.add(&[0]);
    code.0
}

struct StubCode(Vec<u8>);

impl StubCode {
    fn add(&mut self, bytes: &[u8]) {
        self.0.extend(bytes);
    }

    /// Leaves four bytes for a distance; returns where.
    fn distance(&mut self) -> usize {
        self.add(&[0; 4]);
        self.0.len() - 4
    }

    /// Fills in a distance to here.
    fn fill(&mut self, at: usize) {
        let distance = (self.0.len() - at - 4) as u32;
        self.0[at..at + 4].copy_from_slice(&distance.to_le_bytes());
    }

    /// mov $value,%esi
    fn esi(&mut self, value: u32) {
        self.add(&[0xbe]);
        self.add(&value.to_le_bytes());
    }

    /// mov $number,%eax; syscall
    fn call(&mut self, number: libc::c_long) {
        self.add(&[0xb8]);
        self.add(&(number as u32).to_le_bytes());
        self.add(&[0x0f, 0x05]);
    }

    /// push $value; pop %rdx
    fn edx(&mut self, value: u8) {
        self.add(&[0x6a, value, 0x5a]);
    }

    /// mmap(address, bytes, protection, flags, %r8, offset)
    fn map(&mut self, address: u64, bytes: u32, protection: i32, flags: u32, offset: u32) {
        // mov $address,%rdi
        self.add(&[0x48, 0xbf]);
        self.add(&address.to_le_bytes());
        self.esi(bytes);
        self.edx(protection as u8);
        // mov $flags,%r10d; mov $offset,%r9d
        self.add(&[0x41, 0xba]);
        self.add(&flags.to_le_bytes());
        self.add(&[0x41, 0xb9]);
        self.add(&offset.to_le_bytes());
        self.call(libc::SYS_mmap);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use iced_x86::{Decoder, DecoderOptions, FlowControl, Mnemonic};

    #[test]
    fn the_stub_gives_back_what_it_took_and_returns() {
        let back = 0x7f12_3456_7890;
        let code = code(0x7f00_0000_0000, 0x4000, back);
        assert!(code.len() <= MOST_BYTES);
        let mut decoder = Decoder::with_ip(64, &code, 0x1000, DecoderOptions::NONE);
        let (mut depth, mut calls) = (0, 0);
        loop {
            let instruction = decoder.decode();
            assert!(!instruction.is_invalid());
            depth += match instruction.mnemonic() {
                Mnemonic::Push | Mnemonic::Pushfq => 1,
                Mnemonic::Pop | Mnemonic::Popfq => -1,
                _ => 0,
            };
            calls += usize::from(instruction.mnemonic() == Mnemonic::Syscall);
            if instruction.mnemonic() == Mnemonic::Push && instruction.is_ip_rel_memory_operand() {
                let at = (instruction.ip_rel_memory_address() - 0x1000) as usize;
                assert_eq!(code[at..at + 8], back.to_le_bytes());
            }
            if instruction.flow_control() == FlowControl::Return {
                assert_eq!(instruction.immediate16(), 128);
                break;
            }
        }
        assert_eq!((depth, calls), (1, CALLS), "the return takes the last one");
    }
}
