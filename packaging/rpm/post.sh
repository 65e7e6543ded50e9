# Makes the group, and gives the program its capabilities again if they were asked for.
getent group prof >/dev/null 2>&1 || groupadd --system prof || :
/usr/sbin/prof-capabilities again || :
