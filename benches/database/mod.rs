//! PostgreSQL under load: a cluster in a temporary folder, reachable by a socket there only, run by an account that is not
//! root.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// The account that the packages make.
const ACCOUNT: &str = "postgres";
/// A server that is slower to answer has failed.
const PATIENCE: Duration = Duration::from_secs(30);

/// The server with clients that keep it busy; all of it ends with this.
#[derive(Debug)]
pub(crate) struct Database {
    server: Child,
    clients: Option<Child>,
    // Last: the server has to end before its files are deleted.
    folder: TempDir,
}

impl Database {
    /// Starts it; `None` where it is not installed or cannot be run as its account.
    pub(crate) fn start() -> Option<Database> {
        let binaries = binaries()?;
        let folder = tempfile::tempdir().ok()?;
        let path = folder.path().to_owned();
        let run = |name: &str, arguments: &str| as_account(&path, &binaries.join(name), arguments);
        let owner = Command::new("chown").arg(ACCOUNT).arg(folder.path()).status().ok()?;
        let made = run("initdb", "-D data -A trust --no-sync").status().ok()?;
        if !owner.success() || !made.success() {
            return None;
        }
        let options = "-D data -k $PWD -c listen_addresses= -c fsync=off";
        let server = run("postgres", options).spawn().ok()?;
        let mut database = Database { server, clients: None, folder };
        let began = Instant::now();
        while !run("pg_isready", "-q -h $PWD").status().ok()?.success() {
            if began.elapsed() > PATIENCE {
                return None;
            }
            std::thread::sleep(Duration::from_millis(100));
        }
        run("pgbench", "-i -q -s 1 -h $PWD postgres").status().ok().filter(|status| status.success())?;
        database.clients = run("pgbench", "-S -n -c 2 -T 600 -h $PWD postgres").spawn().ok();
        std::thread::sleep(Duration::from_secs(1));
        Some(database)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        // Errors mean that they have gone already.
        if let Some(clients) = &mut self.clients {
            let _ = clients.kill();
            let _ = clients.wait();
        }
        let pid = std::fs::read_to_string(self.folder.path().join("data/postmaster.pid")).unwrap_or_default();
        let number = pid.lines().next().unwrap_or_default();
        let _ = Command::new("kill").args(["-QUIT", number]).status();
        let _ = self.server.wait();
    }
}

/// `program ARGUMENTS`, in words of the shell, in `folder`.
fn as_account(folder: &Path, program: &Path, arguments: &str) -> Command {
    let line = format!("cd {} && exec {} {arguments}", folder.display(), program.display());
    let mut command = Command::new("runuser");
    command.args(["-u", ACCOUNT, "--", "sh", "-c", &line]);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// The folder of the newest PostgreSQL. Debian keeps the server's programs out of PATH, by major version.
fn binaries() -> Option<PathBuf> {
    let versions = std::fs::read_dir("/usr/lib/postgresql").ok()?.flatten();
    let version = |path: &PathBuf| path.file_name()?.to_str()?.parse::<u32>().ok();
    let newest = versions.map(|entry| entry.path()).max_by_key(version)?;
    Some(newest.join("bin")).filter(|folder| folder.join("pgbench").exists())
}
