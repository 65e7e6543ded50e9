#!/bin/sh
# Tries the static program and the packages in root filesystems with nothing else in them. POSIX sh; needs root.
#
#   scripts/dist/try-rootfs.sh [NAME=FOLDER]…      more root filesystems, such as those of images of Alpine and Fedora
#
#   scratch        the program, a program to record, /proc and /sys: what a container FROM scratch has
#   musl           busybox and musl's C library, which is what a small image of Alpine has
#   debian-11      from Debian's archive, with the .deb installed, used by a group, upgraded and removed
#   rpm            the .rpm, unpacked by rpm into a folder of its own, as its files and scripts are
#
# In each it records and reports: a command, a running program, waits, an export. Ends with a table, and with status 1 if a step
# failed. What cannot be tried here is `skipped: reason`.
set -u

cd "$(dirname "$0")/../.." || exit 1
[ "$(id -u)" = 0 ] || {
	echo "skipped: needs root, for chroot"
	exit 0
}
arch=$(uname -m)
prof=target/packages/$arch/prof
[ -x "$prof" ] || {
	echo "try-rootfs.sh: there is no $prof: make dist" >&2
	exit 1
}
roots=$PWD/target/packages/rootfs
mkdir -p "$roots"
work=$(mktemp -d "$roots/work.XXXXXX") || exit 1
trap 'rm -rf "$work"' EXIT
trap 'exit 130' INT TERM
failed=0
: >"$work/table"
musl-gcc -static -O2 -g -fomit-frame-pointer -pthread -o "$work/restless" tests/fixtures/restless.c || exit 1

# in_root FOLDER COMMAND…: in a mount namespace of its own, so that nothing stays mounted.
in_root() {
	into=$1
	shift
	unshare -m --propagation private sh -c '
		mkdir -p "$0/proc" "$0/sys" "$0/tmp" "$0/dev" &&
		mount --rbind /proc "$0/proc" && mount --rbind /sys "$0/sys" && mount -t tmpfs none "$0/dev" &&
		for device in null zero urandom; do : >"$0/dev/$device" && mount --bind "/dev/$device" "$0/dev/$device" || exit 1; done &&
		root=$0 && exec env -i HOME=/ PATH=/usr/bin:/usr/sbin:/bin:/sbin LANG=C.UTF-8 chroot "$root" "$@"' "$into" "$@"
}

# step WHERE NAME COMMAND…: notes how it went; what it printed is shown when it failed.
step() {
	where=$1
	what=$2
	shift 2
	if "$@" >"$work/out" 2>&1; then
		verdict=ok
	else
		verdict=FAILED
		failed=1
		sed 's/^/    /' "$work/out"
	fi
	printf '%-14s %-48s %s\n' "$where" "$what" "$verdict" | tee -a "$work/table"
}

skip() {
	printf '%-14s %-48s skipped: %s\n' "$1" "$2" "$3" | tee -a "$work/table"
}

# shows ROOT WORD COMMAND…: its output has the word. The output is a file: the first match would close a pipe.
shows() {
	where_root=$1
	word=$2
	shift 2
	in_root "$where_root" "$@" >"$work/shown" 2>&1
	ended=$?
	cat "$work/shown"
	[ $ended = 0 ] && grep -q -e "$word" "$work/shown"
}

# try_program NAME ROOT: all that needs the program alone.
try_program() {
	name=$1
	root=$2
	cp "$work/restless" "$root/tmp/restless"
	step "$name" "runs" shows "$root" "^prof " prof --version
	step "$name" "records a command" in_root "$root" prof record -f -o /tmp/a.data -- /tmp/restless 2
	step "$name" "reports its function" shows "$root" burn_and_nap prof report /tmp/a.data
	step "$name" "reports complete stacks" shows "$root" "stacks \(100.0\|99.[0-9]\)% complete" prof report --tree /tmp/a.data
	step "$name" "reports where it waited" shows "$root" burn_and_nap prof report --off-cpu --tree /tmp/a.data
	"$work/restless" 30 >/dev/null &
	target=$!
	step "$name" "records a running program" in_root "$root" prof record -f -p $target -d 1s -o /tmp/b.data
	kill $target
	step "$name" "exports a page" in_root "$root" prof export -o /tmp/a.html -f /tmp/a.data
	step "$name" "looks at the machine" shows "$root" "eBPF\|BPF" prof doctor
}

bare() {
	rm -rf "$1"
	mkdir -p "$1/usr/bin" "$1/tmp" "$1/etc"
	cp "$prof" "$1/usr/bin/prof"
}

scratch() {
	bare "$work/scratch"
	try_program scratch "$work/scratch"
}

musl() {
	loader=$(ls /lib/ld-musl-*.so.1 2>/dev/null | head -n 1)
	busybox=$(command -v busybox) || busybox=
	if [ -z "$loader" ] || [ -z "$busybox" ]; then
		skip musl "all" "there is no busybox or no musl here"
		return
	fi
	root=$work/musl
	bare "$root"
	mkdir -p "$root/bin" "$root/lib"
	cp -L "$loader" "$root/lib/"
	cp -L "$busybox" "$root/bin/busybox"
	ln -s busybox "$root/bin/sh"
	echo 'root:x:0:0:root:/:/bin/sh' >"$root/etc/passwd"
	musl-gcc -O2 -g -fomit-frame-pointer -pthread -o "$root/usr/bin/dynamic" tests/fixtures/restless.c
	try_program musl "$root"
	step musl "records a program that is linked with musl" in_root "$root" prof record -f -o /tmp/c.data -- dynamic 2
	step musl "reports complete stacks through musl" shows "$root" "stacks \(100.0\|99.[0-9]\)% complete" prof report /tmp/c.data
	step musl "records a shell" in_root "$root" prof record -f -o /tmp/d.data -- sh -c 'i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done'
}

# A user of the group records, another one cannot even run the program.
of_a_group() {
	root=$1
	in_root "$root" sh -ec '
		prof-capabilities on
		useradd -m -G prof insider; useradd -m outsider
		test "$(stat -c "%a %U:%G" /usr/bin/prof)" = "750 root:prof"
		getcap /usr/bin/prof | grep -q cap_bpf
		su insider -c "cd && prof record -o a.data -- /tmp/restless 1 && prof report a.data" | tee /tmp/insider
		grep -q burn_and_nap /tmp/insider
		! su outsider -c "prof --version"'
}

debian() {
	root=$roots/debian-11
	if ! command -v debootstrap >/dev/null 2>&1; then
		skip debian-11 "all" "there is no debootstrap here"
		return
	fi
	if [ ! -e "$root/.complete" ]; then
		rm -rf "$root"
		# shellcheck disable=SC2016
		mirror=$(apt-get indextargets --format '$(REPO_URI) $(RELEASE)' 'Identifier: Packages' 2>/dev/null | grep 'debian/ ' | sed -n '1s/ .*//p')
		if ! debootstrap --variant=minbase --include=libcap2-bin bullseye "$root" ${mirror:+"$mirror"} >"$work/debootstrap" 2>&1; then
			skip debian-11 "all" "debootstrap: $(tail -n 1 "$work/debootstrap")"
			return
		fi
		: >"$root/.complete"
	fi
	rm -rf "$work/debian-11"
	cp -a "$root" "$work/debian-11"
	root=$work/debian-11
	cp "$prof" "$root/usr/bin/prof"
	try_program debian-11 "$root"
	step debian-11 "records perl, with its subs" in_root "$root" prof record -f -o /tmp/e.data -- \
		perl -e 'sub spin { my $s = 0; $s += $_ for 1 .. 9000000; $s } print spin(), "\n"'
	step debian-11 "reports a sub of perl" shows "$root" "main::spin\|spin" prof report /tmp/e.data
	rm "$root/usr/bin/prof"

	deb=$(ls target/packages/out/prof_*_"$(dpkg --print-architecture)".deb 2>/dev/null | head -n 1)
	[ -n "$deb" ] || {
		skip debian-11 "package" "there is no .deb in target/packages/out"
		return
	}
	cp "$deb" "$root/tmp/prof.deb"
	step debian-11 "installs the package" in_root "$root" dpkg -i /tmp/prof.deb
	step debian-11 "it has no privileges and a group" in_root "$root" sh -ec '
		test "$(stat -c "%a %U:%G" /usr/bin/prof)" = "755 root:root"
		test -z "$(getcap /usr/bin/prof)"; getent group prof; prof-capabilities status | grep -q "^off"'
	step debian-11 "records as packaged" in_root "$root" sh -ec 'prof record -f -o /tmp/p.data -- /tmp/restless 1; prof report /tmp/p.data | grep burn_and_nap'
	step debian-11 "members of the group record on request" of_a_group "$root"
	step debian-11 "an upgrade keeps that" in_root "$root" sh -ec 'dpkg -i /tmp/prof.deb; getcap /usr/bin/prof | grep -q cap_bpf; test "$(stat -c %a:%G /usr/bin/prof)" = 750:prof'
	step debian-11 "it can be taken back" in_root "$root" sh -ec 'prof-capabilities off; test -z "$(getcap /usr/bin/prof)"; test "$(stat -c %a:%G /usr/bin/prof)" = 755:root'
	step debian-11 "removes the package whole" in_root "$root" sh -ec 'prof-capabilities on; dpkg -r prof; test ! -e /usr/bin/prof; dpkg -P prof; test ! -e /etc/prof; ! dpkg -L prof'
}

package_of_rpm() {
	rpm=$(ls target/packages/out/prof-*."$arch".rpm 2>/dev/null | head -n 1)
	if [ -z "$rpm" ] || ! command -v rpm >/dev/null 2>&1; then
		skip rpm "all" "there is no rpm here, or no .rpm in target/packages/out"
		return
	fi
	root=$work/debian-11
	[ -e "$root/tmp" ] || {
		skip rpm "all" "it is unpacked into debian-11, which is not there"
		return
	}
	rpm=$PWD/$rpm
	step rpm "has intact digests" rpm -K --nosignature "$rpm"
	# Debian's root filesystem has what the scripts need; its packages are not rpm's: no dependencies are known.
	step rpm "installs, with its scripts" rpm --root "$root" --dbpath /var/lib/rpm -i --nodeps "$rpm"
	step rpm "records as packaged" in_root "$root" sh -ec 'prof record -f -o /tmp/r.data -- /tmp/restless 1; prof report /tmp/r.data | grep burn_and_nap'
	step rpm "has a group and a manual page" in_root "$root" sh -ec 'getent group prof; test -e /usr/share/man/man1/prof-record.1.gz'
	step rpm "removes what it installed" sh -ec 'rpm --root "$0" --dbpath /var/lib/rpm -e prof; test ! -e "$0/usr/bin/prof"' "$root"
}

fedora() {
	skip fedora "all" "give its root filesystem: scripts/dist/try-rootfs.sh fedora=FOLDER"
}

scratch
musl
debian
package_of_rpm
named=
for given in "$@"; do
	named="$named ${given%%=*}"
	cp -a "${given#*=}" "$work/given"
	mkdir -p "$work/given/usr/bin" "$work/given/tmp"
	cp "$prof" "$work/given/usr/bin/prof"
	try_program "${given%%=*}" "$work/given"
	rm -rf "$work/given"
done
case " $named " in
*" fedora "*) ;;
*) fedora ;;
esac

printf '\n==> summary\n'
cat "$work/table"
exit $failed
