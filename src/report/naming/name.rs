//! Function and module names as people read them.
//!
//! Names come from symbol tables of strangers, so everything here works on any text and never recurses
//! deeper than a constant.

use super::style::NameStyle;
use crate::report::model::label_kind::LabelKind;
use std::borrow::Cow;

/// Deepest nesting of `<Type as Trait>` and of thunks that is looked into.
const MOST_NESTED: usize = 3;

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

/// What a short form is made of, so that names whose short forms are equal can be distinguished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Its text, and between its pieces the lists of types, without their brackets.
    pieces: Vec<String>,
    generics: Vec<String>,
    /// The call's arguments with their brackets, and what stands after them: ` const`.
    arguments: String,
    /// What the compiler split off (`.isra.0`), and that it is a thunk.
    suffix: String,
}

impl Shape {
    /// `None` for a name that cannot be understood.
    pub(crate) fn of(name: &str) -> Option<Self> {
        Self::nested(name, MOST_NESTED)
    }

    fn nested(name: &str, most_nested: usize) -> Option<Self> {
        let (name, suffix) = split_clones(name);
        if let Some(inside) = thunk_of(name).filter(|_| most_nested > 0) {
            let shape = Self::nested(inside, most_nested - 1)?;
            return Some(Shape { suffix: format!("{} [thunk]{suffix}", shape.suffix), ..shape });
        }
        let name = name.replace("(anonymous namespace)::", "").replace("{anonymous}::", "");
        // Rust: `<Type as Trait>::method`, where the type is what matters.
        if let Some((self_type, rest)) = qualified_self(&name).filter(|_| most_nested > 0) {
            let name = match Self::nested(self_type, most_nested - 1) {
                Some(shape) => format!("{}{rest}", shape.whole()),
                None => format!("{self_type}{rest}"),
            };
            let shape = Self::of_path(&name)?;
            return Some(Shape { suffix, ..shape });
        }
        let shape = Self::of_path(&name)?;
        Some(Shape { suffix, ..shape })
    }

    fn of_path(name: &str) -> Option<Self> {
        let parts = path_parts(name)?;
        let (last, outer) = parts.split_last().filter(|(last, _)| !last.trim().is_empty())?;
        let (_, arguments) = split_arguments(last);
        let mut parts: Vec<&str> = outer.iter().map(|part| split_arguments(part).0).collect();
        parts.push(split_arguments(last).0);
        if let Some(at) = return_type_end(&parts) {
            parts.drain(..at.0);
            parts[0] = &parts[0][at.1..];
        }
        let parts = telling_parts(&parts);
        // Go: `github.com/user/module/package.(*Type).Method`.
        let text = match parts.as_slice() {
            [only] if !only.contains(['<', '>']) && !only.contains("operator/") => {
                only.rfind('/').map_or(*only, |slash| &only[slash + 1..]).to_owned()
            }
            parts => parts.join("::"),
        };
        let text = without_lambda_arguments(&text);
        let (pieces, generics) = split_generics(&text)?;
        let arguments = arguments.to_owned();
        Some(Shape { pieces, generics, arguments, suffix: String::new() })
            .filter(|shape| shape.pieces.iter().any(|piece| !piece.is_empty()))
    }

    /// With lists of types folded.
    pub(crate) fn folded(&self) -> String {
        self.with(|_| "..".to_owned())
    }

    /// With lists of types as they are.
    fn whole(&self) -> String {
        self.with(|at| self.generics[at].clone())
    }

    /// With what `list` makes of each list of types.
    pub(crate) fn with(&self, list: impl Fn(usize) -> String) -> String {
        let mut text = self.pieces[0].clone();
        for (at, piece) in self.pieces[1..].iter().enumerate() {
            text.push_str(&format!("<{}>{piece}", list(at)));
        }
        text.push_str(&self.suffix);
        text
    }

    /// The lists of types, without brackets.
    pub(crate) fn generics(&self) -> &[String] {
        &self.generics
    }

    /// The arguments of the call, with brackets.
    pub(crate) fn arguments(&self) -> &str {
        &self.arguments
    }
}

/// Splits what a compiler's copies of a function are marked with off a demangled C++ name: ` [clone .isra.0]`; and the mark
/// of a call through the linkage table. What is split off is as in names that are not demangled.
fn split_clones(name: &str) -> (&str, String) {
    let mut rest = name;
    let mut suffix = String::new();
    loop {
        if let Some(head) =
            rest.strip_suffix("@plt").filter(|head| head.contains("::") || head.ends_with(')'))
        {
            (rest, suffix) = (head, format!("@plt{suffix}"));
        } else if let Some(at) = rest.strip_suffix(']').and_then(|head| head.rfind(" [clone ")) {
            let mark = rest[at + " [clone ".len()..rest.len() - 1].trim();
            (rest, suffix) = (&rest[..at], format!("{mark}{suffix}"));
        } else {
            return (rest, suffix);
        }
    }
}

/// The function that a thunk leads to: `non-virtual thunk to f()`, `{virtual override thunk({offset(-24)}, f())}`.
fn thunk_of(name: &str) -> Option<&str> {
    if let Some((head, target)) = name.split_once("thunk to ") {
        return head.chars().all(|c| c.is_ascii_lowercase() || c == '-' || c == ' ').then_some(target);
    }
    let (head, rest) = name.strip_prefix('{')?.split_once(" thunk(")?;
    let is_thunk = head.chars().all(|c| c.is_ascii_lowercase() || c == '-' || c == ' ');
    let inside = rest.strip_suffix(")}").filter(|_| is_thunk)?;
    // Before the function stand one or two offsets.
    Some(inside.rsplit_once("}, ").map_or(inside, |(_, target)| target))
}

/// How deep in brackets a name is, character by character.
#[derive(Debug, Default)]
struct Brackets {
    depth: usize,
    previous: char,
}

impl Brackets {
    /// Takes the next character; `None` when it closes what was not opened.
    fn take(&mut self, c: char) -> Option<()> {
        match c {
            '<' | '(' | '[' | '{' => self.depth += 1,
            '>' if self.previous == '-' => {}
            '>' | ')' | ']' | '}' => self.depth = self.depth.checked_sub(1)?,
            _ => {}
        }
        self.previous = c;
        Some(())
    }
}

/// Where the symbol of an operator ends, whose name ends at `at`: its brackets open and close nothing.
fn operator_end(name: &str, at: usize) -> usize {
    let rest = &name[at..];
    if rest.starts_with("()") || rest.starts_with("[]") {
        return at + 2;
    }
    at + rest.find(|c| !"<=>-".contains(c)).unwrap_or(rest.len())
}

/// The parts of a path, split at the `::` outside of all brackets; `None` when brackets do not match up.
fn path_parts(name: &str) -> Option<Vec<&str>> {
    let mut parts = Vec::new();
    let mut brackets = Brackets::default();
    let (mut start, mut skip_to) = (0, 0);
    for (at, c) in name.char_indices() {
        if at < skip_to {
            brackets.previous = c;
            continue;
        }
        if name[..at].ends_with("operator") && "<>()[-=".contains(c) {
            skip_to = operator_end(name, at);
            if at < skip_to {
                brackets.previous = ' ';
                continue;
            }
        }
        if brackets.depth == 0 && c == ':' && name[at..].starts_with("::") && at >= start {
            // Rust writes `Vec<T>::push` as `Vec::<T>::push` too: a list of types is no part of its own.
            if name[at + 2..].starts_with('<') && at > start {
                continue;
            }
            // `operator std::string`: the type that it converts to may have a path of its own.
            if name[start..at].starts_with("operator ") {
                continue;
            }
            parts.push(&name[start..at]);
            start = at + 2;
        }
        brackets.take(c)?;
    }
    parts.push(&name[start..]);
    (brackets.depth == 0).then_some(parts)
}

/// A part of a path, and the call's arguments after it with what qualifies them (` const`).
fn split_arguments(part: &str) -> (&str, &str) {
    let end = part.trim_end_matches(" const").trim_end_matches(" volatile");
    let end = end.trim_end_matches(" &&").trim_end_matches(" &").trim_end_matches(" const");
    if !end.ends_with(')') {
        return (part, "");
    }
    let mut depth = 0usize;
    for (at, c) in end.char_indices().rev() {
        match c {
            ')' => depth += 1,
            '(' => depth = depth.saturating_sub(1),
            _ => continue,
        }
        if depth == 0 {
            let head = &end[..at];
            let keep_all = head.is_empty() || head.ends_with("operator") || head.ends_with(['.', ' ']);
            return if keep_all { (part, "") } else { (head, &part[at..]) };
        }
    }
    (part, "")
}

/// Where the name begins after the return type that demangled C++ function templates start with: part and byte. It stands
/// before the last space outside of all brackets. Where that is not clear, the name stays whole.
fn return_type_end(parts: &[&str]) -> Option<(usize, usize)> {
    // Only templates have one. Rust names begin with `<` or have no such space; Go's have a `/` or a dot.
    let is_template = parts.iter().any(|part| part.ends_with('>'));
    let first = parts.first()?;
    let is_odd = |part: &&str| part.contains("operator") || part.contains("{{") || part.contains('\'');
    if !is_template || first.starts_with('<') || parts.iter().any(is_odd) {
        return None;
    }
    let mut found = None;
    for (number, part) in parts.iter().enumerate() {
        let mut brackets = Brackets::default();
        for (at, c) in part.char_indices() {
            if brackets.depth == 0 && c == ' ' {
                found = Some((number, at + 1));
            }
            brackets.take(c)?;
        }
    }
    let (number, at) = found?;
    // `f<..> [..]` and the like end in something that is no name.
    let is_name = parts[number][at..].starts_with(|c: char| c == '_' || c == '{' || c.is_alphabetic());
    (is_name && parts[number..].iter().any(|part| part.contains('<'))).then_some((number, at))
}

/// Parts of a path that say which function it is: the last two, but what a lambda or a closure is called says nothing
/// without the function that it is in.
fn telling_parts<'n>(parts: &[&'n str]) -> Vec<&'n str> {
    let is_lambda = |part: &str| {
        part.starts_with("{lambda") || part.starts_with("'lambda") || part.starts_with("{closure")
    };
    let mut end = parts.len();
    // How a lambda is called: `{lambda(int)#1}::operator()`, `{lambda(int)#1}::_FUN`.
    while end > 1 && is_lambda(parts[end - 2]) && matches!(parts[end - 1], "_FUN" | "operator()" | "__invoke")
    {
        end -= 1;
    }
    let start = parts[..end].iter().rposition(|part| !is_lambda(part)).unwrap_or(0);
    parts[start.min(end.saturating_sub(2))..end].to_vec()
}

/// `{lambda(int, char const*)#2}` without what it is called with.
fn without_lambda_arguments(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(at) = rest.find("{lambda(") {
        let open = at + "{lambda".len();
        let mut brackets = Brackets::default();
        let close = rest[open..].char_indices().find_map(|(at, c)| {
            let is_whole = brackets.take(c).is_some() && brackets.depth == 0;
            is_whole.then_some(open + at + 1)
        });
        let Some(close) = close else { break };
        out.push_str(&rest[..open]);
        rest = &rest[close..];
    }
    out.push_str(rest);
    out
}

/// Splits `<Type as Trait>::method` into `Type` and `::method`.
fn qualified_self(name: &str) -> Option<(&str, &str)> {
    let inside = name.strip_prefix('<')?;
    let close = closing_angle(inside)?;
    let rest = &inside[close + 1..];
    if !rest.starts_with("::") {
        return None;
    }
    let inside = &inside[..close];
    let mut depth = 0usize;
    for (at, c) in inside.char_indices() {
        match c {
            '<' | '(' | '[' => depth += 1,
            '>' | ')' | ']' => depth = depth.saturating_sub(1),
            ' ' if depth == 0 && inside[at..].starts_with(" as ") => return Some((&inside[..at], rest)),
            _ => {}
        }
    }
    Some((inside, rest))
}

/// Position of the `>` that closes a `<` just before `text`.
fn closing_angle(text: &str) -> Option<usize> {
    let mut depth = 1usize;
    let mut previous = ' ';
    for (at, c) in text.char_indices() {
        match c {
            '<' => depth += 1,
            '>' if previous != '-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
        previous = c;
    }
    None
}

/// `name` without its outermost `<…>`, and those; `None` when they do not match up, or stand where no list of types does.
fn split_generics(name: &str) -> Option<(Vec<String>, Vec<String>)> {
    let (mut pieces, mut generics) = (vec![String::new()], Vec::new());
    let mut rest = name;
    while let Some(open) = rest.find('<') {
        let (before, after) = rest.split_at(open);
        let piece = pieces.last_mut()?;
        piece.push_str(before);
        if piece.ends_with("operator") {
            // operator<, operator<<, operator<=, operator<=>: not a list of types.
            let symbol_end = after.find(|c| !"<=>".contains(c)).unwrap_or(after.len());
            piece.push_str(&after[..symbol_end]);
            rest = &after[symbol_end..];
            continue;
        }
        let inside = &after[1..];
        let close = closing_angle(inside)?;
        // Rust writes `Vec<T>::push` as `Vec::<T>::push` too.
        if piece.ends_with("::") {
            piece.truncate(piece.len() - 2);
        }
        if !piece.ends_with(|c: char| c == '_' || c.is_alphanumeric() || "<=>()]*&!~|^%/+-}".contains(c)) {
            return None;
        }
        generics.push(inside[..close].to_owned());
        pieces.push(String::new());
        rest = &inside[close + 1..];
    }
    pieces.last_mut()?.push_str(rest);
    Some((pieces, generics))
}

/// The short form of a name that a compiler gave to code that it generated, as the maps of such code have it: of Java
/// `void java.util.TimSort.sort(Object[])`, of JavaScript `JS:*fib /app/fib.js:3:14`, of Python `py::fib:/app/fib.py`, of .NET
/// `void [App] App.Main::Run(int32)[Tier1]`. Others stay as they are, but for those that are C++.
fn short_generated(name: &str) -> String {
    if let Some(short) = short_script(name) {
        return short;
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
