//! Where an interpreter keeps what it has of a thread: as `runtime_state` of the kernel side finds it.

use crate::bpf::{number, prof_runtime};
use crate::runtimes::TargetMemory;

/// What the interpreter keeps of a thread; `None` if there is none. `pointer` gives the thread pointer, where that is asked for;
/// `is_first` is whether the thread is the first of its process.
pub(super) fn state(
    memory: &dyn TargetMemory,
    runtime: &prof_runtime,
    is_first: bool,
    pointer: impl FnOnce() -> Option<u64>,
) -> Option<u64> {
    let word = |place: u64| (&memory).u64(place);
    let place = match u64::from(runtime.locator) {
        number::PROF_LOCATOR_PROCESS if is_first => runtime.locator_off.cast_unsigned(),
        number::PROF_LOCATOR_THREAD => pointer()?.checked_add_signed(runtime.locator_off)?,
        number::PROF_LOCATOR_MODULE => {
            let vector = word(pointer()?.checked_add(8)?)?;
            let module = u64::from(runtime.locator_module).checked_mul(16)?;
            word(vector.checked_add(module)?)?.checked_add_signed(runtime.locator_off)?
        }
        _ => return None,
    };
    word(place).filter(|&state| state != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Words at addresses of 8 bytes each: an address and what is there.
    struct Words(&'static [(u64, u64)]);

    impl TargetMemory for Words {
        fn read(&self, address: u64, bytes: &mut [u8]) -> bool {
            let found = self.0.iter().find(|(place, _)| *place == address).filter(|_| bytes.len() == 8);
            found.map(|(_, word)| bytes.copy_from_slice(&word.to_ne_bytes())).is_some()
        }
    }

    fn runtime(locator: u64, locator_off: i64, locator_module: u32) -> prof_runtime {
        prof_runtime { locator: locator as u8, locator_off, locator_module, ..prof_runtime::default() }
    }

    #[test]
    fn a_state_is_found_by_process_by_thread_and_by_module() {
        const POINTER: u64 = 0x7000;
        let memory = Words(&[
            (0x500, 1),
            (POINTER - 16, 2),
            (POINTER + 8, 0x900),
            (0x930, 0xa00),
            (0xa40, 3),
            (0x508, 0),
        ]);
        let of = |runtime, is_first| state(&memory, &runtime, is_first, || Some(POINTER));
        assert_eq!(of(runtime(number::PROF_LOCATOR_PROCESS, 0x500, 0), true), Some(1));
        assert_eq!(
            of(runtime(number::PROF_LOCATOR_PROCESS, 0x500, 0), false),
            None,
            "it is the first thread's"
        );
        assert_eq!(of(runtime(number::PROF_LOCATOR_PROCESS, 0x508, 0), true), None, "nothing runs");
        assert_eq!(of(runtime(number::PROF_LOCATOR_THREAD, -16, 0), false), Some(2));
        assert_eq!(of(runtime(number::PROF_LOCATOR_MODULE, 0x40, 3), false), Some(3));
        assert_eq!(of(runtime(number::PROF_LOCATOR_MODULE, 0x40, 4), false), None);
        let unknown = runtime(number::PROF_LOCATOR_THREAD, -16, 0);
        assert_eq!(state(&memory, &unknown, true, || None), None);
    }
}
