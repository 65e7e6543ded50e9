//! Turns a coloured screen, as `tmux capture-pane -e -p` prints it, into an SVG: `ansi_to_svg <screen >picture.svg`.

#![allow(clippy::print_stdout, reason = "a tool that prints")]

use anstyle::{Color, RgbColor};
use std::io::Read;

/// Of a dark terminal.
const TEXT: RgbColor = RgbColor(0xdd, 0xdd, 0xdd);
const BACKGROUND: RgbColor = RgbColor(0x17, 0x19, 0x1d);

fn main() -> std::io::Result<()> {
    let mut screen = String::new();
    std::io::stdin().read_to_string(&mut screen)?;
    let term = anstyle_svg::Term::new().fg_color(Color::Rgb(TEXT)).bg_color(Color::Rgb(BACKGROUND));
    print!("{}", term.render_svg(&screen));
    Ok(())
}
