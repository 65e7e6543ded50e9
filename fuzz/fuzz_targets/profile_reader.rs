//! Any bytes as a profile: reading must neither panic nor swell, and what was read can be written and read again.
//!
//! The first byte says whether the rest is a whole file or follows a sound header and meta chunk. Under
//! cargo-fuzz the reader does not compare checksums, so that changed bytes get past them.

#![no_main]

use libfuzzer_sys::fuzz_target;
use prof::internals::profile::{Meta, Writer, read};

fuzz_target!(|data: &[u8]| {
    let Some((&first, rest)) = data.split_first() else { return };
    let mut file = Vec::new();
    if first & 1 == 1 {
        let writer = Writer::new(file, &Meta::default()).expect("a vector takes all");
        file = writer.into_inner();
    }
    file.extend(rest);
    let Ok((mut profile, integrity)) = read(file.as_slice()) else { return };
    assert_eq!(integrity.bytes_read + integrity.bytes_skipped, file.len() as u64);

    let mut writer = Writer::new(Vec::new(), &profile.meta).expect("a vector takes all");
    // Text of more than a chunk's size in meta, counters or end can be read in parts but not written.
    if writer.flush(&mut profile, false).is_ok() {
        let (again, _) = read(writer.into_inner().as_slice()).expect("it has a header");
        assert_eq!(again, profile);
    }
});
