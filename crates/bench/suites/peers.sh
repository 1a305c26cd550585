#!/usr/bin/env bash
# Puts the programs that Credenza is measured beside into a folder, as far as they are missing:
# etcd into DIR, and pouchdb-server by npm (for the suite `coupons`); redis-server, redis-benchmark,
# protoc, db_bench (for `growth`) and perf (for `flames`) come from Debian. What can't be had is named,
# and its points are left out of the suite.
#
#   crates/bench/suites/peers.sh DIR [SUITE...]
set -euo pipefail
[ $# -ge 1 ] || { sed -n '2,7s/^# \{0,1\}//p' "$0" >&2; exit 2; }
ETCD=v3.6.16
lock=$(cd "$(dirname "$0")/pouchdb" && pwd)
mkdir -p "$1"
peers=$(cd "$1" && pwd)
shift
have() { command -v "$1" >/dev/null 2>&1; }

packages="" wants_pouchdb=""
have redis-server || packages="$packages redis-server"
have redis-benchmark || packages="$packages redis-tools"
# With its own definitions, which Debian has apart from it and only recommends.
protoc -o /dev/null google/protobuf/descriptor.proto 2>/dev/null ||
    packages="$packages protobuf-compiler libprotobuf-dev"
have taskset || packages="$packages util-linux"
for suite in "$@"; do
    case "$suite" in
    coupons) wants_pouchdb=1 ;;
    growth) have db_bench || packages="$packages rocksdb-tools" ;;
    flames) have perf || packages="$packages linux-perf" ;;
    esac
done
if [ -n "$packages" ]; then
    if [ "$(id -u)" = 0 ] && have apt-get; then
        apt-get update -q >/dev/null
        # shellcheck disable=SC2086 # one word a package
        DEBIAN_FRONTEND=noninteractive apt-get install -qy --no-install-recommends $packages >/dev/null
    else
        echo "missing; as root: apt-get install -y$packages" >&2
    fi
fi

# From the Go module when there is a Go that can build it.
from_module() {
    have go || return 1
    local build="$peers/src"
    mkdir -p "$build"
    (
        cd "$build"
        export GOTOOLCHAIN=local
        [ -f go.mod ] || go mod init peers >/dev/null 2>&1
        go get "go.etcd.io/etcd/server/v3@$ETCD" >/dev/null 2>&1
        go build -o "$peers/etcd" go.etcd.io/etcd/server/v3
    )
}

# Debian's, unpacked and not installed, so that no service starts.
from_debian() {
    have apt-get && have dpkg-deb || return 1
    local build="$peers/deb"
    mkdir -p "$build"
    (
        cd "$build"
        apt-get download -q -o APT::Sandbox::User=root etcd-server >/dev/null
        dpkg-deb -x etcd-server_*.deb .
        cp usr/bin/etcd "$peers/etcd"
    )
    rm -rf "$build"
}

if [ ! -x "$peers/etcd" ]; then
    from_module || from_debian || echo "etcd can't be had: its points are left out" >&2
fi

# Exactly the modules of the lock file, without their install scripts: LevelDB comes built, and SQLite is
# not used.
pouchdb_modules() {
    have npm || return 1
    rm -rf "$peers/pouchdb"
    mkdir "$peers/pouchdb"
    cp "$lock/package.json" "$lock/package-lock.json" "$peers/pouchdb/"
    (cd "$peers/pouchdb" && npm ci --ignore-scripts --no-audit --no-fund >/dev/null) || {
        rm -rf "$peers/pouchdb"
        return 1
    }
}

if [ -n "$wants_pouchdb" ] && ! cmp -s "$lock/package-lock.json" "$peers/pouchdb/package-lock.json"; then
    pouchdb_modules ||
        echo "pouchdb-server can't be had by npm (as root: apt-get install -y nodejs npm): its rows are left out" >&2
fi
