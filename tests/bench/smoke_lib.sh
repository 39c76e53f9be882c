# shellcheck shell=bash
# SPDX-License-Identifier: MIT
#
# Sourced by the tests of the bench: a folder of their own, failures; for those whose arguments are [LAUNCHER...] CCL_BENCH also runs that must end with a status.
ccl_bench=("$@")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

fail() {
    echo "FAILED: $*" >&2
    failed=1
}

# run RANKS STATUS ARGUMENTS: ccl_bench must end with STATUS.
run() {
    local ranks=$1 want=$2 status=0
    shift 2
    timeout 50 mpirun -n "$ranks" "${ccl_bench[@]}" "$@" >"$work/text" 2>"$work/errors" || status=$?
    if [ "$status" -ne "$want" ]; then
        fail "$ranks ranks, $*: status $status, want $want"
        cat "$work/text" "$work/errors" >&2
    fi
}

# The end of a test.
finish() {
    [ "$failed" -eq 0 ] && echo "all passed"
    exit "$failed"
}
