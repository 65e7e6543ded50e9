//! Version of a JVM, as its tables tell it.

use super::tables::{JavaTables, text_at};
use crate::runtimes::memory::TargetMemory;
use std::fmt;

/// Bytes of the text of a release at most.
const LONGEST_RELEASE: u64 = 128;
/// Release of Java whose JVM counts its own versions; later ones count those of Java.
const COUNTS_APART: u32 = 8;

/// Version of a JVM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct JavaVersion {
    /// Release of Java, 17 of 17.0.15; 0 if it is not known.
    pub(crate) major: u32,
    /// All of it, as in `17.0.15+6-Debian-1deb12u1`; empty if it is not known.
    pub(crate) release: String,
}

impl JavaVersion {
    /// Version of the JVM whose tables these are.
    pub(crate) fn of(memory: &impl TargetMemory, tables: &JavaTables) -> Self {
        let variable = |name| tables.address("Abstract_VM_Version", name);
        let counted = variable("_vm_major_version").and_then(|address| memory.u32(address)).unwrap_or(0);
        // Only JDK 8 has a single code heap under this name.
        let is_old = tables.address("CodeCache", "_heap").is_some();
        let release = variable("_s_vm_release").and_then(|address| memory.u64(address));
        let release = release.and_then(|text| text_at(memory, text, LONGEST_RELEASE));
        let major = if is_old { COUNTS_APART } else { counted };
        JavaVersion { major, release: release.unwrap_or_default() }
    }

    /// The language and its release, without what changes nothing for readers: `java 17`.
    pub(crate) fn runtime(&self) -> String {
        match self.major {
            0 => "java".to_owned(),
            major => format!("java {major}"),
        }
    }
}

impl fmt::Display for JavaVersion {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = self.release.split(['+', '-']).next().filter(|release| !release.is_empty());
        match version {
            Some(release) if self.major != COUNTS_APART => formatter.write_str(release),
            _ => write!(formatter, "{}", self.major),
        }
    }
}
