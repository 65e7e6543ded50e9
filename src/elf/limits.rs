//! Upper bounds on what an ELF file may make its reader read and keep.

/// Limits for reading one ELF file.
///
/// Every one of them is far above what real files need; a file that passes one is refused, or the part is.
#[derive(Debug, Clone)]
pub struct ElfLimits {
    /// Program headers; a file with more is refused.
    pub max_segments: usize,
    /// Section headers; a file with more is refused.
    pub max_sections: usize,
    /// Bytes of one section, as stored and as unpacked; a larger one is refused.
    pub max_section_bytes: u64,
    /// Largest ratio of a compressed section's size to its packed size. Sections that unpack to
    /// less than 1 MiB are exempt. zlib cannot do better than 1,032.
    pub max_inflation: u64,
}

impl Default for ElfLimits {
    fn default() -> Self {
        Self { max_segments: 1024, max_sections: 65_536, max_section_bytes: 8 << 30, max_inflation: 64 }
    }
}
