#!/bin/sh
# Runs a program of tests for cargo. Tests of some crates start clients and servers and wait for them:
# more of them run at once than there are cores. Where FOGBANK_CLAIMS names a folder, several cargos
# go through the same programs: the first to come to one runs it, the others pass it by.
case ${CARGO_PKG_NAME:-} in
    fogbank | fogbank-cli | fogbank-cloud | fogbank-front | fogbank-lab | fogbank-objects | \
        fogbank-peer)
        export RUST_TEST_THREADS="${RUST_TEST_THREADS:-4}"
        ;;
esac
[ -n "${FOGBANK_CLAIMS:-}" ] || exec "$@"

claim=$FOGBANK_CLAIMS/${1##*/}
mkdir "$claim" 2>/dev/null || exit 0
echo "     Running $CARGO_PKG_NAME ${1##*/}"
status=0
"$@" >"$claim/said" 2>&1 || status=$?
# In one piece: others print at the same time.
{ echo "     $CARGO_PKG_NAME ${1##*/} said:"; cat "$claim/said"; } >"$claim/all"
cat "$claim/all"
exit $status
