#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Puts the trace files of several ranks into one, for Perfetto or chrome://tracing.

Usage: trace_merge.py RANK0.json RANK1.json ... -o ALL.json

Ranks of one communicator share the time axis. Files of further communicators (another "world") get process numbers of their own, 10000
apart, because a rank's operations in two communicators may overlap.
"""
import argparse
import json
import sys

WORLD_STRIDE = 10000


def merge(paths):
    worlds, heads, events = [], [], []
    for path in paths:
        with open(path) as file:
            trace = json.load(file)
        head = trace["otherData"]
        if head["world"] not in worlds:
            worlds.append(head["world"])
        number = worlds.index(head["world"])
        for event in trace["traceEvents"]:
            event["pid"] += WORLD_STRIDE * number
            if number and event["name"] == "process_name":
                event["args"]["name"] = f"communicator {number}, {event['args']['name']}"
            events.append(event)
        heads.append(head)
    return {"displayTimeUnit": "ns", "otherData": {"files": heads}, "traceEvents": events}


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("files", nargs="+")
    parser.add_argument("-o", "--output", required=True)
    args = parser.parse_args()
    merged = merge(args.files)
    with open(args.output, "w") as file:
        json.dump(merged, file)
        file.write("\n")
    lost = sum(head["lost"] for head in merged["otherData"]["files"])
    print(f"{args.output}: {len(merged['traceEvents'])} events of {len(args.files)} files, {lost} operations lost")


if __name__ == "__main__":
    sys.exit(main())
