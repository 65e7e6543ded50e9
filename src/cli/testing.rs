//! Options for tests alone. Without the feature `testing`, as the program is released, there are none: what they do (write
//! the stacks of other users' processes to a file) is not for everyone who may run a `prof` that has rights of its own.

use crate::record::RecordOptions;
use clap::Args;

/// What tests ask of a recording.
#[derive(Debug, Args)]
pub(super) struct TestingArgs {
    /// Save a copy of every sample's registers and stack, which another unwinder can walk (`make oracle`)
    #[cfg(feature = "testing")]
    #[arg(long, value_name = "FILE", hide = true)]
    stack_copies: Option<std::path::PathBuf>,
    /// Take the stacks of waits when they begin, as on kernels before 6.15
    #[cfg(feature = "testing")]
    #[arg(long, hide = true)]
    wait_stacks_when_leaving: bool,
}

/// `cargo clippy` without the feature, which `scripts/test.sh` runs, does not compile this if an option is left.
const _: () = assert!(cfg!(feature = "testing") || size_of::<TestingArgs>() == 0);

impl TestingArgs {
    /// `options` with what is asked for.
    #[cfg(feature = "testing")]
    pub(super) fn apply(self, options: RecordOptions) -> RecordOptions {
        use crate::record::{Sampler, WaitStacks};
        let mut options = RecordOptions { stack_copies: self.stack_copies, ..options };
        for sampler in &mut options.events {
            if let (Sampler::Waits(waits), true) = (sampler, self.wait_stacks_when_leaving) {
                waits.stacks = WaitStacks::WhenLeaving;
            }
        }
        options
    }

    /// `options` as they are.
    #[cfg(not(feature = "testing"))]
    pub(super) fn apply(self, options: RecordOptions) -> RecordOptions {
        options
    }
}
