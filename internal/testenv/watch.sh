# Waits for the end of the test process (end of file on standard input), then kills its servers and removes the directory $1.
dir=$1
trap '' HUP INT QUIT TERM
read -r _

for list in "$dir"/pids/*; do
	[ -f "$list" ] && kill -9 $(cat "$list")
done

# A killed PostgreSQL leaves its System V memory segment behind: the id is the second word of line 7.
for lock in "$dir"/*/data/postmaster.pid "$dir"/*/volume/data/postmaster.pid; do
	[ -f "$lock" ] || continue
	set -- $(sed -n 7p "$lock")
	[ -n "$2" ] && ipcrm -m "$2"
done

# Orphans of a killed server may still write while they end.
tries=0
while [ -e "$dir" ] && [ "$tries" -lt 30 ]; do
	for volume in "$dir"/*/volume; do
		[ -d "$volume" ] && umount "$volume" 2>/dev/null
	done
	rm -rf "$dir" || sleep 1
	tries=$((tries + 1))
done
