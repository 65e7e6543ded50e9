//! Debug information outside the module, made by the usual tools: objcopy, dwz, the compilers' split DWARF, dwp and
//! llvm-dwp, and the packed symbol table as Fedora's find-debuginfo makes it.

use super::llvm::probes;
use super::program::{
    C_SOURCE, CPP_SOURCE, ElfNames, NmFunction, Workshop, nm, symbolize_elf, symbolize_files,
};
use crate::base::deadline::Deadline;
use crate::elf::ElfFile;
use crate::elf::source::Source;
use crate::symbols::*;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The names found for a module at `path` below `root`, and the files they came from.
fn names_of(root: &Path, path: &str, folders: &[PathBuf], addresses: &[u64]) -> (ElfNames, Found) {
    let file = Arc::new(File::open(root.join(path.trim_start_matches('/'))).unwrap());
    let searched = Searched { path: Path::new(path), file: Some(&file), build_id: &[] };
    let files = DebugFiles::find(&Bases::new(root, folders), &searched, &Deadline::default());
    let path = |found: &Option<FoundFile>| found.as_ref().map(|found| found.path.display().to_string());
    let mut found = Found {
        debug: path(&files.debug),
        shared: path(&files.shared),
        package: path(&files.package),
        refused: Vec::new(),
        missing: Vec::new(),
    };
    let (names, refused, missing) = symbolize_files(&file, files, addresses);
    (found.refused, found.missing) = (refused, missing);
    (names, found)
}

/// Where files were found, and which were not used or not found.
#[derive(Debug, PartialEq, Eq)]
struct Found {
    debug: Option<String>,
    shared: Option<String>,
    package: Option<String>,
    refused: Vec<String>,
    missing: Vec<String>,
}

fn whole(program: &Path, addresses: &[u64]) -> ElfNames {
    symbolize_elf(&File::open(program).unwrap(), None, addresses, &NamingLimits::default()).unwrap()
}

fn sized(shop: &Workshop, program: &Path) -> Option<Vec<NmFunction>> {
    Some(nm(shop, program, &[])?.into_iter().filter(|(_, size, ..)| *size > 0).collect())
}

fn move_to(from: &Path, to: &Path) {
    std::fs::create_dir_all(to.parent().unwrap()).unwrap();
    std::fs::rename(from, to).unwrap();
}

fn build_id(path: &Path) -> String {
    let source = Source::of_file(&Arc::new(File::open(path).unwrap())).unwrap();
    let id = ElfFile::parse(source, &NamingLimits::default().elf).unwrap().build_id().unwrap();
    id.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Makes two programs whose common debug information dwz has moved into a third file.
fn shared_by_dwz(shop: &Workshop, flags: &str) -> Option<(Vec<u64>, ElfNames)> {
    shop.write("one.cc", CPP_SOURCE);
    shop.write("two.cc", &CPP_SOURCE.replace("counts[key]++", "counts[key]--"));
    let flags = format!("-O2 -g {flags} -Wl,--build-id=sha1");
    let one = shop.build("g++", "one.cc", "one", &flags)?;
    shop.build("g++", "two.cc", "two", &flags)?;
    let addresses = probes(&sized(shop, &one)?, 1);
    let expected = whole(&one, &addresses);
    // As debhelper does: first the separate debug files, then the file with their common parts.
    std::fs::create_dir_all(shop.path().join("usr/lib/debug/.dwz")).unwrap();
    std::fs::create_dir_all(shop.path().join("usr/bin")).unwrap();
    for name in ["one", "two"] {
        let debug = format!("usr/lib/debug/{name}.debug");
        shop.run("objcopy", ["--only-keep-debug", name, &debug])?;
        let stripped = format!("usr/bin/{name}");
        shop.run("objcopy", ["--strip-all", name, &stripped])?;
    }
    let common = "usr/lib/debug/.dwz/common.debug";
    let shown = "-M/usr/lib/debug/.dwz/common.debug";
    let debug = ["usr/lib/debug/one.debug", "usr/lib/debug/two.debug"];
    shop.run("dwz", ["-m", common, shown, debug[0], debug[1]])?;
    let id = build_id(&one);
    let by_id = format!("usr/lib/debug/.build-id/{}/{}.debug", &id[..2], &id[2..]);
    move_to(&shop.path().join(debug[0]), &shop.path().join(by_id));
    Some((addresses, expected))
}

#[test]
fn what_modules_share_by_dwz_is_found_and_read() {
    for flags in ["-gdwarf-4", "-gdwarf-5"] {
        let shop = Workshop::new();
        let Some((addresses, expected)) = shared_by_dwz(&shop, flags) else { return };
        let common = shop.path().join("usr/lib/debug/.dwz/common.debug");
        let id = build_id(&common);
        let (names, found) = names_of(shop.path(), "/usr/bin/one", &[], &addresses);
        assert_eq!((names.source, names.problem), (NameSource::Dwarf, None), "{flags} {found:?}");
        assert_eq!(found.shared.as_deref(), Some("/usr/lib/debug/.dwz/common.debug"));
        assert_same(&names, &expected, &addresses, flags);

        // Found by its build ID, and in a folder named by the user.
        let by_id = format!("usr/lib/debug/.build-id/{}/{}.debug", &id[..2], &id[2..]);
        move_to(&common, &shop.path().join(&by_id));
        let (names, found) = names_of(shop.path(), "/usr/bin/one", &[], &addresses);
        assert_eq!((names == expected, found.shared), (true, Some(format!("/{by_id}"))));
        let folder = shop.path().join("elsewhere");
        move_to(&shop.path().join(&by_id), &folder.join("common.debug"));
        let (names, found) = names_of(shop.path(), "/usr/bin/one", std::slice::from_ref(&folder), &addresses);
        assert!(names == expected && found.shared.unwrap().ends_with("elsewhere/common.debug"));

        // Without the file some names are missing, and the problem is reported.
        let (names, found) = names_of(shop.path(), "/usr/bin/one", &[], &addresses);
        assert_eq!((names.problem, found.shared), (Some(DebugProblem::SharedFile), None));
        assert!(names.locations.iter().filter(|locations| !locations.is_empty()).count() > 100);

        // A file from another build is refused, with both IDs in the message.
        let mut bytes = std::fs::read(folder.join("common.debug")).unwrap();
        let raw: Vec<u8> =
            (0..id.len()).step_by(2).map(|at| u8::from_str_radix(&id[at..at + 2], 16).unwrap()).collect();
        let at = bytes.windows(raw.len()).position(|window| window == raw).unwrap();
        bytes[at] ^= 0xff;
        std::fs::write(&common, bytes).unwrap();
        let (names, found) = names_of(shop.path(), "/usr/bin/one", &[], &addresses);
        assert_eq!(names.problem, Some(DebugProblem::SharedFile));
        let refused = found.refused.concat();
        assert!(
            refused.contains(&id) && refused.contains(&format!("{:02x}{}", raw[0] ^ 0xff, &id[2..])),
            "{refused}"
        );
    }
}

fn assert_same(names: &ElfNames, expected: &ElfNames, addresses: &[u64], what: &str) {
    let mut pairs = addresses.iter().zip(names.locations.iter().zip(&expected.locations));
    let difference = pairs.find(|(_, (ours, expected))| ours != expected);
    assert!(difference.is_none(), "{what}: {difference:#x?}");
}

/// Builds a program of two files whose functions are in `.dwo` files; returns the names found without those.
fn split(shop: &Workshop, compiler: &str, flags: &str) -> Option<(Vec<u64>, ElfNames)> {
    shop.write("main.c", C_SOURCE);
    shop.write(
        "more.c",
        "static inline __attribute__((always_inline)) int twice(int x) { return x * 2 + x % 7; }\n\
         __attribute__((noinline)) int more(int x) { return twice(x) ^ twice(x + 1); }\n",
    );
    let build = |flags: &str, name: &str| {
        for source in ["main", "more"] {
            let args = format!("-c {flags} {source}.c -o {source}.o");
            shop.run(compiler, args.split_whitespace())?;
        }
        shop.run(compiler, ["-o", name, "main.o", "more.o"])
    };
    build(&format!("-O2 -g {flags}"), "whole")?;
    let whole_program = shop.path().join("whole");
    let functions = sized(shop, &whole_program)?;
    let addresses = probes(&functions, 1);
    let expected = whole(&whole_program, &addresses);
    build(&format!("-O2 -g -gsplit-dwarf {flags}"), "prog")?;
    assert_eq!(sized(shop, &shop.path().join("prog"))?, functions, "the same code");
    assert!(expected.locations.iter().any(|locations| locations.len() > 2));
    Some((addresses, expected))
}

#[test]
fn functions_in_files_of_split_dwarf_are_found_and_read() {
    for (compiler, flags) in
        [("gcc", "-gdwarf-4"), ("gcc", "-gdwarf-5"), ("clang", "-gdwarf-4"), ("clang", "-gdwarf-5")]
    {
        let what = format!("{compiler} {flags}");
        let shop = Workshop::new();
        let Some((addresses, expected)) = split(&shop, compiler, flags) else { continue };
        let program = shop.path().join("prog");
        let path = program.to_str().unwrap();
        // Where the compiler put them.
        let (names, found) = names_of(Path::new("/"), path, &[], &addresses);
        assert_eq!((names.problem, found.missing.len()), (None, 0), "{what} {found:?}");
        assert_same(&names, &expected, &addresses, &what);

        // Next to the module.
        let moved = shop.path().join("bin/prog");
        move_to(&program, &moved);
        for name in ["main.dwo", "more.dwo"] {
            move_to(&shop.path().join(name), &shop.path().join("bin").join(name));
        }
        let path = moved.to_str().unwrap();
        let (names, _) = names_of(Path::new("/"), path, &[], &addresses);
        assert_same(&names, &expected, &addresses, &what);

        // In a folder named by the user.
        let folder = shop.path().join("dwo");
        for name in ["main.dwo", "more.dwo"] {
            move_to(&shop.path().join("bin").join(name), &folder.join(name));
        }
        let folders = std::slice::from_ref(&folder);
        let (names, _) = names_of(Path::new("/"), path, folders, &addresses);
        assert_same(&names, &expected, &addresses, &what);

        // Without them there are symbols and lines, and the problem is reported.
        let (names, found) = names_of(Path::new("/"), path, &[], &addresses);
        assert_eq!(names.problem, Some(DebugProblem::SplitDwarf), "{what}");
        assert_eq!(found.missing.len(), 2, "{what} {found:?}");
        let outermost = |names: &ElfNames| -> Vec<Option<String>> {
            names.locations.iter().map(|it| it.last().map(|last| last.raw_name.clone())).collect()
        };
        assert_eq!(outermost(&names), outermost(&expected), "{what}");

        // A file from another build is refused, with both IDs in the message.
        std::fs::copy(folder.join("more.dwo"), folder.join("main.dwo")).unwrap();
        let (names, found) = names_of(Path::new("/"), path, folders, &addresses);
        assert_eq!(names.problem, Some(DebugProblem::SplitDwarf), "{what}");
        assert!(found.refused.iter().any(|line| line.contains("it holds unit")), "{what} {found:?}");
        assert!(!found.refused.concat().contains("0000000000000000"), "{what} {found:?}");
    }
}

#[test]
fn packages_of_split_dwarf_are_found_and_read() {
    for (compiler, flags, packer) in [
        ("gcc", "-gdwarf-4", "dwp"),
        ("gcc", "-gdwarf-4", "llvm-dwp"),
        ("clang", "-gdwarf-4", "llvm-dwp"),
        ("clang", "-gdwarf-5", "llvm-dwp"),
    ] {
        let what = format!("{compiler} {flags} {packer}");
        let shop = Workshop::new();
        let Some((addresses, expected)) = split(&shop, compiler, flags) else { continue };
        if shop.run(packer, ["-e", "prog", "-o", "prog.dwp"]).is_none() {
            continue;
        }
        std::fs::remove_file(shop.path().join("main.dwo")).unwrap();
        std::fs::remove_file(shop.path().join("more.dwo")).unwrap();
        let program = shop.path().join("prog");
        let path = program.to_str().unwrap();
        let (names, found) = names_of(Path::new("/"), path, &[], &addresses);
        assert_eq!((names.problem, found.package), (None, Some(format!("{path}.dwp"))), "{what}");
        assert_same(&names, &expected, &addresses, &what);

        let folder = shop.path().join("named");
        move_to(&shop.path().join("prog.dwp"), &folder.join("prog.dwp"));
        let (names, _) = names_of(Path::new("/"), path, &[folder], &addresses);
        assert_same(&names, &expected, &addresses, &what);
    }
}

/// Strips a program as Fedora does, except for the part of its symbol table that `pack` puts into `.gnu_debugdata`.
fn with_mini_debuginfo(shop: &Workshop, pack: &str) -> Option<(PathBuf, Vec<NmFunction>)> {
    shop.write("prog.c", C_SOURCE);
    let program = shop.build("gcc", "prog.c", "prog", "-O2 -g -rdynamic")?;
    let functions = sized(shop, &program)?;
    shop.run("xz", ["--version"])?;
    // As in find-debuginfo.sh of rpm.
    let script = format!(
        "set -e
        nm -D prog --format=posix --defined-only | awk '{{ print $1 }}' | sort > dynsyms
        nm prog --format=posix --defined-only \
            | awk '{{ if ($2 == \"T\" || $2 == \"t\" || $2 == \"D\") print $1 }}' | sort > funcsyms
        comm -13 dynsyms funcsyms > keep_symbols
        objcopy --only-keep-debug prog prog.debug
        objcopy -S --remove-section .gdb_index --remove-section .comment --keep-symbols=keep_symbols \
            prog.debug mini_debuginfo
        strip --strip-all -R .comment prog
        rm -f mini_debuginfo.xz
        {pack}
        objcopy --add-section .gnu_debugdata=mini_debuginfo.xz prog"
    );
    shop.run("sh", ["-c", &script])?;
    Some((program, functions))
}

#[test]
fn the_packed_symbol_table_of_fedora_names_all_functions() {
    let shop = Workshop::new();
    let Some((program, functions)) = with_mini_debuginfo(&shop, "xz mini_debuginfo") else { return };
    let addresses: Vec<u64> = functions.iter().map(|(start, ..)| *start).collect();
    let names = whole(&program, &addresses);
    assert_eq!((names.source, names.problem), (NameSource::Mini, None));
    for (function, locations) in functions.iter().zip(&names.locations) {
        let same_start = |other: &&NmFunction| other.0 == function.0;
        let aliases: Vec<&str> = functions.iter().filter(same_start).map(|it| it.3.as_str()).collect();
        let name = locations.first().map(|location| location.raw_name.as_str());
        assert!(name.is_some_and(|name| aliases.contains(&name)), "{function:?} {locations:?}");
    }
    assert!(functions.iter().any(|function| function.3 == "quiet"), "one that is not exported");
}

#[test]
fn packed_symbol_tables_that_swell_are_refused_and_exported_names_are_used() {
    for (pack, what) in [
        ("head -c 300000000 /dev/zero | xz -1 > mini_debuginfo.xz", "a bomb"),
        ("xz --lzma2=preset=1,dict=256MiB mini_debuginfo", "a dictionary of 256 MiB"),
        ("head -c 100000 /dev/urandom > mini_debuginfo.xz", "noise"),
        ("xz -c mini_debuginfo | head -c 200 > mini_debuginfo.xz", "a cut file"),
        ("echo no ELF | xz > mini_debuginfo.xz", "a text"),
    ] {
        let shop = Workshop::new();
        let Some((program, functions)) = with_mini_debuginfo(&shop, pack) else { return };
        let exported = functions.iter().find(|function| function.3 == "f").unwrap();
        let hidden = functions.iter().find(|function| function.3 == "quiet").unwrap();
        let names = whole(&program, &[exported.0, hidden.0]);
        assert_eq!(names.source, NameSource::Dynsym, "{what}");
        assert_eq!(names.locations[0][0].raw_name, "f", "{what}");
        assert_eq!(names.locations[1], [], "{what}");
        assert!(names.symbol_problem.is_some(), "{what}");
    }
}

/// Makes a stripped program in `usr/bin` and its debug file, with the names of the whole program.
fn stripped(shop: &Workshop) -> Option<(Vec<u64>, ElfNames, PathBuf)> {
    shop.write("prog.c", C_SOURCE);
    let program = shop.build("gcc", "prog.c", "whole", "-O2 -g -Wl,--build-id=sha1")?;
    let addresses = probes(&sized(shop, &program)?, 1);
    let expected = whole(&program, &addresses);
    std::fs::create_dir_all(shop.path().join("usr/bin")).unwrap();
    shop.run("objcopy", ["--only-keep-debug", "whole", "prog.debug"])?;
    shop.run("objcopy", ["--strip-all", "--add-gnu-debuglink=prog.debug", "whole", "usr/bin/prog"])?;
    Some((addresses, expected, shop.path().join("prog.debug")))
}

#[test]
fn debug_files_are_found_in_folders_that_are_named() {
    let shop = Workshop::new();
    let Some((addresses, expected, debug)) = stripped(&shop) else { return };
    let id = build_id(&debug);
    let bytes = std::fs::read(&debug).unwrap();
    let folder = shop.path().join("named");
    let folders = std::slice::from_ref(&folder);
    for place in [
        format!(".build-id/{}/{}.debug", &id[..2], &id[2..]),
        format!("usr/lib/debug/.build-id/{}/{}.debug", &id[..2], &id[2..]),
        format!("{id}/debuginfo"),
        "prog.debug".to_owned(),
        "usr/bin/prog.debug".to_owned(),
        "prog".to_owned(),
        "usr/bin/prog".to_owned(),
    ] {
        let path = folder.join(&place);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &bytes).unwrap();
        let (names, found) = names_of(shop.path(), "/usr/bin/prog", folders, &addresses);
        assert_eq!(found.debug.as_deref(), path.to_str(), "{place}");
        assert_same(&names, &expected, &addresses, &place);
        std::fs::remove_file(&path).unwrap();
    }
    // The module itself is missing: its debug file names the addresses alone.
    let path = folder.join(".build-id").join(&id[..2]).join(format!("{}.debug", &id[2..]));
    std::fs::write(&path, &bytes).unwrap();
    let raw: Vec<u8> =
        (0..id.len()).step_by(2).map(|at| u8::from_str_radix(&id[at..at + 2], 16).unwrap()).collect();
    let searched = Searched { path: Path::new("/gone/prog"), file: None, build_id: &raw };
    let files = DebugFiles::find(&Bases::new(Path::new("/"), folders), &searched, &Deadline::default());
    let names = whole(&files.debug.unwrap().path, &addresses);
    assert_same(&names, &expected, &addresses, "by the debug file alone");
}

#[test]
fn what_is_no_debug_file_of_this_build_is_refused_with_one_line() {
    let shop = Workshop::new();
    let Some((addresses, expected, debug)) = stripped(&shop) else { return };
    let id = build_id(&debug);
    let by_id = shop.path().join(format!("usr/lib/debug/.build-id/{}/{}.debug", &id[..2], &id[2..]));
    let linked = shop.path().join("usr/bin/prog.debug");
    std::fs::create_dir_all(by_id.parent().unwrap()).unwrap();
    let other = shop.build("gcc", "prog.c", "other", "-O1 -g -Wl,--build-id=sha1").unwrap();
    let other_id = build_id(&other);
    let sparse = |path: &Path| File::create(path).unwrap().set_len(1 << 40).unwrap();
    let sparse_elf = |path: &Path| {
        std::fs::copy(&debug, path).unwrap();
        File::options().write(true).open(path).unwrap().set_len(1 << 40).unwrap();
    };
    let fifo = |path: &Path| {
        rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
    };
    let circle = |path: &Path| std::os::unix::fs::symlink(path.file_name().unwrap(), path).unwrap();
    let copy = |path: &Path| {
        std::fs::copy(&other, path).unwrap();
    };
    let cut = |path: &Path| std::fs::write(path, &std::fs::read(&debug).unwrap()[..3000]).unwrap();
    type Maker<'m> = &'m dyn Fn(&Path);
    let cases: [(Maker<'_>, &str); 6] = [
        (&copy, "it is of build"),
        (&sparse, "not an ELF file"),
        (&fifo, "no regular file"),
        (&circle, "in a circle"),
        (&cut, "malformed ELF file"),
        (&|path| std::fs::write(path, "text").unwrap(), "not an ELF file"),
    ];
    for (make, why) in cases {
        for path in [&by_id, &linked] {
            make(path);
        }
        let (_, found) = names_of(shop.path(), "/usr/bin/prog", &[], &addresses);
        assert_eq!((found.debug, found.refused.len()), (None, 2), "{why} {:?}", found.refused);
        for line in &found.refused {
            assert!(line.contains(why) && !line.contains('\n'), "{line}");
            assert!(why != "it is of build" || line.contains(&id) && line.contains(&other_id), "{line}");
        }
        for path in [&by_id, &linked] {
            std::fs::remove_file(path).unwrap();
        }
    }
    // The right file is used, however long the hole after it; a wrong file in one place does not hide the right one in
    // another.
    circle(&by_id);
    sparse_elf(&linked);
    let (names, found) = names_of(shop.path(), "/usr/bin/prog", &[], &addresses);
    assert_eq!((found.debug.as_deref(), found.refused.len()), (Some("/usr/bin/prog.debug"), 1));
    assert_same(&names, &expected, &addresses, "a hole of 1 TB");
}

#[test]
fn sections_that_linkers_pack_are_read() {
    let shop = Workshop::new();
    shop.write("prog.c", C_SOURCE);
    for linker in ["lld", "gold", "bfd"] {
        for packing in ["zlib", "zlib-gnu", "zstd"] {
            let link = |name: &str, more: &str| {
                let script = format!("gcc -O2 -g -fuse-ld={linker} {more} prog.c -o {name} || echo refused");
                shop.run("sh", ["-c", &script]).filter(|said| !said.contains("refused"))
            };
            let packed = format!("-Wl,--compress-debug-sections={packing}");
            // Not every linker supports every compression.
            if link("plain", "").is_none() || link("packed", &packed).is_none() {
                continue;
            }
            let plain = shop.path().join("plain");
            let addresses = probes(&sized(&shop, &plain).unwrap(), 1);
            let (names, expected) =
                (whole(&shop.path().join("packed"), &addresses), whole(&plain, &addresses));
            assert_eq!(names.problem, None, "{linker} {packing}");
            assert_same(&names, &expected, &addresses, &format!("{linker} {packing}"));
        }
    }
}
