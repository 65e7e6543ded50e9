//! Where debug information is looked for: options of the verbs that read it.

use clap::Args;
use std::path::PathBuf;

/// Options that say where debug information is looked for.
#[derive(Debug, Args)]
#[command(next_help_heading = "Debug information")]
pub(super) struct DebugSourceArgs {
    /// Look for debug files in this folder, too: by build ID, or by their names; may be given several times
    #[arg(long = "debug-dir", value_name = "DIR")]
    pub(super) folders: Vec<PathBuf>,
    /// Ask the servers of DEBUGINFOD_URLS for debug information that is not on this machine
    #[arg(long)]
    pub(super) debuginfod: bool,
}
