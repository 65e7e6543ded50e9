//! A Perl interpreter that is made of bytes, and what is read of it.

mod hostile;
mod stacks;
mod synthetic;
