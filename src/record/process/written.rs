//! Data of other processes that is written.

use super::proc_fs;
use std::io;

/// Writes data of a process: memory that it may write itself.
///
/// # Errors
///
/// When the process may not write there, or no memory is there.
pub(in crate::record) fn write_memory(pid: u32, address: u64, bytes: &[u8]) -> io::Result<()> {
    let from = libc::iovec { iov_base: bytes.as_ptr().cast_mut().cast(), iov_len: bytes.len() };
    let to = libc::iovec { iov_base: address as *mut libc::c_void, iov_len: bytes.len() };
    let thread = proc_fs::thread_to_read(pid);
    // SAFETY: reads `bytes` in this process; `to` is an address of the other one, which the kernel checks.
    match unsafe { libc::process_vm_writev(thread.cast_signed(), &from, 1, &to, 1, 0) } {
        -1 => Err(io::Error::last_os_error()),
        written if written.unsigned_abs() == bytes.len() => Ok(()),
        _ => Err(io::ErrorKind::WriteZero.into()),
    }
}
