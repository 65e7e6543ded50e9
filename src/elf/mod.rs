//! ELF files, read by position and never mapped: a file that another user can write may shrink or change at any time, so
//! every read may fail, and every number is checked before it is used. [`file::ElfFile`] is the header and the sections of
//! an ELF file; [`image::ElfImage`] adds what the kernel and the dynamic linker see of a running one. Nothing here knows
//! of call frames, names or processes.

pub(crate) mod dynamic;
pub(crate) mod error;
pub(crate) mod exported;
pub(crate) mod fields;
pub(crate) mod file;
pub(crate) mod header;
pub(crate) mod image;
pub(crate) mod limits;
pub(crate) mod machine;
pub(crate) mod notes;
pub(crate) mod section;
pub(crate) mod segment;
pub(crate) mod source;

pub use error::ElfError;
pub(crate) use file::ElfFile;
pub use image::ElfImage;
pub(crate) use image::{ElfHeaders, ElfType};
pub use limits::ElfLimits;
pub use machine::Architecture;
pub use section::Section;
pub(crate) use segment::Segment;
