#!/usr/bin/env bash
# Holds four changes against a baseline; every gate must end with the exit code that stands beside it.
#   examples/regression/check.sh [FOLDER for runs]
# Five audits of ten seeds: five to ten minutes on two free cores, and the first line is printed after two of them.
set -euo pipefail
here="$(cd "$(dirname "$0")" && pwd)"
runs="${1:-$(mktemp -d)}"
leakledger="${LEAKLEDGER:-leakledger}"

run() { # NAME [--set ...]
    local name="$1"
    shift
    "$leakledger" run "$here/audit.toml" -o "$runs/$name" "$@" >"$runs/$name.log" 2>&1 ||
        { tail -n 3 "$runs/$name.log" >&2; exit 1; }
}

failures=0
check() { # NAME EXPECTED [--set ...]
    local name="$1" expected="$2" code=0
    shift 2
    run "$name" "$@"
    "$leakledger" gate "$runs/$name" --policy "$here/policy.toml" --baseline "$runs/baseline.json" \
        --config "$here/audit.toml" >"$runs/$name.gate" 2>&1 || code=$?
    echo "$name: exit $code, expected $expected: $(tail -n 1 "$runs/$name.gate")"
    [ "$code" = "$expected" ] || failures=$((failures + 1))
}

mkdir -p "$runs"
run baseline
"$leakledger" baseline save "$runs/baseline" -o "$runs/baseline.json" --policy "$here/policy.toml" \
    --author "example" --reason "the accepted state"
check proportional-sharing 10 --set preprocessing.sharing=proportional
check no-padding 10 --set preprocessing.pad_to=1
check other-seeds 0 --set 'audit.seeds=[20,21,22,23,24,25,26,27,28,29]'
check poor-model 10 --set training.rounds=1
exit "$failures"
