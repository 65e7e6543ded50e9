//! The parts of a demangled name: its path, lists of types, arguments, and what a compiler added.
//!
//! Names come from symbol tables of strangers, so everything here works on any text and never recurses
//! deeper than a constant.

/// Deepest nesting of `<Type as Trait>` and of thunks that is looked into.
const MOST_NESTED: usize = 3;

/// Parts of a short form, kept so that names whose short forms are equal can be distinguished.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Shape {
    /// Pieces of the text, between which the lists of types stand, and these lists without their brackets.
    pieces: Vec<String>,
    generics: Vec<String>,
    /// The call's arguments with their brackets, and what stands after them: ` const`.
    arguments: String,
    /// Mark of what the compiler split off (`.isra.0`) or that the function is a thunk.
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

/// Depth of brackets in a name, character by character.
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

/// Returns the end of the symbol of an operator whose name ends at `at`: its brackets open and close nothing.
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
pub(super) fn split_arguments(part: &str) -> (&str, &str) {
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

/// Where the name of an operator begins in a part of a path: `operator<`, `bool operator()`.
fn operator_start(part: &str) -> Option<usize> {
    let is_word = |at: usize| {
        let after = part[at + "operator".len()..].chars().next();
        (at == 0 || part[..at].ends_with(' ')) && !after.is_some_and(|c| c == '_' || c.is_alphanumeric())
    };
    part.match_indices("operator").map(|(at, _)| at).find(|&at| is_word(at))
}

/// Whether a text ends in an operator whose symbol a blank keeps apart from the list of types that follows: `operator< <int>`.
fn ends_in_operator(text: &str) -> bool {
    text.strip_suffix(' ').is_some_and(|text| {
        let name = text.trim_end_matches(['<', '=', '>']);
        name.len() < text.len() && name.ends_with("operator")
    })
}

/// Where the name begins after the return type that demangled C++ function templates start with: part and byte. It stands
/// before the last space outside of all brackets. Where that is not clear, the name stays whole.
fn return_type_end(parts: &[&str]) -> Option<(usize, usize)> {
    // Only templates have one. Rust names begin with `<` or have no such space; Go's have a `/` or a dot.
    let is_template = parts.iter().any(|part| part.ends_with('>'));
    let first = parts.first()?;
    let is_odd = |part: &&str| part.contains("{{") || part.contains('\'');
    if !is_template || first.starts_with('<') || parts.iter().any(is_odd) {
        return None;
    }
    let mut found = None;
    for (number, part) in parts.iter().enumerate() {
        let operator = operator_start(part);
        let mut brackets = Brackets::default();
        for (at, c) in part[..operator.unwrap_or(part.len())].char_indices() {
            if brackets.depth == 0 && c == ' ' {
                found = Some((number, at + 1));
            }
            brackets.take(c)?;
        }
        // What follows is its symbol or the type that it converts to.
        if operator.is_some() {
            break;
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
        // Rust also writes `Vec<T>::push` as `Vec::<T>::push`.
        if piece.ends_with("::") {
            piece.truncate(piece.len() - 2);
        }
        let is_name =
            piece.ends_with(|c: char| c == '_' || c.is_alphanumeric() || "<=>()]*&!~|^%/+-}".contains(c));
        if !is_name && !ends_in_operator(piece) {
            return None;
        }
        generics.push(inside[..close].to_owned());
        pieces.push(String::new());
        rest = &inside[close + 1..];
    }
    pieces.last_mut()?.push_str(rest);
    Some((pieces, generics))
}
