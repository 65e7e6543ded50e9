#!/bin/sh
# Makes sure that everything a make target needs is installed. POSIX sh.
#
#   scripts/setup.sh GROUP…      groups: build, demo, lint, test, oracle, bench, kernels, dist, dist-other, dist-check
#
# Looks for the tool itself, not for a package, so that a compiler from elsewhere counts. Says nothing
# and changes nothing when all is there. On Debian and its relatives what is missing is installed; on
# Fedora's and Arch's package managers the packages are named and the script stops.
set -u

# What is needed: group | how it is recognised | apt | dnf | pacman
#   cmd:A,B  any of these commands exists      file:GLOB  a file matches
needs='
build|cmd:clang|clang|clang|clang
build|cmd:llvm-strip,llvm-strip-14|llvm|llvm|llvm
build|cmd:cc|gcc|gcc|gcc
build|cmd:make|make|make|make
build|cmd:pkg-config,pkgconf|pkg-config|pkgconf-pkg-config|pkgconf
build|file:/usr/include/stdlib.h|libc6-dev|glibc-devel|glibc
build|file:/usr/include/libelf.h|libelf-dev|elfutils-libelf-devel|libelf
build|file:/usr/include/zlib.h|zlib1g-dev|zlib-devel|zlib
build|file:/usr/include/linux/perf_event.h|linux-libc-dev|kernel-headers|linux-api-headers
demo|cmd:cc|gcc|gcc|gcc
lint|cmd:clang-format|clang-format|clang-tools-extra|clang
test|cmd:clang-format|clang-format|clang-tools-extra|clang
test|file:/usr/lib/llvm-*/lib/clang/*/lib/linux/libclang_rt.fuzzer-*.a /usr/lib/clang/*/lib/*/libclang_rt.fuzzer*.a|libclang-rt-dev|compiler-rt|compiler-rt
test|cmd:g++|g++|gcc-c++|gcc
test|cmd:readelf|binutils|binutils|binutils
test|cmd:llvm-symbolizer,llvm-symbolizer-14|llvm|llvm|llvm
test|cmd:dwz|dwz|dwz|dwz
test|cmd:dwp|binutils|binutils|binutils
test|cmd:llvm-dwp,llvm-dwp-14|llvm|llvm|llvm
test|cmd:xz|xz-utils|xz|xz
test|cmd:strace|strace|strace|strace
test|cmd:unshare|util-linux|util-linux|util-linux
test|cmd:setcap|libcap2-bin|libcap|libcap
test|cmd:tmux|tmux|tmux|tmux
test|cmd:sqlite3|sqlite3|sqlite|sqlite
test|file:/usr/lib/postgresql/*/bin/pgbench /usr/bin/pgbench|postgresql|postgresql-server postgresql-contrib|postgresql
test|cmd:python3|python3|python3|python
test|cmd:node|nodejs|nodejs|nodejs
test|cmd:ruby|ruby|ruby|ruby
test|cmd:php|php-cli|php-cli|php
test|cmd:go|golang-go|golang|go
test|cmd:perf|linux-perf|perf|perf
test|cmd:bpftrace|bpftrace|bpftrace|bpftrace
test|file:/usr/lib/go*/bin/go|golang-go|golang|go
test|cmd:ld.lld|lld|lld|lld
test|cmd:mold|mold|mold|mold
test|cmd:ld.gold|binutils|binutils-gold|binutils
test|cmd:luajit|luajit|luajit|luajit
test|cmd:erl|erlang-base|erlang-erts|erlang-core
test|cmd:javac|default-jdk-headless|java-devel|jdk-openjdk
test|cmd:musl-gcc|musl-tools|musl-gcc musl-libc-static|musl
test|cmd:chromium,chromium-browser|chromium|chromium-headless|chromium
test|file:/usr/aarch64-linux-gnu/lib/libc.so.6|libc6-arm64-cross|glibc-arm64-linux-gnu|aarch64-linux-gnu-glibc
test|cmd:man|man-db|man-db|man-db
test|file:/usr/include/elfutils/libdwfl.h|libdw-dev|elfutils-devel|libelf
test|cmd:openssl|openssl|openssl|openssl
test|cmd:callgrind_annotate|valgrind|valgrind|valgrind
test|cmd:npm|npm|npm|npm
test|file:/usr/lib/*/libjemalloc.so.2 /usr/lib64/libjemalloc.so.2 /usr/lib/libjemalloc.so.2|libjemalloc2|jemalloc|jemalloc
test|file:/usr/lib/*/libtcmalloc_minimal.so.4 /usr/lib64/libtcmalloc_minimal.so.4 /usr/lib/libtcmalloc_minimal.so.4|libtcmalloc-minimal4|gperftools-libs|gperftools
test|file:/usr/lib/*/libmimalloc.so.2 /usr/lib64/libmimalloc.so.2 /usr/lib/libmimalloc.so.2|libmimalloc2.0|mimalloc|mimalloc
test|file:/usr/lib/python3*/ensurepip/__init__.py|python3-venv|python3|python
oracle|cmd:cc|gcc|gcc|gcc
oracle|file:/usr/include/elfutils/libdwfl.h|libdw-dev|elfutils-devel|libelf
oracle|cmd:clang++|clang|clang|clang
oracle|cmd:g++|g++|gcc-c++|gcc
oracle|cmd:sqlite3|sqlite3|sqlite|sqlite
oracle|file:/usr/lib/postgresql/*/bin/pgbench|postgresql|postgresql-server postgresql-contrib|postgresql
oracle|cmd:python3|python3|python3|python
oracle|cmd:node|nodejs|nodejs|nodejs
oracle|cmd:openssl|openssl|openssl|openssl
oracle|cmd:nginx|nginx-light|nginx|nginx
oracle|cmd:ab|apache2-utils|httpd-tools|apache
oracle|cmd:go|golang-go|golang|go
oracle|cmd:ffmpeg|ffmpeg|ffmpeg-free|ffmpeg
oracle|cmd:git|git|git|git
oracle|cmd:perl|perl|perl|perl
oracle|cmd:musl-gcc|musl-tools|musl-gcc musl-libc-static|musl
kernels|cmd:qemu-system-x86_64|qemu-system-x86|qemu-system-x86-core|qemu-system-x86
kernels|cmd:qemu-system-aarch64|qemu-system-arm|qemu-system-aarch64-core|qemu-system-aarch64
kernels|cmd:busybox|busybox-static|busybox|busybox
kernels|cmd:cpio|cpio|cpio|cpio
kernels|cmd:strip|binutils|binutils|binutils
kernels|cmd:cc|gcc|gcc|gcc
kernels|cmd:script|bsdutils|util-linux|util-linux
bench|cmd:cc|gcc|gcc|gcc
bench|cmd:python3|python3|python3|python
bench|cmd:node|nodejs|nodejs|nodejs
bench|cmd:perf|linux-perf|perf|perf
bench|cmd:clang|clang|clang|clang
dist|cmd:git|git|git|git
dist|file:/usr/lib/python3/dist-packages/pip/__init__.py /usr/lib/python3*/site-packages/pip/__init__.py|python3-pip|python3-pip|python-pip
dist|cmd:llvm-objcopy|llvm|llvm|llvm
dist|cmd:llvm-readelf|llvm|llvm|llvm
dist|cmd:strings|binutils|binutils|binutils
dist|cmd:jq|jq|jq|jq
dist-other|cmd:qemu-aarch64-static,qemu-aarch64|qemu-user-static|qemu-user-static|qemu-user-static
dist-check|cmd:unshare|util-linux|util-linux|util-linux
dist-check|cmd:musl-gcc|musl-tools|musl-gcc musl-libc-static|musl
dist-check|cmd:debootstrap|debootstrap|debootstrap|debootstrap
dist-check|cmd:busybox|busybox-static|busybox|busybox
dist-check|cmd:rpm|rpm|rpm|rpm-tools
dist-check|cmd:lintian|lintian|lintian|lintian
dist-check|cmd:rpmlint|rpmlint|rpmlint|rpmlint
bench|cmd:offcputime-bpfcc,offcputime|bpfcc-tools|bcc-tools|bcc-tools
bench|file:/usr/lib/postgresql/*/bin/pgbench /usr/bin/pgbench|postgresql|postgresql-server postgresql-contrib|postgresql
'

die() {
	printf 'setup: %s\n' "$1" >&2
	exit 1
}

# Whether the thing that $1 describes is there.
present() {
	kind=${1%%:*}
	list=${1#*:}
	case $kind in
	cmd)
		old_ifs=$IFS
		IFS=,
		for name in $list; do
			if command -v "$name" >/dev/null 2>&1; then
				IFS=$old_ifs
				return 0
			fi
		done
		IFS=$old_ifs
		;;
	file)
		# Unquoted on purpose: the list holds globs.
		for path in $list; do
			[ -e "$path" ] && return 0
		done
		;;
	esac
	return 1
}

# Prints the packages that are missing for the groups in "$@", for the package manager in $manager.
missing_packages() {
	printf '%s\n' "$needs" | while IFS='|' read -r group probe apt dnf pacman; do
		[ -n "$group" ] || continue
		wanted=no
		for asked in "$@"; do
			[ "$asked" = "$group" ] && wanted=yes
		done
		[ $wanted = yes ] || continue
		present "$probe" && continue
		case $manager in
		apt) printf '%s\n' "$apt" ;;
		dnf) printf '%s\n' "$dnf" ;;
		pacman) printf '%s\n' "$pacman" ;;
		*) printf '%s\n' "$apt" ;;
		esac
	done | sort -u | tr '\n' ' '
}

# Runs a command as root: directly, by sudo without a question, or by sudo on a terminal.
as_root() {
	if [ "$(id -u)" = 0 ]; then
		"$@"
	elif command -v sudo >/dev/null 2>&1 && { sudo -n true 2>/dev/null || [ -t 0 ]; }; then
		sudo "$@"
	else
		die "not root, and sudo is not usable here; run this first: su -c 'apt-get update && apt-get install -y $packages'"
	fi
}

apt_install() {
	log=$(mktemp) || die "cannot create a temporary file"
	trap 'rm -f "$log"' EXIT
	printf 'setup: installing %s\n' "$packages" >&2
	# The package lists may be there, old or absent: try, and refresh them only if that fails.
	for refresh in no yes; do
		if [ $refresh = yes ]; then
			as_root apt-get -q update >>"$log" 2>&1
		fi
		# Unquoted on purpose: one word per package.
		if as_root env DEBIAN_FRONTEND=noninteractive apt-get -q install -y --no-install-recommends $packages >>"$log" 2>&1; then
			return 0
		fi
	done
	tail -n 30 "$log" >&2
	die "apt-get could not install: $packages"
}

[ $# -gt 0 ] || die "usage: scripts/setup.sh GROUP… (build, demo, lint, test, oracle, bench, kernels, dist, dist-other, dist-check)"
for asked in "$@"; do
	case $asked in
	build | demo | lint | test | oracle | bench | kernels | dist | dist-other | dist-check) ;;
	*) die "unknown group \`$asked\` (build, demo, lint, test, oracle, bench, kernels, dist, dist-other, dist-check)" ;;
	esac
done
case " $* " in
*" demo "*) set -- "$@" build ;;
esac

[ "$(uname -s)" = Linux ] || die "prof needs Linux"
command -v cargo >/dev/null 2>&1 || die "cargo is missing: install a Rust toolchain with rustup"

# rustup's minimal profile has neither of these.
case " $* " in
*" lint "* | *" test "*)
	for component in rustfmt clippy; do
		case $component in
		rustfmt) probe='cargo fmt --version' ;;
		clippy) probe='cargo clippy --version' ;;
		esac
		$probe >/dev/null 2>&1 && continue
		command -v rustup >/dev/null 2>&1 || die "$component is missing: install your distribution's package for it"
		printf 'setup: adding the Rust component %s\n' "$component" >&2
		rustup -q component add "$component" || die "rustup could not add $component"
	done
	;;
esac

manager=none
for candidate in apt-get:apt dnf:dnf pacman:pacman; do
	if command -v "${candidate%%:*}" >/dev/null 2>&1; then
		manager=${candidate##*:}
		break
	fi
done

packages=$(missing_packages "$@")
packages=${packages% }
[ -n "$packages" ] || exit 0

case $manager in
apt) apt_install ;;
dnf) die "missing packages; run this first: dnf install $packages" ;;
pacman) die "missing packages; run this first: pacman -S --needed $packages" ;;
*) die "missing, under the names Debian has for them: $packages" ;;
esac

left=$(missing_packages "$@")
[ -z "$left" ] || die "installed, but still not found: $left"
