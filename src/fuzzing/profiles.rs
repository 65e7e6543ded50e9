//! Profiles of strangers: reading, writing again, and the views.

use super::input::choice;
use crate::profile::{Meta, Profile, Writer, chunk_of, read};
use crate::report::{Analysis, Metric, Page, ReportOptions, ReportView, render};

/// Frames of one rendered report: hostile files may have stacks of any depth, which only takes time.
const MOST_RENDERED_FRAMES: usize = 2_000;

/// Reads any bytes as a profile. What was read can be written, and is then read as it was.
pub(super) fn profile_reader(data: &[u8]) {
    let Some((profile, _)) = profile_of(data) else { return };
    let mut written = profile.clone();
    let mut writer = Writer::new(Vec::new(), &written.meta).expect("a vector takes all");
    // Text of more than a chunk's size in meta, counters or end can be read in parts but not written.
    if writer.flush(&mut written, false).is_ok() {
        let (again, _) = read(writer.into_inner().as_slice()).expect("it has a header");
        assert_eq!(again, written);
    }
}

/// Shows any bytes as each report. A report may say that there is nothing to show; control characters are never in one.
pub(super) fn reports(data: &[u8]) {
    let (view, data) = choice(data);
    let Some((profile, integrity)) = profile_of(data) else { return };
    if profile.tables.frames().len() > MOST_RENDERED_FRAMES {
        return;
    }
    let recording = Analysis::new(profile, integrity);
    let view_of_rows = match view % 5 {
        0 => ReportView::Flat,
        1 => ReportView::Tree,
        2 => ReportView::BottomUp,
        3 => ReportView::Threads,
        _ => ReportView::Waits,
    };
    let mut options = ReportOptions { view: view_of_rows, ..ReportOptions::default() };
    options.common.metric = match view / 5 % 4 {
        0 => None,
        1 => Some(Metric::ON_CPU),
        2 => Some(Metric::OFF_CPU),
        _ => Some(Metric::WALL),
    };
    if let Ok(text) = render(&recording, &options, &Page::PLAIN) {
        let is_control = |letter: char| letter.is_control() && !matches!(letter, '\n' | '\t');
        assert!(!text.contains(is_control), "a control character in {text:?}");
    }
}

/// The profile in `data`, if there is one. The first byte says how the rest is meant: as a whole file, as what follows a sound
/// header, or as the contents of chunks, each with its kind and a length of two bytes. Such chunks have right checksums
/// and numbers, so that what is in them is reached.
fn profile_of(data: &[u8]) -> Option<(Profile, crate::profile::Integrity)> {
    let (form, mut rest) = choice(data);
    let mut file = Vec::new();
    if form % 3 != 0 {
        let writer = Writer::new(file, &Meta::default()).expect("a vector takes all");
        file = writer.into_inner();
    }
    if form % 3 == 2 {
        // The meta chunk is the first.
        let mut number = 1;
        while let Some(([kind, low, high], after)) = rest.split_first_chunk() {
            let size = usize::from(u16::from_le_bytes([*low, *high])).min(after.len());
            let (payload, next) = after.split_at(size);
            file.extend(chunk_of(*kind, number, payload));
            number = number.wrapping_add(1);
            rest = next;
        }
    } else {
        file.extend(rest);
    }
    let (profile, integrity) = read(file.as_slice()).ok()?;
    assert_eq!(integrity.bytes_read + integrity.bytes_skipped, file.len() as u64);
    Some((profile, integrity))
}
