//! What the kernel writes: records in rings, and files of /proc. The kernel is believed in nothing that could be checked.

use super::input::{choice, file_of};
use crate::bpf::{
    NewCodeEvent, RescueEvent, Ring, SampleEvent, StackCopyEvent, ThreadTimeEvent, WaitEvent,
    WatchedThreadEvent,
};
use crate::record::{decode_sideband, parse_maps};
use crate::symbols::{KernelSymbols, NamingLimits};
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileExt;

/// Room for data in the ring, bytes.
const RING_BYTES: u32 = 1 << 12;

/// Reads any bytes as what a ring holds, then each record in it, or all of it, as each kind of record.
pub(super) fn rings(data: &[u8]) {
    let (way, data) = choice(data);
    if way & 1 == 0 {
        records(data);
        return;
    }
    let page = rustix::param::page_size() as u64;
    let data = &data[..data.len().min(RING_BYTES as usize)];
    let file = file_of(&[]);
    file.set_len(2 * page + 2 * u64::from(RING_BYTES)).expect("there is memory for a file");
    let produced = data.len() as u64 & !7;
    file.write_all_at(&produced.to_ne_bytes(), page).expect("there is room");
    for copy in [0, u64::from(RING_BYTES)] {
        file.write_all_at(data, 2 * page + copy).expect("there is room");
    }
    let mut ring = Ring::new(OwnedFd::from(file), RING_BYTES).expect("a sound ring");
    let mut bytes = 0;
    let consumed = ring.consume(|payload| {
        bytes += payload.len() as u64;
        records(payload);
    });
    assert!(bytes <= produced, "no byte is read that was not written");
    assert!(consumed.is_err() || consumed.is_ok_and(|consumed| consumed <= produced));
}

fn records(bytes: &[u8]) {
    if let Ok(sample) = SampleEvent::decode(bytes) {
        assert!((sample.kernel.len() + sample.user.len()) * 8 <= bytes.len(), "as many frames as were sent");
    }
    // Wrong lengths are errors.
    let _ = WaitEvent::decode(bytes);
    let _ = NewCodeEvent::decode(bytes);
    let _ = ThreadTimeEvent::decode(bytes);
    if let Ok(rescue) = RescueEvent::decode(bytes) {
        assert!(rescue.stack.len() <= bytes.len());
    }
    if let Ok(copy) = StackCopyEvent::decode(bytes) {
        assert!(copy.stack.len() <= bytes.len());
    }
    assert!(WatchedThreadEvent::decode_all(bytes).len() <= bytes.len());
}

/// Reads any bytes as text of `/proc/PID/maps`, as records of the side-band, and as `/proc/kallsyms`.
pub(super) fn process_files(data: &[u8]) {
    let (kind, data) = choice(data);
    match kind % 4 {
        0 | 1 => {
            for mapping in parse_maps(data) {
                assert!(mapping.start < mapping.end, "a mapping has a size");
            }
        }
        2 => {
            let (misc, data) = choice(data);
            for kind in 0..=20 {
                // Records that mean nothing are none.
                let _ = decode_sideband(kind, u16::from(misc) << 8, data);
            }
        }
        _ => {
            let limits = NamingLimits { max_symbols: 1 << 12, ..NamingLimits::default() };
            let Ok(symbols) = KernelSymbols::parse(data, &limits) else { return };
            for address in [0, 1 << 63, u64::MAX, symbols.stext().unwrap_or(0)] {
                let found = symbols.lookup(address);
                assert!(found.is_none_or(|symbol| symbol.address <= address));
            }
            assert!(symbols.len() <= 1 << 12);
        }
    }
}
