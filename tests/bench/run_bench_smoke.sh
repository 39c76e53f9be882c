#!/usr/bin/env bash
# SPDX-License-Identifier: MIT
#
# Proves that ccl_bench measures, checks and reports: every kind of buffer, mode and shape gives a row with the agreed keys and right data,
# wrong bytes and wrong use are noticed. Usage: run_bench_smoke.sh [LAUNCHER...] CCL_BENCH
set -euo pipefail

# shellcheck source=tests/bench/smoke_lib.sh
. "$(dirname "${BASH_SOURCE[0]}")/smoke_lib.sh"
quick=(--warmup 2 --iters 5 --min-time 0 --max-time 0.05)
keys="op backend device commit ranks M N K dtype bytes_per_rank in_place mode buffers comm_sms blocks variant variant_used tile_m tile_n
peers_per_wait algorithm time_us min_us p99_us skew_us algbw_gbps busbw_gbps host_us limit_gbps fraction baseline baseline_us ratio errors"

# rows COUNT FILE: all rows have the keys in order, times and no wrong bytes.
rows() {
    python3 - "$keys" "$@" <<'TEXT' || fail "$2"
import json, sys
keys, count, path = sys.argv[1].split(), int(sys.argv[2]), sys.argv[3]
rows = [json.loads(line, object_pairs_hook=list) for line in open(path)]
assert len(rows) == count, f"{len(rows)} rows, want {count}"
for row in rows:
    assert [key for key, _ in row] == keys, f"keys {[key for key, _ in row]}"
    row = dict(row)
    n, size, time = row["ranks"], row["bytes_per_rank"], row["time_us"]
    assert row["errors"] == 0, row
    assert 0 < row["min_us"] <= time <= row["p99_us"] and row["skew_us"] >= 0, row
    assert abs(row["algbw_gbps"] * time * 1e3 / (n * size) - 1) < 1e-3, row
    assert abs(row["busbw_gbps"] * time * 1e3 - (n - 1) * size) <= 1e-3 * n * size, row
    assert row["host_us"] > 0 and row["blocks"] is not None and row["variant_used"] is not None, row
    if row["baseline"] is not None:
        assert abs(row["baseline_us"] / time / row["ratio"] - 1) < 1e-3, row
    if row["limit_gbps"] is not None:
        assert abs(row["fraction"] * time * 1e3 * row["limit_gbps"] / (n * size + n * n * size) - 1) < 1e-3, row
TEXT
}

out=$work/out.json
run 2 0 all_gather --bytes 8,100,3000000 --buffers heap,registered,plain --mode eager,batch --baseline mpi "${quick[@]}" --out "$out"
rows 18 "$out"
grep -q '"baseline": "mpi"' "$out" || fail "no baseline in the rows"
grep -q '"bytes_per_rank": 3000000.*"limit_gbps": [0-9]' "$out" || fail "no limit at 3000000 bytes"
run 3 0 all_gather --M 3,7 --N 1,1000 --ld 1003 --dtype fp16,fp64 --tile auto,2x64 --in-place "${quick[@]}" --out "$out"
rows 16 "$out"
run 3 0 all_gather --bytes 4K --ranks 1,2,3 --mode batch "${quick[@]}" --out "$out"
rows 3 "$out"
run 2 0 all_gather --bytes 64 --variant ll,direct,staged,partitioned --comm_sms auto,2 "${quick[@]}" --out "$out"
rows 8 "$out"

# The check sees a single flipped bit of every rank.
run 2 1 all_gather --bytes 1000 --corrupt "${quick[@]}" --out "$out"
grep -q '"errors": 10}' "$out" || fail "--corrupt: 5 rounds of 2 ranks did not give 10 wrong bytes: $(cat "$out")"

# The baseline nccl, here libccl's own shim: on the same buffers, every operation; a library that is none is named.
if [ -n "${CCL_BENCH_SHIM:-}" ]; then
    nccl=(--baseline nccl --nccl "$CCL_BENCH_SHIM")
    run 2 0 all_gather --bytes 8,3000000 --buffers heap,plain --mode eager,batch "${nccl[@]}" "${quick[@]}" --out "$out"
    rows 8 "$out"
    [ "$(grep -cE '"baseline": "nccl [0-9.]+", "baseline_us": [0-9]' "$out")" -eq 8 ] || fail "rows without the baseline nccl: $(cat "$out")"
    for op in all_reduce all_to_all gather; do
        run 3 0 "$op" --bytes 4000 --dtype fp32 "${nccl[@]}" "${quick[@]}" --out "$out"
        grep -q '"baseline_us": [0-9].*"errors": 0' "$out" || fail "$op without the baseline nccl: $(cat "$out")"
    done
    run 1 1 all_gather --bytes 8 --baseline nccl --nccl libm.so.6 "${quick[@]}"
    grep -q 'libm.so.6 has no function nccl' "$work/errors" || fail "a library that is no NCCL is not named: $(cat "$work/errors")"
fi

# So do the threads of a rank that share a large buffer, rows with gaps included.
run 1 0 all_gather --bytes 5000001 --in-place "${quick[@]}" --out "$out"
rows 1 "$out"
run 1 1 all_gather --M 1001 --N 1001 --ld 1003 --dtype fp32 --corrupt "${quick[@]}" --out "$out"
grep -q '"errors": 5}' "$out" || fail "--corrupt of a large buffer: 5 checks of 1 rank did not give 5 wrong bytes: $(cat "$out")"

# A refused configuration is a row without numbers, and the sweep goes on.
run 2 1 all_gather --bytes 256,512 --buffers plain --variant direct,auto "${quick[@]}" --out "$out"
[ "$(grep -c '"time_us": null' "$out")" -eq 2 ] || fail "variant direct with plain buffers gave numbers: $(cat "$out")"
[ "$(grep -c '"errors": 0' "$out")" -eq 2 ] || fail "the sweep did not go on after a refusal: $(cat "$out")"
grep -q 'failed: 1 x 256 uint8 (256 bytes) plain direct eager' "$work/errors" || fail "the refused configuration is not named"

run 2 0 all_gather --bytes 64 --mode graph,eager --device "my machine" "${quick[@]}" --out "$out"
grep -q '"device": "my machine"' "$out" || fail "--device is not in the row"
grep -q 'skipped: .* has no graphs' "$work/errors" || fail "the skipped mode graph is not named"
run 2 0 init --iters 3 --out "$out"
grep -q '"op": "init".*"time_us": [0-9]' "$out" || fail "init gave no time"

for wrong in "--byte 8" "--bytes 8:4:x2" "--bytes 7 --dtype fp16" "--dtype fp17" "--M 5" "--ranks 5"; do
    # shellcheck disable=SC2086
    run 1 2 all_gather $wrong
    grep -q -e "ccl_bench: .*${wrong%% *}" "$work/errors" || fail "$wrong: the message does not name the option"
done
run 1 0 --help
grep -q -e '--peers-per-wait' "$work/text" || fail "--help does not list the options"

finish
