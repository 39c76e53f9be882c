#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# libccl on several GPUs of a node, against NCCL on the same buffers in the same run. See usage() below.
set -euo pipefail

usage() {
    cat <<'TEXT'
usage: bash bench/multigpu.sh [--part NAME[,NAME..]] [--nccl FILE] [--build BUILD] [--quick] [--host] [DIR]

Builds build/multigpu (Release, code objects of the local nvcc) and runs, a rank a GPU:

  tests     the whole suite of tests/mpi with as many ranks as there are GPUs, then with twice as many (under an MPS daemon of this script's own)
  clients   tests/clients.sh, where this tree has it
  sweep     all-gathers of 8 B to 1 GiB a rank: graph and eager (batches); heap, registered and plain buffers; comm_sms 8, 16, 32, 64 and auto; in place too
  fused     all_gather_matmul, where ccl_bench has it: M 1024, 4096, 16384, N 3584, 14336, K 8192
  summary   judge and plot what is there
Default: all of them. Rows (JSON), logs, table and plots go to DIR (default results/multigpu). Needs two NVIDIA GPUs or more, nvcc, cmake, Open MPI, python3;
matplotlib for the plots.

  --nccl    the NCCL library to compare with (default: that of python3's torch, else libnccl.so.2)
  --build   where to build
  --quick   few sizes
  --host    2 ranks on the CPU against libccl's own shim, sweep and summary only: tries the script where there is no GPU
Exit status: 0 all measured numbers are reached, 1 not, 2 something could not be run.
TEXT
}

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
root=$(dirname "$here")
# shellcheck source=bench/gpu_lib.sh
. "$here/gpu_lib.sh"

all_parts="tests clients sweep fused"
parts=$all_parts nccl="" build=$root/build/multigpu quick="" host="" out=""
while [ $# -gt 0 ]; do
    case $1 in
    -h | --help)
        usage
        exit 0
        ;;
    --quick) quick=yes ;;
    --host) host=yes parts="sweep" ;;
    --part | --nccl | --build)
        [ $# -ge 2 ] || die "$1 needs a value"
        case $1 in
        --part) parts=${2//,/ } ;;
        --nccl) nccl=$2 ;;
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
out=${out:-$root/results/multigpu}
mkdir -p "$out"
failed=0

# What python3's torch brings; a program of ours that loads it by name would find another one first.
nccl_of_torch() {
    python3 - <<'TEXT' 2>/dev/null || true
import glob, importlib.util, os
spec = importlib.util.find_spec("nvidia.nccl")
found = [path for folder in (spec.submodule_search_locations if spec else []) for path in glob.glob(os.path.join(folder, "lib", "libnccl.so.2"))]
print(found[0] if found else "")
TEXT
}

say_missing() {
    echo "SKIPPED: $1: $2"
}

# measure RANKS OPERATION ARGUMENTS. No row at all is a failure, too.
measure() {
    gpu_measure 550 "$1" "${spread[@]}" "$bench" "${@:2}" --baseline nccl --nccl "$nccl" --max-time 0.4
    [ -s "$out/$part.n$1.json" ] || failed=1
}

part_sweep() {
    local small=8,64,256,2K,16K,64K,128K,256K,1M large=4M,16M,64M,256M,512M,1G mode=graph,batch
    if [ -n "$host" ]; then
        mode=batch,eager small=8,2K,64K large=1M
    elif [ -n "$quick" ]; then
        small=8,16K,1M large=64M,512M
    fi
    rm -f "$out/$part.n$gpus.json"
    measure "$gpus" all_gather --mode $mode --buffers heap,registered,plain --bytes $small
    measure "$gpus" all_gather --mode ${mode%,*} --buffers heap,plain --bytes $large --comm_sms auto,8,16,32,64
    measure "$gpus" all_gather --mode ${mode%,*} --buffers heap --in-place --bytes $large
}

part_fused() {
    local op
    rm -f "$out/$part.n$gpus.json"
    for op in all_gather_matmul matmul_all_gather; do
        if "$bench" --help | grep "^  $op " >/dev/null; then # not -q: the program's writes must not fail
            measure "$gpus" $op --M 1024,4096,16384 --N 3584,14336 --K 8192 --dtype fp16
        else
            say_missing fused "ccl_bench has no operation $op"
        fi
    done
}

suite() {
    local ranks=$1 log=$out/tests.n$1.log rc=0
    ctest --test-dir "$build" --output-on-failure --no-tests=error -j 1 -L '^mpi$' -LE '^(long|fake|emu)$' -R "\\.n$ranks\$" -E '^bench' >"$log" 2>&1 || rc=$?
    echo "tests, $ranks ranks: $(grep -E 'tests passed' "$log" || tail -n 1 "$log")"
    grep -E '\*\*\*(Failed|Timeout|Exception)' "$log" | cut -c 1-110 || true
    [ "$rc" -eq 0 ] || failed=1
}

part_tests() {
    suite "$gpus"
    mps_start
    suite $((2 * gpus))
    mps_stop
}

part_clients() {
    if [ ! -f "$root/tests/clients.sh" ]; then
        say_missing clients "this tree has no tests/clients.sh"
        return
    fi
    bash "$root/tests/clients.sh" --log "$out/clients" || failed=1
}

plot() {
    local files=("$out"/sweep.n*.json) buffers
    [ -s "${files[0]}" ] || return 0
    for buffers in heap plain; do
        gpu_plot "$buffers.png" --only buffers=$buffers --only in_place=False --only comm_sms=None "${files[@]}"
    done
}

run_parts() {
    local part
    gpu_require cmake mpirun python3
    bench=$build/bench/ccl_bench
    if [ -n "$host" ]; then
        gpus=2 spread=() device="the CPU"
        cmake -S "$root" -B "$build" -DCMAKE_BUILD_TYPE=Release -DCCL_GPU_KERNELS=OFF >"$out/build.log" && cmake --build "$build" --parallel "$(nproc)" \
            --target ccl_bench nccl >>"$out/build.log" || die "the build failed ($out/build.log)"
        nccl=${nccl:-$build/ccl-compat/libnccl.so.2}
        export CCL_BACKEND=host
    else
        gpu_require nvidia-smi nvcc ctest nvidia-cuda-mps-control
        mapfile -t names < <(nvidia-smi --query-gpu=name --format=csv,noheader)
        gpus=${#names[@]}
        [ "$gpus" -ge 2 ] || die "$gpus GPU: two are needed (bench/gpu.sh measures on one)"
        export GPUS=$gpus CCL_BACKEND=gpu
        spread=("$here/on_gpu.sh")
        device="$gpus x ${names[0]}"
        # CTest starts the ranks by the same script.
        gpu_build "$build" all "-DMPIEXEC_PREFLAGS=$here/on_gpu.sh"
        nccl=${nccl:-$(nccl_of_torch)}
        nccl=${nccl:-libnccl.so.2}
        trap mps_cleanup EXIT
    fi
    for part in $parts; do
        rm -f "$out/$part.log"
        begin=$SECONDS
        "part_$part"
        echo "$part: $((SECONDS - begin)) s"
    done
}

[ "$parts" = summary ] || run_parts
plot
status=0
python3 "$here/multigpu_check.py" "$out" | tee "$out/summary.txt" || status=${PIPESTATUS[0]}
[ "$failed" -eq 0 ] || status=2
exit "$status"
