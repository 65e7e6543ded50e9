//! From registers and memory to a stack, frame by frame, in user space: what the kernel side does, and what it leaves undone.
//! Tables come in; no file is read here.

pub(crate) mod full_step;
pub(crate) mod leaf_code;
pub(crate) mod memory;
pub(crate) mod module_map;
pub(crate) mod registers;
pub(crate) mod stack;
pub(crate) mod stack_ends;
pub(crate) mod stack_piece;
pub(crate) mod walker;
