//! The terminal as a guard: what is changed in it is undone on drop, in a panic, and before the process stops.

use super::tty::Tty;
use crossterm::clipboard::CopyToClipboard;
use crossterm::cursor::{Hide, Show};
use crossterm::event::{DisableMouseCapture, EnableMouseCapture};
use crossterm::style::ResetColor;
use crossterm::terminal::{EnterAlternateScreen, LeaveAlternateScreen, disable_raw_mode, enable_raw_mode};
use crossterm::{execute, queue};
use ratatui::Terminal;
use ratatui::backend::CrosstermBackend;
use ratatui::layout::Rect;
use rustix::termios;
use std::fs::File;
use std::io::{self, BufWriter, IsTerminal, Write};
use std::mem::ManuallyDrop;
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};

/// Whether the terminal is ours just now: it is given back once, by the first to come.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// The screen that is drawn on. One write for each frame.
pub(crate) type Screen = Terminal<CrosstermBackend<BufWriter<Tty>>>;

/// Bytes of a frame that are kept back until it is whole.
const FRAME_BYTES: usize = 1 << 18;

/// The terminal while it is ours.
#[derive(Debug)]
pub struct TerminalGuard {
    /// Where frames are drawn. Never dropped: it would print when the terminal is gone, and that would be a panic.
    pub(crate) screen: ManuallyDrop<Screen>,
    tty: Tty,
    has_mouse: bool,
}

impl TerminalGuard {
    /// Takes the terminal. A panic gives it back before it prints.
    ///
    /// # Errors
    ///
    /// When it cannot be changed; what was changed is undone.
    pub fn take(has_mouse: bool) -> io::Result<Self> {
        give_back_in_a_panic();
        let tty = Tty::get()?;
        let backend = CrosstermBackend::new(BufWriter::with_capacity(FRAME_BYTES, tty.clone()));
        let mut guard = TerminalGuard { screen: ManuallyDrop::new(Terminal::new(backend)?), tty, has_mouse };
        guard.enter()?;
        Ok(guard)
    }

    /// Takes the terminal again after [`TerminalGuard::leave`], or after it was taken away.
    ///
    /// # Errors
    ///
    /// When it cannot be changed.
    pub(crate) fn enter(&mut self) -> io::Result<()> {
        IS_TAKEN.store(true, Ordering::SeqCst);
        enable_raw_mode()?;
        make_raw()?;
        let mut bytes = Vec::new();
        queue!(bytes, EnterAlternateScreen, Hide)?;
        if self.has_mouse {
            capture_mouse(&mut bytes)?;
        }
        self.tty.write_all(&bytes)?;
        self.redraw()
    }

    /// Clears the screen, so that the next frame is drawn whole.
    ///
    /// # Errors
    ///
    /// When the terminal is gone.
    pub(crate) fn redraw(&mut self) -> io::Result<()> {
        // `Terminal::clear` would ask for the place of the cursor, and wait for the answer.
        let size = self.screen.size()?;
        self.screen.resize(Rect::new(0, 0, size.width, size.height))
    }

    /// Whether the terminal is still ours. It is not after a panic, of whichever thread.
    pub(crate) fn is_ours(&self) -> bool {
        IS_TAKEN.load(Ordering::SeqCst)
    }

    /// Gives the terminal back.
    pub(crate) fn leave(&mut self) {
        give_back();
    }

    /// Takes the mouse or leaves it to the terminal.
    ///
    /// # Errors
    ///
    /// When the terminal is gone.
    pub(crate) fn set_mouse(&mut self, has_mouse: bool) -> io::Result<()> {
        self.has_mouse = has_mouse;
        let mut bytes = Vec::new();
        if has_mouse {
            capture_mouse(&mut bytes)?;
        } else {
            queue!(bytes, DisableMouseCapture)?;
        }
        self.tty.write_all(&bytes)
    }

    /// Puts `text` on the clipboard of the terminal that the user sits at.
    ///
    /// # Errors
    ///
    /// When the terminal is gone.
    pub(crate) fn copy(&mut self, text: &str) -> io::Result<()> {
        execute!(self.tty, CopyToClipboard::to_clipboard_from(text))
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        give_back();
    }
}

/// Clicks, drags and the wheel, but not every move of the pointer: that is much traffic over a slow line.
fn capture_mouse(out: &mut impl Write) -> io::Result<()> {
    queue!(out, EnableMouseCapture)?;
    // Of what crossterm asks for, mode 1003 is the one that reports moves.
    out.write_all(b"\x1b[?1003l\x1b[?1002h")
}

/// The terminal that keys come from, where standard input is none.
pub(crate) fn device() -> io::Result<Option<File>> {
    if io::stdin().is_terminal() { Ok(None) } else { File::open("/dev/tty").map(Some) }
}

/// Has the terminal hand over keys as they are. Of crossterm this can be had only once: it does not look whether the shell
/// has changed that since, as it does when a stopped program is to go on.
fn make_raw() -> io::Result<()> {
    let (device, stdin) = (device()?, io::stdin());
    let fd = device.as_ref().map_or_else(|| stdin.as_fd(), File::as_fd);
    let mut modes = termios::tcgetattr(fd)?;
    modes.make_raw();
    Ok(termios::tcsetattr(fd, termios::OptionalActions::Now, &modes)?)
}

/// Undoes everything. Errors mean that the terminal is gone, and then nothing is left to undo.
fn give_back() {
    if !IS_TAKEN.swap(false, Ordering::SeqCst) {
        return;
    }
    let mut bytes = Vec::new();
    let _ = queue!(bytes, DisableMouseCapture, ResetColor, Show, LeaveAlternateScreen);
    Tty::write_last(&bytes);
    let _ = disable_raw_mode();
}

fn give_back_in_a_panic() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let print = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            give_back();
            print(info);
        }));
    });
}
