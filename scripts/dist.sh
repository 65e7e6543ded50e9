#!/bin/sh
# Makes what a release consists of, in target/packages/out. POSIX sh.
#
#   scripts/dist.sh [ARCH…]      x86_64 and aarch64; that of this machine without one
#
#   prof-ARCH-linux              the static program, stripped; prof-ARCH-linux.debug: its debug information
#   prof-ARCH-linux.tar.gz       the same program with manual pages, completions and licences
#   prof_VERSION-1_*.deb, prof-VERSION-1.*.rpm
#   prof-ARCH-linux.cdx.json     what it is made of (an SBOM of CycloneDX)
#   SHA256SUMS                   of all of these
#
# target/packages/image is the context of packaging/Dockerfile. Two runs on the same commit write the same bytes, wherever the
# sources are; `scripts/dist/same.sh` checks that.
set -eu

die() {
	printf 'dist.sh: %s\n' "$1" >&2
	exit 1
}

cd "$(dirname "$0")/.."
machine=$(uname -m)
[ $# -gt 0 ] || set -- "$machine"
out=$PWD/target/packages/out
stage=$PWD/target/packages/stage
image=$PWD/target/packages/image
# ≤ 17 MB: it is copied to machines. The agent and what it speaks (TOML, HTTP, two protocols) are 1.2 MB of it.
limit=17000000
version=$(sed -n 's/^version = "\(.*\)"$/\1/p' Cargo.toml | head -n 1)
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
umask 022
rm -rf "$out" "$image"
mkdir -p "$out" "$image"

tools=$(scripts/dist/tools.sh zig cargo-deb cargo-generate-rpm cargo-cyclonedx)
PATH=$tools:$PATH

# The program $1, run on this machine.
run() {
	program=$1
	shift
	case $program in
	*"/$machine/"*) "$program" "$@" ;;
	*) "$(command -v "qemu-$arch-static" || echo "qemu-$arch")" "$program" "$@" ;;
	esac
}

# What may not be in a release is found before it is packed: in the program $1, or in $2, the same with its debug information, which
# is compressed later.
check_program() {
	size=$(wc -c <"$1")
	[ "$size" -le $limit ] || die "$1 is larger than $limit bytes: $size"
	if llvm-readelf -l -d "$1" | grep -E 'INTERP|NEEDED'; then
		die "$1 is not static"
	fi
	# Options of the allocator, which the environment of a recorded program may have, are not for prof.
	! MIMALLOC_VERBOSE=1 run "$PWD/$1" --version 2>&1 | grep -q '^mimalloc' || die "$1 takes mimalloc's options from the environment"
	for path in "$PWD" "${CARGO_HOME:-$HOME/.cargo}" "$(rustc --print sysroot)"; do
		! grep -q -a -F "$path" "$1" "$2" || die "$1 or its debug file has the path \`$path\` of this machine"
	done
}

# All that the packages and the archive have in common, in one folder.
fill_stage() {
	rm -rf "$stage"
	mkdir -p "$stage/man1" "$stage/man8" "$stage/completions" "$stage/doc"
	cp "target/packages/$arch/prof" "$stage/prof"
	# What is packaged as it is.
	mkdir "$stage/tree"
	cp -R README.md LICENSE LICENSE-* docs packaging "$stage/tree/"
	# What a shell completes does not depend on the processor.
	for shell in bash:prof zsh:_prof fish:prof.fish; do
		run "$PWD/target/packages/$arch/prof" completions "${shell%%:*}" >"$stage/completions/${shell#*:}"
	done
	cp man/*.1 "$stage/man1/"
	cp packaging/*.8 "$stage/man8/"
	gzip -9n "$stage"/man1/* "$stage"/man8/*
	scripts/dist/licences.sh "$arch-unknown-linux-musl" >"$stage/doc/THIRD-PARTY-LICENCES"
	{
		printf 'prof (%s-1) stable; urgency=medium\n\n  * See CHANGELOG.md.\n\n' "$version"
		printf ' -- %s  %s\n' "$(sed -n 's/^maintainer = "\(.*\)"$/\1/p' Cargo.toml)" "$(date -R -d "@$SOURCE_DATE_EPOCH")"
	} >"$stage/changelog"
}

archive() {
	name=prof-$arch-linux
	rm -rf "$stage/$name"
	mkdir -p "$stage/$name"
	cp -R "$stage/prof" "$stage/completions" "$stage/doc/THIRD-PARTY-LICENCES" README.md CHANGELOG.md LICENSE LICENSE-* LICENSES \
		THIRD-PARTY-NOTICES.md "$stage/$name/"
	mkdir "$stage/$name/man"
	cp man/*.1 "$stage/$name/man/"
	# mtime, owners and order are those of no machine.
	tar --sort=name --mtime="@$SOURCE_DATE_EPOCH" --owner=0 --group=0 --numeric-owner --mode=u+rwX,go+rX,go-w -C "$stage" -cf - "$name" |
		gzip -9n >"$out/$name.tar.gz"
	rm -rf "${stage:?}/$name"
}

packages() {
	target=$arch-unknown-linux-musl
	find "$stage" -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +
	cargo deb -q --no-build --no-strip --target "$target" -o "$out/"
	# The target's folder is not looked at: all files are those of the stage.
	cargo generate-rpm --target "$target" --auto-req disabled --payload-compress gzip -o "$out/prof-$version-1.$arch.rpm"
}

for arch in "$@"; do
	scripts/dist/build.sh "$arch"
	check_program "target/packages/$arch/prof" "target/$arch-unknown-linux-musl/dist/prof"
	[ "$arch" != "$machine" ] || scripts/doors.sh "target/packages/$arch/prof"
	cp "target/packages/$arch/prof" "$out/prof-$arch-linux"
	cp "target/packages/$arch/prof.debug" "$out/prof-$arch-linux.debug"
	fill_stage
	archive
	gzip -9n "$stage/doc/THIRD-PARTY-LICENCES"
	packages
	scripts/dist/sbom.sh "$arch-unknown-linux-musl" >"$out/prof-$arch-linux.cdx.json"
	case $arch in
	x86_64) docker=amd64 ;;
	aarch64) docker=arm64 ;;
	esac
	mkdir -p "$image/$docker"
	cp "target/packages/$arch/prof" "$image/$docker/prof"
done
cp packaging/Dockerfile "$image/Dockerfile"
(cd "$out" && sha256sum prof* >SHA256SUMS)
ls -l "$out"
