//! Colours of each kind of code, and text that is readable on them.

use crate::base::fnv::fnv1a;
use crate::diff::Tone;
use crate::profile::Reason;
use crate::report::{LabelKind, TimelineState};
use ratatui::style::Color;

/// Least contrast between text and its background, where both are our own colours.
pub(super) const LEAST_CONTRAST: f64 = 4.7;

/// Colour of one kind of code, at each colour depth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hue {
    pub(crate) rgb: [u8; 3],
    pub(crate) indexed: u8,
    pub(crate) basic: Color,
    pub(super) basic_text: Color,
}

const fn hue(rgb: u32, indexed: u8, basic: Color, basic_text: Color) -> Hue {
    Hue { rgb: [(rgb >> 16) as u8, (rgb >> 8) as u8, rgb as u8], indexed, basic, basic_text }
}

impl Hue {
    pub(super) const PROGRAM: Hue = hue(0xe6_9f00, 214, Color::Yellow, Color::Black);
    const LIBRARY: Hue = hue(0xf0_e442, 227, Color::Gray, Color::Black);
    const KERNEL: Hue = hue(0xd5_5e00, 166, Color::Red, Color::White);
    const JIT: Hue = hue(0x00_9e73, 72, Color::Green, Color::Black);
    const INTERPRETED: Hue = hue(0x87_5fff, 99, Color::LightMagenta, Color::Black);
    pub(crate) const LOCK: Hue = hue(0x00_72b2, 32, Color::Blue, Color::White);
    const IO: Hue = hue(0x56_b4e9, 117, Color::Cyan, Color::Black);
    const NO_CPU: Hue = hue(0xcc_79a7, 175, Color::Magenta, Color::White);
    const GREY: Hue = hue(0xd9_d9d9, 253, Color::DarkGray, Color::White);
    const WAITING_PROGRAM: Hue = hue(0x9c_c3e6, 153, Color::Cyan, Color::Black);
    const WAITING_LIBRARY: Hue = hue(0xc6_dcf0, 189, Color::Cyan, Color::Black);
    const WAITING_KERNEL: Hue = hue(0x7f_a8d1, 110, Color::Blue, Color::White);
    const WAITING_JIT: Hue = hue(0x8f_d0cf, 116, Color::Cyan, Color::Black);
    const WAITING_INTERPRETED: Hue = hue(0xaf_af5f, 143, Color::Cyan, Color::Black);
    const OTHER_WAIT: Hue = hue(0xa9_b8e8, 147, Color::Blue, Color::White);

    const MUCH_LESS: Hue = hue(0x21_66ac, 25, Color::Blue, Color::White);
    const LESS: Hue = hue(0x67_a9cf, 74, Color::Blue, Color::White);
    const LITTLE_LESS: Hue = hue(0xd1_e5f0, 195, Color::Blue, Color::White);
    // Dark enough next to the palest blue and red for eyes that lack a kind of cones.
    const NOISE: Hue = hue(0xbd_bdbd, 250, Color::DarkGray, Color::White);
    const LITTLE_MORE: Hue = hue(0xfd_dbc7, 224, Color::Red, Color::White);
    const MORE: Hue = hue(0xef_8a62, 209, Color::Red, Color::White);
    const MUCH_MORE: Hue = hue(0xb2_182b, 88, Color::Red, Color::White);
    const NEW: Hue = hue(0x76_2a83, 53, Color::Magenta, Color::White);

    /// The colour of a change: red for more, blue for less, grey for noise, purple for what is new.
    pub(super) fn of_tone(tone: Tone) -> Hue {
        match tone {
            Tone::MuchLess => Hue::MUCH_LESS,
            Tone::Less => Hue::LESS,
            Tone::LittleLess => Hue::LITTLE_LESS,
            Tone::Noise => Hue::NOISE,
            Tone::LittleMore => Hue::LITTLE_MORE,
            Tone::More => Hue::MORE,
            Tone::MuchMore => Hue::MUCH_MORE,
            Tone::New => Hue::NEW,
        }
    }

    pub(crate) fn of(kind: LabelKind, is_waiting: bool) -> Hue {
        match (kind, is_waiting) {
            (LabelKind::Program, false) => Hue::PROGRAM,
            (LabelKind::Program, true) => Hue::WAITING_PROGRAM,
            (LabelKind::Library, false) => Hue::LIBRARY,
            (LabelKind::Library, true) => Hue::WAITING_LIBRARY,
            (LabelKind::Kernel, false) => Hue::KERNEL,
            (LabelKind::Kernel, true) => Hue::WAITING_KERNEL,
            (LabelKind::Jit, false) => Hue::JIT,
            (LabelKind::Jit, true) => Hue::WAITING_JIT,
            (LabelKind::Interpreted, false) => Hue::INTERPRETED,
            (LabelKind::Interpreted, true) => Hue::WAITING_INTERPRETED,
            (LabelKind::Wait(Reason::Lock | Reason::Gil), _) => Hue::LOCK,
            (LabelKind::Wait(reason), _) if reason.is_io() => Hue::IO,
            (LabelKind::Wait(Reason::NoCpu), _) => Hue::NO_CPU,
            (LabelKind::Wait(_), _) => Hue::OTHER_WAIT,
            (LabelKind::Task | LabelKind::Cut | LabelKind::Nothing, _) => Hue::GREY,
        }
    }

    /// Colour of a state of a thread: that of the boxes of a flame graph for the same state.
    pub(super) fn of_state(state: TimelineState) -> Hue {
        match state {
            TimelineState::Running | TimelineState::Sampled => Hue::PROGRAM,
            TimelineState::NoCpu => Hue::NO_CPU,
            TimelineState::Blocked(reason) => Hue::of(LabelKind::Wait(reason), true),
            TimelineState::Idle => Hue::GREY,
        }
    }

    pub(super) fn indexed_text(self) -> u8 {
        if text_on(indexed_rgb(self.indexed)) == Color::Rgb(0, 0, 0) { 16 } else { 231 }
    }
}

pub(super) fn rgb_color([r, g, b]: [u8; 3]) -> Color {
    Color::Rgb(r, g, b)
}

/// `rgb`, lighter or darker by up to 6 % of the whole range depending on the name; never another for the same one.
pub(crate) fn shaded(rgb: [u8; 3], name: &str) -> [u8; 3] {
    // -15..=15 of 255
    let shift = ((fnv1a(name) >> 32) % 31) as i16 - 15;
    let by = |shift: i16| rgb.map(|channel| (i16::from(channel) + shift).clamp(0, 255) as u8);
    // Halfway between shades for black and for white text neither is readable; the shift is reversed then.
    if contrast(by(shift)) < LEAST_CONTRAST { by(-shift) } else { by(shift) }
}

/// Contrast of `rgb` with the text on it (WCAG).
fn contrast(rgb: [u8; 3]) -> f64 {
    let text = if text_on(rgb) == Color::Rgb(0, 0, 0) { 0.0 } else { 1.0 };
    let (a, b) = (luminance(rgb) + 0.05, text + 0.05);
    f64::max(a, b) / f64::min(a, b)
}

/// Colour that xterm shows for an index from 16 on: a 6x6x6 cube, then greys.
pub(super) fn indexed_rgb(index: u8) -> [u8; 3] {
    const STEPS: [u8; 6] = [0, 95, 135, 175, 215, 255];
    match index.checked_sub(232) {
        Some(grey) => [8 + 10 * grey; 3],
        None => {
            let cube = usize::from(index.saturating_sub(16));
            [STEPS[cube / 36 % 6], STEPS[cube / 6 % 6], STEPS[cube % 6]]
        }
    }
}

/// Black or white, whichever is easier to read on `rgb`.
pub(super) fn text_on(rgb: [u8; 3]) -> Color {
    // Black from a luminance of 0.179 on, where it has the higher contrast (WCAG).
    if is_bright(rgb) { Color::Rgb(0, 0, 0) } else { Color::Rgb(0xff, 0xff, 0xff) }
}

pub(super) fn is_bright(rgb: [u8; 3]) -> bool {
    luminance(rgb) > 0.179
}

/// Relative luminance of an sRGB colour.
pub(super) fn luminance(rgb: [u8; 3]) -> f64 {
    let linear = rgb.map(linear);
    0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]
}

/// The amount of light of a channel of sRGB, up to 1.
fn linear(channel: u8) -> f64 {
    let c = f64::from(channel) / 255.0;
    if c <= 0.04045 { c / 12.92 } else { ((c + 0.055) / 1.055).powf(2.4) }
}

#[cfg(test)]
mod tests {
    use super::*;

    type Matrix = [[f64; 3]; 3];

    /// Linear RGB to what eyes see: those with all cones, and those without L cones (protanopia), M cones (deuteranopia) or
    /// S cones (tritanopia). From Machado, Oliveira and Fernandes, "A Physiologically-based Model for Simulation of Color
    /// Vision Deficiency", IEEE Transactions on Visualization and Computer Graphics 15 (6), 2009: severity 1.0.
    const EYES: [Matrix; 4] = [
        [[1.0, 0.0, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]],
        [[0.152286, 1.052583, -0.204868], [0.114503, 0.786281, 0.099216], [-0.003882, -0.048116, 1.051998]],
        [[0.367322, 0.860646, -0.227968], [0.280085, 0.672501, 0.047413], [-0.011820, 0.042940, 0.968881]],
        [[1.255528, -0.076749, -0.178779], [-0.078411, 0.930809, 0.147602], [0.004733, 0.691367, 0.303900]],
    ];

    /// Linear RGB to CIE XYZ, each as a part of the white of D65.
    const TO_XYZ: Matrix = [
        [0.4124564 / 0.95047, 0.3575761 / 0.95047, 0.1804375 / 0.95047],
        [0.2126729, 0.7151522, 0.0721750],
        [0.0193339 / 1.08883, 0.1191920 / 1.08883, 0.9503041 / 1.08883],
    ];

    const KINDS: [(&str, Hue); 9] = [
        ("own", Hue::PROGRAM),
        ("library", Hue::LIBRARY),
        ("kernel", Hue::KERNEL),
        ("JIT", Hue::JIT),
        ("interpreted", Hue::INTERPRETED),
        ("lock", Hue::LOCK),
        ("I/O", Hue::IO),
        ("no CPU", Hue::NO_CPU),
        ("thread", Hue::GREY),
    ];

    const WITH_WAITS: [(&str, Hue); 6] = [
        ("wait", Hue::OTHER_WAIT),
        ("own, waiting", Hue::WAITING_PROGRAM),
        ("library, waiting", Hue::WAITING_LIBRARY),
        ("kernel, waiting", Hue::WAITING_KERNEL),
        ("JIT, waiting", Hue::WAITING_JIT),
        ("interpreted, waiting", Hue::WAITING_INTERPRETED),
    ];

    const TONES: [(&str, Hue); 8] = [
        ("much less", Hue::MUCH_LESS),
        ("less", Hue::LESS),
        ("a little less", Hue::LITTLE_LESS),
        ("noise", Hue::NOISE),
        ("a little more", Hue::LITTLE_MORE),
        ("more", Hue::MORE),
        ("much more", Hue::MUCH_MORE),
        ("new", Hue::NEW),
    ];

    fn product(matrix: &Matrix, vector: [f64; 3]) -> [f64; 3] {
        matrix.map(|row| row.iter().zip(vector).map(|(a, b)| a * b).sum())
    }

    /// A colour in CIELAB as these eyes see it.
    fn lab(rgb: [u8; 3], eyes: &Matrix) -> [f64; 3] {
        let seen = product(eyes, rgb.map(linear)).map(|channel| channel.clamp(0.0, 1.0));
        let [x, y, z] = product(&TO_XYZ, seen).map(|part| {
            let is_dark = part <= 216.0 / 24_389.0;
            if is_dark { (24_389.0 / 27.0 * part + 16.0) / 116.0 } else { part.cbrt() }
        });
        [116.0 * y - 16.0, 500.0 * (x - y), 200.0 * (y - z)]
    }

    /// Returns the difference of two colours (CIE76) for those eyes that see the least of it.
    fn least_difference(a: [u8; 3], b: [u8; 3]) -> f64 {
        let of = |eyes| {
            let squares = lab(a, eyes).into_iter().zip(lab(b, eyes)).map(|(a, b)| (a - b).powi(2));
            squares.sum::<f64>().sqrt()
        };
        EYES.iter().map(of).fold(f64::INFINITY, f64::min)
    }

    fn at_depths(hue: Hue) -> [[u8; 3]; 2] {
        [hue.rgb, indexed_rgb(hue.indexed)]
    }

    /// The pairs that differ by less than `least`, in RGB and with 256 colours.
    fn alike<'n>(hues: &[(&'n str, Hue)], least: [f64; 2]) -> [Vec<(&'n str, &'n str)>; 2] {
        [0, 1].map(|depth| {
            let mut found = Vec::new();
            for (at, (name, hue)) in hues.iter().enumerate() {
                for (other_name, other) in &hues[at + 1..] {
                    let [one, other] = [*hue, *other].map(|hue| at_depths(hue)[depth]);
                    if least_difference(one, other) < least[depth] {
                        found.push((*name, *other_name));
                    }
                }
            }
            found
        })
    }

    #[test]
    fn differences_are_those_of_cie76() {
        let [all, no_l, ..] = &EYES;
        let white = lab([255; 3], all);
        assert!(
            (white[0] - 100.0).abs() < 0.01 && white[1].abs() < 0.01 && white[2].abs() < 0.01,
            "{white:?}"
        );
        // Red of sRGB.
        let red = lab([255, 0, 0], all);
        assert!((red[0] - 53.24).abs() < 0.01 && (red[1] - 80.09).abs() < 0.02, "{red:?}");
        // Grey stays grey.
        let grey = lab([128; 3], no_l);
        assert!(grey[1].abs() < 0.5 && grey[2].abs() < 0.5, "{grey:?}");
    }

    #[test]
    fn kinds_are_told_apart_by_eyes_without_a_kind_of_cones() {
        assert_eq!(alike(&KINDS, [15.0, 13.0]), [vec![], vec![]]);
        // A paler box is no box of its kind that ran.
        for ((name, running), (_, waiting)) in KINDS[..4].iter().zip(&WITH_WAITS[1..]) {
            for (one, other) in at_depths(*running).into_iter().zip(at_depths(*waiting)) {
                let found = least_difference(one, other);
                assert!(found >= 15.0, "{name}: {found:.1}");
            }
        }
    }

    #[test]
    fn tones_of_a_comparison_are_told_apart_by_eyes_without_a_kind_of_cones() {
        assert_eq!(alike(&TONES, [15.0, 11.0]), [vec![], vec![]]);
        for (name, hue) in TONES {
            for found in at_depths(hue).map(contrast) {
                assert!(found >= LEAST_CONTRAST, "{name}: {found:.2}");
            }
        }
    }

    /// Only words say what these are: the reason of a wait stands in brackets at the end of its stack, and frames have marks.
    /// Who finds better colours takes them off the list.
    #[test]
    fn colours_of_waits_that_some_eyes_cannot_tell_apart_are_known() {
        let all = [&KINDS[..], &WITH_WAITS[..]].concat();
        let of_rgb = vec![
            ("I/O", "wait"),
            ("I/O", "kernel, waiting"),
            ("thread", "JIT, waiting"),
            ("wait", "own, waiting"),
            ("wait", "kernel, waiting"),
            ("own, waiting", "JIT, waiting"),
        ];
        let of_256 = vec![
            ("I/O", "own, waiting"),
            ("I/O", "library, waiting"),
            ("I/O", "JIT, waiting"),
            ("thread", "library, waiting"),
            ("thread", "JIT, waiting"),
            ("own, waiting", "library, waiting"),
        ];
        assert_eq!(alike(&all, [9.0, 9.0]), [of_rgb, of_256]);
    }
}
