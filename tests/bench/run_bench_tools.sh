#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Proves that the bench's tools judge and draw correctly (test_bench_tools.py), and that ab.sh really alternates its builds and
# numbers.sh and gpu.sh run what the numbers need. mpirun and ccl_bench are stand-ins here that write rows of known times.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
bench=$here/../../bench
# shellcheck source=tests/bench/smoke_lib.sh
. "$here/smoke_lib.sh"
# shellcheck source=bench/plot_python.sh
. "$bench/plot_python.sh"
python=$(plot_python) || python=python3
"$python" "$here/test_bench_tools.py" || fail "test_bench_tools.py"
"$python" "$here/test_gpu_tools.py" || fail "test_gpu_tools.py"

# Stand-ins: mpirun runs the program once; ccl_bench logs its folder and arguments and writes a row with the time of its build.
mkdir -p "$work/bin"
cat >"$work/bin/mpirun" <<'TEXT'
#!/bin/bash
ranks=0
while [[ $1 == -* ]]; do
    [[ $1 != -n ]] || ranks=$2
    shift 2
done
RANKS=$ranks exec "$@"
TEXT
make_build() { # NAME TIME_US STATUS
    mkdir -p "$work/$1/bench"
    cat >"$work/$1/bench/ccl_bench" <<TEXT
#!/bin/bash
echo "$1 \$RANKS \$*" >>"$work/log"
while [ "\$1" != --out ]; do shift; done
echo '{"op": "all_gather", "ranks": 2, "bytes_per_rank": 8, "mode": "eager", "time_us": $2, "errors": 0, "commit": "$1"}' >"\$2"
exit $3
TEXT
    chmod +x "$work/$1/bench/ccl_bench"
}
chmod +x "$work/bin/mpirun"
make_build old 10.0 0
make_build slow 12.0 0
make_build broken 10.0 2
export PATH=$work/bin:$PATH

: >"$work/log"
status=0
bash "$bench/ab.sh" -n 3 -o "$work/out" "$work/old" "$work/slow" all_gather --bytes 8 >"$work/text" 2>&1 || status=$?
[ "$status" -eq 1 ] || fail "ab.sh: a build that is 20 % slower gave status $status, want 1"
grep -q REGRESSION "$work/text" || fail "ab.sh: no REGRESSION in its table"
order=$(cut -d' ' -f1 "$work/log" | tr '\n' ' ')
[ "$order" = "old slow old slow old slow " ] || fail "ab.sh ran '$order', want old and slow in turn, three times"
grep -qv ' 3 all_gather --bytes 8 --format json' "$work/log" && fail "ab.sh: ranks or arguments did not arrive: $(cat "$work/log")"
[ "$(wc -l <"$work/out/a.json")" -eq 3 ] || fail "ab.sh: a.json has not the rows of three runs"
status=0
bash "$bench/ab.sh" -r 1 -o "$work/out" "$work/slow" "$work/old" >"$work/text" 2>&1 || status=$?
[ "$status" -eq 0 ] || fail "ab.sh: a faster build gave status $status, want 0"
for arguments in "$work/old $work/broken" "$work/old $work/absent" "$work/old" "-r x $work/old $work/old" "-q $work/old $work/old"; do
    status=0
    # shellcheck disable=SC2086
    bash "$bench/ab.sh" -o "$work/out" $arguments >"$work/text" 2>&1 || status=$?
    [ "$status" -eq 2 ] || fail "ab.sh $arguments: status $status, want 2"
done

: >"$work/log"
status=0
bash "$bench/numbers.sh" -o "$work/numbers" "$work/old" >"$work/text" 2>&1 || status=$?
[ "$status" -eq 1 ] || fail "numbers.sh: rows that lack most numbers gave status $status, want 1"
for ranks in 2 4 8; do
    for mode in batch eager; do
        grep -q "old $ranks all_gather .*--mode $mode .*--baseline mpi" "$work/log" || fail "numbers.sh: $ranks ranks, mode $mode was not run"
    done
done
for ranks in 2 4 8 16 32 64; do
    grep -q "old $ranks init " "$work/log" || fail "numbers.sh: init with $ranks ranks was not run"
done
status=0
bash "$bench/numbers.sh" -o "$work/numbers" "$work/broken" >"$work/text" 2>&1 || status=$?
[ "$status" -eq 2 ] || fail "numbers.sh: a bench that cannot run gave status $status, want 2"

# gpu.sh: tools of a machine with a GPU that only log; a bench whose rows are all alike.
for tool in cmake nvcc nvidia-smi; do
    printf '#!/bin/bash\necho "%s $*" >>"%s/log"\n[ %s != nvidia-smi ] || echo "a GPU"\n' $tool "$work" $tool >"$work/bin/$tool"
done
cat >"$work/bin/nvidia-cuda-mps-control" <<TEXT
#!/bin/bash
echo "mps \$* \$([ -d "\$CUDA_MPS_PIPE_DIRECTORY" ] && echo own) \$([ "\$*" = -d ] || cat)" >>"$work/log"
TEXT
mkdir -p "$work/gpu/bench"
cat >"$work/gpu/bench/ccl_bench" <<TEXT
#!/bin/bash
echo "bench \$RANKS \$*" >>"$work/log"
while [ "\$1" != --out ]; do shift; done
echo '{"op": "all_gather", "backend": "gpu", "device": "a GPU", "commit": "c", "ranks": '\$RANKS', "M": 1, "bytes_per_rank": 8, "in_place": false,'\
    '"mode": "graph", "buffers": "heap", "comm_sms": null, "variant": "auto", "variant_used": "ll", "tile_m": 1, "tile_n": 8, "time_us": 1.0,'\
    '"host_us": null, "limit_gbps": 4000, "fraction": 0.1, "busbw_gbps": 1, "errors": 0}' >"\$2"
TEXT
printf '#!/bin/bash\necho "probe $*" >>"%s/log"\n' "$work" >"$work/gpu/probe"
chmod +x "$work"/bin/* "$work/gpu/bench/ccl_bench" "$work/gpu/probe"
: >"$work/log"
status=0
bash "$bench/gpu.sh" --build "$work/gpu" "$work/rows" >"$work/text" 2>&1 || status=$?
[ "$status" -eq 0 ] || fail "gpu.sh: numbers that are reached gave status $status: $(cat "$work/text")"
for ranks in 2 4 8; do
    grep -q "^probe $ranks $work/rows/bare.n$ranks.json" "$work/log" || fail "gpu.sh: no bare kernels with $ranks ranks"
    for words in "--comm_sms 16 " "--bytes $((256 / ranks))M,256M" "--variant auto,ll,direct,staged,partitioned" "init --iters" \
        "--M 1024,4096,16384 --N 4096,8192 --dtype fp16,bf16,fp32 --comm_sms 8,16,32,64,128" "--tile 8x256,32x64,16x128" \
        "--peers-per-wait 1,2,4" "--variant copy" "--mode batch --batch 200" "--variant partitioned"; do
        grep -q -e "^bench $ranks .*$words.* --device a GPU --format json" "$work/log" || fail "gpu.sh: $ranks ranks: $words was not run"
    done
done
grep -q 'graph, 8 B .*1.00 / 2.10 PASS.*1.00 / 3.20 PASS' "$work/text" || fail "gpu.sh: no table: $(cat "$work/text")"
[ "$(grep '^mps' "$work/log" | tr '\n' ';')" = "mps -d own ;mps  own quit;" ] || fail "gpu.sh: MPS: $(grep '^mps' "$work/log")"
: >"$work/log"
bash "$bench/gpu.sh" --build "$work/gpu" --part eager,init --ranks 4 "$work/rows" >"$work/text" 2>&1 || fail "gpu.sh --part: $(cat "$work/text")"
[ "$(grep -c '^bench 4' "$work/log")/$(grep -c '^bench' "$work/log")" = 2/2 ] || fail "gpu.sh --part: $(cat "$work/log")"
for arguments in "--part nothing" "--ranks 3" "--fast" "--part"; do
    status=0
    # shellcheck disable=SC2086
    bash "$bench/gpu.sh" $arguments >"$work/text" 2>&1 || status=$?
    [ "$status" -eq 2 ] || fail "gpu.sh $arguments: status $status, want 2"
done
printf '#!/bin/bash\nexit 3\n' >"$work/gpu/bench/ccl_bench"
status=0
bash "$bench/gpu.sh" --build "$work/gpu" --part sizes --ranks 2 "$work/rows" >"$work/text" 2>&1 || status=$?
[ "$status" -eq 2 ] || fail "gpu.sh: a bench that cannot run gave status $status, want 2"

# multigpu.sh: the same tools; two GPUs, each rank's own first.
cat >"$work/bin/nvidia-smi" <<TEXT
#!/bin/bash
printf 'a GPU\\na GPU\\n'
TEXT
printf '#!/bin/bash\necho "ctest $*" >>"%s/log"\necho "100%% tests passed"\n' "$work" >"$work/bin/ctest"
cat >"$work/gpu/bench/ccl_bench" <<TEXT
#!/bin/bash
echo "bench \$RANKS \$CUDA_VISIBLE_DEVICES \$*" >>"$work/log"
while [ "\$1" != --out ]; do shift; done
echo '{"op": "all_gather", "backend": "gpu", "device": "a GPU", "commit": "c", "ranks": 2, "bytes_per_rank": 8, "in_place": false, "mode": "graph",'\
    '"buffers": "heap", "comm_sms": null, "variant": "auto", "time_us": 2.0, "busbw_gbps": 1, "baseline": "nccl 1.2.3", "baseline_us": 3.0, "errors": 0}' >"\$2"
TEXT
chmod +x "$work"/bin/* "$work/gpu/bench/ccl_bench"
: >"$work/log"
status=0
OMPI_COMM_WORLD_LOCAL_RANK=3 bash "$bench/multigpu.sh" --part tests,sweep --build "$work/gpu" --nccl some.so "$work/multi" >"$work/text" 2>&1 || status=$?
[ "$status" -eq 0 ] || fail "multigpu.sh gave status $status: $(cat "$work/text")"
grep -q 'n=2 graph, 8: 2.00 / 2.3 us PASS' "$work/text" || fail "multigpu.sh judges nothing: $(cat "$work/text")"
grep -q '| 2 | graph | heap | no | 8 | 2.00 | 3.00 | 1.50 |' "$work/text" || fail "multigpu.sh has no table: $(cat "$work/text")"
for words in "bench 2 1,0 all_gather --mode graph,batch --buffers heap,registered,plain .*--baseline nccl --nccl some.so" "--comm_sms auto,8,16,32,64" \
    "--in-place" "ctest .*n2" "ctest .*n4" "cmake .*-DMPIEXEC_PREFLAGS=.*/on_gpu.sh"; do
    grep -q -e "$words" "$work/log" || fail "multigpu.sh: $words was not run: $(cat "$work/log")"
done
printf '#!/bin/bash\necho "a GPU"\n' >"$work/bin/nvidia-smi"
for arguments in "--part nothing" "--fast" "--nccl" "--build $work/gpu"; do # the last: one GPU
    status=0
    # shellcheck disable=SC2086
    bash "$bench/multigpu.sh" $arguments "$work/multi" >"$work/text" 2>&1 || status=$?
    [ "$status" -eq 2 ] || fail "multigpu.sh $arguments: status $status, want 2"
done

finish
