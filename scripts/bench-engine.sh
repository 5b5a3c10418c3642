#!/usr/bin/env bash
# The engine's figures on this machine, one JSON object a setting. SECONDS_EACH sets how long each runs.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --locked --bin fogbank --bin fogbank-lab
seconds=${SECONDS_EACH:-10}
cloud=$(mktemp -d)
trap 'rm -rf "$cloud"' EXIT

# bench NAME FLAG...: runs one setting of 100,000 records of 1 KiB with Z=100.
bench() {
    local name=$1
    shift
    printf '%-34s' "$name"
    ./target/release/fogbank bench engine --engine ring --capacity 100000 --value-size 1024 \
        --bucket-reals 100 --bucket-dummies 196 --evict-every 168 --seconds "$seconds" --json "$@" \
        2>/dev/null | tail -n 1
}

bench "memory, R=8" --store memory: --read-batches 8 --batch 500 --write-batch 500 --cache 0
bench "memory, R=8, cache 32 MiB" --store memory: --read-batches 8 --batch 500 --write-batch 500 --cache 32MiB
bench "memory, R=1" --store memory: --read-batches 1 --batch 500 --write-batch 500 --cache 0
bench "memory, R=1, plain Ring ORAM" --store memory: --read-batches 1 --batch 500 --write-batch 0 --no-epoch-buffer --cache 0
bench "memory, R=8, XOR" --store memory: --read-batches 8 --batch 500 --write-batch 500 --cache 0 --xor on
bench "local disk, R=8" --store "file://$cloud/cloud" --read-batches 8 --batch 500 --write-batch 500 --cache 0
