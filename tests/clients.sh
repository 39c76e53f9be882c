#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Runs programs that nobody here wrote on the drop-in library, on an NVIDIA GPU. See usage() below.
set -euo pipefail

usage() {
    cat <<'END'
usage: [NCCL_TESTS_DIR=DIR] bash tests/clients.sh [--part K/N] [--only REGEX] [--log DIR] [--again] [--list]

Builds build/gpu and runs unmodified NCCL programs on its libnccl.so.2, all ranks on the one GPU under an MPS daemon of this script's own:

  nccl-tests   the binaries in NCCL_TESTS_DIR (all_gather_perf ..., built with MPI=1 and NVIDIA's headers): every type and operator, sizes to 128 MiB, graphs,
               aggregation, registration and windows, misaligned buffers, non-blocking communicators; no wrong value
  pytorch      the torch that python3 has: every collective against gloo, groups, splits, graphs, DDP and FSDP2 training against gloo, a killed rank

What is missing is SKIPPED by name. A case that has passed with this very library is not run again, so an interrupted run is continued by the same command.
Exit status: 0 nothing failed, 1 a case failed, 2 something could not be run.

  --part K/N       every N-th case, from the K-th (1..N)
  --only REGEX     the cases whose name matches
  --log DIR        what the programs print, and which cases have passed (default results/clients)
  --again          forget what has passed
  --list           names of the cases, nothing is run
END
}

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
# shellcheck source=bench/gpu_lib.sh
. "$root/bench/gpu_lib.sh"

part=1/1 only="" log=$root/results/clients again="" list=""
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help)
        usage
        exit 0
        ;;
    --again) again=yes ;;
    --list) list=yes ;;
    --part | --only | --log)
        [ $# -ge 2 ] || die "$1 needs a value"
        case $1 in
        --part) part=$2 ;;
        --only) only=$2 ;;
        --log) log=$2 ;;
        esac
        shift
        ;;
    *) die "unknown option $1 (--help lists the options)" ;;
    esac
    shift
done
[[ $part =~ ^([0-9]+)/([0-9]+)$ ]] || die "--part $part is not K/N"
part_k=${BASH_REMATCH[1]} part_n=${BASH_REMATCH[2]}
[ "$part_k" -ge 1 ] && [ "$part_k" -le "$part_n" ] || die "--part $part: K is 1 to N"

# ---- the cases: NAME RANKS SECONDS COMMAND ----

all_tests="all_gather all_reduce reduce_scatter broadcast reduce alltoall gather scatter sendrecv hypercube"

reduces() {
    case $1 in all_reduce | reduce | reduce_scatter) return 0 ;; *) return 1 ;; esac
}

nccl_tests_cases() {
    local test n option ops
    for test in $all_tests; do
        ops=""
        ! reduces "$test" || ops="-o all"
        echo "nccl-tests.$test.types.n4 4 300 perf $test -d all $ops -b 4 -e 4M -f 4"
        for n in 2 4 8; do
            for type in float bfloat16; do
                echo "nccl-tests.$test.$type.n$n $n 300 perf $test -d $type -b 4 -e 128M -f 2"
            done
        done
        for option in "-G 10" "-m 8" "-R 0" "-R 1" "-R 2" "-u 1" "-u 3" "-z 1"; do
            echo "nccl-tests.$test.${option//[- ]/}.n4 4 200 perf $test -d float -b 4 -e 4M -f 4 $option"
        done
    done
}

torch_cases() {
    local what n
    for what in collectives groups split graphs ddp fsdp leave; do
        for n in 2 4 8; do
            echo "pytorch.$what.n$n 1 300 torch $n $what"
        done
    done
    echo "pytorch.death.n2 1 120 torch 2 death"
}

# ---- running ----

# What the library of this run prints, and another one does not.
marker="+libccl"

# perf TEST OPTIONS...: the binary, under the names that nccl-tests' makefile may give it.
perf() {
    local file test=$1
    shift
    for file in "$NCCL_TESTS_DIR/${test}_perf_mpi" "$NCCL_TESTS_DIR/${test}_perf"; do
        if [ -x "$file" ]; then
            gpu_ranks "$seconds" "$ranks" env LD_LIBRARY_PATH="$compat:${LD_LIBRARY_PATH:-}" NCCL_DEBUG=VERSION NCCL_TESTS_DEVICE=0 "$file" -g 1 -c 1 -n 5 "$@"
            return
        fi
    done
    return 77
}

perf_is_right() {
    grep -q 'Out of bounds values : 0 OK' "$1" && ! grep -qE 'Test NCCL failure|FAILED' "$1"
}

torch() {
    local n=$1
    shift
    timeout --kill-after=10 "$seconds" env LD_PRELOAD="$compat/libnccl.so.2" NCCL_DEBUG=VERSION python3 "$root/tests/clients/torch_client.py" --ranks "$n" "$@"
}

torch_is_right() {
    grep -q '^torch_client: all right$' "$1"
}

# Why the cases of a kind cannot run, or nothing.
missing() {
    case $1 in
    perf)
        if [ -z "${NCCL_TESTS_DIR:-}" ]; then
            echo "NCCL_TESTS_DIR does not name the binaries of nccl-tests"
        elif ! ls "$NCCL_TESTS_DIR"/*_perf* >/dev/null 2>&1; then
            echo "no binary of nccl-tests in $NCCL_TESTS_DIR"
        fi
        ;;
    torch)
        python3 -c 'import torch, sys; sys.exit(not torch.distributed.is_nccl_available())' >/dev/null 2>&1 || echo "python3 has no torch with the nccl backend"
        ;;
    esac
}

passed=0 failed=0 skipped=0 before=0 names=()
run_case() {
    local name=$1 ranks=$2 seconds=$3 kind=$4 out=$log/$1.log rc=0 begin=$SECONDS why
    shift 3
    if grep -qxF "$key $name" "$log/passed"; then
        before=$((before + 1))
        return
    fi
    why=${missing_of[$kind]}
    if [ -z "$why" ]; then
        "$@" >"$out" 2>&1 || rc=$?
        [ "$rc" -ne 77 ] || why="no ${2}_perf in $NCCL_TESTS_DIR"
    fi
    if [ -n "$why" ]; then
        skipped=$((skipped + 1))
        names+=("SKIPPED: $name: $why")
    elif [ "$rc" -eq 0 ] && "${kind}_is_right" "$out" && grep -qF "$marker" "$out"; then
        passed=$((passed + 1))
        echo "$key $name" >>"$log/passed"
        printf 'passed %4d s  %s\n' $((SECONDS - begin)) "$name"
    else
        failed=$((failed + 1))
        names+=("FAILED: $name: status $rc, $out")
        printf 'FAILED %4d s  %s (status %d)\n' $((SECONDS - begin)) "$name" "$rc"
        grep -qF "$marker" "$out" || echo "  it did not run on the library of this build"
        tail -n 8 "$out" | cut -c 1-200 | sed 's/^/  /'
    fi
}

cases=$({ nccl_tests_cases; torch_cases; } | awk -v k="$part_k" -v n="$part_n" -v only="${only:-.}" '$1 ~ only && ++i % n == k % n')
if [ -n "$list" ]; then
    echo "$cases" | cut -d ' ' -f 1
    exit 0
fi
declare -A missing_of=([perf]=$(missing perf) [torch]=$(missing torch))
mkdir -p "$log"
[ -z "$again" ] || rm -f "$log/passed"
touch "$log/passed"
build=$root/build/gpu compat=$root/build/gpu/ccl-compat key=none
if [ -z "${missing_of[perf]}" ] || [ -z "${missing_of[torch]}" ]; then
    gpu_require nvcc cmake mpirun python3 nvidia-cuda-mps-control
    gpu_build "$build" nccl
    key=$(sha256sum "$compat/libnccl.so.2" | cut -c 1-16)
    trap mps_cleanup EXIT
    mps_start
fi
while read -r -a fields; do
    [ ${#fields[@]} -eq 0 ] || run_case "${fields[@]}" </dev/null
    case ${fields[0]:-} in
    *.death.*) # a daemon that has lost a client may be in a bad state
        [ -z "$mps_folder" ] || { mps_stop && mps_start; }
        ;;
    esac
done <<<"$cases"
echo
echo "summary"
# One line for all cases of a kind that lack the same thing.
printf '%s\n' ${names[@]+"${names[@]}"} | awk '/^SKIPPED/ { split($2, part, "."); why = $0; sub(/^SKIPPED: [^ ]* /, "", why); count[part[1] " (" why ")"]++; next } NF
    END { for (c in count) print "SKIPPED: " count[c] " cases of " c }'
echo "$passed passed, $before passed before, $failed failed, $skipped skipped"
[ "$failed" -eq 0 ]
