//! FNV-1a: a hash of a name that is the same in every run and at compile time. Not for what others may choose to collide.

/// The hash of `text`, 64 bits.
pub(crate) const fn fnv1a(text: &str) -> u64 {
    let bytes = text.as_bytes();
    let mut hash = 0xcbf2_9ce4_8422_2325;
    let mut at = 0;
    while at < bytes.len() {
        hash = (hash ^ bytes[at] as u64).wrapping_mul(0x0100_0000_01b3);
        at += 1;
    }
    hash
}

#[cfg(test)]
mod tests {
    use super::fnv1a;

    #[test]
    fn it_is_the_hash_of_its_authors() {
        // From their list of test vectors.
        assert_eq!((fnv1a(""), fnv1a("a")), (0xcbf2_9ce4_8422_2325, 0xaf63_dc4c_8601_ec8c));
        assert_eq!(fnv1a("foobar"), 0x8594_4171_f739_67e8);
    }
}
