//! What a file keeps of programs themselves, so that it can be annotated on another machine: code bytes of sampled functions, and
//! lines of their sources.

pub(crate) mod function_code;
pub(crate) mod source_text;
