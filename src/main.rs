//! The `prof` command: parse, dispatch, print one error chain, choose the exit status.

fn main() {}
