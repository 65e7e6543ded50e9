//! The files that a user means with a name: those that targets have mapped, and those that a command will find.

use crate::base::opener::{self, FileContent};
use crate::record::modules::open_mapped_file;
use crate::record::process::proc_fs;
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Most files of one name.
pub(super) const MOST_FILES: usize = 16;
/// Folders in which the dynamic linker looks for libraries.
const LIBRARY_FOLDERS: [&str; 7] = [
    if cfg!(target_arch = "aarch64") { "/lib/aarch64-linux-gnu" } else { "/lib/x86_64-linux-gnu" },
    if cfg!(target_arch = "aarch64") { "/usr/lib/aarch64-linux-gnu" } else { "/usr/lib/x86_64-linux-gnu" },
    "/lib64",
    "/usr/lib64",
    "/usr/local/lib",
    "/lib",
    "/usr/lib",
];

/// A file that is probed.
#[derive(Debug)]
pub(super) struct ProbedFile {
    pub(super) file: Arc<File>,
    /// Its path, for people.
    pub(super) path: String,
    /// Processes that are recorded and have mapped it.
    pub(super) targets: Vec<u32>,
    /// Other processes that have.
    pub(super) others: usize,
}

/// Code that processes have mapped, by file.
#[derive(Debug, Default)]
pub(super) struct ProcessFiles {
    by_key: BTreeMap<(u64, (u32, u32)), ProcessFile>,
}

#[derive(Debug)]
struct ProcessFile {
    path: String,
    /// One mapping of it, through which it can be opened.
    through: (u32, crate::record::kernel::sideband::CodeMapping),
    pids: Vec<u32>,
}

impl ProcessFiles {
    /// What all processes that can be looked at have mapped now.
    pub(super) fn now() -> Self {
        let mut files = ProcessFiles::default();
        for pid in proc_fs::processes().unwrap_or_default() {
            // It may be gone, or closed to this process.
            for mapping in proc_fs::code_mappings(pid).unwrap_or_default() {
                if mapping.inode == 0 || !mapping.path.starts_with('/') {
                    continue;
                }
                let path = mapping.path.clone();
                let file = files.by_key.entry((mapping.inode, mapping.device));
                let file =
                    file.or_insert_with(|| ProcessFile { path, through: (pid, mapping), pids: Vec::new() });
                if file.pids.last() != Some(&pid) {
                    file.pids.push(pid);
                }
            }
        }
        files
    }

    /// The files that `name` means: of those that `targets` have mapped, or of all with `None`; else the one that a command
    /// would find, which may be `program`.
    ///
    /// # Errors
    ///
    /// Why there is none, in words.
    pub(super) fn named(
        &self,
        name: &str,
        targets: Option<&[u32]>,
        program: Option<&Path>,
    ) -> Result<Vec<ProbedFile>, String> {
        if name.contains('/') {
            return Ok(vec![self.at_path(Path::new(name), targets)?]);
        }
        let is_target = |pid: &u32| targets.is_none_or(|targets| targets.contains(pid));
        let mut found = Vec::new();
        for file in self.by_key.values() {
            if !is_meant(&file.path, name) || !file.pids.iter().any(is_target) {
                continue;
            }
            let (pid, mapping) = &file.through;
            let Ok(opened) = open_mapped_file(*pid, mapping, &file.path) else { continue };
            found.push(self.probed(opened, file.path.clone(), targets));
        }
        if found.len() > MOST_FILES {
            return Err(format!(
                "{} different files of that name are mapped: name one by its path",
                found.len()
            ));
        }
        if !found.is_empty() {
            return Ok(found);
        }
        let path = searched(name, program).ok_or_else(|| match (targets, program) {
            (Some(_), None) => "no recorded process has mapped a file of that name".to_owned(),
            _ => "no file of that name is in the folders of libraries or programs: name it by its path"
                .to_owned(),
        })?;
        Ok(vec![self.at_path(&path, targets)?])
    }

    fn at_path(&self, path: &Path, targets: Option<&[u32]>) -> Result<ProbedFile, String> {
        let file = opener::named(path, FileContent::Elf).map_err(|error| error.to_string())?;
        if !file.metadata().is_ok_and(|about| about.is_file()) {
            return Err("it is no regular file".to_owned());
        }
        Ok(self.probed(file, path.display().to_string(), targets))
    }

    fn probed(&self, file: File, path: String, targets: Option<&[u32]>) -> ProbedFile {
        // File systems such as overlayfs say another device in /proc/PID/maps than stat(2) does: the inode decides.
        let inode = file.metadata().map_or(0, |about| about.ino());
        let mappers: Vec<u32> = (self.by_key.iter())
            .filter(|((mapped, _), _)| *mapped == inode)
            .flat_map(|(_, file)| file.pids.iter().copied())
            .collect();
        let is_target = |pid: &u32| targets.is_none_or(|targets| targets.contains(pid));
        let (targets, others): (Vec<u32>, Vec<u32>) = mappers.into_iter().partition(is_target);
        ProbedFile { file: Arc::new(file), path, targets, others: others.len() }
    }
}

/// Whether a mapped file is the one that a name means: its own name, or that of a library without its version.
fn is_meant(path: &str, name: &str) -> bool {
    let path = path.strip_suffix(" (deleted)").unwrap_or(path);
    let own = path.rsplit('/').next().unwrap_or(path);
    own == name || own.strip_prefix(name).is_some_and(|rest| rest.starts_with(".so"))
}

/// The file that a command finds by a name: itself, a library, or a program.
fn searched(name: &str, program: Option<&Path>) -> Option<PathBuf> {
    let is_own =
        |program: &&Path| program.file_name().is_some_and(|own| is_meant(&own.to_string_lossy(), name));
    if let Some(program) = program.filter(is_own) {
        return Some(program.to_path_buf());
    }
    let libraries = LIBRARY_FOLDERS.iter().map(PathBuf::from);
    let programs = std::env::var_os("PATH").unwrap_or_default();
    let programs: Vec<PathBuf> = std::env::split_paths(&programs).collect();
    libraries.chain(programs).map(|folder| folder.join(name)).find(|path| path.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_meant_with_and_without_their_version() {
        assert!(is_meant("/lib/libc.so.6", "libc.so.6") && is_meant("/lib/libc.so.6", "libc"));
        assert!(is_meant("/usr/bin/app (deleted)", "app") && !is_meant("/usr/bin/app", "ap"));
        assert!(!is_meant("/lib/libcrypt.so.1", "libc"));
    }

    #[test]
    fn the_file_of_this_process_is_found_by_name_and_by_path() {
        let (pid, path) = (std::process::id(), std::fs::read_link("/proc/self/exe").expect("a path"));
        let files = ProcessFiles::now();
        let name = path.file_name().expect("a name").to_string_lossy().into_owned();
        let found = files.named(&name, Some(&[pid]), None).expect("it is mapped");
        assert!(
            found.iter().any(|file| file.targets == [pid] && file.path == path.to_string_lossy()),
            "{found:?}"
        );
        let by_path = files.named(&path.to_string_lossy(), Some(&[pid]), None).expect("it is there");
        assert_eq!(by_path[0].targets, [pid]);
        assert!(files.named("no-such-file-of-prof", Some(&[pid]), None).is_err());
        assert!(files.named("/dev/null", Some(&[pid]), None).is_err());
    }
}
