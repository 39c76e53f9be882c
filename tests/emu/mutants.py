#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Proves that the interpreter and the gates notice faults: every mutant of mutant_list.py, compiled to machine code, must be caught, and the kernels as they
are must pass the same schedules. The gates are asked for what the interpreter passes. Prints who caught what.

Usage: mutants.py list
       mutants.py make NAME ROOT FOLDER CLANG ARCH     compile one; a text of its edits that is not there exactly once is an error
       mutants.py run FOLDER PROGRAM HOOKED ARCH [--jobs N] [--schedules N] [--gate COMMAND]...
PROGRAM: schedules.c, built. HOOKED: test_gemm_hook.c, built. --gate: a command that gets a code object and fails, with a reason in its last line, when its rule is broken.
"""
import argparse
import re
import shlex
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from mutant_list import MUTANTS

FLAGS = ["-x", "hip", "--cuda-device-only", "--no-gpu-bundle-output", "-O3", "-nogpulib", "-nogpuinc", "-mcode-object-version=5", "-std=c++17",
         "-gline-tables-only"]
# What a report of schedules.c begins with, in the words of the table.
SIGNS = [("out of bounds", r"out of bounds|no allocation|outside"), ("hang", r"hang|steps|never"), ("race", r"race"),
         ("use before wait", r"before .*(wait|arriv)|in flight|outstanding|pending"), ("unwritten register", r"never written|uninitiali"),
         ("late store", r"after the end of its operation"), ("data", r"output and its surroundings|input and its surroundings|got .*, want"),
         ("protocol", r"the operation failed|was not noticed")]


# Reductions of types that schedules.c has none of: they cost seconds to compile.
UNUSED_TYPES = re.compile(r"^    case (?!1:|3:|7:)\d+: call##_\w+ ARGS; break; *\\\n", re.M)


def mutant_of(name):
    return next(m for m in MUTANTS if m.name == name)


def keep_only(text, kernels):
    """The source of a .hip file without the kernels that are not asked for: they cost seconds to compile."""
    text = re.sub(r"^#define GEMM_NAME (\w+)\n.*?^GEMM_HOOKS\(\1, \d+\)\n", lambda m: m.group() if m.group(1) in kernels else "", text, flags=re.M | re.S)
    text = re.sub(r"^(?:PUSH|LL)_KERNEL\((\w+), \d+\)\n", lambda m: m.group() if m.group(1) in kernels else "", text, flags=re.M)
    return re.sub(r"^CCL_KERNEL(?:_LARGE)?\((\w+),.*?^}\n", lambda m: m.group() if m.group(1) in kernels else "", text, flags=re.M | re.S)


def make(mutant, root, folder, clang, arch):
    place = folder / mutant.name
    shutil.rmtree(place, ignore_errors=True)
    for part in ("include/ccl", "kernels", "tests/emu/litmus"):
        shutil.copytree(root / part, place / part)
    for file, find, replacement in mutant.edits:
        text = (place / file).read_text()
        if text.count(find) != 1:
            sys.exit(f"mutant {mutant.name}: its text stands in {file} {text.count(find)} times, not once:\n{find}")
        (place / file).write_text(text.replace(find, replacement))
    lanes = place / "kernels" / "reduce_lanes.h"
    lanes.write_text(UNUSED_TYPES.sub("", lanes.read_text()))
    family = mutant.kernels[0].split("_")[0]
    source = place / "kernels" / "mutant.hip"
    source.write_text(keep_only((place / (mutant.source or f"kernels/{family}.hip")).read_text(), mutant.kernels))
    subprocess.run([clang, *FLAGS, f"--offload-arch={mutant.arch or arch}", "-Iinclude", "-Ikernels", "-o", folder / f"{mutant.name}.co", "kernels/mutant.hip"], cwd=place,
                   check=True)
    shutil.rmtree(place)


def sign_of(report):
    for name, pattern in SIGNS:
        if re.search(pattern, report):
            return name
    return "other"


def gate_verdicts(gates, code):
    caught = []
    for gate in gates:
        run = subprocess.run([*shlex.split(gate), str(code)], capture_output=True, text=True, timeout=120)
        if run.returncode != 0:
            caught.append("gate " + Path(next(w for w in shlex.split(gate) if w.endswith(".py"))).stem)
    return caught


def run_schedules(mutant, args, code):
    """The first report, or None."""
    count = args.schedules or mutant.schedules
    command = [args.program, "--arch", args.arch, "--kernel", mutant.case, "--only", str(mutant.only), "--schedules", str(count)]
    if code is not None:
        command += ["--replace", str(code)]
    if mutant.case == "gemm_hook":
        command = [args.hooked, mutant.arch, str(code)]
    try:
        run = subprocess.run(command, capture_output=True, text=True, timeout=300)
    except subprocess.TimeoutExpired:
        return "schedules.c did not end in 300 s"
    if run.returncode == 0:
        return None
    lines = [line for line in run.stderr.splitlines() if line.startswith("FAILED") or "test_gemm_hook.c:" in line or "gemm_numbers.h:" in line]
    return lines[0] if lines else f"exit code {run.returncode}: {run.stderr.strip()[-300:]}"


def judge(mutant, args):
    code = args.folder / f"{mutant.name}.co"
    report = run_schedules(mutant, args, code)
    asked = report is None and mutant.case != "gemm_hook"  # gates of the K loop: tests/isa
    return mutant, gate_verdicts(args.gate, code) if asked else [], report


def run_all(args):
    bad = 0
    print(f"{'mutant':26} {'caught by':34} fault, and the first report")
    with ThreadPoolExecutor(args.jobs) as pool:
        originals = {}
        for m in MUTANTS:
            if m.case != "gemm_hook":  # unmutated: emu.gemm_hook
                originals.setdefault((m.case, m.only), m)
        plain = [(m, pool.submit(run_schedules, m, args, None)) for m in originals.values()]
        for mutant, gates, report in pool.map(lambda m: judge(m, args), MUTANTS):
            caught = ([sign_of(report)] if report else []) + gates
            bad += bool(caught) if mutant.harmless else not caught
            said = ", ".join(caught) or ("passed, as it must" if mutant.harmless else "NOBODY")
            print(f"{mutant.name:26} {said:34} {mutant.what}")
            if report:
                print(f"{'':61} {report[:260]}")
            sys.stdout.flush()
        for m, future in plain:
            report = future.result()
            bad += report is not None
            print(f"unmutated {m.case}, operations {m.only}: {report or 'passed'}")
    faulty = sum(not m.harmless for m in MUTANTS)
    print(f"{faulty} mutants, {len(MUTANTS) - faulty} harmless variants, {bad} not caught or failing though they have no fault")
    return int(bad > 0)


def main():
    parser = argparse.ArgumentParser()
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list")
    maker = commands.add_parser("make")
    for name, kind in (("name", str), ("root", Path), ("folder", Path), ("clang", str), ("arch", str)):
        maker.add_argument(name, type=kind)
    runner = commands.add_parser("run")
    runner.add_argument("folder", type=Path)
    runner.add_argument("program")
    runner.add_argument("hooked")
    runner.add_argument("arch")
    runner.add_argument("--jobs", type=int, default=2)
    runner.add_argument("--schedules", type=int)
    runner.add_argument("--gate", action="append", default=[])
    args = parser.parse_args()
    if args.command == "list":
        print(";".join(m.name for m in MUTANTS), end="")
        return 0
    if args.command == "make":
        make(mutant_of(args.name), args.root.resolve(), args.folder.resolve(), args.clang, args.arch)
        return 0
    return run_all(args)


if __name__ == "__main__":
    sys.exit(main())
