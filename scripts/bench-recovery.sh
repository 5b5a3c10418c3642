#!/usr/bin/env bash
# What durability costs and how long a recovery takes, one JSON object a setting. SECONDS_EACH sets how
# long a round runs, CAPACITIES which stores.
set -euo pipefail
cd "$(dirname "$0")/.."
cargo build --release --locked --bin fogbank --bin fogbank-lab
for capacity in ${CAPACITIES:-10000 100000 1000000}; do
    # Round trip, interval, register: back to back and on the default grid.
    for setting in "0.3 0 memory" "0.3 60 memory" "10 60 memory" "10 0 memory" "0.3 60 file"; do
        read -r rtt interval register <<<"$setting"
        printf '%-8s rtt %-4s interval %-3s %-7s' "$capacity" "$rtt" "$interval" "$register"
        ./target/release/fogbank bench recovery --capacity "$capacity" --value-size 1024 --cache 0 \
            --rtt-ms "$rtt" --interval-ms "$interval" --register "$register" \
            --seconds "${SECONDS_EACH:-2}" --rounds 5 --json 2>/dev/null | tail -n 1
    done
done
