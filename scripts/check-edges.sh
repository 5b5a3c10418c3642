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

allow process ""
allow env ""
allow store "env"
allow objects "env store"
allow seal "env"
allow picture "env"
allow audit "env store picture"
allow held ""
allow mix "env store"
allow durable "env seal store held"
allow tls "env"
allow pages "env"
allow cloud "process env store objects tls pages peer held mix"
allow peer "env tls held"
allow oram "env seal store durable held mix"
allow txn "env seal store durable held mix oram"
allow workload "env seal store durable held mix oram txn"
allow front "env seal store durable held mix oram txn tls"
# What holds the key, and nothing that measures, draws, tunes or audits.
allow cli "process env store objects seal durable held mix tls pages cloud peer oram txn front picture terminal"

# Disks stand on an engine alone.
disks() {
    cargo tree --locked -e normal --prefix none -p fogbank-front --no-default-features --features "$1" --format '{p}'
}
if disks nbd | grep -q '^fogbank-txn '; then
    echo "crate edge: front/nbd must not reach txn" >&2
    failed=1
fi
if ! disks resp | grep -q '^fogbank-txn '; then
    echo "crate edge: the check itself is blind (front/resp is known to reach txn)" >&2
    failed=1
fi
if cargo tree --locked -e normal --prefix none -p fogbank-store --format '{p}' | grep -Eq '^(aws-lc|ring|aes|chacha20poly1305|hmac) '; then
    echo "crate edge: store must not reach a cipher" >&2
    failed=1
fi
if cargo tree --locked -e normal --prefix none -p fogbank-cli --format '{p}' | grep -q '^fogbank-sim '; then
    echo "crate edge: the binary must not contain the simulator" >&2
    failed=1
fi
# The canary: a check that cannot fail checks nothing.
if [ "$(reaches txn | grep -c oram)" = 0 ]; then
    echo "crate edge: the check itself is blind (txn is known to reach oram)" >&2
    failed=1
fi

# An engine is named in its own folders and crates, in fogbank/engines, in tests and in benchmarks; that
# of sites in fogbank/site. The registries list all engines, and nothing else knows which there are.
engines=$({
    sed -nE 's/^pub const NAME: &str = "([a-z]+)";$/\1/p' crates/audit/src/oracle/*/engine.rs
    find crates/fogbank/src/engines -name '*.rs' -exec sed -nE \
        '/static ENGINE: VolumeEngine/,/^};/s/^    name: "([a-z]+)",$/\1/p' {} \;
} | sort -u | paste -sd '|')
# naming FILES: lines that name an engine, up to the tests at the end of a file.
naming() {
    awk -v names="\"($engines)\"|(^|[^a-z])($engines)engine|engineconfig::($engines)" '
        FNR == 1 { tests = 0 }
        /^#\[cfg\(test\)\]/ { tests = 1 }
        !tests && tolower($0) ~ names { print FILENAME ":" FNR ":" $0 }' "$@"
}
elsewhere=$(find crates -path '*/src/*' -name '*.rs' | sort \
    | grep -vE "/($engines)/|/tests?(/|\.rs)|^crates/(fogbank/src/engines/|fogbank/src/site(/|\.rs)|lab/src/bench/|mix/|sim/)")
if named=$(naming $elsewhere) && [ -n "$named" ]; then
    echo "engines: named outside of their places (docs/decisions/0047-an-engine-is-listed-once-a-crate.md):" >&2
    echo "$named" >&2
    failed=1
fi
for name in RingEngine 'TaoEngine::open' 'EngineConfig::Ring' '"tao"' MulticloudEngine; do
    if [ -z "$(naming <(echo "let engine = $name;"))" ]; then
        echo "engines: the check itself is blind ($name is known to name one)" >&2
        failed=1
    fi
done

# Crates of others in the program that holds the key: a new one is a decision.
others=$(cargo tree --locked -e normal,no-proc-macro --prefix none -p fogbank-cli --format '{p}' \
    | sed -n '/^fogbank/!s/^\([^ ]*\) .*/\1/p' | sort -u)
if ! diff scripts/trusted-crates.txt <(echo "$others") >&2; then
    echo "trusted crates: the program that holds the key links other crates than scripts/trusted-crates.txt" \
         "says; leave the new one out, or put it there and say why in the commit" >&2
    failed=1
fi

# Engines that leak on purpose, the store that lies and a clock that stands still are for tests. A build
# of the binary from the root of the workspace gives every crate the features that any member asks for.
test_features='canaries|testing|test-util'
# asked OPTIONS: crates that have one of those features.
asked() {
    cargo tree --locked --workspace -e normal --prefix none --format '{p} features {f}' "$@" \
        | sed -nE "s/^([a-z-]+) .* features (.*,)?($test_features)(,.*)?( \(\*\))?\$/\1 \3/p" | sort -u
}
if [ -n "$(asked)" ]; then
    echo "features for tests are in what ships:" $(asked) >&2
    failed=1
fi
for crate in 'fogbank-oram canaries' 'fogbank-store testing' 'tokio test-util'; do
    if ! asked --features fogbank-sim/canaries | grep -qx "$crate"; then
        echo "features: the check itself is blind (the simulator is known to ask for $crate)" >&2
        failed=1
    fi
done

# holds FILE: whether a program holds an engine that can leak. The words stand in fogbank-oram.
holds() {
    grep -qaF 'fogbank: this program can leak (test)' "$1"
}
for binary in target/{release,debug}/{fogbank,fogbank-lab}; do
    if [ -f "$binary" ] && holds "$binary"; then
        echo "canaries: $binary holds an engine that can leak" >&2
        failed=1
    fi
done
# The canaries of that: the words are those of the source, and a test that has canaries holds them.
if ! holds crates/oram/src/canary.rs; then
    echo "canaries: the check itself is blind (the marker is another)" >&2
    failed=1
fi
leaky=$(find target -path "target/*/deps/*" -name 'canaries-*' -type f -perm -u+x -newer crates/oram/src/canary.rs 2>/dev/null | head -n 1 || true)
if [ -n "$leaky" ] && ! holds "$leaky"; then
    echo "canaries: the check itself is blind ($leaky is known to hold them)" >&2
    failed=1
fi
exit "$failed"
