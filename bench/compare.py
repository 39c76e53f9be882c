#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Compare two files of ccl_bench rows (JSON lines): A is the reference, B is judged.

Below --bandwidth-from bytes per rank a row regresses when time_us grew by more than --latency percent; from there on when
busbw_gbps fell by more than --bandwidth percent. A file may hold the same measurement several times (repeated runs): medians
are compared, their spread stands beside them as noise, and a change smaller than the spread of either file is no
regression (it is marked "noise"). With --by ratio the ratio to the baseline of the same run is judged instead of the times, which cancels
what else the machine was doing.

Wrong bytes in B, rows that fail in B only, and rows missing from B count as regressions (--allow-missing for the last).
Exit status: 0 no regression, 1 regressions, 2 files or options that cannot be used."""
import argparse
import sys

import bench_rows as bench


def parse_arguments(arguments):
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("a", metavar="A", help="reference, JSON lines")
    parser.add_argument("b", metavar="B", help="new, JSON lines")
    parser.add_argument("--latency", type=float, default=15, metavar="PERCENT", help="allowed growth of time_us (default 15)")
    parser.add_argument("--bandwidth", type=float, default=5, metavar="PERCENT", help="allowed fall of busbw_gbps (default 5)")
    parser.add_argument("--bandwidth-from", type=bench.parse_size, default=1 << 20, metavar="BYTES",
                        help="bytes per rank from which bandwidth is judged (default 1M)")
    parser.add_argument("--by", choices=("time", "ratio"), default="time", help="judge times or ratios (default time)")
    parser.add_argument("--allow-missing", action="store_true", help="rows of A that B lacks are no regression")
    parser.add_argument("--only-changes", action="store_true", help="print flagged rows only")
    options = parser.parse_args(arguments)
    for name in ("latency", "bandwidth"):
        if getattr(options, name) < 0:
            parser.error(f"--{name} {getattr(options, name):g}: must not be negative")
    return options


def judged_metric(options, row):
    """(name, threshold in percent, whether more is better)"""
    large = (row.get("bytes_per_rank") or 0) >= options.bandwidth_from
    if options.by == "ratio":
        return "ratio", options.bandwidth if large else options.latency, True
    if large and row.get("busbw_gbps"):
        return "busbw_gbps", options.bandwidth, True
    return "time_us", options.latency, False


def judge(options, old, new):
    """Compare two groups of rows. Returns a dict of what to print, with 'verdict'."""
    result = {"row": (old or new)[0], "metric": "-", "a": None, "b": None, "change": None, "noise_a": None, "noise_b": None}
    if not new:
        result["verdict"] = "missing" if options.allow_missing else "MISSING"
        return result
    if any(bench.values(new, "errors")) and max(bench.values(new, "errors")) > 0:
        result["verdict"] = "WRONG BYTES"
        return result
    if not old:
        result["verdict"] = "new"
        return result
    metric, threshold, more_is_better = judged_metric(options, old[0])
    a, b = bench.median(old, metric), bench.median(new, metric)
    result.update(metric=metric, a=a, b=b, noise_a=bench.noise_percent(old, metric), noise_b=bench.noise_percent(new, metric))
    if b is None or any(row["time_us"] is None for row in new):
        both_fail = a is None or any(row["time_us"] is None for row in old)
        result["verdict"] = "no numbers" if both_fail else "FAILS"
        return result
    if not a:
        result["verdict"] = "new"
        return result
    result["change"] = 100 * (b - a) / a
    worse = -result["change"] if more_is_better else result["change"]
    noise = max(result["noise_a"] or 0, result["noise_b"] or 0)
    if worse > threshold:
        result["verdict"] = "REGRESSION" if worse > noise else "noise"
    elif worse < -threshold:
        result["verdict"] = "better" if -worse > noise else "noise"
    else:
        result["verdict"] = "same"
    return result


def compare(options, rows_a, rows_b):
    split = bench.ambiguous(rows_a) | bench.ambiguous(rows_b)
    groups_a, groups_b = bench.group(rows_a, split), bench.group(rows_b, split)
    keys = list(groups_a) + [identity for identity in groups_b if identity not in groups_a]
    return [judge(options, groups_a.get(identity), groups_b.get(identity)) for identity in keys]


def flagged(result):
    return result["verdict"].isupper()


def number(value, form):
    return "-" if value is None else format(value, form)


def print_results(results, only_changes):
    form = "{:>10} {:>5} {:>7} {:>10} {:>6} {:>11} {:>4} {:>9} {:>10} {:>11} {:>11} {:>8} {:>8} {:>8}  {}"
    print(form.format("op", "ranks", "bytes", "buffers", "mode", "variant", "sms", "tile", "metric", "A", "B", "change%",
                      "noiseA%", "noiseB%", "verdict"))
    for result in results:
        row = result["row"]
        if only_changes and not flagged(result):
            continue
        tile = f"{row['tile_m']}x{row['tile_n']}" if row.get("tile_m") and row.get("tile_n") else "-"
        sms = row.get("comm_sms")
        print(form.format(row["op"], number(row.get("ranks"), "d"), bench.size_text(row.get("bytes_per_rank")),
                          row.get("buffers") or "-", row.get("mode") or "-", row.get("variant") or "-",
                          "auto" if sms is None else sms, tile, result["metric"], number(result["a"], ".4g"),
                          number(result["b"], ".4g"), number(result["change"], "+.1f"), number(result["noise_a"], ".1f"),
                          number(result["noise_b"], ".1f"), result["verdict"]))


def main(arguments=None):
    options = parse_arguments(arguments)
    try:
        rows_a, rows_b = bench.read(options.a), bench.read(options.b)
    except bench.BadFile as error:
        print(f"compare.py: {error}", file=sys.stderr)
        return 2
    devices = {row.get("device") for row in rows_a + rows_b}
    if len(devices) > 1:
        print(f"compare.py: warning: different devices: {', '.join(sorted(map(str, devices)))}", file=sys.stderr)
    results = compare(options, rows_a, rows_b)
    print_results(results, options.only_changes)
    bad = sum(map(flagged, results))
    commits = [", ".join(sorted({str(row.get("commit")) for row in rows})) for rows in (rows_a, rows_b)]
    print(f"A {commits[0]}, B {commits[1]}: {len(results)} rows, {bad} flagged")
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
