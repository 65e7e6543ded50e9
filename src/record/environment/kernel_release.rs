//! Which release the running kernel is made of.

use std::fmt;

/// A release of the kernel: `6.1.25`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct KernelRelease {
    major: u32,
    minor: u32,
    patch: u32,
}

impl KernelRelease {
    /// That of these numbers.
    pub(crate) const fn new(major: u32, minor: u32, patch: u32) -> Self {
        KernelRelease { major, minor, patch }
    }

    /// The first release of the same version.
    pub(crate) fn version(self) -> Self {
        KernelRelease { patch: 0, ..self }
    }

    /// `6.1.25` of `6.1.25-1`, `6.1` of `6.1` and `6.1.0-8-amd64`.
    pub(crate) fn in_text(text: &str) -> Option<Self> {
        let end = text.find(|c: char| c != '.' && !c.is_ascii_digit()).unwrap_or(text.len());
        let mut numbers = text[..end].split('.').map(str::parse);
        let (major, minor) = (numbers.next()?.ok()?, numbers.next()?.ok()?);
        Some(KernelRelease { major, minor, patch: numbers.next().and_then(Result::ok).unwrap_or(0) })
    }

    /// The release of the running kernel; `None` where its distribution does not name it.
    pub(crate) fn of_this_kernel() -> Option<Self> {
        #[cfg(feature = "testing")]
        if let Ok(pretended) = std::env::var("PROF_TEST_KERNEL") {
            return Self::of_words(&pretended, "", "");
        }
        let names = rustix::system::uname();
        let signature = std::fs::read_to_string("/proc/version_signature").unwrap_or_default();
        Self::of_words(&names.release().to_string_lossy(), &names.version().to_string_lossy(), &signature)
    }

    /// The release by what the kernel says of itself. Distributions keep the last number at 0, for the sake of programs: Debian
    /// names the release in the version (`#1 SMP PREEMPT_DYNAMIC Debian 6.1.25-1 (2023-04-22)`), Ubuntu in a file of its own
    /// (`Ubuntu 6.2.0-20.20-generic 6.2.6`).
    fn of_words(release: &str, version: &str, signature: &str) -> Option<Self> {
        let debian = version.split_once("Debian ").and_then(|(_, release)| Self::in_text(release));
        let ubuntu = signature.split_whitespace().nth(2).and_then(Self::in_text);
        let is_named = |of: &Self| of.patch > 0 || !release.contains('-');
        debian.or(ubuntu).or_else(|| Self::in_text(release).filter(is_named))
    }
}

impl fmt::Display for KernelRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let KernelRelease { major, minor, patch } = self;
        match patch {
            0 => write!(f, "{major}.{minor}"),
            _ => write!(f, "{major}.{minor}.{patch}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn release(major: u32, minor: u32, patch: u32) -> KernelRelease {
        KernelRelease::new(major, minor, patch)
    }

    /// What kernels of distributions say, and of which release they are.
    #[test]
    fn releases_are_read_where_distributions_name_them() {
        let debian = "#1 SMP PREEMPT_DYNAMIC Debian 6.1.25-1 (2023-04-22)";
        let ubuntu = "Ubuntu 6.2.0-20.20-generic 6.2.6\n";
        let cases = [
            (("6.1.0-8-amd64", debian, ""), Some(release(6, 1, 25))),
            (("6.2.0-20-generic", "#20-Ubuntu SMP", ubuntu), Some(release(6, 2, 6))),
            (("6.2.0-20-generic", "#20-Ubuntu SMP", ""), None),
            (("6.17.4-200.fc42.x86_64", "#1 SMP", ""), Some(release(6, 17, 4))),
            (("6.1.25-37.47.amzn2023.x86_64", "#1 SMP", ""), Some(release(6, 1, 25))),
            (("6.4.0", "#1", ""), Some(release(6, 4, 0))),
            (("6.18.44", "#1", ""), Some(release(6, 18, 44))),
            (("5.14.0-427.el9.x86_64", "#1 SMP", ""), None),
            (("", "Debian ", " "), None),
            (("6", "Debian x", "a b 99999999999.1"), None),
        ];
        for ((text, version, signature), expected) in cases {
            assert_eq!(KernelRelease::of_words(text, version, signature), expected, "{text}");
        }
    }
}
