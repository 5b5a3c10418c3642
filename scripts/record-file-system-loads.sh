#!/bin/sh
# Takes down what a real ext4 asks of its disk while one large file is copied to it, and while many small ones are
# made: what `sim/src/scene/tao/load.rs` plays. Needs root (mount), nbdkit, nbdfuse, mkfs.ext4 and python3.
#
# A line of the result is one request: milliseconds since the first, r or w, first block of 4 KiB, blocks.
set -eu
out=$(cd "$(dirname "$0")/../crates/sim/src/scene/tao/file_system" && pwd)
work=$(mktemp -d)
trap 'umount "$work/files" 2>/dev/null || true; umount "$work/disk" 2>/dev/null || true; rm -rf "$work"' EXIT
mkdir "$work/files"

record() { # name, what to do in the file system
    rm -f "$work/log" "$work/image" "$work/disk"
    touch "$work/disk"
    truncate -s 64M "$work/image"
    mkfs.ext4 -q -b 4096 -E lazy_itable_init=0,lazy_journal_init=0 "$work/image"
    nbdfuse "$work/disk" --socket-activation \
        nbdkit --filter=log file "$work/image" logfile="$work/log" &
    while [ ! -s "$work/disk" ]; do sleep 0.1; done
    mount -o loop,noatime "$work/disk" "$work/files"
    sleep 1
    before=$(wc -l < "$work/log")
    (cd "$work/files" && eval "$2" && sync -f .)
    sleep 6 # what the journal does later
    umount "$work/files"
    umount "$work/disk"
    wait
    tail -n +$((before + 1)) "$work/log" | python3 -c '
import re, sys
first = None
request = re.compile(r"(\d+):(\d+):([\d.]+) .* (Read|Write) .*offset=(0x[0-9a-f]+) count=(0x[0-9a-f]+)")
for line in sys.stdin:
    found = request.search(line)
    if not found or "..." not in line[-5:]:
        continue
    hours, minutes, seconds, kind, offset, count = found.groups()
    at = round(1000 * ((int(hours) * 60 + int(minutes)) * 60 + float(seconds)))
    first = at if first is None else first
    print(at - first, kind[0].lower(), int(offset, 16) // 4096, int(count, 16) // 4096)
' > "$out/$1.txt"
}

head -c 12M /dev/urandom > "$work/large"
record one-large-file "cp '$work/large' copy"
record many-small-files 'mkdir d; i=0; while [ $i -lt 1500 ]; do head -c $((1000 + i)) /dev/zero > d/$i; i=$((i + 1)); done'
