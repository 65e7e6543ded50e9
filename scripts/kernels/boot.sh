#!/bin/sh
# Boots a kernel in qemu without KVM, runs a command in it, and tells a guest that hangs from one that is slow. POSIX sh;
# needs no root, and nothing of the kernel but what is built in.
#
#   scripts/kernels/boot.sh [-f FILE]… [-c CPUS] [-m MIB] [-s SECONDS] [-a ARGUMENTS] [-x ACCELERATOR]
#                           [-A ARCH -b BUSYBOX] KERNEL COMMAND
#
#   KERNEL          an image, or a folder that get.sh has made
#   COMMAND         one line for the guest's shell (busybox), which runs in /files
#   -f FILE         is put into /files, a program with the libraries that it needs (more than one -f can be given)
#   -s SECONDS      a guest that prints nothing while qemu uses so much CPU time hangs (300); on a busy host that may take
#                   long, so does the guest. One that prints nothing for ten times as long by the clock hangs as well
#   -a ARGUMENTS    more for the kernel's command line
#   -x ACCELERATOR  another than tcg,thread=single: see below
#   -A ARCH         the kernel and all files are of that processor (x86_64 or aarch64); files are linked statically, if it is
#                   not that of this machine
#   -b BUSYBOX      a static busybox of that processor, instead of this machine's
#
# Prints what the command prints, as it comes. A line `@@ pause SECONDS` of it pauses the guest. Exit status: the command's; 124 when the guest hangs, after its CPUs'
# registers and the bytes at their program counters; 125 when it ends in another way (a panic, for example), after its
# last words; 126 when it cannot be started.
#
# One thread of qemu runs all CPUs of the guest. With one thread for each, which is qemu's default (MTTCG), a kernel that
# changes its own code hangs or panics through no fault of its own: docs/reliability.md, "A guest that hangs", has the
# proof.
set -u

die() {
	printf 'boot.sh: %s\n' "$1" >&2
	exit 126
}

cpus=2
memory=1024
patience=300
arguments=
accelerator=tcg,thread=single
arch=$(uname -m)
box=$(command -v busybox) || box=
work=$(mktemp -d "${TMPDIR:-/tmp}/prof-kernel.XXXXXX") || die "cannot make a temporary folder"
qemu=
clean() {
	[ -z "$qemu" ] || kill "$qemu" 2>/dev/null
	rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM

root=$work/root
mkdir -p "$root/files" "$root/bin" "$root/dev" "$root/proc" "$root/sys" "$root/tmp" "$root/root"

# Puts a file, and the libraries that it needs, into the guest.
put() {
	[ -r "$1" ] || die "there is no file $1"
	cp -L "$1" "$root/files/" || die "cannot copy $1"
	ldd "$1" 2>/dev/null | grep -o '/[^ ]*' | while read -r library; do
		[ -e "$root$library" ] && continue
		mkdir -p "$root${library%/*}" && cp -L "$library" "$root$library" || exit 1
	done || die "cannot copy the libraries of $1"
}

while getopts f:c:m:s:a:x:A:b: option; do
	case $option in
	f) put "$OPTARG" ;;
	c) cpus=$OPTARG ;;
	m) memory=$OPTARG ;;
	s) patience=$OPTARG ;;
	a) arguments=$OPTARG ;;
	x) accelerator=$OPTARG ;;
	A) arch=$OPTARG ;;
	b) box=$OPTARG ;;
	*) die "see the head of $0" ;;
	esac
done
shift $((OPTIND - 1))
[ $# = 2 ] || die "see the head of $0"
kernel=$1
[ ! -d "$kernel" ] || kernel=$(ls "$kernel"/boot/vmlinuz-* "$kernel"/usr/lib/modules/*/vmlinuz 2>/dev/null | head -n 1)
[ -r "$kernel" ] || die "there is no kernel at $1"
# What differs between processors: the machine, the console of the kernel, where the command's output goes, where an address of
# code is in what the monitor says. An arm64 machine has one port, which both share.
case $arch in
x86_64)
	machine='-machine q35 -cpu max'
	consoles='console=ttyS0'
	port=/dev/ttyS1
	counter=RIP
	;;
aarch64)
	# Pointer authentication by qemu's own algorithm: the architecture's takes most of the time of a guest.
	machine='-machine virt,gic-version=3 -cpu max,pauth-impdef=on'
	consoles='console=ttyAMA0'
	port=/dev/ttyAMA0
	counter=PC
	;;
*) die "unknown processor $arch (x86_64, aarch64)" ;;
esac
for tool in "qemu-system-$arch" busybox cpio gzip; do
	command -v "$tool" >/dev/null 2>&1 || die "$tool is missing: scripts/setup.sh kernels"
done
[ -r "$box" ] || die "there is no busybox of $arch: -b"

cp -L "$box" "$root/bin/busybox"
# Every busybox of Debian has the same commands.
busybox --list | grep -v '^busybox$' | while read -r applet; do
	ln -s busybox "$root/bin/$applet"
done
printf '%s\n' "$2" >"$root/command"
printf '%s\n' "$port" >"$root/port"
cat >"$root/init" <<'INIT'
#!/bin/busybox sh
export PATH=/files:/bin HOME=/root TERM=linux
mount -t proc none /proc
mount -t sysfs none /sys
mount -t devtmpfs none /dev
mkdir -p /dev/pts
mount -t devpts none /dev/pts
mount -t tmpfs none /tmp
mount -t bpf none /sys/fs/bpf
mount -t tracefs none /sys/kernel/tracing
ip link set lo up
cd /files
exec >"$(cat /port)" 2>&1 </dev/null
echo "@@ kernel $(uname -r)"
sh /command
echo "@@ status $?"
# What the kernel itself complains of.
dmesg | grep -E 'BUG|WARNING|Oops|lockup|stall' | sed 's/^/@@ complaint /'
sync
echo "@@ end"
sleep 1
echo o >/proc/sysrq-trigger
sleep 60
INIT
chmod +x "$root/init"
(cd "$root" && find . | cpio -o -H newc --quiet) | gzip -1 >"$work/initrd" || die "cannot pack the guest's files"
rm -rf "$root"

# What the kernel says, and what the command says: a kernel that hangs may go on complaining.
console=$work/console
output=$work/output
: >"$console"
: >"$output"
mkfifo "$work/monitor.in" "$work/monitor.out" || die "cannot make a pipe"
[ "$arch" != aarch64 ] || ln -f "$output" "$console"
serials="-serial file:$console"
[ "$arch" = aarch64 ] || serials="$serials -serial file:$output"
# no_timer_check: on a busy host the guest finds its timer dead, and stops.
# Unquoted on purpose: the machine and the ports are words; mktemp's folder has no blanks.
qemu-system-"$arch" -accel "$accelerator" $machine -smp "$cpus" -m "$memory" -nodefaults -no-user-config \
	-display none -no-reboot -kernel "$kernel" -initrd "$work/initrd" $serials \
	-chardev pipe,id=monitor,path="$work/monitor" -mon chardev=monitor,mode=readline \
	-append "$consoles loglevel=4 panic=-1 oops=panic rdinit=/init nokaslr no_timer_check $arguments" \
	</dev/null >"$work/qemu" 2>&1 &
qemu=$!
# Both ends stay open, so that neither side waits for the other; what qemu says is kept.
cat "$work/monitor.out" >"$work/monitor" 2>/dev/null &
exec 3>"$work/monitor.in"

# Asks qemu's monitor, and prints the answer.
ask() {
	: >"$work/monitor"
	printf '%s\n' "$1" >&3
	sleep 2
	tr -d '\r' <"$work/monitor" | sed 's/\x1b\[[A-Z]//g; /(qemu)/d'
}

# Where the CPUs of a guest that hangs are, five times, and the code there.
show_hang() {
	echo "boot.sh: the guest has printed nothing for $quiet s, in which qemu used $(($(used) - used_before)) s of CPU time" >&2
	for _ in 1 2 3 4 5; do
		ask "info registers -a" | grep -a -o " *$counter=[0-9a-f]*" | tee -a "$work/places" | tr '\n' ' ' >&2
		echo >&2
	done
	sed 's/.*=//' "$work/places" | sort -u | while read -r place; do
		ask "x /8xb 0x$place" >&2
	done
}

# CPU time that qemu has used, seconds.
used() {
	awk -v ticks="$(getconf CLK_TCK)" '{ sub(/.*\) /, ""); print int(($12 + $13) / ticks) }' "/proc/$qemu/stat" 2>/dev/null ||
		echo 0
}

# The guest asks to be paused, all of it, for some seconds by the host's clock: `@@ pause SECONDS`.
pause_if_asked() {
	seconds=$(sed -n "$((shown + 1)),${lines}p" "$output" | tr -d '\r' | sed -n 's/^@@ pause \([0-9]*\)$/\1/p' | tail -n 1)
	[ -n "$seconds" ] || return
	printf 'stop\n' >&3
	sleep "$seconds"
	printf 'cont\n' >&3
}

shown=0
quiet=0
used_before=0
# Prints the guest's new lines.
show_new() {
	lines=$(wc -l <"$output")
	[ "$lines" -gt $shown ] || return 1
	sed -n "$((shown + 1)),${lines}p" "$output" | tr -d '\r'
	pause_if_asked
	shown=$lines
}

while kill -0 "$qemu" 2>/dev/null; do
	if show_new; then
		quiet=0
		used_before=$(used)
		grep -q '^@@ end' "$output" && break
	elif [ $(($(used) - used_before)) -ge "$patience" ] || [ $quiet -ge $((10 * patience)) ]; then
		show_hang
		tail -n 20 "$console" >&2
		exit 124
	fi
	sleep 2
	quiet=$((quiet + 2))
done
show_new
status=$(tr -d '\r' <"$output" | sed -n 's/^@@ status //p' | tail -n 1)
if [ -z "$status" ]; then
	echo "boot.sh: the guest has ended before its time" >&2
	tail -n 40 "$console" "$work/qemu" >&2
	exit 125
fi
exit "$status"
