//! Code of the most sampled functions, for `prof annotate`: which functions are worth it, their bytes and lines, and when they are
//! looked for.

pub(crate) mod find;
pub(crate) mod found;
pub(crate) mod save;
pub(crate) mod weights;
