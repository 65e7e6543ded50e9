//! Function and module names as people read them.
//!
//! Names come from symbol tables of strangers, so everything here works on any text and never recurses
//! deeper than a constant.

use super::shape::{Shape, split_arguments};
use super::style::NameStyle;
use crate::report::model::label_kind::LabelKind;
use std::borrow::Cow;

/// A readable short form of a demangled name: the last two parts of its path, template arguments and
/// generics folded to `<..>`, call arguments left out. What cannot be understood stays as it is.
pub(crate) fn short(name: &str) -> String {
    Shape::of(name).map_or_else(|| name.to_owned(), |shape| shape.folded())
}

/// `name`, of which no more is known than its text, in `style`.
pub(crate) fn in_style(name: &str, style: NameStyle) -> Cow<'_, str> {
    match style {
        NameStyle::Short => Cow::Owned(short(name)),
        NameStyle::Full | NameStyle::Raw => Cow::Borrowed(name),
    }
}

/// The short form of the name of code of this kind: compilers that generate code while a program runs have forms of their
/// own.
pub(crate) fn short_of(kind: LabelKind, name: &str) -> String {
    match kind {
        LabelKind::Jit => short_generated(name),
        _ => short(name),
    }
}

/// The short form of a name that a compiler gave to code that it generated, as the maps of such code have it: of Java
/// `void java.util.TimSort.sort(Object[])`, of JavaScript `JS:*fib /app/fib.js:3:14`, of Python `py::fib:/app/fib.py`, of .NET
/// `void [App] App.Main::Run(int32)[Tier1]`. Others stay as they are, but for those that are C++.
fn short_generated(name: &str) -> String {
    if let Some(short) = short_script(name) {
        return short;
    }
    if is_erlang(name) {
        return name.to_owned();
    }
    let tier = name.strip_suffix(']').and_then(|head| head.rfind(")[")).map_or(name.len(), |at| at + 1);
    let (whole, tier) = name.split_at(tier);
    let (head, arguments) = split_arguments(whole);
    // Java's and .NET's have a type before them, and the dots of its packages.
    let Some((_, path)) = head.rsplit_once(' ').filter(|_| !arguments.is_empty() && !head.contains('<'))
    else {
        return short(name);
    };
    let (class, method) = match path.rsplit_once("::").or_else(|| path.rsplit_once('.')) {
        Some((class, method)) if !class.is_empty() && !method.is_empty() => (class, method),
        _ => return short(name),
    };
    let class = class.rsplit(['.', '/']).next().unwrap_or(class);
    let separator = if path.contains("::") { "::" } else { "." };
    format!("{class}{separator}{method}{tier}")
}

/// Whether it is of Erlang: module, function and number of arguments, `lists:merge2_1/4`, perhaps with what part of it.
fn is_erlang(name: &str) -> bool {
    let Some((function, rest)) = name.rsplit_once('/') else { return false };
    let digits = rest.bytes().take_while(u8::is_ascii_digit).count();
    let is_end = digits > 0 && (digits == rest.len() || rest[digits..].starts_with('-'));
    is_end && function.split_once(':').is_some_and(|(module, name)| !module.contains('/') && !name.is_empty())
}

/// The same of a name that ends in a file of a script, of which the folders are left out.
fn short_script(name: &str) -> Option<String> {
    let (head, file) = match name.strip_prefix("py::") {
        Some(_) => {
            let at = name.rfind(":/")?;
            (&name[..=at], &name[at + 1..])
        }
        None => {
            let (kind, _) = name.split_once(':')?;
            let is_script = matches!(kind, "JS" | "LazyCompile" | "Function" | "Script" | "Eval" | "Handler");
            let at = name.find([' ', '(']).filter(|_| is_script)?;
            (&name[..=at], &name[at + 1..])
        }
    };
    let file = file.rsplit('/').next().filter(|file| !file.is_empty())?;
    Some(format!("{head}{file}"))
}

/// The name of a module for people: its file name, without version and `.so`; `[kernel]` as it is.
pub(crate) fn module_stem(path: &str) -> &str {
    let file = module_file(path);
    match file.find(".so") {
        Some(at) if at > 0 && matches!(file.as_bytes().get(at + 3), None | Some(b'.')) => &file[..at],
        _ => file,
    }
}

/// The file name of a module's path.
pub(crate) fn module_file(path: &str) -> &str {
    match path.rfind('/') {
        Some(slash) if slash + 1 < path.len() && !path.starts_with('[') => &path[slash + 1..],
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Detail 17 of the promises: names are readable and distinct.
    #[test]
    fn long_names_become_readable() {
        let cases = [
            ("main", "main"),
            ("std::vector<int, std::allocator<int> >::push_back(int const&)", "vector<..>::push_back"),
            ("alloc::vec::Vec<T,A>::push", "Vec<..>::push"),
            ("alloc::vec::Vec::<u8>::push", "Vec<..>::push"),
            ("<alloc::vec::Vec<T> as core::ops::Drop>::drop", "Vec<..>::drop"),
            ("<serde_json::read::SliceRead>::parse_str", "SliceRead::parse_str"),
            ("core::ops::function::FnOnce::call_once{{vtable.shim}}", "FnOnce::call_once{{vtable.shim}}"),
            ("(anonymous namespace)::Parser::next() const", "Parser::next"),
            ("std::ostream::operator<<(int)", "ostream::operator<<"),
            ("Functor::operator()(int)", "Functor::operator()"),
            ("Functor::operator()", "Functor::operator()"),
            ("a::Op::operator int() const", "Op::operator int"),
            ("a::Op::operator std::string() const", "Op::operator std::string"),
            ("Op<int>::operator T<int>() const", "Op<..>::operator T<..>"),
            ("Op::operator bool<int>() const", "Op::operator bool<..>"),
            ("a::B::operator->() const", "B::operator->"),
            ("Op<int>::operator<(int) const", "Op<..>::operator<"),
            ("bool A<3>::operator< <double>(double const&) const", "A<..>::operator< <..>"),
            ("bool operator> <int>(A<int> const&)", "operator> <..>"),
            ("std::ostream& std::operator<< <char>(std::ostream&, char)", "std::operator<< <..>"),
            ("int operators::count<int>(int)", "operators::count<..>"),
            ("a::B::operator[](unsigned long)", "B::operator[]"),
            ("map<fn(u8) -> u8>::go", "map<..>::go"),
            ("github.com/a/b/pkg.(*T).Method", "pkg.(*T).Method"),
            ("runtime.mallocgc", "runtime.mallocgc"),
            ("void std::__introsort_loop<int*, long>(int*, long)", "std::__introsort_loop<..>"),
            ("std::vector<int, std::allocator<int> > make<int>(int)", "make<..>"),
            ("decltype (a(b)) call<F>(F&&)", "call<..>"),
            ("bool Table<int>::has<long>(long) const", "Table<..>::has<..>"),
            ("unsigned long const& std::max<unsigned long>(unsigned long)", "std::max<..>"),
            ("broken<name", "broken<name"),
            ("<>", "<>"),
            ("", ""),
        ];
        for (full, expected) in cases {
            assert_eq!(short(full), expected, "of {full}");
        }
    }

    #[test]
    fn copies_and_thunks_have_the_name_of_the_function() {
        let cases = [
            ("f<int> [clone .part.0]", "f<..>.part.0"),
            (
                "void v8::internal::(anonymous namespace)::RepresentationSelector::VisitNode<(v8::internal::Phase)2>\
                 (v8::internal::Node*, v8::internal::SimplifiedLowering*) [clone .isra.0]",
                "RepresentationSelector::VisitNode<..>.isra.0",
            ),
            ("v8::internal::Zone::New(v8::internal::Zone*) [clone .constprop.0]", "Zone::New.constprop.0"),
            ("work(char const*, int) [clone .part.0] [clone .cold]", "work.part.0.cold"),
            ("foo::bar()@plt", "foo::bar@plt"),
            (
                "non-virtual thunk to node::Parser::OnStreamRead(long, uv_buf_t const&)",
                "Parser::OnStreamRead [thunk]",
            ),
            (
                "{virtual override thunk({offset(-24)}, node::http::Parser::OnStreamRead(long, uv_buf_t const&))}",
                "Parser::OnStreamRead [thunk]",
            ),
            ("sort.constprop.0", "sort.constprop.0"),
            ("memcpy@plt", "memcpy@plt"),
        ];
        for (full, expected) in cases {
            assert_eq!(short(full), expected, "of {full}");
        }
    }

    #[test]
    fn a_lambda_is_named_by_the_function_that_it_is_in() {
        let cases = [
            (
                "node::LibuvStreamWrap::ReadStart()::{lambda(uv_stream_s*, long, uv_buf_t const*)#2}::_FUN(uv_stream_s*, \
                 long, uv_buf_t const*)",
                "ReadStart::{lambda#2}",
            ),
            ("main::{lambda()#1}::operator()() const", "main::{lambda#1}"),
            ("a::f(int) const::{lambda(int)#1}::operator()(int) const", "f::{lambda#1}"),
            ("main::'lambda'(int)::operator()(int) const", "main::'lambda'"),
            ("app::main::{closure#0}::{closure#1}", "main::{closure#0}::{closure#1}"),
            (
                "std::_Function_handler<void (int), main::{lambda(int)#1}>::_M_invoke(std::_Any_data const&, int&&)",
                "_Function_handler<..>::_M_invoke",
            ),
        ];
        for (full, expected) in cases {
            assert_eq!(short(full), expected, "of {full}");
        }
    }

    /// Such names come from symbol tables, too.
    #[test]
    fn what_only_looks_like_types_stays_as_it_is() {
        for name in
            ["<script>alert(1)</script>", "a <b> c", "x<y", "f(", "a)b", "operator<", ":: ::", "[<x>]"]
        {
            assert_eq!(short(name), name, "of {name}");
        }
    }

    #[test]
    fn generated_code_is_named_as_its_language_does() {
        let cases = [
            ("void java.util.DualPivotQuicksort.sort(int[], int, int, int)", "DualPivotQuicksort.sort"),
            ("long MT.fib(int)", "MT.fib"),
            ("Interpreter", "Interpreter"),
            ("JS:*fib /app/lib/fib.js:3:14", "JS:*fib fib.js:3:14"),
            ("LazyCompile:~run node:internal/main:1:2", "LazyCompile:~run main:1:2"),
            ("py::fib:/app/fib.py", "py::fib:fib.py"),
            ("void [App] App.Deep.Program::Main(string[])[Tier1]", "Program::Main[Tier1]"),
            ("Builtin:ArrayMap", "Builtin:ArrayMap"),
            ("b:main/0", "b:main/0"),
            ("lists:merge2_1/4", "lists:merge2_1/4"),
            ("erts_beamasm:normal_exit/0-CodeInfoPrologue", "erts_beamasm:normal_exit/0-CodeInfoPrologue"),
            ("StubRoutines::call_stub", "StubRoutines::call_stub"),
        ];
        for (full, expected) in cases {
            assert_eq!(short_of(LabelKind::Jit, full), expected, "of {full}");
        }
    }

    #[test]
    fn modules_are_named_by_their_file() {
        assert_eq!(module_stem("/usr/lib/libzstd.so.1.5.4"), "libzstd");
        assert_eq!(module_stem("/usr/lib/libfoo.so"), "libfoo");
        assert_eq!(module_stem("/opt/my.sox"), "my.sox");
        assert_eq!(module_stem("[kernel]"), "[kernel]");
        assert_eq!(module_file("/usr/bin/"), "/usr/bin/");
        assert_eq!(module_stem("/lib/.so"), ".so");
    }

    proptest! {
        #[test]
        fn any_text_has_a_short_form(name in "[a-z<>():&* ./as{}#\\[\\]é-]{0,60}") {
            prop_assert_eq!(short(&name).is_empty(), name.is_empty());
            prop_assert_eq!(short_of(LabelKind::Jit, &name).is_empty(), name.is_empty());
        }
    }
}
