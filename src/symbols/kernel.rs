//! Kernel symbols: the lines of `/proc/kallsyms`.
//!
//! A line is `ADDRESS TYPE NAME` with an optional `[MODULE]` after a tab; BPF programs have module `bpf`.
//! There are no sizes. A function reaches to the next symbol of any kind, data too; before a border (the end of the
//! kernel's text, another module) it reaches a few pages at most, because the list does not say what follows the last
//! function of a module.

use super::error::SymbolError;
use super::limits::NamingLimits;
use super::limits::cut_text;
use super::lines::read_line;
use rustc_hash::FxHashMap;
use std::cell::Cell;
use std::fs::File;
use std::io::{BufRead, BufReader};

/// Largest length of the last function before a border, bytes.
const MAX_LAST_FUNCTION_BYTES: u64 = 16 << 10;
/// Largest length of a function outside of the kernel proper, bytes: trampolines without a symbol lie
/// between modules and BPF programs.
const MAX_MODULE_FUNCTION_BYTES: u64 = 256 << 10;
/// Length in bytes to which lines are cut. The kernel's own names have up to 512.
const MAX_LINE_BYTES: usize = 1 << 10;
/// Addresses below this are not kernel code but per-CPU offsets and absolute symbols.
const LOWEST_KERNEL_ADDRESS: u64 = 1 << 63;

/// A kernel function at an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KernelSymbol<'a> {
    /// Name as the kernel has it.
    pub(crate) name: &'a str,
    /// The module with its brackets: `[nf_tables]`, `[bpf]`. `None` for the kernel itself.
    pub(crate) module: Option<&'a str>,
    /// Address of the function's first byte.
    pub(crate) address: u64,
}

/// One listed address.
#[derive(Debug, Clone, Copy)]
struct KernelRow {
    address: u64,
    /// First byte of the name in `names`.
    name: u32,
    /// Length of the name, bytes; 0 for data, which only ends the symbol before it.
    name_len: u16,
    /// Index in `modules`; 0 is the kernel itself.
    module: u16,
}

/// The functions of a running kernel.
#[derive(Debug, Clone, Default)]
pub(crate) struct KernelSymbols {
    /// Sorted by address, one row each.
    rows: Vec<KernelRow>,
    names: String,
    modules: Vec<String>,
    stext: Option<u64>,
    /// `_stext.._etext` and `_sinittext.._einittext`; empty when the list lacks these symbols.
    core_text: Vec<std::ops::Range<u64>>,
    scheduler_text: Option<std::ops::Range<u64>>,
    recent: Recent,
}

/// A cache of the last lookups: a recording meets the same few hundred addresses again and again.
#[derive(Debug, Clone, Default)]
struct Recent {
    /// Address, and the number of rows that begin at or below it.
    slots: Vec<Cell<(u64, u32)>>,
}

impl Recent {
    const SLOTS: usize = 1024;

    fn new() -> Self {
        Recent { slots: vec![Cell::new((0, 0)); Self::SLOTS] }
    }

    /// The cached result for `address`, else that of `find`.
    fn or_find(&self, address: u64, find: impl FnOnce() -> usize) -> usize {
        // 2^64 divided by the golden ratio spreads the upper bits; the top ten select the slot.
        let slot = (address.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 54) as usize;
        match self.slots.get(slot) {
            Some(slot) if slot.get().0 == address => slot.get().1 as usize,
            Some(slot) => {
                let found = find();
                slot.set((address, found as u32));
                found
            }
            None => find(),
        }
    }
}

impl KernelSymbols {
    /// Reads `/proc/kallsyms`.
    /// # Errors
    /// Returns [`SymbolError::KernelRestricted`] when addresses are hidden from this process, else the same as
    /// [`KernelSymbols::parse`].
    pub(crate) fn load() -> Result<Self, SymbolError> {
        Self::load_from(Self::open()?)
    }

    /// Opens `/proc/kallsyms`: the addresses shown depend on the rights of the process that opens it, not of the one
    /// that reads it.
    ///
    /// # Errors
    /// Fails when it cannot be opened.
    pub(crate) fn open() -> std::io::Result<File> {
        File::open("/proc/kallsyms")
    }

    /// Reads the symbols from an opened `/proc/kallsyms`.
    ///
    /// # Errors
    /// The same as for [`KernelSymbols::load`].
    pub(crate) fn load_from(file: File) -> Result<Self, SymbolError> {
        Self::parse(BufReader::with_capacity(1 << 18, file), &NamingLimits::default())
    }

    /// Reads lines in the format of `/proc/kallsyms`. Malformed lines are skipped.
    ///
    /// # Errors
    /// Fails when reading fails, when no kernel address is listed, when all are zero, and when there are more than
    /// [`NamingLimits::max_symbols`].
    pub(crate) fn parse(mut reader: impl BufRead, limits: &NamingLimits) -> Result<Self, SymbolError> {
        let mut builder = KernelBuilder::default();
        let mut line = Vec::new();
        while read_line(&mut reader, &mut line, MAX_LINE_BYTES)? {
            if let Some(symbol) = KernelLine::parse(&line) {
                builder.add(symbol);
            }
            if builder.found.len() as u64 > limits.max_symbols || builder.names.len() > u32::MAX as usize / 2
            {
                let (size, limit) = (builder.found.len() as u64, limits.max_symbols);
                return Err(SymbolError::TooBig { what: "list of kernel symbols", size, limit });
            }
        }
        builder.finish()
    }

    /// The address range of the functions that every wait goes through (`__sched`): stacks of waiting threads leave
    /// them out, as the kernel's own stacks do.
    pub(crate) fn scheduler_text(&self) -> Option<std::ops::Range<u64>> {
        self.scheduler_text.clone()
    }

    /// Address of the first byte of the kernel's text, by which recordings from the same boot can be matched.
    pub(crate) fn stext(&self) -> Option<u64> {
        self.stext
    }

    /// The lowest known address of a module, named with its brackets, by which addresses in it can be matched.
    pub(crate) fn module_start(&self, name: &str) -> Option<u64> {
        let module = self.modules.iter().skip(1).position(|known| known == name)? + 1;
        self.rows.iter().find(|row| usize::from(row.module) == module).map(|row| row.address)
    }

    /// Number of functions known.
    pub(crate) fn len(&self) -> usize {
        self.rows.iter().filter(|row| row.name_len > 0).count()
    }

    /// The function around `address`; `None` where no listed function can be.
    pub(crate) fn lookup(&self, address: u64) -> Option<KernelSymbol<'_>> {
        let find = || self.rows.partition_point(|row| row.address <= address);
        let after = self.recent.or_find(address, find);
        let row = self.rows.get(after.checked_sub(1)?)?;
        if row.name_len == 0 {
            return None;
        }
        let is_core = row.module == 0;
        if is_core && !self.core_text.is_empty() {
            let text = self.core_text.iter().find(|text| text.contains(&address))?;
            if !text.contains(&row.address) {
                return None;
            }
        }
        let is_bounded = self.rows.get(after).is_some_and(|next| next.module == row.module);
        let reach = match (is_bounded, is_core) {
            (false, _) => MAX_LAST_FUNCTION_BYTES,
            (true, false) => MAX_MODULE_FUNCTION_BYTES,
            (true, true) => u64::MAX,
        };
        if address - row.address >= reach {
            return None;
        }
        let start = row.name as usize;
        let name = self.names.get(start..start + usize::from(row.name_len))?;
        let module = self.modules.get(usize::from(row.module)).map(String::as_str);
        Some(KernelSymbol { name, module: module.filter(|_| !is_core), address: row.address })
    }
}

/// The fields of a line.
#[derive(Debug, Clone, Copy)]
struct KernelLine<'a> {
    address: u64,
    kind: u8,
    name: &'a str,
    /// Module name without brackets.
    module: Option<&'a str>,
}

impl<'a> KernelLine<'a> {
    fn parse(line: &'a [u8]) -> Option<Self> {
        let line = std::str::from_utf8(line).ok()?;
        let mut fields = line.split_ascii_whitespace();
        let address = u64::from_str_radix(fields.next()?, 16).ok()?;
        let &[kind] = fields.next()?.as_bytes() else { return None };
        let name = fields.next()?;
        let module = fields.next().and_then(|field| field.strip_prefix('[')?.strip_suffix(']'));
        Some(KernelLine { address, kind, name, module })
    }
}

/// A row, before the best symbol of each address is chosen.
#[derive(Debug, Clone, Copy)]
struct FoundSymbol {
    row: KernelRow,
    /// Preference, lower is better: function before data, then global, weak, local.
    rank: u8,
}

#[derive(Debug, Default)]
struct KernelBuilder {
    found: Vec<FoundSymbol>,
    names: String,
    modules: Vec<String>,
    module_ids: FxHashMap<String, u16>,
    saw_any: bool,
    marks: FxHashMap<&'static str, u64>,
}

/// Symbols that are looked up by name.
const MARKS: [&str; 7] =
    ["_text", "_stext", "_etext", "_sinittext", "_einittext", "__sched_text_start", "__sched_text_end"];

impl KernelBuilder {
    fn add(&mut self, line: KernelLine<'_>) {
        self.saw_any = true;
        if line.address < LOWEST_KERNEL_ADDRESS {
            return;
        }
        if line.module.is_none()
            && let Some(mark) = MARKS.iter().find(|&&mark| mark == line.name)
        {
            self.marks.entry(mark).or_insert(line.address);
        }
        let rank = match line.kind {
            b'T' => 0,
            b'W' | b'w' => 1,
            b't' => 2,
            _ => 3,
        };
        let text = cut_text(line.name, if rank < 3 { usize::from(u16::MAX) } else { 0 });
        let (name, name_len) = (self.names.len() as u32, text.len() as u16);
        self.names.push_str(text);
        let module = line.module.map_or(0, |module| self.module(module));
        self.found
            .push(FoundSymbol { row: KernelRow { address: line.address, name, name_len, module }, rank });
    }

    /// Index of a module, counted from 1.
    fn module(&mut self, module: &str) -> u16 {
        if let Some(&id) = self.module_ids.get(module) {
            return id;
        }
        if self.modules.is_empty() {
            self.modules.push("[kernel]".to_owned());
        }
        // A kernel has hundreds of modules. If a forged list has more, the rest are counted as the last one.
        let Ok(id) = u16::try_from(self.modules.len()) else { return u16::MAX };
        self.modules.push(format!("[{module}]"));
        self.module_ids.insert(module.to_owned(), id);
        id
    }

    fn finish(self) -> Result<KernelSymbols, SymbolError> {
        let KernelBuilder { mut found, names, modules, saw_any, marks, .. } = self;
        if found.is_empty() {
            return Err(if saw_any { SymbolError::KernelRestricted } else { SymbolError::NoKernelSymbols });
        }
        let name_of = |row: &KernelRow| {
            let start = row.name as usize;
            names.get(start..start + usize::from(row.name_len)).unwrap_or_default()
        };
        let underscores = |name: &str| name.bytes().take_while(|&byte| byte == b'_').count();
        found.sort_by(|a, b| {
            let (a_name, b_name) = (name_of(&a.row), name_of(&b.row));
            (a.row.address, a.rank, underscores(a_name), a_name.len(), a_name, a.row.module).cmp(&(
                b.row.address,
                b.rank,
                underscores(b_name),
                b_name.len(),
                b_name,
                b.row.module,
            ))
        });
        found.dedup_by_key(|found| found.row.address);
        let range = |start, end| Some(*marks.get(start)?..*marks.get(end)?);
        let scheduler_text = range("__sched_text_start", "__sched_text_end");
        let core_text = [range("_stext", "_etext"), range("_sinittext", "_einittext")];
        Ok(KernelSymbols {
            recent: Recent::new(),
            rows: found.into_iter().map(|found| found.row).collect(),
            names,
            modules,
            stext: marks.get("_stext").or(marks.get("_text")).copied(),
            scheduler_text,
            core_text: core_text.into_iter().flatten().filter(|range| !range.is_empty()).collect(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LIST: &str = "\
0000000000000000 A fixed_percpu_data
ffffffff81000000 T _text
ffffffff81000000 T _stext
ffffffff81000010 t do_one
ffffffff81000010 T __do_one_alias
ffffffff81000010 W _do_one_weak
ffffffff81000040 T do_two
ffffffff81000080 T do_last
ffffffff81000090 T _etext
ffffffff81200000 D some_data
ffffffff81300000 T _sinittext
ffffffff81300010 t early_setup
ffffffff81300100 T _einittext
ffffffffc0000000 t nft_open\t[nf_tables]
ffffffffc0000100 T nft_walk\t[nf_tables]
ffffffffc0000300 d nft_table\t[nf_tables]
ffffffffc0010000 t ext4_read\t[ext4]
ffffffffc0020000 t bpf_prog_6deef7357e7b4530_tick\t[bpf]
";

    fn parse(list: &str) -> Result<KernelSymbols, SymbolError> {
        KernelSymbols::parse(list.as_bytes(), &NamingLimits::default())
    }

    fn name(symbols: &KernelSymbols, address: u64) -> Option<(&str, Option<&str>)> {
        symbols.lookup(address).map(|symbol| (symbol.name, symbol.module))
    }

    #[test]
    fn a_module_starts_at_its_lowest_function() {
        let symbols = KernelSymbols::parse(LIST.as_bytes(), &NamingLimits::default()).unwrap();
        assert_eq!(symbols.module_start("[nf_tables]"), Some(0xffff_ffff_c000_0000));
        assert_eq!(symbols.module_start("[other]"), None);
    }

    #[test]
    fn functions_reach_to_the_next_symbol() {
        let symbols = parse(LIST).unwrap();
        let table = [
            (0xffffffff80ffffff, None),
            (0xffffffff81000010, Some(("__do_one_alias", None))),
            (0xffffffff8100003f, Some(("__do_one_alias", None))),
            (0xffffffff81000040, Some(("do_two", None))),
            (0xffffffff8100008f, Some(("do_last", None))),
            // Just past the end of the text.
            (0xffffffff81000090, None),
            (0xffffffff81000091, None),
            (0xffffffff81200004, None),
            (0xffffffff81300020, Some(("early_setup", None))),
            (0xffffffff81300100, None),
            (0xffffffffbfffffff, None),
            (0xffffffffc0000000, Some(("nft_open", Some("[nf_tables]")))),
            (0xffffffffc00002ff, Some(("nft_walk", Some("[nf_tables]")))),
            // Data of the module, and what follows it.
            (0xffffffffc0000300, None),
            (0xffffffffc000ffff, None),
            (0xffffffffc0010fff, Some(("ext4_read", Some("[ext4]")))),
            // The last function of a module does not reach to the next module.
            (0xffffffffc001f000, None),
            (0xffffffffc0020044, Some(("bpf_prog_6deef7357e7b4530_tick", Some("[bpf]")))),
            (0xffffffffc0900000, None),
            (0, None),
            (u64::MAX, None),
        ];
        for (address, expected) in table {
            assert_eq!(name(&symbols, address), expected, "{address:x}");
        }
        assert_eq!(symbols.stext(), Some(0xffffffff81000000));
        assert_eq!(symbols.lookup(0xffffffff81000050).unwrap().address, 0xffffffff81000040);
    }

    #[test]
    fn hidden_addresses_are_told_from_none() {
        let hidden = "0000000000000000 T _stext\n0000000000000000 t do_one\n";
        assert!(matches!(parse(hidden), Err(SymbolError::KernelRestricted)));
        assert!(matches!(parse(hidden), Err(SymbolError::KernelRestricted)));
        assert!(matches!(parse(""), Err(SymbolError::NoKernelSymbols)));
        assert!(matches!(parse("garbage\n\n12 \u{1b}[31m\n"), Err(SymbolError::NoKernelSymbols)));
    }

    #[test]
    fn limits_hold() {
        let limits = NamingLimits { max_symbols: 3, ..NamingLimits::default() };
        assert!(matches!(KernelSymbols::parse(LIST.as_bytes(), &limits), Err(SymbolError::TooBig { .. })));
        let long = format!("ffffffff81000000 T {}\nffffffff81000010 T next\n", "x".repeat(1 << 20));
        assert_eq!(parse(&long).unwrap().lookup(0xffffffff81000018).unwrap().name, "next");
    }

    #[test]
    fn the_running_kernel_names_its_own_start() {
        match KernelSymbols::load() {
            Ok(symbols) => {
                let stext = symbols.stext().unwrap();
                let at_start = symbols.lookup(stext).unwrap();
                assert_eq!((at_start.address, at_start.module), (stext, None));
            }
            Err(error) => eprintln_skip(&error),
        }
    }

    #[allow(clippy::print_stderr)]
    fn eprintln_skip(error: &SymbolError) {
        eprintln!("skipped: {error}");
    }

    proptest! {
        #[test]
        fn any_bytes_are_read_without_panic(bytes in proptest::collection::vec(any::<u8>(), 0..400), at in any::<u64>()) {
            let mut list = LIST.as_bytes().to_vec();
            list.extend_from_slice(&bytes);
            let symbols = KernelSymbols::parse(list.as_slice(), &NamingLimits::default()).unwrap();
            symbols.lookup(at);
        }

        #[test]
        fn a_found_function_starts_at_or_before_the_address(offset in 0_u64..0x2000_0000) {
            let symbols = parse(LIST).unwrap();
            let address = 0xffffffff81000000 + offset;
            if let Some(found) = symbols.lookup(address) {
                prop_assert!(found.address <= address);
                let line = format!("{:x} ", found.address);
                prop_assert!(LIST.lines().any(|l| l.starts_with(&line) && l.contains(found.name)));
            }
        }
    }
}
