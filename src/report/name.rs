//! Function and module names as people read them.
//!
//! Names come from symbol tables of strangers, so everything here works on any text and never recurses
//! deeper than a constant.

/// A readable short form of a demangled name: the last two parts of its path, template arguments and
/// generics folded to `<..>`, call arguments left out. What cannot be understood stays as it is.
pub fn short(name: &str) -> String {
    let short = shorten(name, 3);
    if short.is_empty() { name.to_owned() } else { short }
}

fn shorten(name: &str, most_nested: usize) -> String {
    let name = name.replace("(anonymous namespace)::", "").replace("{anonymous}::", "");
    let name = without_return_type(without_arguments(&name));
    // Rust: `<Type as Trait>::method`, where the type is what matters.
    let unqualified = qualified_self(name);
    let name = match unqualified {
        Some((self_type, rest)) if most_nested > 0 => {
            format!("{}{rest}", shorten(self_type, most_nested - 1))
        }
        _ => name.to_owned(),
    };
    let Some(folded) = without_generics(&name) else { return name };
    // Go: `github.com/user/module/package.(*Type).Method`.
    let folded = match folded.rfind('/') {
        Some(slash) if !folded.contains("::") && !folded.contains("operator/") => &folded[slash + 1..],
        _ => &folded,
    };
    last_parts(folded, 2).to_owned()
}

/// `name` without the parenthesised arguments at its end (and a `const` after them).
fn without_arguments(name: &str) -> &str {
    let end = name.trim_end_matches(" const").trim_end_matches(" &").trim_end_matches(" &&");
    if !end.ends_with(')') {
        return name;
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
            let keep_all = head.is_empty() || head.ends_with("operator") || head.ends_with(['.', ':']);
            return if keep_all { name } else { head };
        }
    }
    name
}

/// `name` without the return type that demangled C++ function templates start with: what stands before the
/// last space outside of all brackets. Where that cannot be told, the name stays whole.
fn without_return_type(name: &str) -> &str {
    // Only templates have one. Rust names begin with `<` or have no such space; Go's have a `/` or a dot.
    if !name.ends_with('>') && !name.contains(">::") || name.starts_with('<') {
        return name;
    }
    // Operators have spaces and brackets of their own.
    if name.contains("operator") || name.contains("{{") || name.contains('\'') {
        return name;
    }
    let mut depth = 0usize;
    let mut start = 0;
    let mut previous = ' ';
    for (at, c) in name.char_indices() {
        match c {
            '<' | '(' | '[' | '{' => depth += 1,
            '>' if previous == '-' => {}
            '>' | ')' | ']' | '}' => match depth.checked_sub(1) {
                Some(outer) => depth = outer,
                None => return name,
            },
            ' ' if depth == 0 => start = at + 1,
            _ => {}
        }
        previous = c;
    }
    let rest = &name[start..];
    // `f<..> [clone .part.0]` and the like end in something that is no name.
    let is_name = rest.starts_with(|c: char| c == '_' || c.is_alphabetic()) && rest.contains('<');
    if depth == 0 && is_name { rest } else { name }
}

/// Splits `<Type as Trait>::method` into `Type` and `::method`.
fn qualified_self(name: &str) -> Option<(&str, &str)> {
    let inside = name.strip_prefix('<')?;
    let close = closing_angle(inside)?;
    let rest = &inside[close + 1..];
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

/// `name` with every outermost `<…>` folded; `None` when they do not match up.
fn without_generics(name: &str) -> Option<String> {
    let mut out = String::with_capacity(name.len());
    let mut rest = name;
    while let Some(open) = rest.find('<') {
        let (before, after) = rest.split_at(open);
        out.push_str(before);
        if before.ends_with("operator") {
            // operator<, operator<<, operator<=, operator<=>: not a list of types.
            let symbol_end = after.find(|c| !"<=>".contains(c)).unwrap_or(after.len());
            out.push_str(&after[..symbol_end]);
            rest = &after[symbol_end..];
            continue;
        }
        let inside = &after[1..];
        let close = closing_angle(inside)?;
        // Rust writes `Vec<T>::push` as `Vec::<T>::push` too.
        if out.ends_with("::") {
            out.truncate(out.len() - 2);
        }
        out.push_str("<..>");
        rest = &inside[close + 1..];
    }
    out.push_str(rest);
    Some(out)
}

/// The last `most` parts of a path separated by `::`.
fn last_parts(path: &str, most: usize) -> &str {
    path.rmatch_indices("::").nth(most - 1).map_or(path, |(at, _)| &path[at + 2..])
}

/// The name of a module for people: its file name, without version and `.so`; `[kernel]` as it is.
pub fn module_stem(path: &str) -> &str {
    let file = module_file(path);
    match file.find(".so") {
        Some(at) if at > 0 && matches!(file.as_bytes().get(at + 3), None | Some(b'.')) => &file[..at],
        _ => file,
    }
}

/// The file name of a module's path.
pub fn module_file(path: &str) -> &str {
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
            ("map<fn(u8) -> u8>::go", "map<..>::go"),
            ("github.com/a/b/pkg.(*T).Method", "pkg.(*T).Method"),
            ("runtime.mallocgc", "runtime.mallocgc"),
            ("void std::__introsort_loop<int*, long>(int*, long)", "std::__introsort_loop<..>"),
            ("std::vector<int, std::allocator<int> > make<int>(int)", "make<..>"),
            ("decltype (a(b)) call<F>(F&&)", "call<..>"),
            ("bool Table<int>::has<long>(long) const", "Table<..>::has<..>"),
            ("unsigned long const& std::max<unsigned long>(unsigned long)", "std::max<..>"),
            ("f<int> [clone .part.0]", "f<..> [clone .part.0]"),
            ("broken<name", "broken<name"),
            ("<>", "<>"),
            ("", ""),
        ];
        for (full, expected) in cases {
            assert_eq!(short(full), expected, "of {full}");
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
        fn any_text_has_a_short_form(name in "[a-z<>():&* ./as-]{0,60}") {
            prop_assert_eq!(short(&name).is_empty(), name.is_empty());
        }
    }
}
