use super::*;
use crate::unwind::{Row, Rule};
use std::os::unix::fs::{PermissionsExt, symlink};
use tempfile::TempDir;

fn cache() -> (TempDir, TableCache) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let cache = TableCache::open_in(folder.path()).expect("the folder is ours");
    (folder, cache)
}

/// A table with this many rows, in pages of 4,096.
fn table(rows: usize) -> Table {
    let mut table = Table { rules: vec![Rule::NONE, Rule::USER, Rule::reg(7, 8)], ..Table::default() };
    for number in 0..rows {
        let in_page = number % 4096;
        if in_page == 0 {
            table.pages.push(crate::unwind::Page { first: number as u32, count: 0 });
        }
        let page = table.pages.last_mut().expect("one was just added");
        page.count += 1;
        table.rows.push(Row { pc_low: in_page as u16 * 16, rule: (number % 3) as u16 });
    }
    table
}

fn add(cache: &TableCache, number: u8, table: &Table) -> CacheKey {
    let key = CacheKey([number; 32]);
    cache.add(&key, &cache.packed(&key, table).expect("it is worth it"));
    key
}

fn load(cache: &TableCache, key: &CacheKey) -> Option<Table> {
    cache.load(key, &Limits::default())
}

fn path_of(folder: &TempDir, key: &CacheKey) -> PathBuf {
    folder.path().join("prof").join(key.file_name())
}

#[test]
fn a_table_is_found_by_its_key_alone() {
    let (folder, cache) = cache();
    let key = add(&cache, 1, &table(10_000));
    assert_eq!(load(&cache, &key), Some(table(10_000)));
    assert_eq!(load(&cache, &CacheKey([2; 32])), None);
    let mode = std::fs::metadata(path_of(&folder, &key)).expect("it is there").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    // Another table under its name is not the wanted one.
    std::fs::rename(path_of(&folder, &key), path_of(&folder, &CacheKey([3; 32]))).expect("it is ours");
    assert_eq!(load(&cache, &CacheKey([3; 32])), None);
    let again = TableCache::open_in(folder.path()).expect("the folder is ours");
    let key = add(&again, 1, &table(600));
    assert_eq!(load(&cache, &key), Some(table(600)), "the last one holds");
    assert_eq!(cache.describe(), "unwind tables: 2 from the cache, 1 added to it");
}

#[test]
fn small_tables_are_not_kept() {
    let (_folder, cache) = cache();
    assert_eq!(cache.packed(&CacheKey([0; 32]), &table(MIN_ROWS - 1)), None);
}

#[test]
fn a_damaged_file_is_no_table() {
    let (folder, cache) = cache();
    let key = add(&cache, 1, &table(1000));
    let path = path_of(&folder, &key);
    let whole = std::fs::read(&path).expect("it is there");
    for at in [0, 8, 40, 48, HEADER_BYTES, whole.len() / 2, whole.len() - 1] {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        std::fs::write(&path, &bytes).expect("it is ours");
        assert_eq!(load(&cache, &key), None, "byte {at}");
    }
    for len in [0, 7, HEADER_BYTES, whole.len() - 1] {
        std::fs::write(&path, &whole[..len]).expect("it is ours");
        assert_eq!(load(&cache, &key), None, "cut at {len}");
    }
    // A new table fixes it.
    add(&cache, 1, &table(1000));
    assert_eq!(load(&cache, &key), Some(table(1000)));
}

#[test]
fn what_others_can_write_is_not_believed() {
    let (folder, cache) = cache();
    let key = add(&cache, 1, &table(1000));
    let path = path_of(&folder, &key);
    let set = |path: &Path, mode| {
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).expect("it is ours");
    };
    for (mode, is_believed) in [(0o644, true), (0o664, false), (0o606, false), (0o600, true)] {
        set(&path, mode);
        assert_eq!(load(&cache, &key).is_some(), is_believed, "{mode:o}");
    }
    // A link to it may be another's.
    let moved = folder.path().join("elsewhere");
    std::fs::rename(&path, &moved).expect("it is ours");
    symlink(&moved, &path).expect("a link can be made");
    assert_eq!(load(&cache, &key), None);
    std::fs::remove_file(&path).expect("it is ours");
    rustix::fs::mknodat(CWD, &path, rustix::fs::FileType::Fifo, Mode::RUSR, 0).expect("a pipe can be made");
    assert_eq!(load(&cache, &key), None, "and does not wait");

    let own = folder.path().join("prof");
    set(&own, 0o777);
    assert_eq!(TableCache::open_in(folder.path()).err(), Some(NoCache::NotOurs(own.clone())));
    set(&own, 0o700);
    if rustix::process::geteuid().is_root() {
        std::os::unix::fs::chown(&own, Some(4711), None).expect("root may");
        assert_eq!(TableCache::open_in(folder.path()).err(), Some(NoCache::NotOurs(own.clone())));
        std::os::unix::fs::chown(&own, Some(0), None).expect("root may");
        std::os::unix::fs::chown(folder.path(), Some(4711), None).expect("root may");
        let base = folder.path().to_owned();
        assert_eq!(TableCache::open_in(&base).err(), Some(NoCache::NotOurs(base)), "as under sudo -E");
    }
    let moved = folder.path().join("moved");
    std::fs::rename(&own, &moved).expect("it is ours");
    symlink(&moved, &own).expect("a link can be made");
    assert!(TableCache::open_in(folder.path()).is_err());
}

#[test]
fn where_the_cache_is() {
    let path = |path: &str| Some(OsString::from(path));
    assert_eq!(base_folder(path("/c"), path("/h")), Some(PathBuf::from("/c")));
    assert_eq!(base_folder(path("c"), path("/h")), Some(PathBuf::from("/h/.cache")), "not absolute");
    assert_eq!(base_folder(path(""), path("/h")), Some(PathBuf::from("/h/.cache")));
    assert_eq!(base_folder(None, path("/h")), Some(PathBuf::from("/h/.cache")));
    assert_eq!(base_folder(None, path("h")), None);
    assert_eq!(base_folder(None, None), None);
    let missing = Path::new("/no/such/folder");
    assert!(matches!(TableCache::open_in(missing), Err(NoCache::Unusable(path, _)) if path == missing));
}

#[test]
fn the_least_recently_used_go_first() {
    let (folder, mut cache) = cache();
    let one = cache.packed(&CacheKey([0; 32]), &table(1000)).expect("it is worth it").len() as u64;
    cache.max_bytes = 10 * one;
    let now = SystemTime::now();
    let mut keys = Vec::new();
    for number in 0..10 {
        keys.push(add(&cache, number, &table(1000)));
        let age = Duration::from_secs(u64::from(10 - number) * 10_000);
        let file = File::options().write(true).open(path_of(&folder, &keys[usize::from(number)]));
        file.and_then(|file| file.set_modified(now - age)).expect("it is ours");
    }
    assert!(load(&cache, &keys[0]).is_some(), "it was used just now");
    let left = path_of(&folder, &keys[1]).with_file_name("1.1.new");
    std::fs::write(&left, "x").expect("the folder is ours");
    let fresh = left.with_file_name("1.2.new");
    std::fs::write(&fresh, "x").expect("the folder is ours");
    File::open(&left).and_then(|file| file.set_modified(now - ABANDONED * 2)).expect("it is ours");
    cache.trim(now).expect("the folder can be read");
    assert!(keys.iter().all(|key| path_of(&folder, key).exists()), "there is room for them");
    assert!(!left.exists() && fresh.exists(), "one of them may still be written");

    add(&cache, 10, &table(1000));
    cache.trim(now).expect("the folder can be read");
    let kept: Vec<bool> = keys.iter().map(|key| path_of(&folder, key).exists()).collect();
    assert_eq!(kept, [true, false, false, false, false, true, true, true, true, true]);
}

#[test]
fn several_recorders_at_once_see_whole_tables_only() {
    let (folder, _) = cache();
    let tables: Vec<Table> = (0..4).map(|number| table(600 + number * 4096)).collect();
    std::thread::scope(|scope| {
        for one in &tables {
            let folder = folder.path();
            let tables = &tables;
            scope.spawn(move || {
                let cache = TableCache::open_in(folder).expect("the folder is ours");
                for _ in 0..50 {
                    let key = add(&cache, 1, one);
                    let found = load(&cache, &key).expect("there is always one");
                    assert!(tables.contains(&found));
                }
            });
        }
    });
    let names = std::fs::read_dir(folder.path().join("prof")).expect("it is there").count();
    assert_eq!(names, 1, "nothing unfinished is left");
}

#[test]
fn a_cache_that_cannot_be_written_is_said_once() {
    let (folder, cache) = cache();
    std::fs::remove_dir(folder.path().join("prof")).expect("it is empty");
    let key = CacheKey([1; 32]);
    cache.add(&key, &packed(&key, &table(1000)));
    cache.add(&key, &packed(&key, &table(1000)));
    assert!(cache.describe().contains("0 added to it; adding failed: No such file"), "{}", cache.describe());
    assert_eq!(cache.packed(&key, &table(1000)), None, "nothing more is tried");
}

/// A copy of a program whose build ID is that of the original: a claim, not a proof.
#[test]
fn the_build_id_does_not_make_a_key() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let original = Path::new("/proc/self/exe");
    let copy = folder.path().join("copy");
    std::fs::copy(original, &copy).expect("a program can be copied");
    let key_of = |path: &Path| {
        let file = File::open(path).expect("it is there");
        let elf = ElfImage::open(&file, &Limits::default().elf).expect("it is ELF");
        CacheKey::of(&file, &elf)
    };
    assert_eq!(key_of(&copy), None, "it may still change unnoticed");
    std::thread::sleep(SETTLING);
    let before = key_of(&copy).expect("it is old enough");
    assert_eq!(key_of(&copy), Some(before));
    assert_ne!(key_of(original), Some(before));
    // The bytes change, the size and all times that can be set do not.
    let file = File::options().read(true).write(true).open(&copy).expect("it is ours");
    let modified = file.metadata().and_then(|facts| facts.modified()).expect("it has a time");
    std::os::unix::fs::FileExt::write_all_at(&file, &[0], 9).expect("it is ours");
    file.set_modified(modified).expect("it is ours");
    std::thread::sleep(SETTLING);
    assert_ne!(key_of(&copy).expect("it is old enough"), before);
}
