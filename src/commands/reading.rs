//! What commands that read a file name on their command line, and what is done for them with the user's rights: root's
//! processes that read have none ([`crate::base::opener::reading`]).

use crate::base::failure;
use crate::base::opener::reading::{self, Reading};
use crate::base::opener::sandbox::Network;
use crate::base::opener::{GivenFiles, Service, Services};
use crate::base::{pace, safe_text};
use crate::debuginfod::asked_cache;
use crate::debuginfod::authorities::NamedAuthorities;
use crate::debuginfod::settings::Settings;
use crate::diff::{DiffOptions, Sides, compare_files};
use crate::report::{Input, ReportDestination, show_in_pager};
use crate::tui;
use std::io::{self, IsTerminal, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

/// Files of a command line.
#[derive(Debug, Default)]
pub(crate) struct CommandFiles {
    files: GivenFiles,
    asks_servers: bool,
    uses_network: bool,
}

impl CommandFiles {
    /// One that is read.
    pub(crate) fn of_input(input: &Input) -> Self {
        CommandFiles::default().and_input(input)
    }

    /// Another that is read.
    pub(crate) fn and_input(mut self, input: &Input) -> Self {
        self.files.read.extend(input.path().map(Path::to_owned));
        self
    }

    /// Several that are read.
    pub(crate) fn of_inputs(paths: &[PathBuf]) -> Self {
        let files = GivenFiles { read: paths.to_vec(), ..GivenFiles::default() };
        CommandFiles { files, ..CommandFiles::default() }
    }

    /// One that is written.
    pub(crate) fn to(mut self, destination: &ReportDestination) -> Self {
        if let ReportDestination::File { path, .. } = destination {
            self.files.written.push(path.clone());
        }
        self
    }

    /// One that is read, and replaced.
    pub(crate) fn of_replaced(path: &Path) -> Self {
        let path = || vec![path.to_owned()];
        let files = GivenFiles { read: path(), written: path(), made_from: None };
        CommandFiles { files, ..CommandFiles::default() }
    }

    /// Files that are made on demand, with names that begin with `stem`.
    pub(crate) fn and_made_from(mut self, stem: &str) -> Self {
        self.files.made_from = Some(stem.into());
        self
    }

    /// Says whether servers are asked for debug files.
    pub(crate) fn and_servers(self, asks_servers: bool) -> Self {
        CommandFiles { asks_servers, uses_network: asks_servers, ..self }
    }

    /// Says whether something is sent to a server.
    pub(crate) fn and_network(self, uses_network: bool) -> Self {
        CommandFiles { uses_network, ..self }
    }

    /// Does `work`, without any rights if root runs this; returns its exit status.
    ///
    /// # Errors
    ///
    /// Those of the work if it was done in this process, and when no process can be made.
    pub(crate) fn read(self, work: impl FnOnce() -> anyhow::Result<u8>) -> anyhow::Result<u8> {
        let settings = self.asks_servers.then(Settings::of_environment).and_then(Result::ok);
        let services = ReadingServices { cache: settings.and_then(|settings| settings.cache) };
        let network = if self.uses_network { Network::Used } else { Network::Refused };
        let reading = Reading { files: self.files, services: Box::new(services), network };
        let authorities = self.uses_network.then(NamedAuthorities::read).flatten();
        reading::confined(reading, say, || {
            authorities.map_or(Ok(()), NamedAuthorities::keep)?;
            pace::start_threads(|| {})?;
            work()
        })
    }
}

/// What is done for the process that reads.
struct ReadingServices {
    /// The cache of debug files.
    cache: Option<PathBuf>,
}

impl Services for ReadingServices {
    fn serve(
        &self,
        service: Service,
        body: &[u8],
        descriptor: Option<OwnedFd>,
    ) -> io::Result<(Vec<u8>, Option<OwnedFd>)> {
        match service {
            Service::Pager => {
                show_in_pager(descriptor.ok_or(io::ErrorKind::InvalidInput)?)?;
                Ok((Vec::new(), None))
            }
            Service::Editor => Ok((tui::edit_for(body)?, None)),
            Service::Stop => {
                reading::stop_job();
                Ok((Vec::new(), None))
            }
            Service::DebugFiles => asked_cache::serve(self.cache.as_deref(), body, descriptor),
            Service::TableSpace
            | Service::TableCache
            | Service::CpuEvent
            | Service::Heap
            | Service::GoRates
            | Service::HostFiles
            | Service::Output => Err(io::ErrorKind::PermissionDenied.into()),
        }
    }

    fn end(&self) {}
}

/// Compares recordings that are named by their files, without any rights if root runs this; returns the exit status.
///
/// # Errors
///
/// As [`CommandFiles::read`].
pub(crate) fn compare(options: &DiffOptions) -> anyhow::Result<u8> {
    let mut files = CommandFiles::default().to(&options.destination);
    if let Sides::Files(sides) = &options.sides {
        let inputs = sides.iter().flatten().cloned().map(Input::named);
        files = inputs.fold(files, |files, input| files.and_input(&input));
    }
    files.read(|| compare_files(options))
}

/// Says on standard error what failed; returns the exit status.
pub(crate) fn say(error: &anyhow::Error) -> u8 {
    let (status, lines) = failure::explain(error);
    let mut stderr = io::stderr().lock();
    let is_terminal = stderr.is_terminal();
    for line in lines.iter().map(|line| safe_text::for_locale(line, is_terminal)) {
        // If standard error is closed, the line is lost.
        let _ = writeln!(stderr, "{line}");
    }
    status
}
