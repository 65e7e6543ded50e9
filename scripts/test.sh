#!/bin/sh
# Runs everything that continuous integration checks and ends with a summary. POSIX sh.
#
#   scripts/test.sh          all of it
#   scripts/test.sh quick    without the tests: format, lints, documentation, generated files
#
# A step that fails does not stop the others; the exit status is 1 if any failed.
# Tests append their `skipped: reason` lines to the file named by PROF_TEST_SKIPS.
set -u
cd "$(dirname "$0")/.." || exit 1

mode=${1:-all}
# Where everything is built for the first time, there is nothing to build upon, and what is kept for that costs time.
[ -d target ] || export CARGO_INCREMENTAL=0
work=$(mktemp -d) || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
PROF_TEST_SKIPS=$work/skips
export PROF_TEST_SKIPS
: >"$PROF_TEST_SKIPS"
: >"$work/summary"
: >"$work/said"
failed=0

# step NAME COMMAND…: runs the command and notes how it went and how long it took.
step() {
	name=$1
	shift
	printf '\n==> %s\n' "$name"
	began=$(date +%s)
	if "$@"; then
		verdict=ok
	else
		verdict=FAILED
		failed=1
	fi
	took=$(($(date +%s) - began))
	printf '%-7s %4d s  %s\n' "$verdict" "$took" "$name" >>"$work/summary"
}

bpf_style() {
	clang-format --dry-run -Werror src/bpf/c/*.c src/bpf/c/*.h src/bpf/c/*/*.h src/bpf/c/*/*/*.h tests/walker/host/*.h tests/walker/host/replay.c tests/walker/host/fuzz.c
}

rust_docs() {
	RUSTDOCFLAGS='-D warnings -A rustdoc::private_intra_doc_links' cargo doc --locked --no-deps --lib --document-private-items
}

shell_syntax() {
	for script in scripts/*.sh scripts/kernels/*.sh scripts/dist/*.sh packaging/prof-capabilities packaging/debian/post* packaging/rpm/*.sh benches/*.sh tests/fixtures/*.sh .ci/run; do
		sh -n "$script" || return 1
	done
}

# A manual page with a mistake in its markup still prints, but with a warning.
manual_pages() {
	for page in man/*.1 packaging/*.8; do
		[ -e "$page" ] || {
			echo "no manual pages under man/: run \`make man\`"
			return 1
		}
		if command -v man >/dev/null 2>&1; then
			LC_ALL=C.UTF-8 MANWIDTH=80 man --warnings -l "$page" >/dev/null 2>"$work/man" || return 1
			if [ -s "$work/man" ]; then
				cat "$work/man"
				return 1
			fi
		fi
	done
}

third_parties() {
	scripts/notices.sh >"$work/notices" || return 1
	if ! cmp -s "$work/notices" THIRD-PARTY-NOTICES.md; then
		diff -u THIRD-PARTY-NOTICES.md "$work/notices" | head -40
		echo "THIRD-PARTY-NOTICES.md is out of date: run \`make notices\`"
		return 1
	fi
}

# The scripts that `prof completions` prints have to be accepted by the shells they are for. The program is that of the tests: what
# `cargo build` makes has fewer features of some libraries, and takes minutes to be built besides.
completions() {
	prof=target/debug/prof
	[ -x "$prof" ] || {
		echo "the tests have not built $prof"
		return 1
	}
	for shell in bash zsh fish; do
		"$prof" completions "$shell" >"$work/completions" || return 1
		grep -q record "$work/completions" || {
			echo "completions for $shell do not know \`record\`"
			return 1
		}
		if command -v "$shell" >/dev/null 2>&1; then
			"$shell" -n "$work/completions" || return 1
		else
			echo "skipped: completions for $shell not parsed, it is not installed" | tee -a "$PROF_TEST_SKIPS"
		fi
	done
}

# More tests at a time than there are processors: those that record mostly sleep. What failed tests said is said again at the
# end: the output is long, and its end is what is kept of it.
rust_tests() {
	processors=$(nproc)
	{
		RUST_TEST_THREADS=$((processors > 4 ? processors : 4)) cargo test --locked --no-fail-fast 2>&1
		echo $? >"$work/status"
	} | tee "$work/tests"
	awk '/^---- .* ----$/ { lines = 8 } /^failures:$/ { lines = 0 } lines > 0 { lines--; print substr($0, 1, 300) }' "$work/tests" >"$work/said"
	[ "$(cat "$work/status")" = 0 ] || alone
}

# Runs the live tests that failed next to others once more, alone, and names them in the summary: what others take from a
# machine of few processors is no fault of prof. More than three are not the machine's doing, nor is a failure elsewhere.
alone() {
	grep -A1 '^error: 1 target failed:$' "$work/tests" | grep -q -- '--test live`$' || return 1
	# What failed tests said comes after that, and may be what other tests said.
	sed -n '/^failures:$/q; s/^test \(.*\) \.\.\. FAILED$/\1/p' "$work/tests" >"$work/failed"
	count=$(wc -l <"$work/failed")
	# Programs that tests start print, too: a line may be torn.
	grep '^test result: FAILED\.' "$work/tests" | tail -n 1 | grep -q " $count failed;" || return 1
	[ "$count" -gt 0 ] && [ "$count" -le 3 ] || return 1
	printf '\n==> again, alone: %s\n' "$(tr '\n' ' ' <"$work/failed")"
	# shellcheck disable=SC2046
	RUST_TEST_THREADS=1 cargo test --locked --test live -- --exact $(cat "$work/failed") 2>&1 || return 1
	cp "$work/failed" "$work/unsteady"
}

step 'Rust format' cargo fmt --check
step 'BPF C format' bpf_style
step 'shell syntax' shell_syntax
step 'clippy' cargo clippy --locked --all-targets -- -D warnings
# Without the feature that the tests turn on: what is released.
step 'clippy, as released' cargo clippy --locked -- -D warnings
step 'rustdoc' rust_docs
step 'manual pages' manual_pages
step 'third-party notices' third_parties
case $mode in
quick) step 'house' cargo test --locked --test house -- --nocapture ;;
all)
	step 'tests' rust_tests
	step 'completions' completions
	;;
*)
	echo "usage: scripts/test.sh [quick]" >&2
	exit 2
	;;
esac

if [ -s "$work/said" ]; then
	printf '\n==> failed tests\n'
	cat "$work/said"
fi
printf '\n==> summary\n'
cat "$work/summary"
if [ -s "$work/unsteady" ]; then
	echo "failed next to other tests, and passed alone:"
	sed 's/^/  /' "$work/unsteady"
fi
if [ -s "$PROF_TEST_SKIPS" ]; then
	echo "not checked on this machine:"
	sort -u "$PROF_TEST_SKIPS" | sed 's/^/  /'
fi
# The two reasons for which no test of a recording runs.
if [ "$(id -u)" = 0 ] && [ -e /sys/kernel/btf/vmlinux ] && grep -q 'live tests need' "$PROF_TEST_SKIPS"; then
	echo "live tests were skipped on a machine that has what they need"
	failed=1
fi
if [ $failed = 0 ]; then
	echo "all steps passed"
else
	echo "some steps FAILED"
fi
exit $failed
