//! Turning raw symbol names into readable ones.

use std::borrow::Cow;

/// Length in bytes above which raw names are shown as they are.
const MAX_RAW_BYTES: usize = 4 << 10;
/// Length in bytes above which a demangled name is shown raw instead.
const MAX_NAME_BYTES: usize = 8 << 10;

/// The readable form of a symbol: C++ and Rust (legacy and v0) names are demangled, and Rust hashes, symbol versions
/// (`@@GLIBC_2.2.5`) and ThinLTO marks (`.llvm.123`) left out.
///
/// Only names that begin as mangled names do (`_Z`, `__Z`, `_R`) are demangled, so that C functions called `f`, `i` or
/// `v` keep their names. Suffixes for parts that a compiler split off a function (`.cold`, `.part.0`, `.constprop.0`)
/// stay visible. A name that cannot be demangled is returned as it is.
pub(crate) fn demangle(raw: &str) -> Cow<'_, str> {
    if raw.len() > MAX_RAW_BYTES {
        return Cow::Borrowed(raw);
    }
    let (base, suffix) = split_version(raw);
    let base = without_lto_mark(base);
    let name = match is_mangled(base).then(|| demangle_mangled(base)).flatten() {
        Some(name) if name.len() <= MAX_NAME_BYTES => Cow::Owned(name),
        _ => Cow::Borrowed(base),
    };
    match suffix {
        "" => name,
        suffix => Cow::Owned(format!("{name}{suffix}")),
    }
}

fn is_mangled(name: &str) -> bool {
    name.starts_with("_Z") || name.starts_with("__Z") || name.starts_with("_R")
}

/// The name without symbol version, and the suffix to show after it: `@plt` is kept.
fn split_version(raw: &str) -> (&str, &str) {
    match raw.find('@') {
        None | Some(0) => (raw, ""),
        Some(at) => match &raw[at..] {
            "@plt" => (&raw[..at], "@plt"),
            version => {
                let version = version.trim_start_matches('@');
                let is_version = !version.is_empty()
                    && (version.bytes()).all(|byte| byte.is_ascii_alphanumeric() || b"_.-".contains(&byte));
                if is_version { (&raw[..at], "") } else { (raw, "") }
            }
        },
    }
}

/// Drops `.llvm.` and a number, which ThinLTO adds to local functions that it makes global.
fn without_lto_mark(name: &str) -> &str {
    match name.rsplit_once(".llvm.") {
        Some((base, number)) if !base.is_empty() && is_number(number) => base,
        _ => name,
    }
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_hexdigit() || byte == b'@')
}

fn demangle_mangled(name: &str) -> Option<String> {
    let demangled = |name: &str| match symbolic_demangle::demangle(name) {
        Cow::Owned(readable) if readable != name => Some(readable),
        _ => None,
    };
    demangled(name).or_else(|| {
        // Some compiler suffixes are not part of the mangling grammar.
        let (base, clone) = name.split_at(name.find('.')?);
        demangled(base).map(|readable| format!("{readable} [clone {clone}]"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn known_names() {
        let table = [
            // C, however short or odd.
            ("f", "f"),
            ("i", "i"),
            ("d", "d"),
            ("v", "v"),
            ("St", "St"),
            ("_Restart", "_Restart"),
            ("_RNA_init", "_RNA_init"),
            ("_Zebra", "_Zebra"),
            ("main", "main"),
            ("", ""),
            ("_", "_"),
            ("@", "@"),
            ("sort.constprop.0", "sort.constprop.0"),
            ("sort.part.0.cold", "sort.part.0.cold"),
            ("sort.isra.0", "sort.isra.0"),
            ("local.llvm.1234567890", "local"),
            (".llvm.12", ".llvm.12"),
            ("memcpy@@GLIBC_2.14", "memcpy"),
            ("memcpy@GLIBC_2.2.5", "memcpy"),
            ("memcpy@plt", "memcpy@plt"),
            ("a@b c", "a@b c"),
            // C++.
            ("_ZN3foo3barEv", "foo::bar()"),
            ("_ZN3foo3barEv@plt", "foo::bar()@plt"),
            ("_ZNSt6vectorIiSaIiEE9push_backEOi", "std::vector<int, std::allocator<int> >::push_back(int&&)"),
            (
                "_ZNSt6vectorIiSaIiEE9push_backEOi@@GLIBCXX_3.4",
                "std::vector<int, std::allocator<int> >::push_back(int&&)",
            ),
            ("_ZL4workPKci.llvm.99", "work(char const*, int)"),
            ("_ZL4workPKci.part.0", "work(char const*, int) [clone .part.0]"),
            ("_ZL4workPKci.cold", "work(char const*, int) [clone .cold]"),
            ("_ZZN4mainEENKUlvE_clEv", "main::{lambda()#1}::operator()() const"),
            // Rust, legacy: without hash.
            ("_ZN3std2io4Read11read_to_end17hb85a0f6802e14499E", "std::io::Read::read_to_end"),
            ("_ZN3std2io4Read11read_to_end17hb85a0f6802e14499E.llvm.77", "std::io::Read::read_to_end"),
            (
                "_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$3bar17h930b740aa94f1d3aE",
                "<Test + 'static as foo::Bar<Test>>::bar",
            ),
            // Rust, v0: without crate disambiguators.
            ("_RNvCskwGfYPst2Cb_3foo16example_function", "foo::example_function"),
            ("_RNvNtNtCs1234_7mycrate3foo3bar3baz", "mycrate::foo::bar::baz"),
        ];
        for (raw, name) in table {
            assert_eq!(demangle(raw), name, "{raw}");
        }
    }

    #[test]
    fn rust_clone_suffix_stays_visible() {
        assert_eq!(demangle("_ZN3foo3bar17hb85a0f6802e14499E.cold"), "foo::bar.cold");
    }

    #[test]
    fn over_long_names_stay_raw() {
        let long = format!("_ZN{}3fooEv", "3abc".repeat(2000));
        assert_eq!(demangle(&long), long.as_str());
    }

    /// Each pair `S_`, `S0_` … doubles the text: a few hundred bytes would unfold to terabytes.
    #[test]
    fn substitution_bomb_is_bounded() {
        let mut raw = String::from("_Z1fI1aE");
        for step in 0..40 {
            raw.push_str(&format!(
                "St4pairIS{0}_S{0}_E",
                if step == 0 { String::new() } else { format!("{step:X}") }
            ));
        }
        assert!(demangle(&raw).len() <= MAX_NAME_BYTES);
    }

    #[test]
    fn nested_names_fit_on_a_small_stack() {
        for raw in [
            format!("_Z1f{}i", "P".repeat(4000)),
            format!("_Z1fI{}iE", "1aI".repeat(1300)),
            format!("_RNvC3foo{}", "INtC1a".repeat(600)),
            format!("_RIC0{}", "R".repeat(4000)),
            format!("_Z1fIX{}E", "ng".repeat(2000)),
        ] {
            assert!(demangle(&raw).len() <= MAX_NAME_BYTES);
        }
    }

    proptest! {
        #[test]
        fn anything_is_demangled_in_bounds(raw in "(_Z|_R|__Z)?[A-Za-z0-9_.$@]{0,80}") {
            prop_assert!(demangle(&raw).len() <= MAX_NAME_BYTES);
        }

        #[test]
        fn names_without_a_mangling_prefix_keep_their_letters(raw in "[a-z][a-zA-Z0-9_]{0,20}") {
            prop_assert_eq!(demangle(&raw), raw.as_str());
        }
    }
}
