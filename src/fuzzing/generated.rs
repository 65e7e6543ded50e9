//! Names of generated code that runtimes of strangers write.

use super::input::{choice, file_of};
use crate::base::deadline::Deadline;
use crate::symbols::{JitDump, NamingLimits, PerfMap};
use std::sync::Arc;

/// Reads any bytes as a perf map: what is found by an address is around it, and no longer than a name may be.
pub(super) fn perf_map(data: &[u8]) {
    let limits = NamingLimits { max_perf_map_entries: 1 << 10, ..NamingLimits::default() };
    let map = PerfMap::parse(data, &limits, &Deadline::default());
    assert!(map.len() <= 2 * limits.max_perf_map_entries, "at most two ranges for each entry");
    for word in data.windows(8).step_by(4).take(64) {
        let address = u64::from_str_radix(std::str::from_utf8(word).unwrap_or_default(), 16);
        let name = map.lookup(address.unwrap_or(0));
        assert!(name.is_none_or(|name| name.len() <= limits.max_name_bytes && !name.contains('\n')));
    }
    assert!(map.bad_lines() <= data.len() as u64);
}

/// Reads any bytes as a jitdump, in pieces as it grows: both ways give the same code.
pub(super) fn jit_dump(data: &[u8]) {
    let (piece, data) = choice(data);
    let limits = NamingLimits { max_perf_map_bytes: 1 << 20, ..NamingLimits::default() };
    let user = rustix::process::geteuid().as_raw();
    let file = Arc::new(file_of(data));
    let mut at_once = JitDump::new(Arc::clone(&file), user).expect("an own file");
    while at_once.read_more(1 << 10, &limits).has_more {}
    let mut in_pieces = JitDump::new(file, user).expect("an own file");
    while in_pieces.read_more(usize::from(piece % 4) + 1, &limits).has_more {}
    let facts =
        |dump: &JitDump| (dump.pid(), dump.len(), dump.bad_records(), dump.is_cut(), dump.known_until_ns());
    assert_eq!(facts(&at_once), facts(&in_pieces));
    let words = data.as_chunks::<8>().0.iter().map(|word| u64::from_le_bytes(*word));
    for (address, time_ns) in words.clone().zip(words.skip(1)).take(64) {
        for end_ns in [time_ns, u64::MAX] {
            let name = at_once.lookup(address, time_ns, end_ns).map(|name| name.name.to_owned());
            assert_eq!(name, in_pieces.lookup(address, time_ns, end_ns).map(|name| name.name.to_owned()));
        }
        if let Some(code) = at_once.code_at(address, 0, 1 << 12) {
            assert!(code.bytes.len() as u64 <= code.size && code.bytes.len() <= 1 << 12);
            code.name_at(0);
            code.name_at(code.size);
        }
    }
}
