//! Variables of a process's environment, and the attributes that OpenTelemetry has in one of them.

/// Most bytes of an environment that are read. Variables after these are not seen.
pub(crate) const MOST_BYTES: usize = 256 << 10;

/// Most attributes of `OTEL_RESOURCE_ATTRIBUTES`.
const MOST_ATTRIBUTES: usize = 128;

/// The first variable of this name, as getenv(3) has it. A process may have overwritten its environment with anything.
pub(crate) fn variable<'e>(environment: &'e [u8], name: &str) -> Option<&'e [u8]> {
    environment
        .split(|byte| *byte == 0)
        .find_map(|entry| entry.strip_prefix(name.as_bytes())?.strip_prefix(b"="))
}

/// `OTEL_RESOURCE_ATTRIBUTES` is not what its specification says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct MalformedAttributes;

/// The attributes of a value of `OTEL_RESOURCE_ATTRIBUTES`: `key=value,key=value`, percent-encoded.
///
/// # Errors
///
/// As the specification wants it, one mistake makes all of it void: a member without `=` or key, an escape that is none, bytes
/// that are not UTF-8.
pub(crate) fn resource_attributes(value: &[u8]) -> Result<Vec<(String, String)>, MalformedAttributes> {
    let members =
        value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii).filter(|member| !member.is_empty());
    members.take(MOST_ATTRIBUTES).map(attribute).collect()
}

fn attribute(member: &[u8]) -> Result<(String, String), MalformedAttributes> {
    // Programs write further `=` of a value as they are, and SDKs take them.
    let at = member.iter().position(|byte| *byte == b'=').ok_or(MalformedAttributes)?;
    let key = decoded(member[..at].trim_ascii())?;
    if key.is_empty() {
        return Err(MalformedAttributes);
    }
    Ok((key, decoded(member[at + 1..].trim_ascii())?))
}

/// Text without percent-encoding. A plus sign is a plus sign.
fn decoded(text: &[u8]) -> Result<String, MalformedAttributes> {
    let digit = |byte: u8| char::from(byte).to_digit(16);
    let mut out = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&byte, after)) = rest.split_first() {
        if byte != b'%' {
            out.push(byte);
            rest = after;
            continue;
        }
        let [high, low, after @ ..] = after else { return Err(MalformedAttributes) };
        let code = digit(*high).zip(digit(*low)).map(|(high, low)| high * 16 + low);
        out.push(code.and_then(|code| u8::try_from(code).ok()).ok_or(MalformedAttributes)?);
        rest = after;
    }
    String::from_utf8(out).map_err(|_| MalformedAttributes)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_first_variable_of_a_name_counts() {
        let environment = b"PATH=/bin\0A=1\0AB=2\0A=3\0=x\0B";
        assert_eq!(variable(environment, "A"), Some(b"1".as_slice()));
        assert_eq!(variable(environment, "AB"), Some(b"2".as_slice()));
        assert_eq!(variable(environment, "B"), None);
        assert_eq!(variable(b"nginx: worker process", "A"), None);
    }

    #[test]
    fn attributes_are_decoded_as_the_specification_says() {
        let pairs = |text: &str| {
            resource_attributes(text.as_bytes()).map(|pairs| {
                pairs.iter().map(|(key, value)| format!("{key}|{value}")).collect::<Vec<_>>().join(" ")
            })
        };
        assert_eq!(pairs("service.name=shop,a=b"), Ok("service.name|shop a|b".to_owned()));
        assert_eq!(pairs(" service.name = my%20shop%2C%3d+1 ,, "), Ok("service.name|my shop,=+1".to_owned()));
        assert_eq!(pairs("a=b=c"), Ok("a|b=c".to_owned()));
        assert_eq!(pairs("a=%C3%A9"), Ok("a|é".to_owned()));
        assert_eq!(pairs("a="), Ok("a|".to_owned()));
        assert_eq!(pairs(""), Ok(String::new()));
        for wrong in ["a", "=b", "a=%", "a=%4", "a=%zz", "a=%ff", "service.name=shop,b"] {
            assert_eq!(pairs(wrong), Err(MalformedAttributes), "{wrong}");
        }
    }

    proptest! {
        #[test]
        fn what_is_encoded_comes_back(value in any::<String>()) {
            let encoded: String = value.bytes().map(|byte| format!("%{byte:02X}")).collect();
            let pairs = resource_attributes(format!("k={encoded}").as_bytes());
            prop_assert_eq!(pairs, Ok(vec![("k".to_owned(), value)]));
        }

        #[test]
        fn any_bytes_are_taken(bytes in proptest::collection::vec(any::<u8>(), 0..300)) {
            let pairs = resource_attributes(&bytes).unwrap_or_default();
            prop_assert!(pairs.len() <= MOST_ATTRIBUTES);
        }
    }
}
