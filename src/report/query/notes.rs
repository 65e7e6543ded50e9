//! The notes under a report: what is wrong with the recording, how much it matters, what would fix it.

use super::selection::Selection;
use crate::base::units::{counted, duration, honest_percent_text, percent};
use crate::profile::{
    FoundBy, Integrity, ModuleId, ModuleKind, Outcome, Profile, SymbolsFrom, ThreadTime, counter,
};
use crate::report::chains::only_chains as chain;
use crate::report::locks::lock_waits::UNCHARGED;
use crate::report::model::quality::{Quality, WorstModule};
use crate::report::naming::debug_package;
use crate::report::naming::name::module_file;
use crate::report::naming::runtime::Runtime;
use crate::report::options::CommonOptions;
use crate::report::recording::Recording;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Share of stacks or frames, in percent, from which on a defect is worth a note.
const NOTABLE_PERCENT: f64 = 1.0;

/// Description of what the file lacks, when it is incomplete.
pub(crate) fn missing_part(profile: &Profile, integrity: &Integrity) -> Option<String> {
    if let Some(problem) = &integrity.problem {
        return Some(problem.clone());
    }
    (profile.end.is_none() || !integrity.is_complete).then(|| {
        "the recording has no end: prof was killed, is still recording, or the file was cut".to_owned()
    })
}

/// Says that the target ran, although nothing was recorded of it.
pub(crate) fn unrecorded(profile: &Profile) -> Option<String> {
    let used_ns = Some(profile.counter(counter::UNRECORDED_NS)).filter(|used_ns| *used_ns > 0)?;
    Some(format!("the target used {} of CPU time, but nothing was recorded", duration(used_ns)))
}

/// Says that the file called `name` is not whole.
pub(crate) fn not_whole(name: &str, problem: &str) -> String {
    format!("{name} is incomplete ({problem}): this shows what could be read")
}

/// The notes under a report of what is wrong with the recording. What to look at next is another matter: see [`super::advice`].
pub(crate) fn report_notes(
    recording: &Recording,
    selection: &Selection<'_>,
    options: &CommonOptions,
) -> Vec<String> {
    let quality = &selection.quality;
    let to_name = quality.samples_with(&recording.names_to_come);
    let mut notes = notes_while_naming(&recording.profile, &recording.integrity, quality, to_name);
    notes.extend(unaccounted_note(&recording.profile));
    notes.extend(notices(&recording.profile, selection).cloned());
    if selection.is_all_idle(&options.filter) {
        let (waits, time) =
            (counted(selection.hidden_idle.count(), "wait"), duration(selection.hidden_idle.weight));
        notes.push(format!("all waits are idle: {waits}, {time}; to see them:  --idle"));
    }
    if selection.shown.sampled.is_some_and(|event| event.info().is_estimate()) {
        let title = &selection.shown.title;
        notes.push(format!(
            "the number of {title} is an estimate, because they were sampled by frequency; to count each one:  -c 1"
        ));
    }
    notes
}

/// The notices of a recording, but for those on probes that are not shown.
fn notices<'p>(profile: &'p Profile, selection: &Selection<'_>) -> impl Iterator<Item = &'p String> {
    let shown: Vec<_> = selection.shown.events().map(|event| event.kind().key()).collect();
    let hidden: Vec<_> =
        profile.events.iter().map(|event| event.kind()).filter(|kind| !shown.contains(&kind.key())).collect();
    profile.notices().filter(move |notice| !hidden.iter().any(|kind| kind.is_subject_of(notice)))
}

/// Note on threads of whose time nothing is known.
pub(crate) fn unaccounted_note(profile: &Profile) -> Option<String> {
    // Of a thread that goes on waiting the time is known later.
    profile.end.as_ref().filter(|end| !end.is_of_picture())?;
    let unknown: Vec<&ThreadTime> = profile.thread_times.iter().filter(|time| time.is_unknown()).collect();
    let lives = unknown.iter().map(|time| time.to_ns.saturating_sub(time.from_ns));
    let time = duration(lives.fold(0, u64::saturating_add));
    let threads = counted(unknown.len() as u64, "thread");
    (!unknown.is_empty()).then(|| {
        format!("the kernel reported nothing for {threads}: {time} of their time is not accounted for")
    })
}

/// The notes for a recording, most important first. They quote foreign names.
pub(crate) fn notes(profile: &Profile, integrity: &Integrity, quality: &Quality) -> Vec<String> {
    notes_while_naming(profile, integrity, quality, 0)
}

/// The same while the names of `to_name` of the frames are still being read.
fn notes_while_naming(
    profile: &Profile,
    integrity: &Integrity,
    quality: &Quality,
    to_name: u64,
) -> Vec<String> {
    let mut notes = Vec::new();
    if let Some(problem) = missing_part(profile, integrity) {
        notes.push(not_whole("the file", &problem));
    }
    notes.extend(lost_notes(profile, quality));
    notes.extend(unrecorded(profile));
    notes.extend(cut_notes(profile, quality));
    notes.extend(unnamed_notes(profile, integrity, quality, to_name));
    notes.extend(interpreter_notes(profile));
    notes.extend(lock_notes(profile));
    notes.extend(chain_notes(profile));
    notes.extend(incomplete_note(profile, quality));
    notes
}

/// Share of the samples of interpreted code before its interpreter was found that is worth a note, %: each program has some.
const NOTABLE_START_PERCENT: f64 = 5.0;

/// Notes on waits for locks that are in no row, or in that of no lock.
fn lock_notes(profile: &Profile) -> Vec<String> {
    let mut notes = Vec::new();
    let uncharged = profile.counter(UNCHARGED);
    if uncharged > 0 {
        let verb = if uncharged == 1 { "has" } else { "have" };
        notes.push(format!(
            "{} {verb} no holder, in no row here: ended by an interrupt or a timeout, or not over yet",
            counted(uncharged, "wait")
        ));
    }
    let left_out = profile.counter(counter::LOCKS_LEFT_OUT);
    if left_out > 0 {
        let verb = if left_out == 1 { "does" } else { "do" };
        notes.push(format!(
            "{} {verb} not say which lock: there were too many different ones",
            counted(left_out, "wait")
        ));
    }
    notes
}

/// Notes on waits that are in no chain, and on chains that do not go as far as they could.
fn chain_notes(profile: &Profile) -> Vec<String> {
    let count = |name| profile.counter(name);
    let mut notes = Vec::new();
    if count(chain::NOT_SAMPLED) > 0 {
        notes.push(
            "the recording has no samples of what threads ran: chains end in the stacks that ended the waits; record with -e \
             cpu,off"
                .to_owned(),
        );
    }
    let left_out = [
        (chain::SHORT_NS, "waits that were too short to be kept one by one"),
        (chain::MERGED_NS, "waits of which only sums are left"),
        (chain::IDLE_NS, "idle waits (--idle)"),
    ];
    for (time, words) in left_out.into_iter().filter(|(name, _)| count(name) > 0) {
        notes.push(format!("{} of {words} are in no chain", duration(count(time))));
    }
    if count(chain::CUT) > 0 {
        let parts = counted(count(chain::CUT), "part");
        notes.push(format!("{parts} of waits would go on beyond the longest chain that is followed"));
    }
    notes
}

/// Note on the samples, `before` of `all`, that are from before the interpreter was found.
fn note_on_start(before: u64, all: u64) -> Option<String> {
    let share = percent(before, all.max(1));
    (share >= NOTABLE_START_PERCENT).then(|| {
        format!(
            "{} of the samples of interpreted code have native frames only: they are from before the interpreter had begun, or \
             was found",
            honest_percent_text(share)
        )
    })
}

/// Notes on functions of interpreters that have no place in their stack, no name, or maybe the name of another one.
fn interpreter_notes(profile: &Profile) -> Vec<String> {
    let count = |name| profile.counter(name);
    let (samples, frames) = (count(counter::INTERPRETER_SAMPLES), count(counter::INTERPRETER_FRAMES));
    let before = count(counter::INTERPRETER_SAMPLES_BEFORE);
    let mut notes = Vec::from_iter(note_on_start(before, samples + before));
    let mut note = |bad: u64, all: u64, words: &str| {
        let share = percent(bad, all.max(1));
        if share >= NOTABLE_PERCENT {
            notes.push(format!("{} of {words}", honest_percent_text(share)));
        }
    };
    let unread = count(counter::INTERPRETER_SAMPLES_UNREAD);
    note(
        unread,
        samples + unread,
        "the samples of interpreted code have no functions: their thread ran on before these could be read; with the BPF programs \
         of root none is left out",
    );
    let cut = count(counter::INTERPRETER_CUT);
    note(
        cut,
        samples,
        "the samples of interpreted code have more than 1,024 functions, or their list could not be read to its end: the inner \
         ones are below a mark",
    );
    note(
        count(counter::INTERPRETER_MISMATCHES).saturating_sub(cut),
        samples,
        "the samples of interpreted code are below a mark: its functions and the native frames did not fit together",
    );
    note(
        count(counter::INTERPRETER_FRAMES_UNREAD),
        frames,
        "the interpreted functions have no name: their memory was gone, or damaged, when it was read",
    );
    note(
        count(counter::INTERPRETER_FRAMES_UNCERTAIN),
        frames,
        "the interpreted functions may have the name of another one, whose memory they use",
    );
    note(
        count(counter::MANAGED_FRAMES_UNREAD),
        count(counter::MANAGED_FRAMES),
        "the frames of functions that a runtime has compiled or interprets have no name: they were gone, or had moved, \
         when they were read",
    );
    note(
        count(counter::MANAGED_FRAMES_UNCERTAIN),
        count(counter::MANAGED_FRAMES),
        "the frames of functions that a runtime has compiled or interprets may have the name of another one, whose memory \
         they use",
    );
    notes
}

/// Note on modules whose debug information refers to files that were not to be had.
fn incomplete_note(profile: &Profile, quality: &Quality) -> Option<String> {
    let lacking = profile.module_notes.iter().filter(|(_, notes)| notes.lacks_files());
    let lacking: BTreeSet<ModuleId> = lacking.map(|(module, _)| *module).collect();
    if lacking.is_empty() {
        return None;
    }
    let mut counts: BTreeMap<ModuleId, u64> = BTreeMap::new();
    for (frame, samples) in profile.tables.frames().iter().zip(&quality.samples_of_frame) {
        if lacking.contains(&frame.module) {
            *counts.entry(frame.module).or_default() += samples;
        }
    }
    let share = percent(counts.values().sum(), quality.frames);
    let (worst, _) = counts.into_iter().max_by_key(|(module, count)| (*count, Reverse(*module)))?;
    (share >= NOTABLE_PERCENT).then(|| {
        let module = module_file(profile.tables.string(profile.tables.module(worst).path));
        let modules = match lacking.len() {
            1 => module.to_owned(),
            many => format!("{module} and {}", counted(many as u64 - 1, "more module")),
        };
        format!(
            "inlined functions are missing in {modules}, {} of frames; which files bring them: prof info --modules",
            honest_percent_text(share)
        )
    })
}

/// Notes on lost samples, waits and accounts.
fn lost_notes(profile: &Profile, quality: &Quality) -> Vec<String> {
    let mut notes = Vec::new();
    let lost_samples = quality.lost.saturating_sub(quality.lost_waits);
    let lost = percent(lost_samples, quality.lost.saturating_add(quality.samples));
    if lost >= NOTABLE_PERCENT {
        let share = honest_percent_text(lost);
        let tool = if profile.meta.is_imported() { " when it was recorded" } else { "" };
        notes.push(format!(
            "{share} of samples were lost{tool}: the machine was too busy; try a lower rate with -F"
        ));
    }
    if quality.lost_waits > 0 {
        notes.push(format!(
            "{}, {} in all, were lost: the recorder could not run for a while; the line of sums includes them, the rows do not",
            counted(quality.lost_waits, "wait"),
            duration(profile.counter(counter::LOST_WAIT_NS))
        ));
    }
    let dropped = profile.counter(counter::SAMPLES_DROPPED);
    if dropped > 0 {
        notes.push(format!(
            "{}, {} in all, are in no row: the oldest were dropped when memory was full; the line of sums includes them",
            counted(dropped, "sample"),
            duration(profile.counter(counter::DROPPED_NS))
        ));
    }
    let unaccounted = profile.counter(counter::THREADS_UNACCOUNTED);
    if unaccounted > 0 {
        notes.push(format!(
            "the kernel reported nothing for {} of the target, so their time is in no row; prof doctor -p PID \
             shows more",
            counted(unaccounted, "thread")
        ));
    }
    notes
}

/// Notes on what stacks lack.
fn cut_notes(profile: &Profile, quality: &Quality) -> Vec<String> {
    let mut notes = Vec::new();
    let rootless = quality.rootless_percent();
    if rootless >= NOTABLE_PERCENT {
        notes.push(cut_note(rootless, profile, quality));
    }
    let middle_left_out = percent(quality.middle_left_out, quality.samples);
    if middle_left_out >= NOTABLE_PERCENT {
        let why = match profile.counter(counter::STACKS_SHORTENED) {
            0 => "are too deep to keep all their frames",
            _ => {
                "lack frames in the middle, because they hardly ever repeat and a live view limits its memory (prof record keeps whole stacks)"
            }
        };
        let share = honest_percent_text(middle_left_out);
        notes.push(format!("{share} of stacks {why}: totals of functions in the middle are too low"));
    }
    notes
}

/// Notes on frames without a name, while the names of `to_name` of the frames are still being read.
fn unnamed_notes(profile: &Profile, integrity: &Integrity, quality: &Quality, to_name: u64) -> Vec<String> {
    let mut notes = Vec::new();
    let hidden_kernel = percent(quality.unnamed_kernel_frames, quality.kernel_frames);
    // A recording that was killed has no names at all, and says so.
    let is_kernel_hidden = hidden_kernel >= 50.0 && profile.end.is_some();
    if is_kernel_hidden {
        let share = honest_percent_text(hidden_kernel);
        notes.push(match profile.meta.kernel_addresses {
            None if profile.meta.is_imported() => format!(
                "{share} of kernel frames have no name: the file has none, and the running kernel is another one or hides its symbols"
            ),
            Some(settings) => {
                format!("{share} of kernel frames have no name: {}; {}", settings.why_hidden(), settings.fix())
            }
            None => format!(
                "{share} of kernel frames have no name: record as root, or with CAP_SYSLOG; prof doctor names the setting"
            ),
        });
    }
    if percent(to_name, quality.frames) >= NOTABLE_PERCENT {
        // What will not have a name even then is not known yet.
        let share = honest_percent_text(percent(to_name, quality.frames));
        notes.push(format!("names are being read: {share} of frames have none yet"));
    } else if profile.end.is_none() && quality.unnamed_percent() >= NOTABLE_PERCENT {
        let share = honest_percent_text(quality.unnamed_percent());
        let why = if integrity.is_damaged() {
            "names come after the damaged part; copy the file again from where it was recorded"
        } else {
            "the recording was cut short or is still running; prof symbolize FILE adds the missing names"
        };
        notes.push(format!("{share} of frames have no name: {why}"));
    } else if let Some(worst) = &quality.worst_unnamed
        && percent(worst.count, quality.frames) >= NOTABLE_PERCENT
        && !(is_kernel_hidden && worst.kind == ModuleKind::Kernel)
    {
        notes.push(unnamed_note(profile, quality, worst));
    }
    notes
}

fn cut_note(truncated_percent: f64, profile: &Profile, quality: &Quality) -> String {
    let share = honest_percent_text(truncated_percent);
    let Some(worst) = &quality.worst_cut else {
        return format!("{share} of stacks end early: totals of their callers are too low");
    };
    let module = module_file(&worst.module);
    let cause = worst.outcome.label();
    let most = honest_percent_text(percent(worst.count, quality.samples));
    let mut note = format!(
        "{share} of stacks end early, {most} in {module} ({cause}): totals of its callers are too low"
    );
    let fix = match worst.outcome {
        Outcome::NoUnwindInfo | Outcome::BadUnwindInfo | Outcome::StackUnreadable | Outcome::JitEnd
            if is_walked_by_frame_pointers_only(profile) =>
        {
            "; walked by frame pointers only (--call-graph fp): drop that option, or rebuild with \
             -fno-omit-frame-pointer"
        }
        Outcome::NoUnwindInfo | Outcome::BadUnwindInfo if worst.kind != ModuleKind::Elf => "",
        Outcome::NoUnwindInfo | Outcome::BadUnwindInfo => "; rebuild it with -fasynchronous-unwind-tables",
        Outcome::TableNotLoaded | Outcome::CopyTooShort => {
            "; tables were still being compiled when the program started; record by pid, or longer"
        }
        Outcome::FileUnreadable => {
            "; the file could not be opened: record as root, or add CAP_SYS_PTRACE, CAP_DAC_READ_SEARCH \
             and CAP_CHECKPOINT_RESTORE"
        }
        Outcome::Compat32 => "; only 64-bit programs are supported",
        _ if worst.kind == ModuleKind::Jit || worst.outcome == Outcome::JitEnd => {
            let cure = quality.runtimes.cut.and_then(Runtime::cure_for_stacks);
            note.push_str(&cure.map_or(String::new(), |cure| format!("; {cure}")));
            ""
        }
        _ => "",
    };
    note.push_str(fix);
    note
}

/// The file does not say how stacks were walked, but a walk that knows unwind tables uses some.
fn is_walked_by_frame_pointers_only(profile: &Profile) -> bool {
    let has = |found_by| profile.tables.frames().iter().any(|frame| frame.flags.found_by == found_by);
    has(FoundBy::FramePointer) && !has(FoundBy::Cfi)
}

/// Advice that brings the names of a module that is a file.
fn names_cure(profile: &Profile, worst: &WorstModule) -> String {
    let module = profile.tables.module(worst.id);
    if module.build_id.is_empty() && profile.meta.is_imported() {
        // No one knows which file it was.
        return String::new();
    }
    let path = profile.tables.string(module.path);
    let notes = profile.module_notes.get(&worst.id);
    // Debug symbols are no cure for a file that its reader died of.
    let unread = notes.filter(|notes| notes.symbols == SymbolsFrom::Unknown);
    if let Some(problem) = unread.and_then(|notes| notes.problems.first()) {
        return format!(", which was not read: {problem}");
    }
    match notes.and_then(|notes| debug_package::install_command(path, notes)) {
        Some(command) => format!("; {command}, then prof symbolize FILE"),
        None => "; install its debug symbols: prof info --modules says what is missing".to_owned(),
    }
}

fn unnamed_note(profile: &Profile, quality: &Quality, worst: &WorstModule) -> String {
    let share = honest_percent_text(quality.unnamed_percent());
    let most = honest_percent_text(percent(worst.count, quality.frames));
    let module = module_file(&worst.module);
    let fix = match worst.kind {
        // Why that was not read is another note.
        ModuleKind::Jit if profile.counter(counter::PERF_MAPS_REFUSED) > 0 => String::new(),
        ModuleKind::Jit => match quality.runtimes.unnamed {
            Some(runtime) => runtime.cure_for_names().map_or(String::new(), |cure| format!("; {cure}")),
            None => "; make its runtime write /tmp/perf-PID.map".to_owned(),
        },
        ModuleKind::Elf => names_cure(profile, worst),
        _ => String::new(),
    };
    format!("{share} of frames have no name, {most} in {module}{fix}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Meta;

    #[test]
    fn waits_for_locks_that_are_in_no_row_are_said() {
        let mut profile = Profile::new(Meta::default());
        assert!(lock_notes(&profile).is_empty());
        profile.count(UNCHARGED, 3);
        profile.count(counter::LOCKS_LEFT_OUT, 1);
        let all = lock_notes(&profile);
        assert!(all[0].starts_with("3 waits have no holder") && all[1].starts_with("1 wait does not say"));
    }

    #[test]
    fn samples_from_before_an_interpreter_was_found_are_worth_a_note_where_they_are_many() {
        let notes_of = |before| {
            let mut profile = Profile::new(Meta::default());
            profile.count(counter::INTERPRETER_SAMPLES_BEFORE, before);
            profile.count(counter::INTERPRETER_SAMPLES, 100 - before);
            interpreter_notes(&profile)
        };
        assert!(notes_of(0).is_empty() && notes_of(4).is_empty());
        let all = notes_of(100);
        assert!(
            all.len() == 1
                && all[0].starts_with("100.0% of the samples of interpreted code have native frames")
        );
        assert!(notes_of(20)[0].starts_with("20.0% of"));
    }
}
