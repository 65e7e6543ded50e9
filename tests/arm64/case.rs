//! Recorded stacks. README.md here describes the format, record.sh makes them.

use std::collections::BTreeMap;
use std::path::Path;

use prof::internals::unwind::Aarch64Registers;
use prof::internals::unwind::{
    ElfImage, Limits, MappedModule, Memory, MemoryError, ModuleCode, ModuleMap, Table, compile,
};

/// Where the cases and their modules are.
pub(crate) fn directory() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/arm64"))
}

/// The modules of a case, with the tables that are compiled from them.
#[derive(Debug, Default)]
pub(crate) struct Modules(pub(crate) Vec<Module>);

#[derive(Debug)]
pub(crate) struct Module {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) bias: u64,
    pub(crate) table: Table,
}

impl Modules {
    fn add(&mut self, image: &ElfImage, bias: u64) {
        let table = compile(image, &Limits::default()).unwrap();
        for segment in image.segments().iter().filter(|segment| segment.is_executable) {
            let start = segment.address.wrapping_add(bias);
            self.0.push(Module { start, end: start + segment.memory_size, bias, table: table.clone() });
        }
    }
}

impl ModuleMap for Modules {
    fn find(&self, address: u64) -> Option<MappedModule<'_>> {
        let module = self.0.iter().find(|module| (module.start..module.end).contains(&address))?;
        Some(MappedModule { bias: module.bias, code: ModuleCode::Table(&module.table) })
    }
}

/// Stack memory: zones that can be read, zero where nothing else was recorded.
#[derive(Debug, Default, Clone)]
pub(crate) struct StackMemory {
    pub(crate) zones: Vec<(u64, u64)>,
    pub(crate) words: BTreeMap<u64, u64>,
}

impl Memory for StackMemory {
    fn read(&self, address: u64) -> Result<u64, MemoryError> {
        let is_in = |zone: &&(u64, u64)| zone.0 <= address && address.saturating_add(8) <= zone.1;
        if !address.is_multiple_of(8) || !self.zones.iter().any(|zone| is_in(&zone)) {
            return Err(MemoryError::Unreadable);
        }
        Ok(self.words.get(&address).copied().unwrap_or(0))
    }
}

/// One stop of the program.
#[derive(Debug)]
pub(crate) struct Stop<'a> {
    pub(crate) registers: Aarch64Registers,
    pub(crate) memory: &'a StackMemory,
    /// gdb's frames, leaf first.
    pub(crate) frames: Vec<u64>,
    /// The line of the file, for messages.
    pub(crate) line: usize,
}

/// Reads a case and visits its stops in order.
pub(crate) fn visit_stops(name: &str, signature_mask: u64, mut visit: impl FnMut(&Modules, &Stop<'_>)) {
    let text = std::fs::read_to_string(directory().join("cases").join(name)).unwrap();
    let mut modules = Modules::default();
    let mut memory = StackMemory::default();
    let mut registers = Aarch64Registers { general: [0; 32], pc: 0, signature_mask };
    let mut callers = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let words: Vec<&str> = line.split(' ').collect();
        let hex = |at: usize| u64::from_str_radix(words[at], 16).unwrap();
        match words[0] {
            "module" => modules.add(&module(words[2]), hex(1)),
            // A `nop` before it, as in the kernel's vdso: handlers' return addresses are looked up there.
            "code" => modules.add(&bare_code(&format!("1f2003d5{}", words[2])), hex(1) - 4),
            "zone" => memory.zones.push((hex(1), hex(2))),
            "m" => {
                memory.words.insert(hex(1), hex(2));
            }
            "r" => match words[1].parse().unwrap() {
                32 => registers.pc = hex(2),
                number => registers.general[number as usize] = hex(2),
            },
            "callers" => {
                callers = words[1..].iter().map(|word| u64::from_str_radix(word, 16).unwrap()).collect();
            }
            "stop" => {
                let frames = [registers.pc].into_iter().chain(callers.iter().copied()).collect();
                visit(&modules, &Stop { registers, memory: &memory, frames, line: index + 1 });
            }
            other => panic!("{name}:{}: `{other}`", index + 1),
        }
    }
}

/// An ELF file, zeroed where unwinding does not look.
fn module(name: &str) -> ElfImage {
    let file = std::fs::File::open(directory().join("modules").join(format!("{name}.zst"))).unwrap();
    ElfImage::parse(zstd::decode_all(file).unwrap(), &Limits::default().elf).unwrap()
}

/// An ELF file of one page whose code starts with the given bytes, for addresses from 0 on.
fn bare_code(hex: &str) -> ElfImage {
    let code: Vec<u8> =
        (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap()).collect();
    let mut bytes = vec![0; 64 + 56];
    bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    bytes[16] = 3;
    bytes[18] = 183;
    bytes[32] = 64; // program headers
    bytes[54] = 56;
    bytes[56] = 1;
    bytes[64] = 1; // PT_LOAD
    bytes[68] = 5; // readable and executable
    bytes[72] = 120; // file offset
    bytes[96..104].copy_from_slice(&(code.len() as u64).to_le_bytes());
    bytes[104..112].copy_from_slice(&4096u64.to_le_bytes());
    bytes.extend(code);
    ElfImage::parse(bytes, &Limits::default().elf).unwrap()
}
