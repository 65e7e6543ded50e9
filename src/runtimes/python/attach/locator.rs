//! OperandPlace of the thread state's pointer: taken from the instructions of `PyGILState_GetThisThreadState`, which reads it.
//!
//! That pointer is the one to use: the other one (`_Py_tss_tstate`) is 0 while a thread waits without the lock.

use super::disassembly::{ConstantArgument, FunctionAccesses};
use crate::runtimes::memory::TargetMemory;
use crate::runtimes::python::layout::{PythonLocator, PythonOffsets};

/// Offset from the thread pointer of glibc's first block of key values, on x86-64.
const FIRST_KEY: u32 = 0x310;
/// Number of keys in that block.
const KEYS: u32 = 32;
/// Most bytes of thread-local storage that a library is believed to have.
const MOST_LOCAL: u64 = 1 << 24;

/// Places that the pointer may have by the function's `accesses` and the table: the surest first.
pub(crate) fn candidates(
    memory: &impl TargetMemory,
    accesses: &FunctionAccesses,
    offsets: &PythonOffsets,
    runtime: u64,
) -> Vec<PythonLocator> {
    let mut found: Vec<_> =
        accesses.thread_local.iter().map(|&offset| PythonLocator::Fixed { offset }).collect();
    for argument in &accesses.arguments {
        let is_in_runtime =
            |address: u64| address.checked_sub(runtime).is_some_and(|offset| offset < offsets.runtime_size);
        found.extend(match *argument {
            ConstantArgument { from: Some(from), .. } if is_in_runtime(from) => key(memory, from),
            // The key's number follows the mark of a key that exists.
            ConstantArgument { value, .. } if is_in_runtime(value) => key(memory, value.saturating_add(4)),
            ConstantArgument { value, .. } => dynamic(memory, value),
        });
    }
    if let Some(offset) = offsets.key {
        found.extend(key(memory, runtime.saturating_add(u64::from(offset) + 4)));
    }
    found
}

/// Offset in `_PyRuntime` of the key that the function reads; `None` if it reads none there.
pub(crate) fn key_offset(accesses: &FunctionAccesses, runtime: u64, size: u64) -> Option<u64> {
    accesses.arguments.iter().find_map(|argument| {
        let address = argument
            .from
            .and_then(|from| from.checked_sub(4))
            .filter(|&from| from.checked_sub(runtime).is_some_and(|offset| offset < size));
        let offset = address.unwrap_or(argument.value).checked_sub(runtime)?;
        (offset < size).then_some(offset)
    })
}

/// OperandPlace of the value of the key whose number is at `address`.
fn key(memory: &impl TargetMemory, address: u64) -> Option<PythonLocator> {
    let key = memory.u32(address).filter(|&key| key < KEYS)?;
    // Each value follows the number of the key's generation.
    Some(PythonLocator::Key { key, slot: FIRST_KEY + 16 * key + 8 })
}

/// OperandPlace by the pair of module and offset at `address`, an argument of `__tls_get_addr`.
fn dynamic(memory: &impl TargetMemory, address: u64) -> Option<PythonLocator> {
    let module = memory.u64(address).filter(|module| (1..4096).contains(module))?;
    let offset = memory.u64(address.checked_add(8)?).filter(|&offset| offset < MOST_LOCAL)?;
    Some(PythonLocator::Dynamic { module, offset })
}
