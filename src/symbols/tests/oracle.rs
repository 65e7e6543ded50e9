//! Names compared with independent tools: nm, llvm-symbolizer, objdump.

use super::llvm::{assert_agrees, large_stride, llvm_symbolizer, probes, reasons, symbolize};
use super::program::{
    C_SOURCE, CPP_SOURCE, GO_SOURCE, NmFunction, RUST_SOURCE, Workshop, nm, nm_data, symbolize_bytes,
    symbolize_elf,
};
use crate::base::deadline::Deadline;
use crate::base::memory_budget::MemoryBudget;
use crate::elf::ElfFile;
use crate::elf::source::Source;
use crate::symbols::*;
use std::fs::File;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

#[test]
fn c_names_and_lines_equal_llvm_symbolizer() {
    let shop = Workshop::new();
    shop.write("prog.c", C_SOURCE);
    for (compiler, flags) in [
        ("gcc", "-O2 -g -gdwarf-2"),
        ("gcc", "-O2 -g -gdwarf-3"),
        ("gcc", "-O2 -g -gdwarf-4"),
        ("gcc", "-O2 -g -gdwarf-5"),
        ("gcc", "-O2 -g -gdwarf64"),
        ("gcc", "-O2 -g -fdebug-types-section"),
        ("gcc", "-O2 -g -gz"),
        ("gcc", "-O2 -g -gz=zlib-gnu"),
        ("gcc", "-O2 -g -static"),
        ("gcc", "-O2 -g -ffunction-sections -no-pie"),
        ("clang", "-O2 -g -gdwarf-2"),
        ("clang", "-O2 -g -gdwarf-3"),
        ("clang", "-O2 -g -gdwarf-4"),
        ("clang", "-O2 -g -gdwarf-5"),
        ("clang", "-O2 -g -gdwarf-5 -gdwarf64"),
    ] {
        let Some(program) = shop.build(compiler, "prog.c", "prog", flags) else { continue };
        let stride = if flags.contains("static") { large_stride() } else { 1 };
        let what = format!("{compiler} {flags}");
        let Some(()) = assert_agrees(&shop, &program, stride, &what) else { return };
    }
}

#[test]
fn cpp_names_and_lines_equal_llvm_symbolizer() {
    let shop = Workshop::new();
    shop.write("prog.cc", CPP_SOURCE);
    for (compiler, flags) in [
        ("g++", "-O2 -g -gdwarf-4"),
        ("g++", "-O2 -g -gdwarf-5 -gz"),
        ("g++", "-O2 -g -gdwarf-4 -fdebug-types-section"),
        ("g++", "-O2 -g -gdwarf-5 -fdebug-types-section"),
        ("g++", "-O1 -g"),
        ("clang++", "-O2 -g -gdwarf-4"),
        ("clang++", "-O2 -g -gdwarf-5"),
    ] {
        let Some(program) = shop.build(compiler, "prog.cc", "prog", flags) else { return };
        let Some(()) = assert_agrees(&shop, &program, 1, flags) else { return };
    }
}

#[test]
fn rust_names_and_lines_equal_llvm_symbolizer() {
    let shop = Workshop::new();
    shop.write("prog.rs", RUST_SOURCE);
    for mangling in ["", "-Csymbol-mangling-version=v0", "-Cdwarf-version=5"] {
        let flags = format!("-Copt-level=2 -g {mangling}");
        let Some(program) = shop.build("rustc", "prog.rs", "prog", &flags) else { return };
        let Some(()) = assert_agrees(&shop, &program, large_stride(), &flags) else { return };
        let functions = nm(&shop, &program, &[]).unwrap();
        let mut starts: Vec<u64> = functions.iter().map(|(start, ..)| *start).collect();
        starts.sort_unstable();
        let names = symbolize(&program, &starts);
        let all: Vec<&str> =
            names.locations.iter().flatten().map(|location| location.name.as_str()).collect();
        assert!(all.contains(&"prog::count"), "{mangling}");
        assert!(!all.iter().any(|name| name.contains("::h0") || name.starts_with("_R")), "{mangling}");
    }
}

/// Two files whose functions are inlined into each other at link time.
const OTHER_SOURCE: &str = r#"
#include <stdlib.h>
static int shared(int x) { return abs(x) * 3 + rand(); }
int far_one(int x) { int sum = 0; for (int i = 0; i < x; i++) sum += shared(i + x); return sum; }
int far_two(int x) { return far_one(x) ^ shared(x) ^ far_one(x + 1); }
"#;

#[test]
fn names_in_other_units_equal_llvm_symbolizer() {
    let shop = Workshop::new();
    shop.write("other.c", OTHER_SOURCE);
    let text = C_SOURCE
        .replace("int main(", "int far_two(int x);\nint main(")
        .replace("work(argc)", "work(far_two(argc))");
    shop.write("prog.c", &text);
    for flags in ["-O2 -g -flto", "-O2 -g -flto -gdwarf-4", "-O2 -g -flto -gz"] {
        let flags = format!("{flags} -flto-partition=none -Wno-all other.c");
        let Some(program) = shop.build("gcc", "prog.c", "prog", &flags) else { return };
        let Some(()) = assert_agrees(&shop, &program, 1, &flags) else { return };
        let functions = nm(&shop, &program, &[]).unwrap();
        let names = symbolize(&program, &probes(&functions, 1));
        let is_foreign = |location: &ResolvedLocation| location.raw_name == "shared" && location.is_inlined;
        assert!(names.locations.iter().flatten().any(is_foreign), "{flags}");
    }
}

/// dwz moves parts that units have in common to separate units.
#[test]
fn names_that_dwz_moved_equal_llvm_symbolizer() {
    let shop = Workshop::new();
    shop.write("prog.cc", CPP_SOURCE);
    let second = CPP_SOURCE.replace("int main(int argc, char **)", "int second(int argc)");
    shop.write("second.cc", &second);
    for version in ["-gdwarf-4", "-gdwarf-5"] {
        let flags = format!("-O2 -g {version} second.cc");
        let Some(program) = shop.build("g++", "prog.cc", "prog", &flags) else { return };
        let Some(_) = shop.run("dwz", ["prog"]) else { return };
        let Some(()) = assert_agrees(&shop, &program, 1, &flags) else { return };
    }
}

#[test]
fn a_rust_program_optimised_as_a_whole_equals_llvm_symbolizer() {
    let shop = Workshop::new();
    shop.write("prog.rs", RUST_SOURCE);
    for flags in ["-Copt-level=3 -g -Clto=fat", "-Copt-level=0 -g"] {
        let Some(program) = shop.build("rustc", "prog.rs", "prog", flags) else { return };
        let Some(()) = assert_agrees(&shop, &program, large_stride(), flags) else { return };
    }
}

#[test]
fn a_go_program_equals_llvm_symbolizer() {
    let shop = Workshop::new();
    shop.write("prog.go", GO_SOURCE);
    for flags in ["", "-ldflags=-compressdwarf=false"] {
        let args = ["build", "-o", "prog"].into_iter().chain(flags.split_whitespace()).chain(["prog.go"]);
        let Some(_) = shop.run("go", args) else { return };
        let program = shop.path().join("prog");
        let functions = nm(&shop, &program, &[]).unwrap();
        let functions: Vec<_> = functions.into_iter().filter(|(_, size, ..)| *size > 0).collect();
        let addresses = probes(&functions, large_stride());
        assert!(addresses.len() > 10_000);
        let names = symbolize(&program, &addresses);
        let Some(truths) = llvm_symbolizer(&shop, &program, &addresses) else { return };
        reasons(&addresses, &names.locations, &truths, &functions, flags);
        assert!(names.locations.iter().any(|locations| locations.len() > 1));
    }
}

#[test]
fn every_way_to_pack_sections_gives_the_same_names() {
    let shop = Workshop::new();
    shop.write("prog.cc", CPP_SOURCE);
    let Some(program) = shop.build("g++", "prog.cc", "prog", "-O2 -g") else { return };
    let functions = nm(&shop, &program, &[]).unwrap();
    let addresses = probes(&functions, 5);
    let expected = symbolize(&program, &addresses);
    for way in ["zlib", "zlib-gnu", "zstd"] {
        let packed = format!("prog.{way}");
        let script = format!("objcopy --compress-debug-sections={way} prog {packed} || echo refused");
        let Some(said) = shop.run("sh", ["-c", &script]) else { return };
        if said.contains("refused") {
            continue; // This objcopy was built without zstd.
        }
        let file = Arc::new(File::open(shop.path().join(&packed)).unwrap());
        let (memory, end) = (Arc::<MemoryBudget>::default(), Deadline::default());
        let mut names = ModuleNames::open(&file, None, &NamingLimits::default(), &end, &memory).unwrap();
        // A few at a time, from the last to the first: packed sections are read backwards.
        let mut locations: Vec<_> = addresses.rchunks(7).map(|part| names.resolve(part, &end)).collect();
        locations.reverse();
        assert!(locations.concat() == expected.locations, "{way}");
        assert_eq!((names.source(), names.problem()), (NameSource::Dwarf, None));
    }
}

/// Checks every byte of code against the definition: the symbols of nm that contain it.
#[test]
fn symbol_table_names_equal_nm_at_every_byte() {
    let shop = Workshop::new();
    shop.write("prog.c", C_SOURCE);
    for (compiler, flags) in [("gcc", "-O2"), ("clang", "-O1"), ("gcc", "-O2 -no-pie")] {
        let Some(program) = shop.build(compiler, "prog.c", "prog", flags) else { continue };
        let Some(functions) = nm(&shop, &program, &[]) else { return };
        let first = functions.iter().map(|(start, ..)| *start).min().unwrap() - 16;
        let last = functions.iter().map(|(start, size, ..)| start + size).max().unwrap() + 64;
        let addresses: Vec<u64> = (first..last).collect();
        let names = symbolize(&program, &addresses);
        assert_eq!(names.source, NameSource::Symtab);
        let data = nm_data(&shop, &program).unwrap();
        for (address, locations) in addresses.iter().zip(&names.locations) {
            let inside = |(start, size, ..): &&NmFunction| (*start..start + size).contains(address);
            let candidates: Vec<_> = functions.iter().filter(inside).map(|f| f.3.as_str()).collect();
            let variable = data.iter().find(|variable| inside(variable)).map(|variable| {
                let within = address - variable.0;
                let distance = if within == 0 { String::new() } else { format!("+{within:#x}") };
                format!("{}{distance}", variable.3)
            });
            match locations.as_slice() {
                [] => assert!(candidates.is_empty(), "{address:x} should be {candidates:?}"),
                [one] if one.raw_name.ends_with("@plt") => assert!(candidates.is_empty()),
                [one] if variable.is_some() => assert_eq!(Some(&one.raw_name), variable.as_ref()),
                [one] if candidates.is_empty() => {
                    // Only a symbol without size may cover this byte, and only the last one before it.
                    let before = functions.iter().filter(|f| f.0 <= *address).map(|f| f.0).max();
                    let of_name = functions.iter().find(|f| f.3 == one.raw_name).unwrap();
                    assert_eq!((Some(of_name.0), of_name.1), (before, 0), "{address:x} {one:?}");
                }
                [one] => assert!(candidates.contains(&one.raw_name.as_str()), "{address:x} {one:?}"),
                more => panic!("{more:?}"),
            }
        }
    }
}

#[test]
fn aliases_assembly_and_gaps_get_the_right_name() {
    let shop = Workshop::new();
    shop.write("prog.c", C_SOURCE);
    let Some(program) = shop.build("gcc", "prog.c", "prog", "-O2 -g") else { return };
    let Some(functions) = nm(&shop, &program, &[]) else { return };
    let start = |name: &str| functions.iter().find(|f| f.3 == name).unwrap().0;
    let raw_name = |address: u64| {
        let names = symbolize(&program, &[address]);
        names.locations[0].last().map(|location| location.raw_name.clone())
    };
    assert_eq!(raw_name(start("work")).as_deref(), Some("work"));
    assert_eq!(raw_name(start("sized_asm") + 2).as_deref(), Some("sized_asm"));
    assert_eq!(raw_name(start("sized_asm") + 3), None, "a sized function has ended");
    assert_eq!(raw_name(start("sized_asm") + 5), None, "a local label is no function");
    assert_eq!(raw_name(start("bare_asm") + 3).as_deref(), Some("bare_asm"));
    assert_eq!(raw_name(start("bare_label") + 2).as_deref(), Some("bare_label"));
    assert_eq!(raw_name(start("after_asm") + 1), None, "not the neighbour's");
    assert_eq!(symbolize(&program, &[start("f")]).locations[0].last().unwrap().name, "f");
}

#[test]
fn stubs_are_named_after_their_symbol() {
    let shop = Workshop::new();
    shop.write("prog.c", C_SOURCE);
    for flags in
        ["-O2", "-O2 -fcf-protection=full -Wl,-z,ibtplt", "-O2 -no-pie", "-O2 -Wl,-z,now", "-O2 -fno-plt"]
    {
        let Some(program) = shop.build("gcc", "prog.c", "prog", flags) else { return };
        let listing = shop.run("objdump", ["-d", "--no-show-raw-insn", "prog"]).unwrap();
        // `0000000000001030 <puts@plt>:`
        let stubs: Vec<(u64, &str)> = (listing.lines())
            .filter_map(|line| {
                let (address, name) = line.split_once(" <")?;
                let name = name.strip_suffix(">:")?;
                name.ends_with("@plt").then_some((u64::from_str_radix(address, 16).ok()?, name))
            })
            .collect();
        let addresses: Vec<u64> = stubs.iter().map(|(address, _)| address + 3).collect();
        assert!(addresses.is_sorted());
        let names = symbolize(&program, &addresses);
        for ((_, name), locations) in stubs.iter().zip(&names.locations) {
            assert_eq!(locations.len(), 1, "{flags} {name}");
            assert_eq!(locations[0].raw_name, *name, "{flags}");
        }
        assert!(flags.contains("no-plt") || stubs.len() >= 4);
    }
}

#[test]
fn stripped_programs_keep_exported_names_only() {
    let shop = Workshop::new();
    shop.write("prog.c", C_SOURCE);
    let Some(program) = shop.build("gcc", "prog.c", "lib.so", "-O2 -g -shared -fPIC") else { return };
    let Some(functions) = nm(&shop, &program, &[]) else { return };
    shop.run("strip", ["lib.so"]).unwrap();
    let start = |name: &str| functions.iter().find(|f| f.3 == name).unwrap().0;
    let (exported, hidden) = (start("f"), start("quiet"));
    let mut addresses = [exported, hidden];
    addresses.sort_unstable();
    let names = symbolize(&program, &addresses);
    assert_eq!(names.source, NameSource::Dynsym);
    let name_at = |address| {
        let index = addresses.iter().position(|&other| other == address).unwrap();
        names.locations[index].first().map(|location| location.raw_name.as_str())
    };
    assert_eq!(name_at(exported), Some("f"));
    assert_eq!(name_at(hidden), None);
}

#[test]
fn separate_debug_files_are_found_and_used() {
    let shop = Workshop::new();
    shop.write("prog.c", C_SOURCE);
    std::fs::create_dir_all(shop.path().join("usr/bin")).unwrap();
    for with_build_id in [false, true] {
        let flags = if with_build_id { "-O2 -g -Wl,--build-id=sha1" } else { "-O2 -g -Wl,--build-id=none" };
        let Some(whole) = shop.build("gcc", "prog.c", "whole", flags) else { return };
        let Some(functions) = nm(&shop, &whole, &[]) else { return };
        shop.run("objcopy", ["--only-keep-debug", "whole", "usr/bin/prog.debug"]).unwrap();
        shop.run(
            "objcopy",
            ["--strip-all", "--add-gnu-debuglink=usr/bin/prog.debug", "whole", "usr/bin/prog"],
        )
        .unwrap();
        let module = Arc::new(File::open(shop.path().join("usr/bin/prog")).unwrap());
        let find = |module: &Arc<File>, path: &str| {
            find_debug_file(shop.path(), Path::new(path), module, &Deadline::default())
        };
        let next_to = shop.path().join("usr/bin/prog.debug");
        let addresses = probes(&functions, 3);
        let expected = symbolize(&whole, &addresses);
        let limits = NamingLimits::default();

        let mut places =
            vec!["usr/bin/prog.debug", "usr/bin/.debug/prog.debug", "usr/lib/debug/usr/bin/prog.debug"];
        let by_id;
        let id = ElfFile::parse(Source::of_file(&module).unwrap(), &limits.elf).unwrap().build_id();
        if let Some(id) = &id {
            let hex: String = id.iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(hex.len(), 40);
            by_id = format!("usr/lib/debug/.build-id/{}/{}.debug", &hex[..2], &hex[2..]);
            places.push(&by_id);
        }
        let bytes = std::fs::read(&next_to).unwrap();
        std::fs::remove_file(&next_to).unwrap();
        for place in places {
            assert!(find(&module, "/usr/bin/prog").is_none());
            let place = shop.path().join(place);
            std::fs::create_dir_all(place.parent().unwrap()).unwrap();
            std::fs::write(&place, &bytes).unwrap();
            let found = find(&module, "/usr/bin/prog").unwrap();
            let names = symbolize_elf(&module, Some(&found), &addresses, &limits).unwrap();
            assert_eq!(names, expected, "{}", place.display());

            // A file with the same name but other contents is refused.
            let mut wrong = bytes.clone();
            let at = id.as_ref().and_then(|id| bytes.windows(id.len()).position(|window| window == id));
            wrong[at.unwrap_or(bytes.len() / 2)] ^= 1;
            std::fs::write(&place, &wrong).unwrap();
            assert!(find(&module, "/usr/bin/prog").is_none());
            std::fs::remove_file(&place).unwrap();
        }
        // A module with its own debug information needs no other file.
        std::fs::write(&next_to, &bytes).unwrap();
        assert!(find(&Arc::new(File::open(&whole).unwrap()), "/usr/bin/whole").is_none());
        std::fs::remove_file(&next_to).unwrap();
    }
}

#[test]
fn line_tables_only_get_whole_names_from_the_symbol_table() {
    let shop = Workshop::new();
    shop.write("prog.cc", CPP_SOURCE);
    let Some(program) = shop.build("clang++", "prog.cc", "prog", "-O1 -gline-tables-only") else { return };
    let Some(functions) = nm(&shop, &program, &[]) else { return };
    let total = functions.iter().find(|f| f.3.contains("BoxIiE5totalEv")).unwrap();
    let names = symbolize(&program, &[total.0]);
    let outermost = names.locations[0].last().unwrap();
    assert_eq!(outermost.raw_name, total.3);
    assert_eq!(outermost.name, "shop::Box<int>::total() const");
    assert!(outermost.line > 0);
}

#[test]
fn split_dwarf_is_said_and_symbols_are_used() {
    let shop = Workshop::new();
    shop.write("prog.c", C_SOURCE);
    let Some(program) = shop.build("gcc", "prog.c", "prog", "-O2 -g -gsplit-dwarf") else { return };
    let Some(functions) = nm(&shop, &program, &[]) else { return };
    let work = functions.iter().find(|f| f.3 == "work").unwrap();
    let names = symbolize(&program, &[work.0]);
    assert_eq!(names.problem, Some(DebugProblem::SplitDwarf));
    assert_eq!(names.locations[0][0].raw_name, "work");
}

#[test]
fn inline_depth_is_cut_but_the_owner_is_kept() {
    let shop = Workshop::new();
    shop.write("prog.c", C_SOURCE);
    let Some(program) = shop.build("gcc", "prog.c", "prog", "-O2 -g") else { return };
    let Some(functions) = nm(&shop, &program, &[]) else { return };
    let work = functions.iter().find(|f| f.3 == "work").unwrap();
    let addresses: Vec<u64> = (work.0..work.0 + work.1).collect();
    let file = File::open(&program).unwrap();
    let whole = symbolize_elf(&file, None, &addresses, &NamingLimits::default()).unwrap();
    let limits = NamingLimits { max_inline_depth: 2, ..NamingLimits::default() };
    let cut = symbolize_elf(&file, None, &addresses, &limits).unwrap();
    assert!(whole.locations.iter().any(|locations| locations.len() == 3));
    for (whole, cut) in whole.locations.iter().zip(&cut.locations) {
        assert_eq!(cut.len(), whole.len().min(2));
        assert_eq!((cut.first(), cut.last()), (whole.first(), whole.last()));
    }
}

#[test]
fn a_buffer_gives_the_same_names_as_a_file() {
    let shop = Workshop::new();
    shop.write("prog.c", C_SOURCE);
    let Some(program) = shop.build("gcc", "prog.c", "prog", "-O2 -g") else { return };
    let Some(functions) = nm(&shop, &program, &[]) else { return };
    let addresses = probes(&functions, 2);
    let bytes = std::fs::read(&program).unwrap();
    let from_bytes = symbolize_bytes(&bytes, &addresses, &NamingLimits::default()).unwrap();
    assert_eq!(from_bytes, symbolize(&program, &addresses));
    // Addresses may come in any order, and repeatedly.
    let twice: Vec<u64> = addresses.iter().rev().chain(&addresses).copied().collect();
    let again = symbolize_bytes(&bytes, &twice, &NamingLimits::default()).unwrap();
    assert!(again.locations.iter().eq(from_bytes.locations.iter().rev().chain(&from_bytes.locations)));
}

#[test]
fn several_threads_find_the_names_that_one_finds() {
    let shop = Workshop::new();
    shop.write("prog.rs", RUST_SOURCE);
    let Some(program) = shop.build("rustc", "prog.rs", "prog", "-Copt-level=2 -g") else { return };
    let Some(()) = shop.run("objcopy", ["--compress-debug-sections=zlib", "prog"]).map(|_| ()) else {
        return;
    };
    let Some(functions) = nm(&shop, &program, &[]) else { return };
    // With far more of them, one thread would come to the limit of what it copies for a unit.
    let addresses = probes(&functions, 61);
    assert!(addresses.len() > 1000, "{}", addresses.len());
    let bytes = std::fs::read(&program).unwrap();
    let by = |max_threads| {
        let (usual, memory) = (NamingLimits::default(), Arc::new(MemoryBudget::new(64 << 20)));
        let foreground = NamingLimits::of_foreground(&memory);
        let limits = if max_threads > 1 { foreground } else { usual };
        let limits = NamingLimits { max_threads, max_time: Duration::from_secs(600), ..limits };
        symbolize_bytes(&bytes, &addresses, &limits).unwrap()
    };
    let (one, three) = (by(1), by(3));
    assert!(one.locations.iter().any(|chain| chain.len() > 2), "inlined functions are among them");
    assert_eq!((one.problem, three.problem), (None, None));
    let differing = one.locations.iter().zip(&three.locations).filter(|(one, three)| one != three).count();
    assert_eq!((differing, one.locations.len()), (0, three.locations.len()));
}

#[test]
fn programs_of_32_bit_are_named() {
    let shop = Workshop::new();
    shop.write("bare.c", "int work(int x) { return x * 3; }\nint _start(void) { return work(4); }\n");
    // This needs no 32-bit C library.
    let flags = "-m32 -O1 -g -nostdlib -ffreestanding -fno-stack-protector -no-pie -fno-inline";
    let Some(program) = shop.build("gcc", "bare.c", "bare", flags) else { return };
    let Some(functions) = nm(&shop, &program, &[]) else { return };
    let work = functions.iter().find(|f| f.3 == "work").unwrap();
    let names = symbolize(&program, &[work.0]);
    assert_eq!((names.locations[0][0].raw_name.as_str(), names.locations[0][0].line), ("work", 1));
}

#[test]
fn functions_of_the_vdso_are_named() {
    let shop = Workshop::new();
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let Some(line) = maps.lines().find(|line| line.ends_with("[vdso]")) else { return };
    let (start, end) = line.split_whitespace().next().unwrap().split_once('-').unwrap();
    let (start, end) = (u64::from_str_radix(start, 16).unwrap(), u64::from_str_radix(end, 16).unwrap());
    let mut bytes = vec![0; (end - start) as usize];
    let memory = File::open("/proc/self/mem").unwrap();
    std::os::unix::fs::FileExt::read_exact_at(&memory, &mut bytes, start).unwrap();
    let vdso = shop.path().join("vdso.so");
    std::fs::write(&vdso, &bytes).unwrap();

    let Some(functions) = nm(&shop, &vdso, &["-D"]) else { return };
    let functions: Vec<_> = functions.into_iter().filter(|(_, size, ..)| *size > 0).collect();
    let addresses = probes(&functions, 16);
    let names = symbolize_bytes(&bytes, &addresses, &NamingLimits::default()).unwrap();
    for (address, locations) in addresses.iter().zip(&names.locations) {
        let is_right = |f: &NmFunction| {
            (f.0..f.0 + f.1).contains(address) && f.3.split('@').next() == Some(&locations[0].raw_name)
        };
        assert!(functions.iter().any(is_right), "{address:x} {locations:?}");
    }
    assert!(functions.iter().any(|f| f.3.starts_with("__vdso_clock_gettime")));
}
