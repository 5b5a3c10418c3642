#!/usr/bin/env bash
# What building needs: a C compiler (for the cryptography library) and a Rust toolchain.
set -euo pipefail

if ! command -v cc >/dev/null; then
    if [ "$(id -u)" = 0 ] && command -v apt-get >/dev/null; then
        apt-get update -qq && apt-get install -y -qq gcc libc6-dev make
    else
        echo "A C compiler is missing. On Debian or Ubuntu: sudo apt-get install gcc libc6-dev" >&2
        exit 1
    fi
fi

wanted=1.90
have=$(cargo --version 2>/dev/null | cut -d' ' -f2 || true)
if [ -z "$have" ]; then
    echo "Rust is missing: install it with rustup (https://rustup.rs), then run this again." >&2
    exit 1
fi
if [ "$(printf '%s\n' "$wanted" "$have" | sort -V | head -n1)" != "$wanted" ]; then
    echo "Rust $have is too old, $wanted or newer is needed: run 'rustup update stable'." >&2
    exit 1
fi
