#!/bin/sh
# Downloads one of Debian's kernels and unpacks it, without installing anything. POSIX sh; needs apt-get and a Debian.
#
#   scripts/kernels/get.sh SUITE PATTERN FOLDER [ARCHITECTURE]      prints the folder of the kernel: FOLDER/VERSION
#
# ARCHITECTURE is as Debian calls it (arm64); that of this machine without it. PATTERN may name any other package, too.
# SUITE is one of Debian's (bookworm, bookworm-security, trixie-backports, …); of the packages whose names match PATTERN,
# an extended regular expression, the newest is taken. The machine's own package lists stay as they are: what apt has to
# remember of the suite is kept under FOLDER/.apt. A kernel that is there already is not asked for again.
set -eu

die() {
	printf 'get.sh: %s\n' "$1" >&2
	exit 1
}

[ $# = 3 ] || [ $# = 4 ] || die "usage: scripts/kernels/get.sh SUITE PATTERN FOLDER [ARCHITECTURE]"
suite=$1
pattern=$2
mkdir -p "$3"
folder=$(cd "$3" && pwd)
command -v apt-get >/dev/null 2>&1 || die "there is no apt-get here"
keyring=/usr/share/keyrings/debian-archive-keyring.gpg
[ -r $keyring ] || die "there is no $keyring: this is no Debian"

architecture=${4:-$(dpkg --print-architecture)}
state=$folder/.apt/$suite.$architecture
mkdir -p "$state/lists/partial" "$state/cache/archives/partial"

# The mirror that this machine uses, of the security archive or of the main one.
# shellcheck disable=SC2016
mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Identifier: Packages' | sort -u |
	grep -E 'debian(-security)?/ ' |
	case $suite in
	*-security) grep -e '-security$' ;;
	*) grep -v -e '-security$' ;;
	esac | sed -n '1s/ .*//p')
[ -n "$mirror" ] || die "apt knows no mirror of Debian for $suite here (apt-get update?)"
printf 'deb [signed-by=%s] %s %s main\n' "$keyring" "$mirror" "$suite" >"$state/sources.list"

# apt, with the suite alone.
apt() {
	tool=$1
	shift
	"$tool" -q -o Dir::Etc::sourcelist="$state/sources.list" -o Dir::Etc::sourceparts=/nonexistent \
		-o Dir::State::lists="$state/lists" -o Dir::Cache="$state/cache" -o APT::Sandbox::User=root \
		-o APT::Architecture="$architecture" -o APT::Architectures="$architecture" -o Dir::State::status=/dev/null \
		-o Acquire::IndexTargets::deb::DEP-11::DefaultEnabled=false \
		-o Acquire::IndexTargets::deb::Translations::DefaultEnabled=false "$@"
}

[ -n "$(find "$state/lists" -name '*Packages*' -mmin -720)" ] || apt apt-get update >&2
package=$(apt apt-cache dumpavail | sed -n 's/^Package: //p' | grep -E "$pattern" | grep -v -e -dbg | sort -V | tail -n 1)
[ -n "$package" ] || die "no package of $suite matches $pattern"
version=${package#linux-image-}
kernel=$folder/${version%-unsigned}
if [ ! -e "$kernel/.complete" ]; then
	rm -rf "$kernel"
	mkdir -p "$kernel"
	rm -f "$state"/*.deb
	# Newer packages leave the image to another one, of the same build, that they depend on.
	parts=$(apt apt-cache depends --no-recommends --no-suggests --no-conflicts --no-breaks --no-replaces --no-enhances \
		"$package" | sed -n 's/^ *|\{0,1\}Depends: \(linux-binary-[0-9].*\)$/\1/p')
	# Unquoted on purpose: a package is one word.
	(cd "$state" && apt apt-get download $package $parts >&2)
	for file in "$state"/*.deb; do
		dpkg-deb -x "$file" "$kernel"
	done
	rm -f "$state"/*.deb
	: >"$kernel/.complete"
fi
printf '%s\n' "$kernel"
