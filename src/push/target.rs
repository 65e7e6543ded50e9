//! Where recordings are sent, and what the server wants to know first. Secrets come from files only, and are in no message.

use crate::base::failure::{Failure, io_words, status};
use crate::base::privilege;
use std::fmt;
use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Longest time for one request, unless another is asked for. Pyroscope answers once the profiles are stored, after 0.5 s.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(10);
/// Largest file of a secret, bytes.
const LARGEST_SECRET: u64 = 64 << 10;
/// Largest file of authorities, bytes: a hundred times what distributions have.
const LARGEST_AUTHORITIES: u64 = 32 << 20;
/// Headers that hold secrets, or that are `prof`'s own.
const OWN_HEADERS: [&str; 9] = [
    "authorization",
    "proxy-authorization",
    "cookie",
    "host",
    "content-type",
    "content-length",
    "content-encoding",
    "transfer-encoding",
    "connect-protocol-version",
];

/// Language of a server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum PushProtocol {
    /// Pyroscope's push.v1.
    Pyroscope,
    /// OTLP profiles, `v1development`.
    Otlp,
}

impl PushProtocol {
    /// The word for it, before the `+` of a URL.
    pub(crate) fn word(self) -> &'static str {
        match self {
            PushProtocol::Pyroscope => "pyroscope",
            PushProtocol::Otlp => "otlp",
        }
    }

    /// Path of the URL to which profiles are sent.
    fn path(self) -> &'static str {
        match self {
            PushProtocol::Pyroscope => "/push.v1.PusherService/Push",
            PushProtocol::Otlp => "/v1development/profiles",
        }
    }
}

/// A server: its language and its URL, `pyroscope+http://host:4040`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PushUrl {
    pub(crate) protocol: PushProtocol,
    /// The URL without the protocol, without a slash at its end.
    base: String,
}

impl PushUrl {
    /// Reads the text of one.
    ///
    /// # Errors
    ///
    /// Why it is none.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        const FORM: &str = "write pyroscope+http://HOST:4040 or otlp+https://HOST:4318";
        let form = || FORM.to_owned();
        let (word, base) = text.split_once('+').ok_or_else(form)?;
        let protocols = [PushProtocol::Pyroscope, PushProtocol::Otlp];
        let protocol = protocols.into_iter().find(|protocol| protocol.word() == word).ok_or_else(form)?;
        let rest = base.strip_prefix("http://").or_else(|| base.strip_prefix("https://")).ok_or_else(form)?;
        let host = rest.split('/').next().unwrap_or_default();
        if host.contains('@') {
            return Err("passwords are not written into URLs: --basic-auth-file FILE".to_owned());
        }
        let is_bad = |c: char| c.is_whitespace() || c.is_control() || "?#\\\"<>".contains(c);
        if host.is_empty() || host.starts_with(':') || rest.chars().any(is_bad) {
            return Err(form());
        }
        Ok(PushUrl { protocol, base: base.trim_end_matches('/').to_owned() })
    }

    /// The URL alone.
    #[cfg_attr(not(feature = "push"), allow(dead_code))]
    pub(super) fn base(&self) -> &str {
        &self.base
    }

    /// The URL to which profiles are sent.
    pub(super) fn endpoint(&self) -> String {
        let path = self.protocol.path();
        if self.base.ends_with(path) { self.base.clone() } else { format!("{}{path}", self.base) }
    }

    /// Whether anyone on the way can read what is sent: it is not encrypted, and leaves this machine.
    fn is_open(&self) -> bool {
        let Some(rest) = self.base.strip_prefix("http://") else { return false };
        let host = rest.split('/').next().unwrap_or_default();
        let is_local = |name: &str| host == name || host.starts_with(&format!("{name}:"));
        !["localhost", "127.0.0.1", "[::1]"].into_iter().any(is_local)
    }
}

impl fmt::Display for PushUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.base)
    }
}

/// A server, and how to speak with it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct PushTarget {
    pub(crate) url: PushUrl,
    /// Tenant (`X-Scope-OrgID`).
    pub(crate) tenant: Option<String>,
    /// File with a token.
    pub(crate) bearer_file: Option<PathBuf>,
    /// User of the password in `basic_file`; `None`: the file has both, `USER:PASSWORD`.
    pub(crate) basic_user: Option<String>,
    /// File with a password.
    pub(crate) basic_file: Option<PathBuf>,
    /// File with the certificates of the authorities that are trusted; `None` for those of the machine.
    pub(crate) ca_file: Option<PathBuf>,
    /// Other headers as (name, value).
    pub(crate) headers: Vec<(String, String)>,
    /// Longest time for one request.
    pub(crate) timeout: Duration,
}

impl PushTarget {
    /// A server that wants to know nothing.
    pub(crate) fn new(url: PushUrl) -> Self {
        PushTarget {
            url,
            tenant: None,
            bearer_file: None,
            basic_user: None,
            basic_file: None,
            ca_file: None,
            headers: Vec::new(),
            timeout: DEFAULT_TIMEOUT,
        }
    }

    /// Checks what can be checked without the server.
    ///
    /// # Errors
    ///
    /// A usage failure.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        if self.bearer_file.is_some() && self.basic_file.is_some() {
            return Err(Failure::usage("a server takes a token or a password, not both"));
        }
        let tenant = self.tenant.iter().map(|tenant| ("X-Scope-OrgID", tenant.as_str()));
        let headers = self.headers.iter().map(|(name, value)| (name.as_str(), value.as_str()));
        for (name, value) in tenant.chain(headers) {
            check_header(name, value)?;
        }
        Ok(())
    }

    /// Says that secrets can be read on the way, if they can.
    pub(crate) fn warning(&self) -> Option<String> {
        let has_secret = self.bearer_file.is_some() || self.basic_file.is_some();
        (has_secret && self.url.is_open())
            .then(|| format!("{} is not encrypted: the token or password can be read on the way", self.url))
    }
}

/// Checks a header that the user has given.
fn check_header(name: &str, value: &str) -> Result<(), Failure> {
    let is_token = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if name.is_empty() || !name.chars().all(is_token) {
        return Err(Failure::usage(format!("`{name}` cannot be the name of a header")));
    }
    if OWN_HEADERS.contains(&name.to_ascii_lowercase().as_str()) {
        return Err(Failure::usage(format!("the header `{name}` cannot be set"))
            .hint("secrets come from files:  --bearer-file FILE, --basic-auth-file FILE"));
    }
    match value.chars().all(|c| c == ' ' || c.is_ascii_graphic()) && !value.is_empty() {
        true => Ok(()),
        false => Err(Failure::usage(format!("the value of `{name}` is empty or no plain text"))),
    }
}

/// What the files of a target hold. It is shown nowhere.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) struct PushSecrets {
    /// Value of the header `Authorization`.
    pub(super) authorization: Option<String>,
    /// Certificates of authorities, in PEM.
    pub(super) authorities: Option<Vec<u8>>,
}

impl fmt::Debug for PushSecrets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PushSecrets").finish_non_exhaustive()
    }
}

impl PushSecrets {
    /// Reads the files with the user's own rights.
    ///
    /// # Errors
    ///
    /// When one cannot be read, or does not hold what it should.
    pub(crate) fn read(target: &PushTarget) -> Result<Self, Failure> {
        privilege::as_user(|| {
            let bearer = target.bearer_file.as_deref().map(read_secret).transpose()?;
            let basic = target.basic_file.as_deref().map(|path| basic(path, target.basic_user.as_deref()));
            let authorities =
                target.ca_file.as_deref().map(|path| read_file(path, LARGEST_AUTHORITIES)).transpose()?;
            let authorization = match bearer {
                Some(token) => Some(format!("Bearer {token}")),
                None => basic.transpose()?,
            };
            Ok(PushSecrets { authorization, authorities })
        })
    }
}

/// The header of a user with a password.
#[cfg(feature = "push")]
fn basic(path: &Path, user: Option<&str>) -> Result<String, Failure> {
    use base64::prelude::{BASE64_STANDARD, Engine};
    let secret = read_secret(path)?;
    let both = match user {
        Some(user) => format!("{user}:{secret}"),
        None if secret.contains(':') => secret,
        None => {
            let message = format!("`{}` has no user: its line is not USER:PASSWORD", path.display());
            return Err(Failure::new(status::FAILED, message));
        }
    };
    Ok(format!("Basic {}", BASE64_STANDARD.encode(both)))
}

#[cfg(not(feature = "push"))]
fn basic(path: &Path, _: Option<&str>) -> Result<String, Failure> {
    read_secret(path)
}

/// The only line of a file.
fn read_secret(path: &Path) -> Result<String, Failure> {
    let bytes = read_file(path, LARGEST_SECRET)?;
    let refuse = |why: &str| Failure::new(status::FAILED, format!("`{}` {why}", path.display()));
    let text = String::from_utf8(bytes).map_err(|_| refuse("is no text"))?;
    let text = text.trim();
    if text.is_empty() || !text.chars().all(|c| !c.is_control()) {
        return Err(refuse("must hold one line, which is not empty"));
    }
    Ok(text.to_owned())
}

fn read_file(path: &Path, largest: u64) -> Result<Vec<u8>, Failure> {
    let cannot =
        |why: String| Failure::new(status::FAILED, format!("cannot read `{}`: {why}", path.display()));
    let mut bytes = Vec::new();
    let file = File::open(path).map_err(|error| cannot(io_words(&error)))?;
    file.take(largest + 1).read_to_end(&mut bytes).map_err(|error| cannot(io_words(&error)))?;
    match bytes.len() as u64 > largest {
        true => Err(cannot("it is too large".to_owned())),
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_url_has_a_protocol_and_no_password() {
        let endpoint = |text: &str| PushUrl::parse(text).map(|url| url.endpoint());
        assert_eq!(
            endpoint("pyroscope+http://h:4040/").as_deref(),
            Ok("http://h:4040/push.v1.PusherService/Push")
        );
        assert_eq!(endpoint("otlp+https://h/a").as_deref(), Ok("https://h/a/v1development/profiles"));
        let whole = "https://h/v1development/profiles";
        assert_eq!(endpoint(&format!("otlp+{whole}")).as_deref(), Ok(whole));
        for wrong in
            ["http://h", "pyroscope+ftp://h", "otlp+http://", "otlp+http://:1", "otlp+http://h/?a", ""]
        {
            assert!(endpoint(wrong).is_err(), "{wrong}");
        }
        assert!(endpoint("otlp+http://me:secret@h").is_err_and(|why| !why.contains("secret")));
    }

    #[test]
    fn secrets_come_from_files_and_are_not_shown() {
        let folder = tempfile::tempdir().unwrap();
        let file = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).unwrap();
            Some(path)
        };
        let url = PushUrl::parse("otlp+http://h").unwrap();
        let target = PushTarget { bearer_file: file("t", " abc\n"), ..PushTarget::new(url.clone()) };
        let secrets = PushSecrets::read(&target).unwrap();
        assert_eq!(secrets.authorization.as_deref(), Some("Bearer abc"));
        assert!(!format!("{secrets:?}").contains("abc"));
        assert!(target.warning().is_some_and(|text| text.contains("not encrypted")));
        let basic = PushTarget { basic_file: file("b", "u:p"), ..PushTarget::new(url.clone()) };
        assert_eq!(PushSecrets::read(&basic).unwrap().authorization.as_deref(), Some("Basic dTpw"));
        let split = PushTarget {
            basic_file: file("p", "p"),
            basic_user: Some("u".to_owned()),
            ..PushTarget::new(url.clone())
        };
        assert_eq!(PushSecrets::read(&split).unwrap().authorization.as_deref(), Some("Basic dTpw"));
        for (name, text) in [("e", "\n"), ("two", "a\nb"), ("none", "p")] {
            let target = PushTarget { basic_file: file(name, text), ..PushTarget::new(url.clone()) };
            let failure = PushSecrets::read(&target).unwrap_err();
            assert!(!failure.message.contains('\n'), "{failure}");
        }
    }

    #[test]
    fn headers_that_are_not_the_users_are_refused() {
        let url = PushUrl::parse("otlp+http://h").unwrap();
        let check = |name: &str, value: &str| {
            let headers = vec![(name.to_owned(), value.to_owned())];
            PushTarget { headers, ..PushTarget::new(url.clone()) }.check()
        };
        assert!(check("X-Cluster", "a b").is_ok());
        for (name, value) in [("Authorization", "x"), ("a b", "x"), ("a", "x\r\nb: c"), ("", "x"), ("a", "")]
        {
            assert!(check(name, value).is_err(), "{name}");
        }
    }
}
