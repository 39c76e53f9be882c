# SPDX-License-Identifier: MIT
"""The numbers the gpu backend must reach on one H200 with the ranks as MPS clients, and where they are found in the rows that
bench/gpu.sh leaves in a folder. Shared by gpu_check.py and gpu_doc.py."""
import glob
import os
import statistics

import bench_rows as bench

K, M = 1 << 10, 1 << 20
RANKS = (2, 4, 8)
TOLERANCE = 0.05  # machines differ by 1.5 %
SELECT_SLACK = 0.10
ENQUEUE_US, INIT_US = 3.0, 1e6
PARTS = ("bare", "sizes", "eager", "init", "large", "select", "tiles", "partitioned", "peers", "copy")


class Number:
    """One row of the table: what is asked of each number of ranks, and which rows of ccl_bench answer it."""

    def __init__(self, name, bytes_of, required, reference=None, key="time_us", **match):
        self.name, self.bytes_of, self.key, self.match = name, bytes_of, key, match
        self.required = dict(zip(RANKS, required))
        self.reference = dict(zip(RANKS, reference)) if reference else {}
        self.more_is_better = key == "fraction"

    def measured(self, rows, ranks, key=None):
        want = dict({"op": "all_gather", "ranks": ranks, "bytes_per_rank": self.bytes_of(ranks), "comm_sms": None,
                     "variant": "auto", "in_place": False}, **self.match)
        return median(rows, key or self.key, **want)

    def bare(self, rows, ranks):
        if self.match.get("mode") != "graph" or self.match.get("buffers") != "heap" or self.match.get("comm_sms"):
            return None
        found = [row["time_us"] for row in rows
                 if row["backend"] == "bare" and row["ranks"] == ranks and row["bytes_per_rank"] == self.bytes_of(ranks)]
        return min(found) if found else None

    def reached(self, value, ranks):
        limit = self.required[ranks]
        return value >= limit * (1 - TOLERANCE) if self.more_is_better else value <= limit * (1 + TOLERANCE)


def of(size):
    return lambda ranks: size


def together(ranks):
    return 256 * M // ranks


GRAPH = {"mode": "graph", "buffers": "heap"}
# reference: NCCL 2.30.7 on the same machine, with symmetric windows or, for staged, with plain buffers
NUMBERS = (
    Number("graph, 8 B", of(8), (2.1, 2.4, 3.2), (3.4, 7.0, 11.5), **GRAPH),
    Number("graph, 4 KiB", of(4 * K), (2.3, 2.7, 3.6), **GRAPH),
    Number("graph, 64 KiB", of(64 * K), (2.6, 3.4, 6.3), **GRAPH),
    Number("graph, 1 MiB direct", of(M), (5.5, 10, 23), **GRAPH),
    Number("graph, 1 MiB staged", of(M), (7.2, 12.5, 27), mode="graph", buffers="plain"),
    Number("eager, 8 B", of(8), (4.5, 6.3, 10.5), (11.3, 11.3, 17.5), mode="batch", buffers="heap"),
    Number("256 MiB together, direct", together, (213, 366, 676), (228, 436, 820), **GRAPH),
    Number("256 MiB together, staged", together, (280, 450, 780), (413, 913, 1846), mode="graph", buffers="plain"),
    Number("256 MiB a rank, of the limit", of(256 * M), (0.91, 0.89, 0.865), key="fraction", **GRAPH),
    Number("the same, 16 blocks", of(256 * M), (0.62, 0.80, 0.86), key="fraction", comm_sms=16, **GRAPH),
    Number("enqueue of an eager call, 8 B", of(8), (ENQUEUE_US,) * 3, key="host_us", mode="batch", buffers="heap"),
)


def median(rows, key, **want):
    """Of the measured libccl rows that have these values; None without one."""
    found = [row[key] for row in rows
             if row["backend"] != "bare" and row[key] is not None and all(row.get(name) == value for name, value in want.items())]
    return statistics.median(found) if found else None


def read(folder):
    """Part name to rows; parts that were not run are missing."""
    parts = {}
    for part in PARTS:
        files = sorted(glob.glob(os.path.join(glob.escape(folder), part + ".n*.json")))
        rows = [row for path in files if os.path.getsize(path) > 0 for row in bench.read(path)]
        if rows:
            parts[part] = rows
    if not parts:
        raise bench.BadFile(f"{folder}: no results of bench/gpu.sh")
    return parts


def rows_of(parts, *names):
    return [row for name in names for row in parts.get(name, [])]


def selection(parts):
    """For each (ranks, buffers, size): the time of auto, the best forced variant and its time."""
    groups = {}
    for row in parts.get("select", []):
        if row["time_us"] and row["variant"] != "copy":
            group = groups.setdefault((row["ranks"], row["buffers"], row["bytes_per_rank"]), {})
            group.setdefault(row["variant"], []).append(row["time_us"])
    found = []
    for key, group in sorted(groups.items()):
        times = {variant: statistics.median(us) for variant, us in group.items()}
        auto = times.pop("auto", None)
        if auto and times:
            best = min(times, key=times.get)
            found.append((*key, auto, best, times[best]))
    return found
