#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Proves that the library exports exactly the functions that ccl.h declares with CCL_API, and has the right soname.

Usage: check_exports.py NM LIBRARY HEADER
"""
import re
import subprocess
import sys


def declared(header):
    text = re.sub(r"/\*.*?\*/", "", open(header).read(), flags=re.S)
    text = re.sub(r"^\s*#.*$", "", text, flags=re.M)
    declarations = re.findall(r"CCL_API\b([^;]*);", text)
    return {re.search(r"(\w+)\s*\(", d).group(1) for d in declarations}


def exported(nm, library):
    lines = subprocess.run([nm, "-D", "--defined-only", library], check=True, capture_output=True, text=True).stdout
    return {line.split()[-1].split("@")[0] for line in lines.splitlines() if line.strip()}


def main():
    nm, library, header = sys.argv[1:]
    want, got = declared(header), exported(nm, library)
    for name in sorted(want - got):
        print(f"{name} is declared in {header}, the library does not export it")
    for name in sorted(got - want):
        print(f"{name} is exported, {header} does not declare it")
    if not want:
        print(f"no CCL_API declaration found in {header}")
    print(f"{len(want)} declared, {len(got)} exported")
    return int(want != got or not want)


if __name__ == "__main__":
    sys.exit(main())
