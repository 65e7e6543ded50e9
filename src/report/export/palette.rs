//! Colours of the boxes of a flame graph.

use super::text_tree::{SUFFIXES, kind_of, step_text, thread_texts};
use crate::profile::Reason;
use crate::report::model::label::LabelId;
use crate::report::model::label_kind::LabelKind;
use crate::report::naming::style::NameStyle;
use crate::report::query::selection::Selection;
use inferno::flamegraph::color::{Color, PaletteMap};
use rustc_hash::FxHashMap;
use std::collections::BTreeMap;

const fn rgb(value: u32) -> Color {
    Color { r: (value >> 16) as u8, g: (value >> 8) as u8, b: value as u8 }
}

/// Threads, and what is not code.
const GREY: Color = rgb(0xd9_d9d9);

/// The colour of every frame: its kind sets the hue, its name a slightly different lightness. The first of several
/// frames with the same text decides. Frames that occur only in waits are blue.
pub(super) fn palette(selection: &Selection<'_>, names: NameStyle) -> PaletteMap {
    let mut palette = PaletteMap::default();
    palette.insert("", GREY);
    for thread in thread_texts(selection) {
        palette.insert(thread, GREY);
    }
    // Whether each label and mark occurs only in waits, with the order of first occurrence, which decides between equal
    // texts.
    let mut seen: FxHashMap<(LabelId, usize), (usize, bool)> = FxHashMap::default();
    selection.for_each_path(|path, groups| {
        let is_wait = groups.into_iter().all(|group| group.activity.reason().is_some());
        for step in path {
            let first = seen.len();
            seen.entry((step.label, kind_of(step))).or_insert((first, true)).1 &= is_wait;
        }
    });
    let mut seen: Vec<_> = seen.into_iter().collect();
    seen.sort_unstable_by_key(|(_, (first, _))| *first);
    let mut boxes: BTreeMap<String, (LabelKind, bool)> = BTreeMap::new();
    for ((label, mark), (_, is_wait)) in seen {
        let text = format!("{}{}", step_text(selection, label, names), SUFFIXES[mark]);
        boxes.entry(text).or_insert((selection.labels.get(label).kind, true)).1 &= is_wait;
    }
    for (text, (kind, is_only_waits)) in boxes {
        if palette.get(&text).is_none() {
            let hue = if is_only_waits { waiting_hue(kind) } else { hue(kind) };
            let is_code = !is_only_waits && !matches!(kind, LabelKind::Wait(_));
            palette.insert(text.clone(), shaded(hue, &text, is_code));
        }
    }
    palette
}

/// Colours that colour-blind people can tell apart (Okabe and Ito).
fn hue(kind: LabelKind) -> Color {
    match kind {
        LabelKind::Program => rgb(0xe6_9f00),
        LabelKind::Library => rgb(0xf0_e442),
        LabelKind::Kernel => rgb(0xd5_5e00),
        LabelKind::Jit => rgb(0x00_9e73),
        LabelKind::Interpreted => rgb(0x87_5fff),
        LabelKind::Wait(_) => waiting_hue(kind),
        LabelKind::Task | LabelKind::Cut | LabelKind::Nothing => GREY,
    }
}

/// The colours for waits: blues in which reasons stand out. Waiting for a CPU is purple, since the
/// thread was ready to run.
fn waiting_hue(kind: LabelKind) -> Color {
    match kind {
        LabelKind::Program => rgb(0x9c_c3e6),
        LabelKind::Library => rgb(0xc6_dcf0),
        LabelKind::Kernel => rgb(0x7f_a8d1),
        LabelKind::Jit => rgb(0x8f_d0cf),
        LabelKind::Interpreted => rgb(0xaf_af5f),
        LabelKind::Wait(Reason::Lock | Reason::Gil) => rgb(0x2f_8fcb),
        LabelKind::Wait(Reason::Disk | Reason::Network | Reason::Pipe | Reason::Fault) => rgb(0x56_b4e9),
        LabelKind::Wait(Reason::NoCpu) => rgb(0xcc_79a7),
        LabelKind::Wait(_) => rgb(0xa9_b8e8),
        LabelKind::Task | LabelKind::Cut | LabelKind::Nothing => GREY,
    }
}

/// `color`, made lighter by 0 to 24 % depending on the name (by FNV-1a, so that it never changes). With `turned` the
/// hue shifts a little, too, since boxes of one kind lie next to each other.
fn shaded(color: Color, name: &str, turned: bool) -> Color {
    let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    let percent = (hash >> 32) % 25;
    // At most 255, since the distance to white only shrinks.
    let lighter = |channel: u8| channel + (u64::from(255 - channel) * percent / 100) as u8;
    let turn = if turned { (hash >> 16) % 29 } else { 14 } as i16 - 14;
    let green = (i16::from(lighter(color.g)) + turn).clamp(0, 255) as u8;
    Color { r: lighter(color.r), g: green, b: lighter(color.b) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shades_stay_colours() {
        for name in ["", "a", "main", "operator new(unsigned long)"] {
            let color = shaded(hue(LabelKind::Kernel), name, false);
            assert!(color.r >= 0xd5 && color.g >= 0x5e);
            assert_eq!(color, shaded(hue(LabelKind::Kernel), name, false));
            let turned = shaded(hue(LabelKind::Kernel), name, true);
            assert_eq!((turned.r, turned.b), (color.r, color.b));
            assert!(turned.g.abs_diff(color.g) <= 14);
        }
    }

    #[test]
    fn waits_are_blue() {
        for kind in [LabelKind::Program, LabelKind::Library, LabelKind::Kernel, LabelKind::Wait(Reason::Lock)]
        {
            let color = waiting_hue(kind);
            assert!(color.b > color.r && color.b > color.g, "{kind:?}");
        }
    }
}
