//! The `prof` command.

/// musl's allocator takes one lock for all threads, and gives large blocks back to the kernel at once.
#[cfg(target_env = "musl")]
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    prof::main()
}
