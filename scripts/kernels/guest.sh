#!/bin/sh
# Runs in the guest that boot.sh has booted: everything that prof does, once, then many recordings. For busybox.
#
#   sh guest.sh RECORDINGS [WAY]
#
# WAY is what has to sample on this kernel: bpf (BPF programs, if nothing is said) or perf (perf events, by which prof
# samples where BPF programs cannot run).
#
# A line for each step, `@@ step NAME ok|FAILED|skipped …`, which says which way was taken and what was recorded; what prof says of
# that way, if it is not what it said before, as `@@ says …`; and `@@ recordings N of RECORDINGS` as they get more. Exit
# status: 0 if all steps are ok.
set -u

recordings=$1
wanted=${2:-bpf}
status=0

now() {
	cut -d. -f1 /proc/uptime
}

# The program ends by itself, ten minutes after its start.
start_target() {
	restless 599 >/dev/null &
	target=$!
	began=$(now)
}
start_target

# In a slow guest it would end in the middle of something.
keep_target() {
	if [ $(($(now) - began)) -gt 200 ]; then
		kill $target 2>/dev/null
		start_target
	fi
}

# recorded: the samples, the waits and the share of complete stacks in what prof has printed of a recording.
recorded() {
	sed -n -e 's/^  on-CPU  *\([0-9,]* samples\).*/, \1/p' -e 's/^  off-CPU  *\([0-9,]* waits\).*/, \1/p' \
		-e 's/^  stacks  *\([0-9.]*% complete\).*/, \1/p' /tmp/out | tr -d '\n'
}

said=
# took_way STEP: says which way the step took, by the sentence that prof says of perf events. The other one than wanted is a
# failure: a kernel that refuses the programs would pass otherwise.
took_way() {
	way=bpf
	if grep -q 'by perf events' /tmp/out; then
		way=perf
		now_said=$(grep -m 1 '^note: .*by perf events' /tmp/out)
		[ -z "$now_said" ] || [ "$now_said" = "$said" ] || echo "@@ says $now_said"
		said=$now_said
	fi
	case $1 in
	# It does not sample.
	report) echo "@@ step $1 ok" ;;
	*)
		if [ $way = "$wanted" ]; then
			echo "@@ step $1 ok by $way$(recorded)"
		else
			echo "@@ step $1 FAILED by $way instead of $wanted"
			cat /tmp/out
			status=1
		fi
		;;
	esac
}

# Whether the host kept the guest waiting: then there are few sampling interrupts, and what a step looks for may be in none of them.
few_samples() {
	grep -q 'nothing was recorded' /tmp/out ||
		sed -n 's/^  on-CPU  *\([0-9,]*\) samples\{0,1\} .*/\1/p' /tmp/out | tr -d , | grep -q -x '[1-4]\{0,1\}[0-9]'
}

# step NAME COMMAND…: runs it, and says how it went. What it printed is shown when it failed. One that failed with few samples is
# made again, twice at most.
step() {
	name=$1
	shift
	for _ in 1 2 3; do
		keep_target
		"$@" >/tmp/out 2>&1
		ended=$?
		[ $ended != 0 ] && few_samples || break
		echo "@@ again $name: status $ended$(recorded)"
	done
	if [ $ended = 0 ]; then
		took_way "$name"
	else
		echo "@@ step $name FAILED (status $ended)"
		cat /tmp/out
		status=1
	fi
}

# Exit status 5 says that something is not as it should be for recording.
doctor() {
	prof doctor
}

# Names have ten seconds at the end of a recording, which are little in a slow guest: the rest is added as prof says.
add_names() {
	! grep -q '^  names  *incomplete' /tmp/out || prof symbolize "$1"
}

record() {
	prof record -f -p "$target" -d 1s -e cpu -o /tmp/cpu.data &&
		add_names /tmp/cpu.data &&
		prof report --json /tmp/cpu.data >/tmp/cpu.json && grep -q '"function": *"burn_and_nap"' /tmp/cpu.json
}

# Threads that were there, and threads that were started meanwhile.
waits() {
	prof record -f -p "$target" -d 1s -e cpu,off -o /tmp/off.data &&
		add_names /tmp/off.data &&
		prof report --off-cpu --tree /tmp/off.data >/tmp/off.txt &&
		grep -q burn_and_nap /tmp/off.txt && grep -q start_threads /tmp/off.txt &&
		prof info --json /tmp/off.data >/tmp/off.json &&
		if grep -E '"lost_thread_times": *[1-9]|"lost_waits": *[1-9]' /tmp/off.json; then return 1; fi
}

launch() {
	prof record -f -o /tmp/command.data -- restless 1 && prof report /tmp/command.data
}

report() {
	prof report -n 5 /tmp/cpu.data && prof report --wall -n 5 /tmp/off.data &&
		prof export --format folded -o /tmp/folded /tmp/off.data && test -s /tmp/folded
}

# Functions of Perl, which only BPF programs read; by perf events the interpreter's own are there.
perl_functions() {
	prof record -f -d 1s -o /tmp/perl.data -- perl -e 'sub busy_loop { my $n = 0; $n += $_ for 1 .. 3000; $n }
		my $end = time + 20; busy_loop() while time < $end' &&
		prof report --tree /tmp/perl.data >/tmp/perl.txt || return
	if [ "$wanted" = bpf ]; then
		grep -q busy_loop /tmp/perl.txt
	else
		grep -q Perl_ /tmp/perl.txt
	fi
}

# What Perl allocates. The programs of blocks are loaded for this alone; without BPF it is refused.
heap() {
	if [ "$wanted" != bpf ]; then
		! prof record -f -e heap -o /tmp/heap.data -- perl -e 1 && echo 'refused, as all by perf events'
		return
	fi
	prof record -f -e heap -o /tmp/heap.data -- perl -e 'my @kept = map { "x" x 2000 } 1 .. 50000' &&
		prof report --heap --allocated /tmp/heap.data >/tmp/heap.txt && grep -q ALLOCATED /tmp/heap.txt
}

# On a terminal that nobody sees, until it shows what the target does; `q` ends it.
live() {
	rm -f /tmp/keys /tmp/screen
	mkfifo /tmp/keys
	# Wide enough for the sentence that it shows of perf events.
	script -q -f -c "stty rows 24 cols 400; prof live -p $target" /tmp/screen </tmp/keys >/dev/null &
	viewer=$!
	exec 4>/tmp/keys
	for _ in $(seq 150); do
		grep -q burn_and_nap /tmp/screen 2>/dev/null && break
		sleep 2
	done
	# The list of notes: without it they are shown for a moment, before there is a picture.
	printf ! >&4
	sleep 3
	for _ in 1 2 3 4 5 6; do
		kill -0 $viewer 2>/dev/null && printf q >&4
		sleep 5
	done 2>/dev/null
	exec 4>&-
	wait $viewer
	grep -q burn_and_nap /tmp/screen || return
	! grep -q 'by perf events' /tmp/screen || echo 'by perf events'
}

step doctor doctor
# How far the programs are from what this kernel's verifier refuses. Kernels before 5.16 do not say; half of it is the limit here.
verified=$(tr -s ' \n' ' ' </tmp/out | sed -n 's/.*\(the verifier looked at [0-9,]* instructions of `[^`]*`\).*/\1/p')
looked=$(printf %s "$verified" | tr -d , | sed 's/[^0-9]*\([0-9]*\).*/\1/')
[ -z "$verified" ] || echo "@@ says $verified"
[ "${looked:-0}" -le 500000 ] || {
	echo "@@ step verifier FAILED more than half of what it allows"
	status=1
}
step record record
step off-cpu waits
step command launch
step report report
if [ -x /files/perl ]; then
	step perl perl_functions
	step heap heap
else
	echo "@@ step perl skipped: no perl"
fi
if command -v script >/dev/null; then
	step live live
else
	echo "@@ step live skipped: no script(1), which makes the terminal"
fi

done=0
bad=0
# once ARG…: one recording. One that fails is told, and does not end the loop.
once() {
	[ $done -lt "$recordings" ] || return
	if ! prof record -q -f "$@" >/tmp/out 2>&1; then
		# It took so long to begin that the target has ended: that is none.
		[ $(($(now) - began)) -lt 590 ] || return
		bad=$((bad + 1))
		echo "@@ recording $done failed: $*"
		cat /tmp/out
	fi
	done=$((done + 1))
	echo "@@ recordings $done of $recordings"
}

while [ $done -lt "$recordings" ]; do
	keep_target
	once -p $target -d 200ms -o /tmp/a.data
	keep_target
	once -e cpu,off -p $target -d 200ms -o /tmp/b.data
	[ $((done % 20)) != 18 ] || once -o /tmp/c.data -- restless 0.2
done
echo "@@ recordings $done of $recordings, $bad failed"
kill $target
[ $bad = 0 ] || status=1
exit $status
