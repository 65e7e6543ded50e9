//! The terminal as a guard: its settings are restored on drop, in a panic, and before the process stops.

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

/// Whether this process controls the terminal. The thread that clears the flag first restores the terminal, so that it happens
/// once.
static IS_TAKEN: AtomicBool = AtomicBool::new(false);

/// The screen to draw on. A frame is buffered and written at once.
pub(crate) type TerminalScreen = Terminal<CrosstermBackend<BufWriter<Tty>>>;

/// Size of the buffer that holds a frame until it is complete, bytes.
const FRAME_BYTES: usize = 1 << 18;

/// Control of the terminal, which ends on drop.
#[derive(Debug)]
pub struct TerminalGuard {
    /// Screen on which frames are drawn. Never dropped, since its destructor prints, which would panic once the terminal is gone.
    pub(crate) screen: ManuallyDrop<TerminalScreen>,
    tty: Tty,
    has_mouse: bool,
}

impl TerminalGuard {
    /// Takes control of the terminal. A panic hook restores it before the message is printed.
    ///
    /// # Errors
    ///
    /// Fails when the terminal cannot be changed; changes already made are undone.
    pub fn take(has_mouse: bool) -> io::Result<Self> {
        give_back_in_a_panic();
        let tty = Tty::get()?;
        let backend = CrosstermBackend::new(BufWriter::with_capacity(FRAME_BYTES, tty.clone()));
        let mut guard = TerminalGuard { screen: ManuallyDrop::new(Terminal::new(backend)?), tty, has_mouse };
        guard.enter()?;
        Ok(guard)
    }

    /// Takes control again after [`TerminalGuard::leave`], or after the process was stopped.
    ///
    /// # Errors
    ///
    /// Fails when the terminal cannot be changed.
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
    /// Fails when the terminal is gone.
    pub(crate) fn redraw(&mut self) -> io::Result<()> {
        // `Terminal::clear` would query the cursor position and wait for the answer.
        let size = self.screen.size()?;
        self.screen.resize(Rect::new(0, 0, size.width, size.height))
    }

    /// Whether this process still controls the terminal, which it does not after a panic in any thread.
    pub(crate) fn is_ours(&self) -> bool {
        IS_TAKEN.load(Ordering::SeqCst)
    }

    /// Restores the terminal.
    pub(crate) fn leave(&mut self) {
        give_back();
    }

    /// Turns mouse capture on or off.
    ///
    /// # Errors
    ///
    /// Fails when the terminal is gone.
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

    /// Copies `text` to the clipboard of the terminal that the user sits at.
    ///
    /// # Errors
    ///
    /// Fails when the terminal is gone.
    pub(crate) fn copy(&mut self, text: &str) -> io::Result<()> {
        execute!(self.tty, CopyToClipboard::to_clipboard_from(text))
    }
}

impl Drop for TerminalGuard {
    fn drop(&mut self) {
        give_back();
    }
}

/// Captures clicks, drags and the wheel, but not every pointer move, which would be much traffic over a slow line.
fn capture_mouse(out: &mut impl Write) -> io::Result<()> {
    queue!(out, EnableMouseCapture)?;
    // crossterm turns on mode 1003, too, which reports every move.
    out.write_all(b"\x1b[?1003l\x1b[?1002h")
}

/// The terminal to read keys from when standard input is not one.
pub(crate) fn device() -> io::Result<Option<File>> {
    if io::stdin().is_terminal() { Ok(None) } else { File::open("/dev/tty").map(Some) }
}

/// Puts the terminal into raw mode. crossterm does so only once: it does not notice that the shell has changed the mode
/// since, as it does when a stopped program is continued.
fn make_raw() -> io::Result<()> {
    let (device, stdin) = (device()?, io::stdin());
    let fd = device.as_ref().map_or_else(|| stdin.as_fd(), File::as_fd);
    let mut modes = termios::tcgetattr(fd)?;
    modes.make_raw();
    Ok(termios::tcsetattr(fd, termios::OptionalActions::Now, &modes)?)
}

/// Restores the terminal. Errors are ignored: they mean that it is gone, and then there is nothing left to restore.
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
