#!/usr/bin/env python3
# SPDX-License-Identifier: MIT
"""Proves that a drop-in library has the soname and exactly the symbols it should have, that it needs no other library of ours, and that the programs
whose symbol lists are kept here link with it alone.

A list is a file of names, one a line. --both: of names that exist as NAME and as pNAME. Beside the lists the library exports what ccl.h declares.

Usage: check_symbols.py --nm NM --readelf READELF --cc CC --soname NAME --header CCL_H [--both LIST]... [--list LIST]... [--client LIST]... LIBRARY
"""
import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))
from check_exports import declared, exported  # noqa: E402


def names(path):
    return {line.strip() for line in Path(path).read_text().splitlines() if line.strip()}


def dynamic(readelf, library, kind):
    text = subprocess.run([readelf, "-d", library], check=True, capture_output=True, text=True).stdout
    return re.findall(rf"\({kind}\).*\[(.*)\]", text)


def links(cc, library, client):
    """Complaint of the linker about a program that uses every name of the list, or None."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder) / "client.c"
        used = sorted(names(client))
        source.write_text("".join(f"extern void s{i}(void) __asm__(\"{n}\");\n" for i, n in enumerate(used)) +
                          "void (*volatile sink)(void);\nint main(void) {\n" + "".join(f"sink = s{i};\n" for i in range(len(used))) +
                          "return 0; }\n")
        made = subprocess.run([cc, "-o", str(Path(folder) / "client"), str(source), library, "-Wl,--no-undefined", "-Wl,--allow-shlib-undefined"],
                              capture_output=True, text=True)
        return made.stderr if made.returncode != 0 else None


def main():
    p = argparse.ArgumentParser()
    for option in ("nm", "readelf", "cc", "soname", "header"):
        p.add_argument(f"--{option}", required=True)
    for option in ("both", "list", "client"):
        p.add_argument(f"--{option}", action="append", default=[])
    p.add_argument("library")
    a = p.parse_args()

    want = declared(a.header)
    for path in a.list:
        want |= names(path)
    for path in a.both:
        want |= names(path) | {"p" + n for n in names(path)}
    got = exported(a.nm, a.library)
    complaints = [f"{n} is in no list, but exported" for n in sorted(got - want)] + [f"{n} is not exported" for n in sorted(want - got)]
    soname = dynamic(a.readelf, a.library, "SONAME")
    if soname != [a.soname]:
        complaints.append(f"the soname is {soname}, not {a.soname}")
    complaints += [f"needs {n}" for n in dynamic(a.readelf, a.library, "NEEDED") if re.search(r"ccl|cuda|hip|hsa", n)]
    for client in a.client:
        failed = links(a.cc, a.library, client)
        if failed:
            complaints.append(f"{Path(client).name}: {failed}")
    print("\n".join(complaints))
    print(f"{len(want)} wanted, {len(got)} exported, {len(a.client)} clients linked, {len(complaints)} complaints")
    return int(bool(complaints) or len(want) < 100)


if __name__ == "__main__":
    sys.exit(main())
