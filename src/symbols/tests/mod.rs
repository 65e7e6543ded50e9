//! Names against the tools of others, hostile files, and the memory that names take.

#[cfg(test)]
pub(crate) mod debug_files;
#[cfg(test)]
pub(crate) mod hostile;
#[cfg(test)]
pub(crate) mod llvm;
#[cfg(test)]
pub(crate) mod memory;
#[cfg(test)]
pub(crate) mod oracle;
#[cfg(test)]
pub(crate) mod program;
