#!/bin/sh
# Runs a program of tests for cargo. The tests of these crates start clients and servers and wait for them,
# so more of them run at once than there are cores.
case ${CARGO_PKG_NAME:-} in
    fogbank-cli | fogbank-lab | fogbank-cloud | fogbank-front | fogbank-peer)
        export RUST_TEST_THREADS="${RUST_TEST_THREADS:-8}"
        ;;
esac
exec "$@"
