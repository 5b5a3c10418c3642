#!/usr/bin/env bash
# ext4 on volumes of every engine that serves accesses as they come, one after the other in one run, and a table.
# Needs root, nbdfuse, fio and mkfs.ext4. SIZE says how large the volumes are (256MiB), MIB how much is written
# and read in a row (64), FILES how many files are made and removed (10000), SECONDS_EACH how long each fio
# runs (10), ENGINES which engines (tao partition). The cloud side is a local disk, with no link between.
set -euo pipefail
cd "$(dirname "$0")/.."
fogbank=${FOGBANK:-target/release/fogbank}
[ -x "$fogbank" ] || cargo build --release --locked --bin fogbank
size=${SIZE:-256MiB} mib=${MIB:-64} files=${FILES:-10000} seconds=${SECONDS_EACH:-10}
folder=$(mktemp -d)
mounted=
finish() {
    [ -z "$mounted" ] || { kill -INT "$mounted"; wait "$mounted" || true; }
    rm -rf "$folder"
}
trap finish EXIT

# seconds_of COMMAND...: how long it takes, until all it wrote is acknowledged.
seconds_of() {
    local began
    began=$(date +%s.%N)
    "$@" >/dev/null
    sync -f "$disk"
    echo "$(date +%s.%N) $began" | awk '{printf "%.2f", $1 - $2}'
}

forget() {
    sync -f "$disk"
    echo 3 >/proc/sys/vm/drop_caches
}

# random DIRECTION DEPTH: blocks of 4 KiB a second, and their mean latency in ms.
random() {
    forget
    fio --name="$1" --filename="$disk/random" --rw="$1" --bs=4k --direct=1 --ioengine=libaio --iodepth="$2" \
        --size="${mib}m" --runtime="$seconds" --time_based --output-format=json |
        python3 -c 'import json, sys
of = json.load(sys.stdin)["jobs"][0][sys.argv[1]]
print("%.0f/s, %.1f ms" % (of["iops"], of["clat_ns"]["mean"] / 1e6))' "${1#rand}"
}

create() { (cd "$disk/files" && seq "$files" | xargs touch); }
remove() { rm -r "$disk/files"; }

engine() {
    disk=$folder/$1
    mkdir "$disk"
    "$fogbank" volume create --size "$size" --data "$folder/data-$1" --engine "$1" >/dev/null 2>&1
    "$fogbank" mount "$folder/data-$1" "$disk" --mkfs ext4 >"$folder/log" 2>&1 &
    mounted=$!
    for _ in $(seq 300); do
        ! mountpoint -q "$disk" || break
        kill -0 "$mounted" || { cat "$folder/log" >&2; exit 1; }
        sleep 0.1
    done
    mountpoint -q "$disk"
    local write read
    write=$(seconds_of dd if=/dev/urandom of="$disk/file" bs=1M count="$mib" conv=fsync status=none)
    forget
    read=$(seconds_of dd if="$disk/file" of=/dev/null bs=1M status=none)
    rm "$disk/file"
    mkdir "$disk/files"
    row "written in a row" "$(awk "BEGIN {printf \"%.1f MB/s\", $mib * 1.048576 / $write}")"
    row "read in a row" "$(awk "BEGIN {printf \"%.1f MB/s\", $mib * 1.048576 / $read}")"
    row "$files files made" "$(seconds_of create) s"
    row "and removed" "$(seconds_of remove) s"
    dd if=/dev/urandom of="$disk/random" bs=1M count="$mib" conv=fsync status=none
    local direction depth
    for direction in randread randwrite; do
        for depth in 1 16; do
            row "$direction, depth $depth" "$(random $direction $depth)"
        done
    done
    kill -INT "$mounted"
    wait "$mounted"
    mounted=
}

row() { printf '%s\t%s\n' "$1" "$2" >>"$folder/rows-$name"; }

columns=
for name in ${ENGINES:-tao partition}; do
    echo "$name ..." >&2
    engine "$name"
    columns="$columns $folder/rows-$name"
done
printf '%-24s' "ext4, $size"
for name in ${ENGINES:-tao partition}; do printf '%22s' "$name"; done
echo
# The first column of all is that of the first.
# shellcheck disable=SC2086
paste $columns | awk -F'\t' '{printf "%-24s", $1; for (i = 2; i <= NF; i += 2) printf "%22s", $i; print ""}'
