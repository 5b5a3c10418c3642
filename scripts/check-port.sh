#!/bin/sh
# Says before a long build that the port of `make run` is taken. Arguments and environment: those of
# `serve`.
set -eu
address=${FOGBANK_LISTEN:-127.0.0.1:6379}
while [ $# -gt 0 ]; do
    case $1 in
    --listen) address=${2:-$address} ;;
    --listen=*) address=${1#--listen=} ;;
    esac
    shift
done
port=${address##*:} host=${address%:*}
case $host in 0.0.0.0) host=127.0.0.1 ;; '[::]') host=::1 ;; '['*) host=${host#[} host=${host%]} ;; esac
command -v bash >/dev/null || exit 0
if bash -c 'exec 3<>"/dev/tcp/$0/$1"' "$host" "$port" 2>/dev/null; then
    echo "$address is taken by another program; stop it, or choose another port:" \
        "make run ARGS=\"--listen 127.0.0.1:$((port + 1))\"" >&2
    exit 1
fi
