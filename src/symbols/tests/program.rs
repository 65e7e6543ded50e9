//! Programs that tests build, and tools that give the expected results for them.

use crate::base::deadline::Deadline;
use crate::base::memory_budget::MemoryBudget;
use crate::symbols::debug_files::found::DebugFiles;
use crate::symbols::elf_names::problem::{DebugProblem, NameSource};
use crate::symbols::elf_names::resolve::{ModuleNames, ResolvedLocation};
use crate::symbols::error::SymbolError;
use crate::symbols::limits::NamingLimits;
use std::ffi::OsStr;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;

/// Names of the addresses of one module.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ElfNames {
    pub(crate) locations: Vec<Vec<ResolvedLocation>>,
    pub(crate) source: NameSource,
    pub(crate) problem: Option<DebugProblem>,
    pub(crate) symbol_problem: Option<String>,
}

impl ElfNames {
    fn of(names: Result<ModuleNames, SymbolError>, addresses: &[u64]) -> Result<Self, SymbolError> {
        let mut names = names?;
        let locations = names.resolve(addresses, &Deadline::default());
        let symbol_problem = names.symbol_problem().map(ToString::to_string);
        Ok(ElfNames { locations, source: names.source(), problem: names.problem(), symbol_problem })
    }
}

/// Opens a module, names addresses, and drops it.
pub(super) fn symbolize_elf(
    file: &File,
    debug_file: Option<&File>,
    addresses: &[u64],
    limits: &NamingLimits,
) -> Result<ElfNames, SymbolError> {
    let shared = |file: &File| Arc::new(file.try_clone().unwrap());
    let (file, debug_file, memory) = (shared(file), debug_file.map(shared), Arc::<MemoryBudget>::default());
    let names = ModuleNames::open(&file, debug_file.as_ref(), limits, &Deadline::default(), &memory);
    let names = ElfNames::of(names, addresses);
    assert_eq!(memory.used_bytes(), 0);
    names
}

/// Like [`symbolize_elf`], with all files of debug information. Also returns the files that were not used, and the
/// `.dwo` files that were not found.
pub(super) fn symbolize_files(
    file: &Arc<File>,
    files: DebugFiles,
    addresses: &[u64],
) -> (ElfNames, Vec<String>, Vec<String>) {
    let (memory, end) = (Arc::<MemoryBudget>::default(), Deadline::default());
    let mut names = ModuleNames::open_with(file, files, &NamingLimits::default(), &end, &memory).unwrap();
    let locations = names.resolve(addresses, &end);
    let symbol_problem = names.symbol_problem().map(ToString::to_string);
    let (refused, (_, missing)) = (names.refused(), names.split_units());
    let found = ElfNames { locations, source: names.source(), problem: names.problem(), symbol_problem };
    (found, refused, missing)
}

/// Like [`symbolize_elf`], for a module that is in memory.
pub(super) fn symbolize_bytes(
    elf: &[u8],
    addresses: &[u64],
    limits: &NamingLimits,
) -> Result<ElfNames, SymbolError> {
    let (elf, memory) = (Arc::new(elf.to_vec()), Arc::<MemoryBudget>::default());
    let names = ModuleNames::of_bytes(&elf, limits, &Deadline::default(), &memory);
    let names = ElfNames::of(names, addresses);
    assert_eq!(memory.used_bytes(), 0);
    names
}

/// A folder for files that a test makes.
#[derive(Debug)]
pub(crate) struct Workshop {
    dir: tempfile::TempDir,
}

impl Workshop {
    /// Makes an empty folder.
    pub(crate) fn new() -> Self {
        Workshop { dir: tempfile::tempdir().unwrap() }
    }

    /// The folder.
    pub(crate) fn path(&self) -> &Path {
        self.dir.path()
    }

    /// Writes a source file.
    pub(crate) fn write(&self, name: &str, text: &str) -> PathBuf {
        let path = self.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    }

    /// Runs a tool in the folder. If there is no such tool, prints a line and returns `None`.
    #[allow(clippy::print_stderr)]
    pub(crate) fn run<I: AsRef<OsStr>>(
        &self,
        tool: &str,
        args: impl IntoIterator<Item = I>,
    ) -> Option<String> {
        let result = Command::new(tool).args(args).current_dir(self.path()).output();
        let output = match result {
            Ok(output) => output,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                eprintln!("skipped: no `{tool}`");
                return None;
            }
            Err(error) => panic!("{tool}: {error}"),
        };
        assert!(output.status.success(), "{tool}: {}", String::from_utf8_lossy(&output.stderr));
        Some(String::from_utf8_lossy(&output.stdout).into_owned())
    }

    /// Builds `source` with `compiler` and space-separated `flags`.
    pub(crate) fn build(&self, compiler: &str, source: &str, name: &str, flags: &str) -> Option<PathBuf> {
        let args = flags.split_whitespace().chain(["-o", name, source]);
        self.run(compiler, args)?;
        Some(self.path().join(name))
    }
}

/// A function: address, size (0: none), type letter, name.
pub(crate) type NmFunction = (u64, u64, char, String);

/// Functions with code of `program`, by `nm`.
pub(crate) fn nm(shop: &Workshop, program: &Path, flags: &[&str]) -> Option<Vec<NmFunction>> {
    nm_of_kinds(shop, program, flags, "TtWwi")
}

/// The variables that `nm` lists; `None` if there is no `nm`.
pub(crate) fn nm_data(shop: &Workshop, program: &Path) -> Option<Vec<NmFunction>> {
    nm_of_kinds(shop, program, &[], "BbDdRrVv")
}

fn nm_of_kinds(shop: &Workshop, program: &Path, flags: &[&str], kinds: &str) -> Option<Vec<NmFunction>> {
    let program = program.to_str().unwrap();
    let text = shop.run("nm", flags.iter().copied().chain(["--print-size", "--no-demangle", program]))?;
    let parse = |line: &str| {
        let fields: Vec<_> = line.split_whitespace().collect();
        let (address, size, kind, name) = match *fields.as_slice() {
            [address, size, kind, name] => (address, size, kind, name),
            [address, kind, name] => (address, "0", kind, name),
            _ => return None,
        };
        let kind = kind.chars().next()?;
        let (address, size) = (u64::from_str_radix(address, 16).ok()?, u64::from_str_radix(size, 16).ok()?);
        kinds.contains(kind).then(|| (address, size, kind, name.to_owned()))
    };
    Some(text.lines().filter_map(parse).collect())
}

/// A C program with inlined and static functions, aliases, assembly with and without sizes, and calls
/// through the PLT.
pub(crate) const C_SOURCE: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static inline __attribute__((always_inline)) int innermost(int x) { return x * 7 + rand(); }
static inline __attribute__((always_inline)) int middle(int x)
{
	int sum = 0;
	for (int i = 0; i < x; i++)
		sum += innermost(i) ^ x;
	return sum;
}

__attribute__((noinline)) int work(int x) { return middle(x) + middle(x * 2); }
__attribute__((noinline)) static int quiet(int x) { return innermost(x) - 1; }
int work_alias(int x) __attribute__((alias("work")));
int __work_alias(int x) __attribute__((weak, alias("work")));

/* Hand assembly: a sized function, a function and a label without size, then bytes of no function. */
asm(".text\n"
    ".globl sized_asm\n.type sized_asm,@function\nsized_asm:\n nop\n nop\n ret\n.size sized_asm,.-sized_asm\n"
    ".Lhidden:\n nop\n nop\n nop\n"
    ".globl bare_asm\n.type bare_asm,@function\nbare_asm:\n nop\n nop\n nop\n ret\n"
    "bare_label:\n nop\n nop\n ret\n"
    ".type after_asm,@function\nafter_asm:\n ret\n.size after_asm,.-after_asm\n"
    " nop\n nop\n nop\n nop\n");

int f(int x) { return x + quiet(x); }

int main(int argc, char **argv)
{
	char *text = strdup(argv[0]);
	printf("%d %d %zu\n", work(argc), f(argc), strlen(text));
	free(text);
	return 0;
}
"#;

/// A C++ program with namespaces, templates, members, lambdas and constructors.
pub(crate) const CPP_SOURCE: &str = r#"
#include <algorithm>
#include <map>
#include <string>
#include <vector>

namespace shop {
template <typename T> struct Box {
	std::vector<T> items;
	explicit Box(int n) { for (int i = 0; i < n; i++) items.push_back(T(i)); }
	__attribute__((noinline)) T total() const
	{
		T sum{};
		std::for_each(items.begin(), items.end(), [&](T item) { sum += item * 3; });
		return sum;
	}
	virtual ~Box() { items.clear(); }
};
namespace {
__attribute__((noinline)) int hidden(std::map<std::string, int> &counts, const std::string &key)
{
	return counts[key]++;
}
}
}

int main(int argc, char **)
{
	shop::Box<int> ints(argc);
	shop::Box<double> doubles(argc);
	std::map<std::string, int> counts;
	return ints.total() + static_cast<int>(doubles.total()) + shop::hidden(counts, "key");
}
"#;

/// A Rust program with generics, closures and inlined library code.
pub(super) const RUST_SOURCE: &str = r#"
use std::collections::HashMap;
mod store {
    pub(crate) struct Shelf<T> { pub items: Vec<T> }
    impl<T: Copy + std::ops::Add<Output = T> + Default> Shelf<T> {
        #[inline(never)]
        pub(crate) fn total(&self) -> T { self.items.iter().fold(T::default(), |a, &b| a + b) }
    }
}
#[inline(never)]
fn count(words: &[String]) -> HashMap<&str, usize> {
    let mut map = HashMap::new();
    words.iter().for_each(|word| *map.entry(word.as_str()).or_insert(0) += 1);
    map
}
fn main() {
    let words: Vec<String> = std::env::args().collect();
    let shelf = store::Shelf { items: words.iter().map(|w| w.len()).collect() };
    println!("{} {:?}", shelf.total(), count(&words));
}
"#;

/// A Go program with a function that is inlined.
pub(crate) const GO_SOURCE: &str = r#"package main

import (
	"fmt"
	"os"
)

func double(x int) int { return x*2 + len(os.Args) }

//go:noinline
func sum(n int) int {
	total := 0
	for i := 0; i < n; i++ {
		total += double(i) ^ double(total)
	}
	return total
}

func main() { fmt.Println(sum(len(os.Args)), double(3)) }
"#;
