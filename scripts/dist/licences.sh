#!/bin/sh
# Prints the licence texts of all that is linked into the static program for a target, each text once. POSIX sh; needs jq.
#
#   scripts/dist/licences.sh TARGET
#
# THIRD-PARTY-NOTICES.md says which licences are chosen; this is what these licences want to go with a program.
set -eu
cd "$(dirname "$0")/../.."
[ $# = 1 ] || {
	echo "usage: scripts/dist/licences.sh TARGET" >&2
	exit 2
}
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# `name version` of what is linked, then their folders.
cargo tree --locked --target "$1" --features static --edges normal --prefix none --format '{p}' |
	sed -e 's/ (.*//' -e 's/ v/ /' | grep -v '^prof ' | LC_ALL=C sort -u >"$work/linked"
cargo metadata --locked --format-version 1 --filter-platform "$1" |
	jq -r '.packages[] | "\(.name) \(.version)|\(.manifest_path)"' >"$work/folders"

# text TITLE FILE: remembers the title under the text.
text() {
	sum=$(sha256sum <"$2" | cut -d' ' -f1)
	[ -e "$work/$sum.text" ] || cp "$2" "$work/$sum.text"
	printf '%s\n' "$1" >>"$work/$sum.titles"
}

while IFS= read -r crate; do
	manifest=$(awk -F'|' -v crate="$crate" '$1 == crate { print $2 }' "$work/folders")
	[ -n "$manifest" ] || {
		echo "licences.sh: cargo metadata has no $crate" >&2
		exit 1
	}
	found=
	for file in "${manifest%/*}"/LICEN[CS]E* "${manifest%/*}"/COPYING* "${manifest%/*}"/UNLICENSE* "${manifest%/*}"/NOTICE* \
		"${manifest%/*}"/license*; do
		[ -f "$file" ] || continue
		found=yes
		text "$crate" "$file"
	done
	[ -n "$found" ] || printf '%s\n' "$crate" >>"$work/without"
	case $crate in
	libbpf-sys\ *)
		folder=${manifest%/*}
		text "libbpf (in $crate)" "$folder/libbpf/LICENSE.BSD-2-Clause"
		text "libelf of elfutils (in $crate), statically linked" "$folder/elfutils/COPYING-LGPLV3"
		text "libelf of elfutils (in $crate), statically linked" "$folder/elfutils/COPYING-GPLV2"
		text "zlib (in $crate)" "$folder/zlib/LICENSE"
		;;
	zstd-sys\ *) text "zstd (in $crate)" "${manifest%/*}/zstd/LICENSE" ;;
	esac
done <"$work/linked"

cat <<'TEXT'
Licences of what is linked into the static program `prof`

libelf (elfutils) is under the GNU Lesser General Public License 3 or later, or the GNU General Public License 2 or
later. Its source is in the package libbpf-sys of the version below; `make dist` in the sources of prof links the program
again, also with a changed libelf.

musl is the C library, as the Rust project builds it: Copyright (C) 2005-2020 Rich Felker, et al., under the MIT licence.
The standard library of Rust is under the MIT licence or the Apache License 2.0. The texts of the two are below.

TEXT
if [ -s "$work/without" ]; then
	echo "These crates carry no file with a licence; THIRD-PARTY-NOTICES.md has the licence that each declares:"
	sed 's/^/  /' "$work/without"
	echo
fi
for titles in "$work"/*.titles; do
	printf '%s\n' "------------------------------------------------------------------------"
	LC_ALL=C sort -u "$titles"
	printf '\n'
	tr -d '\r' <"${titles%.titles}.text"
	printf '\n'
done
