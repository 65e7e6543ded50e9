#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| prof::internals::fuzzing::run("patched_code", data));
