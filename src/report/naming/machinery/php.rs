//! PHP: functions of its engine that call others, and its own that do.

use super::functions::Machinery;

/// Functions of these files.
pub(super) const MACHINERY: Machinery = Machinery {
    files: &["php", "php-fpm", "php-cgi", "phpdbg", "libphp"],
    prefixes: &[
        "execute_ex",
        "zend_call_",
        "_zend_call_",
        "zend_execute",
        "zend_eval_",
        "zend_user_it_",
        "zend_std_call_",
        "zend_std_call_user_call",
        "zend_objects_destroy",
        "zend_objects_store_call",
        "zend_vm_call",
        "zend_lookup_class",
        "php_execute_",
        "php_call_shutdown",
        "php_request_",
        "spl_perform_autoload",
    ],
    names: &[
        "zend_autoload",
        "zend_generator_resume",
        "zend_generator_get_iterator",
        "zend_get_executed_scope",
        "zend_fiber_switch_context",
        "zend_include_or_eval",
        "php_output_handler_op",
        "do_cli",
    ],
    calls: &[
        "zend_call_function",
        "_zend_call_function",
        "zend_call_known_",
        "zend_call_method",
        "zend_execute_scripts",
        "php_execute_script",
    ],
};
