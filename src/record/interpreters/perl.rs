//! Perl as one of the languages.

use super::function_names::RunFunction;
use super::language::{
    CodeLines, Language, LanguageFile, LoopCode, ReadCode, RuntimeCode, RuntimeModule, SideFrame, SideStack,
};
use super::merge::ListHabits;
use crate::bpf::{REGISTERS, number, prof_perl, prof_runtime};
use crate::runtimes::perl::{
    OpTables, PerlCode, PerlFrame, PerlLayout, PerlLocator, check, frames, kind_name, loop_ranges,
};
use crate::runtimes::{RuntimeProblem, TargetMemory};
use rustc_hash::FxHashMap;
use std::ops::Range;
use std::sync::Arc;

/// The tables of ops: their names, and the functions that run them.
const OP_NAMES: &str = "PL_op_name";
const OP_FUNCTIONS: &str = "PL_ppaddr";
/// Bytes of these tables that are looked at.
const TABLE_BYTES: u64 = 8 * 600;
/// Largest section of relocations that is read.
const MOST_RELOCATION_BYTES: u64 = 8 << 20;

/// How its files are recognized.
pub(super) static FILE: LanguageFile = LanguageFile {
    kind: number::PROF_RUNTIME_PERL,
    exports: &["Perl_runops_standard", "PL_curinterp", OP_FUNCTIONS],
    loops,
    find,
};

/// An interpreter of a process.
#[derive(Debug)]
struct Perl {
    layout: PerlLayout,
    descriptor: prof_runtime,
}

fn loops(code: &RuntimeCode<'_>) -> LoopCode {
    LoopCode { entries: functions_that_run_ops(code), inner: Vec::new() }
}

fn functions_that_run_ops(code: &RuntimeCode<'_>) -> Vec<Range<u64>> {
    let Some((names, functions)) = code.elf.exported(OP_NAMES).zip(code.elf.exported(OP_FUNCTIONS)) else {
        return Vec::new();
    };
    let (names, functions) = (names.address, functions.address);
    let moved = relocations(code, [names, functions]);
    let in_file = |address| Some(u64::from_le_bytes(code.read(address, 8)?.try_into().ok()?));
    let tables = OpTables {
        names,
        functions,
        word: &|address| moved.get(&address).copied().or_else(|| in_file(address)),
        bytes: &|address| code.read(address, 16)?.try_into().ok(),
    };
    loop_ranges(
        &|name| code.exported_function(name),
        &tables,
        &|address| code.function_at(address),
        &|address, size| code.read(address, size),
    )
}

/// What the dynamic linker puts into two tables of a file, by the module's own addresses.
fn relocations(code: &RuntimeCode<'_>, tables: [u64; 2]) -> FxHashMap<u64, u64> {
    let is_wanted = |place: u64| {
        tables.into_iter().any(|table| place.checked_sub(table).is_some_and(|offset| offset < TABLE_BYTES))
    };
    let section = code.elf.section(b".rela.dyn").map(|section| section.range());
    let size = section.clone().map_or(0, |range| range.end.saturating_sub(range.start));
    let bytes =
        section.filter(|_| size <= MOST_RELOCATION_BYTES).and_then(|range| code.read(range.start, size));
    let word = |entry: &[u8; 24], at: usize| {
        entry.iter().skip(at).take(8).rev().fold(0, |word, byte| word << 8 | u64::from(*byte))
    };
    let bytes = bytes.unwrap_or_default();
    let entries = bytes.as_chunks::<24>().0;
    let places = entries.iter().map(|entry| (word(entry, 0), word(entry, 16)));
    places.filter(|(place, _)| is_wanted(*place)).collect()
}

fn find(memory: &dyn TargetMemory, module: &RuntimeModule<'_>) -> Result<Arc<dyn Language>, RuntimeProblem> {
    let layout = PerlLayout::find(&memory, &|name| module.symbol(name), module.path)?;
    let descriptor = descriptor(&layout);
    Ok(Arc::new(Perl { layout, descriptor }))
}

impl Language for Perl {
    fn runtime(&self) -> String {
        self.layout.version.runtime()
    }

    fn source(&self) -> String {
        format!("perl {}: offsets from {}", self.layout.version, self.layout.source)
    }

    fn descriptor(&self) -> prof_runtime {
        self.descriptor
    }

    fn stack(&self, memory: &dyn TargetMemory, state: u64, _registers: &[u64; REGISTERS]) -> SideStack {
        let stack = frames(&memory, &self.layout, state);
        let frame = |PerlFrame { code, line, is_entry }: PerlFrame| SideFrame {
            code,
            position: line,
            is_entry,
            is_brief: false,
        };
        SideStack::of(stack.frames.into_iter().map(frame), stack.is_complete)
    }

    fn check(&self, memory: &dyn TargetMemory, code: u64) -> Option<u32> {
        check(&memory, &self.layout, code)
    }

    fn read(&self, memory: &dyn TargetMemory, code: u64) -> Option<ReadCode> {
        let PerlCode { name, file, first_line } = PerlCode::read(&memory, &self.layout, code)?;
        let function = RunFunction { name, file, first_line, is_inlined: false };
        Some(ReadCode { function, is_shown: true, lines: Arc::new(PerlLines { first_line }) })
    }

    fn unread(&self, code: u64) -> Option<ReadCode> {
        let function = RunFunction {
            name: kind_name(code)?.to_owned(),
            file: String::new(),
            first_line: 0,
            is_inlined: false,
        };
        Some(ReadCode { function, is_shown: true, lines: Arc::new(PerlLines { first_line: 0 }) })
    }

    fn habits(&self) -> ListHabits {
        ListHabits { enters_by_c_blocks: true, ..ListHabits::default() }
    }
}

/// The kernel side sends lines, and none where a sub has not begun with its first statement.
#[derive(Debug)]
struct PerlLines {
    first_line: u32,
}

impl CodeLines for PerlLines {
    fn line(&self, _code: u64, position: u32) -> u32 {
        match position {
            0 => self.first_line,
            u32::MAX => 0,
            line => line,
        }
    }
}

/// What the kernel side has to know of a layout.
fn descriptor(layout: &PerlLayout) -> prof_runtime {
    let (locator, locator_off, statement) = match layout.locator {
        PerlLocator::Key { slot } => (number::PROF_LOCATOR_THREAD, i64::from(slot), 0),
        PerlLocator::Process { stack, statement } => {
            (number::PROF_LOCATOR_PROCESS, stack.cast_signed(), statement)
        }
    };
    let shape = layout.shape;
    let perl = prof_perl {
        statement,
        stack_off: layout.stack,
        statement_off: layout.statement,
        blocks_off: shape.blocks,
        outer_off: shape.outer,
        last_off: shape.last,
        stack_type_off: shape.stack_type,
        block_bytes: shape.block_bytes,
        old_statement_off: shape.old_statement,
        return_off: shape.return_op,
        sub_off: shape.sub,
        required_off: shape.required,
        line_off: shape.line,
        file_off: shape.file,
        sub_type: shape.sub_type,
        block_type: shape.block_type,
        defer_type: shape.defer_type,
        try_flag: shape.try_flag,
        is_file_glob: u8::from(layout.is_file_glob),
        is_stash_wide: u8::from(shape.is_stash_wide),
        ..prof_perl::default()
    };
    prof_runtime {
        kind: number::PROF_RUNTIME_PERL as u8,
        locator: locator as u8,
        locator_off,
        perl,
        ..prof_runtime::default()
    }
}
