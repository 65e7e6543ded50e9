use super::*;
use crate::record::environment::namespaces::monotonic_ns;
use crate::record::kernel::unwind_tables::KernelTables;
use crate::record::process::proc_fs;
use std::time::{Duration, SystemTime};

#[test]
fn copies_of_one_build_share_a_table() {
    let pid = std::process::id();
    let mappings = proc_fs::code_mappings(pid).expect("own maps");
    let mut files = ModuleFiles::new(true);
    let mapping = mappings.iter().find(|mapping| mapping.path.contains("libc")).expect("libc is mapped");
    let first = files.file_of(pid, mapping).expect("a module");
    assert!(!files.get(first).build_id.is_empty());
    let other_inode = CodeMapping { inode: mapping.inode + 1, ..mapping.clone() };
    assert_ne!(
        files.file_of(pid, &other_inode),
        Some(first),
        "another inode is not taken for the mapped one"
    );
    let linked = CodeMapping { device: (mapping.device.0 + 1, 0), ..mapping.clone() };
    assert_eq!(files.file_of(pid, &linked), Some(first));
    let vdso = mappings.iter().find(|mapping| mapping.path == "[vdso]").expect("the vDSO is mapped");
    let vdso = files.file_of(pid, vdso).expect("a module");
    assert_ne!(vdso, first);
    assert!(files.get(vdso).elf.is_some());
}

#[test]
fn a_file_takes_one_descriptor() {
    let mut files = ModuleFiles::new(true);
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("program");
    std::fs::copy("/proc/self/exe", &path).expect("a program can be copied");
    let id = files.file_of(std::process::id(), &mapping_of(&path)).expect("a module");
    assert!(files.get(id).elf.is_some());
    let is_it = |entry: std::fs::DirEntry| std::fs::read_link(entry.path()).is_ok_and(|file| file == path);
    let open = std::fs::read_dir("/proc/self/fd")
        .expect("own descriptors")
        .flatten()
        .filter_map(|entry| is_it(entry).then_some(()));
    assert_eq!(open.count(), 1);
}

#[test]
fn files_beyond_the_limit_are_counted_and_opened_when_there_is_room() {
    let pid = std::process::id();
    let mappings = proc_fs::code_mappings(pid).expect("own maps");
    let mut files = ModuleFiles::new(false);
    files.room = 1;
    let mut of_files = mappings.iter().filter(|mapping| mapping.path.starts_with('/'));
    let (first, second) = (of_files.next().expect("the program"), of_files.next().expect("a library"));
    let first = files.file_of(pid, first).expect("a module");
    for _ in 0..3 {
        files.file_of(pid, second).expect("a module");
    }
    assert!(files.get(first).file.is_some());
    assert_eq!(files.without_descriptor(), 1, "one file, however often it is mapped");
    files.room = 2;
    let second = files.file_of(pid, second).expect("a module");
    assert!(files.get(second).elf.is_some());
    assert_eq!(files.without_descriptor(), 0);
}

#[test]
fn the_kernel_side_is_told_of_each_open_file_once() {
    let pid = std::process::id();
    let mappings = proc_fs::code_mappings(pid).expect("own maps");
    let mut files = ModuleFiles::new(true);
    let libc = mappings.iter().find(|mapping| mapping.path.contains("libc")).expect("libc is mapped");
    let id = files.file_of(pid, libc).expect("a module");
    files.open_own_vdso();
    let taken = files.take_unsent();
    let (_, key, file) = taken.iter().find(|(file, _, _)| *file == id).expect("libc is reported");
    assert_eq!((key.inode, key.device), (libc.inode, libc.device.0 << 20 | libc.device.1));
    let own = files.get(id).elf.as_ref().expect("libc is ELF").bias_of_mapping(
        libc.start,
        libc.end,
        libc.file_offset,
    );
    let segment = &file.segment[0];
    let bias = libc.start.wrapping_sub(segment.address + libc.file_offset - segment.file_offset);
    assert_eq!((file.image, Some(bias)), (id.0, own));
    assert!(taken.iter().any(|(_, key, _)| (key.inode, key.device) == (0, 0)), "the vDSO has no inode");
    assert!(files.take_unsent().is_empty());
    let missing = CodeMapping { inode: libc.inode + 1, path: "/no/such/file".to_owned(), ..libc.clone() };
    files.file_of(pid, &missing).expect("a module");
    assert!(files.take_unsent().is_empty(), "the inode of a file that is not open may become another's");
}

/// A mapping of the file, as a program that was started from it would show it.
fn mapping_of(path: &Path) -> CodeMapping {
    let metadata = std::fs::metadata(path).expect("the file is there");
    let device = (rustix::fs::major(metadata.dev()), rustix::fs::minor(metadata.dev()));
    let path = path.to_str().expect("its path is text").to_owned();
    CodeMapping { start: 0x1000, end: 0x2000, file_offset: 0, device, inode: metadata.ino(), path }
}

#[test]
fn a_file_that_is_rewritten_in_place_is_another_and_one_that_is_touched_is_not() {
    let pid = std::process::id();
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("program");
    std::fs::copy("/proc/self/exe", &path).expect("a program can be copied");
    let mut files = ModuleFiles::new(true);
    let first = files.file_of(pid, &mapping_of(&path)).expect("a module");
    let taken = files.take_unsent();
    assert_eq!(files.file_of(pid, &mapping_of(&path)), Some(first));
    assert!(files.take_unsent().is_empty());

    let limits = Limits::default();
    let file = File::options().write(true).open(&path).expect("it can be opened");
    file.set_modified(std::time::UNIX_EPOCH).expect("it is ours");
    assert!(files.get(first).is_unchanged(&limits), "its headers are the same");
    assert_eq!(files.file_of(pid, &mapping_of(&path)), Some(first));
    let touched = files.take_unsent();
    assert_eq!(touched.len(), 1, "the kernel side compares the time");
    assert_eq!((touched[0].0, touched[0].1.inode), (first, taken[0].1.inode));
    assert_ne!(touched[0].2.modified_ns, taken[0].2.modified_ns);

    std::fs::copy("/bin/sh", &path).expect("a program can be copied");
    assert!(!files.get(first).is_unchanged(&limits));
    // The process is gone by now, which does not matter.
    let second = files.file_of(u32::MAX, &mapping_of(&path)).expect("a module");
    assert_ne!(second, first);
    assert!(files.get(second).is_unchanged(&limits));
    assert_ne!(files.get(second).build_id, files.get(first).build_id);
    let taken = files.take_unsent();
    assert_eq!((taken.len(), taken[0].0, taken[0].2.image), (1, second, second.0));

    std::fs::copy("/proc/self/exe", &path).expect("a program can be copied");
    assert_eq!(files.file_of(pid, &mapping_of(&path)), Some(first), "it is the first build again");
    assert!(files.get(first).is_unchanged(&limits) && !files.get(second).is_unchanged(&limits));
    assert_eq!(files.take_unsent()[0].0, first);
}

/// A worker may begin to read a file after it was rewritten.
#[test]
fn a_file_that_is_rewritten_on_its_way_to_a_worker_is_not_taken_for_what_was_sent() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("program");
    std::fs::copy("/bin/true", &path).expect("a program can be copied");
    let opened = || File::open(&path).expect("it can be opened");
    let limits = Limits::default();
    let module = ModuleFile::read(1, "/program", Arc::new(opened()), &limits);
    let received = || module.to_send().received(vec![opened().into()]);
    assert!(received().elf.is_some() && received().is_unchanged(&limits));
    let file = File::options().write(true).open(&path).expect("it can be opened");
    file.set_modified(SystemTime::UNIX_EPOCH).expect("it is ours");
    assert!(received().elf.is_some() && received().is_unchanged(&limits), "it was touched");
    std::fs::copy("/bin/sh", &path).expect("a program can be copied");
    assert!(received().elf.is_none() && !received().is_unchanged(&limits));
}

/// The kernel tells of a mapping after its program has ended and another build lies there.
#[test]
fn what_was_mapped_before_a_file_was_rewritten_is_not_what_is_there_now() {
    let pid = std::process::id();
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("program");
    // Times of last writes are as coarse as the kernel's clock ticks.
    let passed_ns = || {
        std::thread::sleep(Duration::from_millis(30));
        let now_ns = monotonic_ns();
        std::thread::sleep(Duration::from_millis(30));
        now_ns
    };
    std::fs::copy("/bin/true", &path).expect("a program can be copied");
    let before_ns = passed_ns();
    std::fs::copy("/bin/sh", &path).expect("a program can be copied");
    let after_ns = passed_ns();
    let mut files = ModuleFiles::new(false);
    let late = files.file_mapped_at(pid, &mapping_of(&path), before_ns).expect("a module");
    assert!(files.get(late).elf.is_none(), "it would have the names of the new build");
    assert!(!files.get(late).is_unchanged(&Limits::default()), "that is why it has no names");
    let present = files.file_mapped_at(pid, &mapping_of(&path), after_ns).expect("a module");
    assert!(files.get(present).elf.is_some() && present != late);
    assert_eq!(files.file_mapped_at(pid, &mapping_of(&path), before_ns), Some(late));
    assert!(files.get(late).elf.is_none());
    // What a clock that was wrong has written tells nothing.
    let file = File::options().write(true).open(&path).expect("it can be opened");
    file.set_modified(SystemTime::now() + Duration::from_secs(3600)).expect("it is ours");
    assert_eq!(files.file_mapped_at(pid, &mapping_of(&path), before_ns), Some(present));
}

/// On a machine that has no time for prof.
#[test]
fn a_rewritten_file_that_is_not_read_in_time_has_no_names_until_it_is() {
    let pid = std::process::id();
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("program");
    std::fs::copy("/bin/true", &path).expect("a program can be copied");
    let mut files = ModuleFiles::new(false);
    let first = files.file_of(pid, &mapping_of(&path)).expect("a module");
    std::fs::copy("/bin/sh", &path).expect("a program can be copied");
    files.patience = Patience::exhausted();
    let second = files.file_of(pid, &mapping_of(&path)).expect("a module");
    assert_ne!(second, first, "it would have the names of the old build");
    assert!(files.get(second).elf.is_none() && files.get(first).elf.is_some());
    files.patience = Patience::default();
    assert_eq!(files.file_of(pid, &mapping_of(&path)), Some(second));
    assert_ne!(files.get(second).build_id, files.get(first).build_id);
    assert!(files.get(second).elf.is_some() && files.get(second).is_unchanged(&Limits::default()));
}

#[test]
fn memory_without_a_file_is_generated_code() {
    let mut files = ModuleFiles::new(true);
    let anonymous = CodeMapping { start: 0x1000, end: 0x2000, ..CodeMapping::default() };
    assert_eq!(files.file_of(1, &anonymous), Some(ModuleFiles::GENERATED));
    let vsyscall = CodeMapping { path: "[vsyscall]".to_owned(), ..anonymous };
    assert_eq!(files.file_of(1, &vsyscall), None);
}

#[test]
fn a_file_that_is_rewritten_while_its_table_is_compiled_has_none() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("program");
    std::fs::copy("/bin/sh", &path).expect("a program can be copied");
    let mut files = ModuleFiles::new(true);
    let id = files.file_of(std::process::id(), &mapping_of(&path)).expect("a module");
    assert!(matches!(files.get(id).table, TableState::Compiling));
    std::fs::copy("/bin/true", &path).expect("a program can be copied");
    let mut kernel = KernelTables::in_memory(1 << 16, 1 << 10, 0);
    assert!(files.place_finished(&mut kernel, Duration::from_secs(60), Wanted::Whole));
    assert!(matches!(files.get(id).table, TableState::Missing), "samples would wait for it in vain");
    assert_eq!(files.failed, 1);
}

/// Following frame pointers through code whose entries are not known would skip callers.
#[test]
fn a_table_that_is_too_large_to_be_made_ends_stacks() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("program");
    std::fs::copy("/bin/sh", &path).expect("a program can be copied");
    let mut files = ModuleFiles::new(true);
    files.limits.max_cfi_bytes = 16;
    let id = files.file_of(std::process::id(), &mapping_of(&path)).expect("a module");
    let mut kernel = KernelTables::in_memory(1 << 16, 1 << 10, 0);
    assert!(files.place_finished(&mut kernel, Duration::from_secs(60), Wanted::Whole));
    let TableState::Compiled(table) = &files.get(id).table else { panic!("{:?}", files.get(id).table) };
    assert_eq!((table.rows.len(), table.pages.len()), (0, 0));
    assert!(kernel.is_placed(files.get(id).image), "samples would wait for it, or follow frame pointers");
    assert_eq!(files.failed, 1);
}

#[test]
fn a_file_that_nobody_maps_is_closed_and_its_number_given_to_another() {
    const SECOND_NS: u64 = 1_000_000_000;
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let [first, second] = ["first", "second"].map(|name| {
        let path = folder.path().join(name);
        std::fs::copy("/bin/true", &path).expect("a program can be copied");
        path
    });
    let mut files = ModuleFiles::new(false);
    let mut kernel = KernelTables::in_memory(1 << 16, 1 << 10, 0);
    let pid = std::process::id();
    let (mapped, other) = (mapping_of(&first), mapping_of(&second));
    let id = files.file_of(pid, &mapped).expect("a module");
    let kept = files.file_of(pid, &other).expect("a module");
    let image = files.get(id).image;
    assert_eq!(files.open, 2);
    let mut close = |files: &mut ModuleFiles, mapped: &[FileId], at_s: u64| {
        let mapped = mapped.iter().copied().collect();
        files.close_unmapped(&mapped, at_s * SECOND_NS, &mut kernel)
    };
    assert!(close(&mut files, &[id, kept], 100).is_empty());
    assert!(close(&mut files, &[kept], 159).is_empty(), "it may be mapped again");
    std::fs::remove_file(&first).expect("it is ours");
    files.hit(id, 150 * SECOND_NS);
    assert!(close(&mut files, &[kept], 164).is_empty(), "a late sample may need it");
    let keys = close(&mut files, &[kept], 165);
    assert_eq!(keys.iter().map(|key| key.inode).collect::<Vec<_>>(), [mapped.inode]);
    assert!(files.get(id).file.is_none() && files.get(kept).file.is_some());
    assert_eq!((files.open, files.iter().count()), (1, 2), "generated code is always there");

    std::fs::copy("/bin/false", &first).expect("a program can be copied");
    let new = files.file_of(pid, &mapping_of(&first)).expect("a module");
    assert_ne!(new, id, "what was closed stays closed");
    assert_eq!(files.get(new).image, image);
}

#[test]
fn many_files_are_closed_sooner() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let path = folder.path().join("first");
    std::fs::copy("/bin/true", &path).expect("a program can be copied");
    let mut files = ModuleFiles::new(false);
    let mut kernel = KernelTables::in_memory(1 << 16, 1 << 10, 0);
    files.file_of(std::process::id(), &mapping_of(&path)).expect("a module");
    let nothing = Default::default();
    assert!(files.close_unmapped(&nothing, 1, &mut kernel).is_empty());
    assert!(files.close_unmapped(&nothing, 20_000_000_000, &mut kernel).is_empty());
    files.room = 1;
    assert_eq!(files.close_unmapped(&nothing, 20_000_000_000, &mut kernel).len(), 1);
}
