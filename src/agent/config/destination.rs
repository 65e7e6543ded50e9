//! A server to which windows are sent, checked: its address, its headers, and how the agent shows who it is.

use super::file::WrittenDestination;
use super::refusal::ConfigRefusal;
use super::settings::{BasicLogin, PushDestination};
use super::values;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::ops::Range;
use std::time::Duration;

/// Most headers of one destination.
const MOST_HEADERS: usize = 20;

/// Headers that the sender writes itself, or that have a key of their own.
const OWN_HEADERS: [&str; 11] = [
    "authorization",
    "connect-protocol-version",
    "connection",
    "content-encoding",
    "content-length",
    "content-type",
    "cookie",
    "host",
    "proxy-authorization",
    "transfer-encoding",
    "x-scope-orgid",
];

impl PushDestination {
    /// Checks what is written in the table at `span`.
    pub(super) fn checked(written: WrittenDestination, span: Range<usize>) -> Result<Self, ConfigRefusal> {
        let refuse = |key, why: String| ConfigRefusal::in_table(span.clone(), key, why);
        let url = Address::of(&written.url).map_err(|why| refuse("url", why))?;
        if written.bearer_file.is_some() && written.basic.is_some() {
            return Err(refuse("bearer_file", "a destination has bearer_file or basic, not both".to_owned()));
        }
        let has_secret = written.bearer_file.is_some() || written.basic.is_some();
        if has_secret && url.is_plain && !url.is_loopback && !written.allow_plain_credentials {
            let why = "a token or password would be sent over plain http: \
                       use https, or set allow_plain_credentials = true on a network that is trusted";
            return Err(refuse("url", why.to_owned()));
        }
        if url.is_plain && written.ca_file.is_some() {
            return Err(refuse("ca_file", "it has no meaning for an address of http".to_owned()));
        }
        let basic = match written.basic {
            Some(login) if !values::is_line(&login.user) || login.user.contains(':') => {
                return Err(refuse(
                    "basic",
                    "the user must be a text without `:` and control characters".to_owned(),
                ));
            }
            basic => basic.map(|login| BasicLogin { user: login.user, password_file: login.password_file }),
        };
        check_headers(&written.headers).map_err(|why| refuse("headers", why))?;
        Ok(PushDestination {
            name: written.name.unwrap_or_else(|| url.authority.to_owned()),
            url: written.url.trim_end_matches('/').to_owned(),
            protocol: written.protocol,
            tenant: written.tenant,
            bearer_file: written.bearer_file,
            basic,
            ca_file: written.ca_file,
            headers: written.headers,
            timeout: written.timeout.unwrap_or(Duration::from_secs(10)),
        })
    }
}

/// What matters of an address of HTTP.
pub(super) struct Address<'u> {
    /// Host and port.
    authority: &'u str,
    /// Whether it is not encrypted.
    pub(super) is_plain: bool,
    /// Whether it is this host.
    pub(super) is_loopback: bool,
}

impl<'u> Address<'u> {
    /// Takes an address apart.
    ///
    /// # Errors
    ///
    /// What is wrong, and what is allowed.
    pub(super) fn of(url: &'u str) -> Result<Self, String> {
        let wrong =
            |why: &str| format!("{why}: it must be like \"https://host:4040\" or \"https://host/path\"");
        let (scheme, rest) =
            url.split_once("://").ok_or_else(|| wrong("this is no address of http or https"))?;
        let is_plain = match scheme {
            "http" => true,
            "https" => false,
            _ => return Err(wrong("this is no address of http or https")),
        };
        if url.len() > 2048
            || !url.bytes().all(|byte| byte.is_ascii_graphic())
            || url.contains(['\\', '"', '<', '>'])
        {
            return Err(wrong("it has characters that no address has"));
        }
        if rest.contains(['?', '#']) {
            return Err(wrong("it has a query or a fragment"));
        }
        let authority = rest.split('/').next().unwrap_or_default();
        if authority.contains('@') {
            return Err(wrong("a user or password in the address is not allowed (see basic)"));
        }
        let (host, port) = match authority.rsplit_once(':') {
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (authority, None),
        };
        if port.is_some_and(|port| !port.parse::<u16>().is_ok_and(|port| port > 0)) {
            return Err(wrong("the port is no number of 1 to 65535"));
        }
        let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
        let is_host = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        let is_one = match bare {
            Some(address) => address.parse::<std::net::Ipv6Addr>().is_ok(),
            None => !host.is_empty() && host.bytes().all(is_host),
        };
        if !is_one {
            return Err(wrong("it has no host"));
        }
        let address = bare.unwrap_or(host).parse::<IpAddr>();
        let is_loopback = host == "localhost" || address.is_ok_and(|address| address.is_loopback());
        Ok(Address { authority, is_plain, is_loopback })
    }
}

fn check_headers(headers: &BTreeMap<String, String>) -> Result<(), String> {
    if headers.len() > MOST_HEADERS {
        return Err(format!("{} headers are too many: at most {MOST_HEADERS} are allowed", headers.len()));
    }
    for (name, value) in headers {
        let is_token = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        if name.is_empty() || name.len() > 128 || !name.bytes().all(is_token) {
            return Err(format!("{name:?} is no name of a header"));
        }
        if OWN_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
            return Err(format!(
                "`{name}` is not allowed here: prof sets it (see bearer_file, basic and tenant)"
            ));
        }
        // Its value may be a secret, and is not shown.
        if !values::is_line(value) || !value.is_ascii() {
            return Err(format!(
                "the value of `{name}` must be 1 to 1,024 characters of ASCII without control characters"
            ));
        }
    }
    Ok(())
}
