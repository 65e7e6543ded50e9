//! The checks that numbers of a file pass before they are used.

use crate::profile::file::bounds::MAX_ROWS;
use crate::profile::file::rows::coding::CodedColumn;
use prost::Message;

/// Why a chunk cannot be used, in words.
#[derive(Debug)]
pub(in crate::profile::file) struct Damage(pub(in crate::profile::file) String);

impl From<String> for Damage {
    fn from(reason: String) -> Self {
        Damage(reason)
    }
}

/// Shorthand for the checks below.
pub(super) fn check(is_sound: bool, reason: impl FnOnce() -> String) -> Result<(), Damage> {
    if is_sound { Ok(()) } else { Err(Damage(reason())) }
}

/// The value of `id` when it is below `rows`.
pub(super) fn below(id: u32, rows: usize, what: &str) -> Result<u32, Damage> {
    check((id as usize) < rows, || format!("{what} {id} is not there (there are {rows})"))?;
    Ok(id)
}

pub(super) fn column<'a, T: Copy>(
    values: &'a [T],
    rows: usize,
    default: T,
    what: &str,
) -> Result<CodedColumn<'a, T>, Damage> {
    CodedColumn::new(values, rows, default)
        .ok_or_else(|| Damage(format!("its column `{what}` has {} values for {rows} rows", values.len())))
}

/// A small number that is stored in a wider field.
pub(super) fn narrow<T: TryFrom<u32>>(value: u32, what: &str) -> Result<T, Damage> {
    T::try_from(value).map_err(|_| Damage(format!("{what} {value} is out of range")))
}

/// The number of rows of a chunk that says so itself.
pub(super) fn row_count(rows: u32) -> Result<usize, Damage> {
    check(rows as usize <= MAX_ROWS, || format!("it claims {rows} rows"))?;
    Ok(rows as usize)
}

pub(super) fn decode<M: Message + Default>(payload: &[u8]) -> Result<M, Damage> {
    M::decode(payload).map_err(|error| Damage(error.to_string()))
}
