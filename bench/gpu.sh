#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Builds on a machine with an NVIDIA GPU, validates and measures everything docs/performance.md shows, and judges it. See usage() below.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: bash bench/gpu.sh [--quick] [--part NAME[,NAME..]] [--ranks N[,N..]] [--build BUILD] [DIR]

Builds build/gpu (Release, code objects of the local nvcc), starts an MPS daemon of its own, runs 2, 4 and 8 ranks on the one GPU, and leaves rows
(JSON), logs and plots in DIR (default results/gpu). Prints the numbers that must be reached with PASS or FAIL. Needs an NVIDIA GPU, nvcc,
cmake, Open MPI and python3; matplotlib for the plots. Everything is under 5 minutes after the build.

  --part   of: bare sizes eager init large select tiles partitioned peers copy, or summary (judge and plot what is there); default all
             bare         hand-written kernels without the protocol (bench/probe.cu)
             sizes        graphs, 8 B to 1 MiB, heap and plain buffers        eager   calls in a loop, time of the enqueue
             init         making communicators                                large   256 MiB in all and a rank, also with 16 blocks
             select       automatic choice against each variant, 8 B to 1 GiB
             tiles        M x N x type x blocks, 2-D                           partitioned, peers, copy   these tunables
  --ranks  default 2,4,8; rows of other numbers that are in DIR already stay
  --build  where to build (default build/gpu)
  --quick  fewer sizes: under a minute after the build
Exit status: 0 all measured numbers are reached, 1 not, 2 something could not be run.
TEXT
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
# shellcheck source=bench/gpu_lib.sh
. "$here/gpu_lib.sh"

all_parts="bare sizes eager init large select tiles partitioned peers copy"
parts=$all_parts ranks_list="2 4 8" quick="" out="" build=$root/build/gpu
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help)
        usage
        exit 0
        ;;
    --quick) quick=yes ;;
    --part | --ranks | --build)
        [ $# -ge 2 ] || die "$1 needs a value"
        case $1 in
        --part) parts=${2//,/ } ;;
        --ranks) ranks_list=${2//,/ } ;;
        --build) build=$2 ;;
        esac
        shift
        ;;
    -*) die "unknown option $1 (--help lists the options)" ;;
    *)
        [ -z "$out" ] || die "'$1': one folder only"
        out=$1
        ;;
    esac
    shift
done
for part in $parts; do
    case " $all_parts summary all " in
    *" $part "*) ;;
    *) die "--part $part: known are $all_parts summary all" ;;
    esac
done
[ "$parts" != all ] || parts=$all_parts
for ranks in $ranks_list; do
    case $ranks in
    2 | 4 | 8) ;;
    *) die "--ranks $ranks: 2, 4 or 8" ;;
    esac
done
out=${out:-$root/results/gpu}
mkdir -p "$out"
bench=$build/bench/ccl_bench
failed=0

measure() {
    gpu_measure 280 "$1" "$bench" "${@:2}"
}

gather() {
    measure "$1" all_gather "${@:2}" --max-time 0.5
}

part_bare() {
    timeout --kill-after=10 120 "$build/probe" "$1" "$out/bare.n$1.json" >>"$out/bare.log" 2>&1 || {
        failed=1
        echo "  bare, $1 ranks: $(tail -n 1 "$out/bare.log" | cut -c 1-200)"
    }
}

part_sizes() {
    local sizes=8,64,512,4K,16K,64K,256K,1M
    [ -z "$quick" ] || sizes=8,4K,64K,1M
    gather "$1" --mode graph --buffers heap,plain --bytes "$sizes"
}

part_eager() {
    gather "$1" --mode batch --batch 200 --bytes 8,512,4K,64K
}

part_init() {
    measure "$1" init --iters 10 --max-time 5
}

part_large() {
    gather "$1" --mode graph --buffers heap,plain --bytes $((256 / $1))M,256M
    gather "$1" --mode graph --bytes 256M --comm_sms 16
}

part_select() {
    local small=8:64K:x2 large=128K:1M:x2,4M,16M,64M,256M,1G plain=128K:1M:x2,4M,16M,64M
    if [ -n "$quick" ]; then
        small=8:64K:x8 large=256K,1M,16M,64M plain=1M,16M
    fi
    gather "$1" --mode graph --bytes "$small" --variant auto,ll,direct,staged,partitioned
    gather "$1" --mode graph --bytes "$large" --variant auto,direct,staged,partitioned
    gather "$1" --mode graph --buffers plain --bytes "$small" --variant auto,ll,staged,partitioned
    gather "$1" --mode graph --buffers plain --bytes "$plain" --variant auto,staged,partitioned
}

part_tiles() {
    if [ -n "$quick" ]; then
        gather "$1" --mode graph --M 1024 --N 4096 --dtype fp16 --comm_sms 8,32,128 --tile auto,8x256,32x64,16x128
        return
    fi
    gather "$1" --mode graph --M 1024,4096,16384 --N 4096,8192 --dtype fp16,bf16,fp32 --comm_sms 8,16,32,64,128
    gather "$1" --mode graph --M 4096 --N 8192 --dtype fp16 --comm_sms 8,16,32,64,128 --tile 8x256,32x64,16x128
}

part_partitioned() {
    gather "$1" --mode graph --bytes 1M,64M --variant partitioned,direct --comm_sms 8,16,32,64
}

part_peers() {
    gather "$1" --mode graph --bytes 1M,64M --variant direct --peers-per-wait 1,2,4
}

part_copy() {
    gather "$1" --mode graph,batch --bytes 1M,64M,256M --variant copy --batch 20
}

plot() {
    local files=() file
    for file in "$out"/{sizes,large,select}.n?.json; do
        [ ! -s "$file" ] || files+=("$file")
    done
    [ ${#files[@]} -gt 0 ] || return 0
    gpu_plot heap.png --only variant=auto --only mode=graph --only buffers=heap "${files[@]}"
    gpu_plot plain.png --only variant=auto --only mode=graph --only buffers=plain "${files[@]}"
}

if [ "$parts" != summary ]; then
    gpu_require nvidia-smi nvcc cmake mpirun python3 nvidia-cuda-mps-control
    device=$(nvidia-smi --query-gpu=name --format=csv,noheader | sed -n 1p) # which reads all of it: who closes the pipe early fails the script
    gpu_build "$build" ccl_bench
    case " $parts " in
    *" bare "*) nvcc -O3 -std=c++17 -arch=native "$here/probe.cu" -o "$build/probe" || die "bench/probe.cu does not compile" ;;
    esac
    export CCL_BACKEND=gpu
    trap mps_cleanup EXIT
    mps_start
fi
for part in $parts; do
    [ "$part" != summary ] || continue
    begin=$SECONDS
    rm -f "$out/$part.log"
    for ranks in $ranks_list; do
        rm -f "$out/$part.n$ranks.json"
        "part_$part" "$ranks"
    done
    echo "$part: $((SECONDS - begin)) s"
done
plot
status=0
python3 "$here/gpu_check.py" "$out" | tee "$out/summary.txt" || status=${PIPESTATUS[0]}
[ "$failed" -eq 0 ] || status=2
exit "$status"
