//! How much of anything a file may hold.

/// Most rows (samples, stacks, strings, …) of one chunk.
pub(crate) const MAX_ROWS: usize = 1 << 16;

/// Most rows of a table: ids are below this.
pub(crate) const MAX_ID: u32 = 1 << 31;

/// Most frames of one stack.
pub(crate) const MAX_STACK_DEPTH: u16 = 1 << 12;

/// Longest string, in bytes. The writer cuts longer ones.
pub(crate) const MAX_STRING: usize = 1 << 20;

/// Most locations of one frame. The writer keeps the outermost ones.
pub(crate) const MAX_LOCATIONS: usize = 1 << 9;

/// Most labels of one sample. The writer keeps the first ones.
pub(crate) const MAX_LABELS: usize = 1 << 6;

/// A reader refuses a file of a later major version.
pub(crate) const MAJOR: u16 = 1;

/// The part of `text` that can be stored.
pub(super) fn cut(text: &str) -> &str {
    let mut end = text.len().min(MAX_STRING);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}
