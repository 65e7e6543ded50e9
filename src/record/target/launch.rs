//! A command that is started for the recording: created stopped, released once its tables are loaded.

use super::run_as::{self, RunAs};
use crate::base::failure::{Failure, status};
use crate::base::{opener, privilege};
use crate::record::process::proc_fs;
use crate::record::process::proc_fs::CpuTime;
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::ffi::{CString, OsStr, OsString};
use std::fs::File;
use std::io::{Read, Write};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// A child process that has not called exec yet, or runs.
#[derive(Debug)]
pub(crate) struct Child {
    /// Process id.
    pub(crate) pid: u32,
    /// The program's file.
    pub(crate) program: PathBuf,
    /// The name of the user that it runs as, where that is another one. Foreign text.
    pub(crate) user: Option<String>,
    gate: Option<File>,
    failure: File,
    status: Option<i32>,
    /// Becomes readable when it ends; `None` where the kernel has no such thing.
    ended: Option<OwnedFd>,
    /// CPU time that it had used when it ended.
    pub(crate) cpu_time: Option<CpuTime>,
    /// The signal that killed it.
    signal: Option<i32>,
}

/// Finds the program of a command as execvp(3) does.
///
/// # Errors
///
/// A [`Failure`] with status 127 when there is no such file and 126 when it cannot be executed.
pub(super) fn find_program(name: &OsStr) -> Result<PathBuf, Failure> {
    let is_program = |path: &Path| {
        path.metadata().is_ok_and(|metadata| metadata.is_file() && metadata.permissions().mode() & 0o111 != 0)
    };
    let shown = name.to_string_lossy();
    if name.as_bytes().contains(&b'/') {
        let path = PathBuf::from(name);
        return match path.metadata() {
            _ if is_program(&path) => Ok(path),
            Ok(metadata) if metadata.is_dir() => Err(cannot_execute(&shown, "it is a folder")),
            Ok(_) => Err(cannot_execute(&shown, "it is not an executable file")
                .hint(format!("make it executable: chmod +x {shown}"))),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                Err(not_found(&shown, "no such file"))
            }
            Err(error) => Err(cannot_execute(&shown, &error.to_string())),
        };
    }
    let path = std::env::var_os("PATH").unwrap_or_else(|| OsString::from("/usr/bin:/bin"));
    std::env::split_paths(&path)
        .map(|folder| folder.join(name))
        .find(|path| is_program(path))
        .ok_or_else(|| not_found(&shown, "no such program in PATH"))
}

fn not_found(name: &str, why: &str) -> Failure {
    Failure::new(status::NOT_FOUND, format!("cannot start `{name}`: {why}")).hint(
        "check the name; `prof record -- CMD ARG…` takes a program, not a shell command (use sh -c '…')",
    )
}

fn cannot_execute(name: &str, why: &str) -> Failure {
    Failure::new(status::CANNOT_EXECUTE, format!("cannot start `{name}`: {why}"))
}

impl Child {
    /// Creates the process, as another user if there is one. It waits, before its exec, until [`Child::release`]; if this
    /// process ends first, so does the child.
    pub(crate) fn spawn_stopped(command: &[OsString], user: Option<RunAs>) -> anyhow::Result<Self> {
        Child::spawn(command, user, None)
    }

    /// Starts a command like [`Child::spawn_stopped`]; the command neither reads from this process's terminal nor writes to it.
    pub(crate) fn spawn_stopped_in_silence(
        command: &[OsString],
        user: Option<RunAs>,
    ) -> anyhow::Result<Self> {
        let nowhere = File::options().read(true).write(true).open("/dev/null")?;
        Child::spawn(command, user, Some(&nowhere))
    }

    /// The command, and the search for it, have the rights of who asked for it, and none of this program's own.
    fn spawn(
        command: &[OsString],
        user: Option<RunAs>,
        standard_files: Option<&File>,
    ) -> anyhow::Result<Self> {
        privilege::as_user(|| Child::spawn_with_own_rights(command, user, standard_files))
    }

    fn spawn_with_own_rights(
        command: &[OsString],
        user: Option<RunAs>,
        standard_files: Option<&File>,
    ) -> anyhow::Result<Self> {
        let Some(name) = command.first() else {
            return Err(Failure::usage("no command was given").into());
        };
        let program = find_program(name)?;
        let c_program = CString::new(program.as_os_str().as_bytes())?;
        let arguments: Vec<CString> =
            command.iter().map(|argument| CString::new(argument.as_bytes())).collect::<Result<_, _>>()?;
        let environment = run_as::environment(user.as_ref());
        let [arguments, environment] = [&arguments, &environment].map(|texts| {
            let pointers = texts.iter().map(|text| text.as_ptr());
            pointers.chain(std::iter::once(std::ptr::null())).collect::<Vec<_>>()
        });

        let (gate_read, gate_write) = pipe()?;
        let (failure_read, failure_write) = pipe()?;
        // SAFETY: the child calls only async-signal-safe functions (read, signal, setrlimit, dup2, execve, write, _exit, system
        // calls) on memory prepared before, so that other threads' locks do not matter to it.
        let pid = unsafe { libc::fork() };
        if pid < 0 {
            return Err(std::io::Error::last_os_error().into());
        }
        if pid == 0 {
            // SAFETY: as above; the pointers are valid, the program and its argument list NUL-terminated.
            unsafe {
                let pipes = [&gate_read, &gate_write, &failure_write].map(|end| end.as_raw_fd());
                let standard_files = standard_files.map(|file| file.as_raw_fd());
                let program = [arguments.as_ptr(), environment.as_ptr()];
                wait_and_execute(pipes, standard_files, user.as_ref(), c_program.as_ptr(), program)
            }
        }
        Ok(Child {
            pid: pid as u32,
            program,
            user: user.map(|user| user.name),
            gate: Some(File::from(gate_write)),
            failure: File::from(failure_read),
            status: None,
            ended: Pid::from_raw(pid).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok()),
            cpu_time: None,
            signal: None,
        })
    }

    /// Lets the command run. Returns once exec has succeeded or failed.
    ///
    /// # Errors
    ///
    /// A [`Failure`] with status 126 when the kernel could not execute the program.
    pub(crate) fn release(&mut self) -> anyhow::Result<()> {
        let Some(mut gate) = self.gate.take() else { return Ok(()) };
        if gate.write_all(b"g").is_err() {
            // A signal has ended it before it began: that is its status.
            return Ok(());
        }
        drop(gate);
        let mut error = [0; 4];
        if self.failure.read(&mut error)? == error.len() {
            let error = std::io::Error::from_raw_os_error(i32::from_ne_bytes(error));
            self.wait();
            let failure = cannot_execute(&self.program.to_string_lossy(), &error.to_string());
            return Err(match &self.user {
                Some(user) => failure.hint(format!("it runs as `{user}`; to run it as root: --run-as root")),
                None => failure,
            }
            .into());
        }
        Ok(())
    }

    /// Whether the command was let run.
    pub(crate) fn is_released(&self) -> bool {
        self.gate.is_none()
    }

    /// The exit status as a shell has it (128 + signal), once the command has ended.
    pub(crate) fn poll(&mut self) -> Option<i32> {
        self.reap(libc::WNOHANG)
    }

    /// Becomes readable when the command ends.
    pub(crate) fn ended_fd(&self) -> Option<BorrowedFd<'_>> {
        self.ended.as_ref().map(AsFd::as_fd)
    }

    /// The signal that killed the command, once it has ended.
    pub(crate) fn killed_by(&self) -> Option<i32> {
        self.signal
    }

    /// Waits for the command's end.
    pub(crate) fn wait(&mut self) -> Option<i32> {
        self.reap(0)
    }

    fn reap(&mut self, flags: libc::c_int) -> Option<i32> {
        if self.status.is_none() && self.has_ended(flags) {
            // The kernel forgets that with the process.
            self.cpu_time = proc_fs::cpu_time(self.pid);
            let mut raw = 0;
            let reaped = loop {
                // SAFETY: `raw` is a valid place for the status; the pid is our own unreaped child.
                let reaped = unsafe { libc::waitpid(self.pid as libc::pid_t, &raw mut raw, flags) };
                if reaped >= 0
                    || std::io::Error::last_os_error().raw_os_error() != Some(Errno::INTR.raw_os_error())
                {
                    break reaped;
                }
            };
            if reaped > 0 && libc::WIFEXITED(raw) {
                self.status = Some(libc::WEXITSTATUS(raw));
            } else if reaped > 0 && libc::WIFSIGNALED(raw) {
                self.status = Some(128 + libc::WTERMSIG(raw));
                self.signal = Some(libc::WTERMSIG(raw));
            }
        }
        self.status
    }

    /// Whether it has ended, which stays to be asked for.
    fn has_ended(&self, flags: libc::c_int) -> bool {
        loop {
            // SAFETY: all zeros are valid for the structure, which the call fills; the pid is our own unreaped child.
            let (result, info) = unsafe {
                let mut info: libc::siginfo_t = std::mem::zeroed();
                let options = libc::WEXITED | libc::WNOWAIT | flags;
                (libc::waitid(libc::P_PID, self.pid, &raw mut info, options), info)
            };
            let error = (result < 0).then(std::io::Error::last_os_error);
            match error.and_then(|error| error.raw_os_error()) {
                Some(libc::EINTR) => {}
                // Somebody else has waited for it; waitpid says the same.
                Some(_) => return true,
                // SAFETY: of an ended child the kernel gives the pid; else the field is as it was, zero.
                None => return unsafe { info.si_pid() } != 0,
            }
        }
    }

    /// Sends the command a signal.
    pub(crate) fn signal(&self, signal: i32) {
        if self.status.is_none() {
            // SAFETY: kill takes no pointer; the pid is our own unreaped child, so it is not reused.
            let sent = unsafe { libc::kill(self.pid as libc::pid_t, signal) } == 0;
            if !sent && opener::is_running() {
                // If it fails, too, the command has ended.
                let _ = opener::signal_command(signal);
            }
        }
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        if self.gate.take().is_some() {
            // Never released: the closed gate ends it.
            self.wait();
        }
    }
}

/// Runs in the forked child: waits for the gate, and becomes the program.
///
/// # Safety
///
/// Between fork and exec only: calls async-signal-safe functions alone. `arguments` and `environment` end with a null pointer,
/// and each of their strings and `program` with NUL.
unsafe fn wait_and_execute(
    [gate_read, gate_write, failure_write]: [libc::c_int; 3],
    standard_files: Option<libc::c_int>,
    user: Option<&RunAs>,
    program: *const libc::c_char,
    [arguments, environment]: [*const *const libc::c_char; 2],
) -> ! {
    let mut byte = 0u8;
    // SAFETY: the descriptors are valid, and the pointers by the caller's word. `_exit` never returns.
    unsafe {
        // From here on signals are the command's. What this process ignores of its own, it must not.
        for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
            let action = match crate::record::signals::was_ignored(signal) {
                true => libc::SIG_IGN,
                false => libc::SIG_DFL,
            };
            libc::signal(signal, action);
        }
        libc::signal(libc::SIGPIPE, libc::SIG_DFL);
        libc::signal(libc::SIGXFSZ, libc::SIG_DFL);
        crate::record::environment::descriptors::restore_limit();
        libc::close(gate_write);
        if let Some(file) = standard_files {
            for standard in 0..=2 {
                libc::dup2(file, standard);
            }
        }
        if libc::read(gate_read, (&raw mut byte).cast(), 1) != 1 {
            libc::_exit(status::NOT_STARTED.into());
        }
        if user.is_none_or(|user| become_user(user)) {
            libc::execve(program, arguments, environment);
        }
        let error = *libc::__errno_location();
        libc::write(failure_write, (&raw const error).cast(), size_of_val(&error));
        libc::_exit(status::CANNOT_EXECUTE.into());
    }
}

/// Gives this process the ids of another user; false, with errno set, where the kernel does not let it.
///
/// # Safety
///
/// Between fork and exec only. By system calls: the C library's functions would have all threads do the same, by locks that
/// another thread may have held at the fork.
unsafe fn become_user(user: &RunAs) -> bool {
    let (uid, gid) = (user.uid, user.gid);
    // SAFETY: the groups are a valid array of that length; the other calls take numbers.
    unsafe {
        libc::syscall(libc::SYS_setgroups, user.groups.len(), user.groups.as_ptr()) == 0
            && libc::syscall(libc::SYS_setresgid, gid, gid, gid) == 0
            && libc::syscall(libc::SYS_setresuid, uid, uid, uid) == 0
    }
}

fn pipe() -> std::io::Result<(OwnedFd, OwnedFd)> {
    Ok(rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?)
}

/// The files that a program will map when it starts: itself, its interpreter and the libraries that
/// these need, as far as the dynamic linker's usual places have them. Only a head start: what is
/// missed is found when it is mapped.
pub(crate) fn files_to_preload(program: &Path) -> Vec<PathBuf> {
    use crate::elf::{ElfImage, ElfLimits};
    const PLACES: [&str; 8] = [
        if cfg!(target_arch = "aarch64") { "/lib/aarch64-linux-gnu" } else { "/lib/x86_64-linux-gnu" },
        if cfg!(target_arch = "aarch64") {
            "/usr/lib/aarch64-linux-gnu"
        } else {
            "/usr/lib/x86_64-linux-gnu"
        },
        "/lib64",
        "/usr/lib64",
        "/usr/local/lib",
        "/lib",
        "/usr/lib",
        "/usr/local/lib64",
    ];
    let mut found: Vec<PathBuf> = Vec::new();
    let mut next = vec![program.to_path_buf()];
    while let Some(path) = next.pop() {
        let Ok(path) = path.canonicalize() else { continue };
        if found.contains(&path) || found.len() >= 512 {
            continue;
        }
        let Ok(file) = opener::named(&path, opener::FileContent::Elf) else { continue };
        let Ok(elf) = ElfImage::open(&file, &ElfLimits::default()) else { continue };
        let origin = path.parent().map(Path::to_path_buf).unwrap_or_default();
        let run_path =
            elf.run_path().map(|paths| paths.to_string_lossy().replace("$ORIGIN", &origin.to_string_lossy()));
        for name in elf.needed() {
            let own = run_path.iter().flat_map(|paths| paths.split(':').map(PathBuf::from));
            let places = own.chain(PLACES.iter().map(PathBuf::from));
            next.extend(places.map(|place| place.join(name)).find(|path| path.is_file()));
        }
        next.extend(elf.interpreter().map(PathBuf::from));
        found.push(path);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(command: &[&str]) -> Option<i32> {
        let command: Vec<OsString> = command.iter().map(OsString::from).collect();
        let mut child = Child::spawn_stopped(&command, None).expect("spawns");
        assert_eq!(child.poll(), None, "waits to be released");
        child.release().expect("executes");
        child.wait()
    }

    #[test]
    fn the_status_is_the_commands_own() {
        assert_eq!(run(&["sh", "-c", "exit 7"]), Some(7));
        assert_eq!(run(&["sh", "-c", "kill -TERM $$"]), Some(143));
        assert_eq!(run(&["true"]), Some(0));
    }

    #[test]
    fn the_cpu_time_of_a_command_is_known_when_it_has_ended() {
        let script = "i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done";
        let command: Vec<OsString> = ["sh", "-c", script].iter().map(OsString::from).collect();
        let mut child = Child::spawn_stopped(&command, None).expect("spawns");
        child.release().expect("executes");
        assert_eq!(child.wait(), Some(0));
        let time = child.cpu_time.expect("it was there to be read");
        assert!(time.sampled_ns(false, false) > 0, "{time:?}");
    }

    #[test]
    fn missing_and_unusable_programs_have_their_own_statuses() {
        let status = |name: &str| find_program(OsStr::new(name)).map_err(|failure| failure.status);
        assert_eq!(status("no-such-program-of-prof"), Err(127));
        assert_eq!(status("./no-such-program-of-prof"), Err(127));
        assert_eq!(status("/etc/passwd"), Err(126));
        assert_eq!(status("/etc/"), Err(126));
    }

    #[test]
    fn a_file_that_is_no_program_fails_at_exec_with_126() {
        let folder = tempfile::tempdir().expect("temporary folder");
        let path = folder.path().join("junk");
        std::fs::write(&path, b"\x7fELFjunk").expect("writes");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).expect("chmod");
        let mut child = Child::spawn_stopped(&[path.into()], None).expect("forks");
        let error = child.release().expect_err("not executable");
        assert_eq!(error.downcast_ref::<Failure>().map(|failure| failure.status), Some(126));
    }

    #[test]
    fn preloading_finds_libraries_and_the_interpreter() {
        let files = files_to_preload(Path::new("/bin/ls"));
        let has = |part: &str| files.iter().any(|path| path.to_string_lossy().contains(part));
        assert!(has("/ls") && has("libc") && has("ld-"), "{files:?}");
    }
}
