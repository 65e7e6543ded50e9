//! Identities of profiles: the same profile has the same one whenever it is sent, and it leads back to the recording.

use std::fmt::Write as _;

/// The 16 bytes of a UUID of version 8: 48 bits of time in ms since the Unix epoch, as in version 7, then a hash of what the
/// profile is. By the time, the recording is found that it is of.
pub(super) fn uuid(start_unix_ns: u64, labels: &[(String, String)], rows: (usize, usize)) -> [u8; 16] {
    let mut text = String::new();
    for (key, value) in labels {
        let _ = write!(text, "{}:{key}{}:{value}", key.len(), value.len());
    }
    let _ = write!(text, "{start_unix_ns} {rows:?}");
    let hash = blake3::hash(text.as_bytes());
    let mut id = [0; 16];
    id[..6].copy_from_slice(&(start_unix_ns / 1_000_000).to_be_bytes()[2..]);
    id[6..].copy_from_slice(&hash.as_bytes()[..10]);
    id[6] = id[6] & 0x0f | 0x80;
    id[8] = id[8] & 0x3f | 0x80;
    id
}

/// The text of a UUID.
pub(super) fn uuid_text(id: [u8; 16]) -> String {
    let mut text = String::with_capacity(36);
    for (at, byte) in id.iter().enumerate() {
        if [4, 6, 8, 10].contains(&at) {
            text.push('-');
        }
        let _ = write!(text, "{byte:02x}");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_begins_with_the_time_and_is_always_the_same() {
        let labels = [("service_name".to_owned(), "a".to_owned())];
        let at_ns = 1_700_000_000_123_000_000;
        let text = uuid_text(uuid(at_ns, &labels, (0, 5)));
        assert!(text.starts_with("018bcfe5-687b-8"), "{text}");
        assert_eq!((text.len(), uuid_text(uuid(at_ns, &labels, (0, 5)))), (36, text.clone()));
        assert_ne!(text, uuid_text(uuid(at_ns, &labels, (0, 6))));
        assert_ne!(text, uuid_text(uuid(at_ns, &[], (0, 5))));
    }
}
