//! What the packages, the image and the workflows say about the program is so: `make dist` takes minutes and runs at releases,
//! this runs with the other tests.

use prof::internals::record::CAPABILITIES;
use serde_json::Value;
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

fn root() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR"))
}

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// Cargo.toml as cargo reads it.
fn manifest() -> Value {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--locked", "--offline", "--no-deps", "--format-version", "1"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let all: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
    all["packages"][0].clone()
}

/// Where the files of a package come from and go to: of cargo-deb, of cargo-generate-rpm.
fn assets(manifest: &Value, kind: &str) -> Vec<(String, String)> {
    let text = |value: &Value| value.as_str().expect("a path is text").to_owned();
    let list = manifest["metadata"][kind]["assets"].as_array().expect("a package has files");
    list.iter()
        .map(|asset| match asset {
            Value::Array(parts) => (text(&parts[0]), text(&parts[1])),
            table => (text(&table["source"]), text(&table["dest"])),
        })
        .collect()
}

const KINDS: [&str; 2] = ["deb", "generate-rpm"];

#[test]
fn every_file_that_a_package_takes_from_the_sources_is_there() {
    let manifest = manifest();
    for kind in KINDS {
        for (source, _) in assets(&manifest, kind) {
            // Copies of the sources, of the time of the commit.
            let source = source.strip_prefix("target/packages/stage/tree/").unwrap_or(&source);
            // Those are made by scripts/dist.sh; the next test has them.
            if source.starts_with("target/packages/stage/") {
                continue;
            }
            let pattern = root().join(source);
            let found = glob::glob(&pattern.to_string_lossy()).expect("it is a pattern").flatten().count();
            assert!(found > 0, "{kind}: there is no {source}");
        }
    }
}

#[test]
fn packages_have_the_program_every_manual_page_and_the_completions_of_every_shell() {
    let manifest = manifest();
    for kind in KINDS {
        let assets = assets(&manifest, kind);
        let has = |end: &str| assets.iter().any(|(_, to)| to.trim_start_matches('/') == end);
        for file in [
            "usr/bin/prof",
            "usr/sbin/prof-capabilities",
            "usr/lib/sysusers.d/prof.conf",
            "usr/lib/systemd/system/prof-agent.service",
            "usr/share/doc/prof/agent.toml",
            "usr/share/man/man1/",
            "usr/share/man/man8/",
            "usr/share/bash-completion/completions/prof",
            "usr/share/fish/vendor_completions.d/prof.fish",
        ] {
            assert!(has(file), "{kind} lacks {file}");
        }
        assert!(assets.iter().any(|(_, to)| to.ends_with("/_prof")), "{kind} lacks the completions of zsh");
        // The folder as a whole is staged: a page that is added is in the packages.
        assert!(assets.iter().any(|(from, _)| from == "target/packages/stage/man1/*.gz"), "{kind}");
    }
    let staged = read("scripts/dist.sh");
    assert!(staged.contains("cp man/*.1 \"$stage/man1/\""), "manual pages are not staged");
    for shell in ["bash:prof", "zsh:_prof", "fish:prof.fish"] {
        assert!(staged.contains(shell), "completions for {shell} are not staged");
    }
}

#[test]
fn capabilities_are_given_by_name_and_only_on_request() {
    let script = read("packaging/prof-capabilities");
    let line = script.lines().find(|line| line.starts_with("capabilities=")).expect("the script has a list");
    let given: BTreeSet<&str> =
        line.trim_start_matches("capabilities=").trim_end_matches("+ep").split(',').collect();
    let needed: Vec<String> = CAPABILITIES.iter().map(|capability| capability.name.to_lowercase()).collect();
    assert_eq!(given, needed.iter().map(String::as_str).collect(), "as README.md has them");

    for path in ["packaging/debian/postinst", "packaging/rpm/post.sh"] {
        let script = read(path);
        assert!(
            script.contains("prof-capabilities again"),
            "{path}: an upgrade loses capabilities that were asked for"
        );
        assert!(
            !script.contains("setcap") && !script.contains("prof-capabilities on"),
            "{path} gives capabilities unasked"
        );
    }
    // Modes in the packages: nobody else's program, nothing setuid.
    for (source, _) in assets(&manifest(), "deb").iter().filter(|(_, to)| to == "usr/bin/prof") {
        assert!(read("Cargo.toml").contains(&format!("[\"{source}\", \"usr/bin/prof\", \"755\"]")));
    }
}

/// The agent as a service and in Kubernetes: the same six rights, of which docs/fleet.md says what each is for.
#[test]
fn the_agent_has_the_same_rights_wherever_it_runs() {
    let wanted = ["BPF", "CHECKPOINT_RESTORE", "DAC_READ_SEARCH", "PERFMON", "SYSLOG", "SYS_PTRACE"];
    let unit = read("packaging/prof-agent.service");
    for key in ["AmbientCapabilities=", "CapabilityBoundingSet="] {
        let line = unit.lines().find_map(|line| line.strip_prefix(key)).expect(key);
        let given: BTreeSet<&str> = line.split(' ').map(|name| name.trim_start_matches("CAP_")).collect();
        assert_eq!(given, BTreeSet::from(wanted), "{key}");
    }
    let manifest = read("packaging/kubernetes/prof-agent.yaml");
    let line =
        manifest.lines().find_map(|line| line.trim().strip_prefix("add: ")).expect("it adds capabilities");
    let given: Vec<String> = serde_json::from_str(line).expect("it is a list");
    assert_eq!(given.iter().map(String::as_str).collect::<BTreeSet<_>>(), BTreeSet::from(wanted));
    for line in ["drop: [\"ALL\"]", "privileged: false", "readOnlyRootFilesystem: true", "hostPID: true"] {
        assert!(manifest.lines().any(|own| own.trim() == line), "the manifest lacks {line}");
    }
    let page = read("docs/fleet.md");
    for name in wanted {
        assert!(page.contains(&format!("CAP_{name}")), "docs/fleet.md says nothing of CAP_{name}");
        assert!(page.contains(&format!("--cap-add {name}")), "docs/fleet.md: docker run lacks {name}");
    }
}

/// systemd reads the unit, where it is installed: no key that it does not know.
#[test]
fn systemd_knows_every_line_of_the_agents_unit() {
    let unit = root().join("packaging/prof-agent.service");
    let Ok(output) = Command::new("systemd-analyze").args(["verify", "--man=no"]).arg(unit).output() else {
        println!("skipped: no systemd-analyze");
        return;
    };
    let said = String::from_utf8_lossy(&output.stderr);
    // The program is not where the packages put it, and neither is the rest of a machine.
    let own = said
        .lines()
        .filter(|line| line.contains("prof-agent.service:") && !line.contains("is not executable"));
    assert_eq!(own.collect::<Vec<_>>(), Vec::<&str>::new());
}

#[test]
fn one_version_is_said_everywhere() {
    let manifest = manifest();
    let version = manifest["version"].as_str().expect("the crate has a version");
    for kind in KINDS {
        assert!(manifest["metadata"][kind]["version"].is_null(), "{kind} takes the version of the crate");
    }
    let lock = read("Cargo.lock");
    assert!(lock.contains(&format!("name = \"prof\"\nversion = \"{version}\"\n")), "Cargo.lock");
    let page = read("man/prof.1");
    assert!(page.contains(&format!("\"prof {version}\"")), "man/prof.1");
}

/// `uses:` of all workflows: a name that can move is no version.
#[test]
fn workflows_use_actions_by_commit() {
    let mut seen = 0;
    for path in workflows() {
        let text = fs::read_to_string(&path).expect("a workflow is text");
        for line in text.lines().filter_map(|line| line.split_once("uses: ").map(|(_, rest)| rest)) {
            let (action, version) = line.split_once(" # ").expect("the version is a comment");
            let commit = action.split_once('@').map_or("", |(_, commit)| commit);
            let is_commit = commit.len() == 40 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
            assert!(is_commit && version.starts_with('v'), "{}: {line}", path.display());
            seen += 1;
        }
    }
    assert!(seen > 0, "no workflow uses an action");
}

/// A workflow runs what a person can run: scripts and targets that are there.
#[test]
fn workflows_run_scripts_that_exist() {
    let makefile = read("Makefile");
    for path in workflows() {
        let text = fs::read_to_string(&path).expect("a workflow is text");
        for word in text.split(|letter: char| letter.is_whitespace() || "'\"()".contains(letter)) {
            if word.starts_with("scripts/") || word.starts_with(".ci/") {
                assert!(root().join(word).exists(), "{}: there is no {word}", path.display());
            }
        }
        for target in text.lines().filter_map(|line| line.trim().strip_prefix("run: make ")) {
            assert!(
                makefile.contains(&format!("\n{target}:")),
                "{}: there is no target {target}",
                path.display()
            );
        }
    }
}

fn workflows() -> Vec<PathBuf> {
    let folder = root().join(".github/workflows");
    let files = fs::read_dir(folder).expect("there are workflows").flatten().map(|file| file.path());
    files.filter(|path| path.extension().is_some_and(|extension| extension == "yml")).collect()
}

#[test]
fn the_image_takes_what_dist_puts_into_its_context() {
    let dockerfile = read("packaging/Dockerfile");
    assert!(dockerfile.contains("FROM scratch\n"), "nothing but the program is in the image");
    assert!(dockerfile.contains("COPY ${TARGETARCH}/prof /usr/bin/prof"));
    let dist = read("scripts/dist.sh");
    assert!(dist.contains("$image/$docker/prof"));
    for processor in ["docker=amd64", "docker=arm64"] {
        assert!(dist.contains(processor), "{processor}");
    }
}

/// Scripts run what make has built: they would not find it where cargo is set to build elsewhere.
#[test]
fn make_builds_in_the_clone() {
    let output = Command::new("make")
        .args(["-s", "--no-print-directory", "--eval", "where: ; @echo \"$$CARGO_TARGET_DIR\"", "where"])
        .current_dir(root())
        .env("CARGO_TARGET_DIR", "/elsewhere")
        .env_remove("MAKEFLAGS")
        .output()
        .expect("make runs");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), root().join("target").to_string_lossy());
}
