//! A PostgreSQL server of the test's own: a cluster in a temporary folder, reachable by a socket there
//! only, run by an account that is not root (the server refuses to be).

use crate::harness::machine::{account, skip, tool};
use crate::harness::running::{Running, UNTIL_ENDED, wait_for};
use rustix::process::Signal;
use std::fs;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;

/// Clients that `pgbench` keeps busy.
const CLIENTS: usize = 2;

/// The server; it ends, and its cluster vanishes, when this is dropped.
pub(crate) struct Postgres {
    // Before the folder: the server has to end before its files are deleted.
    _server: Running,
    binaries: PathBuf,
    owner: (u32, u32),
    folder: TempDir,
}

impl Postgres {
    /// Makes a cluster, starts the server and fills the benchmark's tables; `None`, after saying why,
    /// where PostgreSQL is not installed.
    pub(crate) fn start() -> Option<Postgres> {
        let Some(binaries) = binaries() else { return skip("PostgreSQL with pgbench is not installed") };
        let Some(owner) = account("postgres").or_else(|| account("nobody")) else {
            return skip("there is no account `postgres` or `nobody` to run PostgreSQL as");
        };
        let folder = tempfile::tempdir().expect("a temporary folder can be made");
        std::os::unix::fs::chown(folder.path(), Some(owner.0), Some(owner.1))
            .expect("root can give files away");
        let command = |name: &str| command_as(owner, &binaries.join(name), folder.path());
        must_succeed(command("initdb").args([
            "-D",
            "data",
            "-A",
            "trust",
            "--no-sync",
            "-U",
            "postgres",
            "-E",
            "UTF8",
        ]));
        let socket_folder = folder.path().to_str().expect("a temporary path is text");
        let server = Running::start(command("postgres").args(["-D", "data", "-k", socket_folder]).args([
            "-c",
            "listen_addresses=",
            "-c",
            "fsync=off",
            "-c",
            "shared_buffers=32MB",
        ]))
        .ended_by(Signal::QUIT);
        let mut isready = command("pg_isready");
        isready.args(["-q", "-h", socket_folder]);
        wait_for("PostgreSQL to answer", || isready.status().ok()?.success().then_some(()));
        must_succeed(command("pgbench").args([
            "-i",
            "-q",
            "-s",
            "1",
            "-h",
            socket_folder,
            "-U",
            "postgres",
            "postgres",
        ]));
        Some(Postgres { _server: server, owner, folder, binaries })
    }

    /// Clients that read from the tables until this is dropped.
    pub(crate) fn load(&self) -> Running {
        let clients = CLIENTS.to_string();
        Running::start(self.client("pgbench").args([
            "-S",
            "-n",
            "-c",
            &clients,
            "-T",
            UNTIL_ENDED,
            "-U",
            "postgres",
            "postgres",
        ]))
    }

    /// The processes that serve the clients, once all of them are there.
    ///
    /// The server says which: `pgbench` first asks for the size of its tables by a connection that it
    /// closes again, whose process lives on for a while.
    pub(crate) fn backends(&self) -> Vec<u32> {
        const THAT_READ: &str = "SELECT pid FROM pg_stat_activity WHERE query LIKE 'SELECT abalance %'";
        wait_for("the clients to read", || {
            let mut psql = self.client("psql");
            psql.args(["-A", "-t", "-X", "-c", THAT_READ, "-U", "postgres", "postgres"]);
            let output = psql.stdout(Stdio::piped()).output().ok()?;
            let backends: Vec<u32> = String::from_utf8_lossy(&output.stdout)
                .lines()
                .filter_map(|line| line.parse().ok())
                .collect();
            (backends.len() == CLIENTS).then_some(backends)
        })
    }

    /// A program that connects to the server.
    fn client(&self, program: &str) -> Command {
        let mut command = command_as(self.owner, &self.binaries.join(program), self.folder.path());
        command.arg("-h").arg(self.folder.path());
        command
    }
}

/// The folder of the newest PostgreSQL that has all that is needed.
fn binaries() -> Option<PathBuf> {
    let has_all = |folder: &PathBuf| {
        ["initdb", "postgres", "pgbench", "pg_isready", "psql"].iter().all(|name| folder.join(name).exists())
    };
    // Debian keeps the server's programs out of PATH, by major version.
    let versions = fs::read_dir("/usr/lib/postgresql").into_iter().flatten().flatten();
    let newest = versions.map(|version| version.path().join("bin")).filter(has_all).max_by_key(|folder| {
        let version = folder.parent().and_then(Path::file_name).and_then(|name| name.to_str());
        version.and_then(|name| name.parse::<u32>().ok())
    });
    newest.or_else(|| Some(tool("initdb")?.parent()?.to_path_buf()).filter(has_all))
}

fn command_as((uid, gid): (u32, u32), program: &Path, folder: &Path) -> Command {
    let mut command = Command::new(program);
    command.uid(uid).gid(gid).current_dir(folder).env("LC_ALL", "C").env("HOME", folder);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

fn must_succeed(command: &mut Command) {
    let output = command.stderr(Stdio::piped()).output();
    let output = output.unwrap_or_else(|error| panic!("cannot run {command:?}: {error}"));
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}
