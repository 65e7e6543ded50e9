#!/bin/sh
# Builds everything a second time, in a copy of the sources in another folder, and compares it with target/packages/out. POSIX sh.
#
#   scripts/dist/same.sh [ARCH…]      as given to scripts/dist.sh
#
# The copy is of the commit: what is not committed is not in it, and then nothing can be said.
set -eu

die() {
	printf 'same.sh: %s\n' "$1" >&2
	exit 1
}

cd "$(dirname "$0")/../.."
[ -z "$(git status --porcelain)" ] || die "some changes are not committed"
[ -e target/packages/out/SHA256SUMS ] || die "there is no target/packages/out: scripts/dist.sh"
work=$(mktemp -d "${TMPDIR:-/tmp}/prof-second-build.XXXXXX")
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM

git clone -q --no-local . "$work/elsewhere"
mkdir -p "$work/elsewhere/target"
# The tools are the same; what they have cached is not.
cp -R target/dist-tools "$work/elsewhere/target/dist-tools"
rm -rf "$work/elsewhere/target/dist-tools/cache"
(cd "$work/elsewhere" && scripts/dist.sh "$@" >&2)

status=0
for file in target/packages/out/*; do
	name=${file##*/}
	if cmp -s "$file" "$work/elsewhere/target/packages/out/$name"; then
		echo "same       $name"
	else
		echo "DIFFERENT  $name: $(cmp -l "$file" "$work/elsewhere/target/packages/out/$name" 2>/dev/null | wc -l) bytes"
		status=1
	fi
done
if [ $status != 0 ]; then
	# What differs has to be looked at.
	rm -rf target/packages/second
	cp -R "$work/elsewhere/target/packages/out" target/packages/second
	echo "same.sh: the second build differs: it is in target/packages/second, the first one in target/packages/out" >&2
fi
exit $status
