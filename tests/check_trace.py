#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Proves that the trace files of all ranks of a run say what was called: each operation that was kept has, on every block's track, one
span of the right name with its phases in order inside; tracks never overlap; no rank ends an operation before every rank has begun it.

Usage: check_trace.py EXPECTED LOST RANK0.json RANK1.json ...
EXPECTED has a line "number blocks name" for every operation. LOST is how many of them, the oldest, must be missing.
"""
import json
import os
import sys
import tempfile

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "bench"))
import trace_merge  # noqa: E402

HALF_NS = 0.0005
# On a GPU one thread of a block notes the start while others may have sent already, the first time behind a cold instruction cache.
GPU_START_US = 20
PHASES = {"barrier": ["wait"], "ll": ["send", "wait"]}
complaints = []


def complain(text):
    complaints.append(text)


def read_expected(path, lost):
    operations = {}
    with open(path) as file:
        for line in file:
            number, blocks, name = line.split(" ", 2)
            operations[int(number)] = (int(blocks), name.strip())
    return {n: v for n, v in operations.items() if n > lost}, len(operations)


def phases_of(name):
    words = name.split()
    return PHASES.get("barrier" if words[0] == "barrier" else words[1], ["wait", "send", "drain"])


def check_phases(where, span, phases, wanted):
    """The phases fill the operation, one after the other."""
    if [p["name"] for p in phases] != wanted:
        complain(f"{where}: phases {[p['name'] for p in phases]}, want {wanted}")
        return
    at = span["ts"]
    for phase in phases:
        if abs(phase["ts"] - at) > HALF_NS or phase["dur"] < 0:
            complain(f"{where}: phase {phase['name']} starts at {phase['ts']}, lasts {phase['dur']}, want start {at}")
        at = phase["ts"] + phase["dur"]
    if abs(at - span["ts"] - span["dur"]) > HALF_NS:
        complain(f"{where}: the phases end at {at}, the operation at {span['ts'] + span['dur']}")


def check_rank(path, rank, ranks, expected, total, lost):
    """Returns {operation: (first start, last end)}."""
    with open(path) as file:
        trace = json.load(file)
    head, events = trace["otherData"], trace["traceEvents"]
    for key, want in (("rank", rank), ("ranks", ranks), ("operations", total), ("lost", lost), ("kept", total - lost)):
        if head[key] != want:
            complain(f"{path}: {key} is {head[key]}, want {want}")
    if any(e["pid"] != rank for e in events):
        complain(f"{path}: an event of a pid other than {rank}")
    tracks = {e["tid"]: e["args"]["name"] for e in events if e["name"] == "thread_name"}
    spans, phases, times, last_end = {}, {}, {}, {}
    for e in events:
        if e["ph"] == "X" and e["cat"] != "task":
            (spans if e["cat"] == "operation" else phases).setdefault((e["args"]["op"], e["tid"]), []).append(e)
    for n, (blocks, name) in sorted(expected.items()):
        for block in range(blocks):
            where = f"{path} op {n} block {block}"
            found = spans.pop((n, block), [])
            if len(found) != 1:
                complain(f"{where}: {len(found)} spans, want 1")
                continue
            span = found[0]
            if span["name"] != f"{name} op {n}" or not span["args"]["ended"] or span["args"]["blocks"] != blocks:
                complain(f"{where}: {span}, want {name} op {n} of {blocks} blocks, ended")
            if tracks.get(block) != f"block {block}":
                complain(f"{where}: the track is named {tracks.get(block)}")
            check_phases(where, span, phases.pop((n, block), []), phases_of(name))
            begin, end = span["ts"], span["ts"] + span["dur"]
            if begin < last_end.get(block, begin) - HALF_NS:
                complain(f"{where}: begins at {begin}, the operation before ends at {last_end[block]}")
            last_end[block] = end
            old = times.get(n, (begin, end))
            times[n] = (min(old[0], begin), max(old[1], end))
    for key in list(spans) + list(phases):
        complain(f"{path}: a span of operation {key[0]} block {key[1]}, which was not called")
    return times


def check_merge(paths):
    merged = trace_merge.merge(paths)
    with tempfile.NamedTemporaryFile("w+") as file:
        json.dump(merged, file)
        file.flush()
        file.seek(0)
        events = json.load(file)["traceEvents"]
    for rank, path in enumerate(paths):
        with open(path) as file:
            want = len(json.load(file)["traceEvents"])
        got = sum(e["pid"] == rank for e in events)
        if got != want:
            complain(f"merged file: {got} events of rank {rank}, want {want}")
    if len({head["world"] for head in merged["otherData"]["files"]}) != 1:
        complain("the ranks name their communicator differently")


def slack(one, other):
    """How far two ranks' times may be apart: what the files say of their clocks, which are one where the offsets are."""
    if one["backend"] == "host":
        return HALF_NS
    return GPU_START_US + sum(head["clock_error_us"] + abs(head["clock_drift_us"]) for head in (one, other))


def main():
    lost, paths = int(sys.argv[2]), sys.argv[3:]
    expected, total = read_expected(sys.argv[1], lost)
    times = [check_rank(path, r, len(paths), expected, total, lost) for r, path in enumerate(paths)]
    heads = []
    for path in paths:
        with open(path) as file:
            heads.append(json.load(file)["otherData"])
    for n in expected:
        here = [(t[n][0], t[n][1], head) for t, head in zip(times, heads) if n in t]
        if here:
            begin, _, late = max(here, key=lambda x: x[0])
            _, end, early = min(here, key=lambda x: x[1])
            apart = slack(late, early)
            if begin > end + apart:
                complain(f"operation {n}: a rank ends at {end}, another begins at {begin}, {begin - end:.3f} us later, {apart:.3f} may be the clocks'")
    check_merge(paths)
    print("\n".join(complaints[:20]))
    print(f"{len(paths)} traces, {len(expected)} operations, {len(complaints)} complaints")
    return int(bool(complaints) or not expected)


if __name__ == "__main__":
    sys.exit(main())
