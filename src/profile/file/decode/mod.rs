//! From the payload of a chunk to rows of a profile. The file is a stranger's: no number is used before it was checked, and
//! memory is paid for before it is taken. Nothing here reads the file: that is [`super::reader`].

mod budget;
mod checks;
mod decoder;
mod sample_columns;
pub(super) mod wire;

pub(super) use checks::Damage;
pub(super) use decoder::Decoder;
