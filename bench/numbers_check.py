#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Judge rows of ccl_bench against the numbers libccl promises (README): for each class of sizes the required ratio to MPI_Allgather,
the smallest measured one and where, and pass or FAIL. A measurement repeated in the files counts with its median.

Exit status: 0 all pass, 1 a number is missed or was not measured, 2 files that cannot be used."""
import argparse
import math
import statistics
import sys

import bench_rows as bench

K, M = 1 << 10, 1 << 20
END = 1 << 62
# ranks, smallest and largest bytes per rank, mode, required ratio, goal
RATIOS = (
    (2, 8, 64, "batch", 2.0, 3.0),
    (2, 128, 2 * K, "batch", 1.5, 3.0),
    (2, 8 * K, 8 * K, "eager", 5.0, None),
    (2, 32 * K, 128 * K, "eager", 2.5, None),
    (2, 8 * M, END, "eager", 1.5, None),
    (2, 8, END, "eager", 1.0, None),
    (4, 8, 4 * K, "batch", 1.0, None),
    (4, 8, 4 * K, "eager", 1.0, None),
    (4, 8 * K, END, "eager", 2.0, None),
    (8, 8, 4 * K, "batch", 1.0, None),
    (8, 8, 4 * K, "eager", 1.0, None),
    (8, 8 * K, END, "eager", 2.0, None),
)
INIT_LIMITS_US = ((8, 50e3), (64, 2e6))
ENQUEUE_LIMIT_US = 0.1
CLASS = "{:>5} {:>14} {:>6} {:>9} {:>9} {:>9} {:>9} {:>9}  {}"


def ratios_by_size(rows, ranks, low, high, mode):
    found = {}
    for row in rows:
        if (row["op"] == "all_gather" and row["ranks"] == ranks and row["mode"] == mode
                and low <= (row["bytes_per_rank"] or 0) <= high):
            found.setdefault(row["bytes_per_rank"], []).append(row)
    return {size: bench.median(group, "ratio") for size, group in sorted(found.items())}


def judge_ratios(rows):
    """Lines of the table and the number of misses."""
    print(CLASS.format("ranks", "bytes/rank", "mode", "required", "goal", "smallest", "at", "median", ""))
    missed = 0
    for ranks, low, high, mode, required, goal in RATIOS:
        ratios = ratios_by_size(rows, ranks, low, high, mode)
        sizes = bench.size_text(low)
        if high != low:
            sizes += " and up" if high == END else f" to {bench.size_text(high)}"
        form = (ranks, sizes, mode, f"{required:.1f}x", f"{goal:.1f}x" if goal else "-")
        if not ratios or any(ratio is None for ratio in ratios.values()):
            gaps = ", ".join(bench.size_text(size) for size, ratio in ratios.items() if ratio is None)
            print(CLASS.format(*form, "-", "-", "-", f"FAIL: not measured{' at ' + gaps if gaps else ''}"))
            missed += 1
            continue
        worst = min(ratios, key=ratios.get)
        good = ratios[worst] >= required
        missed += not good
        print(CLASS.format(*form, f"{ratios[worst]:.2f}x", bench.size_text(worst), f"{statistics.median(ratios.values()):.2f}x",
                           "pass" if good else "FAIL"))
    return missed


def judge_init(rows):
    times = {}
    for row in rows:
        if row["op"] == "init" and row["time_us"]:
            times.setdefault(row["ranks"], []).append(row["time_us"])
    times = {ranks: statistics.median(found) for ranks, found in sorted(times.items())}
    missed = 0
    print("\ncommunicator init (MPI_Init not counted)")
    for ranks, us in times.items():
        print(f"{ranks:5d} ranks {us / 1e3:10.2f} ms {us / ranks:10.1f} us per rank")
    for ranks, limit_us in INIT_LIMITS_US:
        good = ranks in times and times[ranks] < limit_us
        missed += not good
        measured = f"{times[ranks] / 1e3:.2f} ms" if ranks in times else "not measured"
        print(f"{ranks:5d} ranks under {limit_us / 1e3:g} ms: {measured}: {'pass' if good else 'FAIL'}")
    if 8 in times and 64 in times:
        # Cost per rank is time / ranks where ranks share cores; linear growth of it is a slope of 1 on logarithmic axes.
        slope = math.log((times[64] / 64) / (times[8] / 8)) / math.log(64 / 8)
        good = slope <= 1
        missed += not good
        print(f"      cost per rank grows as ranks^{slope:.2f} from 8 to 64 (at most 1): {'pass' if good else 'FAIL'}")
    return missed


def judge_enqueue(rows):
    costs = [row["host_us"] for row in rows
             if row["op"] == "all_gather" and row["ranks"] == 2 and row["mode"] == "batch" and row["host_us"]]
    if not costs:
        print("\nenqueue: FAIL: not measured")
        return 1
    good = max(costs) < ENQUEUE_LIMIT_US
    print(f"\nenqueue of a call, 2 ranks, mode batch: median {statistics.median(costs):.3f} us, largest of {len(costs)} rows "
          f"{max(costs):.3f} us (under {ENQUEUE_LIMIT_US} us): {'pass' if good else 'FAIL'}")
    return 0 if good else 1


def judge_errors(rows):
    wrong = sum(row["errors"] or 0 for row in rows)
    failed = sum(1 for row in rows if row["time_us"] is None)
    if wrong or failed:
        print(f"\nFAIL: {wrong} wrong bytes, {failed} rows without numbers")
    return bool(wrong) + bool(failed)


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="+", metavar="FILE", help="JSON lines of ccl_bench")
    options = parser.parse_args(arguments)
    try:
        rows = [row for path in options.files for row in bench.read(path)]
    except bench.BadFile as error:
        print(f"numbers_check.py: {error}", file=sys.stderr)
        return 2
    first = rows[0]
    print(f"libccl against MPI_Allgather: {first.get('device')}, backend {first.get('backend')}, commit {first.get('commit')}\n")
    missed = judge_ratios(rows) + judge_init(rows) + judge_enqueue(rows) + judge_errors(rows)
    print(f"\n{'all numbers are met' if missed == 0 else f'{missed} numbers are missed'}")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
