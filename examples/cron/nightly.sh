#!/bin/sh
# A nightly batch job of unknown length over many buckets, on as many hosts as there are.
#
#   nightly.sh          takes each bucket that nobody works on, one after the other
#   nightly.sh bucket   works on one, under its lock: fencegate exec calls it so
#
# Where the gateway is, and by which key, is in FENCEGATE_URL and FENCEGATE_API_KEY_FILE. Besides:
#
#   BUCKETS  how many buckets there are (4)
#   ITEMS    how many items each of them has (5)
#   NIGHT    which night this is (today's date): what was done is counted by night
#   TTL      how long a bucket stays taken when its host falls silent (30s)
#   WORK     a program that does one item (BUCKET ITEM) and prints its result, a number
set -eu

: "${BUCKETS:=4}" "${ITEMS:=5}" "${TTL:=30s}" "${NIGHT:=$(date +%Y-%m-%d)}"
export ITEMS NIGHT
case "$BUCKETS,$ITEMS" in
*[!0-9,]* | ,* | *,) echo "nightly: BUCKETS is \"$BUCKETS\" and ITEMS is \"$ITEMS\": want whole numbers; nothing was done" >&2; exit 2 ;;
esac

# work does one item and prints its result. Here comes yours.
work() {
	if [ -n "${WORK-}" ]; then
		"$WORK" "$1" "$2"
	else
		echo "$2"
	fi
}

# bucket does what is left of a bucket. The token of its lock is in FENCING_TOKEN, and the
# commands here find it there: once somebody else has the bucket they are refused, with status
# 76, and this ends.
bucket() {
	# To add 0 is to read inside the fence; and what is not there yet becomes 0.
	at=$(fencegate records add "$FENCING_RESOURCE" "done:$NIGHT" 0)
	while [ "$at" -lt "$ITEMS" ]; do
		at=$((at + 1))
		result=$(work "$FENCING_RESOURCE" "$at")
		# The result and how far we are, both or neither. Where no answer comes, this ends: the
		# next run reads how far it is under a newer token, after which ours can change nothing.
		fencegate commit >/dev/null <<-END
			{"ops": [
				{"kind": "add", "resource": "$FENCING_RESOURCE", "key": "done:$NIGHT", "delta": "1"},
				{"kind": "add", "resource": "$FENCING_RESOURCE", "key": "total:$NIGHT", "delta": "$result"}
			]}
		END
	done
}

if [ "${1-}" = bucket ]; then
	bucket
	exit
fi

failed=0
i=0
while [ "$i" -lt "$BUCKETS" ]; do
	resource=$(printf 'job:nightly.b%02d' "$i")
	i=$((i + 1))
	status=0
	fencegate exec "$resource" --nonblock --ttl "$TTL" -- sh "$0" bucket || status=$?
	case $status in
	0) ;;
	75) ;; # another host has it
	69)
		echo "nightly: no gateway" >&2
		exit 69
		;;
	*) # 76 refused, 77 the lease was lost, or the work's own: the next run goes on from there
		echo "nightly: $resource ended with status $status" >&2
		failed=$((failed + 1))
		;;
	esac
done
[ "$failed" -eq 0 ]
