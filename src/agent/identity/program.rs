//! What a program is called by those who run it: its file's name, and for an interpreter the name of the script, module, class or
//! archive that it was started for.
//!
//! All services of a host that run on Python or Java would otherwise be one. The name is that of the file without its ending, as
//! jps(1) and `ps` users know it, and nothing is guessed from folders: what does not suit is for a rule.

/// Most bytes of a command line that are looked at.
pub(crate) const MOST_COMMAND_BYTES: usize = 4096;

/// Most words of a command line that are looked at.
const MOST_WORDS: usize = 256;

/// How an interpreter's command line is read until the script. OptionLetters are those of options with one dash, which can be joined.
struct ScriptLanguage {
    /// Options that take the next word, if nothing is joined to them.
    with_value: &'static str,
    /// Options after which there is code instead of a script.
    code: &'static str,
    /// Options whose value is what runs: a module, a file.
    names: &'static str,
    /// Options whose value, if any, is always joined.
    joined: &'static str,
    /// Long options that take the next word.
    long_with_value: &'static [&'static str],
    /// Long options after which there is code instead of a script.
    long_code: &'static [&'static str],
    /// Long options whose value is what runs.
    long_names: &'static [&'static str],
    /// Whether options of one dash are words, as Java's are.
    has_words: bool,
}

const NONE: ScriptLanguage = ScriptLanguage {
    with_value: "",
    code: "",
    names: "",
    joined: "",
    long_with_value: &[],
    long_code: &[],
    long_names: &[],
    has_words: false,
};

const PYTHON: ScriptLanguage = ScriptLanguage {
    with_value: "WXQ",
    code: "c",
    names: "m",
    long_with_value: &["--check-hash-based-pycs"],
    ..NONE
};

const NODE: ScriptLanguage = ScriptLanguage {
    with_value: "rC",
    code: "ep",
    long_with_value: &["--require", "--import", "--loader", "--experimental-loader", "--conditions"],
    long_code: &["--eval", "--print"],
    ..NONE
};

const RUBY: ScriptLanguage = ScriptLanguage { with_value: "IrCE", code: "e", joined: "FKTx0Wi", ..NONE };

const PERL: ScriptLanguage = ScriptLanguage { with_value: "I", code: "eE", joined: "MmixDC0lFdV", ..NONE };

const PHP: ScriptLanguage = ScriptLanguage {
    with_value: "cdz",
    code: "rRBSEF",
    names: "f",
    long_with_value: &["--define", "--php-ini"],
    long_code: &["--run", "--server"],
    long_names: &["--file"],
    ..NONE
};

const SHELL: ScriptLanguage =
    ScriptLanguage { with_value: "oO", code: "cs", long_with_value: &["--rcfile", "--init-file"], ..NONE };

const JAVA: ScriptLanguage = ScriptLanguage {
    long_with_value: &[
        "-cp",
        "-classpath",
        "--class-path",
        "-p",
        "--module-path",
        "--upgrade-module-path",
        "--add-modules",
        "--add-opens",
        "--add-exports",
        "--add-reads",
        "--patch-module",
        "--limit-modules",
        "--source",
        "-d",
    ],
    long_names: &["-jar", "-m", "--module"],
    has_words: true,
    ..NONE
};

const DOTNET: ScriptLanguage = ScriptLanguage {
    long_with_value: &[
        "--depsfile",
        "--runtimeconfig",
        "--additionalprobingpath",
        "--fx-version",
        "--roll-forward",
    ],
    has_words: true,
    ..NONE
};

/// The languages by the names of their interpreters, without versions.
const INTERPRETERS: &[(&str, &ScriptLanguage)] = &[
    ("python", &PYTHON),
    ("pypy", &PYTHON),
    ("node", &NODE),
    ("nodejs", &NODE),
    ("ruby", &RUBY),
    ("perl", &PERL),
    ("php", &PHP),
    ("php-cli", &PHP),
    ("sh", &SHELL),
    ("bash", &SHELL),
    ("dash", &SHELL),
    ("zsh", &SHELL),
    ("ksh", &SHELL),
    ("java", &JAVA),
    ("dotnet", &DOTNET),
];

/// Programs that are many, by the first word of the command line.
const MULTI_CALL: [&str; 3] = ["busybox", "toybox", "coreutils"];

/// Endings of scripts and archives.
const ENDINGS: [&str; 13] =
    [".py", ".pyc", ".pyz", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".sh", ".jar", ".war"];

/// The name of a program, by the path of its file and its command line; `None` where there is no file.
pub(crate) fn name(exe: &[u8], command_line: &[u8]) -> Option<String> {
    let exe = exe.strip_suffix(b" (deleted)").unwrap_or(exe);
    let exe = base_name(&String::from_utf8_lossy(exe)).to_owned();
    if exe.is_empty() {
        return None;
    }
    let text = String::from_utf8_lossy(&command_line[..command_line.len().min(MOST_COMMAND_BYTES)]);
    let words: Vec<&str> = text.trim_end_matches('\0').split('\0').take(MOST_WORDS).collect();
    if MULTI_CALL.contains(&exe.as_str()) {
        let called = base_name(words.first().unwrap_or(&"")).trim_start_matches('-');
        return Some(if called.is_empty() { exe } else { called.to_owned() });
    }
    let bare = without_version(&exe);
    let Some((_, language)) = INTERPRETERS.iter().find(|(name, _)| *name == bare) else { return Some(exe) };
    let found = title(&words).or_else(|| language.program(words.get(1..).unwrap_or_default()));
    Some(found.filter(|name| !name.is_empty()).unwrap_or(exe))
}

/// The name of a server that has put its state in place of its command line: `gunicorn: master [shop]`, `puma 6.4 (tcp://…) [shop]`.
fn title(words: &[&str]) -> Option<String> {
    let [only] = words else { return None };
    let (first, _) = only.split_once(' ')?;
    Some(script_name(first.trim_end_matches(':')))
}

impl ScriptLanguage {
    /// The name of what runs, by the words after the interpreter.
    fn program(&self, words: &[&str]) -> Option<String> {
        let mut words = words.iter().copied();
        while let Some(word) = words.next() {
            if self.long_names.contains(&word) {
                return words.next().map(|name| self.shown(name));
            }
            if self.long_code.contains(&word) {
                return None;
            }
            if self.long_with_value.contains(&word) {
                words.next();
            } else if word == "--" {
                return words.next().map(|name| self.shown(name));
            } else if word == "-" {
                return None;
            } else if word.starts_with("--") || word.starts_with('+') || word.starts_with('@') {
                continue;
            } else if let Some(letters) = word.strip_prefix('-') {
                if self.has_words {
                    continue;
                }
                match self.letters(letters, &mut words) {
                    OptionLetters::Goes => {}
                    OptionLetters::Code => return None,
                    OptionLetters::Named(name) => return Some(self.shown(name)),
                }
            } else if self.has_words && word == "exec" {
                // Of .NET: what it runs comes after its options.
                continue;
            } else {
                return Some(self.shown(word));
            }
        }
        None
    }

    /// Options with one dash, joined as the shell's users write them: `-um`, `-I/lib`.
    fn letters<'w>(&self, letters: &'w str, words: &mut impl Iterator<Item = &'w str>) -> OptionLetters<'w> {
        for (at, letter) in letters.char_indices() {
            let rest = &letters[at + letter.len_utf8()..];
            if self.code.contains(letter) {
                return OptionLetters::Code;
            }
            if self.names.contains(letter) {
                let name = if rest.is_empty() { words.next() } else { Some(rest) };
                return name.map_or(OptionLetters::Code, OptionLetters::Named);
            }
            if self.with_value.contains(letter) {
                if rest.is_empty() {
                    words.next();
                }
                return OptionLetters::Goes;
            }
            if self.joined.contains(letter) {
                return OptionLetters::Goes;
            }
        }
        OptionLetters::Goes
    }

    /// What is shown of the name of a script, an archive, a module or a class.
    fn shown(&self, name: &str) -> String {
        if !self.has_words || name.ends_with(".jar") || name.ends_with(".war") {
            return script_name(name);
        }
        if let Some(assembly) = base_name(name).strip_suffix(".dll") {
            return assembly.to_owned();
        }
        // A module and its class, a class and its package.
        let class = name.rsplit('/').next().unwrap_or(name);
        class.rsplit('.').next().unwrap_or(class).to_owned()
    }
}

/// What a word of options came to.
enum OptionLetters<'w> {
    /// The next word is looked at.
    Goes,
    /// Code instead of a script.
    Code,
    /// What runs.
    Named(&'w str),
}

fn base_name(path: &str) -> &str {
    path.trim_end_matches('/').rsplit('/').next().unwrap_or(path)
}

fn script_name(path: &str) -> String {
    let base = base_name(path);
    let bare = ENDINGS.iter().find_map(|ending| base.strip_suffix(ending));
    bare.filter(|bare| !bare.is_empty()).unwrap_or(base).to_owned()
}

/// `python3.11` is Python: a name without the version at its end.
fn without_version(name: &str) -> &str {
    let bare = name.trim_end_matches(|c: char| c.is_ascii_digit() || c == '.');
    bare.strip_suffix('-').unwrap_or(bare)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn named(exe: &str, command_line: &str) -> Option<String> {
        name(exe.as_bytes(), command_line.replace(' ', "\0").as_bytes())
    }

    #[test]
    fn a_program_has_the_name_of_its_file() {
        for (exe, command_line, expected) in [
            ("/usr/sbin/nginx", "nginx -g daemon_off;", Some("nginx")),
            ("/opt/shop/shop-server (deleted)", "./shop-server", Some("shop-server")),
            ("/usr/lib/postgresql/15/bin/postgres", "", Some("postgres")),
            ("/bin/busybox", "httpd -f", Some("httpd")),
            ("/bin/busybox", "-sh", Some("sh")),
            ("/usr/sbin/php-fpm8.2", "php-fpm8.2 -F", Some("php-fpm8.2")),
            ("", "", None),
        ] {
            assert_eq!(named(exe, command_line).as_deref(), expected, "{exe} {command_line}");
        }
    }

    #[test]
    fn an_interpreter_has_the_name_of_what_it_runs() {
        for (exe, command_line, expected) in [
            ("/usr/bin/python3.11", "python3 -u -X dev /srv/shop/manage.py runserver", "manage"),
            ("/usr/bin/python3.11", "python3 -m http.server 80", "http.server"),
            ("/usr/bin/python3.11", "python3 -um celery worker", "celery"),
            ("/usr/bin/python3.11", "/usr/bin/python3 /usr/bin/gunicorn shop:app", "gunicorn"),
            ("/usr/bin/python3.11", "python3 -c import(x) y.py", "python3.11"),
            ("/usr/bin/python3.11", "python3", "python3.11"),
            ("/usr/bin/node", "node --max-old-space-size=99 -r dotenv dist/index.js", "index"),
            ("/usr/bin/node", "node --require ./a.js --enable-source-maps server.mjs", "server"),
            ("/usr/bin/node", "node -e code", "node"),
            ("/usr/bin/ruby3.1", "ruby -Ilib -r bundler/setup bin/rails server", "rails"),
            ("/usr/bin/perl", "perl -w -MStrict /usr/sbin/amavisd", "amavisd"),
            ("/usr/bin/php8.2", "php -d a=b -f artisan", "artisan"),
            ("/bin/bash", "bash -eu -o pipefail /opt/run.sh now", "run"),
            ("/bin/bash", "bash -c while_true", "bash"),
            (
                "/usr/lib/jvm/21/bin/java",
                "java -Xmx1g -cp a.jar:b.jar com.acme.shop.Server --port 1",
                "Server",
            ),
            ("/usr/lib/jvm/21/bin/java", "java @args -jar /opt/shop.jar x", "shop"),
            (
                "/usr/lib/jvm/21/bin/java",
                "java --add-opens java.base/java.lang=ALL-UNNAMED -m shop/com.acme.Main",
                "Main",
            ),
            ("/usr/share/dotnet/dotnet", "dotnet exec --runtimeconfig x.json Acme.Shop.dll", "Acme.Shop"),
            ("/usr/share/dotnet/dotnet", "dotnet /app/Shop.dll", "Shop"),
        ] {
            assert_eq!(named(exe, command_line).as_deref(), Some(expected), "{command_line}");
        }
    }

    #[test]
    fn titles_in_place_of_command_lines_name_the_server() {
        for (title, expected) in [
            ("gunicorn: master [shop]", "gunicorn"),
            ("puma 6.4.0 (tcp://0.0.0.0:3000) [shop]", "puma"),
            ("sidekiq 7.1 shop [0 of 5 busy]\0\0\0", "sidekiq"),
        ] {
            assert_eq!(name(b"/usr/bin/ruby", title.as_bytes()).as_deref(), Some(expected));
        }
    }

    proptest! {
        #[test]
        fn any_command_line_has_a_name(language in 0..INTERPRETERS.len(), bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let exe = format!("/usr/bin/{}", INTERPRETERS[language].0);
            prop_assert!(name(exe.as_bytes(), &bytes).is_some_and(|name| !name.is_empty()));
        }

        #[test]
        fn any_words_have_a_name(language in 0..INTERPRETERS.len(), words in proptest::collection::vec("[-+@=a-zé./]{0,6}", 0..8)) {
            let exe = format!("/usr/bin/{}", INTERPRETERS[language].0);
            prop_assert!(name(exe.as_bytes(), words.join("\0").as_bytes()).is_some_and(|name| !name.is_empty()));
        }
    }
}
