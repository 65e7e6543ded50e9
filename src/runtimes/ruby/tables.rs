//! Offsets by version. Ruby does not describe itself; within a minor version, no release has changed any of these.

use super::layout::{RubyOffsets, RubyVersion};

/// Versions that are known, as sentences name them.
pub(crate) const KNOWN: &str = "2.7 to 4.0";

/// Offsets of a version; `None` for one that is not known.
pub(crate) fn offsets(version: RubyVersion) -> Option<RubyOffsets> {
    let of_2_7 = RubyOffsets {
        frame_size: 56,
        thread_context: 32,
        context_thread: 56,
        line_table: 120,
        line_entry: 8,
        is_first_line_tagged: true,
        has_length_word: false,
    };
    let of_3_0 = RubyOffsets { thread_context: 40, ..of_2_7 };
    // Frames get the return address of generated code, entries of lines the number of their node.
    let of_3_1 = RubyOffsets { frame_size: 64, context_thread: 48, line_entry: 12, ..of_3_0 };
    let of_3_2 = RubyOffsets {
        thread_context: 48,
        line_table: 112,
        is_first_line_tagged: false,
        has_length_word: true,
        ..of_3_1
    };
    // Frames lose their base pointer.
    let of_3_3 = RubyOffsets { frame_size: 56, ..of_3_2 };
    Some(match (version.major, version.minor) {
        (2, 7) => of_2_7,
        (3, 0) => of_3_0,
        (3, 1) => of_3_1,
        (3, 2) => of_3_2,
        (3, 3 | 4) | (4, 0) => of_3_3,
        _ => return None,
    })
}
