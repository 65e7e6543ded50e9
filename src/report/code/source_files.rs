//! The text of sources: from the recording, from where the compiler found them, or from a folder that the user names.

use crate::base::opener;
use crate::profile::{Profile, StringId};
use rustc_hash::FxHashMap;
use std::collections::BTreeSet;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Component, Path, PathBuf};

/// Largest file that is read, bytes.
const MOST_BYTES: u64 = 16 << 20;
/// Most files that are read for one function.
const MOST_FILES: usize = 256;

/// Text of one source file.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct SourceLines {
    /// Lines by their numbers. Foreign text.
    lines: FxHashMap<u32, String>,
    /// Remark on the file: that it is not there, or was written after the recording.
    pub(crate) remark: Option<String>,
    /// The file on this machine, if there is one.
    pub(crate) path: Option<PathBuf>,
}

impl SourceLines {
    /// The text of a line.
    pub(crate) fn line(&self, number: u32) -> Option<&str> {
        self.lines.get(&number).map(String::as_str)
    }

    /// Whether there is any text.
    pub(crate) fn is_known(&self) -> bool {
        !self.lines.is_empty()
    }

    /// Whether the text was written after the recording.
    pub(crate) fn is_changed(&self) -> bool {
        self.is_known() && self.remark.is_some()
    }

    /// The first line that is not the same in `other`, of those that both have.
    ///
    /// # Errors
    ///
    /// If they have no line in common.
    pub(crate) fn first_difference(&self, other: &SourceLines) -> Result<Option<u32>, ()> {
        let both =
            || self.lines.iter().filter_map(|(number, text)| Some((*number, text, other.line(*number)?)));
        if both().next().is_none() {
            return Err(());
        }
        Ok(both()
            .filter(|(_, one, other)| one.trim_end() != other.trim_end())
            .map(|(number, ..)| number)
            .min())
    }
}

/// Texts of the sources of a function, by the path that the compiler recorded.
pub(crate) type SourceTexts = FxHashMap<StringId, SourceLines>;

/// Reads the texts of `files`: what the recording holds, else the file itself, else the file in one of `folders` whose path ends
/// in the same way.
pub(crate) fn read(
    profile: &Profile,
    files: impl IntoIterator<Item = StringId>,
    folders: &[PathBuf],
) -> SourceTexts {
    let files: BTreeSet<StringId> = files.into_iter().filter(|file| *file != StringId(0)).collect();
    files.into_iter().take(MOST_FILES).map(|file| (file, text_of(profile, file, folders))).collect()
}

fn text_of(profile: &Profile, file: StringId, folders: &[PathBuf]) -> SourceLines {
    let kept = profile.sources.iter().filter(|source| source.file == file);
    let lines: FxHashMap<u32, String> = kept
        .flat_map(|source| (source.first_line..).zip(source.text.split('\n')))
        .map(|(number, line)| (number, line.to_owned()))
        .collect();
    let path = profile.tables.string(file);
    if !lines.is_empty() {
        let path = candidates(path, folders).into_iter().find(|path| is_here(path));
        return SourceLines { lines, remark: None, path };
    }
    let mut why = "no such file".to_owned();
    for candidate in candidates(path, folders) {
        match read_file(&candidate) {
            Ok((text, modified_ns)) => {
                let lines = (1..).zip(text.lines().map(str::to_owned)).collect();
                let is_newer = profile.meta.start_unix_ns > 0 && modified_ns > profile.meta.start_unix_ns;
                let remark = is_newer
                    .then(|| format!("`{}` was changed after the recording began", candidate.display()));
                return SourceLines { lines, remark, path: Some(candidate) };
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
            Err(error) => why = crate::base::failure::io_words(&error),
        }
    }
    let remark = format!("no text of `{path}`: {why}; --source-dir names the folder of the sources");
    SourceLines { remark: Some(remark), ..SourceLines::default() }
}

/// Returns the places where the file may be, the longest part of its path first.
fn candidates(path: &str, folders: &[PathBuf]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for folder in folders {
        let parts: Vec<Component<'_>> = Path::new(path).components().collect();
        let is_plain = |part: &Component<'_>| matches!(part, Component::Normal(_));
        for from in 0..parts.len() {
            let rest = &parts[from..];
            if rest.iter().all(is_plain) {
                found.push(folder.join(rest.iter().collect::<PathBuf>()));
            }
        }
    }
    // Perl names files as they were given to it: those of a program that was started here are here.
    let is_below = |part: Component<'_>| matches!(part, Component::Normal(_) | Component::CurDir);
    if path.starts_with('/') || Path::new(path).components().all(is_below) {
        found.push(PathBuf::from(path));
    }
    found
}

/// Whether there is a regular file that the user may read.
fn is_here(path: &Path) -> bool {
    match std::fs::metadata(path) {
        Ok(facts) => facts.is_file(),
        Err(error) if is_refused(&error) => {
            std::path::absolute(path).is_ok_and(|path| opener::source(&path).is_ok())
        }
        Err(_) => false,
    }
}

/// Whether the file may be one that the user may read and this process may not.
fn is_refused(error: &std::io::Error) -> bool {
    opener::is_running() && error.kind() == std::io::ErrorKind::PermissionDenied
}

/// The text of a regular file, and when it was written, ns since 1970.
fn read_file(path: &Path) -> std::io::Result<(String, u64)> {
    let flags = libc::O_NONBLOCK | libc::O_NOCTTY;
    let file = match File::options().read(true).custom_flags(flags).open(path) {
        Err(error) if is_refused(&error) => opener::source(&std::path::absolute(path)?)?,
        opened => opened?,
    };
    let facts = file.metadata()?;
    if !facts.is_file() {
        return Err(std::io::Error::other("it is no regular file"));
    }
    let mut bytes = Vec::new();
    file.take(MOST_BYTES).read_to_end(&mut bytes)?;
    let modified_ns = u64::try_from(facts.mtime()).unwrap_or(0).saturating_mul(1_000_000_000);
    Ok((String::from_utf8_lossy(&bytes).into_owned(), modified_ns))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Meta;
    use crate::profile::code::source_text::SourceText;

    #[test]
    fn a_folder_is_searched_by_the_end_of_the_path() {
        let folder = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(folder.path().join("lib/deep")).unwrap();
        std::fs::write(folder.path().join("lib/deep/a.c"), "right\n").unwrap();
        std::fs::write(folder.path().join("a.c"), "wrong\n").unwrap();
        let mut profile = Profile::new(Meta::default());
        let file = profile.tables.intern_string("/build/x/lib/deep/a.c");
        let gone = profile.tables.intern_string("/build/x/../../etc/passwd.c");
        let texts = read(&profile, [file, gone, StringId(0)], &[folder.path().to_owned()]);
        assert_eq!(texts[&file].line(1), Some("right"));
        assert_eq!((texts[&file].line(2), texts.len()), (None, 2));
        assert_eq!(texts[&file].path, Some(folder.path().join("lib/deep/a.c")));
        assert!(texts[&gone].remark.as_ref().unwrap().contains("no such file"));
    }

    #[test]
    fn relative_paths_are_of_this_folder_and_lead_nowhere_else() {
        let mut profile = Profile::new(Meta::default());
        // Tests run in the folder of the project.
        let files = ["src/lib.rs", "./src/lib.rs", "src/../src/lib.rs"];
        let files = files.map(|path| profile.tables.intern_string(path));
        let texts = read(&profile, files, &[]);
        assert_eq!(files.map(|file| texts[&file].is_known()), [true, true, false]);
    }

    #[test]
    fn what_the_recording_holds_comes_first() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("a.c");
        std::fs::write(&path, "of today\n").unwrap();
        let mut profile = Profile::new(Meta { start_unix_ns: 1, ..Meta::default() });
        let file = profile.tables.intern_string(path.to_str().unwrap());
        let texts = read(&profile, [file], &[]);
        assert_eq!(texts[&file].line(1), Some("of today"));
        assert!(texts[&file].remark.as_ref().unwrap().contains("after the recording"));
        profile.sources.push(SourceText { file, first_line: 7, text: "seven\neight".to_owned() });
        let texts = read(&profile, [file], &[]);
        assert_eq!((texts[&file].line(8), texts[&file].line(1)), (Some("eight"), None));
        assert_eq!(texts[&file].path, Some(path), "it is there all the same");
    }
}
