//! What a file keeps of programs themselves, so that it can be annotated on another machine: code bytes of sampled functions, and
//! lines of their sources. Data only: what is sampled most and where sources lie is decided in `record`, instructions are
//! decoded in `report`.

pub(crate) mod function_code;
pub(crate) mod source_text;
