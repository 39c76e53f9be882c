#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Judge what bench/multigpu.sh measured on several GPUs: libccl and NCCL of the same run side by side, the numbers that must be reached with
PASS or FAIL. Times of a graph's call in us; busbw = (n - 1) * S / time in GB/s. What was not run is "-" and counts as nothing; wrong bytes are
always a FAIL, and so is a size at which NCCL is faster (heap and registered buffers). Exit status: 0 nothing failed, 1 something failed, 2 files
that cannot be used."""
import argparse
import glob
import os
import sys

import bench_rows as bench

K, M = 1 << 10, 1 << 20
TOLERANCE = 0.05  # machines differ

# ranks: (what, bytes per rank, key, required, rows' values). Two H200 with 18 NVLinks each; eight by NVSwitch.
GRAPH = {"mode": "graph", "buffers": "heap", "comm_sms": None, "in_place": False}
REQUIRED = {
    2: [("graph", size, "time_us", us, GRAPH) for size, us in
        ((8, 2.3), (64, 2.3), (256, 2.3), (2 * K, 2.7), (16 * K, 3.0), (64 * K, 3.6), (128 * K, 5.5), (M, 9))] +
       [("eager", 8, "time_us", 5, dict(GRAPH, mode="batch"))] +
       [(f"graph, comm_sms {sms or 'auto'}", 512 * M, "busbw_gbps", rate, dict(GRAPH, comm_sms=sms)) for sms, rate in ((None, 370), (32, 350), (16, 320))],
    8: [("graph", size, "time_us", 4, GRAPH) for size in (8, 64, 256, 2 * K)] +
       [("graph, comm_sms 32", size * M, "busbw_gbps", 350, dict(GRAPH, comm_sms=32)) for size in (256, 512, K)],
}


def read(folder):
    files = sorted(glob.glob(os.path.join(glob.escape(folder), "*.n*.json")))
    rows = [row for path in files if os.path.getsize(path) > 0 for row in bench.read(path)]
    if not rows:
        raise bench.BadFile(f"{folder}: no results of bench/multigpu.sh")
    return rows


def find(rows, ranks, size, want):
    found = [row for row in rows if row["backend"] == "gpu" and row["op"] == "all_gather" and row["ranks"] == ranks and row["bytes_per_rank"] == size and row["variant"] == "auto" and
             row["time_us"] and all(row.get(name) == value for name, value in want.items())]
    return found[-1] if found else None


def judge_required(rows):
    failed = 0
    for ranks, numbers in sorted(REQUIRED.items()):
        for what, size, key, required, want in numbers:
            row = find(rows, ranks, size, want)
            if row is None:
                continue
            value = row[key]
            good = value >= required * (1 - TOLERANCE) if key == "busbw_gbps" else value <= required * (1 + TOLERANCE)
            failed += not good
            print(f"n={ranks} {what}, {bench.size_text(size)}: {value:.2f} / {required} {'us' if key == 'time_us' else 'GB/s'} {'PASS' if good else 'FAIL'}")
    return failed


def judge_against_nccl(rows):
    """The fastest libccl of each size and kind of buffer, whatever its blocks, against the NCCL of the same row."""
    failed = 0
    best = {}
    for row in rows:
        if row["op"] == "all_gather" and row["time_us"] and row["baseline_us"] and row["comm_sms"] is None:
            best.setdefault((row["ranks"], row["mode"], row["buffers"], row["in_place"], row["bytes_per_rank"]), row)
    if not best:
        return 0
    names = sorted({row["baseline"] for row in best.values()})
    print(f"\n| n | mode | buffers | in place | bytes per rank | libccl us | {', '.join(names)} us | ratio | libccl GB/s | |\n|" + "---|" * 10)
    for (ranks, mode, buffers, in_place, size), row in sorted(best.items(), key=lambda item: tuple(map(str, item[0][:4])) + (item[0][4],)):
        slow = row["time_us"] > row["baseline_us"] * (1 + TOLERANCE)
        failed += slow and buffers != "plain"
        print(f"| {ranks} | {mode} | {buffers} | {'yes' if in_place else 'no'} | {bench.size_text(size)} | {row['time_us']:.2f} | {row['baseline_us']:.2f} | "
              f"{row['baseline_us'] / row['time_us']:.2f} | {row['busbw_gbps']:.1f} | {'slower' if slow else ''} |")
    print()
    return failed


def judge_rows(rows):
    wrong = sum(row["errors"] or 0 for row in rows)
    refused = sum(1 for row in rows if row["time_us"] is None)
    print(f"{len(rows)} rows" + (f", {refused} refused" if refused else "") + (f", FAIL: {wrong} wrong bytes" if wrong else ""))
    return wrong > 0


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="results of bench/multigpu.sh")
    options = parser.parse_args(arguments)
    try:
        rows = read(options.folder)
    except bench.BadFile as error:
        print(f"multigpu_check.py: {error}", file=sys.stderr)
        return 2
    print(f"{rows[0]['device']}, commit {rows[0]['commit']}")
    failed = judge_required(rows) + judge_against_nccl(rows) + judge_rows(rows)
    print("all measured numbers are reached" if failed == 0 else f"{failed} FAIL")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
