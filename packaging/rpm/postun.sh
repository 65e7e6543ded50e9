# $1 is how many versions are left: none after an erasure. The group stays, as files may belong to it.
if [ "$1" = 0 ]; then
	rm -f /etc/prof/capabilities
	rmdir /etc/prof 2>/dev/null || :
fi
