#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Compare two builds on this machine: run A, B, A, B, ... and compare the medians with the noise beside them.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: bash bench/ab.sh [-n RANKS] [-r REPEATS] [-o DIR] BUILD_A BUILD_B [ccl_bench arguments]

Runs BUILD_A/bench/ccl_bench and BUILD_B/bench/ccl_bench in turn, REPEATS times each (default 3), under mpirun with RANKS ranks
(default 2), and prints bench/compare.py of all runs: medians, change, and the spread of each side's repeats. BUILD_A is the
reference. Default arguments: all_gather --bytes 8:8M:x4 --mode eager,batch. The rows stay in DIR (default results/ab) as a.json and
b.json. Exit status: 0, 1 with regressions, 2 when something could not be run.
TEXT
}

die() {
    echo "ab.sh: $*" >&2
    exit 2
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
ranks=2
repeats=3
out=$here/../results/ab
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help)
        usage
        exit 0
        ;;
    -n | -r | -o)
        [ $# -ge 2 ] || die "$1 needs a value"
        case $1 in
        -n) ranks=$2 ;;
        -r) repeats=$2 ;;
        -o) out=$2 ;;
        esac
        shift 2
        ;;
    -*) die "unknown option $1 (--help lists the options)" ;;
    *) break ;;
    esac
done
[[ $ranks =~ ^[1-9][0-9]*$ ]] || die "-n $ranks: not a number of ranks"
[[ $repeats =~ ^[1-9][0-9]*$ ]] || die "-r $repeats: not a number of repeats"
[ $# -ge 2 ] || {
    usage >&2
    exit 2
}
build_a=$1
build_b=$2
shift 2
[ $# -gt 0 ] || set -- all_gather --bytes 8:8M:x4 --mode eager,batch
for build in "$build_a" "$build_b"; do
    [ -x "$build/bench/ccl_bench" ] || die "$build/bench/ccl_bench is not there: build it with MPI installed"
done
command -v mpirun >/dev/null || die "mpirun is missing (Debian: openmpi-bin)"

# shellcheck source=bench/mpi.sh
. "$here/mpi.sh"
mkdir -p "$out"
: >"$out/a.json"
: >"$out/b.json"
for ((i = 1; i <= repeats; i++)); do
    for side in a b; do
        build=build_$side
        echo "[$i/$repeats] ${side^^}: ${!build}" >&2
        status=0
        # A configuration that one build refuses is a row without numbers; compare.py judges it.
        mpi_run "$ranks" "${!build}/bench/ccl_bench" "$@" --format json --out "$out/run.json" >"$out/run.log" 2>&1 || status=$?
        if [ ! -s "$out/run.json" ] || [ "$status" -gt 1 ]; then
            tail -n 20 "$out/run.log" >&2
            die "${!build}/bench/ccl_bench ended with status $status"
        fi
        [ "$status" -eq 0 ] || grep '^ccl_bench:' "$out/run.log" >&2 || true
        cat "$out/run.json" >>"$out/$side.json"
    done
done
rm -f "$out/run.json" "$out/run.log"
python3 "$here/compare.py" "$out/a.json" "$out/b.json"
