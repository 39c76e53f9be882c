#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Proves that a kernel launched without tracing has no code for it: every compiler makes the same code from the sources as they are and from
a copy in which the notes of the time are deleted. That the check can see a difference is shown by the traced form.

Usage: check_trace_off.py ROOT CC [CC_OPTION ...] [--hip CLANG ARCH] [--nvcc NVCC ARCH]
"""
import argparse
import re
import shutil
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

NOTE = re.compile(r"CCL_TRACE_NOTE(?:_[A-Z]+)?\([^;]*\);")
INCLUDES = ["-Iinclude", "-Ikernels"]
HIP = ["-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", "-O3", "-nogpulib", "-nogpuinc", "-mcode-object-version=5",
       "-std=c++17", "-fuse-cuid=none", "-S"]
# PTX, of which the machine code is a function.
CUDA = ["-ptx", "-x", "cu", "-O3", "-std=c++17"]


def copy_tree(root, place, strip):
    """The kernel sources under place; returns how many notes there are."""
    notes = 0
    for folder in ("include", "kernels"):
        shutil.copytree(root / folder, place / folder)
    for file in (place / "kernels").iterdir():
        if file.name != "trace.h":
            text, count = NOTE.subn(";", file.read_text())
            notes += count
            if strip:
                file.write_text(text)
    return notes


def compile_text(place, command, source):
    """Assembly of one source; names that hold a number of the compilation are made equal."""
    run = subprocess.run(command + INCLUDES + ["-o", "-", source], cwd=place, capture_output=True, text=True)
    if run.returncode != 0:
        sys.exit(f"{' '.join(command)} {source}: {run.stderr[:2000]}")
    text = re.sub(r"_INTERNAL_[0-9a-f]{8}_", "_INTERNAL_", run.stdout)
    return "\n".join(line for line in text.splitlines() if not line.startswith("//"))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("root", type=Path)
    parser.add_argument("cc", nargs="*")
    parser.add_argument("--hip", nargs=2, metavar=("CLANG", "ARCH"))
    parser.add_argument("--nvcc", nargs=2, metavar=("NVCC", "ARCH"))
    args = parser.parse_args()
    jobs = []
    if args.cc:
        jobs.append((args.cc + ["-std=c11", "-D_GNU_SOURCE", "-O1", "-fPIC", "-fno-strict-aliasing", "-S"], "kernels/host.c"))
    for hip in sorted((args.root / "kernels").glob("*.hip")):
        source = f"kernels/{hip.name}"
        if "NEEDS __builtin_" in hip.read_text():  # for one compiler only, and without notes
            continue
        if args.hip:
            jobs.append(([args.hip[0]] + HIP + [f"--offload-arch={args.hip[1]}"], source))
        if args.nvcc:
            jobs.append(([args.nvcc[0]] + CUDA + [f"-arch={args.nvcc[1]}"], source))
    if not jobs:
        print("SKIPPED: no compiler was named")
        return 77
    wrong, seen = 0, {}
    with tempfile.TemporaryDirectory() as temp, ThreadPoolExecutor(2) as pool:
        plain, stripped = Path(temp, "plain"), Path(temp, "stripped")
        notes = copy_tree(args.root, plain, False)
        copy_tree(args.root, stripped, True)
        # The traced form of one source a compiler: push.hip has the most notes.
        runs = [(pool.submit(compile_text, plain, c, s), pool.submit(compile_text, stripped, c, s),
                 pool.submit(compile_text, plain, c + ["-DCCL_TRACED"], s) if "ll.hip" not in s else None) for c, s in jobs]
        for (command, source), (with_notes, without, traced) in zip(jobs, runs):
            same = with_notes.result() == without.result()
            differs = traced is not None and traced.result() != without.result()
            seen[command[0]] = seen.get(command[0], False) or differs
            lines = without.result().count("\n")
            print(f"{command[0]} {source}: {lines} lines, {'the same' if same else 'NOT the same'} without the notes")
            wrong += not same
    for compiler, differs in seen.items():
        if not differs:
            print(f"{compiler}: the traced form does not differ, so this check sees nothing")
            wrong += 1
    print(f"{notes} notes, {wrong} complaints")
    return int(wrong != 0 or notes == 0)


if __name__ == "__main__":
    sys.exit(main())
