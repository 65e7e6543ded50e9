#!/bin/sh
# Runs in the guest that boot.sh has booted: faults that only a machine of its own may have. For busybox.
#
#   sh faults.sh STEP…      steps: clock, cpu, off, flap, events, pause, paranoid, lockdown
#
# A line for each step, `@@ step NAME ok …|FAILED …`. Exit status: 0 if all steps are ok.
set -u
status=0

# A program that works all the time on each CPU, and one that also waits.
busy() {
	while :; do :; done
}
busy &
first=$!
busy &
second=$!
restless 599 >/dev/null 2>&1 &
target=$!

ok() {
	echo "@@ step $1 ok $2"
}

bad() {
	echo "@@ step $1 FAILED $2"
	cat /tmp/said 2>/dev/null
	status=1
}

# number NAME FILE: the first number of that name in the JSON of `prof info`.
number() {
	sed -n "s/^ *\"$1\": \([0-9]*\).*/\1/p" "$2" | head -n 1
}

# accounts FILE: whether all hits of the kernel side are accounted for.
accounts() {
	prof info --json "$1" >/tmp/info || return 1
	hits=$(number kernel_hits /tmp/info)
	sum=0
	for name in kernel_filtered kernel_idle kernel_sent lost_ring_full lost_counts; do
		value=$(number $name /tmp/info)
		sum=$((sum + ${value:-0}))
	done
	[ "${hits:-0}" = "$sum" ]
}

# The clock of the wall goes an hour forwards, then two back. No time of a recording is of that clock.
clock() {
	prof record -q -f -F 200 -p $target -d 6s -o /tmp/a.data >/tmp/said 2>&1 &
	recorder=$!
	sleep 3
	date -s @$(($(date +%s) + 3600)) >/dev/null
	sleep 1
	date -s @$(($(date +%s) - 7200)) >/dev/null
	wait $recorder || { bad clock "prof ends with $?"; return; }
	accounts /tmp/a.data || { bad clock "samples are not accounted for"; return; }
	length=$(number duration_ns /tmp/info)
	waited=$(number blocked_ns /tmp/info)
	threads=$(number threads /tmp/info)
	[ "$length" -gt 2000000000 ] && [ "$length" -lt 600000000000 ] || { bad clock "it took $length ns"; return; }
	[ "$waited" -le $((length * threads)) ] || { bad clock "threads waited for $waited ns of $length"; return; }
	ok clock "length $((length / 1000000)) ms, $hits hits, all accounted for"
}

# What takes a guest little to record: a guest has a small part of a machine's speed.
cheap="-q -F 50 -e cpu --call-graph fp --runtime off -p $first,$second"

online=/sys/devices/system/cpu/cpu1/online

# begin STEP COMMAND…: starts a recording into /tmp/b.data, and waits until it has written samples.
begin() {
	step=$1
	shift
	rm -f /tmp/b.data
	"$@" >/tmp/said 2>&1 &
	recorder=$!
	for _ in $(seq 120); do
		[ -s /tmp/b.data ] && return 0
		sleep 1
	done
	bad "$step" "the recording does not begin"
	return 1
}

# came MOST SAID: CPU 1 has just come online. Whether the recording has samples of it after that, the first within MOST ms, since a
# guest is slow; all samples are accounted for; and what was lost is said.
came() {
	# In ms.
	back=$(sed 's/\([0-9]*\)\.\([0-9]*\) .*/\1\20/' /proc/uptime)
	wait $recorder || { bad "$step" "prof ends with $?"; return; }
	accounts /tmp/b.data || { bad "$step" "samples are not accounted for: $hits hits, $sum"; return; }
	grep -q "$2" /tmp/info || { bad "$step" "nothing is said of it"; return; }
	prof export -f --format perf-script -o /tmp/lines /tmp/b.data >/tmp/said 2>&1
	# Times of samples on CPU 1, ms.
	sed -n 's/.*\[001\] *\([0-9]*\)\.\([0-9][0-9][0-9]\).*/\1\2/p' /tmp/lines >/tmp/times
	before=$(awk -v back="$back" '$1 < back { n++ } END { print n + 0 }' /tmp/times)
	again=$(awk -v back="$back" '$1 >= back { n++ } END { print n + 0 }' /tmp/times)
	later=$(awk -v back="$back" '$1 >= back { print $1 - back; exit }' /tmp/times)
	if [ "$again" -gt 10 ] && [ "$later" -le "$1" ]; then
		ok "$step" "$before samples of CPU 1 before, $again from $later ms after its return, $hits hits, all accounted for"
	else
		bad "$step" "$before samples of CPU 1 before, $again after its return, the first after ${later:-?} ms, of $hits hits"
	fi
}

# CPU 1 goes off and comes back.
cpu() {
	[ -w $online ] || { bad cpu "there is no second CPU that can go off"; return; }
	begin cpu prof record $cheap -d 40s -o /tmp/b.data || return
	sleep 2
	echo 0 >$online
	sleep 4
	echo 1 >$online
	came 5000 "CPU 1 was offline for"
}

# CPU 1 is off at the start, and comes.
off() {
	echo 0 >$online
	begin off prof record $cheap -d 30s -o /tmp/b.data || return
	sleep 2
	echo 1 >$online
	came 5000 "CPU 1 was offline at the start"
}

# CPU 1 goes off and is back at once, so that no list of CPUs ever lacks it for long.
flap() {
	begin flap prof record $cheap -d 30s -o /tmp/b.data || return
	sleep 1
	for _ in 1 2 3; do
		echo 0 >$online
		echo 1 >$online
	done
	came 10000 "CPU 1 was offline for"
}

# The same as cpu for a program that is recorded by perf events of its threads, and for all by perf events.
events() {
	for whom in "-p $first,$second" -a; do
		# Without the kernel's types there are no BPF programs.
		begin events unshare -m sh -c "mount -t tmpfs none /sys/kernel/btf && \
			exec prof record -q -F 50 -e cpu --runtime off $whom -d 40s -o /tmp/b.data" || return
		sleep 2
		echo 0 >$online
		sleep 2
		echo 1 >$online
		came 5000 "CPU 1 was offline for"
	done
}

# The machine is paused, as boot.sh does when it reads the line. No wait is longer than the recording.
pause() {
	prof record -q -f -F 200 -p $target -d 8s -o /tmp/c.data >/tmp/said 2>&1 &
	recorder=$!
	sleep 3
	echo "@@ pause 10"
	wait $recorder || { bad pause "prof ends with $?"; return; }
	accounts /tmp/c.data || { bad pause "samples are not accounted for"; return; }
	length=$(number duration_ns /tmp/info)
	waited=$(number blocked_ns /tmp/info)
	threads=$(number threads /tmp/info)
	[ "$waited" -le $((length * threads)) ] || { bad pause "threads waited for $waited ns of $length"; return; }
	ok pause "length $((length / 1000000)) ms, $hits hits, all accounted for"
}

# as_user CAPABILITIES COMMAND…: as a user without rights but these (`+bpf,+perfmon`). The shell has a setpriv of its own.
as_user() {
	more=$1
	shift
	/files/setpriv --reuid 1000 --regid 1000 --clear-groups --inh-caps="-all$more" --ambient-caps="-all$more" "$@"
}

# Kernels of Debian let nobody but root open events where kernel.perf_event_paranoid is 3, their default: that is named as the
# reason. CAP_PERFMON is not enough there, CAP_SYS_ADMIN is (docs/containers.md).
paranoid() {
	echo 3 >/proc/sys/kernel/perf_event_paranoid
	mkdir -p /tmp/user && chown 1000:1000 /tmp/user
	for may in "" ,+bpf,+perfmon; do
		if as_user "$may" prof record -f -o /tmp/user/e.data -- restless 1 >/tmp/said 2>&1; then
			[ -n "$may" ] || { bad paranoid "a user without rights records running time"; return; }
		fi
		grep -q 'kernel.perf_event_paranoid' /tmp/said || { bad paranoid "it is not named as the reason (rights: ${may:-none})"; return; }
		said="${said:-}$(grep -m 1 paranoid /tmp/said); "
	done
	as_user ,+bpf,+sys_admin prof record -f -e off -d 2s -o /tmp/user/f.data -- restless 1 >/tmp/said 2>&1 || { bad paranoid "with CAP_SYS_ADMIN prof ends with $?"; return; }
	waits=$(sed -n 's/^  off-CPU  *\([0-9,]*\) waits.*/\1/p' /tmp/said)
	[ "$(printf %s "${waits:-0}" | tr -d ,)" -gt 10 ] || { bad paranoid "${waits:-no} waits were recorded"; return; }
	ok paranoid "$waits waits; $said"
}

# The kernel refuses programs that read its memory: perf events sample, and lockdown is named as the reason.
lockdown() {
	mount -t securityfs none /sys/kernel/security
	grep -q '\[confidentiality\]' /sys/kernel/security/lockdown || { bad lockdown "the kernel is not locked down"; return; }
	prof record -f -p $target -d 1s -o /tmp/d.data >/tmp/said 2>&1 || { bad lockdown "prof ends with $?"; return; }
	if grep -q '^note: .*lockdown.*: sampling by perf events' /tmp/said; then
		ok lockdown "$(grep -m 1 '^note: ' /tmp/said)"
	else
		bad lockdown "it is not named as the reason"
	fi
}

for step in "$@"; do
	$step
done
kill $target $first $second 2>/dev/null
exit $status
