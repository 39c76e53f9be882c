#!/usr/bin/env bash
# A/B of the all-gathers on one H200 under MPS (2, 4, 8 ranks), then on two H200 (one rank each). Prints tables.
set -uo pipefail
T0=$SECONDS
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd); root=$(dirname "$here"); OUT=${OUT:-/tmp/ab.out}; mkdir -p "$OUT"
LIMIT=${LIMIT:-190}
. "$root/bench/gpu_lib.sh"
W=$(mktemp -d -t ab.XXXXXX); rows=$W/rows; mkdir -p "$rows"
left() { echo $((LIMIT - (SECONDS - T0))); }

# ---- builds: A as it is; X remote parts first, LL in 56 registers; T LL of 512 threads from 4 KiB, bulk copies between devices
prepare() { # NAME
    local d=$W/$1
    mkdir -p "$d"; (cd "$root" && tar c --exclude=./build --exclude=./.git --exclude=./.dev --exclude=./results .) | tar x -C "$d"
    sed -i 's/-gencode arch=compute_90,code=sm_90\b//; s/-gencode arch=compute_80,code=compute_80//; s/set(CCL_CUDA_ARCHS .*/set(CCL_CUDA_ARCHS sm_90a)/' "$d/cmake/kernels.cmake"
}
build() { # NAME TARGETS
    local d=$W/$1; shift
    cmake -S "$d" -B "$d/b" -G Ninja -DCMAKE_BUILD_TYPE=Release -DCCL_TEST_BACKEND=gpu -DCCL_HIP_CLANG=/bin/false >"$d/log" 2>&1 &&
        ninja -C "$d/b" -j 14 "$@" >>"$d/log" 2>&1 || { echo "BUILD $d FAILED"; grep -E -A4 'error|FAILED|Error' "$d/log" | head -12; }
}
for v in A X T; do prepare $v; done
python3 - "$W/X" <<'P'
import sys
d = sys.argv[1]
p = d + "/kernels/push_flat.h"; s = open(p).read()
old = "        for (uint32_t d = d_first; d < d_last; d++) {\n            const uint64_t to = push_base(a, end, d);"
assert s.count(old) == 2
s = s.replace(old, "        for (uint32_t e = d_first; e < d_last; e++) {\n            const uint32_t d = e + 1 == d_last ? d_first : e + 1;\n            const uint64_t to = push_base(a, end, d);")
open(p, "w").write(s)
p = d + "/kernels/ll.hip"; s = open(p).read()
old = "CCL_KERNEL_WORDS(name, world, CCL_LL_MAX_THREADS, 1)"; assert old in s
open(p, "w").write(s.replace(old, "CCL_KERNEL_WORDS(name, world, CCL_LL_MAX_THREADS, 2)"))
P
python3 - "$W/T" <<'P'
import sys
p = sys.argv[1] + "/src/coll/tune.c"; s = open(p).read()
for old, new in (("tune->threads = part_bytes <= 8192 ? CCL_GPU_THREADS / 2 : CCL_GPU_THREADS;", "tune->threads = CCL_GPU_THREADS;"),
                 ("comm->props.bulk_copy && comm->agreed.shared_ring && comm->n <= 4 && blocks <= BULK_BLOCKS", "comm->props.bulk_copy && comm->n <= 4 && blocks <= (comm->agreed.shared_ring ? BULK_BLOCKS : 64)"),
                 ("2 * blocks * comm->n <= comm->props.units", "(!comm->agreed.shared_ring || 2 * blocks * comm->n <= comm->props.units)")):
    assert old in s, old
    s = s.replace(old, new)
open(p, "w").write(s)
P
tests="mpi_mismatch mpi_order mpi_register mpi_graph"
build A ccl_bench $tests & pa=$!; build X ccl_bench & px=$!; build T ccl_bench & pt=$!
nvcc -O2 -std=c++17 -arch=sm_90 "$here/enqueue.cu" -o "$W/enqueue" -lcuda 2>"$W/enq.log" || head -3 "$W/enq.log"
wait $pa $px $pt
echo "built: $((SECONDS - T0)) s; $(nvidia-smi --query-gpu=name,driver_version --format=csv,noheader | tr '\n' ';')"

gpu() { # TAG VARIANT RANKS ARGS...: one GPU, all ranks on it
    local tag=$1 v=$2 n=$3; shift 3
    [ "$(left)" -gt "${MIN:-8}" ] || { echo "skipped $tag n$n"; return; }
    timeout -k 3 $(( $(left) < 40 ? $(left) : 40 )) mpirun --bind-to none -n "$n" "${SPREAD[@]}" "$W/$v/b/bench/ccl_bench" all_gather --max-time 0.12 --device x --format json --out "$W/run.json" "$@" >"$W/run.log" 2>&1
    local rc=$?
    [ $rc -le 1 ] || echo "$tag n$n rc $rc: $(grep -E 'ccl_bench|libccl|error' "$W/run.log" | tail -2 | cut -c1-200)"
    [ $rc -eq 0 ] || grep -m2 -E 'wrong|refused|ccl_bench:' "$W/run.log" | cut -c1-160
    [ ! -s "$W/run.json" ] || cat "$W/run.json" >>"$rows/$tag.json"; rm -f "$W/run.json"
}
run_tests() {
for t in $tests; do
    [ "$(left)" -gt 6 ] || { echo "skipped $t"; continue; }
    timeout -k 3 $(( $(left) < 12 ? $(left) : 12 )) mpirun --bind-to none -n 2 "$root/bench/on_gpu.sh" "$W/A/b/tests/$t" >"$W/t.log" 2>&1; rc=$?
    echo "$t on two GPUs: rc $rc $( [ $rc -eq 0 ] || tail -n 2 "$W/t.log" | cut -c1-200 | tr '\n' ' ')"
done
}
export CCL_BACKEND=gpu GPUS=2
one() { SPREAD=(env CUDA_VISIBLE_DEVICES=0); gpu "$@"; }
two() { SPREAD=("$root/bench/on_gpu.sh"); gpu "$@"; }
G=(--mode graph)

trap 'mps_cleanup; rm -rf "$W"' EXIT
export CUDA_VISIBLE_DEVICES=0; mps_start
timeout 20 "$W/enqueue" || echo "enqueue rc $?"
for n in 2 4 8; do
    big=$((256 / n))M
    one one_A A $n "${G[@]}" --buffers heap,plain --bytes 8,4K,64K,1M,$big
    one one_Ablocks A $n "${G[@]}" --bytes 4K,64K,1M --comm_sms 4,8,16,32
    one one_X X $n "${G[@]}" --bytes 8,4K,64K,1M,$big
    one one_T512 T $n "${G[@]}" --bytes 4K,16K --comm_sms 2,4,8,16
done
CCL_RING_SLOTS=8 one one_slots8 A 2 "${G[@]}" --buffers plain --bytes 1M,128M
CCL_RING_SLOTS=8 one one_slots8 A 8 "${G[@]}" --buffers plain --bytes 1M,32M
CCL_RING_SLOT_BYTES=16384 one one_slot16K A 2 "${G[@]}" --buffers plain --bytes 1M,128M
CCL_RING_SLOT_BYTES=16384 one one_slot16K A 8 "${G[@]}" --buffers plain --bytes 1M,32M
one one_eager A 2 --mode batch --batch 200 --bytes 8
one one_16 A 2 "${G[@]}" --bytes 256M --comm_sms 16
echo "one GPU measured: $((SECONDS - T0)) s"
unset CUDA_VISIBLE_DEVICES; mps_none
two two_A A 2 "${G[@]}" --buffers heap,plain --bytes 8,16K,1M,64M,256M
two two_Ablocks A 2 "${G[@]}" --buffers heap,plain --bytes 1M,256M --comm_sms 16,32,48,64,96,128
run_tests
two two_X X 2 "${G[@]}" --bytes 1M,256M --comm_sms 16,32,64,128
two two_Tbulk T 2 "${G[@]}" --bytes 256M --comm_sms 8,16,32,64
for k in 2 8; do CCL_RING_SLOTS=$k two two_slots$k A 2 "${G[@]}" --buffers plain --bytes 1M,64M,256M; done
CCL_RING_SLOT_BYTES=16384 two two_slot16K A 2 "${G[@]}" --buffers plain --bytes 1M,64M
echo "two GPUs measured: $((SECONDS - T0)) s"
python3 "$here/table.py" "$rows"/*.json
tar czf "$OUT/rows.tgz" -C "$rows" . 2>/dev/null
echo "all: $((SECONDS - T0)) s"
