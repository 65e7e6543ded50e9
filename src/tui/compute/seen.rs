//! A recording by identity.

use crate::report::Analysis;
use std::sync::Arc;

/// A recording that the screen shows or compares with.
#[derive(Debug, Clone)]
pub(crate) struct Seen(pub(crate) Arc<Analysis>);

/// Compares by identity: a later snapshot is different even if it holds the same samples.
impl PartialEq for Seen {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Seen {}
