//! Code of a function as it was found, before its names and files are in the tables of the profile.

use crate::profile::code::function_code::{CallTarget, CodeRun, FunctionCode, InlinedCall};
use crate::profile::{FunctionId, ModuleId, Profile, StringId};
use crate::record::names::symbolize::interned;
use crate::symbols::ResolvedLocation;
use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

/// Identity of an inlined call: the calling function, the callee's name, and the file and line of the call.
type CallKey = (u32, String, u32, u32);

/// Code of a function with the lines of its instructions.
#[derive(Debug, Default, Serialize, Deserialize)]
pub(crate) struct FoundCode {
    /// Address and length of the function; address and bytes of the part that is kept.
    pub(super) code: FunctionCode,
    /// The function itself.
    owner: Option<ResolvedLocation>,
    /// Functions inlined at the calls of `code.inlined`, in the same order; the files of runs and calls are indices
    /// into `files`.
    inlined: Vec<ResolvedLocation>,
    #[serde(skip)]
    calls: FxHashMap<CallKey, u32>,
    /// Names of files; file 0 means none.
    files: Vec<String>,
    targets: Vec<(u64, ResolvedLocation)>,
}

impl FoundCode {
    /// Makes the code of a function, with its bytes but no instructions yet.
    pub(super) fn new(start: u64, size: u64, address: u64, bytes: Vec<u8>, owner: ResolvedLocation) -> Self {
        let code = FunctionCode { start, size, address, bytes, ..FunctionCode::default() };
        FoundCode { code, owner: Some(owner), files: vec![String::new()], ..FoundCode::default() }
    }

    /// Address of the function.
    pub(super) fn start(&self) -> u64 {
        self.code.start
    }

    /// Adds the instruction at `offset`, which is in the functions of `chain`, the innermost first.
    pub(super) fn add_instruction(&mut self, offset: u32, chain: &[ResolvedLocation]) {
        let mut call = 0;
        for pair in chain.windows(2).rev() {
            call = self.call(call, &pair[0], &pair[1]);
        }
        let innermost = chain.first();
        let file = innermost.and_then(|at| at.file.as_deref()).map_or(0, |file| self.file(file));
        let line = innermost.map_or(0, |at| at.line);
        let run = CodeRun { offset, call, file: StringId(file), line };
        let is_like = |last: &CodeRun| (last.call, last.file, last.line) == (call, run.file, line);
        if !self.code.runs.last().is_some_and(is_like) {
            self.code.runs.push(run);
        }
    }

    /// Adds a function that is the target of a call or jump.
    pub(super) fn add_target(&mut self, address: u64, function: ResolvedLocation) {
        self.targets.push((address, function));
    }

    /// The number of a call in `parent`, plus 1.
    fn call(&mut self, parent: u32, callee: &ResolvedLocation, caller: &ResolvedLocation) -> u32 {
        let file = caller.file.as_deref().map_or(0, |file| self.file(file));
        let key = (parent, callee.raw_name.clone(), file, caller.line);
        if let Some(&known) = self.calls.get(&key) {
            return known;
        }
        self.code.inlined.push(InlinedCall {
            function: FunctionId(0),
            parent,
            file: StringId(file),
            line: caller.line,
        });
        self.inlined.push(callee.clone());
        let number = self.inlined.len() as u32;
        self.calls.insert(key, number);
        number
    }

    fn file(&mut self, file: &str) -> u32 {
        let known = self.files.iter().position(|known| known == file);
        known.unwrap_or_else(|| {
            self.files.push(file.to_owned());
            self.files.len() - 1
        }) as u32
    }

    /// The name of the function in the symbol table.
    pub(super) fn name(&self) -> &str {
        self.owner.as_ref().map_or("", |owner| &owner.raw_name)
    }

    /// Whether any source line is known.
    pub(super) fn has_lines(&self) -> bool {
        self.code.runs.iter().any(|run| run.line > 0)
    }

    /// Whether it is in such order as [`FoundCode::add_instruction`] leaves it in.
    pub(in crate::record::names) fn is_sound(&self) -> bool {
        let FunctionCode { start, size, address, runs, inlined, .. } = &self.code;
        let is_inside =
            start.checked_add(*size).is_some_and(|end| *address >= *start && self.code.end() <= end);
        let are_calls_sound = (0..).zip(inlined).all(|(number, call)| call.parent <= number);
        let are_runs_sound = runs.windows(2).all(|pair| pair[0].offset < pair[1].offset)
            && runs.first().is_none_or(|first| first.offset == 0)
            && runs.iter().all(|run| run.call as usize <= inlined.len());
        is_inside && are_calls_sound && are_runs_sound && inlined.len() == self.inlined.len()
    }

    /// Approximate size in the file before compression, bytes.
    pub(super) fn bytes(&self) -> u64 {
        let names = self.inlined.iter().chain(self.targets.iter().map(|(_, target)| target));
        let text: usize = names.map(|name| name.raw_name.len() + name.name.len()).sum();
        (self.code.bytes.len() + 3 * self.code.runs.len() + 6 * self.inlined.len() + text / 2) as u64
    }

    /// Adds the code to the profile.
    pub(super) fn store(self, profile: &mut Profile, module: ModuleId) {
        let FoundCode { mut code, owner, inlined, files, targets, .. } = self;
        let mut function_of = |location: ResolvedLocation| {
            let location = ResolvedLocation { file: None, ..location };
            interned(profile, &[location]).first().map_or(FunctionId(0), |location| location.function)
        };
        code.module = module;
        code.function = owner.map_or(FunctionId(0), &mut function_of);
        for (call, callee) in code.inlined.iter_mut().zip(inlined) {
            call.function = function_of(callee);
        }
        let target = |(address, function)| CallTarget { address, function: function_of(function) };
        code.targets = targets.into_iter().map(target).collect();
        let files: Vec<StringId> = files.iter().map(|file| profile.tables.intern_string(file)).collect();
        let file = |number: StringId| files.get(number.index()).copied().unwrap_or_default();
        code.runs.iter_mut().for_each(|run| run.file = file(run.file));
        code.inlined.iter_mut().for_each(|call| call.file = file(call.file));
        if code.runs.iter().all(|run| (run.call, run.file, run.line) == (0, StringId(0), 0)) {
            code.runs.clear();
        }
        profile.code.push(code);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Meta;

    fn at(name: &str, file: &str, line: u32, is_inlined: bool) -> ResolvedLocation {
        let file = Some(file.to_owned()).filter(|file| !file.is_empty());
        ResolvedLocation { name: name.to_owned(), raw_name: name.to_owned(), file, line, is_inlined }
    }

    #[test]
    fn chains_come_back_from_the_profile() {
        let chains = [
            vec![at("f", "f.c", 3, false)],
            vec![at("f", "f.c", 3, false)],
            vec![at("h", "h.h", 9, true), at("g", "g.h", 8, true), at("f", "f.c", 4, false)],
            vec![at("g", "g.h", 7, true), at("f", "f.c", 4, false)],
            vec![at("g", "g.h", 7, true), at("f", "f.c", 5, false)],
            vec![],
        ];
        let mut found = FoundCode::new(0x10, 6, 0x10, vec![0x90; 6], at("f", "", 0, false));
        (0..).zip(&chains).for_each(|(offset, chain)| found.add_instruction(offset, chain));
        found.add_target(0x99, at("callee", "", 0, false));
        let mut profile = Profile::new(Meta::default());
        found.store(&mut profile, ModuleId(0));
        let code = &profile.code[0];
        assert_eq!((code.runs.len(), code.inlined.len(), code.targets[0].address), (5, 3, 0x99));
        let text = |id| profile.tables.string(id);
        for (address, chain) in (0x10..).zip(&chains).filter(|(_, chain)| !chain.is_empty()) {
            let found: Vec<_> = (code.locations_at(address).iter())
                .map(|at| (text(profile.symbols.function(at.function).name), text(at.file), at.line))
                .collect();
            let wanted: Vec<_> =
                (chain.iter()).map(|at| (&*at.name, at.file.as_deref().unwrap_or(""), at.line)).collect();
            assert_eq!(found, wanted);
        }
    }

    #[test]
    fn code_without_any_line_has_no_runs() {
        let mut found = FoundCode::new(0, 1, 0, vec![0xc3], at("f", "", 0, false));
        found.add_instruction(0, &[at("f", "", 0, false)]);
        let mut profile = Profile::new(Meta::default());
        found.store(&mut profile, ModuleId(0));
        assert!(profile.code[0].runs.is_empty());
    }
}
