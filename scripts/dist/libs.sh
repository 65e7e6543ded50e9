#!/bin/sh
# Builds libelf and zlib as static libraries for a musl target, for scripts/dist/build.sh. POSIX sh.
#
#   scripts/dist/libs.sh CC AR FOLDER      writes FOLDER/lib/*.a and FOLDER/include/*.h
#
# The sources are those in the package libbpf-sys, whose version and hash Cargo.lock has. Its own way to build them (the feature
# `vendored`) runs autoconf in cargo's folder of sources, and does not work with musl, which has no argp; the library itself
# needs neither.
set -eu

die() {
	printf 'libs.sh: %s\n' "$1" >&2
	exit 1
}

[ $# = 3 ] || die "usage: scripts/dist/libs.sh CC AR FOLDER"
cc=$1
ar=$2
mkdir -p "$3"
out=$(cd "$3" && pwd)
cd "$(dirname "$0")/../.."

# The folder of libbpf-sys, in cargo's folder of sources: its manifest is the only path that ends so.
manifest=$(cargo metadata --locked --format-version 1 | tr ',' '\n' |
	sed -n 's/^"manifest_path":"\(.*\/libbpf-sys-[^"]*\/Cargo\.toml\)"$/\1/p' | head -n 1)
[ -n "$manifest" ] || die "cargo metadata has no libbpf-sys"
sources=${manifest%/Cargo.toml}
[ -d "$sources/elfutils/libelf" ] && [ -d "$sources/zlib" ] || die "there is no elfutils or no zlib in \`$sources\`"

rm -rf "$out/lib" "$out/include" "$out/objects"
mkdir -p "$out/lib" "$out/include" "$out/objects/elf" "$out/objects/z"
version=$(sed -n 's/^AC_INIT(\[elfutils\],\[\([0-9.]*\)\].*/\1/p' "$sources/elfutils/configure.ac")
[ -n "$version" ] || die "elfutils in \`$sources\` has no version"

# What configure would find with musl, of all that libelf itself asks for. Like the distributions' libelf, it has no locks.
cat >"$out/objects/config.h" <<CONFIG
#define PACKAGE_NAME "elfutils"
#define PACKAGE_VERSION "$version"
#define HAVE_DECL_MEMPCPY 1
#define HAVE_DECL_MEMRCHR 1
#define HAVE_DECL_POWEROF2 1
#define HAVE_DECL_RAWMEMCHR 0
#define HAVE_DECL_REALLOCARRAY 1
#define HAVE_ERR_H 1
#define HAVE_MREMAP 1
#define HAVE_VISIBILITY 1
#include <eu-config.h>
CONFIG

# compile KIND FLAGS… -- FILE…: objects without paths of this machine, with asserts as little as in the distributions' builds, and
# without a word about the C of long ago that zlib is written in.
compile() {
	kind=$1
	shift
	flags=
	while [ "$1" != -- ]; do
		flags="$flags $1"
		shift
	done
	shift
	for file in "$@"; do
		object=${file##*/}
		# Unquoted on purpose: flags are words. No path in them has a blank: cargo's and ours are checked below.
		printf '%s\0' "$file" "$out/objects/$kind/${object%.c}.o"
	done | xargs -0 -n 2 -P "$(nproc)" sh -c '"$0" '"$flags"' -w -O2 -fPIC -ffile-prefix-map='"$PWD"'=. -ffile-prefix-map='"$sources"'=libbpf-sys -ffile-prefix-map='"$out"'=libs -c -o "$2" "$1"' "$cc"
	rm -f "$out/lib/lib$kind.a"
	"$ar" crsD "$out/lib/lib$kind.a" "$out/objects/$kind/"*.o
}
case $sources$out in
*[!A-Za-z0-9/._+@:-]*) die "cannot build in a folder whose path has blanks or quotes: \`$sources\`, \`$out\`" ;;
esac

compile z -DHAVE_HIDDEN -D_LARGEFILE64_SOURCE=1 -DHAVE_UNISTD_H -DHAVE_STDARG_H -- "$sources"/zlib/*.c
cp "$sources/zlib/zlib.h" "$sources/zlib/zconf.h" "$out/include/"
compile elf -std=gnu99 -DHAVE_CONFIG_H -D_GNU_SOURCE -D_FILE_OFFSET_BITS=64 -I"$out/objects" -I"$sources/elfutils/libelf" \
	-I"$sources/elfutils/lib" -I"$out/include" -- "$sources"/elfutils/libelf/*.c
cp "$sources/elfutils/libelf/libelf.h" "$sources/elfutils/libelf/gelf.h" "$sources/elfutils/libelf/elf.h" "$out/include/"
rm -rf "$out/objects"
