//! What is made of a recording: annotated functions, pictures, comparisons.

mod annotate;
mod compared;
mod svg;
mod windows;
