#!/bin/sh
# Prints what the static program for a target is made of, as an SBOM of CycloneDX. POSIX sh; needs jq and cargo-cyclonedx.
#
#   scripts/dist/sbom.sh TARGET
#
# cargo knows the crates; the C libraries in them, and the C library of the target, are added here, with the versions that
# their sources have.
set -eu
cd "$(dirname "$0")/../.."
[ $# = 1 ] || {
	echo "usage: scripts/dist/sbom.sh TARGET" >&2
	exit 2
}
PATH=$(scripts/dist/tools.sh cargo-cyclonedx):$PATH

file=$PWD/prof-sbom.json
trap 'rm -f "$file"' EXIT
cargo cyclonedx -qq --format json --spec-version 1.5 --features static --target "$1" --no-build-deps --override-filename prof-sbom >&2
libbpf_sys=$(cargo metadata --locked --format-version 1 --filter-platform "$1" |
	jq -r '.packages[] | select(.name == "libbpf-sys") | .manifest_path')
libbpf_sys=${libbpf_sys%/*}
elfutils=$(sed -n 's/^AC_INIT(\[elfutils\],\[\([0-9.]*\)\].*/\1/p' "$libbpf_sys/elfutils/configure.ac")
zlib=$(sed -n 's/^#define ZLIB_VERSION "\(.*\)"$/\1/p' "$libbpf_sys/zlib/zlib.h")
libc=$(strings -a "$(rustc --print sysroot)/lib/rustlib/$1/lib/self-contained/libc.a" | grep -x '1\.2\.[0-9]*' | head -n 1)
rust=$(rustc -V | cut -d' ' -f2)

# cargo-cyclonedx also takes what only tests turn on: the list of what is linked is cargo's own.
linked=$(cargo tree --locked --target "$1" --features static --edges normal --prefix none --format '{p}' |
	sed -e 's/ (.*//' -e 's/ v/ /' | LC_ALL=C sort -u)

# No serial number and no time: the same sources give the same file.
jq --arg linked "$linked" --arg root "$PWD" --arg elfutils "$elfutils" --arg zlib "$zlib" --arg musl "${libc:-unknown}" --arg rust "$rust" '
	def library($name; $version; $licence; $purl):
		{type: "library", name: $name, version: $version, "bom-ref": $purl, purl: $purl,
		 licenses: [{expression: $licence}], scope: "required"};
	($linked | split("\n")) as $names
	| del(.serialNumber, .metadata.timestamp)
	| .components |= map(select("\(.name) \(.version)" as $name | $names | index($name)))
	| ([.metadata.component."bom-ref"] + [.components[]."bom-ref"]) as $kept
	| .dependencies |= map(select(.ref as $ref | $kept | index($ref)) | .dependsOn |= ((. // []) - ((. // []) - $kept)))
	| .components += [
		library("elfutils"; $elfutils; "LGPL-3.0-or-later OR GPL-2.0-or-later"; "pkg:generic/elfutils@" + $elfutils),
		library("zlib"; $zlib; "Zlib"; "pkg:generic/zlib@" + $zlib),
		library("musl"; $musl; "MIT"; "pkg:generic/musl@" + $musl),
		library("rust-std"; $rust; "MIT OR Apache-2.0"; "pkg:generic/rust-std@" + $rust)]
	| walk(if type == "string" then gsub("path\\+file://" + $root; "path+file:///prof") | gsub("file://" + $root; "file:///prof") else . end)
' "$file"
