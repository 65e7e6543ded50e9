//! What brings the debug information that a module lacks: the package of its distribution, or a server.

use crate::profile::{ModuleNotes, SymbolsFrom};

/// Whether more of a module's names could be had: functions, inlined functions, lines.
pub(crate) fn lacks_debug_info(notes: &ModuleNotes) -> bool {
    !notes.has_debug_info || notes.lacks_files()
}

/// Description of the names and lines that a module lacks; `None`: none.
pub(crate) fn missing_words(notes: &ModuleNotes) -> Option<&'static str> {
    if notes.has_debug_info {
        return match (notes.split_missing > 0, !notes.shared_missing.is_empty()) {
            (true, _) => Some("inlined functions and lines of some units"),
            (false, true) => Some("inlined functions"),
            (false, false) => None,
        };
    }
    match notes.symbols {
        SymbolsFrom::Unknown => None,
        SymbolsFrom::None => Some("all functions, inlined functions and lines"),
        SymbolsFrom::Dynsym => Some("functions that are not exported, inlined functions and lines"),
        SymbolsFrom::DebugData | SymbolsFrom::Symtab => Some("inlined functions and lines"),
    }
}

/// The command that installs the debug information of a module, where its distribution has a package for that. Has foreign
/// text in it.
pub(crate) fn install_command(path: &str, notes: &ModuleNotes) -> Option<String> {
    let is = |name: &str| notes.distribution.split_whitespace().any(|word| word == name);
    if is("debian") || is("ubuntu") {
        let package = Some(notes.package.as_str()).filter(|package| !package.is_empty())?;
        let debug = debian_package(package);
        let archive = match debug.ends_with("-dbgsym") {
            false => "",
            true if is("ubuntu") => "  (from Ubuntu's ddebs archive)",
            true => "  (from the debian-debug archive)",
        };
        return Some(format!("apt install {debug}{archive}"));
    }
    let is_rpm = ["fedora", "rhel", "centos"].into_iter().any(is);
    (is_rpm && is_of_system(path)).then(|| format!("dnf debuginfo-install $(rpm -qf {path})"))
}

/// Whether a path is one where packages put files, and safe to stand in a command as it is.
fn is_of_system(path: &str) -> bool {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._+-:@".contains(c);
    ["/usr/", "/lib", "/opt/"].iter().any(|start| path.starts_with(start)) && path.chars().all(is_plain)
}

/// The package with the debug information of a package of Debian. Some bring their own; all others have one that is made for
/// them.
fn debian_package(package: &str) -> String {
    let name = package.strip_prefix("lib").unwrap_or(package);
    // python3.11, python3.11-minimal, libpython3.11-stdlib: one for all.
    if let Some(rest) = name.strip_prefix("python3.") {
        let minor: String = rest.chars().take_while(char::is_ascii_digit).collect();
        if !minor.is_empty() {
            return format!("python3.{minor}-dbg");
        }
    }
    match package {
        "libc6" | "libc6-i386" | "musl" => format!("{package}-dbg"),
        _ if package.starts_with("linux-image-") => format!("{package}-dbg"),
        _ => format!("{package}-dbgsym"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(package: &str, distribution: &str) -> Option<String> {
        let notes = ModuleNotes {
            package: package.to_owned(),
            distribution: distribution.to_owned(),
            ..ModuleNotes::default()
        };
        install_command("/usr/bin/x", &notes)
    }

    #[test]
    fn each_distribution_has_its_command() {
        let of_debian = |package| of(package, "debian").expect("a command");
        assert_eq!(of_debian("libruby3.1"), "apt install libruby3.1-dbgsym  (from the debian-debug archive)");
        assert_eq!(of_debian("git"), "apt install git-dbgsym  (from the debian-debug archive)");
        assert_eq!(of_debian("libc6"), "apt install libc6-dbg");
        for python in ["python3.11", "python3.11-minimal", "libpython3.11-stdlib"] {
            assert_eq!(of_debian(python), "apt install python3.11-dbg");
        }
        assert_eq!(
            of_debian("python3-apt"),
            "apt install python3-apt-dbgsym  (from the debian-debug archive)"
        );
        let of_ubuntu = of("git", "ubuntu debian").expect("a command");
        assert!(of_ubuntu.ends_with("(from Ubuntu's ddebs archive)"), "{of_ubuntu}");
        let rocky = of("", "rocky rhel centos fedora");
        assert_eq!(rocky.as_deref(), Some("dnf debuginfo-install $(rpm -qf /usr/bin/x)"));
        assert_eq!(of("", "debian"), None, "a file of no package");
        assert_eq!(of("x", "arch"), None);
    }

    #[test]
    fn a_path_that_is_no_plain_word_is_in_no_command() {
        let notes = ModuleNotes { distribution: "fedora".to_owned(), ..ModuleNotes::default() };
        for path in ["/usr/bin/$(reboot)", "/usr/bin/a b", "/home/u/x", "/usr/;ls"] {
            assert_eq!(install_command(path, &notes), None);
        }
    }
}
