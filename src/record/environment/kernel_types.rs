//! Names of the running kernel's types: what tells which programs it can run.
//!
//! The layout is that of the kernel's Documentation/bpf/btf.rst.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::Path;

/// Types of the running kernel.
pub(crate) const KERNEL_TYPES: &str = "/sys/kernel/btf/vmlinux";

/// Why there are no types of the kernel to be seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TypesLack {
    /// The kernel has none.
    NotBuilt,
    /// sysfs is not mounted.
    NoSysfs,
    /// Something else is mounted over them, or over a folder above.
    Hidden,
}

impl TypesLack {
    /// Finds what the types of this kernel lack, if they cannot be used.
    pub(crate) fn of_this_kernel() -> Option<Self> {
        let file = Path::new(KERNEL_TYPES);
        if std::fs::metadata(file).is_ok_and(|about| about.is_file() && about.len() > 0) {
            return None;
        }
        let is_sysfs = |path: &Path| rustix::fs::statfs(path).is_ok_and(|about| about.f_type == SYSFS_MAGIC);
        let folder = file.parent().filter(|folder| folder.exists());
        Some(match folder {
            _ if !is_sysfs(Path::new("/sys")) => TypesLack::NoSysfs,
            Some(_) => TypesLack::Hidden,
            None if is_sysfs(Path::new("/sys/kernel")) => TypesLack::NotBuilt,
            None => TypesLack::Hidden,
        })
    }

    /// In words.
    pub(crate) fn why(self) -> String {
        match self {
            TypesLack::NotBuilt => "this kernel has no BTF type information".to_owned(),
            TypesLack::NoSysfs => format!(
                "the kernel's BTF type information is not visible: no sysfs is mounted (`{KERNEL_TYPES}`)"
            ),
            TypesLack::Hidden => format!(
                "the kernel's BTF type information is hidden here: something is mounted over `{KERNEL_TYPES}`"
            ),
        }
    }

    /// Advice on what to do.
    pub(crate) fn cure(self) -> &'static str {
        match self {
            TypesLack::NotBuilt => {
                "use a kernel built with CONFIG_DEBUG_INFO_BTF (Linux 6.1 or newer; every current distribution has it)"
            }
            TypesLack::NoSysfs | TypesLack::Hidden => {
                "start the container with -v /sys/kernel/btf:/sys/kernel/btf:ro, or run prof on the host"
            }
        }
    }
}

/// `SYSFS_MAGIC` of include/uapi/linux/magic.h.
const SYSFS_MAGIC: rustix::fs::FsWord = 0x6265_6572;

/// `BTF_MAGIC`.
const MAGIC: u16 = 0xeb9f;
/// Bytes of `struct btf_header`.
const HEADER_BYTES: usize = 24;
/// More than any kernel's names take, bytes.
const MOST_NAME_BYTES: u32 = 64 << 20;

/// The names of all types and their fields.
#[derive(Debug)]
pub(crate) struct KernelTypeNames {
    /// Each ends with a zero byte; the first is empty.
    names: Vec<u8>,
}

impl KernelTypeNames {
    /// Reads [`KERNEL_TYPES`], of which the names are the smaller part.
    ///
    /// # Errors
    ///
    /// If there is no such file, or it is none of types.
    pub(crate) fn load() -> io::Result<Self> {
        Self::read(File::open(KERNEL_TYPES)?)
    }

    fn read(mut types: impl Read + Seek) -> io::Result<Self> {
        let bad = |what| io::Error::new(io::ErrorKind::InvalidData, what);
        let mut header = [0; HEADER_BYTES];
        types.read_exact(&mut header)?;
        if header[..2] != MAGIC.to_ne_bytes() {
            return Err(bad("no BTF"));
        }
        let word = |at: usize| {
            let bytes = header[at..].first_chunk().copied().unwrap_or_default();
            u32::from_ne_bytes(bytes)
        };
        let (header_bytes, offset, length) = (word(4), word(16), word(20));
        if length > MOST_NAME_BYTES {
            return Err(bad("more names than can be"));
        }
        types.seek(SeekFrom::Start(u64::from(header_bytes) + u64::from(offset)))?;
        let mut names = vec![0; length as usize];
        types.read_exact(&mut names)?;
        Ok(KernelTypeNames { names })
    }

    /// Whether a type or field has this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        let needle = [b"\0", name.as_bytes(), b"\0"].concat();
        memchr::memmem::find(&self.names, &needle).is_some()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Cursor;

    /// A file of types with `names`, after `gap` bytes of types.
    fn file(names: &[u8], gap: u32) -> Vec<u8> {
        let words = [HEADER_BYTES as u32, 0, gap, gap, names.len() as u32];
        let mut bytes = [MAGIC.to_ne_bytes(), [1, 0]].concat();
        bytes.extend(words.iter().flat_map(|word| word.to_ne_bytes()));
        bytes.extend(vec![b'x'; gap as usize]);
        bytes.extend(names);
        bytes
    }

    #[test]
    fn whole_names_are_found() {
        let types = KernelTypeNames::read(Cursor::new(file(b"\0first\0second_one\0", 12))).unwrap();
        assert!(types.has("first") && types.has("second_one"));
        assert!(!types.has("second") && !types.has("one") && !types.has("x"));
    }

    #[test]
    fn what_is_cut_or_no_types_is_refused() {
        let whole = file(b"\0first\0", 12);
        for length in 0..whole.len() {
            assert!(KernelTypeNames::read(Cursor::new(&whole[..length])).is_err(), "{length} bytes");
        }
        assert!(KernelTypeNames::read(Cursor::new(vec![0; 100])).is_err());
        let mut huge = whole.clone();
        huge[20..24].copy_from_slice(&u32::MAX.to_ne_bytes());
        assert!(KernelTypeNames::read(Cursor::new(huge)).is_err());
    }

    #[test]
    fn the_running_kernel_has_tasks() {
        let Ok(types) = KernelTypeNames::load() else {
            println!("skipped: no {KERNEL_TYPES}");
            return;
        };
        assert!(types.has("task_struct") && !types.has("no_type_of_any_kernel"));
    }
}
