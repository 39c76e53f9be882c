#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Measure everything the README promises and print it as one table with pass or FAIL.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: bash bench/numbers.sh [--quick] [-r REPEATS] [-o DIR] [BUILD]

Runs BUILD/bench/ccl_bench (default build/release; bash bench/run.sh builds it) with 2, 4 and 8 ranks against MPI_Allgather,
communicator init with 2 to 64 ranks, and prints required and measured numbers (bench/numbers_check.py). The rows stay in DIR (default
results/numbers). REPEATS: measure all of it so often and take medians (default 1).

  --quick   every fourth size and less time for each: about a minute instead of about six
Exit status: 0 all numbers are met, 1 not, 2 something could not be run.
TEXT
}

die() {
    echo "numbers.sh: $*" >&2
    exit 2
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
out=$root/results/numbers
build=
repeats=1
factor=2
init_ranks=(2 4 8 16 32 64)
more=()
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help)
        usage
        exit 0
        ;;
    --quick)
        factor=4
        more=(--min-time 0.05 --max-time 0.5)
        ;;
    -r | -o)
        [ $# -ge 2 ] || die "$1 needs a value"
        if [ "$1" = -r ]; then repeats=$2; else out=$2; fi
        shift
        ;;
    -*) die "unknown option $1 (--help lists the options)" ;;
    *)
        [ -z "$build" ] || die "'$1': one build only"
        build=$1
        ;;
    esac
    shift
done
build=${build:-$root/build/release}
[[ $repeats =~ ^[1-9][0-9]*$ ]] || die "-r $repeats: not a number of repeats"
bench=$build/bench/ccl_bench
[ -x "$bench" ] || die "$bench is not there: bash bench/run.sh builds it"
command -v mpirun >/dev/null || die "mpirun is missing (Debian: openmpi-bin)"

# shellcheck source=bench/mpi.sh
. "$here/mpi.sh"
mkdir -p "$out"
rm -f "$out"/*.json

measure() { # NAME RANKS ccl_bench arguments
    local name=$1 ranks=$2 status=0
    shift 2
    echo "$name: $ranks ranks: $*" >&2
    mpi_run "$ranks" "$bench" "$@" --format json --out "$out/run.json" >"$out/run.log" 2>&1 || status=$?
    if [ "$status" -gt 1 ] || [ ! -s "$out/run.json" ]; then
        tail -n 20 "$out/run.log" >&2
        die "ccl_bench ended with status $status"
    fi
    grep '^ccl_bench:' "$out/run.log" >&2 || true
    cat "$out/run.json" >>"$out/$name.json"
}

for ((i = 1; i <= repeats; i++)); do
    for ranks in 2 4 8; do
        top=64M
        [ "$ranks" -eq 2 ] || top=16M
        measure "n$ranks" "$ranks" all_gather --bytes "8:4K:x$factor" --mode batch --baseline mpi "${more[@]}"
        measure "n$ranks" "$ranks" all_gather --bytes "8:4K:x$factor,8K:$top:x$factor" --mode eager --baseline mpi "${more[@]}"
    done
    for ranks in "${init_ranks[@]}"; do
        measure init "$ranks" init --iters 20
    done
done
rm -f "$out/run.json" "$out/run.log"
echo >&2
python3 "$here/numbers_check.py" "$out"/*.json
