//! Every action of the interface: what keys and the pointer mean, however they were pressed.

use crate::report::{ExportShape, Seen};
use crate::tui::compute::export::ScreenExport;
pub(crate) use crate::tui::views::tabs::Tab;
use ratatui::layout::Position;
use std::path::PathBuf;
use std::sync::mpsc::Sender;
use std::time::Duration;
use tui_input::InputRequest;

/// One thing the user can do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Opens a view.
    Open(Tab),
    /// Opens the view to the right, or the first.
    NextTab,
    /// Opens the view to the left, or the last.
    PreviousTab,
    /// Moves the selection up.
    Up,
    /// Moves the selection down.
    Down,
    /// Moves the selection to the left.
    Left,
    /// Moves the selection to the right.
    Right,
    /// Moves up by a screen.
    PageUp,
    /// Moves down by a screen.
    PageDown,
    /// Moves up by half a screen.
    HalfUp,
    /// Moves down by half a screen.
    HalfDown,
    /// Moves to the first row.
    First,
    /// Moves to the last row.
    Last,
    /// Opens, or zooms into, the selection.
    Enter,
    /// Goes one step back: overlay, search, zoom, filter. Never leaves the program.
    Back,
    /// Shows the whole profile: resets the zoom.
    Whole,
    /// Starts to type a search.
    Search,
    /// Goes to the next match.
    NextMatch,
    /// Goes to the previous match.
    PreviousMatch,
    /// Searches for the selected name.
    SearchSelected,
    /// Keeps samples that match the search.
    KeepMatches,
    /// Keeps samples with the selected function.
    Focus,
    /// Drops samples with the selected function.
    Drop,
    /// Counts what the selected function calls as its own weight.
    CollapseFunction,
    /// Merges the frames of the selected function's module into one.
    CollapseModule,
    /// Merges the recursive calls of the selected function into one.
    CollapseRecursion,
    /// Shows the source of the selected function.
    Annotate,
    /// Opens the editor at the selected line.
    OpenEditor,
    /// Takes the last change of filters back.
    Undo,
    /// Undoes all changes of the filters.
    UndoAll,
    /// Shows what all samples have in common as one row, or frame by frame.
    Trunk,
    /// Callers above callees, or the other way round.
    Invert,
    /// Shows the next metric of the recording.
    NextMetric,
    /// Of the heap: shows what is live at the end, at the peak, all that was allocated, what was not freed.
    NextBlocks,
    /// Of locks: shows a row for each lock, for each place that waited, or for each that let go.
    NextRows,
    /// Compares with the chosen range of time, or no longer.
    SetBase,
    /// Shows the other side of a comparison.
    ShowBase,
    /// Cycles through classes of threads, single threads, and all threads of a process merged.
    SplitThreads,
    /// Idle waits or not.
    Idle,
    /// Kernel frames or not.
    KernelFrames,
    /// Shows or hides inlined functions as frames of their own.
    InlinedFrames,
    /// Cycles through what is shown of interpreters: their functions, all of their frames, native frames only.
    RuntimeFrames,
    /// Cycles through short names, full names, and full names with their module.
    Names,
    /// Sorts by the next key.
    Sort,
    /// Reverses the order.
    ReverseSort,
    /// Copies the selected name.
    CopyName,
    /// Copies the selected stack.
    CopyStack,
    /// Asks for the format of the file to write.
    Export,
    /// Writes a file in this format.
    ExportAs(ExportShape),
    /// Shows what is wrong with the recording.
    Notes,
    /// Shows the key bindings.
    Help,
    /// Toggles mouse capture between this program and the terminal.
    Mouse,
    /// Freezes the picture; the recording goes on.
    Freeze,
    /// Cycles through all time, the last minute and the last ten seconds.
    NextWindow,
    /// Refreshes more often.
    Faster,
    /// Refreshes less often.
    Slower,
    /// Discards what was recorded so far.
    Clear,
    /// Saves what is shown of a live recording to a file.
    Save,
    /// Moves the start of the selected time range.
    RangeStart,
    /// Moves the end of the selected time range.
    RangeEnd,
    /// Toggles between the heat map and the bars.
    HeatMap,
    /// Lists all actions.
    Actions,
    /// Lists marked places and searches.
    Places,
    /// Asks for a name for what is seen, to come back to it.
    MarkPlace,
    /// Ends the program.
    Quit,
    /// Stops the program until the shell continues it.
    Suspend,
    /// Redraws the whole screen.
    Redraw,
    /// A click.
    Click(Position),
    /// Second click at the same place.
    DoubleClick(Position),
    /// The pointer moved with the button down.
    Drag(Position),
    /// The button was released.
    Release(Position),
    /// The wheel turned, in rows and columns.
    Scroll {
        /// Position of the pointer.
        at: Position,
        /// Rows to scroll; positive is down.
        rows: i16,
        /// Columns to scroll; positive is to the right.
        columns: i16,
    },
    /// An edit of the text being typed.
    Edit(InputRequest),
    /// Accepts the typed text.
    Accept,
    /// Moves up in a list that is typed into, or to the search before.
    PromptUp,
    /// Moves down in a list that is typed into, or to the search after.
    PromptDown,
    /// Completes the typed text to the selected row.
    Complete,
    /// Discards the typed text.
    Cancel,
    /// Closes the overlay.
    CloseOverlay,
    /// Scrolls the overlay, or closes it when all of it fits on the screen.
    InOverlay(Box<Action>),
    /// A key that does nothing in this state, with the reason.
    Nothing(String),
}

/// Side effects that [`super::state::App::update`] requests, since it does no I/O itself.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    /// Compute a picture for the current query.
    Ask,
    /// Copy text to the clipboard of the terminal.
    Copy(String),
    /// Write a file of what is on the screen; the text says what it holds.
    Export(Box<ScreenExport>, String),
    /// Compute pictures from this recording only, not from newer snapshots.
    Hold(Seen),
    /// Compute pictures from the newest snapshot again.
    Resume,
    /// Turn mouse capture on or off.
    Mouse(bool),
    /// Send a command to the live recording.
    Live(LiveCommand),
    /// Open a file in the editor, at a line.
    OpenEditor(PathBuf, u32),
    /// Stop until the shell wakes us.
    Suspend,
    /// Redraw the whole screen.
    Redraw,
}

/// Commands to a live recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LiveCommand {
    /// Send a snapshot at this interval.
    Refresh(Duration),
    /// Discard what was recorded so far.
    Clear,
    /// Save this recording to a file, and report its name as [`LiveUpdate::Answer`].
    Save(Seen),
}

/// An update from a live recording that is no snapshot.
#[derive(Debug)]
pub(crate) enum LiveUpdate {
    /// Elapsed time and lost samples.
    Status(LiveStatus),
    /// Outcome of a command, such as the name of a saved file. Foreign text.
    Answer(String),
    /// Something that the recorder says by itself. Foreign text.
    Notice(String),
    /// The recording has ended; the last snapshot stays on the screen.
    Ended {
        /// Why it ended. Foreign text.
        why: String,
    },
}

/// Progress of a live recording.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LiveStatus {
    /// Time since the start of the recording.
    pub(crate) elapsed: Duration,
    /// Number of lost samples.
    pub(crate) lost: u64,
}

/// Channel that sends commands to a live recording.
pub(crate) type LiveCommands = Sender<LiveCommand>;
