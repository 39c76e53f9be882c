#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Runs the tests under mpirun on an NVIDIA GPU. See usage() below.
set -euo pipefail

usage() {
    cat <<'END'
usage: bash tests/gpu.sh [--part NAME[,NAME..]] [--only REGEX] [--log DIR] [--list]

Builds build/gpu (Release, code objects of the local nvcc) and runs the tests of tests/mpi and the examples with CCL_BACKEND=gpu, all ranks
on the one GPU. Prints one line a part, the failed tests with the end of their output, and the skipped ones. Parts, under 8 minutes each:

  unit             the backend by itself, on the device; ranks that are threads of one process
  mps2 mps4 mps8   every test with 2, 4, 8 ranks, the ranks clients of an MPS daemon of this script's own
  nomps            a subset with 2 ranks, which take turns on the GPU
  sanitizer        compute-sanitizer memcheck, initcheck, racecheck: all-gathers of every variant, 2 ranks, no MPS
  dead             ranks that die, leave or abort: without MPS, then with it; the daemon is started afresh afterwards and must serve
  big              more than 2^31 elements, more than 4 GiB
Default: all of them. Exit status: 0 nothing failed, 1 a test failed, 2 something could not be run.

  --only REGEX     of these parts the tests whose name matches
  --log DIR        what the tests print (default results/gpu-tests)
  --list           names of the tests, nothing is run
END
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=bench/gpu_lib.sh
. "$root/bench/gpu_lib.sh"

all_parts="unit mps2 mps4 mps8 nomps sanitizer big dead" # dead last: it may leave the GPU's daemon in a bad state
parts=$all_parts only="" log=$root/results/gpu-tests list=""
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help)
        usage
        exit 0
        ;;
    --part | --only | --log)
        [ $# -ge 2 ] || die "$1 needs a value"
        case $1 in
        --part) parts=${2//,/ } ;;
        --only) only=$2 ;;
        --log) log=$2 ;;
        esac
        shift
        ;;
    --list) list=yes ;;
    *) die "unknown option $1 (--help lists the options)" ;;
    esac
    shift
done
[ "$parts" != all ] || parts=$all_parts
for part in $parts; do
    case " $all_parts " in
    *" $part "*) ;;
    *) die "--part $part: known are all $all_parts" ;;
    esac
done
build=$root/build/gpu
budget_s=470
stages=() bad=0
mkdir -p "$log"

# Dying and leaving ranks have a part of their own.
not_here='^bench|^mpi\.(death|kill_all|leave|abort|device_stop)\.'

# tests NAME [ctest options]: one line for the summary, more for what failed.
tests() {
    local name=$1 out=$log/$1.log begin=$SECONDS rc=0 passed failed skipped
    shift
    timeout --kill-after=20 $((budget_s + 10)) ctest --test-dir "$build" --output-on-failure --no-tests=error --stop-time \
        "$(date -d "+$budget_s seconds" +%H:%M:%S)" "$@" ${only:+-R "$only"} >"$out" 2>&1 || rc=$?
    passed=$(grep -cE '^ *[0-9]+/[0-9]+ Test .* Passed ' "$out" || true)
    failed=$(grep -cE '^ *[0-9]+/[0-9]+ Test .*\*\*\*(Failed|Timeout|Exception|Not Run)' "$out" || true)
    skipped=$(grep -cE '^ *[0-9]+/[0-9]+ Test .*\*\*\*Skipped' "$out" || true)
    [ "$rc" -eq 0 ] || [ "$failed" -gt 0 ] || failed=1
    line "$name" "$passed" "$failed" "$skipped" $((SECONDS - begin))
    [ "$failed" -eq 0 ] || show_failures "$out"
    grep -oE 'SKIPPED: .*' "$out" | sort | uniq -c | cut -c 1-160 || true
}

line() {
    stages+=("$(printf '%-28s %4d passed %4d failed %4d skipped %5d s' "$@")")
    bad=$((bad + $3))
    printf '%-28s %4d passed %4d failed %4d skipped %5d s\n' "$@"
}

# The first failed tests, each with the lines that say why. Everything is in the log.
show_failures() {
    grep -E '\*\*\*(Failed|Timeout|Exception|Not Run)' "$1" | cut -c 1-110 | head -n 30 || true
    grep -nE '^[a-z_0-9]+\.c:[0-9]+: |WATCHDOG|rror|killed|signal' "$1" | cut -c 1-220 | head -n 20 || true
    tail -n 3 "$1"
}

# Two tests at once at most: each plans its grids for half of the GPU.
part_mps() {
    mps_start
    tests "mps, $1 ranks" -L '^mpi$' -LE '^(long|fake)$' -E "$not_here|\\.n([^$1]|[0-9][0-9]+)\$" -j 2
    mps_stop
}

part_unit() {
    mps_none
    only=${only:-^unit\.gpu_|^mpi\.device\.threads} CCL_BACKEND=gpu tests "unit" -j 1
}

part_nomps() {
    mps_none
    tests "no mps" -L '^mpi$' -LE '^(long|fake)$' -j 1 -E "$not_here|\\.n[^2]\$|\\.(full|align)\\.|^mpi\\.(init|soak|register|heap|wrap|allgather2d)"
}

part_big() {
    mps_start
    only=${only:-^mpi\.big\.} tests "big" -j 1
    mps_stop
}

part_dead() {
    local deaths='^mpi\.(death\.small|kill_all|leave|abort\.small|device_stop)\.'
    mps_none
    only=${only:-$deaths} tests "dead peers, no mps" -j 1
    mps_start
    only=${only:-$deaths} tests "dead peers, mps" -j 1
    mps_stop
    mps_start
    only='^mpi\.(api|allgather\.small)\.n2$' tests "after a fresh daemon" -j 1
    mps_stop
}

# sanitize TOOL [option]: racecheck looks at shared memory, memcheck at every access, initcheck at reads of memory nobody wrote.
sanitize() {
    local tool=$1 out=$log/sanitizer-$1.log begin=$SECONDS rc=0 reports
    shift
    gpu_ranks 150 2 compute-sanitizer --tool "$tool" --report-api-errors no --error-exitcode 9 --print-limit 5 "$@" "$build/tests/mpi_allgather" smoke >"$out" 2>&1 || rc=$?
    reports=$(grep -cE 'ERROR SUMMARY: 0 errors|RACECHECK SUMMARY: 0 hazards' "$out" || true)
    if [ "$rc" -eq 0 ] && [ "$reports" -eq 2 ]; then
        line "sanitizer, $tool" 1 0 0 $((SECONDS - begin))
    else
        line "sanitizer, $tool" 0 1 0 $((SECONDS - begin))
        grep -E '=========|^\[|\.c:[0-9]+' "$out" | head -n 12 | cut -c 1-200 || true
        echo "  status $rc; $out"
    fi
}

part_sanitizer() {
    mps_none
    if ! command -v compute-sanitizer >/dev/null; then
        echo "SKIPPED: sanitizer: compute-sanitizer is missing"
        stages+=("sanitizer: skipped, compute-sanitizer is missing")
        return
    fi
    export CCL_TEST_WATCHDOG=140 CCL_BACKEND=gpu
    sanitize memcheck
    sanitize initcheck
    sanitize racecheck
    unset CCL_TEST_WATCHDOG CCL_BACKEND
}

gpu_require nvcc cmake ctest mpirun python3
[ -n "$list" ] || gpu_require nvidia-cuda-mps-control nvidia-smi
gpu_build "$build" all
if [ -n "$list" ]; then
    ctest --test-dir "$build" -N -L '^mpi$' -E "$not_here" | grep -oE 'mpi\..*'
    exit 0
fi
trap mps_cleanup EXIT
for part in $parts; do
    case $part in
    mps[248]) part_mps "${part#mps}" ;;
    *) "part_$part" ;;
    esac
done
echo
echo "summary"
printf '%s\n' "${stages[@]}"
[ "$bad" -eq 0 ] || exit 1
