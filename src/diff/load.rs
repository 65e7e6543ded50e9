//! `prof diff`: from arguments to files, from files to runs, from runs to output.

use super::comparison::Comparison;
use super::gate::verdicts::{GateVerdict, apply_rules, exit_status};
use super::options::{DiffFormat, DiffOptions, Sides};
use super::print;
use super::sums::run::{RunOptions, RunSums};
use crate::base::failure::{Failure, status};
use crate::base::{privilege, safe_text};
use crate::report::{Analysis, CommonOptions, Input, check, check_not_input, without_foreign};
use rayon::iter::{IntoParallelRefIterator, ParallelIterator};
use std::collections::BTreeSet;
use std::io::Write as _;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Most recordings per side.
const MOST_RUNS: usize = 1_000;

/// Number of recordings in memory at a time.
const AT_A_TIME: usize = 4;

/// Compares, prints, and returns the exit status: 0, or that of the gate.
///
/// # Errors
///
/// Fails when a recording cannot be read, nothing matches, or the output cannot be written.
pub(crate) fn compare_files(options: &DiffOptions) -> anyhow::Result<u8> {
    check(&options.destination)?;
    refuse_idle(options)?;
    let named = with_files(options)?;
    let Sides::Files(files) = &named.sides else { return Err(Failure::usage("no file is named").into()) };
    for file in files.iter().flatten() {
        check_not_input(&options.destination, &Input::named(file.clone()))?;
    }
    let files = [recordings(&files[0], &named, "base")?, recordings(&files[1], &named, "new side")?];
    let sides = load(&files, options)?;
    let comparison = Comparison::new(sides, options.per, &options.gate.rules)?;
    comparison.check_has_some(&options.common.filter)?;
    let verdicts = apply_rules(&comparison, &options.gate)?;
    print::output::print(&comparison, &verdicts, options)?;
    if options.format != DiffFormat::Text {
        say(&verdicts);
    }
    Ok(exit_status(&verdicts))
}

/// The same comparison of the files that its words name.
///
/// # Errors
///
/// Fails when they name none, or one twice.
pub(crate) fn with_files(options: &DiffOptions) -> Result<DiffOptions, Failure> {
    let Sides::Words([base, new]) = &options.sides else { return Ok(options.clone()) };
    let [mut base, mut new] = [files_of(base, "base")?, files_of(new, "new side")?];
    base.of_folders.append(&mut new.of_folders);
    let sides = Sides::Files([base.files, new.files]);
    Ok(DiffOptions { sides, of_folders: base.of_folders, ..options.clone() })
}

/// The files of a side without those that were found in a folder and are no recordings, which are said on standard error.
fn recordings(files: &[PathBuf], named: &DiffOptions, side: &str) -> Result<Vec<PathBuf>, Failure> {
    let is_of_folder = |file: &&PathBuf| named.of_folders.contains(*file);
    let (found, foreign) = without_foreign(files.iter().filter(is_of_folder).cloned().collect());
    let found: BTreeSet<PathBuf> = found.into_iter().collect();
    let left: Vec<_> = files.iter().filter(|file| !is_of_folder(file) || found.contains(*file)).collect();
    if let Some(words) = &foreign {
        warn(&format!("the {side} is without what is no recording in its folder: {words}"));
    }
    if left.is_empty() {
        let message = format!("no recording in the folder of the {side} can be read");
        return Err(Failure::new(status::FAILED, message));
    }
    Ok(left.into_iter().cloned().collect())
}

/// Warns on standard error; if that is closed, there is nowhere to print it.
fn warn(words: &str) {
    let line = format!("warning: {words}");
    let _ = writeln!(std::io::stderr().lock(), "{}", safe_text::message(&line));
}

/// Refuses a gate on idle waits: they last as long as there is nothing to do, so their growth is not a regression.
fn refuse_idle(options: &DiffOptions) -> Result<(), Failure> {
    if options.common.filter.idle && !options.gate.rules.is_empty() {
        let message = "--fail-on does not apply to idle waits: they last as long as there is nothing to do";
        return Err(Failure::usage(message).hint("leave out --idle"));
    }
    Ok(())
}

/// Prints the verdicts on standard error, where standard output is for programs.
fn say(verdicts: &[GateVerdict]) {
    for line in print::verdict::lines(verdicts, usize::MAX) {
        // If standard error is closed, the exit status still gives the verdict.
        let _ = writeln!(std::io::stderr().lock(), "{line}");
    }
}

/// Reads all recordings and reduces each to sums, so that only a few are in memory at a time.
fn load(files: &[Vec<PathBuf>; 2], options: &DiffOptions) -> anyhow::Result<[Vec<RunSums>; 2]> {
    let tasks: Vec<(usize, &Path)> = (files.iter().enumerate())
        .flat_map(|(side, files)| files.iter().map(move |file| (side, file.as_path())))
        .collect();
    let mut sides = [Vec::new(), Vec::new()];
    let mut metric = options.common.metric;
    let mut warnings = Vec::new();
    let mut at = 0;
    while at < tasks.len() {
        // Unless a metric was given, the first recording decides the metric for all.
        let chunk = &tasks[at..tasks.len().min(at + AT_A_TIME)];
        let common = [0, 1].map(|side| CommonOptions { metric, ..options.common_of(side) });
        let read = |(side, file): &(usize, &Path)| {
            let slices = files[*side].len() == 1;
            let run =
                RunOptions { common: &common[*side], paths: options.path_sums(), slices, threads: None };
            load_one(file, &run)
        };
        for ((side, _), loaded) in chunk.iter().zip(chunk.par_iter().map(read).collect::<Vec<_>>()) {
            let (sums, warning) = loaded?;
            metric = metric.or(Some(sums.event.metric));
            warnings.extend(warning);
            sides[*side].push(sums);
        }
        at += chunk.len();
    }
    warnings.iter().for_each(|warning| warn(warning));
    Ok(sides)
}

fn load_one(file: &Path, run: &RunOptions<'_>) -> anyhow::Result<(RunSums, Option<String>)> {
    let named = Input::named(file.to_owned());
    let span = named.span().or(run.common.input.span());
    let input = named.within(span);
    let recording = Analysis::load_quietly(&input)?;
    let warning = recording.warning(&input);
    let name = file.display().to_string();
    let sums = sums_of(recording, name, run).map_err(|error| of_file(file, error))?;
    Ok((sums, warning))
}

/// The sums of what is asked for of a recording.
pub(super) fn sums_of(recording: Analysis, name: String, run: &RunOptions<'_>) -> Result<RunSums, Failure> {
    let (recording, common) = run.common.of_waits(recording)?;
    let of_heap = common.with_default_heap(&recording);
    let (recording, common) = of_heap.unwrap_or(common).of_heap(recording)?;
    RunSums::of(&recording, name, &RunOptions { common: &common, ..*run })
}

/// Names the recording in an error that does not.
fn of_file(file: &Path, failure: Failure) -> Failure {
    if failure.status == status::NO_MATCH { failure.in_file(&file.display().to_string()) } else { failure }
}

/// The recordings that the arguments name: files, folders (their files that end in `.data`), patterns, comma-separated
/// lists.
fn files_of(words: &[PathBuf], side: &str) -> Result<NamedRuns, Failure> {
    let mut named = NamedRuns::default();
    for word in words {
        privilege::as_user(|| add_files(word, &mut named))?;
        if named.files.len() > MOST_RUNS {
            let message = format!("the {side} has more than {MOST_RUNS} recordings");
            return Err(Failure::usage(message).hint("ten are usual"));
        }
    }
    let mut known = BTreeSet::new();
    for file in &named.files {
        let Ok(facts) = privilege::as_user(|| std::fs::metadata(file)) else { continue };
        if !known.insert((facts.dev(), facts.ino())) {
            let message =
                format!("`{}` is named twice for the {side}: it would count as two runs", file.display());
            return Err(Failure::usage(message));
        }
    }
    Ok(named)
}

/// Files that were named for a side.
#[derive(Debug, Default)]
struct NamedRuns {
    files: Vec<PathBuf>,
    /// Those that were found in folders.
    of_folders: BTreeSet<PathBuf>,
}

fn add_files(word: &Path, named: &mut NamedRuns) -> Result<(), Failure> {
    let text = word.to_string_lossy();
    if text == "-" {
        return Err(Failure::usage("standard input is one recording, and a comparison needs two")
            .hint("save it first:  cat > new.data"));
    }
    match std::fs::metadata(word) {
        Ok(facts) if facts.is_dir() => return add_folder(word, named),
        Ok(_) => {
            named.files.push(word.to_owned());
            return Ok(());
        }
        Err(_) => {}
    }
    if text.contains(',') {
        let parts = text.split(',').filter(|part| !part.is_empty());
        return parts.map(Path::new).try_for_each(|part| add_files(part, named));
    }
    if text.contains(['*', '?', '[']) {
        return add_matching(&text, &mut named.files);
    }
    // A missing file is reported when it is read.
    named.files.push(word.to_owned());
    Ok(())
}

fn add_folder(folder: &Path, named: &mut NamedRuns) -> Result<(), Failure> {
    let shown = folder.display();
    let entries = std::fs::read_dir(folder).map_err(|error| {
        Failure::new(
            status::FAILED,
            format!("cannot read the folder `{shown}`: {}", crate::base::failure::io_words(&error)),
        )
    })?;
    let is_recording = |path: &PathBuf| path.extension().is_some_and(|ending| ending == "data");
    let mut found: Vec<PathBuf> =
        entries.flatten().map(|entry| entry.path()).filter(is_recording).take(MOST_RUNS + 1).collect();
    if found.is_empty() {
        return Err(Failure::new(
            status::FAILED,
            format!("the folder `{shown}` has no file that ends in .data"),
        )
        .hint("name the recordings:  prof diff BASE,BASE NEW,NEW"));
    }
    found.sort();
    named.of_folders.extend(found.iter().cloned());
    named.files.append(&mut found);
    Ok(())
}

fn add_matching(pattern: &str, files: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let paths = glob::glob(pattern)
        .map_err(|error| Failure::usage(format!("`{pattern}` is no pattern of file names: {}", error.msg)))?;
    let before = files.len();
    files.extend(paths.flatten().take(MOST_RUNS + 1));
    if files.len() == before {
        return Err(Failure::new(status::FAILED, format!("no file matches `{pattern}`")));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_become_files() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        for name in ["b2.data", "b1.data", "n1.data", "odd,name.data", "notes.txt"] {
            std::fs::write(at(name), name).unwrap();
        }
        let names = |word: PathBuf| -> Vec<String> {
            let files = files_of(&[word], "base").unwrap().files;
            files.iter().map(|file| file.file_name().unwrap().to_str().unwrap().to_owned()).collect()
        };
        assert_eq!(names(at("b*.data")), ["b1.data", "b2.data"]);
        assert_eq!(names(folder.path().to_owned()), ["b1.data", "b2.data", "n1.data", "odd,name.data"]);
        assert_eq!(names(at("odd,name.data")), ["odd,name.data"], "a file is itself");
        let list = format!("{},{}", at("n1.data").display(), at("b[12].data").display());
        assert_eq!(names(list.into()), ["n1.data", "b1.data", "b2.data"]);
        assert_eq!(names(at("missing.data")), ["missing.data"], "it is reported when it is read");
    }

    #[test]
    fn what_is_no_recording_is_passed_over_in_folders_and_nowhere_else() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        let profile = crate::report::tests::fixture::ingest().into_recording().profile;
        let writer = crate::profile::Writer::new(Vec::new(), &profile.meta).unwrap();
        std::fs::write(at("a.data"), writer.into_inner()).unwrap();
        std::fs::write(at("b.data"), "no recording").unwrap();
        let left = |word: PathBuf| {
            let words = Sides::Words([vec![word], Vec::new()]);
            let plain = DiffOptions { sides: words, ..DiffOptions::plain(CommonOptions::default()) };
            let named = with_files(&plain).unwrap();
            let Sides::Files([base, _]) = &named.sides else { panic!("they are files") };
            recordings(base, &named, "base")
        };
        assert_eq!(left(folder.path().to_owned()).unwrap(), [at("a.data")]);
        assert_eq!(left(at("b.data")).unwrap(), [at("b.data")], "its reader says what is wrong with it");
        std::fs::remove_file(at("a.data")).unwrap();
        assert!(left(folder.path().to_owned()).unwrap_err().message.ends_with("can be read"));
    }

    #[test]
    fn what_cannot_be_compared_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("a.data");
        std::fs::write(&file, "x").unwrap();
        let refused = |words: &[PathBuf]| files_of(words, "base").unwrap_err().message;
        assert!(refused(&[file.clone(), file.clone()]).contains("is named twice for the base"));
        assert!(refused(&["-".into()]).starts_with("standard input"));
        assert!(refused(&[folder.path().join("x*.data")]).starts_with("no file matches"));
        std::fs::remove_file(&file).unwrap();
        assert!(refused(&[folder.path().to_owned()]).contains("has no file that ends in .data"));
        assert!(refused(&[format!("{}/[.data", folder.path().display()).into()]).contains("is no pattern"));
    }
}
