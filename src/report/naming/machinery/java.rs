//! A Java machine: functions by which it calls Java.

use super::functions::Machinery;

/// Functions of these files.
pub(super) const MACHINERY: Machinery = Machinery {
    files: &["libjvm", "libjli"],
    prefixes: &[
        "JavaCalls::",
        "JavaThread::",
        "Thread::call_run",
        "thread_native_entry",
        "thread_entry",
        "os::os_exception_wrapper",
        "jni_invoke_",
    ],
    names: &[],
    calls: &[],
};
