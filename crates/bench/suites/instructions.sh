#!/usr/bin/env bash
# Instructions that a program of Credenza executes for one operation, beside another such program.
#
#   crates/bench/suites/instructions.sh BEFORE NOW
#
# Times of one run differ by a fifth on a shared machine, so nine pairs of runs show 7 percent, not 3.
# Instructions are counted by callgrind, whatever else the machine does: two runs of GET differ by
# 0.1 percent, of pipelined SET by 5, for how many share a batch is a matter of time. Each load runs
# twice, short and long; the difference is free of start and stop.
#
# Needs valgrind, redis-tools.
set -euo pipefail

[ $# = 2 ] || { sed -n '2,12s/^# \{0,1\}//p' "$0" >&2; exit 2; }
SHORT=5000
LONG=45000
PORT=17811
PATIENCE_S=120

# Tries a command each second until it answers what it should.
await() {
    local answer=$1 try
    shift
    for ((try = 0; try < PATIENCE_S; try++)); do
        [ "$("$@" 2>/dev/null)" != "$answer" ] || return 0
        sleep 1
    done
    echo "no answer of $* in $PATIENCE_S s" >&2
    return 1
}

# Instructions of a whole run of so many requests.
run() {
    local program=$1 requests=$2 folder server
    shift 2
    folder=$(mktemp -d)
    valgrind --tool=callgrind --callgrind-out-file="$folder/profile" --log-file="$folder/log" \
        "$program" serve --data "$folder/data" --listen "127.0.0.1:$PORT" >"$folder/server" 2>&1 &
    server=$!
    await OK redis-cli -p "$PORT" set warm 1
    redis-benchmark -p "$PORT" -n "$requests" -c 50 -r 10000 -q "$@" >/dev/null
    kill -INT "$server"
    wait "$server" || true
    sed -n 's/.*Collected *: *\([0-9]*\).*/\1/p' "$folder/log"
    rm -rf "$folder"
}

per_operation() {
    local program=$1 short long
    shift
    short=$(run "$program" "$SHORT" "$@")
    long=$(run "$program" "$LONG" "$@")
    echo $(((long - short) / (LONG - SHORT)))
}

echo "| load | before | now | ratio |"
echo "|---|--:|--:|--:|"
for load in "-t set" "-t get" "-t set -P 16" "-t get -P 16"; do
    # shellcheck disable=SC2086 # several words
    before=$(per_operation "$1" $load)
    # shellcheck disable=SC2086
    now=$(per_operation "$2" $load)
    echo "| \`redis-benchmark -c 50 $load\` | $before | $now | $(awk "BEGIN { printf \"%.2f\", $now / $before }") |"
done
