#!/bin/sh
# No line of Rust is wider than 100 columns, which rustfmt asks of code alone. Exempt is what cannot
# be broken: tables in comments, figures in columns, and code with a string in it.
set -eu
cd "$(dirname "$0")/.."

wide=$(git ls-files '*.rs' | xargs grep -nE '^.{101,}' |
    grep -vE '^[^:]+:[0-9]+: *//[/!]? (\||.*   )' | grep -vE '^[^:]+:[0-9]+:[^/]*"' || true)
[ -z "$wide" ] || {
    echo "wider than 100 columns, so break these lines:" >&2
    echo "$wide" >&2
    exit 1
}
