//! A function with its costs by line and by instruction.
//!
//! A sample counts once: for the line of the innermost call of the function on its stack. `own` is time in the function
//! itself, `inlined` time in functions that are inlined there, `total` both plus what it calls. So `own` and `total` of
//! all lines add up to those of the function in the flat table. A return address counts for its call instruction.

use crate::profile::code::function_code::FunctionCode;
use crate::profile::{Location, ModuleId, ModuleKind, Profile, StringId};
use crate::report::code::disassembly::{AsmSyntax, disassemble};
use crate::report::model::amount::Amount;
use crate::report::model::label::{Label, Step, module_text};
use crate::report::model::label_key::{CodePlace, LabelKey};
use crate::report::query::selection::Selection;
use std::cmp::Reverse;
use std::collections::BTreeMap;

/// A function with its costs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Annotation {
    /// Amount of samples that end in the function.
    pub(crate) own: Amount,
    /// Amount of samples that end in functions inlined into it.
    pub(crate) inlined: Amount,
    /// Amount of samples with the function on their stack.
    pub(crate) total: Amount,
    /// Lines with code or samples: the heaviest file first, each file from top to bottom. The empty file and line 0
    /// collect what has no known line.
    pub(crate) lines: Vec<AnnotatedLine>,
    /// Instructions of the recorded code, and sampled instructions whose code was not recorded; by address.
    pub(crate) instructions: Vec<AnnotatedInstruction>,
    /// Ranges of the function whose code was recorded.
    pub(crate) parts: Vec<AnnotatedPart>,
    /// The function that calls it in most samples.
    pub(crate) caller: Option<LabelKey>,
}

/// A source line of the function.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AnnotatedLine {
    /// The file, as the compiler recorded it.
    pub(crate) file: StringId,
    /// Line number; 0 if unknown.
    pub(crate) line: u32,
    /// Amount of this line, with the meaning that the field of this name has for the function.
    pub(crate) own: Amount,
    /// Amount of this line, with the meaning that the field of this name has for the function.
    pub(crate) inlined: Amount,
    /// Amount of this line, with the meaning that the field of this name has for the function.
    pub(crate) total: Amount,
    /// Code of the line: its own first, then code inlined there, in the order of addresses.
    pub(crate) groups: Vec<InlineGroup>,
    /// The function that is called from it in most samples.
    pub(crate) callee: Option<LabelKey>,
}

/// Code of a line that belongs to the same chain of inlined calls, or the line's own code.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct InlineGroup {
    /// Inlined calls, outermost first, each with the line being executed in it; empty for the line's own code.
    pub(crate) chain: Vec<InlineStep>,
    /// Amount of samples that end in the group.
    pub(crate) own: Amount,
    /// Indices of its instructions, in the order of addresses.
    pub(crate) instructions: Vec<usize>,
}

/// An inlined function and the line in it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct InlineStep {
    /// Full name. Foreign text.
    pub(crate) name: String,
    /// File; the empty string if unknown.
    pub(crate) file: StringId,
    /// Line number; 0 if unknown.
    pub(crate) line: u32,
}

/// An instruction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AnnotatedInstruction {
    /// Place of the instruction.
    pub(crate) at: CodePlace,
    /// Disassembly; `None` if the code was not recorded. Contains foreign names.
    pub(crate) text: Option<String>,
    /// Machine code bytes.
    pub(crate) bytes: Vec<u8>,
    /// Amount of samples that end there.
    pub(crate) own: Amount,
    /// Amount of samples that end there or in what it calls.
    pub(crate) total: Amount,
    /// Index of its line in the annotation.
    pub(crate) line: usize,
    /// Index of its group in that line.
    pub(crate) group: usize,
}

/// A range of the function whose code was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct AnnotatedPart {
    /// Start address.
    pub(crate) address: u64,
    /// Length, bytes.
    pub(crate) length: u64,
    /// Length of the function that owns the code, bytes.
    pub(crate) function_bytes: u64,
}

type LineKey = (StringId, u32);

#[derive(Debug, Default)]
struct LineTally {
    own: Amount,
    inlined: Amount,
    total: Amount,
    groups: BTreeMap<Vec<InlineStep>, Amount>,
    callees: BTreeMap<LabelKey, u64>,
}

#[derive(Debug, Default)]
struct CodeTally {
    own: Amount,
    total: Amount,
    line: LineKey,
    chain: Vec<InlineStep>,
    is_inlined: bool,
    start: Option<u64>,
    text: Option<String>,
    bytes: Vec<u8>,
}

/// Sums by line and by instruction.
#[derive(Debug, Default)]
struct Tallies {
    lines: BTreeMap<LineKey, LineTally>,
    code: BTreeMap<(ModuleId, u64), CodeTally>,
    own: Amount,
    inlined: Amount,
    total: Amount,
    callers: BTreeMap<LabelKey, u64>,
}

impl Annotation {
    /// The annotation of the function `name` in the module with path `module`, from the samples of `selection`, which
    /// must be one by address. With `inline`, inlined functions are functions of their own.
    pub(crate) fn new(
        selection: &Selection<'_>,
        name: &str,
        module: &str,
        inline: bool,
        syntax: AsmSyntax,
    ) -> Self {
        let mut tallies = Tallies::default();
        let calls = InnermostCalls::new(selection, name, module);
        selection.for_each_path(|path, groups| {
            if let Some(call) = calls.on(path) {
                tallies.add(selection, path, call, groups.amount);
            }
        });
        let mut parts = Vec::new();
        for code in &selection.profile.code {
            let row = selection.profile.tables.module(code.module);
            if module_text(selection.profile, row.path, row.kind) == module
                && tallies.add_code(selection.profile, code, name, inline, syntax)
            {
                let length = code.bytes.len() as u64;
                parts.push(AnnotatedPart { address: code.address, length, function_bytes: code.size });
            }
        }
        tallies.finish(selection.profile, parts)
    }

    /// Amount of samples in the code of the function: its own and that of functions inlined into it.
    pub(crate) fn in_code(&self) -> Amount {
        let mut sum = self.own;
        sum.add(self.inlined);
        sum
    }
}

/// The innermost calls of a function, for which samples count, on the stacks of a selection by address.
pub(crate) struct InnermostCalls<'s, 'p> {
    selection: &'s Selection<'p>,
    is_target: Vec<bool>,
}

/// One of them.
#[derive(Debug, Clone, Copy)]
struct InnermostCall {
    /// Index of the call's step on the path.
    at: usize,
    /// Number of calls inlined there, whose steps follow.
    inlined: usize,
    /// Whether the path ends in it or in what is inlined there.
    is_leaf: bool,
}

impl<'s, 'p> InnermostCalls<'s, 'p> {
    /// Finder of the innermost calls of the function `name` in the module with path `module`.
    pub(crate) fn new(selection: &'s Selection<'p>, name: &str, module: &str) -> Self {
        let is_target =
            selection.labels.iter().map(|label| label.name == name && label.module == module).collect();
        InnermostCalls { selection, is_target }
    }

    fn on(&self, path: &[Step]) -> Option<InnermostCall> {
        let at = path.iter().rposition(|step| self.is_target[step.label.index()])?;
        let place = |step: &Step| self.selection.labels.get(step.label).at;
        let own = place(&path[at]);
        let is_same_frame = |inner: &&Step| {
            let is_same =
                own.zip(place(inner)).is_some_and(|(a, b)| (a.module, a.address) == (b.module, b.address));
            inner.is_inlined && is_same
        };
        let inlined = path[at + 1..].iter().take_while(is_same_frame).count();
        Some(InnermostCall { at, inlined, is_leaf: at + 1 + inlined == path.len() })
    }

    /// The file and line of the function that samples with this path count for; `None` of those without the function.
    pub(crate) fn line_of(&self, path: &[Step]) -> Option<(StringId, u32)> {
        Some(line_of(self.selection, &path[self.on(path)?.at]))
    }

    /// The file and line of the function in whose code, inlined functions included, samples with this path end; `None` of those
    /// that end elsewhere.
    pub(crate) fn line_of_end(&self, path: &[Step]) -> Option<(StringId, u32)> {
        let call = self.on(path).filter(|call| call.is_leaf)?;
        Some(line_of(self.selection, &path[call.at]))
    }
}

/// File and line of a step.
fn line_of(selection: &Selection<'_>, step: &Step) -> LineKey {
    let place = selection.labels.places()[step.place.index()];
    (place.file, place.line)
}

impl Tallies {
    /// Adds samples of one stack, which count for `call`.
    fn add(&mut self, selection: &Selection<'_>, path: &[Step], call: InnermostCall, amount: Amount) {
        let label = |step: &Step| selection.labels.get(step.label);
        let place = |step: &Step| line_of(selection, step);
        let InnermostCall { at: innermost, inlined, is_leaf } = call;
        let step = &path[innermost];
        // A function that an interpreter runs has no instructions.
        let modules = selection.profile.tables.modules();
        let is_native = |at: &CodePlace| modules[at.module.index()].kind != ModuleKind::Runtime;
        let at = label(step).at.filter(is_native);
        let inner = &path[innermost + 1..][..inlined];
        let chain: Vec<InlineStep> = (inner.iter())
            .map(|step| {
                let (file, line) = place(step);
                InlineStep { name: label(step).name.clone(), file, line }
            })
            .collect();
        let is_own = is_leaf && chain.is_empty();
        let line = self.lines.entry(place(step)).or_default();
        for sum in [&mut self.total, &mut line.total] {
            sum.add(amount);
        }
        if is_leaf {
            let sums =
                if is_own { [&mut self.own, &mut line.own] } else { [&mut self.inlined, &mut line.inlined] };
            sums.into_iter().for_each(|sum| sum.add(amount));
            line.groups.entry(chain.clone()).or_default().add(amount);
        }
        let callee = path.get(innermost + 1 + inlined);
        let is_other = |outer: &&Step| {
            let (outer, called) = (label(outer), label(step));
            outer.name != called.name || outer.module != called.module
        };
        let caller = path[..innermost].iter().rfind(is_other);
        // An interrupt that came is no call of the line.
        let callee = callee.filter(|callee| !callee.is_kernel || step.is_kernel);
        for (step, sums) in [(callee, &mut line.callees), (caller, &mut self.callers)] {
            if let Some(key) = step.and_then(|step| function_key(label(step))) {
                let sum = sums.entry(key).or_default();
                *sum = sum.saturating_add(amount.weight);
            }
        }
        if let Some(at) = at {
            let code = self.code.entry((at.module, at.address)).or_default();
            code.total.add(amount);
            if is_leaf {
                code.own.add(amount);
            }
            (code.line, code.start) = (place(step), at.start);
            (code.chain, code.is_inlined) = (chain, at.is_inlined);
        }
    }

    /// Adds the instructions of `code` that belong to the function; returns whether there are any.
    fn add_code(
        &mut self,
        profile: &Profile,
        code: &FunctionCode,
        name: &str,
        inline: bool,
        syntax: AsmSyntax,
    ) -> bool {
        let text =
            |location: &Location| profile.tables.string(profile.symbols.function(location.function).name);
        let calls = code.inlined.iter().map(|call| call.function);
        let mut functions = calls.filter(|_| inline).chain([code.function]);
        if !functions.any(|function| profile.tables.string(profile.symbols.function(function).name) == name) {
            return false;
        }
        let mut has_any = false;
        for line in disassemble(profile, code, syntax) {
            let mut locations = code.locations_at(line.address);
            if !inline {
                locations.drain(..locations.len() - 1);
            }
            let Some(depth) = locations.iter().position(|location| text(location) == name) else { continue };
            has_any = true;
            let offset = (line.address - code.address) as usize;
            let entry = self.code.entry((code.module, line.address)).or_default();
            entry.text = Some(line.text);
            entry.bytes = code.bytes[offset..offset + line.size as usize].to_vec();
            entry.start = Some(code.start);
            if entry.total.is_empty() {
                let step = |location: &Location| InlineStep {
                    name: text(location).to_owned(),
                    file: location.file,
                    line: location.line,
                };
                entry.line = (locations[depth].file, locations[depth].line);
                entry.is_inlined = locations[depth].is_inlined;
                entry.chain = locations[..depth].iter().rev().map(step).collect();
            }
        }
        has_any
    }

    fn finish(mut self, profile: &Profile, parts: Vec<AnnotatedPart>) -> Annotation {
        for code in self.code.values() {
            self.lines.entry(code.line).or_default();
        }
        let mut of_file: BTreeMap<StringId, [u64; 2]> = BTreeMap::new();
        for ((file, _), line) in &self.lines {
            let sums = of_file.entry(*file).or_default();
            sums[0] = sums[0].saturating_add(line.own.weight).saturating_add(line.inlined.weight);
            sums[1] = sums[1].saturating_add(line.total.weight);
        }
        let mut lines: Vec<(LineKey, LineTally)> = std::mem::take(&mut self.lines).into_iter().collect();
        lines.sort_by_key(|((file, line), _)| {
            (*file == StringId(0), Reverse(of_file[file]), profile.tables.string(*file), *line)
        });
        let numbers: BTreeMap<LineKey, usize> = lines.iter().map(|(key, _)| *key).zip(0..).collect();
        let mut groups: Vec<Vec<InlineGroup>> = lines.iter().map(|_| Vec::new()).collect();
        let mut instructions = Vec::new();
        for ((module, address), code) in self.code {
            let line = numbers[&code.line];
            let groups = &mut groups[line];
            let group = groups.iter().position(|group| group.chain == code.chain).unwrap_or_else(|| {
                groups.push(InlineGroup {
                    chain: code.chain.clone(),
                    own: Amount::default(),
                    instructions: Vec::new(),
                });
                groups.len() - 1
            });
            groups[group].instructions.push(instructions.len());
            let at = CodePlace { module, address, start: code.start, is_inlined: code.is_inlined };
            let CodeTally { own, total, text, bytes, .. } = code;
            instructions.push(AnnotatedInstruction { at, text, bytes, own, total, line, group });
        }
        let line = |(((file, line), tally), mut groups): ((LineKey, LineTally), Vec<InlineGroup>)| {
            for group in &mut groups {
                group.own = tally.groups.get(&group.chain).copied().unwrap_or_default();
            }
            let LineTally { own, inlined, total, callees, .. } = tally;
            AnnotatedLine { file, line, own, inlined, total, groups, callee: heaviest(callees) }
        };
        let mut lines: Vec<AnnotatedLine> = lines.into_iter().zip(groups).map(line).collect();
        own_code_first(&mut lines, &mut instructions);
        Annotation {
            own: self.own,
            inlined: self.inlined,
            total: self.total,
            lines,
            instructions,
            parts,
            caller: heaviest(self.callers),
        }
    }
}

/// The function that a label by address is of; `None` of what is no code.
fn function_key(label: &Label) -> Option<LabelKey> {
    let module = label.module.clone();
    label.kind.is_code().then(|| match label.address {
        Some(address) => LabelKey::Address { module, address },
        None => LabelKey::Named { name: label.name.clone(), module, line: None },
    })
}

fn heaviest(sums: BTreeMap<LabelKey, u64>) -> Option<LabelKey> {
    // Of equal ones the first by name.
    sums.into_iter().rev().max_by_key(|(_, weight)| *weight).map(|(key, _)| key)
}

/// Has each line begin with its own code.
fn own_code_first(lines: &mut [AnnotatedLine], instructions: &mut [AnnotatedInstruction]) {
    for line in lines {
        line.groups.sort_by_key(|group| !group.chain.is_empty());
        for (number, group) in line.groups.iter().enumerate() {
            group.instructions.iter().for_each(|&at| instructions[at].group = number);
        }
    }
}

#[cfg(test)]
#[path = "annotation_tests.rs"]
pub(crate) mod tests;
