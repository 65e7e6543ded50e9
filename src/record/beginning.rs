//! What is done and said before a recording to a file samples: its command, its messages, its heap, its file.

use super::options::{RecordOptions, Target};
use super::output::console::Console;
use super::output::{Destination, Placed};
use super::session::Session;
use super::target::launch::Child;
use super::target::run_as::RunAs;

/// Starts the command that is recorded or that says how long, which waits to be released.
pub(super) fn spawn(options: &RecordOptions) -> anyhow::Result<Option<Child>> {
    let Some(command) = options.command() else { return Ok(None) };
    Child::spawn_stopped(command, RunAs::find(options.run_as.as_deref())?).map(Some)
}

/// Returns the console for messages, with what is to be said about the file.
pub(super) fn console(options: &RecordOptions, destination: &Destination) -> Console {
    let mut console =
        Console::new(options.quiet, matches!(options.target, Target::Launch(_)) || options.timer.is_some());
    for notice in &destination.notices {
        console.info(&format!("note: {}", crate::base::safe_text::message(notice)));
    }
    console
}

/// Says that the recording goes elsewhere, and why.
pub(super) fn say_misplaced(console: &mut Console, placed: &Placed) {
    if let (Some(why), Some(path)) = (&placed.misplaced, &placed.path) {
        let note = format!("note: {why}: this recording goes to `{}`", path.display());
        console.info(&crate::base::safe_text::message(&note));
    }
}

/// Has the session know the command that is recorded, if there is one. Returns what will be done to the target to record its heap.
pub(super) fn expect(session: &mut Session<'_>, command: Option<u32>) -> anyhow::Result<Vec<String>> {
    if let Some(pid) = command {
        session.add_launched(pid)?;
    }
    session.expect_heap(command)
}

/// Says what is done to the target to record its heap.
pub(super) fn say_heap(console: &mut Console, words: Vec<String>) {
    words.iter().for_each(|words| console.info(&crate::base::safe_text::message(words)));
}

/// Begins to record the heap of a command that was let run, if it is wanted; without it there is no file.
pub(super) fn begin_heap(
    console: &mut Console,
    session: &mut Session<'_>,
    command: Option<u32>,
    placed: Placed,
) -> anyhow::Result<Placed> {
    match session.begin_heap_of_command(command) {
        Ok(words) => say_heap(console, words),
        Err(error) => {
            placed.undo();
            return Err(error);
        }
    }
    Ok(placed)
}

/// Lets the command run; a recording of one that cannot be executed has no file.
pub(super) fn release(child: Option<&mut Child>, placed: Placed) -> anyhow::Result<Placed> {
    match child.map_or(Ok(()), Child::release) {
        Ok(()) => Ok(placed),
        Err(error) => {
            placed.undo();
            Err(error)
        }
    }
}
