//! What a function, a module and its code are called and what they are: short names that can be distinguished, the program's
//! own code, code of runtimes. Text in, text out.

pub(crate) mod code;
pub(crate) mod debug_package;
pub(crate) mod machinery;
pub(crate) mod name;
pub(crate) mod nearest;
pub(crate) mod runtime;
pub(crate) mod shape;
pub(crate) mod short_names;
pub(crate) mod style;
pub(crate) mod thread_class;
