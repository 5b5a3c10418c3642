#!/bin/sh
# Installs what the tests of real clients need: redis-server and its tools from the distribution,
# a Python environment with redis-py under .tools/, and object stores. Quick when everything is there.
set -eu
cd "$(dirname "$0")/.."

missing=
command -v redis-server >/dev/null || missing="$missing redis-server"
command -v redis-cli >/dev/null && command -v redis-benchmark >/dev/null ||
    missing="$missing redis-tools"
python3 -c 'import ensurepip, venv' 2>/dev/null || missing="$missing python3-venv"
if [ -n "$missing" ]; then
    apt-get update -qq
    # shellcheck disable=SC2086 # a list of packages
    DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $missing
fi

venv=.tools/venv
wanted='redis==8.1.0'
if [ "$(cat $venv/installed 2>/dev/null || true)" != "$wanted" ]; then
    python3 -m venv $venv
    $venv/bin/pip install --quiet --disable-pip-version-check "$wanted"
    echo "$wanted" >$venv/installed
fi

./scripts/setup-object-stores.sh
