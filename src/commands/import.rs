//! `prof import`: reads a recording of another profiler, names the frames that have no name, and writes a profile.

use super::symbolize;
use crate::base::failure::{self, Failure, status};
use crate::base::opener::{self, Opening};
use crate::base::units::{counted, weight};
use crate::base::{privilege, safe_text};
use crate::import::{self, ImportError, ImportFormat, ImportOptions, ImportSource, Imported};
use crate::profile::Profile;
use crate::record::{LeftMaps, hostname, read_own_vdso};
use crate::report::{Input, ReportDestination, check, check_not_input, write_with};
use crate::symbols::KernelSymbols;
use rustix::fs::FileType;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, IsTerminal, Write};
use std::path::{Path, PathBuf};

/// Options of `prof import`.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct ImportRequest {
    /// Source of the recording.
    pub(crate) input: Input,
    /// Destination of the profile.
    pub(crate) destination: ReportDestination,
    /// The format; `None` to detect it from the contents.
    pub(crate) format: Option<ImportFormat>,
    /// Facts that the file does not have.
    pub(crate) options: ImportOptions,
    /// Folders to look for debug files in, besides the usual places.
    pub(crate) folders: Vec<PathBuf>,
    /// Whether to ask debuginfod servers for files that are not on this machine.
    pub(crate) debuginfod: bool,
    /// Whether to print nothing about the import.
    pub(crate) quiet: bool,
}

/// What is known of the running kernel, before rights are given up.
#[derive(Debug, Default)]
pub(crate) struct OwnKernel {
    /// Its symbols. Opened only with the user's own rights: otherwise the user could find kernel addresses by trying addresses
    /// in a file until one gets a name.
    list: Option<File>,
    /// Its vDSO.
    vdso: Option<Vec<u8>>,
}

impl OwnKernel {
    /// Of this machine.
    pub(crate) fn look() -> Self {
        OwnKernel { list: privilege::as_user(KernelSymbols::open).ok(), vdso: read_own_vdso() }
    }
}

/// Imports, and prints the result on standard error.
///
/// # Errors
///
/// Fails when the source cannot be read, contains nothing usable, or the profile cannot be written; no partial file is
/// left.
pub(crate) fn run(request: &ImportRequest, kernel: OwnKernel) -> anyhow::Result<()> {
    check(&request.destination)?;
    if request.destination == ReportDestination::Stdout && io::stdout().is_terminal() {
        return Err(Failure::usage("a profile is not text, and standard output is a terminal")
            .hint("to a file:  -o FILE")
            .into());
    }
    check_not_input(&request.destination, &request.input)?;
    symbolize::check_folders(&request.folders)?;
    // The source, and the programs in it, are read with the user's own rights.
    let imported = privilege::as_user(|| import_to(request, kernel))?;
    if !request.quiet {
        let mut stderr = io::stderr().lock();
        for line in summary(request, &imported).lines() {
            // If standard error is closed, the line is lost.
            let _ = writeln!(stderr, "{}", safe_text::for_locale(line, stderr.is_terminal()));
        }
    }
    Ok(())
}

fn import_to(request: &ImportRequest, kernel: OwnKernel) -> anyhow::Result<Imported> {
    let source = open(&request.input)?;
    let written_at = source.written();
    let mut source = Some(source.with_kernel_list(kernel.list).with_vdso(kernel.vdso));
    let mut came_to = Err(ImportError::NoSamples(String::new()));
    let mut problems = Vec::new();
    let written = write_with(&request.destination, |out| {
        let Some(source) = source.take() else { return Ok(()) };
        let mut name_frames = |profile: &mut Profile| {
            // Another machine's processes have left nothing here.
            let is_of_here = profile.meta.hostname == hostname();
            let mut maps = written_at.filter(|_| is_of_here).map(LeftMaps::of_here_until);
            // Without names it is imported all the same.
            match symbolize::complete(profile, &request.folders, request.debuginfod, maps.as_mut()) {
                Ok((_, found)) => problems = found,
                Err(error) => problems.push(format!("{error:#}")),
            }
            maps.map_or(Vec::new(), LeftMaps::notes)
        };
        came_to = import::import(source, request.format, &request.options, out, &mut name_frames);
        // Any error will do to discard the file; the real one is reported below.
        if came_to.is_err() { Err(io::ErrorKind::Other.into()) } else { Ok(()) }
    });
    let mut imported = came_to.map_err(|error| explained(&request.input, error))?;
    written?;
    imported.notes.extend(problems);
    Ok(imported)
}

/// Opens the source. A pipe or device is read only as standard input.
fn open(input: &Input) -> anyhow::Result<ImportSource> {
    let path = match input {
        Input::Stdin => return Ok(ImportSource::of_stream(io::stdin())),
        Input::File(path) | Input::Span(path, _) => path,
    };
    let cannot =
        |why: String| Failure::new(status::FAILED, format!("cannot import `{}`: {why}", path.display()));
    let seen = opener::look(path, true).map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => cannot("no such file".to_owned()),
        _ => cannot(failure::io_words(&error)),
    })?;
    if seen.kind() != FileType::RegularFile {
        let is_folder = seen.kind() == FileType::Directory;
        let why = if is_folder { "it is a folder" } else { "it is not a regular file" };
        return Err(cannot(why.to_owned()).hint("for a pipe:  prof import - < PIPE").into());
    }
    let source =
        opener::given_file(path, Opening::Any).and_then(|file| ImportSource::of_file(file, shown(path)));
    Ok(source.map_err(|error| cannot(failure::io_words(&error)))?)
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// The error for the user: why nothing was imported, and what to do.
fn explained(input: &Input, error: ImportError) -> anyhow::Error {
    let name = match input {
        Input::Stdin => "standard input".to_owned(),
        Input::File(path) | Input::Span(path, _) => format!("`{}`", path.display()),
    };
    let status = if matches!(error, ImportError::NoSamples(_)) { status::NO_MATCH } else { status::FAILED };
    let why = match &error {
        ImportError::Read(error) => failure::io_words(error),
        ImportError::Write(error) => format!("the profile cannot be written: {error}"),
        other => other.to_string(),
    };
    let failure = Failure::new(status, format!("cannot import {name}: {why}"));
    let formats = ImportFormat::ALL.map(ImportFormat::name).join("|");
    match error {
        ImportError::Foreign(_) => failure.hint(format!("if you know better:  --format {formats}")).into(),
        _ => failure.into(),
    }
}

/// Lines that describe what was imported.
fn summary(request: &ImportRequest, imported: &Imported) -> String {
    let mut text = String::new();
    let to = match &request.destination {
        ReportDestination::Stdout => String::new(),
        ReportDestination::File { path, .. } => {
            format!(" to `{}`", safe_text::terminal(&shown(path)))
        }
    };
    let events = imported.events.iter().map(|(title, rows, sum, unit)| {
        let title = safe_text::terminal(title);
        format!("{title}: {} = {}", counted(*rows, "sample"), weight(*unit, *sum, *sum))
    });
    let events = events.collect::<Vec<_>>().join("; ");
    // Writing to a string cannot fail.
    let _ = writeln!(text, "imported {}{to}: {events}", imported.format);
    for note in &imported.notes {
        // Writing to a string cannot fail.
        let _ = writeln!(text, "note: {}", safe_text::message(note));
    }
    text
}
