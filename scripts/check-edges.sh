#!/usr/bin/env bash
# The trust boundary is a crate edge. This holds the edges that ship against what they may be.
set -euo pipefail
cd "$(dirname "$0")/.."

# reaches CRATE: the crates of this workspace that CRATE can name, transitively.
reaches() {
    cargo tree --locked -e normal --prefix none -p "fogbank-$1" --format '{p}' \
        | sed -n 's/^fogbank-\([a-z]*\) .*/\1/p' | sort -u | { grep -vx "$1" || true; } | tr '\n' ' '
}

failed=0
# allow CRATE "CRATES": it may reach these and no others.
allow() {
    local crate=$1 allowed=$2 reached found
    reached=$(reaches "$crate")
    for found in $reached; do
        case " $allowed " in
            *" $found "*) ;;
            *) echo "crate edge: $crate must not reach $found" >&2; failed=1 ;;
        esac
    done
}

allow env ""
allow store "env"
allow seal "env"
allow audit "env store"
allow durable "env seal store"
allow oram "env seal store durable"
allow txn "env seal store durable oram"
allow front "env seal store durable oram txn"

if cargo tree --locked -e normal --prefix none -p fogbank-store --format '{p}' | grep -Eq '^(aws-lc|ring|aes|chacha20poly1305|hmac) '; then
    echo "crate edge: store must not reach a cipher" >&2
    failed=1
fi
if cargo tree --locked -e normal --prefix none -p fogbank --format '{p}' | grep -q '^fogbank-sim '; then
    echo "crate edge: the binary must not contain the simulator" >&2
    failed=1
fi
# The canary: a check that cannot fail checks nothing.
if [ "$(reaches txn | grep -c oram)" = 0 ]; then
    echo "crate edge: the check itself is blind (txn is known to reach oram)" >&2
    failed=1
fi
exit "$failed"
