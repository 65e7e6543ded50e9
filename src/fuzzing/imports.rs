//! Files of other profilers.

use super::input::{choice, file_of};
use crate::import::{FirstElement, FoldedUnit, ImportFormat, ImportOptions, ImportSource, import};
use crate::profile::read;
use std::io::Cursor;

/// Imports any bytes, as the format that is recognised or as one that the user names. What comes out is a whole profile.
pub(super) fn imports(data: &[u8]) {
    let (choices, data) = choice(data);
    let format = ImportFormat::ALL.get(usize::from(choices % 8)).copied();
    let options = ImportOptions {
        unit: [
            FoldedUnit::Samples,
            FoldedUnit::Time { unit_ns: 1_000 },
            FoldedUnit::Bytes,
            FoldedUnit::Time { unit_ns: u64::MAX },
        ][usize::from(choices >> 3 & 3)],
        first: if choices & 32 == 0 { FirstElement::Thread } else { FirstElement::Function },
    };
    let source = if choices & 64 == 0 {
        ImportSource::of_stream(Cursor::new(data.to_vec()))
    } else {
        ImportSource::of_file(file_of(data), "fuzzed".to_owned()).expect("a descriptor can be copied")
    };
    let mut profile = Vec::new();
    if import(source, format, &options, &mut profile, &mut |_| Vec::new()).is_ok() {
        let (_, integrity) = read(profile.as_slice()).expect("an import is a profile");
        assert_eq!(integrity.bytes_skipped, 0, "an import is a sound profile");
    }
}
