#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Proves that ccl_bench measures and checks matrix products: every sharding, type and algorithm gives a right row, a flipped bit is seen, and what tune writes is taken by the
# library. Usage: run_product_smoke.sh [LAUNCHER...] CCL_BENCH
set -euo pipefail

# shellcheck source=tests/bench/smoke_lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/smoke_lib.sh"
quick=(--warmup 0 --iters 5 --min-time 0 --max-time 0.02)
out=$work/out.json

run 2 0 all_gather_matmul --M 64 --N 48 --K 80 --gather rows,columns --dtype fp16,bf16 --algorithm auto,baseline,hbm_buffer,sequential "${quick[@]}" --out "$out"
[ "$(grep -c '"time_us": [0-9].*"overlap": [0-9.e+-]*, "errors": 0}' "$out")" -eq 16 ] || fail "all_gather_matmul: not 16 right rows: $(cat "$out")"
run 2 0 matmul_all_gather --M 64 --N 48 --K 80 --tile auto,16x16 "${quick[@]}" --out "$out"
[ "$(grep -c '"errors": 0}' "$out")" -eq 2 ] || fail "matmul_all_gather: not 2 right rows: $(cat "$out")"
run 2 1 all_gather_matmul --M 64 --N 48 --K 80 --corrupt "${quick[@]}" --out "$out"
run 2 0 tune --M 64 --N 48 --K 80 --iters 2 --out "$work/tune.txt"
grep -q '^all_gather_matmul .* 2 rows float16 64 48 80  ' "$work/tune.txt" || fail "tune wrote no row: $(cat "$work/tune.txt")"
CCL_TUNE_FILE=$work/tune.txt run 2 0 all_gather_matmul --M 64 --N 48 --K 80 "${quick[@]}" --out "$out"
grep -q "\"algorithm_used\": \"$(awk '/^all/ { print $9 }' "$work/tune.txt")\"" "$out" || fail "the tuned algorithm was not used: $(cat "$out" "$work/tune.txt")"
run 1 2 all_gather_matmul --M 64

finish
