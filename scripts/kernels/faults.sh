#!/bin/sh
# Runs in the guest that boot.sh has booted: faults that only a machine of its own may have. For busybox.
#
#   sh faults.sh STEP…      steps: clock, cpu, pause, lockdown
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

# CPU 1 goes off and comes back. It is recorded again after that.
cpu() {
	[ -w /sys/devices/system/cpu/cpu1/online ] || { bad cpu "there is no second CPU that can go off"; return; }
	prof record -q -f -F 100 -e cpu -a -d 16s -o /tmp/b.data >/tmp/said 2>&1 &
	recorder=$!
	sleep 6
	echo 0 >/sys/devices/system/cpu/cpu1/online
	sleep 3
	echo 1 >/sys/devices/system/cpu/cpu1/online
	wait $recorder || { bad cpu "prof ends with $?"; return; }
	accounts /tmp/b.data || { bad cpu "samples are not accounted for: $hits hits, $sum"; return; }
	prof export -f --format perf-script -o /tmp/lines /tmp/b.data >/tmp/said 2>&1
	# Times of samples on CPU 1, whole seconds from the first sample on.
	grep '\[001\]' /tmp/lines | sed 's/.*\[001\] *\([0-9]*\)\..*/\1/' | uniq -c >/tmp/seconds
	last=$(grep '\[00[01]\]' /tmp/lines | tail -n 1 | sed 's/.*\[00[01]\] *\([0-9]*\)\..*/\1/')
	again=$(awk -v last="$last" '$2 >= last - 3 { n += $1 } END { print n + 0 }' /tmp/seconds)
	gap=$(awk 'NR > 1 && $2 - before > most { most = $2 - before } { before = $2 } END { print most + 0 }' /tmp/seconds)
	[ "$again" -gt 0 ] || {
		bad cpu "no sample after its return, of $hits hits; samples of each CPU:"
		grep -o '\[0[0-9]*\]' /tmp/lines | sort | uniq -c
		cat /tmp/seconds
		return
	}
	ok cpu "gap of $gap s, $again samples in the last seconds, $hits hits, all accounted for"
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
