#!/bin/sh
# Fails if a program has options or code that are for tests alone (the feature `testing`). POSIX sh.
#
#   scripts/doors.sh PROGRAM
set -u
prof=$1
status=0
# Known options print the help, others are an error of usage: nothing is recorded either way.
for option in --stack-copies=x --wait-stacks-when-leaving; do
	"$prof" record "$option" --help >/dev/null 2>&1
	if [ $? != 2 ]; then
		echo "$prof takes $option, which is for tests alone" >&2
		status=1
	fi
done
# The first bytes of a file of stack copies.
if grep -q PROFCOPY "$prof"; then
	echo "$prof can write stack copies, which is for tests alone" >&2
	status=1
fi
exit $status
