#!/bin/sh
# Installs what the tests of real clients need: from the distribution redis-server and its tools, what
# reads and writes disks over NBD, and PostgreSQL; a Python environment with redis-py under .tools/, and
# object stores. Quick when everything is there.
set -eu
cd "$(dirname "$0")/.."

missing=
command -v redis-server >/dev/null || missing="$missing redis-server"
command -v redis-cli >/dev/null && command -v redis-benchmark >/dev/null ||
    missing="$missing redis-tools"
command -v nbdinfo >/dev/null && command -v nbdcopy >/dev/null || missing="$missing libnbd-bin"
command -v nbdsh >/dev/null && /usr/bin/python3 -c 'import nbd' 2>/dev/null ||
    missing="$missing python3-libnbd"
command -v qemu-img >/dev/null && command -v qemu-io >/dev/null || missing="$missing qemu-utils"
command -v fio >/dev/null || missing="$missing fio"
[ -x /usr/sbin/mkfs.ext4 ] || [ -x /sbin/mkfs.ext4 ] || missing="$missing e2fsprogs"
{ command -v initdb || ls /usr/lib/postgresql/*/bin/initdb; } >/dev/null 2>&1 ||
    missing="$missing postgresql postgresql-client"
python3 -c 'import ensurepip, venv' 2>/dev/null || missing="$missing python3-venv"
if [ -n "$missing" ]; then
    apt-get update -qq
    # Runlevel 1: what is installed starts no services.
    # shellcheck disable=SC2086 # a list of packages
    RUNLEVEL=1 DEBIAN_FRONTEND=noninteractive apt-get install -y -qq $missing
fi

venv=.tools/venv
wanted='redis==8.1.0'
if [ "$(cat $venv/installed 2>/dev/null || true)" != "$wanted" ]; then
    python3 -m venv $venv
    $venv/bin/pip install --quiet --disable-pip-version-check "$wanted"
    echo "$wanted" >$venv/installed
fi

./scripts/setup-object-stores.sh
