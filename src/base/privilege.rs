//! What this process may do: a right is in effect only where it is needed, and is given up for good as early as possible.
//!
//! A `prof` that was given capabilities (setcap) lends them to everyone who may run it. So none is in effect until it is known
//! what was asked for ([`begin`]), commands that only read give all of them up before they open anything ([`for_reading`]), and
//! those that record keep what they still need once everything is attached ([`keep_watching`]). What the user names, a file or a
//! command, is opened with the user's own rights ([`as_user`]): those of root for root, none of `prof`'s for others.
//!
//! Capabilities belong to a thread, and a new thread has those of the one that starts it. Unless [`begin`] was called, as in
//! the library's tests, nothing here changes anything. docs/security.md has the whole picture.

use super::failure::{Failure, status};
use rustix::thread::{
    CapabilitySet, CapabilitySets, capabilities, capability_is_in_bounding_set, clear_ambient_capability_set,
    remove_capability_from_bounding_set, set_capabilities, set_no_new_privs,
};
use std::io;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// Rights that the user's own files may take: to write into the folder of the user who called sudo, and to give that user
/// the file. Only root has these rights, never who runs a `prof` with capabilities of its own.
const OWN_FILES: CapabilitySet = CapabilitySet::DAC_READ_SEARCH
    .union(CapabilitySet::DAC_OVERRIDE)
    .union(CapabilitySet::FOWNER)
    .union(CapabilitySet::CHOWN);

/// Rights that a recording needs until its end: to read what processes of other users have mapped and open those files,
/// to open events on CPUs, and to end a command that became another user. Maps of BPF programs that are there are used by
/// descriptor, which takes no right, whatever kernel.unprivileged_bpf_disabled says.
const WATCHING: CapabilitySet = CapabilitySet::SYS_PTRACE
    .union(CapabilitySet::DAC_READ_SEARCH)
    .union(CapabilitySet::CHECKPOINT_RESTORE)
    .union(CapabilitySet::PERFMON)
    .union(CapabilitySet::KILL);

/// Rights that the thread that writes unwind tables needs too, for a moment: to make room for those of programs that come
/// later.
const MAKING_ROOM: CapabilitySet = CapabilitySet::BPF;

/// The right that opening events of a CPU takes besides, where kernel.perf_event_paranoid is above 2: Debian's and Ubuntu's kernels
/// then refuse who has CAP_PERFMON alone.
const OPENING_EVENTS: CapabilitySet = CapabilitySet::SYS_ADMIN;

/// Rights to become a user that owns nothing.
const LEAVING: CapabilitySet = CapabilitySet::SETUID.union(CapabilitySet::SETGID);

/// Rights that a recording also needs until it is attached: to load programs, to read the kernel's symbols, to run before
/// others, to raise limits and lock memory, to become a user that owns nothing; and what replaces CAP_BPF and CAP_PERFMON in
/// older containers, and above kernel.perf_event_paranoid 2.
const ATTACHING: CapabilitySet = CapabilitySet::BPF
    .union(CapabilitySet::SYSLOG)
    .union(CapabilitySet::SYS_NICE)
    .union(CapabilitySet::SYS_RESOURCE)
    .union(CapabilitySet::IPC_LOCK)
    .union(LEAVING)
    .union(CapabilitySet::SYS_ADMIN);

/// This process sends what it reads, for long: see [`keep_sending`].
static SENDS: AtomicBool = AtomicBool::new(false);
/// Capabilities that were in effect when the program was started and are the user's own: none of those that come from the
/// program's file.
static OF_USER: OnceLock<CapabilitySet> = OnceLock::new();
/// A command that reads writes files, too.
static WRITES: AtomicBool = AtomicBool::new(false);

/// Takes every right out of effect, until it is known what is asked for. The first thing that the program does.
///
/// # Errors
///
/// When the program's file is setuid or setgid: files and commands would be opened and run as another user.
pub(crate) fn begin() -> Result<(), Failure> {
    use rustix::process::{getegid, geteuid, getgid, getuid};
    if geteuid() != getuid() || getegid() != getgid() {
        return Err(Failure::new(status::NOT_PERMITTED, "prof does not run setuid or setgid")
            .hint("clear the bit:  sudo chmod ug-s $(which prof)")
            .hint("to record as another user, use capabilities; prof doctor prints the commands"));
    }
    let is_lent = !is_root() && is_started_with_more();
    let sets = match capabilities(None) {
        Ok(sets) => sets,
        Err(error) if is_lent => return Err(cannot_give_up(error)),
        // A sandbox without capabilities.
        Err(_) => return Ok(()),
    };
    if !sets.permitted.is_empty() {
        close_to_debuggers();
    }
    let _ = OF_USER.set(if is_lent { CapabilitySet::empty() } else { sets.effective });
    put_in_effect(CapabilitySet::empty());
    Ok(())
}

/// Has no other process of this user look into this one: what is opened by rights that were lent is open here until the end, such as
/// the memory of other users' processes.
fn close_to_debuggers() {
    // SAFETY: prctl takes numbers.
    unsafe { libc::prctl(libc::PR_SET_DUMPABLE, 0) };
}

/// Whether the kernel gave this program more rights than who started it has (AT_SECURE): its file has capabilities.
fn is_started_with_more() -> bool {
    // SAFETY: getauxval takes a number and returns one.
    unsafe { libc::getauxval(libc::AT_SECURE) != 0 }
}

/// Whether root runs this. Since it does not run setuid, root's rights are root's own, whatever the program's file has.
fn is_root() -> bool {
    rustix::process::getuid().is_root()
}

/// Gives up all rights. Root keeps, not in effect, what it takes to open the file that is named, with `writes` to write files,
/// and to have a process read them that is of another user.
///
/// # Errors
///
/// When rights that are not the user's own cannot be given up.
pub(crate) fn for_reading(writes: bool) -> Result<(), Failure> {
    WRITES.store(writes, Ordering::Relaxed);
    let of_root = || of_named_files().union(LEAVING).union(CapabilitySet::KILL);
    reduce_to(if is_root() { of_root() } else { CapabilitySet::empty() })
}

/// What it takes root to open files that are named, and to write them.
fn of_named_files() -> CapabilitySet {
    if WRITES.load(Ordering::Relaxed) { own_files() } else { CapabilitySet::DAC_READ_SEARCH }
}

/// Gives up what only the process that reads needs, which is another one, and of another user: signals for it take a right.
///
/// # Errors
///
/// When rights that are not the user's own cannot be given up.
pub(crate) fn keep_named_files() -> Result<(), Failure> {
    reduce_to(of_named_files().union(CapabilitySet::KILL))?;
    put_in_effect(CapabilitySet::KILL);
    Ok(())
}

/// Puts in effect what it takes to become another user.
pub(crate) fn for_leaving() {
    put_in_effect(LEAVING);
}

/// Gives up what opening the named file took, now that it is open.
///
/// # Errors
///
/// When rights that are not the user's own cannot be given up.
pub(crate) fn input_is_open() -> Result<(), Failure> {
    if SENDS.load(Ordering::Relaxed) {
        return Ok(());
    }
    let writes = WRITES.load(Ordering::Relaxed);
    reduce_to(if writes { own_files() } else { CapabilitySet::empty() })
}

/// Puts in effect what it takes to attach a recording.
pub(crate) fn for_recording() {
    put_in_effect(ATTACHING.union(WATCHING));
}

/// Gives up, on this thread, what attaching a recording does not need. No command is started from it after this.
///
/// # Errors
///
/// When rights that are not the user's own cannot be given up.
pub(crate) fn keep_attaching() -> Result<(), Failure> {
    reduce_to(ATTACHING.union(WATCHING).union(own_files()))?;
    put_in_effect(ATTACHING.union(WATCHING));
    Ok(())
}

/// Gives up, on this thread, what a recording that is attached does not need.
///
/// # Errors
///
/// When rights that are not the user's own cannot be given up.
pub(crate) fn keep_watching() -> Result<(), Failure> {
    let kept = watching();
    reduce_to(kept.union(own_files()))?;
    put_in_effect(kept);
    Ok(())
}

/// [`keep_watching`] for the thread that may [`make_room`].
///
/// # Errors
///
/// When rights that are not the user's own cannot be given up.
pub(crate) fn keep_recording() -> Result<(), Failure> {
    let kept = watching();
    reduce_to(kept.union(MAKING_ROOM).union(own_files()))?;
    put_in_effect(kept);
    Ok(())
}

/// Gives up, on this thread, everything but what the opener keeps for a recorder: what a recording needs to its end. `opens_probes`:
/// also events of probes, which the kernel gives to no one with CAP_PERFMON alone.
///
/// # Errors
///
/// When rights that are not the user's own cannot be given up.
pub(crate) fn keep_opening(opens_probes: bool) -> Result<(), Failure> {
    let kept = watching().union(MAKING_ROOM);
    let is_refused = opens_probes || perfmon_is_refused();
    let for_events = if is_refused { OPENING_EVENTS } else { CapabilitySet::empty() };
    reduce_to(kept.union(own_files()).union(for_events))?;
    put_in_effect(kept);
    Ok(())
}

/// Whether this kernel may refuse events to who has CAP_PERFMON.
fn perfmon_is_refused() -> bool {
    let setting = std::fs::read_to_string("/proc/sys/kernel/perf_event_paranoid");
    setting.is_ok_and(|setting| setting.trim().parse::<i32>().is_ok_and(|paranoid| paranoid > 2))
}

/// Does `work`, which opens an event of a CPU, with all rights to do so in effect that were kept.
pub(crate) fn open_event<T>(work: impl FnOnce() -> T) -> T {
    with_in_effect(|before| before.union(OPENING_EVENTS), work)
}

/// Does `work`, which sends signals to processes of this program that have another user by now, with the right to, if it was kept.
pub(crate) fn send_signals<T>(work: impl FnOnce() -> T) -> T {
    with_in_effect(|before| before.union(CapabilitySet::KILL), work)
}

/// Does `work`, which only the machine's administrator may, with that right in effect, if it was kept.
pub(crate) fn as_administrator<T>(work: impl FnOnce() -> T) -> T {
    with_in_effect(|before| before.union(CapabilitySet::SYS_ADMIN), work)
}

/// Gives up every right of this thread.
///
/// # Errors
///
/// When rights that are not the user's own cannot be given up.
pub(crate) fn keep_nothing() -> Result<(), Failure> {
    reduce_to(CapabilitySet::empty())
}

/// Whether this process has rights that an ordinary user has not: it is root's, or has capabilities.
pub(crate) fn has_any() -> bool {
    OF_USER.get().is_some() && (is_root() || capabilities(None).is_ok_and(|sets| !sets.permitted.is_empty()))
}

/// Does `work`, which makes a BPF map, with the right to do so in effect, if it was kept.
pub(crate) fn make_room<T>(work: impl FnOnce() -> T) -> T {
    with_in_effect(|before| before.union(MAKING_ROOM), work)
}

/// Gives up, on this thread, everything but what writing the user's own files may take.
///
/// # Errors
///
/// When rights that are not the user's own cannot be given up.
pub(crate) fn keep_own_files() -> Result<(), Failure> {
    reduce_to(own_files())
}

/// Gives up, on this thread and those that it starts, everything but what writing the user's own files may take and, not in effect, what
/// reads files of secrets: a process that sends for long reads these again and again, and opens many files.
///
/// # Errors
///
/// When rights that are not the user's own cannot be given up.
pub(crate) fn keep_sending() -> Result<(), Failure> {
    SENDS.store(true, Ordering::Relaxed);
    let permitted = capabilities(None).map_or(CapabilitySet::empty(), |sets| sets.permitted);
    reduce_to(own_files().union(permitted.intersection(CapabilitySet::DAC_READ_SEARCH)))
}

/// [`WATCHING`], with what replaces a missing part of it.
fn watching() -> CapabilitySet {
    let both = CapabilitySet::PERFMON.union(CapabilitySet::BPF);
    let has_both = capabilities(None).is_ok_and(|sets| sets.permitted.contains(both));
    if has_both { WATCHING } else { WATCHING.union(CapabilitySet::SYS_ADMIN) }
}

fn own_files() -> CapabilitySet {
    if is_root() { OWN_FILES } else { CapabilitySet::empty() }
}

/// Does `work` with the user's own rights in effect, as far as they were kept, and no others: for what the user names.
pub(crate) fn as_user<T>(work: impl FnOnce() -> T) -> T {
    let of_user = OF_USER.get().copied().unwrap_or_else(CapabilitySet::empty);
    with_in_effect(|_| of_user, work)
}

/// Does `work` with those rights in effect, as far as they were kept, that `wanted` makes of those that are.
fn with_in_effect<T>(wanted: impl FnOnce(CapabilitySet) -> CapabilitySet, work: impl FnOnce() -> T) -> T {
    let (true, Ok(before)) = (OF_USER.get().is_some(), capabilities(None)) else { return work() };
    /// Puts the rights of before in effect again, also when the work panics.
    struct Back(CapabilitySet);
    impl Drop for Back {
        fn drop(&mut self) {
            put_in_effect(self.0);
        }
    }
    let _back = Back(before.effective);
    put_in_effect(wanted(before.effective));
    work()
}

/// Puts those of `wanted` that this thread may have in effect, and no others.
fn put_in_effect(wanted: CapabilitySet) {
    if OF_USER.get().is_none() {
        return;
    }
    if let Ok(sets) = capabilities(None) {
        let effective = sets.permitted.intersection(wanted);
        // Always allowed: it is a part of what is permitted.
        let _ = set_capabilities(None, CapabilitySets { effective, ..sets });
    }
}

/// Gives up all rights of this thread for good but those in `kept`, none of which is in effect, and the right to get others by
/// starting a program.
fn reduce_to(kept: CapabilitySet) -> Result<(), Failure> {
    if OF_USER.get().is_none() {
        return Ok(());
    }
    let _ = set_no_new_privs(true);
    let _ = clear_ambient_capability_set();
    empty_bounding_set();
    let reduced = capabilities(None).and_then(|sets| {
        let permitted = sets.permitted.intersection(kept);
        let effective = CapabilitySet::empty();
        set_capabilities(None, CapabilitySets { effective, permitted, inheritable: effective })
    });
    match reduced {
        // Root has these rights anyway; a sandbox may refuse to change them.
        Err(error) if !is_root() => Err(cannot_give_up(error)),
        _ => Ok(()),
    }
}

fn cannot_give_up(error: rustix::io::Errno) -> Failure {
    Failure::new(status::NOT_PERMITTED, format!("cannot drop capabilities: {}", io::Error::from(error)))
        .hint("a sandbox blocks capset(2): run prof outside it, or without capabilities")
}

/// Empties the set of rights that programs started from this thread could get. Only who may set capabilities can.
fn empty_bounding_set() {
    put_in_effect(CapabilitySet::SETPCAP);
    for bit in 0..u64::BITS {
        let capability = CapabilitySet::from_bits_retain(1 << bit);
        match capability_is_in_bounding_set(capability) {
            Ok(true) if remove_capability_from_bounding_set(capability).is_err() => return,
            Ok(_) => {}
            // Past the kernel's last capability.
            Err(_) => return,
        }
    }
}

/// [`keep_watching_or_end`] for a thread that works little and waits much: it has the priority of the one that started it.
pub(crate) fn keep_waiting_or_end() {
    keep_watching().expect("a thread can give up what its process has given up");
}

/// Reduces the rights of a new thread that works on other users' files, and its priority to the ordinary one.
pub(crate) fn keep_watching_or_end() {
    super::pace::be_ordinary();
    keep_waiting_or_end();
}
