#!/bin/sh
# Installs the tools that only `make dist` needs, in pinned versions, below target/dist-tools. POSIX sh.
#
#   scripts/dist/tools.sh NAME…      zig, cargo-deb, cargo-generate-rpm, cargo-cyclonedx; prints the folder of their programs
#
# A tool that is there in its version is not asked for again, and then no network is needed.
set -eu
cd "$(dirname "$0")/../.."

tools=$PWD/target/dist-tools
mkdir -p "$tools/bin"

die() {
	printf 'tools.sh: %s\n' "$1" >&2
	exit 1
}

# Zig: a C compiler for any processor, with musl and the kernel's headers, as one package of Python's registry. Only
# what has one of these hashes is installed.
zig_version=0.15.2
zig_x86_64=806316453d1ede7174ed3fefb8e5348154629089c3bb5fe812dfd0e172fac130
zig_aarch64=edc0aa60ec964a4cf462d40f68d7de242ddf37fd9a80f2afaee6397059463230

get_zig() {
	if [ -x "$tools/zig/ziglang/zig" ] && [ "$(cat "$tools/zig/version" 2>/dev/null)" = $zig_version ]; then
		return
	fi
	rm -rf "$tools/zig"
	requirement=$(mktemp)
	printf 'ziglang==%s --hash=sha256:%s --hash=sha256:%s\n' $zig_version $zig_x86_64 $zig_aarch64 >"$requirement"
	python3 -m pip install -q --root-user-action=ignore --disable-pip-version-check --no-deps --only-binary :all: --require-hashes \
		--target "$tools/zig" -r "$requirement" >&2 || {
		rm -f "$requirement"
		die "pip could not install ziglang $zig_version; is there a network?"
	}
	rm -f "$requirement"
	echo $zig_version >"$tools/zig/version"
}

# crate NAME VERSION: a program of cargo's registry. How fast it is built matters; it has to compress a package, though.
crate() {
	if [ -x "$tools/bin/$1" ] && grep -q "^\"$1 $2 " "$tools/.crates.toml" 2>/dev/null; then
		return
	fi
	# Nothing that is set for the program itself is for these.
	env -u RUSTFLAGS CARGO_PROFILE_RELEASE_OPT_LEVEL=1 CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_DEBUG=0 \
		CARGO_PROFILE_RELEASE_CODEGEN_UNITS=16 CARGO_TARGET_DIR="$tools/build" \
		cargo install -q --locked --force --root "$tools" --version "=$2" "$1" >&2 ||
		die "cargo could not install $1 $2; is there a network?"
}

for name in "$@"; do
	case $name in
	zig) get_zig ;;
	cargo-deb) crate cargo-deb 3.8.0 ;;
	cargo-generate-rpm) crate cargo-generate-rpm 0.21.1 ;;
	cargo-cyclonedx) crate cargo-cyclonedx 0.5.9 ;;
	*) die "unknown tool \`$name\`" ;;
	esac
done
rm -rf "$tools/build"
printf '%s\n' "$tools/bin"
