#!/bin/sh
# Builds the static program for one processor, and its debug information. POSIX sh.
#
#   scripts/dist/build.sh ARCH      x86_64 or aarch64; writes target/packages/ARCH/prof and target/packages/ARCH/prof.debug
#
# The result depends on the sources, Cargo.lock, and the versions of rustc, Zig and clang alone: not on the folder, the user
# or the time. `scripts/dist/same.sh` checks that.
set -eu

die() {
	printf 'build.sh: %s\n' "$1" >&2
	exit 1
}

cd "$(dirname "$0")/../.."
root=$PWD
arch=${1:-}
case $arch in
x86_64 | aarch64) ;;
*) die "usage: scripts/dist/build.sh x86_64|aarch64" ;;
esac
target=$arch-unknown-linux-musl
work=$root/target/packages/$arch
mkdir -p "$work/tools"

scripts/dist/tools.sh zig >/dev/null
zig=$root/target/dist-tools/zig/ziglang/zig
if command -v rustup >/dev/null 2>&1; then
	rustup -q target add "$target" >&2 || die "rustup could not add the target $target"
fi
[ -d "$(rustc --print sysroot)/lib/rustlib/$target" ] || die "rustc has no standard library for $target: install it"

# Build scripts start one program as the compiler, without arguments of its own; `--target` in cargo's words is not in Zig's.
cat >"$work/tools/cc" <<CC
#!/bin/sh
for argument; do
	shift
	case \$argument in
	--target=*) ;;
	*) set -- "\$@" "\$argument" ;;
	esac
done
export ZIG_GLOBAL_CACHE_DIR='$root/target/dist-tools/cache' ZIG_LOCAL_CACHE_DIR='$root/target/dist-tools/cache'
exec '$zig' cc -target $arch-linux-musl -fno-sanitize=undefined "\$@"
CC
printf '#!/bin/sh\nexec '\''%s'\'' ar "$@"\n' "$zig" >"$work/tools/ar"
chmod +x "$work/tools/cc" "$work/tools/ar"

# libbpf-sys is built for this machine, too: libbpf-rs has it as a dependency of its own build script, with the same features.
host=$(rustc -vV | sed -n 's/^host: //p')
scripts/dist/libs.sh "$work/tools/cc" "$work/tools/ar" "$work/libs"
scripts/dist/libs.sh "${CC:-cc}" "${AR:-ar}" "$work/host"

# variable NAME TRIPLE: as tools spell the name of a variable for one target.
variable() {
	printf '%s_%s' "$1" "$(printf '%s' "$2" | tr 'a-z-' 'a-z_')"
}
upper=$(printf '%s' "$target" | tr 'a-z-' 'A-Z_')
cargo_home=${CARGO_HOME:-$HOME/.cargo}
export "$(variable CC "$target")=$work/tools/cc"
export "$(variable AR "$target")=$work/tools/ar"
# MI_NO_GETENV: what the environment says of mimalloc is for the program that is recorded. Its words on itself have the time of the build.
no_time='-Wno-builtin-macro-redefined -D__DATE__="" -D__TIME__=""'
export "$(variable CFLAGS "$target")=-DMI_NO_GETENV $no_time -I$work/libs/include -ffile-prefix-map=$root=. -ffile-prefix-map=$cargo_home/registry/src="
export "$(variable LIBBPF_SYS_LIBRARY_PATH "$target")=$work/libs/lib"
export "$(variable LIBBPF_SYS_LIBRARY_PATH "$host")=$work/host/lib"
export "CARGO_TARGET_${upper}_LINKER=rust-lld"
# In the folder of the sources, paths of sources are relative; the others begin with the name of a crate.
export "CARGO_TARGET_${upper}_RUSTFLAGS=-Clink-arg=--build-id=sha1 -Clink-arg=-zpack-relative-relocs --remap-path-prefix=$root=. --remap-path-prefix=$cargo_home/registry/src="
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}
export SOURCE_DATE_EPOCH LC_ALL=C TZ=UTC
unset RUSTFLAGS CARGO_ENCODED_RUSTFLAGS CFLAGS CPPFLAGS LDFLAGS
cargo build --profile dist --locked --features static --target "$target" --target-dir "$root/target"

objcopy=
for name in llvm-objcopy llvm-objcopy-19 llvm-objcopy-14; do
	command -v "$name" >/dev/null 2>&1 && objcopy=$name && break
done
[ -n "$objcopy" ] || die "there is no llvm-objcopy: scripts/setup.sh dist"
built=$root/target/$target/dist/prof
"$objcopy" --only-keep-debug --compress-debug-sections=zlib "$built" "$work/prof.debug"
python3 "$root/scripts/dist/clear_reserved.py" "$work/prof.debug"
"$objcopy" --strip-all "$built" "$work/prof"
(cd "$work" && "$objcopy" --add-gnu-debuglink=prof.debug prof)
chmod 755 "$work/prof"
chmod 644 "$work/prof.debug"
