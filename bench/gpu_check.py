#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Judge what bench/gpu.sh measured against the numbers the gpu backend must reach: measured, required and the hand-written kernels of the
same run side by side, PASS or FAIL with a tolerance of 5 %. Parts that were not run are "-" and count as nothing; wrong bytes are
always a FAIL. Exit status: 0 nothing failed, 1 something failed, 2 files that cannot be used."""
import argparse
import sys

import bench_rows as bench
import gpu_numbers as gpu


def form(value):
    return "-" if value is None else f"{value:.3f}" if value < 1 else f"{value:.2f}" if value < 100 else f"{value:.0f}"


def cell(number, rows, bare_rows, ranks):
    """(text, failed)"""
    value = number.measured(rows, ranks)
    if value is None:
        return "-", False
    good = number.reached(value, ranks)
    bare = number.bare(bare_rows, ranks) if number.key == "time_us" else None
    text = f"{form(value)} / {form(number.required[ranks])} {'PASS' if good else 'FAIL'}"
    return text + (f" x{value / bare:.2f}" if bare else ""), not good


def judge_numbers(parts):
    rows, failed = gpu.rows_of(parts, "sizes", "eager", "large"), 0
    print(f"{'measured / required, xRATIO to the bare kernels':32s}" + "".join(f"{f'n={n}':>27s}" for n in gpu.RANKS))
    for number in gpu.NUMBERS:
        cells = [cell(number, rows, parts.get("bare", []), ranks) for ranks in gpu.RANKS]
        failed += sum(bad for _, bad in cells)
        print(f"{number.name:32s}" + "".join(f"{text:>27s}" for text, _ in cells))
    return failed


def judge_init(parts):
    us = gpu.median(parts.get("init", []), "time_us", op="init", ranks=8)
    if us is None:
        return 0
    print(f"init of 8 ranks {us / 1e3:.1f} ms / {gpu.INIT_US / 1e3:.0f} ms {'PASS' if us < gpu.INIT_US else 'FAIL'}")
    return us >= gpu.INIT_US


def judge_selection(parts):
    found = gpu.selection(parts)
    if not found:
        return 0
    worst = max(found, key=lambda entry: entry[3] / entry[5])
    bad = [entry for entry in found if entry[3] > entry[5] * (1 + gpu.SELECT_SLACK)]
    ratio = worst[3] / worst[5]
    print(f"selection: {len(found)} sizes, worst x{ratio:.2f} at {worst[0]} ranks {bench.size_text(worst[2])} {worst[1]}: "
          f"{'PASS' if not bad else 'FAIL'}")
    for ranks, buffers, size, auto, best, us in bad[:20]:
        print(f"  {ranks} ranks {bench.size_text(size)} {buffers}: auto {form(auto)} us, {best} {form(us)} us, x{auto / us:.2f}")
    return len(bad)


def judge_rows(parts):
    failed = 0
    for part, rows in parts.items():
        wrong = sum(row["errors"] or 0 for row in rows)
        refused = sum(1 for row in rows if row["time_us"] is None)
        failed += wrong > 0
        print(f"{part}: {len(rows)} rows" + (f", {refused} refused" if refused else "") + (f", FAIL: {wrong} wrong bytes" if wrong else ""))
    return failed


def main(arguments=None):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", help="results of bench/gpu.sh")
    options = parser.parse_args(arguments)
    try:
        parts = gpu.read(options.folder)
    except bench.BadFile as error:
        print(f"gpu_check.py: {error}", file=sys.stderr)
        return 2
    first = next(iter(parts.values()))[0]
    limits = sorted({round(row["limit_gbps"]) for rows in parts.values() for row in rows if row["limit_gbps"]})
    print(f"{first['device']}, commit {first['commit']}, device copy {limits[0] if limits else '-'} to {limits[-1] if limits else '-'} GB/s")
    failed = judge_numbers(parts) + judge_init(parts) + judge_selection(parts) + judge_rows(parts)
    print("all measured numbers are reached" if failed == 0 else f"{failed} FAIL")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
