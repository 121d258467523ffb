#!/usr/bin/env bash
source ./common.sh
. "$HOME/.env"

readonly VERSION=1
export TARGET="prod"
name=app
name=web

# Builds everything.
build() {
    local out="$1" flags
    name=other
    compile "$out" "${TARGET}"
    for file in *.c; do
        echo "$file $(basename "$file")"
    done
}

function deploy {
    if [[ -n "$name" ]]; then
        build "$VERSION" | tee log
    fi
}

deploy "$@"
