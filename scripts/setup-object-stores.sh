#!/bin/sh
# Installs the object stores that tests start on this machine, under .tools/: gofakes3 and versitygw (S3),
# Azurite (Azure), or those that are named. Quick when everything is there already. Needs Go 1.25 or newer,
# for Azurite Node.js and npm, and says so if they are missing: what distributions have is often too old.
set -eu
cd "$(dirname "$0")/.."
named=${*:-gofakes3 versitygw azurite}

bin=$PWD/.tools/bin
echo "object stores for tests, in .tools: $named (the first time some minutes)"
# wanted NAME VERSION: whether it is to be installed, and is not yet in that version.
wanted() {
    case " $named " in *" $1 "*) ;; *) return 1 ;; esac
    [ "$(cat ".tools/$1.installed" 2>/dev/null || true)" != "$2" ]
}
# note NAME VERSION: it is now.
note() {
    echo "$2" >".tools/$1.installed"
}
# go_tool NAME MODULE VERSION
go_tool() {
    wanted "$1" "$3" || return 0
    echo "  building $1 $3"
    if ! command -v go >/dev/null; then
        echo "the tests of object stores need Go 1.25 or newer: install it from https://go.dev/dl" >&2
        exit 69
    fi
    if ! GOBIN=$bin go install "$2@$3"; then
        echo "$1 was not built; it needs Go 1.25 or newer, this is: $(go version)" >&2
        exit 69
    fi
    note "$1" "$3"
}

mkdir -p "$bin"
go_tool gofakes3 github.com/johannesboyne/gofakes3/cmd/gofakes3 v1.2.0
go_tool versitygw github.com/versity/versitygw/cmd/versitygw v1.8.0
if wanted azurite 3.35.0; then
    if ! command -v npm >/dev/null; then
        echo "the tests of object stores need Node.js 20 or newer with npm: install it from https://nodejs.org" >&2
        exit 69
    fi
    echo "  installing azurite 3.35.0"
    mkdir -p .tools/azurite
    (cd .tools/azurite && npm install --no-fund --no-audit --silent azurite@3.35.0)
    note azurite 3.35.0
fi
echo "  all there"
