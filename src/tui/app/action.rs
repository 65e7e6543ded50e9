//! Everything that can happen: what keys and the pointer mean, whichever way they were pressed.

use crate::base::mailbox::{Mail, MailKind};
use crate::report::{Analysis, ExportJob, ExportShape};
use ratatui::layout::Position;
use std::sync::Arc;
use std::sync::mpsc::Sender;
use std::time::Duration;
use tui_input::InputRequest;

/// The views, in the order of their tabs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Tab {
    /// Boxes of the call tree.
    #[default]
    Flame,
    /// A table of functions.
    Top,
    /// Callers and callees of one function.
    Callers,
    /// Time on an axis.
    Time,
    /// A table of threads.
    Threads,
}

impl Tab {
    /// Those that exist.
    pub(crate) const ALL: &'static [Tab] = &[Tab::Flame, Tab::Top, Tab::Callers, Tab::Time, Tab::Threads];

    /// Its name.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Tab::Flame => "Flame",
            Tab::Top => "Top",
            Tab::Callers => "Callers",
            Tab::Time => "Time",
            Tab::Threads => "Threads",
        }
    }

    /// The digit that opens it.
    pub(crate) fn digit(self) -> char {
        match self {
            Tab::Flame => '1',
            Tab::Top => '2',
            Tab::Callers => '3',
            Tab::Time => '4',
            Tab::Threads => '5',
        }
    }
}

/// One thing that happens.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Action {
    /// Opens a view.
    Open(Tab),
    /// Opens the view to the right, or the first.
    NextTab,
    /// Opens the view to the left, or the last.
    PreviousTab,
    /// Moves the selection.
    Up,
    /// Moves the selection.
    Down,
    /// Moves the selection.
    Left,
    /// Moves the selection.
    Right,
    /// Moves by a screen.
    PageUp,
    /// Moves by a screen.
    PageDown,
    /// Moves by half a screen.
    HalfUp,
    /// Moves by half a screen.
    HalfDown,
    /// Moves to the first.
    First,
    /// Moves to the last.
    Last,
    /// Into what is selected.
    Enter,
    /// One step back: overlay, search, zoom, filter. Never out of the program.
    Back,
    /// The whole profile: no zoom.
    Whole,
    /// Starts to type a search.
    Search,
    /// To the next match.
    NextMatch,
    /// To the match before.
    PreviousMatch,
    /// Searches what is selected.
    SearchSelected,
    /// Keeps samples that match the search.
    KeepMatches,
    /// Keeps samples with the selected function.
    Focus,
    /// Drops samples with the selected function.
    Drop,
    /// What the selected function calls counts for itself.
    CollapseFunction,
    /// The selected function's module becomes one frame.
    CollapseModule,
    /// The selected function's recursion becomes one call.
    CollapseRecursion,
    /// Takes the last change of filters back.
    Undo,
    /// Takes all changes of filters back.
    UndoAll,
    /// Callers above callees, or the other way round.
    Invert,
    /// The next metric that the recording has.
    NextMetric,
    /// Each thread for itself, or those of one name together.
    SplitThreads,
    /// Kernel frames or not.
    KernelFrames,
    /// Inlined functions as frames of their own or not.
    InlinedFrames,
    /// Short names, full names, names with their module.
    Names,
    /// The next order.
    Sort,
    /// The order turned round.
    ReverseSort,
    /// Copies the selected name.
    CopyName,
    /// Copies the selected stack.
    CopyStack,
    /// Asks for the kind of file to write.
    Export,
    /// Writes it.
    ExportAs(ExportShape),
    /// Shows what is wrong with the recording.
    Notes,
    /// Shows the keys.
    Help,
    /// Gives the mouse to the terminal, or takes it.
    Mouse,
    /// Stops the picture, not the recording.
    Freeze,
    /// All time, the last minute, the last ten seconds.
    NextWindow,
    /// New pictures more often.
    Faster,
    /// New pictures less often.
    Slower,
    /// Forgets what was recorded.
    Clear,
    /// Writes what is seen of a live recording to a file.
    Save,
    /// Moves the start of the chosen time.
    RangeStart,
    /// Moves the end of the chosen time.
    RangeEnd,
    /// The heat map, or bars.
    HeatMap,
    /// Ends the program.
    Quit,
    /// Stops the program until the shell wakes it.
    Suspend,
    /// Draws everything again.
    Redraw,
    /// A click.
    Click(Position),
    /// The second click at one place.
    DoubleClick(Position),
    /// The pointer was moved with the button down.
    Drag(Position),
    /// The button was let go.
    Release(Position),
    /// The wheel, in rows and columns.
    Scroll {
        /// Where the pointer is.
        at: Position,
        /// Down is more than 0.
        rows: i16,
        /// To the right is more than 0.
        columns: i16,
    },
    /// A change of the text that is typed.
    Edit(InputRequest),
    /// The text that is typed is good.
    Accept,
    /// The text that is typed is not wanted.
    Cancel,
    /// The overlay goes away.
    CloseOverlay,
    /// Moves in the overlay, or closes it when all of it is on the screen.
    InOverlay(Box<Action>),
    /// A key that means nothing now, and why.
    Nothing(String),
}

/// What [`super::state::App::update`] cannot do itself, since it does no input and no output.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Effect {
    /// Compute the query of the app.
    Ask,
    /// Put text on the clipboard of the terminal.
    Copy(String),
    /// Write a file of what is seen, which holds what is said of it.
    Export(Box<ExportJob>, Seen, String),
    /// Compute nothing of a newer state of the recording than what is seen.
    Hold(Seen),
    /// Compute the newest again.
    Resume,
    /// Capture the mouse or not.
    Mouse(bool),
    /// Tell the live recording.
    Live(LiveCommand),
    /// Stop until the shell wakes us.
    Suspend,
    /// Draw everything again.
    Redraw,
}

/// Commands to a live recording.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum LiveCommand {
    /// Send a snapshot this often.
    Refresh(Duration),
    /// Forget what was recorded until now.
    Clear,
    /// Write what is seen to a file, and tell its name as [`Feed::Note`].
    Save(Seen),
}

/// The recording that the screen shows.
#[derive(Debug, Clone)]
pub(crate) struct Seen(pub(crate) Arc<Analysis>);

/// One that was made later is another, even if nothing happened meanwhile.
impl PartialEq for Seen {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Seen {}

/// What a live recording tells.
#[derive(Debug)]
pub(crate) enum Feed {
    /// A newer state of it.
    Recording(Arc<Analysis>),
    /// How it goes.
    Status(LiveStatus),
    /// Something to tell the user, such as the name of a saved file. Foreign text.
    Note(String),
    /// It is over: the last picture stays.
    Ended {
        /// Why. Foreign text.
        why: String,
    },
}

impl Mail for Feed {
    fn kind(&self) -> MailKind {
        let (rank, most) = match self {
            Feed::Status(_) => (0, 1),
            // Each takes the place of the one before on the screen.
            Feed::Note(_) => (1, 100),
            Feed::Recording(_) => (2, 1),
            Feed::Ended { .. } => (3, 1),
        };
        MailKind { rank, most }
    }
}

/// How a live recording goes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct LiveStatus {
    /// Since its start.
    pub(crate) elapsed: Duration,
    /// Samples that were lost.
    pub(crate) lost: u64,
}

/// Where live recordings hear commands.
pub(crate) type LiveCommands = Sender<LiveCommand>;
