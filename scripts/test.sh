#!/bin/sh
# Lints and tests everything, and ends with an error after all that fails. What tests need is
# installed while they are built: most of that is downloads. Many tests wait rather than compute. So
# two cargos share the programs of tests (scripts/run-test.sh); beside them lints run, and engines
# that leak are built and tested; then a third takes its share of what is left.
set -u
cd "$(dirname "$0")/.."
cargo=${CARGO:-cargo}
FOGBANK_CLAIMS=$(mktemp -d)
export FOGBANK_CLAIMS
trap 'rm -rf "$FOGBANK_CLAIMS"' EXIT
trap 'trap - TERM; kill 0' INT TERM

share() {
    $cargo --config 'target."cfg(unix)".runner="scripts/run-test.sh"' \
        test --quiet --workspace --locked --lib --bins --tests --no-fail-fast
}

./scripts/setup-tests.sh & installing=$!
$cargo test --workspace --locked --lib --bins --tests --no-run || { wait $installing; exit 1; }
wait $installing || { echo "what tests need cannot be installed: see above" >&2; exit 1; }
share & first=$!
share & second=$!
# Cargo sees whether all is built before it runs a program, and waits with that while another builds.
while [ "$(ls "$FOGBANK_CLAIMS" | wc -l)" -lt 2 ] && kill -0 $first && kill -0 $second; do
    sleep 1
done

failed=
"${MAKE:-make}" lints || failed="$failed lints"
"${MAKE:-make}" test-canaries || failed="$failed test-canaries"
$cargo test --workspace --locked --doc --quiet || failed="$failed doc-tests"
share || failed="$failed tests"
wait $first || failed="$failed tests"
wait $second || failed="$failed tests"
[ -z "$failed" ] && exit
echo "failed:$failed" >&2
exit 1
