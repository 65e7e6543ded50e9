#!/bin/sh
# Runs the unit of the agent under a systemd of its own: first process of a PID namespace, with folders for units, state and runtime in
# memory. POSIX sh; needs root and systemd's files, and no systemd that runs.
#
#   scripts/dist/try-systemd.sh [PROF]      the program of `make dist` without it
#
# The agent records a service that is started beside it, by the name of its unit, reads its configuration again, outlives the process that
# opens its files, and ends when it is stopped. Ends with status 1 if a step failed.
set -u

cd "$(dirname "$0")/../.." || exit 1
prof=$(realpath "${1:-target/packages/$(uname -m)/prof}") || exit 1
systemd=/lib/systemd/systemd
for needed in "$systemd" "$(command -v nsenter || echo nsenter)" "$(command -v curl || echo curl)"; do
	[ -x "$needed" ] || {
		echo "skipped: there is no $needed"
		exit 0
	}
done
# Both would have the same control groups.
[ ! -d /run/systemd/system ] || {
	echo "skipped: a systemd runs here"
	exit 0
}
[ "$(id -u)" = 0 ] || {
	echo "skipped: needs root, for systemd"
	exit 0
}
work=$(mktemp -d /tmp/prof-systemd-XXXXXX) || exit 1
first=
unshare=
# What systemd has made in the hierarchies of control groups is empty once its processes have ended.
clean() {
	for process in $first $unshare; do
		kill -9 "$process" 2>/dev/null
	done
	sleep 1
	for groups in /sys/fs/cgroup/system.slice /sys/fs/cgroup/*/system.slice /sys/fs/cgroup/init.scope /sys/fs/cgroup/*/init.scope; do
		[ ! -d "$groups" ] || grep -q -x -F "$groups" "$work/groups" || find "$groups" -depth -type d -exec rmdir {} + 2>/dev/null
	done
	rm -rf "$work"
}
trap clean EXIT
trap 'exit 130' INT TERM
ls -d /sys/fs/cgroup/system.slice /sys/fs/cgroup/*/system.slice /sys/fs/cgroup/init.scope /sys/fs/cgroup/*/init.scope \
	>"$work/groups" 2>/dev/null
chmod 755 "$work"
cp "$prof" "$work/prof"
cp packaging/prof-agent.service "$work/"
cat >"$work/agent.toml" <<'EOF'
window = "5s"
[buffer]
folder = "/var/lib/prof/buffer"
[keep]
folder = "/var/lib/prof/kept"
[metrics]
listen = "unix:/run/prof/metrics.sock"
EOF
# Units of this machine are not for this systemd, but for its journal.
cat >"$work/boot" <<'EOF'
set -e
mount --make-rprivate /
mount -t proc proc /proc
for folder in /run /var/lib /etc/systemd/system; do mount -t tmpfs tmpfs "$folder"; done
mkdir -p /run/systemd/system /run/lock
for wanted in /lib/systemd/system/*.wants/*; do
	case $wanted in
	*journald*) ;;
	*) ln -sf /dev/null "/run/systemd/system/${wanted##*/}" ;;
	esac
done
mkdir -p /run/prof-files
mount -t tmpfs tmpfs /run/prof-files
cp "$1/prof" "$1/agent.toml" /run/prof-files/
sed -e 's:/usr/bin/prof:/run/prof-files/prof:' -e 's:/etc/prof/:/run/prof-files/:' "$1/prof-agent.service" \
	>/run/systemd/system/prof-agent.service
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin "$2" --system --unit=prof-agent.service --log-target=console
EOF
unshare --pid --fork --mount --uts --ipc --kill-child sh "$work/boot" "$work" "$systemd" >"$work/log" 2>&1 &
unshare=$!
failed=0

# Runs a command where that systemd is the first process.
inside() {
	[ -n "$first" ] || first=$(cut -d' ' -f1 "/proc/$unshare/task/$unshare/children" 2>/dev/null)
	nsenter -t "${first:-0}" -m -p "$@" 2>&1
}

# step WHAT WORD COMMAND…: within a minute it prints the word.
step() {
	what=$1
	word=$2
	shift 2
	verdict=FAILED
	for _ in $(seq 60); do
		if inside "$@" >"$work/shown" && grep -q -e "$word" "$work/shown"; then
			verdict=ok
			break
		fi
		sleep 1
	done
	[ $verdict = ok ] || {
		failed=1
		sed 's/^/    /' "$work/shown" "$work/log"
	}
	printf '%-14s %-48s %s\n' systemd "$what" "$verdict"
}

metrics() {
	echo "curl -s --unix-socket /run/prof/metrics.sock http://prof/$1"
}

step "starts" '^active' systemctl is-active prof-agent
[ $failed = 0 ] || exit 1
inside systemd-run --quiet --unit=shop sh -c 'while :; do :; done'
# shellcheck disable=SC2046
step "is ready" '^ok' $(metrics readyz)
step "records a service by its unit" 'service_name=shop' /run/prof-files/prof report /var/lib/prof/kept --by label:service_name
step "has its complete stacks" 'stacks 100.0% complete' /run/prof-files/prof report /var/lib/prof/kept --label service_name=shop
inside sed -i s/5s/6s/ /run/prof-files/agent.toml
inside systemctl reload prof-agent
# shellcheck disable=SC2046
step "reads its configuration again" 'config_reloads_total{result="ok"} 1' $(metrics metrics)
inside pkill -KILL -x prof-opener
# shellcheck disable=SC2046
step "outlives a process of it" 'recording_restarts_total{reason="ended"} [1-9]' $(metrics metrics)
# shellcheck disable=SC2046
step "is ready again" '^ok' $(metrics readyz)
inside systemctl stop prof-agent
step "stops" '^Result=success' systemctl show -p Result prof-agent
exit $failed
