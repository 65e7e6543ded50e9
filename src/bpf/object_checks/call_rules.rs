//! What BPF programs may call, by where they run: docs/architecture.md, "What may be called where". Checked on the compiled
//! object, so that no macro, inlined function or compiler hides a call.

use super::instruction::{Instruction, OBJECT};
use object::read::elf::ElfFile64;
use object::{
    Object as _, ObjectSection as _, ObjectSymbol as _, RelocationTarget, SectionIndex, SectionKind,
    SymbolKind,
};
use std::collections::{BTreeMap, BTreeSet, VecDeque};

/// Place where a program runs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Under the scheduler's locks.
    Switch,
    /// At the overflow of a counter: anywhere, under the scheduler's locks as well.
    Overflow,
    /// In the sampling interrupt, which may come while any lock is held.
    Tick,
    /// None of these is held.
    Free,
}

/// Every section with programs.
const PLACES: [(&str, Place); 13] = [
    ("tp_btf/sched_switch", Place::Switch),
    ("tp_btf/sched_waking", Place::Switch),
    ("tp_btf/sched_wakeup_new", Place::Switch),
    ("perf_event", Place::Tick),
    ("tp_btf/sched_exit_tp", Place::Free),
    ("tp_btf/sched_process_exec", Place::Free),
    ("tp_btf/sched_process_free", Place::Free),
    ("tp_btf/task_newtask", Place::Free),
    ("iter/task", Place::Free),
    ("iter.s/task", Place::Free),
    ("uprobe", Place::Free),
    // A tracepoint may be anywhere, under the scheduler's locks as well.
    ("raw_tp", Place::Switch),
    ("syscall", Place::Free),
];

/// Programs that are in another place than the others of their section. A counter may overflow under the scheduler's locks,
/// one of context switches always does.
const PLACES_BY_NAME: [(&str, Place); 3] = [
    ("on_count", Place::Overflow),
    // Before and after all that a system call does.
    ("on_call_begin", Place::Free),
    ("on_call_end", Place::Free),
];

/// Helpers, by the numbers of `include/uapi/linux/bpf.h`.
mod helper {
    pub(super) const RINGBUF_OUTPUT: i32 = 130;
    pub(super) const RINGBUF_RESERVE: i32 = 131;
    pub(super) const RINGBUF_SUBMIT: i32 = 132;
    pub(super) const TASK_STORAGE_GET: i32 = 156;
    pub(super) const FIND_VMA: i32 = 180;
}

/// Helpers that neither allocate, wake nor wait, whatever they are given: map_lookup_elem, ktime_get_ns,
/// get_prandom_u32, get_smp_processor_id, get_current_pid_tgid, get_current_comm, get_stack, probe_read_user,
/// probe_read_kernel, ringbuf_reserve, ringbuf_query, get_current_task_btf, get_attach_cookie, task_pt_regs, loop.
const HARMLESS: [i32; 15] =
    [1, 5, 7, 8, 14, 16, 67, 112, 113, helper::RINGBUF_RESERVE, 134, 158, 174, 175, 181];

const NO_WAKEUP: i64 = 1;
const FORCE_WAKEUP: i64 = 2;

/// Known content of a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    Number(i64),
    /// One of some maps: a bit for each, by its symbol.
    Maps(u128),
    /// A function, by its section and offset.
    Function(At),
    Unknown,
}

/// A place in the code: section and byte offset.
type At = (usize, u64);

/// One call of a helper, with its arguments.
#[derive(Debug)]
struct Call {
    helper: i32,
    arguments: [Value; 5],
}

impl Call {
    /// Why it is not allowed in `place`.
    fn objection(&self, place: Place) -> Option<String> {
        let flags = |argument: usize| self.arguments[argument - 1];
        let is_allowed = match (self.helper, place) {
            (_, Place::Free) => true,
            // Creates nothing.
            (helper::TASK_STORAGE_GET, _) => flags(4) == Value::Number(0),
            (helper::RINGBUF_OUTPUT, Place::Switch | Place::Overflow) => flags(4) == Value::Number(NO_WAKEUP),
            (helper::RINGBUF_SUBMIT, Place::Switch | Place::Overflow) => flags(2) == Value::Number(NO_WAKEUP),
            // Only for counters of page faults (`fault_counters`): the kernel counts those that it may wait in.
            (helper::FIND_VMA, Place::Overflow) => true,
            // The interrupt's wake-ups, of the reader and of who waits for a list of mappings, are put off to one of their own.
            (helper::RINGBUF_OUTPUT | helper::RINGBUF_SUBMIT | helper::FIND_VMA, Place::Tick) => true,
            (helper, _) => HARMLESS.contains(&helper),
        };
        (!is_allowed).then(|| format!("helper {} with {:?}", self.helper, self.arguments))
    }
}

type Elf<'a> = ElfFile64<'a>;

/// The object, for following calls.
struct Code<'a> {
    elf: Elf<'a>,
    /// Symbols that relocations point to, by place.
    targets: BTreeMap<At, object::SymbolIndex>,
}

/// Calls that one function makes.
#[derive(Default)]
struct Function {
    calls: Vec<Call>,
    callees: BTreeSet<At>,
}

type Registers = [Value; 11];

impl<'a> Code<'a> {
    fn read() -> Code<'a> {
        let elf = Elf::parse(OBJECT).unwrap();
        let mut targets = BTreeMap::new();
        for section in elf.sections().filter(|section| section.kind() == SectionKind::Text) {
            for (offset, relocation) in section.relocations() {
                if let RelocationTarget::Symbol(symbol) = relocation.target() {
                    targets.insert((section.index().0, offset), symbol);
                }
            }
        }
        Code { elf, targets }
    }

    /// The functions of a section: name and place.
    fn programs(&self, section: &str) -> Vec<(String, At)> {
        let section =
            self.elf.section_by_name(section).unwrap_or_else(|| panic!("no section {section}")).index();
        let functions = self
            .elf
            .symbols()
            .filter(|symbol| symbol.kind() == SymbolKind::Text && symbol.section_index() == Some(section));
        functions.map(|symbol| (symbol.name().unwrap().to_owned(), (section.0, symbol.address()))).collect()
    }

    /// Returns the target of a reference of the instruction at `place`, whose own number is `addend`.
    fn referred(&self, place: At, addend: u64) -> Option<(object::SymbolIndex, Option<At>)> {
        let symbol = self.elf.symbol_by_index(*self.targets.get(&place)?).unwrap();
        let function = symbol.section_index().filter(|&section| {
            self.elf.section_by_index(section).is_ok_and(|section| section.kind() == SectionKind::Text)
        });
        Some((symbol.index(), function.map(|section| (section.0, symbol.address() + addend))))
    }

    /// Returns the registers after `instruction`; notes what it calls.
    fn step(
        &self,
        place: At,
        instruction: Instruction,
        before: &Registers,
        function: &mut Function,
    ) -> Registers {
        let mut after = *before;
        let to = instruction.destination;
        if instruction.is_call() {
            match instruction.source {
                0 => function.calls.push(Call {
                    helper: instruction.number,
                    arguments: [1, 2, 3, 4, 5].map(|register| before[register]),
                }),
                1 => {
                    let next = i64::from(instruction.number) + 1;
                    let callee = match self.referred(place, (next * 8) as u64) {
                        Some((_, Some(callee))) => callee,
                        // A symbol of its own, not that of the section.
                        _ => (place.0, (place.1 as i64 + next * 8) as u64),
                    };
                    function.callees.insert(callee);
                }
                _ => panic!("a call of the kernel's own functions: say in this test which are allowed where"),
            }
            after[..6].fill(Value::Unknown);
            // A callback runs with what the helper gives it.
            for argument in before {
                if let Value::Function(callback) = argument {
                    function.callees.insert(*callback);
                }
            }
            return after;
        }
        match instruction.code {
            0xb7 | 0xb4 => after[to] = Value::Number(instruction.number.into()),
            0xbf | 0xbc => after[to] = before[instruction.source],
            0x18 => {
                after[to] = match self.referred(place, instruction.number as u64) {
                    Some((_, Some(function))) => Value::Function(function),
                    Some((map, None)) => self.map_bit(map),
                    None => Value::Unknown,
                };
            }
            // Arithmetic and loads.
            code if matches!(code & 7, 0 | 1 | 4 | 7) => after[to] = Value::Unknown,
            // Atomic ones may fetch.
            0xc3 | 0xdb => {
                after[0] = Value::Unknown;
                after[instruction.source] = Value::Unknown;
            }
            _ => {}
        }
        after
    }

    /// Follows the registers through the function at `start`, over every path.
    fn function(&self, start: At) -> Function {
        let section = self.elf.section_by_index(SectionIndex(start.0)).unwrap();
        let code = section.data().unwrap();
        let mut known: BTreeMap<usize, Registers> = BTreeMap::new();
        let first = start.1 as usize / 8;
        let mut open = VecDeque::from([(first, [Value::Unknown; 11])]);
        while let Some((index, registers)) = open.pop_front() {
            let merged = match known.get(&index) {
                Some(old) => {
                    let merged = std::array::from_fn(|register| match (old[register], registers[register]) {
                        (old, new) if old == new => old,
                        (Value::Maps(old), Value::Maps(new)) => Value::Maps(old | new),
                        _ => Value::Unknown,
                    });
                    if merged == *old {
                        continue;
                    }
                    merged
                }
                None => registers,
            };
            known.insert(index, merged);
            let instruction = Instruction::at(code, index);
            let place = (start.0, 8 * index as u64);
            let after = self.step(place, instruction, &merged, &mut Function::default());
            if instruction.is_jump() {
                open.push_back((instruction.target(index), after));
            }
            if !instruction.is_exit() && !instruction.always_jumps() {
                open.push_back((instruction.after(index), after));
            }
        }
        let mut function = Function::default();
        for (&index, registers) in &known {
            self.step((start.0, 8 * index as u64), Instruction::at(code, index), registers, &mut function);
        }
        function
    }

    /// All calls that a program can come to.
    fn calls(&self, program: At) -> Vec<Call> {
        let mut seen = BTreeSet::from([program]);
        let mut open = vec![program];
        let mut calls = Vec::new();
        while let Some(place) = open.pop() {
            let function = self.function(place);
            calls.extend(function.calls);
            open.extend(function.callees.into_iter().filter(|&callee| seen.insert(callee)));
        }
        calls
    }

    /// The symbols of all maps.
    fn maps(&self) -> impl Iterator<Item = object::read::elf::ElfSymbol64<'a, '_>> {
        let section = self.elf.section_by_name(".maps").unwrap().index();
        self.elf.symbols().filter(move |symbol| {
            symbol.section_index() == Some(section) && symbol.kind() != SymbolKind::Section
        })
    }

    /// A map alone; other data is nothing that is asked for.
    fn map_bit(&self, symbol: object::SymbolIndex) -> Value {
        self.maps().position(|map| map.index() == symbol).map_or(Value::Unknown, |bit| Value::Maps(1 << bit))
    }

    fn map_names(&self, value: Value) -> Vec<String> {
        let Value::Maps(bits) = value else { panic!("which ring is written to is not known: {value:?}") };
        let maps = self.maps().enumerate().filter(|(bit, _)| bits & (1 << bit) != 0);
        maps.map(|(_, map)| map.name().unwrap().to_owned()).collect()
    }

    /// The rings that a program writes to.
    fn rings(&self, program: At) -> BTreeSet<String> {
        let writes = |call: &Call| matches!(call.helper, helper::RINGBUF_OUTPUT | helper::RINGBUF_RESERVE);
        let calls = self.calls(program);
        calls.iter().filter(|call| writes(call)).flat_map(|call| self.map_names(call.arguments[0])).collect()
    }
}

/// The place of every program.
fn programs(code: &Code<'_>) -> Vec<(String, At, Place)> {
    PLACES
        .iter()
        .flat_map(|&(section, place)| {
            code.programs(section).into_iter().map(move |(name, at)| {
                let own = PLACES_BY_NAME.iter().find(|(program, _)| *program == name);
                (name, at, own.map_or(place, |(_, place)| *place))
            })
        })
        .collect()
}

#[test]
fn every_program_has_a_place() {
    let code = Code::read();
    let known: BTreeSet<&str> = PLACES.iter().map(|(section, _)| *section).collect();
    for section in code.elf.sections().filter(|section| section.kind() == SectionKind::Text) {
        let name = section.name().unwrap();
        assert!(name == ".text" || known.contains(name), "where do programs of section {name} run?");
    }
}

#[test]
fn nothing_is_allocated_and_nobody_woken_under_the_schedulers_locks() {
    let code = Code::read();
    let mut objections = Vec::new();
    let mut calls = 0;
    for (name, at, place) in programs(&code) {
        for call in code.calls(at) {
            calls += usize::from(place != Place::Free);
            objections.extend(call.objection(place).map(|why| format!("{name}: {why}")));
        }
    }
    assert!(objections.is_empty(), "{objections:#?}");
    assert!(calls > 100, "only {calls} calls were seen");
}

/// The check sees what it is for: programs that run elsewhere do what those under the locks may not.
#[test]
fn programs_elsewhere_would_be_objected_to() {
    let code = Code::read();
    let objections = |wanted: &str| -> Vec<String> {
        let (_, at, _) = programs(&code).into_iter().find(|(name, ..)| name == wanted).unwrap();
        code.calls(at).iter().filter_map(|call| call.objection(Place::Switch)).collect()
    };
    let has = |program: &str, wanted: &str| objections(program).iter().any(|why| why.contains(wanted));
    // A map update, and a new account.
    assert!(has("on_fork", "helper 2 "), "{:#?}", objections("on_fork"));
    assert!(has("on_fork", "helper 156 "), "{:#?}", objections("on_fork"));
    assert!(has("on_exec_thread", "helper 156 "), "{:#?}", objections("on_exec_thread"));
    // The end of a switch may wake the reader, and ask for a mapping.
    assert!(has("on_back", "helper 130 "), "{:#?}", objections("on_back"));
    assert!(has("on_back", "helper 180 "), "{:#?}", objections("on_back"));
    assert!(has("on_cpu", "helper 180 "), "{:#?}", objections("on_cpu"));
    let forced = Call { helper: helper::RINGBUF_OUTPUT, arguments: [Value::Number(FORCE_WAKEUP); 5] };
    assert!(forced.objection(Place::Switch).is_some() && forced.objection(Place::Tick).is_none());
}

/// A sampling interrupt that comes while another program holds the lock of a ring must not need that lock.
#[test]
fn sampling_interrupt_has_rings_of_its_own() {
    let code = Code::read();
    let (mut at_tick, mut elsewhere) = (BTreeSet::new(), BTreeSet::new());
    for (_, at, place) in programs(&code) {
        let rings = if place == Place::Tick { &mut at_tick } else { &mut elsewhere };
        rings.extend(code.rings(at));
    }
    assert!(at_tick.contains("ring0") && at_tick.contains("rescue_ring"), "{at_tick:?}");
    assert!(
        elsewhere.contains("counts") && elsewhere.contains("waits") && elsewhere.contains("wait_rescue_ring"),
        "{elsewhere:?}"
    );
    let shared: Vec<_> = at_tick.intersection(&elsewhere).collect();
    assert!(shared.is_empty(), "{shared:?}");
}
