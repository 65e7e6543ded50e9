//! A stopped process to record a case from: its registers, mappings, tables and memory.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use object::{Object, ObjectSymbol, SymbolKind};
use prof::internals::unwind::{
    CfiSections, ElfImage, FrameState, Limits, MappedModule, Memory, MemoryError, ModuleCode, ModuleMap,
    Registers, Table, compile,
};

pub(crate) struct Module {
    pub(crate) path: PathBuf,
    pub(crate) table: Table,
    cfi: CfiSections,
    symbols: BTreeMap<u64, String>,
}

pub(crate) struct Area {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) bias: u64,
    /// Index into the modules; `None` for code without a file.
    pub(crate) module: Option<usize>,
}

pub(crate) struct Process {
    pub(crate) modules: Vec<Module>,
    /// Executable mappings in ascending order.
    pub(crate) code: Vec<Area>,
    memory: File,
    /// Every word that a walk has read, and its address.
    pub(crate) words: RefCell<BTreeMap<u64, u64>>,
}

impl Process {
    pub(crate) fn read(pid: u32) -> Self {
        let limits = Limits::default();
        let maps = std::fs::read_to_string(format!("/proc/{pid}/maps")).unwrap();
        let memory = File::open(format!("/proc/{pid}/mem")).unwrap();
        let mut process = Self { modules: Vec::new(), code: Vec::new(), memory, words: RefCell::default() };
        for line in maps.lines() {
            let fields: Vec<&str> = line.split_whitespace().collect();
            if !fields[1].contains('x') || line.ends_with("[vsyscall]") {
                continue;
            }
            let hex = |field| u64::from_str_radix(field, 16).unwrap();
            let (start, end) = fields[0].split_once('-').unwrap();
            let (start, end) = (hex(start), hex(end));
            let path = fields.get(5).copied().unwrap_or_default();
            let image = if path.starts_with('/') {
                ElfImage::open(&File::open(path).unwrap(), &limits.elf).unwrap()
            } else if path == "[vdso]" {
                let mut bytes = vec![0; (end - start) as usize];
                process.memory.read_exact_at(&mut bytes, start).unwrap();
                ElfImage::parse(bytes, &limits.elf).unwrap()
            } else {
                process.code.push(Area { start, end, bias: 0, module: None });
                continue;
            };
            let bias = image.bias_of_mapping(start, end, hex(fields[2])).unwrap();
            let known = process.modules.iter().position(|module| module.path == Path::new(path));
            let module = known.unwrap_or_else(|| {
                process.modules.push(Module {
                    path: path.into(),
                    table: compile(&image, &limits).unwrap(),
                    cfi: CfiSections::load(&image).unwrap(),
                    symbols: symbols(Path::new(path)),
                });
                process.modules.len() - 1
            });
            process.code.push(Area { start, end, bias, module: Some(module) });
        }
        process
    }

    fn area(&self, address: u64) -> Option<&Area> {
        self.code.iter().find(|area| (area.start..area.end).contains(&address))
    }

    /// The module at an address, and the module's own address there.
    pub(crate) fn locate(&self, address: u64) -> Option<(usize, u64)> {
        let area = self.area(address)?;
        Some((area.module?, address.wrapping_sub(area.bias)))
    }

    /// The function at an address, without anything that a space would end.
    pub(crate) fn name(&self, address: u64) -> String {
        let Some((module, own)) = self.locate(address) else { return "?".into() };
        let symbol = self.modules[module].symbols.range(..=own).next_back();
        symbol.map_or("?".into(), |(_, name)| name.replace(char::is_whitespace, "_"))
    }

    pub(crate) fn is_readable(&self, page: u64) -> bool {
        self.memory.read_exact_at(&mut [0; 4096], page).is_ok()
    }
}

fn symbols(path: &Path) -> BTreeMap<u64, String> {
    let Ok(bytes) = std::fs::read(path) else { return BTreeMap::new() };
    let object = object::File::parse(&bytes[..]).unwrap();
    let defined = object.dynamic_symbols().chain(object.symbols());
    defined
        .filter(|symbol| {
            symbol.is_definition() && [SymbolKind::Text, SymbolKind::Unknown].contains(&symbol.kind())
        })
        .map(|symbol| (symbol.address(), symbol.name().unwrap_or_default().to_owned()))
        .collect()
}

impl ModuleMap for Process {
    fn find(&self, address: u64) -> Option<MappedModule<'_>> {
        let area = self.area(address)?;
        let code =
            area.module.map_or(ModuleCode::Jit, |module| ModuleCode::Table(&self.modules[module].table));
        Some(MappedModule { bias: area.bias, code })
    }

    fn cfi(&self, address: u64) -> Option<&CfiSections> {
        Some(&self.modules[self.area(address)?.module?].cfi)
    }
}

impl Memory for Process {
    fn read(&self, address: u64) -> Result<u64, MemoryError> {
        let mut bytes = [0; 8];
        self.memory.read_exact_at(&mut bytes, address).map_err(|_| MemoryError::Unreadable)?;
        let word = u64::from_le_bytes(bytes);
        self.words.borrow_mut().insert(address, word);
        Ok(word)
    }
}

/// A thread that is stopped by ptrace.
pub(crate) struct Stopped {
    pid: libc::pid_t,
    pub(crate) state: FrameState,
    pub(crate) registers: Registers,
}

impl Stopped {
    pub(crate) fn stop(pid: u32) -> Self {
        let pid = pid as libc::pid_t;
        // SAFETY: neither request takes a pointer; `pid` is a child of this process.
        let is_asked = unsafe {
            libc::ptrace(libc::PTRACE_SEIZE, pid, 0, 0) == 0
                && libc::ptrace(libc::PTRACE_INTERRUPT, pid, 0, 0) == 0
        };
        assert!(is_asked, "ptrace: {}", std::io::Error::last_os_error());
        Self::read(pid)
    }

    /// Lets it run one instruction.
    pub(crate) fn step(self) -> Self {
        // SAFETY: the request takes no pointer.
        unsafe { libc::ptrace(libc::PTRACE_SINGLESTEP, self.pid, 0, 0) };
        Self::read(self.pid)
    }

    fn read(pid: libc::pid_t) -> Self {
        let mut status = 0;
        // SAFETY: `status` outlives the call.
        unsafe { libc::waitpid(pid, &mut status, libc::__WALL) };
        // SAFETY: `user_regs_struct` is plain numbers, for which zero is a value.
        let mut regs: libc::user_regs_struct = unsafe { std::mem::zeroed() };
        // SAFETY: the kernel fills `regs`, which has the type that PTRACE_GETREGS writes.
        let read = unsafe { libc::ptrace(libc::PTRACE_GETREGS, pid, 0, &mut regs) };
        assert_eq!(read, 0, "registers: {}", std::io::Error::last_os_error());
        let general = [
            regs.rax, regs.rdx, regs.rcx, regs.rbx, regs.rsi, regs.rdi, regs.rbp, regs.rsp, regs.r8, regs.r9,
            regs.r10, regs.r11, regs.r12, regs.r13, regs.r14, regs.r15,
        ];
        let registers = Registers { general, rip: regs.rip };
        let is_in_system_call = regs.orig_rax != u64::MAX;
        let state = if is_in_system_call {
            FrameState::in_system_call(&registers)
        } else {
            FrameState::interrupted(&registers)
        };
        let state = FrameState { thread_pointer: Some(regs.fs_base), ..state };
        Self { pid, state, registers }
    }

    /// Lets go of it. It stays where it is (for a debugger to attach to) if it `stays`.
    pub(crate) fn release(self, stays: bool) {
        if stays {
            // SAFETY: `pid` is a child of this process. It takes no instruction before it takes the signal.
            unsafe { libc::kill(self.pid, libc::SIGSTOP) };
        }
        // SAFETY: PTRACE_DETACH takes a number here.
        unsafe { libc::ptrace(libc::PTRACE_DETACH, self.pid, 0, 0) };
    }
}
