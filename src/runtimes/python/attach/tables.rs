//! Offsets of CPython 3.8 to 3.12, which cannot change any more: the last releases of these versions are out, and the
//! layout of a released version is frozen. Every one of them is checked in the process before it is used.

use crate::runtimes::python::layout::{
    PythonCodeLayout, PythonEntry, PythonFrameLayout, PythonLineTable, PythonLists, PythonObjectLayout,
    PythonOffsets, PythonPosition,
};

/// Offsets of version 3.`minor`; `None` outside 8 to 12.
pub(crate) fn offsets(minor: u8) -> Option<PythonOffsets> {
    Some(match minor {
        8 => with_frame_objects(PythonPosition::Bytes, 104, PythonLineTable::Increments, 1464, 1392, 1368),
        9 => with_frame_objects(PythonPosition::Bytes, 104, PythonLineTable::Increments, 656, 584, 568),
        10 => with_frame_objects(PythonPosition::Instructions, 96, PythonLineTable::Ranges, 672, 584, 568),
        11 => version_11(),
        12 => version_12(),
        _ => return None,
    })
}

/// Layout of objects of a build with a global interpreter lock.
fn objects(ascii_size: u32) -> PythonObjectLayout {
    PythonObjectLayout {
        header: 16,
        ascii_size,
        text_state: 32,
        text_state_shift: 2,
        code_type: 0,
        text_type: 0,
        bytes_type: 0,
    }
}

/// Versions 3.8 to 3.10, where every frame is an object on the heap.
fn with_frame_objects(
    position_kind: PythonPosition,
    position: u32,
    line_table_kind: PythonLineTable,
    runtime_size: u64,
    key: u32,
    current_state: u32,
) -> PythonOffsets {
    PythonOffsets {
        source: "table of offsets",
        runtime_size,
        interpreters: 32,
        key: Some(key),
        current_state: Some(current_state),
        lock: None,
        state_frame: 24,
        c_frame: None,
        previous_c_frame: None,
        frame: PythonFrameLayout {
            size: position + 4,
            code: 32,
            code_mask: u64::MAX,
            previous: 24,
            position,
            position_kind,
            entry: PythonEntry::Every,
        },
        code: PythonCodeLayout {
            file: 104,
            name: 112,
            qualified_name: None,
            first_line: 40,
            line_table: 120,
            line_table_kind,
            instructions: None,
            thread_instructions: None,
        },
        object: objects(48),
        lists: PythonLists {
            interpreters: 0,
            next_interpreter: 0,
            threads: 8,
            next_thread: 8,
            thread_id: 176,
        },
    }
}

fn version_11() -> PythonOffsets {
    PythonOffsets {
        source: "table of offsets",
        runtime_size: 166_688,
        interpreters: 40,
        key: Some(592),
        current_state: Some(576),
        lock: None,
        state_frame: 56,
        c_frame: Some(8),
        previous_c_frame: Some(16),
        frame: PythonFrameLayout {
            size: 72,
            code: 32,
            code_mask: u64::MAX,
            previous: 48,
            position: 56,
            position_kind: PythonPosition::Pointer,
            entry: PythonEntry::Flag { offset: 68 },
        },
        code: PythonCodeLayout {
            file: 112,
            name: 120,
            qualified_name: Some(128),
            first_line: 72,
            line_table: 136,
            line_table_kind: PythonLineTable::Locations,
            instructions: Some(184),
            thread_instructions: None,
        },
        object: objects(48),
        lists: PythonLists {
            interpreters: 0,
            next_interpreter: 0,
            threads: 16,
            next_thread: 8,
            thread_id: 152,
        },
    }
}

fn version_12() -> PythonOffsets {
    PythonOffsets {
        source: "table of offsets",
        runtime_size: 459_944,
        interpreters: 40,
        key: Some(1544),
        current_state: None,
        lock: Some((384, 8, 16)),
        state_frame: 56,
        c_frame: Some(0),
        previous_c_frame: Some(8),
        frame: PythonFrameLayout {
            size: 72,
            code: 0,
            code_mask: u64::MAX,
            previous: 8,
            position: 56,
            position_kind: PythonPosition::Pointer,
            entry: PythonEntry::Shim { offset: 70, least: 3 },
        },
        code: PythonCodeLayout {
            file: 112,
            name: 120,
            qualified_name: Some(128),
            first_line: 68,
            line_table: 136,
            line_table_kind: PythonLineTable::Locations,
            instructions: Some(192),
            thread_instructions: None,
        },
        object: objects(40),
        lists: PythonLists {
            interpreters: 0,
            next_interpreter: 0,
            threads: 72,
            next_thread: 8,
            thread_id: 136,
        },
    }
}
