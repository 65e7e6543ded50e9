//! Native functions of one interpreter that call others.

/// What is known of the native functions of an interpreter.
pub(super) struct Machinery {
    /// Names of its programs and libraries, without what follows a version.
    pub(super) files: &'static [&'static str],
    /// Beginnings of the names of functions that call others.
    pub(super) prefixes: &'static [&'static str],
    /// Whole names of such functions.
    pub(super) names: &'static [&'static str],
    /// Beginnings of the names of functions that do nothing but call another one.
    pub(super) calls: &'static [&'static str],
}
