//! Compiled unwind tables against gimli's own lookup and against readelf, on the system's libraries.
//!
//! Every row boundary of 50 files and its neighbours; `PROF_UNWIND_FILES=a:b:c` replaces the list of files, and
//! `PROF_UNWIND_ALL=1` adds the largest ones (compilers, browsers), which take most of a minute.

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::support::{run, run_well, skip};
use crate::unwind::rule::RbpKind;
use crate::unwind::{
    CfiSections, ElfImage, Limits, Rule, RuleKind, Table, compile, compile_first, compile_sections,
};
use object::{Object, ObjectSection};
use rayon::prelude::*;

mod oracle;

/// Files that matter most, by command or library name; those that are missing are named.
const WANTED: [&str; 36] = [
    "bash",
    "python3",
    "node",
    "postgres",
    "sqlite3",
    "git",
    "perl",
    "gcc",
    "cc1",
    "cc1plus",
    "clang",
    "readelf",
    "ld.lld",
    "mold",
    "openssl",
    "gdb",
    "chromium",
    "libc.so.6",
    "ld-linux-x86-64.so.2",
    "libm.so.6",
    "libcrypto.so.3",
    "libssl.so.3",
    "libstdc++.so.6",
    "libgcc_s.so.1",
    "libz.so.1",
    "libzstd.so.1",
    "libsqlite3.so.0",
    "libpython3.11.so.1.0",
    "libLLVM-14.so.1",
    "libclang-cpp.so.14",
    "libgmp.so.10",
    "libgcrypt.so.20",
    "libnettle.so.8",
    "libavcodec.so.59",
    "libx264.so.164",
    "libdav1d.so.6",
];

/// Files with more bytes are compared only if all are asked for.
const LARGE_BYTES: u64 = 12 << 20;

/// Files that are compared at least.
const LEAST_FILES: usize = 50;

/// The wanted files, and libraries of the system in alphabetical order until there are enough.
fn files() -> Vec<PathBuf> {
    if let Some(list) = std::env::var_os("PROF_UNWIND_FILES") {
        return std::env::split_paths(&list).collect();
    }
    let mut folders: Vec<PathBuf> =
        ["/usr/bin", "/usr/lib/x86_64-linux-gnu", "/usr/lib64", "/usr/lib", "/usr/lib/chromium"]
            .map(PathBuf::from)
            .to_vec();
    for (parent, below) in
        [("/usr/lib/gcc/x86_64-linux-gnu", ""), ("/usr/lib/postgresql", "bin"), ("/usr/lib", "bin")]
    {
        let entries = std::fs::read_dir(parent).into_iter().flatten().flatten();
        folders.extend(entries.map(|entry| entry.path().join(below)).filter(|path| path.is_dir()));
    }
    let takes_all = std::env::var_os("PROF_UNWIND_ALL").is_some();
    let is_left_out =
        |path: &Path| !takes_all && std::fs::metadata(path).is_ok_and(|facts| facts.len() > LARGE_BYTES);
    let mut files: Vec<PathBuf> = Vec::new();
    let mut add = |path: &Path| {
        let Ok(path) = path.canonicalize() else { return false };
        let is_usable = is_elf_with_entries(&path);
        if is_usable && !files.contains(&path) && !is_left_out(&path) {
            files.push(path);
        }
        is_usable
    };
    for name in WANTED {
        if !folders.iter().any(|folder| add(&folder.join(name))) {
            println!("{name}: not installed, or not an ELF file with entries");
        }
    }
    let libraries = std::fs::read_dir("/usr/lib/x86_64-linux-gnu").into_iter().flatten().flatten();
    let mut libraries: Vec<PathBuf> = libraries.map(|entry| entry.path()).collect();
    libraries.retain(|path| std::fs::metadata(path).is_ok_and(|facts| facts.len() > 100_000));
    libraries.sort();
    for path in libraries {
        if files.len() >= LEAST_FILES + 5 {
            break;
        }
        if is_elf_with_entries(&path)
            && let Ok(path) = path.canonicalize()
            && !files.contains(&path)
            && !is_left_out(&path)
        {
            files.push(path);
        }
    }
    files
}

fn is_elf_with_entries(path: &Path) -> bool {
    let Ok(file) = File::open(path) else { return false };
    if !file.metadata().is_ok_and(|facts| facts.is_file()) {
        return false;
    }
    let image = ElfImage::open(&file, &Limits::default().elf);
    image.is_ok_and(|image| image.section(b".eh_frame_hdr").is_some_and(|section| section.size > 64))
}

fn table_of(path: &Path) -> Table {
    let file = File::open(path).unwrap();
    let limits = Limits::default();
    let image = ElfImage::open(&file, &limits.elf).unwrap();
    compile(&image, &limits).unwrap()
}

/// All addresses where a row begins, and their neighbours.
fn boundaries(table: &Table) -> Vec<u64> {
    let mut addresses = Vec::with_capacity(3 * table.rows.len());
    for (index, page) in table.pages.iter().enumerate() {
        let base = (table.first_page + index as u64) << 16;
        for row in &table.rows[page.first as usize..][..page.count as usize] {
            let address = base + u64::from(row.pc_low);
            addresses.extend([address.wrapping_sub(1), address, address + 1]);
        }
    }
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

#[test]
fn rows_are_sorted_inside_pages_that_start_with_a_row() {
    for path in files() {
        let table = table_of(&path);
        for page in &table.pages {
            let rows = &table.rows[page.first as usize..][..page.count as usize];
            assert!(rows.first().is_none_or(|row| row.pc_low == 0), "{}", path.display());
            assert!(rows.is_sorted_by(|a, b| a.pc_low < b.pc_low), "{}", path.display());
            assert!(rows.windows(2).all(|pair| pair[0].rule != pair[1].rule), "{}", path.display());
            assert!(rows.iter().all(|row| usize::from(row.rule) < table.rules.len()));
        }
    }
}

/// `readelf` decodes call frame information with code of its own.
#[test]
fn rows_say_what_readelf_says() {
    let mut files = files();
    let names = ["libc.so.6", "libz.so.1", "libcrypto.so.3", "libgcc_s.so.1", "libstdc++.so.6", "bash"];
    let chosen = names.map(|name| Path::new("/usr/lib/x86_64-linux-gnu").join(name).canonicalize());
    files.retain(|path| path.ends_with("bash") || chosen.iter().flatten().any(|chosen| chosen == path));
    for path in files {
        let mut command = Command::new("readelf");
        let Some(output) = run(command.arg("--debug-dump=frames-interp").arg(&path)) else { return };
        let table = table_of(&path);
        // What libgcc's entries say of the functions that go on where an exception is caught is wrong.
        let is_libgcc = path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("libgcc_s"));
        let is_replaced = |line: &str| {
            let range = line.split_once("pc=").and_then(|(_, range)| range.trim().split_once(".."));
            let (start, end) = range.expect("readelf prints the range");
            let number = |digits| u64::from_str_radix(digits, 16).unwrap();
            is_libgcc && (number(start)..number(end)).any(|pc| table.lookup(pc).kind == RuleKind::Landing)
        };
        let text = String::from_utf8_lossy(&output.stdout);
        let mut columns: Vec<&str> = Vec::new();
        let mut compared = 0;
        let mut in_fde = false;
        for line in text.lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            if line.contains(" CIE ") || line.contains(" FDE ") {
                in_fde = line.contains(" FDE ") && !is_replaced(line);
            } else if words.first() == Some(&"LOC") {
                columns = words;
            } else if in_fde && words.len() == columns.len() && words[0].len() == 16 {
                let pc = u64::from_str_radix(words[0], 16).unwrap();
                let column =
                    |name: &str| columns.iter().position(|column| *column == name).map(|at| words[at]);
                compared += usize::from(agrees_with_readelf(table.lookup(pc), pc, &column));
            }
        }
        println!("{}: {compared} rows agree with readelf", path.display());
        assert!(compared > 100);
    }
}

fn agrees_with_readelf<'a>(rule: Rule, pc: u64, column: &impl Fn(&str) -> Option<&'a str>) -> bool {
    let (Some(cfa), Some(ra)) = (column("CFA"), column("ra")) else { return false };
    if ra == "u" {
        assert_eq!(rule, Rule::STOP, "at {pc:#x}");
        return true;
    }
    // Two rows at one address (a zero advance): the later one counts, which readelf prints second.
    let Some((register, offset)) = cfa.split_once('+') else { return false };
    let number = match register {
        "rsp" => 7,
        "rbp" => 6,
        _ => return false,
    };
    if ra != "c-8" {
        return false;
    }
    let offset: i32 = offset.parse().unwrap();
    assert_eq!((rule.kind, rule.cfa_reg, rule.cfa_off), (RuleKind::Reg, number, offset), "at {pc:#x}");
    match column("rbp") {
        Some(saved) if saved.starts_with("c-") => {
            let saved: i32 = saved[1..].parse().unwrap();
            if number == 7 && offset + saved < 0 {
                assert_eq!(rule.rbp_kind, RbpKind::Same, "at {pc:#x}");
            } else {
                assert_eq!((rule.rbp_kind, rule.rbp_off), (RbpKind::AtCfa, saved), "at {pc:#x}");
            }
        }
        None | Some("u" | "s") => assert_eq!(rule.rbp_kind, RbpKind::Same, "at {pc:#x}"),
        Some(_) => return false,
    }
    true
}

/// Rules found by following instructions, on programs whose entries say what they should be: a copy
/// without entries must not contradict the original.
#[test]
fn rules_from_instructions_agree_with_the_entries_that_were_removed() {
    let folder = tempfile::tempdir().unwrap();
    for path in ["/bin/bash", "/usr/lib/x86_64-linux-gnu/libcrypto.so.3"].map(Path::new) {
        if !path.exists() {
            skip::<()>(&format!("{} is not there", path.display()));
            continue;
        }
        let bare = folder.path().join("bare");
        let remove = ["-R", ".eh_frame", "-R", ".eh_frame_hdr"];
        let mut command = Command::new("objcopy");
        if run_well(command.args(remove).arg(path).arg(&bare)).is_none() {
            return;
        }
        let (full, bare) = (table_of(path), table_of(&bare));
        let (mut same, mut wrong, mut unknown) = (0, 0, 0);
        let mut shown = 0;
        let file = std::fs::read(path).unwrap();
        let object = object::File::parse(&file[..]).unwrap();
        let text = object.section_by_name(".text").unwrap();
        let code = text.data().unwrap();
        for pc in boundaries(&full) {
            // Only starts of instructions that run: not what pads functions, nor the middle of one.
            let at = pc.checked_sub(text.address()).and_then(|at| code.get(at as usize..));
            let is_padding = |code: &[u8]| {
                code.starts_with(&[0x0f, 0x1f]) || code.starts_with(&[0x66]) || code.starts_with(&[0x90])
            };
            if !is_row_start(&full, pc) || at.is_none_or(is_padding) {
                continue;
            }
            let (said, followed) = (full.lookup(pc), bare.lookup(pc));
            if said.kind != RuleKind::Reg {
                continue;
            }
            if followed.kind != RuleKind::Reg {
                unknown += 1;
            } else if is_same_frame(said, followed) {
                same += 1;
            } else {
                wrong += 1;
                if shown < 10 {
                    shown += 1;
                    println!("{} {pc:#x}: {said:?} but {followed:?}", path.display());
                }
            }
        }
        println!("{}: {same} agree, {wrong} do not, {unknown} are not claimed", path.display());
        assert!(wrong * 1000 <= same, "{}: {wrong} wrong of {same}", path.display());
        assert!(same > unknown, "{}: only {same} of {} claimed", path.display(), same + unknown);
    }
}

fn is_row_start(table: &Table, address: u64) -> bool {
    address & 0xffff != 0 && table.lookup(address) != table.lookup(address - 1)
}

/// The same place may be given relative to rsp or rbp, which only the code around can tell. To say that rbp is lost
/// claims less than the entry does.
fn is_same_frame(said: Rule, followed: Rule) -> bool {
    let is_rbp_same = (said.rbp_kind, said.rbp_off) == (followed.rbp_kind, followed.rbp_off);
    let is_claimed = followed.rbp_kind != RbpKind::Lost;
    (is_rbp_same || !is_claimed) && (said.cfa_reg != followed.cfa_reg || said.cfa_off == followed.cfa_off)
}

/// glibc's dynamic linker has no unwind entry for the first code of every process.
#[test]
fn the_entry_of_the_dynamic_linker_is_a_root() {
    let own = ElfImage::open(&File::open("/proc/self/exe").unwrap(), &Limits::default().elf).unwrap();
    let Some(interpreter) = own.interpreter() else {
        skip::<()>("the tests are linked statically");
        return;
    };
    let image = ElfImage::open(&File::open(interpreter).unwrap(), &Limits::default().elf).unwrap();
    let table = compile(&image, &Limits::default()).unwrap();
    assert_eq!(table.lookup(image.entry()), Rule::STOP);
    // A return address from the first call: up to there nothing was pushed.
    assert_eq!(table.lookup(image.entry() + 7), Rule::STOP);
}

/// The unwind entry of `_start`, written for C, describes it like any other function, so the word at its return address
/// is a plain number.
#[test]
fn the_entry_of_a_program_is_a_root_and_that_of_a_library_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("start.c");
    std::fs::write(
        &source,
        "volatile int n; void work(void) { n++; } void _start(void) { for (;;) work(); }",
    )
    .unwrap();
    let program: &[&str] = &["-static"];
    let pie: &[&str] = &["-static-pie", "-fPIE"];
    let library: &[&str] = &["-shared", "-fPIC", "-Wl,-e,_start,-soname,libstart.so"];
    for (options, is_program) in [(program, true), (pie, true), (library, false)] {
        let file = folder.path().join("file");
        let mut command = Command::new("cc");
        command.args(["-O2", "-fno-inline", "-nostartfiles", "-nostdlib"]).args(options);
        if run_well(command.arg("-o").arg(&file).arg(&source)).is_none() {
            return;
        }
        let entry = ElfImage::open(&File::open(&file).unwrap(), &Limits::default().elf).unwrap().entry();
        let rule = table_of(&file).lookup(entry);
        assert_eq!(rule == Rule::STOP, is_program, "{options:?}: {rule:?}");
        assert!(rule == Rule::STOP || rule == Rule::reg(7, 8), "{rule:?}");
    }
}

/// The linker puts them where no entry is, and they are shorter than what pads functions. Each lies in a page of its own,
/// so that programs which end wait at its first instruction.
#[test]
fn what_runs_at_the_start_and_end_of_a_library_has_rules_of_its_own() {
    let mut seen = 0;
    // The C library's own parts have packed relocations for them.
    for path in files().into_iter().chain([PathBuf::from("/lib/x86_64-linux-gnu/libm.so.6")]) {
        let file = std::fs::read(&path).unwrap();
        let object = object::File::parse(&file[..]).unwrap();
        let ends = object.section_by_name(".fini_array").map_or(&[][..], |section| section.data().unwrap());
        let ends = ends.chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
        for address in ends.filter(|address| *address != 0) {
            assert_eq!(table_of(&path).lookup(address), Rule::reg(7, 8), "{}", path.display());
        }
        let sections = [".init", ".fini"].into_iter().filter_map(|name| object.section_by_name(name));
        for section in sections {
            // [endbr64;] sub $8, %rsp
            let code = section.data().unwrap();
            let body = code.strip_prefix(&[0xf3, 0x0f, 0x1e, 0xfa]).unwrap_or(code);
            if !body.starts_with(&[0x48, 0x83, 0xec, 0x08]) {
                continue;
            }
            seen += 1;
            let table = table_of(&path);
            let after = section.address() + (code.len() - body.len()) as u64 + 4;
            let rules = [table.lookup(section.address()), table.lookup(after)];
            assert_eq!(rules, [Rule::reg(7, 8), Rule::reg(7, 16)], "{}", path.display());
        }
    }
    assert!(seen > 20, "only {seen} sections");
}

/// Functions without entries and symbols, of which only a table knows, whose relocations the linker has packed.
#[test]
fn functions_in_tables_with_packed_relocations_are_followed() {
    let folder = tempfile::tempdir().unwrap();
    let (source, file) = (folder.path().join("table.s"), folder.path().join("table.so"));
    let mut text = String::from(".section .note.GNU-stack,\"\"\n");
    for number in 0..100 {
        text += &format!(".text\n.balign 16\n.L{number}: subq $40, %rsp\nnop\naddq $40, %rsp\nret\n");
        // With words between them that have no relocation.
        text += &format!(
            ".section .data.rel.ro,\"aw\"\n.balign 8\n.quad .L{number}\n.fill {}, 8, 0\n",
            number % 70
        );
    }
    std::fs::write(&source, text).unwrap();
    let mut cc = Command::new("cc");
    cc.args(["-shared", "-nostdlib", "-Wl,-z,pack-relative-relocs", "-s", "-o"]).arg(&file).arg(&source);
    if run_well(&mut cc).is_none() {
        return;
    }
    let table = table_of(&file);
    let bytes = std::fs::read(&file).unwrap();
    let object = object::File::parse(&bytes[..]).unwrap();
    assert!(object.section_by_name(".relr.dyn").is_some(), "the linker has not packed them");
    let words = object.section_by_name(".data.rel.ro").unwrap();
    let words =
        words.data().unwrap().chunks_exact(8).map(|word| u64::from_le_bytes(word.try_into().unwrap()));
    let functions: Vec<u64> = words.filter(|address| *address != 0).collect();
    assert_eq!(functions.len(), 100);
    for address in functions {
        assert_eq!([table.lookup(address), table.lookup(address + 4)], [Rule::reg(7, 8), Rule::reg(7, 48)]);
    }
}

/// Between the system call that starts a thread and what the new one does first.
#[test]
fn new_threads_have_a_rule_before_they_have_a_stack() {
    let glibc = Path::new("/lib/x86_64-linux-gnu/libc.so.6");
    let musl = ["/usr/lib/x86_64-linux-musl/libc.so", "/lib/ld-musl-x86_64.so.1"];
    let folder = tempfile::tempdir().unwrap();
    let archive = folder.path().join("static");
    let source = folder.path().join("main.c");
    std::fs::write(
        &source,
        "#include <pthread.h>\nstatic void *no_work(void *unused) { return unused; }\n\
        int main(void) { pthread_t thread; return pthread_create(&thread, 0, no_work, 0); }\n",
    )
    .unwrap();
    let mut cc = Command::new("cc");
    if run_well(cc.args(["-O2", "-static", "-pthread", "-o"]).arg(&archive).arg(&source)).is_none() {
        return;
    }
    let musl = musl.iter().map(Path::new).find(|path| path.exists());
    if musl.is_none() {
        skip::<()>("musl is not installed");
    }
    // With the bytes after the system call up to where the new thread goes its own way.
    let tests: [&[u8]; 2] = [&[0x48, 0x85, 0xc0], &[0x85, 0xc0]];
    let files = [(glibc, 2), (&archive, 2)].into_iter().chain(musl.map(|path| (path, 1)));
    for (path, expected) in files {
        let table = table_of(path);
        let file = std::fs::read(path).unwrap();
        let object = object::File::parse(&file[..]).unwrap();
        let text = object.section_by_name(".text").unwrap();
        let is_new_thread = |address: &u64| table.lookup(*address).kind == RuleKind::NewThread;
        let addresses: Vec<u64> =
            (text.address()..text.address() + text.size()).filter(is_new_thread).collect();
        let ranges: Vec<&[u64]> = addresses.chunk_by(|a, b| a + 1 == *b).collect();
        assert_eq!(ranges.len(), expected, "{}: {addresses:x?}", path.display());
        for range in ranges {
            let code = text.data_range(range[0], range.len() as u64).unwrap().unwrap();
            let after = code.strip_prefix(&[0x0f, 0x05]).unwrap();
            assert!(tests.iter().any(|test| after.starts_with(test)), "{code:x?}");
            // The new thread's code is a root, that of the other one an ordinary function.
            assert_eq!(table.lookup(range[range.len() - 1] + 1), Rule::STOP, "{}", path.display());
            assert_eq!(table.lookup(range[0] - 1), Rule::reg(7, 8), "{}", path.display());
        }
    }
}

#[test]
fn what_is_left_out_of_a_first_table_is_left_to_user_space() {
    let limits = Limits::default();
    // musl has no entries at all, glibc has them for nearly everything.
    let musl = ["/usr/lib/x86_64-linux-musl/libc.so", "/lib/ld-musl-x86_64.so.1"];
    let Some(path) = musl.iter().map(Path::new).find(|path| path.exists()) else {
        println!("skipped: musl is not installed");
        return;
    };
    for (path, is_whole_at_first) in [(path, false), (Path::new("/lib/x86_64-linux-gnu/libc.so.6"), true)] {
        let image = ElfImage::open(&File::open(path).unwrap(), &limits.elf).unwrap();
        let sections = CfiSections::load(&image).unwrap();
        let first = compile_first(&image, &sections, &limits).unwrap();
        let whole = compile_sections(&image, &sections, &limits).unwrap();
        assert_eq!(first.is_whole, is_whole_at_first, "{}", path.display());
        // The kernel switches from one to the other by the number of the first page.
        assert_eq!(first.table.first_page, whole.first_page);
        assert_eq!(first.table.pages.len(), whole.pages.len());
        let code = image.segments().iter().filter(|segment| segment.is_executable);
        let mut left = 0;
        for address in code.flat_map(|segment| segment.address..segment.end()) {
            let (one, other) = (first.table.lookup(address), whole.lookup(address));
            if one.kind == RuleKind::User && !is_whole_at_first {
                left += 1;
            } else {
                assert_eq!(one, other, "{address:#x} of {}", path.display());
            }
        }
        assert_eq!(left > 100_000, !is_whole_at_first);
    }
}
