#!/bin/sh
# Builds the fuzz targets of fuzz/ with libFuzzer and AddressSanitizer, and runs them one after the other. POSIX sh.
#
#   scripts/fuzz.sh                    all targets, FUZZ_SECONDS (600) each
#   scripts/fuzz.sh rings perf_map     these
#
# Needs no nightly toolchain and no cargo-fuzz: the flags are those that cargo-fuzz gives. New inputs are kept in
# target/fuzz/corpus and used by the next run; the small corpora in fuzz/corpus are where every run begins. An input that
# fails is written to target/fuzz/artifacts: mend what it shows, and keep the input in fuzz/corpus as a regression.
set -eu
cd "$(dirname "$0")/.."

seconds=${FUZZ_SECONDS:-600}
folder=${FUZZ_FOLDER:-$PWD/target/fuzz}
coverage='-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters'
coverage="$coverage -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares"
machine=$(rustc -vV | sed -n 's/^host: //p')

RUSTC_BOOTSTRAP=1 RUSTFLAGS="--cfg fuzzing $coverage -Zsanitizer=address -Cdebug-assertions" \
	cargo build --locked --release --manifest-path fuzz/Cargo.toml --target "$machine" --target-dir "$folder" --bins

if [ $# = 0 ]; then
	set -- $(sed -n 's/^name = "\(.*\)"$/\1/p' fuzz/Cargo.toml | grep -v '^prof-fuzz$')
fi
failed=0
for target in "$@"; do
	mkdir -p "$folder/corpus/$target" "$folder/artifacts/$target"
	echo "==> $target, $seconds s"
	if ! RAYON_NUM_THREADS=1 ASAN_OPTIONS=detect_odr_violation=0:detect_leaks=0 \
		"$folder/$machine/release/$target" -max_total_time="$seconds" -timeout=10 -rss_limit_mb=1024 \
		-print_final_stats=1 -verbosity=0 -artifact_prefix="$folder/artifacts/$target/" \
		"$folder/corpus/$target" "fuzz/corpus/$target" 2>"$folder/$target.log"; then
		failed=1
		tail -n 40 "$folder/$target.log"
	fi
	sed -n 's/^stat:://p' "$folder/$target.log" | grep -E 'executed|average|new_units|peak'
done
exit $failed
