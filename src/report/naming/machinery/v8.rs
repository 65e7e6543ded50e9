//! V8: functions, generated and other, that call others or are called for them.

use super::functions::Machinery;

/// Functions of these files.
pub(super) const MACHINERY: Machinery = Machinery {
    files: &["node", "nodejs", "libnode"],
    prefixes: &[
        "Builtins_JSEntry",
        "Builtins_JSConstructEntry",
        "Builtins_JSRunMicrotasksEntry",
        "Builtins_JSConstructStub",
        "Builtins_JSBuiltinsConstructStub",
        "Builtins_Interpreter",
        "Builtins_Baseline",
        "Builtins_Call",
        "Builtins_Construct",
        "Builtins_CEntry",
        "Builtins_ArgumentsAdaptor",
        "Builtins_AdaptorWith",
        "Builtins_FastNewClosure",
        "Builtins_FunctionPrototypeApply",
        "Builtins_FunctionPrototypeCall",
        "Builtins_ReflectApply",
        "Builtins_HandleApiCall",
        "Builtins_NotifyDeoptimized",
        "Builtins_ContinueTo",
        "v8::internal::(anonymous namespace)::Invoke",
        "v8::internal::Execution::",
        "v8::internal::(anonymous namespace)::HandleApiCall",
        "v8::internal::Builtin_HandleApiCall",
        "v8::internal::Builtins::InvokeApiFunction",
        "v8::internal::FunctionCallbackArguments::",
        "v8::Function::Call",
        "v8::Function::NewInstance",
    ],
    names: &[],
    calls: &[],
};
