//! Labels of processes for the recorder: facts that its opener lets it read, identified by the rules of the configuration.

use super::pods::read_list;
use crate::agent::identity::{
    HostFiles, Identifier, Identity, KubeletPods, LabelSettings, ProcessFacts, RootedFiles,
};
use crate::base::opener::{self, Service};
use crate::profile::counter;
use crate::record::{LabelsProcesses, ProcessLabels, SampledProgram, ServesHostFiles};
use rustix::fs::readlinkat;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io::{self, Read};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

/// Folders in which container engines and Kubernetes keep names. Nothing else is read of the host.
const FOLDERS: [&str; 4] =
    ["/var/lib/docker/containers", "/run/containerd", "/var/lib/containers/storage", "/var/log/pods"];
/// Largest file and longest list that are served.
const MOST_BYTES: u64 = 64 << 20;
const MOST_NAMES: usize = 100_000;
/// Flag of a thread of the kernel in `/proc/PID/stat`, and the place of the flags after the name.
const OF_KERNEL: u64 = 0x0020_0000;
const FLAGS_AFTER_NAME: usize = 6;

/// What is asked of the opener.
#[derive(Debug, Serialize, Deserialize)]
enum HostRequest {
    Read {
        path: Vec<u8>,
        most: u64,
    },
    List {
        folder: Vec<u8>,
        most: usize,
    },
    /// The kubelet's list of pods.
    Pods,
}

/// Says which labels processes have.
pub(super) struct AgentLabeller {
    identifier: Identifier,
}

impl AgentLabeller {
    /// One that labels by these settings. Files of the host come from the opener, if there is one, or from below `root`.
    ///
    /// # Errors
    ///
    /// When `root` is no folder.
    pub(super) fn new(settings: LabelSettings, root: &Path, pods: Option<PathBuf>) -> io::Result<Self> {
        let files = AgentHostFiles { own: RootedFiles::open(root)? };
        let pods = pods.map(|file| Box::new(PodsInFile { file }) as Box<dyn KubeletPods + Send>);
        Ok(AgentLabeller { identifier: Identifier::new(settings, Box::new(files), pods) })
    }
}

impl LabelsProcesses for AgentLabeller {
    fn labels_of(&mut self, program: &SampledProgram<'_>) -> ProcessLabels {
        let pid = program.pid;
        let exe = opener::process_place(pid, "exe").ok().and_then(|place| target_of(&place));
        let mut facts = ProcessFacts::read(|name| opener::process_file(pid, name), exe, is_of_kernel(pid));
        if let Some(path) = program.path {
            facts.add_program(program.comm, path);
        }
        match self.identifier.identify(&facts, Instant::now(), !program.is_again) {
            Identity::LeftOut => ProcessLabels::LeftOut,
            Identity::Series(labels) => {
                let labels = labels.iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
                ProcessLabels::Labels(Arc::new(labels.collect()))
            }
        }
    }

    fn may_leave_out(&self) -> bool {
        self.identifier.may_leave_out()
    }

    fn counts(&self) -> Vec<(&'static str, u64)> {
        let counts = self.identifier.counts();
        vec![
            (counter::PROCESSES_LEFT_OUT, counts.left_out),
            (counter::LABELS_MERGED, counts.merged),
            (counter::LABELS_MALFORMED, counts.malformed_attributes),
            (counter::LABELS_OF_ENDED, counts.ended),
            (counter::POD_LISTS_FAILED, counts.failed_pod_lists),
        ]
    }
}

/// The path of an open place, as the kernel has it.
fn target_of(place: &impl std::os::fd::AsRawFd) -> Option<Vec<u8>> {
    let link = format!("/proc/self/fd/{}", place.as_raw_fd());
    let path = readlinkat(rustix::fs::CWD, link, Vec::new()).ok()?;
    Some(path.into_bytes())
}

/// Whether a process is a thread of the kernel.
fn is_of_kernel(pid: u32) -> bool {
    let mut text = String::new();
    let read = opener::process_file(pid, "stat").and_then(|file| file.take(4096).read_to_string(&mut text));
    let flags = read
        .ok()
        .and_then(|_| text.rsplit_once(") ")?.1.split(' ').nth(FLAGS_AFTER_NAME)?.parse::<u64>().ok());
    flags.is_some_and(|flags| flags & OF_KERNEL != 0)
}

/// Files of the host, by the opener where there is one.
struct AgentHostFiles {
    own: RootedFiles,
}

impl HostFiles for AgentHostFiles {
    fn read(&self, path: &Path, most: u64) -> io::Result<Vec<u8>> {
        if !opener::makes_files() {
            return self.own.read(path, most);
        }
        ask(&HostRequest::Read { path: path.as_os_str().as_bytes().to_vec(), most })
    }

    fn list(&self, folder: &Path, most: usize) -> io::Result<Vec<OsString>> {
        if !opener::makes_files() {
            return self.own.list(folder, most);
        }
        let names = ask(&HostRequest::List { folder: folder.as_os_str().as_bytes().to_vec(), most })?;
        let names: Vec<Vec<u8>> = serde_json::from_slice(&names)?;
        Ok(names.into_iter().map(OsString::from_vec).collect())
    }
}

/// The kubelet's list, in the file into which the sender puts it.
struct PodsInFile {
    file: PathBuf,
}

impl KubeletPods for PodsInFile {
    fn pods(&mut self) -> io::Result<Vec<u8>> {
        if opener::makes_files() { ask(&HostRequest::Pods) } else { read_list(&self.file) }
    }
}

fn ask(request: &HostRequest) -> io::Result<Vec<u8>> {
    let (answer, _) = opener::ask_service(Service::HostFiles, serde_json::to_vec(request)?, None)?;
    Ok(answer)
}

/// The opener's side: files below these folders of the host, and no others.
pub(super) struct ServedHostFiles {
    files: RootedFiles,
    pods: PathBuf,
}

impl ServedHostFiles {
    /// The files below `root`.
    ///
    /// # Errors
    ///
    /// When that is no folder.
    pub(super) fn new(root: &Path, pods: PathBuf) -> io::Result<Self> {
        Ok(ServedHostFiles { files: RootedFiles::open(root)?, pods })
    }
}

impl ServesHostFiles for ServedHostFiles {
    fn serve(&self, body: &[u8]) -> io::Result<Vec<u8>> {
        match serde_json::from_slice(body)? {
            HostRequest::Read { path, most } => {
                crate::base::privilege::as_user(|| self.files.read(&allowed(path)?, most.min(MOST_BYTES)))
            }
            HostRequest::Pods => crate::base::privilege::as_user(|| read_list(&self.pods)),
            HostRequest::List { folder, most } => {
                let names = crate::base::privilege::as_user(|| {
                    self.files.list(&allowed(folder)?, most.min(MOST_NAMES))
                })?;
                let names: Vec<Vec<u8>> = names.into_iter().map(OsString::into_vec).collect();
                Ok(serde_json::to_vec(&names)?)
            }
        }
    }
}

/// A path below one of the folders, and without steps upwards.
fn allowed(path: Vec<u8>) -> io::Result<PathBuf> {
    let path = PathBuf::from(OsString::from_vec(path));
    let is_plain = path.components().all(|part| matches!(part, Component::RootDir | Component::Normal(_)));
    let is_in = FOLDERS.iter().any(|folder| path.starts_with(folder));
    if is_plain && is_in { Ok(path) } else { Err(io::ErrorKind::PermissionDenied.into()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_names_of_containers_are_served() {
        let folder = tempfile::tempdir().expect("a folder");
        let pods = folder.path().join("var/log/pods/shop_web-1_uid");
        std::fs::create_dir_all(&pods).expect("it can be made");
        std::fs::create_dir_all(folder.path().join("etc")).expect("it can be made");
        std::fs::write(folder.path().join("etc/shadow"), "secret").expect("it can be written");
        let served =
            ServedHostFiles::new(folder.path(), folder.path().join("pods.json")).expect("it is there");
        let take = |request: &HostRequest| served.serve(&serde_json::to_vec(request).unwrap());
        let names =
            take(&HostRequest::List { folder: b"/var/log/pods".to_vec(), most: 9 }).expect("it may be read");
        assert_eq!(serde_json::from_slice::<Vec<Vec<u8>>>(&names).unwrap(), [b"shop_web-1_uid".to_vec()]);
        for path in ["/etc/shadow", "/var/log/pods/../../../etc/shadow", "var/log/pods", "/"] {
            let refused = take(&HostRequest::Read { path: path.into(), most: 9 });
            assert!(refused.is_err(), "{path}");
        }
        assert!(served.serve(b"nonsense").is_err());
    }

    #[test]
    fn this_process_has_labels_and_no_thread_of_the_kernel_is_it() {
        let settings =
            crate::agent::config::AgentConfig::parse("a", "[keep]\nfolder = \"/k\"\n").expect("it is right");
        let mut labeller = AgentLabeller::new(settings.label_settings("h1".to_owned()), Path::new("/"), None)
            .expect("it is there");
        let own = SampledProgram { pid: std::process::id(), comm: "", path: None, is_again: false };
        let ProcessLabels::Labels(labels) = labeller.labels_of(&own) else { panic!("it is left out") };
        let get = |key: &str| labels.iter().find(|(own, _)| own == key).map(|(_, value)| value.as_str());
        assert_eq!(get("host"), Some("h1"));
        assert!(get("service_name").is_some_and(|name| !name.is_empty() && name != "kernel"), "{labels:?}");
        assert!(!is_of_kernel(std::process::id()));
    }
}
