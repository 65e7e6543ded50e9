# `make demo` and `make test` do all the set-up they need; nothing has to be installed by hand first.
# See README.md for the two, CONTRIBUTING.md for the rest.

.PHONY: all build demo screenshots test test-faults test-kernels oracle fuzz bench bench-gate check fmt man notices dist dist-check install clean

PREFIX ?= /usr/local
DESTDIR ?=

# What is built is looked for here, wherever the user's cargo builds otherwise.
export CARGO_TARGET_DIR := $(CURDIR)/target

all: build

build:
	@scripts/setup.sh build
	cargo build --release --locked
	@scripts/doors.sh target/release/prof

demo:
	@scripts/setup.sh demo
	@scripts/demo.sh

# The pictures of README.md and docs/tui.md, from the program as it is; needs root.
screenshots: build
	@scripts/setup.sh test
	@scripts/screenshots.sh

test:
	@scripts/setup.sh build test
	@scripts/test.sh

# The fault suite in its long form: an hour and more, as root. `make test-faults FAULTS=7,8` runs these rows. Then what needs a
# machine of its own, in guests. docs/reliability.md has the table of a run.
FAULTS ?= all

test-faults: build
	@scripts/setup.sh test kernels
	PROF_FAULTS=$(FAULTS) cargo test --locked --test faults
	@scripts/test-faults.sh

# All that prof does, and many recordings, in guests with Debian's kernels 5.10, 6.1, 6.12, 6.18 and 7: some minutes for each.
# `make test-kernels RECORDINGS=1000` is the long form; docs/reliability.md has its results.
RECORDINGS ?= 20

test-kernels: build
	@scripts/setup.sh kernels
	@RECORDINGS=$(RECORDINGS) scripts/test-kernels.sh

# Every stack of real programs walked a second time, by elfutils; needs root. Fails if a program is under 99.9 % that is
# no documented exception. docs/unwinding.md has the results. It records with a build of its own, which can copy stacks; the
# ordinary one takes its place back.
oracle:
	@scripts/setup.sh build oracle
	cargo build --release --locked --features testing
	cp target/release/prof target/prof-testing
	cargo build --release --locked
	@PROF=$(CURDIR)/target/prof-testing scripts/oracle.sh

# The fuzz targets of fuzz/ and the fuzzer of the kernel's walker, each for FUZZ_SECONDS; synthetic stacks for both walkers, and
# damaged files, for longer than `test` has time for: FUZZ_FACTOR says how many times as many.
FUZZ_SECONDS ?= 600
FUZZ_FACTOR ?= 50

fuzz:
	@scripts/setup.sh build test
	FUZZ_SECONDS=$(FUZZ_SECONDS) scripts/fuzz.sh
	PROF_FUZZ_SECONDS=$(FUZZ_SECONDS) cargo test --locked --test walker fuzz
	PROF_FUZZ_FACTOR=$(FUZZ_FACTOR) cargo test --locked --test walker differential
	PROF_FUZZ_FACTOR=$(FUZZ_FACTOR) cargo test --locked --test unwind_hostile

bench:
	@scripts/setup.sh build bench
	cargo bench --locked
	@benches/system.sh
	@benches/walker.sh
	@benches/offcpu.sh

# The benches of the working tree against those of another revision, by turns under prof bench; needs root. Fails, with exit status 4 of
# prof, if one became slower by more than noise. docs/ci.md explains the statistics.
BASE ?= origin/main
RUNS ?= 10

bench-gate: build
	@RUNS=$(RUNS) scripts/bench-gate.sh $(BASE)

# The quick part of `test`: what a commit must pass.
check:
	@scripts/setup.sh build lint
	@scripts/test.sh quick

# Rewrites sources in the project's style.
fmt:
	@scripts/setup.sh lint
	cargo fmt
	clang-format -i src/bpf/c/*.c src/bpf/c/*.h src/bpf/c/*/*.h src/bpf/c/*/*/*.h tests/walker/host/*.h tests/walker/host/replay.c tests/walker/host/fuzz.c

# Rewrites what is generated from the command line's definition and from Cargo.lock.
man:
	UPDATE=1 cargo test --locked --test man_pages

notices:
	scripts/notices.sh > THIRD-PARTY-NOTICES.md

# What a release consists of, in target/packages/out: a static program for any distribution, packages, checksums, an SBOM.
# `make dist ARCH="x86_64 aarch64"` builds for both processors. docs/install.md says what is in it.
ARCH ?= $(shell uname -m)

dist:
	@scripts/setup.sh build dist $(if $(filter-out $(shell uname -m),$(ARCH)),dist-other)
	scripts/dist.sh $(ARCH)

# The same built twice, in folders of different names, has to be the same; then it is tried in bare root filesystems and under a systemd (root).
dist-check: dist
	@scripts/setup.sh dist-check
	scripts/dist/same.sh $(ARCH)
	scripts/dist/try-rootfs.sh
	scripts/dist/try-systemd.sh

# Under sudo, what `make` has built is installed: root seldom has the toolchain.
install:
	@if [ -z "$$SUDO_USER" ] || [ ! -x target/release/prof ]; then $(MAKE) build; fi
	install -D -m 755 target/release/prof $(DESTDIR)$(PREFIX)/bin/prof
	for page in man/*.1; do \
		install -D -m 644 "$$page" "$(DESTDIR)$(PREFIX)/share/man/man1/$${page##*/}" || exit 1; \
	done
	for shell in bash:bash-completion/completions/prof zsh:zsh/site-functions/_prof fish:fish/vendor_completions.d/prof.fish; do \
		install -d "$(DESTDIR)$(PREFIX)/share/$$(dirname "$${shell#*:}")" && \
		target/release/prof completions "$${shell%%:*}" >"$(DESTDIR)$(PREFIX)/share/$${shell#*:}" || exit 1; \
	done

clean:
	cargo clean
	rm -f prof.data prof.data.old flamegraph.svg
