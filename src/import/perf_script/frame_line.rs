//! A frame line: `ADDRESS NAME+OFFSET (MODULE)`, without the address if the options of perf omit it.

/// Contents of a frame line. Texts are foreign.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct FrameLine<'a> {
    pub(super) address: Option<u64>,
    /// Name without the offset.
    pub(super) name: &'a [u8],
    offset: Option<u64>,
    /// Module; empty if unknown.
    pub(super) module: &'a [u8],
    /// Whether it is inlined into the frame that follows.
    pub(super) is_inlined: bool,
}

impl<'a> FrameLine<'a> {
    /// Parses a frame line; `None` if it is not one.
    pub(super) fn parse(line: &'a [u8]) -> Option<Self> {
        let line = line.trim_ascii();
        let (before, module) = match line.strip_suffix(b")") {
            Some(inside) => {
                let open = opening(inside)?;
                (inside[..open].trim_ascii(), &inside[open + 1..])
            }
            // A line without a module must have an address.
            None => (line, &b""[..]),
        };
        let (address, name) = match before.iter().position(u8::is_ascii_whitespace) {
            Some(end) if hexadecimal(&before[..end]).is_some() => {
                (hexadecimal(&before[..end]), before[end..].trim_ascii())
            }
            None if hexadecimal(before).is_some() => (hexadecimal(before), &b""[..]),
            _ => (None, before),
        };
        if address.is_none() && (module.is_empty() || name.is_empty()) {
            return None;
        }
        let is_inlined = module == b"inlined";
        let (name, offset) = without_offset(name);
        let module = if is_inlined || module == b"[unknown]" { b"" } else { module };
        Some(FrameLine { address, name, offset, module, is_inlined })
    }

    /// Whether it is a source line, which perf prints after a frame: `main.c:12`.
    pub(super) fn is_source_line(line: &[u8]) -> bool {
        let line = line.trim_ascii();
        let colon = line.iter().rposition(|&byte| byte == b':');
        colon.is_some_and(|at| at > 0 && line[at + 1..].iter().all(u8::is_ascii_digit))
    }

    /// `None` for a frame with a name; for an unnamed one the address in `module`, if the text has it.
    pub(super) fn unnamed(&self, module: &str) -> Option<Option<u64>> {
        if self.name.is_empty() || self.name == b"[unknown]" {
            return Some(None);
        }
        // `prof export` writes unnamed code as the module with an offset.
        let file = module.rsplit('/').next().unwrap_or(module);
        let is_module = !file.is_empty() && self.name == file.as_bytes();
        self.offset.filter(|_| is_module).map(Some)
    }
}

/// Position of the parenthesis that opens the one at the end of `text`; names of modules may contain parentheses.
fn opening(text: &[u8]) -> Option<usize> {
    let mut depth = 1;
    for (at, byte) in text.iter().enumerate().rev() {
        match byte {
            b')' => depth += 1,
            b'(' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return Some(at);
        }
    }
    None
}

fn hexadecimal(text: &[u8]) -> Option<u64> {
    let text = text.strip_prefix(b"0x").unwrap_or(text);
    if text.is_empty() || !text.iter().all(u8::is_ascii_hexdigit) {
        return None;
    }
    u64::from_str_radix(std::str::from_utf8(text).ok()?, 16).ok()
}

/// Splits a name from the `+0x1f` at its end.
fn without_offset(name: &[u8]) -> (&[u8], Option<u64>) {
    let plus = name.iter().rposition(|&byte| byte == b'+');
    let offset =
        plus.filter(|at| name[at + 1..].starts_with(b"0x")).and_then(|at| hexadecimal(&name[at + 1..]));
    match (plus, offset) {
        (Some(at), Some(offset)) if at > 0 => (&name[..at], Some(offset)),
        _ => (name, None),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(line: &str) -> FrameLine<'_> {
        FrameLine::parse(line.as_bytes()).expect(line)
    }

    #[test]
    fn frames_have_addresses_names_and_modules() {
        let frame = parse("\t    55d0c8a1e1f9 work+0x1f (/home/me/a program (1))");
        assert_eq!((frame.address, frame.name), (Some(0x55d0_c8a1_e1f9), &b"work"[..]));
        assert_eq!(frame.module, b"/home/me/a program (1)");
        let frame = parse("  7f01 std::vector<int, std::allocator<int> >::push_back(int&&) (inlined)");
        assert_eq!(frame.name, b"std::vector<int, std::allocator<int> >::push_back(int&&)");
        assert!(frame.is_inlined && frame.module.is_empty());
        let frame = parse("ffffffff8100 [unknown] ([kernel.kallsyms])");
        assert_eq!(frame.unnamed("[kernel.kallsyms]"), Some(None));
        let frame = parse("  main (/bin/a)");
        assert_eq!((frame.address, frame.name), (None, &b"main"[..]));
        let frame = parse("   2a1c0 libc.so.6+0x2a1c0 (/usr/lib/libc.so.6)");
        assert_eq!(frame.unnamed("/usr/lib/libc.so.6"), Some(Some(0x2a1c0)));
        assert_eq!(parse("   2a1c0 main (/usr/lib/libc.so.6)").unnamed("/usr/lib/libc.so.6"), None);
        assert_eq!(parse("  12 operator+ (/a)").name, b"operator+");
    }

    #[test]
    fn other_lines_are_none() {
        for line in ["", "  main.c:12", "  some text", "  (only a module)"] {
            assert_eq!(FrameLine::parse(line.as_bytes()), None, "{line}");
        }
        assert!(FrameLine::is_source_line(b"  main.c:12") && !FrameLine::is_source_line(b"  text"));
    }
}
