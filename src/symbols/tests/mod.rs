//! Names compared with other tools, hostile files, and the memory that naming takes.

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
