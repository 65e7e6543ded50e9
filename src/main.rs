//! The `prof` command.

fn main() -> std::process::ExitCode {
    prof::main()
}
