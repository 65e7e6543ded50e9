//! Colours of a differential flame graph: one tone per size of a change, and their legend in the picture.
//!
//! The tones are those of ColorBrewer's RdBu, which colour-blind people can tell apart; black text is readable on all
//! of them.

use rustc_hash::FxHashMap;
use std::fmt::Write;

/// Size and direction of the change of a box.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Tone {
    /// The box shrank to half or less.
    MuchLess,
    /// The box shrank by a fifth or more.
    Less,
    /// The box shrank by less than a fifth.
    LittleLess,
    /// The change may be chance, or was not tested.
    Noise,
    /// The box grew by less than a quarter.
    LittleMore,
    /// The box grew by a quarter or more.
    More,
    /// The box at least doubled.
    MuchMore,
    /// The box is new.
    New,
}

/// Tone of each box, by its depth and its start on the new side.
pub(super) type ToneOfBox = FxHashMap<(u32, u64), Tone>;

/// Least factor of a change that gets a tone, even if the box's function has changed elsewhere.
const LEAST_CHANGE: f64 = 1.02;

/// Factors from which on the tones are deeper.
const STEPS: [f64; 2] = [1.25, 2.0];

/// The tones from one end to the other; the tone of what is new has no opposite.
const SCALE: [Tone; 7] =
    [Tone::MuchLess, Tone::Less, Tone::LittleLess, Tone::Noise, Tone::LittleMore, Tone::More, Tone::MuchMore];

impl Tone {
    /// The tone of a box with these weights; `is_real` says whether its change, or that of its function, is more than chance.
    pub(crate) fn of(base: f64, new: f64, is_real: bool) -> Self {
        if !is_real || (base <= 0.0 && new <= 0.0) {
            return Tone::Noise;
        }
        if base <= 0.0 {
            return Tone::New;
        }
        let tones = match new >= base {
            true => [Tone::LittleMore, Tone::More, Tone::MuchMore],
            false => [Tone::LittleLess, Tone::Less, Tone::MuchLess],
        };
        // Infinite if it is gone.
        let factor = base.max(new) / base.min(new);
        match factor {
            small if small < LEAST_CHANGE => Tone::Noise,
            small if small < STEPS[0] => tones[0],
            medium if medium < STEPS[1] => tones[1],
            _ => tones[2],
        }
    }

    fn color(self) -> &'static str {
        match self {
            Tone::MuchLess => "#4393c3",
            Tone::Less => "#92c5de",
            Tone::LittleLess => "#d1e5f0",
            Tone::Noise => "#d0d0d0",
            Tone::LittleMore => "#fddbc7",
            Tone::More => "#f4a582",
            Tone::MuchMore => "#d6604d",
            Tone::New => "#c2a5cf",
        }
    }
}

/// inferno's SVG with the tones of all boxes (`of_all` for the box of everything), and a legend above them.
pub(super) fn toned(svg: &str, of_all: Tone, boxes: &ToneOfBox) -> String {
    let depths = depths(svg);
    let mut out = String::with_capacity(svg.len() + 2048);
    let mut rest = svg;
    while let Some(start) = rest.find("<rect ") {
        let (before, from) = rest.split_at(start);
        out.push_str(before);
        let end = from.find("/>").map_or(from.len(), |end| end + 2);
        let (tag, after) = from.split_at(end);
        let place = attribute(tag, "fg:x").and_then(|x| x.parse::<u64>().ok());
        let depth = attribute(tag, "y").and_then(|y| depths.iter().position(|known| *known == y));
        match (place, depth, attribute(tag, "fill")) {
            (Some(place), Some(depth), Some(fill)) => {
                let tone = match depth {
                    0 => of_all,
                    _ => boxes.get(&(depth as u32, place)).copied().unwrap_or(Tone::Noise),
                };
                out.push_str(&tag.replacen(
                    &format!("fill=\"{fill}\""),
                    &format!("fill=\"{}\"", tone.color()),
                    1,
                ));
            }
            _ => out.push_str(tag),
        }
        rest = after;
    }
    out.push_str(rest);
    if let Some(place) = out.find("<svg id=\"frames\"") {
        out.insert_str(place, &legend());
    }
    out
}

/// The y coordinates of all depths, the root's first: boxes have one height and stack from the bottom up.
fn depths(svg: &str) -> Vec<&str> {
    let mut found: Vec<&str> = Vec::new();
    for tag in svg.split("<rect ").skip(1) {
        let tag = &tag[..tag.find("/>").unwrap_or(tag.len())];
        if let (Some(y), true) = (attribute(tag, "y"), attribute(tag, "fg:x").is_some())
            && !found.contains(&y)
        {
            found.push(y);
        }
    }
    found.sort_by_key(|y| std::cmp::Reverse(y.parse::<u64>().unwrap_or(0)));
    found
}

fn attribute<'t>(tag: &'t str, name: &str) -> Option<&'t str> {
    let (_, rest) = tag.split_once(&format!("{name}=\""))?;
    rest.split_once('"').map(|(value, _)| value)
}

/// The legend of tones, at the left in the line below the title.
fn legend() -> String {
    const TOP: u32 = 40;
    const SIDE: u32 = 11;
    let mut out = String::from("<g id=\"legend\" fill=\"#000\">");
    let mut x = 10;
    let word = |out: &mut String, x: &mut u32, text: &str, width: u32| {
        let y = TOP + 9;
        let written = write!(out, "<text x=\"{x}\" y=\"{y}\" fill=\"#6e6e6e\">{text}</text>", x = *x);
        debug_assert!(written.is_ok(), "a String takes any text");
        *x += width;
    };
    word(&mut out, &mut x, "shrank", 48);
    let swatch = |out: &mut String, x: &mut u32, tone: Tone| {
        let color = tone.color();
        let written = write!(
            out,
            "<rect x=\"{x}\" y=\"{TOP}\" width=\"{SIDE}\" height=\"{SIDE}\" style=\"fill:{color};stroke:#888\"/>",
            x = *x
        );
        debug_assert!(written.is_ok(), "a String takes any text");
        *x += SIDE + 3;
    };
    for tone in SCALE {
        swatch(&mut out, &mut x, tone);
        if tone == Tone::Noise {
            x += 2;
            word(&mut out, &mut x, "noise or untested", 134);
        }
    }
    x += 2;
    word(&mut out, &mut x, "grew (pale: to 25 %, full: twice)", 216);
    swatch(&mut out, &mut x, Tone::New);
    x += 2;
    word(&mut out, &mut x, "new", 36);
    word(&mut out, &mut x, "as wide as in the new side; what is gone has no width", 0);
    out.push_str("</g>");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tones_say_how_much_and_in_which_direction() {
        for (base, new, tone) in [
            (1.0, 1.01, Tone::Noise),
            (1.0, 1.1, Tone::LittleMore),
            (1.0, 1.5, Tone::More),
            (1.0, 2.0, Tone::MuchMore),
            (0.0, 1.0, Tone::New),
            (1.0, 0.95, Tone::LittleLess),
            (1.0, 0.6, Tone::Less),
            (1.0, 0.0, Tone::MuchLess),
            (0.0, 0.0, Tone::Noise),
        ] {
            assert_eq!(Tone::of(base, new, true), tone, "{base} {new}");
            assert_eq!(Tone::of(base, new, false), Tone::Noise);
        }
    }

    /// Relative luminance (WCAG).
    fn luminance(color: &str) -> f64 {
        let channel = |at: usize| {
            let value = f64::from(u8::from_str_radix(&color[at..at + 2], 16).unwrap()) / 255.0;
            if value <= 0.04 { value / 12.92 } else { ((value + 0.055) / 1.055).powf(2.4) }
        };
        0.2126 * channel(1) + 0.7152 * channel(3) + 0.0722 * channel(5)
    }

    #[test]
    fn black_text_is_readable_on_every_tone() {
        for tone in SCALE.into_iter().chain([Tone::New]) {
            assert!((luminance(tone.color()) + 0.05) / 0.05 >= 4.7, "{tone:?}");
        }
    }
}
